//! The checkpoint: where the audit log ended when it was last looked at, signed and kept outside the repository. By it
//! a state directory that was rolled back is noticed when the lock is taken, and not only by whoever verifies a run. It
//! is written when a run is sealed and soon after anything else, so that an owner which works for months, or is killed,
//! leaves a recent one.

use crate::{Error, Keys, Result, Trust};
use contract::{Audit, AuditHead};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use store::{AuditEnd, Reader, Store};

/// How long after a change of the audit log its checkpoint is written at the latest, while the owner works.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// How the audit log that was found relates to the checkpoint.
pub(crate) enum Compared {
    /// It continues from there, or nothing was kept yet.
    Same,
    /// There was no log at all: the state directory was made anew.
    Anew(AuditHead),
    /// It does not lead over what was kept.
    RolledBack(Rollback),
}

/// A state directory that is not the one that was left.
pub(crate) struct Rollback {
    /// What was kept; none if it cannot be read.
    pub(crate) expected: Option<AuditHead>,
    /// Where the log ends.
    pub(crate) found: AuditHead,
    why: String,
}

impl From<Rollback> for Error {
    fn from(rollback: Rollback) -> Error {
        Error::RolledBack(rollback.why)
    }
}

/// Compares the audit log with the checkpoint, before anything is appended.
pub(crate) fn compare(store: &Store, trust: &Trust) -> Result<Compared> {
    let (seq, hash) = store.audit_head()?;
    let found = AuditHead { seq, hash };
    let reader = Reader::open(&store.layout)?;
    Ok(match (trust.checkpoint(), problem(&reader, trust)?) {
        (_, None) => Compared::Same,
        (Ok(Some(expected)), Some(_)) if store.is_new => Compared::Anew(expected),
        (checkpoint, Some(why)) => Compared::RolledBack(Rollback { expected: checkpoint.ok().flatten(), found, why }),
    })
}

/// What is wrong with the audit log by the last checkpoint, if anything is.
pub fn problem(reader: &Reader, trust: &Trust) -> Result<Option<String>> {
    let expected = match trust.checkpoint() {
        Ok(Some(expected)) => expected,
        Ok(None) => return Ok(None),
        Err(why) => return Ok(Some(why)),
    };
    if reader.audit_follows((expected.seq, expected.hash))? {
        return Ok(None);
    }
    let lines = reader.audit_length()?;
    let AuditHead { seq, hash } = expected;
    Ok(Some(match lines < seq {
        true => format!(
            "the state directory was rolled back: its audit log has {lines} lines, and had {seq} at the last checkpoint"
        ),
        false => format!(
            "the state directory was rewritten: line {seq} of its audit log is not the one of the last checkpoint ({hash})"
        ),
    }))
}

/// Puts on record that the log continues although it is another one, and keeps a checkpoint of that.
pub(crate) fn accept(
    store: &Store,
    trust: &Trust,
    keys: &Keys,
    (expected, found): (Option<AuditHead>, AuditHead),
    (reason, by): (String, String),
) -> Result<AuditHead> {
    store.audit(Audit::CheckpointAccepted { expected, found, reason, by }).wait()?;
    let (seq, hash) = store.audit_head()?;
    trust.keep_checkpoint(AuditHead { seq, hash }, keys)?;
    Ok(AuditHead { seq, hash })
}

/// Writes checkpoints while the owner works, and the last one when it is dropped.
pub(crate) struct Keeper {
    end: Arc<AuditEnd>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts with what is kept already.
    pub(crate) fn start(store: &Store, trust: &Trust, keep: impl Fn(AuditHead) + Send + 'static) -> Result<Keeper> {
        let end = store.audit_end();
        let kept = trust.checkpoint().ok().flatten().map_or(0, |kept| kept.seq);
        let watched = end.clone();
        let main = move || {
            let mut seen = kept;
            while let Some((seq, hash)) = watched.next(seen, DELAY_MAX) {
                keep(AuditHead { seq, hash });
                seen = seq;
            }
        };
        let thread = std::thread::Builder::new().name("norma-checkpoint".into()).spawn(main);
        let thread = thread.map_err(|source| Error::io("keep a checkpoint of", &store.layout.state, source))?;
        Ok(Keeper { end, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
