//! What cargo has built of other people's packages in the user's `target`, shown in workspaces so that neither agents nor
//! tests build it anew. It is a lower layer of hard links: what is written over it goes to the layer of the turn or of the
//! test, so the user's files stay as they are, no change has it, and a test never sees what an agent built.
//!
//! Nothing that was built from the repository itself is among it. The checkout may have uncommitted work, and cargo goes
//! by times: a stale artifact of a member would be taken for the commit's. Packages with a source (a registry, a git
//! commit) are told apart by their identity instead, so what is shown of them is right for every tree, but for one that
//! replaces their sources by files of its own.

use crate::Result;
use crate::git::tree::MODE_TREE;
use crate::git::{ObjectId, Objects, Repository};
use crate::workspace::dependencies::{is_own_directory, joined, projects};
use sandbox::Level;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where cargo builds, beside `Cargo.lock`.
const TARGET: &str = "target";

/// More than this is not linked: it would take longer than it saves.
const FILES_MAX: usize = 100_000;

/// How deep a directory of builds is looked into; build scripts write whole trees.
const DEPTH_MAX: usize = 32;

/// One directory that cargo builds in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builds {
    /// The project, from the root.
    project: String,
    /// The packages with a source, by name.
    packages: BTreeSet<String>,
}

/// What was found in the checkout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What can be shown.
    pub shown: Vec<Builds>,
    /// What is there and cannot, and what to do about it, in words.
    pub left_out: Vec<String>,
}

/// Looks at the checkout. `state` is where links would be made; at levels where the program is somebody else, who is given
/// every file of a workspace, nothing is shown.
pub fn find(user: &Repository, state: &Path, level: Level) -> Found {
    let mut found = Found::default();
    for project in projects(&user.root) {
        let target = joined(&project, TARGET);
        let lock = fs::read_to_string(user.root.join(joined(&project, "Cargo.lock")));
        let Some(lock) = lock.ok().filter(|_| is_own_directory(&user.root.join(&target))) else { continue };
        let why_not = match device(state) == device(&user.root.join(&target)) {
            _ if level != Level::A => "the sandbox cannot share it below level A",
            false => "the state directory is on another file system",
            true => {
                found.shown.push(Builds { project, packages: packages(&lock) });
                continue;
            }
        };
        found.left_out.push(format!(
            "{target} is not shown to the agent: {why_not}, so cargo builds anew; to have that done once for a commit: \
             \"workspace\": {{\"setup\": [\"cargo\", \"build\", \"--tests\"], \"cache_paths\": [\"{target}\"]}}"
        ));
    }
    found
}

/// The file system of a path, or of what is above it where it is not there yet.
fn device(path: &Path) -> Option<u64> {
    path.ancestors().find_map(|path| fs::metadata(path).ok()).map(|found| found.dev())
}

/// The names of packages that have a source, and of which no other is the repository's own.
fn packages(lock: &str) -> BTreeSet<String> {
    let (mut sourced, mut own) = (BTreeSet::new(), BTreeSet::new());
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        let Some(name) = value("name") else { continue };
        if value("source").is_some() {
            sourced.insert(name)
        } else {
            own.insert(name)
        };
    }
    sourced.difference(&own).cloned().collect()
}

