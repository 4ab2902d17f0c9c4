//! `norma export`: a sealed run as one file that can be checked elsewhere.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use store::{IoContext, Reader};

/// Write a sealed run to one file that can be verified elsewhere
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma export @last -o bundle.tar\n  norma keys export -o keys/norma.pem\n  norma-verify bundle.tar --trust keys/"
)]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let user = here.repository()?;
        let layout = here.layout_of(&user);
        let reader = Reader::open(&layout)?;
        let slug = reader.find_run(&self.run)?;
        let trust = here.trust_of(&layout);
        let path = here.cwd.join(&self.output);
        let bytes = whole(&path, |out| Ok(runner::export(&reader, &trust, &user, &slug, out)?))?;
        let key = trust.keys()?.public().id();
        let value = serde_json::json!({"run_id": slug, "bundle": path, "bytes": bytes, "key_id": key});
        Ok(here.print(&value, || {
            format!(
                "{slug} is in {} ({bytes} bytes), signed with key {key}\nnext: norma keys export -o keys/norma.pem; check it elsewhere: norma-verify {} --trust keys/",
                self.output.display(),
                self.output.display()
            )
        }))
    }
}

/// Writes a file that is there whole or not at all; answers how long it is.
fn whole(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Outcome<()>) -> Outcome<u64> {
    let tmp = store::temporary_name(path);
    let written = File::create_new(&tmp).at("create", &tmp).map_err(Into::into).and_then(|file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        let file = out.into_inner().map_err(std::io::IntoInnerError::into_error).at("write", &tmp)?;
        let bytes = file.sync_all().and_then(|()| file.metadata()).at("sync", &tmp)?.len();
        std::fs::rename(&tmp, path).at("rename to", path)?;
        Ok(bytes)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&tmp);
    }
    written
}
