//! The private home of an agent for one turn: settings that norma wrote, and copies of the files that hold its sign-in
//! with its provider. A sign-in that the agent renewed is brought back, since the old one may be worth nothing any more:
//! from a turn that ended well only, and only if nothing but its tokens differs.

use super::ongoing;
use crate::{Error, Result};
use contract::time::Timestamp;
use rustix::fs::{FlockOperation, Mode, OFlags};
use session::{Kind, Launch};
use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Largest file of a sign-in.
const SIGN_IN_BYTES_MAX: u64 = 1 << 20;

/// A home on the machine's side.
pub(super) struct Home {
    /// Where it is until it is removed.
    pub(super) dir: PathBuf,
    /// Files of the user's own home that were copied into it, with what they held.
    copied: Vec<(&'static str, Vec<u8>)>,
    /// Whose sign-in they are, and the home they are from.
    sign_in: Option<(Kind, PathBuf)>,
}

/// How a turn ended, as far as its sign-in depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnEnd {
    /// The agent answered, and left as it should.
    Well(Timestamp),
    /// Anything else.
    Badly,
}

impl Home {
    /// Makes the home with everything that the launch asks for, over the files of the conversation that continues.
    pub(super) fn furnish(
        dir: PathBuf,
        launch: &Launch,
        sign_in: Option<(Kind, &Path)>,
        ongoing: Option<(Kind, &Path)>,
    ) -> Result<Home> {
        store::remove_tree(&dir)?;
        make_dir(&dir)?;
        if let Some((kind, files)) = ongoing {
            ongoing::bring(kind, files, &dir)?;
        }
        let mut home = Home { dir, copied: Vec::new(), sign_in: sign_in.map(|(kind, home)| (kind, home.to_owned())) };
        for (path, content) in &launch.files {
            home.put(path, content)?;
        }
        if let Some((kind, user_home)) = sign_in {
            for file in session::sign_in_files(kind) {
                if let Some(content) = read(&user_home.join(file))? {
                    home.put(file, &content)?;
                    home.copied.push((file, content));
                }
            }
        }
        Ok(home)
    }

    fn put(&self, path: &str, content: &[u8]) -> Result<()> {
        let to = self.dir.join(path);
        make_dir(to.parent().unwrap_or(&self.dir))?;
        let written = File::options().write(true).create(true).truncate(true).mode(0o600).open(&to);
        written.and_then(|mut file| file.write_all(content)).map_err(|source| Error::io("write", &to, source))
    }

    /// Brings back what the agent renewed of its sign-in; what it left is in `changed`, or in the home itself. Whatever
    /// else it did to those files is dropped, and a note says so.
    pub(super) fn bring_back(&self, changed: Option<&OwnedFd>, end: TurnEnd) -> Result<Vec<String>> {
        let (Some((kind, user_home)), mut notes) = (&self.sign_in, Vec::new()) else { return Ok(Vec::new()) };
        let again = session::sign_in(*kind).unwrap_or(kind.as_str());
        for (file, before) in &self.copied {
            let left = match changed {
                Some(layer) => read_below(layer, file),
                None => read(&self.dir.join(file))?,
            };
            let Some(left) = left.filter(|left| left != before) else { continue };
            let checked = match end {
                TurnEnd::Badly => Err("the turn did not end well".to_owned()),
                TurnEnd::Well(now) => session::check_renewed(*kind, file, before, &left, now),
            };
            notes.push(match checked {
                Err(why) => format!(
                    "{file}: the agent changed its sign-in, and yours was kept: {why}; should {kind} ask you to sign in: {again}",
                    kind = kind.as_str()
                ),
                Ok(()) if replace(&user_home.join(file), before, &left)? => {
                    format!("{file}: the agent renewed its sign-in")
                }
                Ok(()) => format!("{file}: the agent renewed its sign-in, but yours has changed meanwhile and was kept"),
            });
        }
        Ok(notes)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What stays behind goes with the run's workspaces.
        let _ = store::remove_tree(&self.dir);
    }
}

pub(super) fn make_dir(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| Error::io("create", dir, source))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    match File::open(path).and_then(|file| file.take(SIGN_IN_BYTES_MAX).read_to_end(&mut content)) {
        Ok(_) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("read", path, source)),
    }
}