impl Builds {
    /// Whether it is right for a tree of a run from this base: nothing is committed in its place, and packages come from
    /// where they say. What cargo is told there is the user's own, so a change of it is not read but counts as a no.
    pub fn fits(&self, objects: &Objects, tree: ObjectId, base: ObjectId) -> Result<bool> {
        if objects.tree_entry(tree, joined(&self.project, TARGET).as_bytes())?.is_some() {
            return Ok(false);
        }
        // cargo reads those of the directories above as well.
        for directory in ["", &self.project] {
            let settings = joined(directory, ".cargo");
            let found = objects.tree_entry(base, settings.as_bytes())?;
            if objects.tree_entry(tree, settings.as_bytes())? != found
                || found.is_some_and(|(mode, _)| mode != MODE_TREE)
            {
                return Ok(false);
            }
            for name in ["config.toml", "config"] {
                if let Some((_, blob)) = objects.tree_entry(base, format!("{settings}/{name}").as_bytes())? {
                    let text = String::from_utf8_lossy(&objects.read_blob(blob)?).into_owned();
                    if ["source", "include"].iter().any(|key| text.contains(key)) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Links what can be shown below `layer`, at its place in the repository.
    pub fn link(&self, root: &Path, layer: &Path) -> io::Result<()> {
        let inside = joined(&self.project, TARGET);
        let (from, to) = (root.join(&inside), layer.join(&inside));
        let mut links = Links { root, target: &from, left: FILES_MAX };
        fs::create_dir_all(&to)?;
        for name in [".rustc_info.json", "CACHEDIR.TAG"] {
            links.link(&from.join(name), &to.join(name))?;
        }
        for profile in profiles(&from) {
            links.profile(&from.join(&profile), &to.join(&profile), &self.packages)?;
        }
        Ok(())
    }
}

/// The directories with builds: `debug`, `release`, those of other profiles, and the same below the name of a platform.
fn profiles(target: &Path) -> Vec<PathBuf> {
    let inner = |dir: &Path| -> Vec<PathBuf> {
        let names = entries(&target.join(dir)).into_iter().map(|(name, _)| dir.join(name));
        names.filter(|path| is_own_directory(&target.join(path))).collect()
    };
    let is_profile = |path: &PathBuf| is_own_directory(&target.join(path).join(".fingerprint"));
    let first = inner(Path::new(""));
    let second = first.iter().filter(|path| !is_profile(path)).flat_map(|path| inner(path)).collect::<Vec<_>>();
    first.into_iter().chain(second).filter(is_profile).collect()
}

/// What is in a directory, sorted; nothing if it cannot be read.
fn entries(dir: &Path) -> Vec<(String, fs::FileType)> {
    let listed = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<(String, fs::FileType)> =
        listed.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.file_type().ok()?))).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

struct Links<'a> {
    root: &'a Path,
    target: &'a Path,
    /// How many more may be made.
    left: usize,
}

impl Links<'_> {
    fn profile(&mut self, from: &Path, to: &Path, packages: &BTreeSet<String>) -> io::Result<()> {
        for kind in [".fingerprint", "build"] {
            for (name, _) in entries(&from.join(kind)) {
                let package = name.rsplit_once('-').map(|(package, _)| package);
                if package.is_some_and(|package| packages.contains(package)) {
                    self.all(&from.join(kind).join(&name), &to.join(kind).join(&name), DEPTH_MAX)?;
                }
            }
        }
        let (from, to) = (from.join("deps"), to.join("deps"));
        fs::create_dir_all(&to)?;
        for (name, _) in entries(&from).into_iter().filter(|(name, _)| name.ends_with(".d")) {
            let Ok(rules) = fs::read_to_string(from.join(&name)) else { continue };
            for made in self.made_elsewhere(&rules, &from) {
                self.link(&from.join(&made), &to.join(&made))?;
            }
        }
        Ok(())
    }

