//! What of the machine a confined program sees, what in it is covered, and why.
//!
//! Both are data with a reason for each line (`visible.json`, `hidden.json`). HOME is private and
//! empty inside, so a tool below it is visible only because its directory is on the user's PATH,
//! and with it what the tool cannot work without. Credentials that lie inside are covered.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

use crate::policy::{Network, Policy, Root};

/// Most directory entries looked at in the search for secrets: a large repository with its
/// dependencies. Beyond it the search fails, and with it the start, instead of missing one.
const ENTRIES_MAX: usize = 2_000_000;

/// Largest PEM file that is looked into: the certificates of all public authorities take 300 KB.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// What PEM blocks hold that everybody may read. Any other block is taken for a key.
const PUBLIC_BLOCKS: [&str; 9] = [
    "CERTIFICATE",
    "TRUSTED CERTIFICATE",
    "X509 CERTIFICATE",
    "X509 CRL",
    "CERTIFICATE REQUEST",
    "NEW CERTIFICATE REQUEST",
    "PUBLIC KEY",
    "RSA PUBLIC KEY",
    "PKCS7",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Visible {
    system: Vec<Root>,
    toolchains: Vec<Toolchain>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Toolchain {
    /// At or below this directory of HOME.
    on_path: String,
    /// Directories of HOME.
    needs: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hidden {
    machine: Vec<Root>,
    home: Vec<Root>,
    names: Vec<Named>,
    not_hidden: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    reason: String,
    /// Why a file of this name is not covered where it is part of the repository itself.
    #[serde(default)]
    shown_if_committed: Option<String>,
    /// Why a file of this name is not covered where it holds nothing but certificates and public keys.
    #[serde(default)]
    shown_if_public: Option<String>,
}

impl Named {
    /// A star stands for any text, at the beginning or at the end.
    fn matches(&self, name: &str) -> bool {
        match (self.name.strip_prefix('*'), self.name.strip_suffix('*')) {
            (Some(end), _) => name.ends_with(end),
            (_, Some(beginning)) => name.starts_with(beginning),
            _ => name == self.name,
        }
    }
}

fn visible_data() -> Visible {
    serde_json::from_str(include_str!("visible.json")).expect("BUG: visible.json is part of the program and not sound")
}

/// Read once: it is asked for every name of a repository.
fn hidden_data() -> &'static Hidden {
    static HIDDEN: LazyLock<Hidden> = LazyLock::new(|| {
        let text = include_str!("hidden.json");
        serde_json::from_str(text).expect("BUG: hidden.json is part of the program and not sound")
    });
    &HIDDEN
}

/// What a program started with this PATH by the owner of this HOME needs to see. Looks at nothing:
/// a path may be missing on the machine, which [`existing`] sorts out.
pub fn visible(path_var: &str, home: &Path) -> Vec<Root> {
    let data = visible_data();
    let mut roots = data.system;
    for directory in path_var.split(':').map(Path::new) {
        let covers_home = home.starts_with(directory);
        if !directory.is_absolute() || covers_home || below_any(directory, &roots) {
            continue;
        }
        let toolchain = data.toolchains.iter().find(|it| directory.starts_with(home.join(&it.on_path)));
        let found = match toolchain {
            Some(toolchain) => toolchain.needs.iter().map(|it| Root::new(home.join(it), &*toolchain.reason)).collect(),
            None => vec![Root::new(directory, "a directory on the PATH")],
        };
        for root in found {
            if !below_any(&root.path, &roots) {
                roots.push(root);
            }
        }
    }
    roots
}

fn below_any(path: &Path, roots: &[Root]) -> bool {
    roots.iter().any(|root| path.starts_with(&root.path))
}

/// Those that are there.
pub fn existing(roots: Vec<Root>) -> Vec<Root> {
    roots.into_iter().filter(|root| root.path.symlink_metadata().is_ok()).collect()
}

/// Known secrets of the machine and of HOME that lie inside `roots` and that the calling user could
/// read. What the user cannot read outside, the program cannot read inside.
pub fn secrets(roots: &[Root], home: &Path) -> Vec<Root> {
    let data = hidden_data();
    let of_home = data.home.iter().map(|root| Root::new(home.join(&root.path), root.reason.clone()));
    let access = rustix::fs::Access::READ_OK;
    data.machine
        .iter()
        .cloned()
        .chain(of_home)
        .filter(|root| below_any(&root.path, roots) && rustix::fs::access(&root.path, access).is_ok())
        .filter_map(|root| Some(Root::new(root.path.canonicalize().ok()?, root.reason)))
        .filter(|root| below_any(&root.path, roots))
        .collect()
}

/// Why a file or directory of this name is covered; `None` when it is not.
pub fn secret_name(name: &str) -> Option<String> {
    secret_in(hidden_data(), name)
}

/// Whether a file of this name is covered even where it is part of the repository.
pub fn is_secret_if_committed(name: &str) -> bool {
    let data = hidden_data();
    let shown = data.names.iter().any(|it| it.matches(name) && it.shown_if_committed.is_some());
    !shown && secret_in(data, name).is_some()
}

fn secret_in(data: &Hidden, name: &str) -> Option<String> {
    if data.not_hidden.iter().any(|it| it.matches(name)) {
        return None;
    }
    data.names.iter().find(|it| it.matches(name)).map(|it| it.reason.clone())
}

/// Whether a name that looks like a key file belongs to one that holds only certificates and public keys. What cannot be
/// read, is too large or has no PEM block at all stays covered.
fn is_public(data: &Hidden, name: &str, path: &Path) -> bool {
    let judged_by_content = data.names.iter().any(|it| it.matches(name) && it.shown_if_public.is_some());
    judged_by_content
        && read_regular(path).is_ok_and(|bytes| holds_only_public_blocks(&String::from_utf8_lossy(&bytes)))
}

/// The content of a regular file. Its name may have become a link or a pipe since the directory was read.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let found = file.metadata()?;
    if !found.is_file() || found.len() > PEM_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(PEM_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn holds_only_public_blocks(text: &str) -> bool {
    let mut labels = text.split("-----BEGIN ").skip(1).map(|rest| rest.split("-----").next().unwrap_or_default());
    let first = labels.next();
    let is_public = |label: &str| PUBLIC_BLOCKS.contains(&label);
    first.is_some_and(is_public) && labels.all(is_public) && !text.contains("PRIVATE KEY")
}

/// Everything below `root` whose name says that it is a secret, apart from certificates. `.git` is not searched: it is
/// protected as a whole. Symbolic links are not followed and not covered: what they lead to is
/// covered, or not visible. Any failure to look is an error, never a secret that was missed.
pub fn find_secrets(root: &Path) -> io::Result<Vec<Root>> {
    let data = hidden_data();
    let (mut found, mut open, mut seen) = (Vec::new(), vec![root.to_path_buf()], 0);
    while let Some(directory) = open.pop() {
        let context = |error: io::Error| {
            io::Error::new(error.kind(), format!("could not search {}: {error}", directory.display()))
        };
        for entry in fs::read_dir(&directory).map_err(context)? {
            let entry = entry.map_err(context)?;
            let kind = entry.file_type().map_err(context)?;
            seen += 1;
            if seen > ENTRIES_MAX {
                return Err(context(io::Error::other(format!("more than {ENTRIES_MAX} files"))));
            }
            let name = entry.file_name();
            let shown = name.to_string_lossy();
            let secret = secret_in(data, &shown).filter(|_| kind.is_file() || kind.is_dir());
            if let Some(reason) = secret.filter(|_| !(kind.is_file() && is_public(data, &shown, &entry.path()))) {
                found.push(Root::new(entry.path(), reason));
            } else if kind.is_dir() && name != ".git" {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// One line of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `read`, `write`, `protected`, `hidden`, `overlay`, `empty`, `private`, `network`, `limit` or `refused`.
    pub what: &'static str,
    /// What it is about.
    pub subject: String,
    /// Why it is so.
    pub reason: String,
}

/// A policy for people, line by line.
pub fn explain(policy: &Policy) -> Vec<Line> {
    let line = |what, subject: String, reason: &str| Line { what, subject, reason: reason.to_owned() };
    let path = |path: &PathBuf| path.display().to_string();
    let mut lines = Vec::new();
    let lists = [
        ("read", &policy.read),
        ("write", &policy.write),
        ("protected", &policy.protected),
        ("write", &policy.opened),
        ("hidden", &policy.hidden),
    ];
    for (what, roots) in lists {
        lines.extend(roots.iter().map(|root| line(what, path(&root.path), &root.reason)));
    }
    for overlay in &policy.overlays {
        lines.push(line("overlay", path(&overlay.path), &overlay.reason));
    }
    for placed in &policy.placed {
        lines.push(line(if placed.writable { "write" } else { "read" }, path(&placed.path), &placed.reason));
    }
    lines.extend(policy.empty.iter().map(|root| line("empty", path(&root.path), &root.reason)));
    lines.push(line("private", path(&policy.home), "an empty home that is gone afterwards"));
    for own in crate::effective::PRIVATE {
        lines.push(line("private", own.to_owned(), "empty, and gone afterwards"));
    }
    match &policy.network {
        Network::Deny => lines.push(line("network", "none".to_owned(), "only a loopback of its own")),
        Network::Allow(list) => {
            lines.extend(list.iter().map(|it| line("network", it.to_string(), "allowed, through norma's proxy")));
        }
    }
    let limits = &policy.limits;
    let all = [
        (format!("{} processes", limits.pids), "fork bombs"),
        (format!("{} bytes of memory", limits.memory_bytes), "the machine stays usable"),
        (format!("{} seconds of processor time", limits.cpu_seconds), "the machine stays usable"),
        (format!("{} bytes in one file", limits.file_bytes), "the disk does not fill up"),
        (format!("{} bytes in private directories", limits.disk_bytes), "the memory they live in does not fill up"),
        (format!("{} open files", limits.open_files), "the machine stays usable"),
    ];
    lines.extend(all.into_iter().map(|(subject, reason)| line("limit", subject, reason)));
    let refused = crate::setup::DENIED.iter().chain(crate::setup::DENIED_NEW);
    lines.extend(refused.map(|call| line("refused", call.name.to_owned(), call.reason)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::sample;

    fn check(path_var: &str, expected: &[&str]) {
        let home = Path::new("/home/ada");
        let system = visible_data().system.len();
        let found = visible(path_var, home);
        let paths: Vec<_> = found[system..].iter().map(|it| it.path.display().to_string()).collect();
        assert_eq!(paths, expected, "{path_var}");
    }

    #[test]
    fn tools_on_the_path_bring_what_they_need_and_nothing_else() {
        check("/usr/bin:/bin", &[]);
        check("/home/ada/.cargo/bin:/usr/bin", &["/home/ada/.cargo", "/home/ada/.rustup"]);
        check("/home/ada/.nvm/versions/node/v24/bin:/home/ada/.nvm/x", &["/home/ada/.nvm"]);
        check("/home/ada/tools:/srv/tools/bin", &["/home/ada/tools", "/srv/tools/bin"]);
    }

    #[test]
    fn the_home_is_never_visible_because_of_the_path() {
        check("/home/ada:/home:/:.:", &[]);
        check("bin:../x", &[]);
    }

    #[test]
    fn the_data_is_sound_and_every_line_has_its_reason() {
        let (visible, hidden) = (visible_data(), hidden_data());
        let roots = visible.system.iter().chain(&hidden.machine).chain(&hidden.home).map(|it| &it.reason);
        let others = visible.toolchains.iter().map(|it| &it.reason);
        let names = hidden.names.iter().chain(&hidden.not_hidden).map(|it| &it.reason);
        assert!(roots.chain(others).chain(names).all(|reason| !reason.trim().is_empty()));
        assert!(hidden.home.iter().all(|it| it.path.is_relative()));
        assert!(visible.system.iter().chain(&hidden.machine).all(|it| it.path.is_absolute()));
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in [".env", ".env.local", "server.pem", "id_ed25519", ".npmrc"] {
            assert!(secret_name(name).is_some(), "{name}");
        }
        for (name, covered) in
            [(".env", true), ("id_rsa", true), ("tests/x.pem", false), (".npmrc", false), ("x", false)]
        {
            assert_eq!(is_secret_if_committed(name), covered, "{name}");
        }
        for name in [".env.example", "env", "main.rs", "environment.ts"] {
            assert!(secret_name(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_tree_is_searched_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("a/b/.ssh")).expect("make");
        fs::create_dir_all(at(".git")).expect("make");
        for name in ["a/.env", "a/b/x.pem", "a/.env.example", ".git/.env", "a/b/.ssh/id_rsa"] {
            fs::write(at(name), "x").expect("write");
        }
        std::os::unix::fs::symlink("/etc/passwd", at("link.pem")).expect("link");
        let found = find_secrets(directory.path()).expect("search");
        let paths: Vec<_> = found.into_iter().map(|it| it.path).collect();
        assert_eq!(paths, [at("a/.env"), at("a/b/.ssh"), at("a/b/x.pem")]);
        assert!(find_secrets(&at("missing")).is_err());
    }

    #[test]
    fn certificates_are_not_private_keys() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let block = |label: &str| format!("-----BEGIN {label}-----\nMIIB\n-----END {label}-----\n");
        let certificates = format!("# Some authority\n{0}\n{0}", block("CERTIFICATE"));
        let files = [
            ("cacert.pem", certificates.clone()),
            ("public.pem", block("PUBLIC KEY")),
            ("server.pem", certificates.clone() + &block("PRIVATE KEY")),
            ("key.pem", block("EC PRIVATE KEY")),
            ("cut.pem", certificates + "-----BEGIN RSA PRIVATE"),
            ("empty.pem", String::new()),
        ];
        for (name, content) in files {
            fs::write(at(name), content).expect("write");
        }
        fs::create_dir(at("directory.pem")).expect("make");
        let found = find_secrets(directory.path()).expect("search");
        let paths: Vec<_> = found.into_iter().map(|it| it.path).collect();
        assert_eq!(paths, ["cut.pem", "directory.pem", "empty.pem", "key.pem", "server.pem"].map(at));
    }

    #[test]
    fn an_explanation_names_every_root_with_its_reason() {
        let lines = explain(&sample());
        let has = |what, subject: &str| lines.iter().any(|it| it.what == what && it.subject == subject);
        assert!(has("read", "/usr") && has("write", "/srv/work") && has("protected", "/srv/work/.git"));
        assert!(has("hidden", "/srv/work/.env") && has("private", "/home/agent") && has("network", "none"));
        assert!(has("refused", "ptrace"));
        assert!(lines.iter().all(|line| !line.reason.is_empty()));
    }
}