/// A file of what an agent changed, reached by names only: a link could lead anywhere.
fn read_below(layer: &OwnedFd, path: &str) -> Option<Vec<u8>> {
    let mut dir = layer.try_clone().ok()?;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
        dir = rustix::fs::openat(dir.as_fd(), parent, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    }
    let file = File::from(rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty()).ok()?);
    let mut content = Vec::new();
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    file.take(SIGN_IN_BYTES_MAX).read_to_end(&mut content).ok()?;
    Some(content)
}

/// Replaces a file of the user's, whole, unless somebody changed it meanwhile: two agents may have been given the same.
fn replace(path: &Path, before: &[u8], after: &[u8]) -> Result<bool> {
    let failed = |source| Error::io("renew the sign-in in", path, source);
    let lock = path.with_extension("norma-lock");
    let locked = File::options().write(true).create(true).truncate(false).mode(0o600).open(&lock).map_err(failed)?;
    rustix::fs::flock(&locked, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
    if read(path)?.as_deref() != Some(before) {
        return Ok(false);
    }
    let tmp = path.with_extension("norma-tmp");
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&tmp).map_err(failed)?;
    file.write_all(after).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&tmp, path).map_err(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use session::Protocol;
    use std::collections::BTreeMap;

    const FILE: &str = ".claude/.credentials.json";
    const NOW_MS: u64 = 1_769_180_101_000;

    fn signed_in(access: &str, expires: u64) -> Value {
        json!({"claudeAiOauth": {"accessToken": access, "refreshToken": "r", "expiresAt": expires, "scopes": ["user"]}})
    }

    /// What the user's file holds after a turn whose agent left `left` in its place, and what is noted.
    fn after_turn(left: &Value, end: TurnEnd) -> (Value, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let (user, layer) = (folder.path().join("user"), folder.path().join("layer"));
        for dir in [&user, &layer] {
            make_dir(&dir.join(".claude")).unwrap();
        }
        std::fs::write(user.join(FILE), signed_in("mine", NOW_MS - 1).to_string()).unwrap();
        let launch = Launch {
            args: Vec::new(),
            env: BTreeMap::new(),
            files: Vec::new(),
            protocol: Protocol::ClaudeStream,
            configured: Value::Null,
        };
        let home = Home::furnish(folder.path().join("home"), &launch, Some((Kind::Claude, &user)), None).unwrap();
        std::fs::write(layer.join(FILE), left.to_string()).unwrap();
        let layer = OwnedFd::from(File::open(&layer).unwrap());
        let notes = home.bring_back(Some(&layer), end).unwrap();
        let kept = serde_json::from_slice(&std::fs::read(user.join(FILE)).unwrap()).unwrap();
        (kept, notes)
    }

    #[test]
    fn a_renewed_sign_in_is_brought_back_from_a_turn_that_ended_well_only() {
        let renewed = signed_in("renewed", NOW_MS + 3_600_000);
        let (kept, notes) = after_turn(&renewed, TurnEnd::Well(Timestamp::from_unix_ms(NOW_MS)));
        assert_eq!((kept, notes), (renewed.clone(), vec![format!("{FILE}: the agent renewed its sign-in")]));
        let (kept, notes) = after_turn(&renewed, TurnEnd::Badly);
        let note = "the agent changed its sign-in, and yours was kept: the turn did not end well; should claude ask you to \
                    sign in: claude auth login";
        assert_eq!((kept, notes), (signed_in("mine", NOW_MS - 1), vec![format!("{FILE}: {note}")]));
    }

    #[test]
    fn nothing_but_the_tokens_of_a_sign_in_is_brought_back() {
        let mut other = signed_in("renewed", NOW_MS + 3_600_000);
        other["mcpOAuth"] = json!({"evil": {"accessToken": "x"}});
        for left in [other, json!({}), json!([]), signed_in("", NOW_MS + 1000), signed_in("stale", NOW_MS - 1)] {
            let (kept, notes) = after_turn(&left, TurnEnd::Well(Timestamp::from_unix_ms(NOW_MS)));
            assert_eq!(kept, signed_in("mine", NOW_MS - 1), "{left}");
            assert!(notes.len() == 1 && notes[0].contains("yours was kept"), "{notes:?}");
        }
    }
}