    /// The files in `deps` that a file of make rules names, if none of their sources is the repository's own.
    fn made_elsewhere(&self, rules: &str, deps: &Path) -> Vec<String> {
        let mut made = Vec::new();
        for (file, sources) in
            rules.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": "))
        {
            let is_elsewhere = |source: &str| {
                let path = Path::new(source);
                path.is_absolute() && (!path.starts_with(self.root) || path.starts_with(self.target))
            };
            // A space in a path is escaped, and what follows it is then no absolute path.
            if !sources.split_whitespace().all(is_elsewhere) {
                return Vec::new();
            }
            let name = Path::new(file).strip_prefix(deps).ok().and_then(Path::to_str);
            made.extend(name.filter(|name| !name.contains('/')).map(str::to_owned));
        }
        made
    }

    /// Everything in a directory; links as they are.
    fn all(&mut self, from: &Path, to: &Path, depth: usize) -> io::Result<()> {
        fs::create_dir_all(to)?;
        for (name, kind) in entries(from) {
            let (from, to) = (from.join(&name), to.join(&name));
            match kind.is_dir() {
                true if depth == 0 => return Err(io::Error::other("directories are nested too deeply")),
                true => self.all(&from, &to, depth - 1)?,
                false => self.link(&from, &to)?,
            }
        }
        Ok(())
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let Ok(found) = fs::symlink_metadata(from) else { return Ok(()) };
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("there are too many files"))?;
        match found.file_type() {
            kind if kind.is_symlink() => std::os::unix::fs::symlink(fs::read_link(from)?, to),
            kind if kind.is_file() => fs::hard_link(from, to),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_a_source_is_told_from_one_of_the_repository() {
        let lock = "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"serde\",\n]\n\n\
                    [[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nsource = \"registry+https://example.org\"\n\n\
                    [[package]]\nname = \"both\"\nversion = \"1.0.0\"\nsource = \"registry+https://example.org\"\n\n\
                    [[package]]\nname = \"both\"\nversion = \"2.0.0\"\n";
        assert_eq!(packages(lock), BTreeSet::from(["serde".to_owned()]));
    }

    /// A `target` with a package of a registry, one of the repository, and one of the repository that says otherwise.
    fn checkout() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().display().to_string();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("make");
            fs::write(path, text).expect("write");
        };
        for (package, sources) in [
            ("serde", format!("/registry/serde/lib.rs {root}/target/debug/build/serde-1/out/x.rs")),
            ("app", "src/lib.rs /registry/serde/lib.rs".to_owned()),
            ("liar", format!("{root}/src/lib.rs")),
            ("spaced", "/elsewhere/with\\ space/lib.rs".to_owned()),
        ] {
            let deps = format!("{root}/target/debug/deps");
            write(
                &format!("target/debug/deps/{package}-1.d"),
                &format!(
                    "{deps}/{package}-1.d: {sources}\n\n{deps}/lib{package}-1.rlib: {sources}\n\n/registry/serde/lib.rs:\n"
                ),
            );
            write(&format!("target/debug/deps/lib{package}-1.rlib"), package);
            write(&format!("target/debug/.fingerprint/{package}-1/lib-{package}"), "hash");
            write(&format!("target/debug/build/{package}-1/out/x.rs"), "generated");
        }
        write("target/debug/app", "a program of the repository");
        write("target/debug/incremental/app-1/x", "");
        write("target/x86_64-unknown-linux-gnu/release/.fingerprint/serde-2/lib-serde", "hash");
        dir
    }

    fn files(dir: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = vec![dir.to_owned()];
        while let Some(next) = left.pop() {
            for (name, kind) in entries(&next) {
                match kind.is_dir() {
                    true => left.push(next.join(name)),
                    false => found.push(next.join(name).strip_prefix(dir).expect("inside").display().to_string()),
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn only_what_was_built_of_other_peoples_packages_is_linked() {
        let (checkout, layer) = (checkout(), tempfile::tempdir().expect("a directory"));
        let packages = ["serde", "spaced"].map(str::to_owned).into();
        let builds = Builds { project: String::new(), packages };
        builds.link(checkout.path(), layer.path()).expect("link");
        assert_eq!(
            files(layer.path()),
            [
                "target/debug/.fingerprint/serde-1/lib-serde",
                "target/debug/.fingerprint/spaced-1/lib-spaced",
                "target/debug/build/serde-1/out/x.rs",
                "target/debug/build/spaced-1/out/x.rs",
                "target/debug/deps/libserde-1.rlib",
                "target/debug/deps/serde-1.d",
                "target/x86_64-unknown-linux-gnu/release/.fingerprint/serde-2/lib-serde",
            ]
        );
        let linked = fs::metadata(layer.path().join("target/debug/deps/libserde-1.rlib")).expect("there");
        assert_eq!(linked.nlink(), 2, "nothing is copied");
    }
}
