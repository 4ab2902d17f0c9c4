//! What the supervisor is to run, on its way there. It travels in a memory file, not as arguments and environment of
//! the supervisor: so a supervisor can be started before anybody knows what for, and neither the length of a
//! command nor the size of an environment has to fit into a message.

use super::Command;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

/// The part of a [`Command`] that the supervisor needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) program: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: BTreeMap<OsString, OsString>,
}

/// Writes it down as a memory file.
pub(super) fn pack(command: &Command) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("norma-command", MemfdFlags::CLOEXEC)?);
    file.write_all(&encode(command))?;
    Ok(file.into())
}

/// Reads it back.
pub(super) fn unpack(file: OwnedFd) -> io::Result<Spec> {
    let mut file = File::from(file);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    decode(&bytes).ok_or_else(|| io::Error::other("the command cannot be read"))
}

/// Every text with its length before it; lists with their count.
fn encode(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, command.program.as_os_str());
    put(&mut bytes, command.cwd.as_os_str());
    bytes.extend((command.args.len() as u64).to_le_bytes());
    command.args.iter().for_each(|arg| put(&mut bytes, arg));
    bytes.extend((command.env.len() as u64).to_le_bytes());
    for (name, value) in &command.env {
        put(&mut bytes, name);
        put(&mut bytes, value);
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, text: &OsStr) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn decode(mut bytes: &[u8]) -> Option<Spec> {
    let rest = &mut bytes;
    let (program, cwd) = (PathBuf::from(text(rest)?), PathBuf::from(text(rest)?));
    let args = (0..number(rest)?).map(|_| text(rest)).collect::<Option<_>>()?;
    let env = (0..number(rest)?).map(|_| Some((text(rest)?, text(rest)?))).collect::<Option<_>>()?;
    rest.is_empty().then_some(Spec { program, cwd, args, env })
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

fn text(rest: &mut &[u8]) -> Option<OsString> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(OsString::from_vec(text.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Limits;
    use std::time::Duration;

    #[test]
    fn a_command_arrives_as_it_was_sent() {
        let command = Command {
            program: "/bin/x y".into(),
            args: vec!["".into(), "a\nb".into(), OsString::from_vec(vec![0xff, 0])],
            cwd: "/".into(),
            env: BTreeMap::from([("A".into(), "=1".into()), ("B".into(), "".into())]),
            stdin: vec![1, 2],
            limits: Limits { wall: Duration::MAX, idle: None, output_bytes_max: 1, clock: None },
        };
        let spec = unpack(pack(&command).unwrap()).unwrap();
        assert_eq!(
            (&spec.program, &spec.cwd, &spec.args, &spec.env),
            (&command.program, &command.cwd, &command.args, &command.env)
        );
    }

    #[test]
    fn a_command_that_was_cut_off_is_not_read() {
        let command = Command {
            program: "/bin/true".into(),
            args: vec!["a".into()],
            cwd: "/".into(),
            env: BTreeMap::new(),
            stdin: Vec::new(),
            limits: Limits { wall: Duration::MAX, idle: None, output_bytes_max: 1, clock: None },
        };
        let bytes = encode(&command);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
    }
}
