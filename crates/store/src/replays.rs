//! Reports of replays. They lie outside of the runs they are about, so that a run can be replayed any number of times and
//! not a byte of it changes; the audit log vouches for each of them.

use crate::seal::write_whole;
use crate::{Error, IoContext, Reader, Result, Store};
use contract::documents::ReexecStatus;
use contract::replay::ReplayMode;
use contract::{Audit, Timestamp};
use std::path::{Path, PathBuf};

impl Store {
    /// Keeps the report of a replay, and puts on record that it is there; answers where.
    pub fn keep_replay(
        &self,
        slug: &str,
        mode: ReplayMode,
        status: ReexecStatus,
        at: Timestamp,
        report: &[u8],
    ) -> Result<PathBuf> {
        // The name becomes part of a path.
        if Reader::open(&self.layout)?.run(slug)?.is_none() {
            return Err(Error::Refused(format!("there is no run {slug}")));
        }
        let dir = self.layout.replays(slug);
        std::fs::create_dir_all(&dir).at("create", &dir)?;
        let path = free_name(&dir, at, mode);
        write_whole(&path, report)?;
        let report = contract::hash::sha256(report);
        self.audit(Audit::Replayed { run_id: slug.parse()?, mode, status, report }).wait()?;
        Ok(path)
    }
}

/// `20260123T145501.042Z-rehydrate.json`; two of the same moment do not share a name.
fn free_name(dir: &Path, at: Timestamp, mode: ReplayMode) -> PathBuf {
    let at = at.to_string().replace(['-', ':'], "");
    let name = |more: u32| match more {
        1 => dir.join(format!("{at}-{mode}.json")),
        _ => dir.join(format!("{at}-{mode}-{more}.json")),
    };
    (1..).map(name).find(|path| !path.exists()).expect("BUG: a directory has room for one more name")
}
