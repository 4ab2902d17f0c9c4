//! The policy files of a state directory: read once when a run starts, all of them, and never from where an agent
//! can write. What cannot be read or is not valid is never taken for a default: nothing starts then.

use crate::git::{ObjectId, Objects};
use crate::{Error, Result};
use contract::json::Violation;
use contract::policy::{POLICY_FILES, PolicyFile, PolicyViolation};
use contract::{Policies, RepoPath, RoleName};
use run::Run;
use run::gate::Finding;
use run::gate::policy::Extent;
use run::gate::scope::{self, IgnoredPath, Observed, Scope};
use run::prompt::Templates;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::Layout;

/// A policy is at most this large; the document's own limit names it.
const POLICY_BYTES_MAX: u64 = contract::Limits::DOCUMENT.bytes_max as u64;

/// What changes are judged by, whichever run they are of: the policies, and where norma's own directory is.
#[derive(Clone)]
pub(crate) struct Rules<'a> {
    policies: &'a Policies,
    state_dir: Option<RepoPath>,
    /// The version of the rules that a run's contract names.
    version: u32,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(policies: &'a Policies, layout: &Layout, version: u32) -> Rules<'a> {
        Rules { policies, state_dir: layout.state_in_repository(), version }
    }

    /// All of them.
    pub(crate) fn policies(&self) -> &'a Policies {
        self.policies
    }

    /// Where norma's own directory is, if it is in the repository.
    pub(crate) fn state_dir(&self) -> Option<&RepoPath> {
        self.state_dir.as_ref()
    }

    /// Whether the scope gate has something against an ignored file, wherever it lies.
    pub(crate) fn denies_ignored(&self, scope: &contract::Scope, path: &[u8]) -> bool {
        let ignored = vec![IgnoredPath { path: path.to_vec() }];
        !self.scope_findings(scope, &Observed { ignored, ..Observed::default() }).is_empty()
    }

    /// What the scope gate has against what was observed.
    pub(crate) fn scope_findings(&self, scope: &contract::Scope, observed: &Observed) -> Vec<Finding> {
        let scope = Scope::new(scope, self.policies.scratch_paths(), self.version);
        scope::judge(observed, &scope, self.policies.protected_paths(), self.state_dir.as_ref())
    }
}

/// How many files a tree has, and how many of them a scope holds.
pub fn extent(objects: &Objects, tree: ObjectId, allowed_paths: &[RepoPath]) -> Result<Extent> {
    let mut extent = Extent::default();
    objects.walk(tree, &mut |path, _, _| {
        let within = |allowed: &RepoPath| {
            let rest = path.strip_prefix(allowed.as_str().as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        extent.files += 1;
        extent.allowed += u64::from(allowed_paths.iter().any(within));
    })?;
    Ok(extent)
}

/// Reads every policy, from the state directory and from the repository's own `policies/`. One without a file is the built-in
/// one, so that older state directories keep working; a file that is the built-in one says nothing either.
pub fn load_policies(layout: &Layout) -> Result<Policies> {
    let (dir, own) = (layout.policies(), own_policies(layout));
    let mut problems = Vec::new();
    let mut found = read_policies(&dir, |_| true, &mut problems)?;
    // A repository may keep other things under that name.
    for (name, bytes) in read_policies(&own, |name| policy_file(name).is_some(), &mut problems)? {
        match found.get(&name).filter(|other| !is_built_in(&name, other)) {
            Some(_) if is_built_in(&name, &bytes) => {}
            Some(other) if !same_document(other, &bytes) => {
                let (here, there) = (layout.shown(&own.join(&name)), layout.shown(&dir.join(&name)));
                let message = format!("{here} and {there} say different things; delete one of them");
                problems.push(PolicyViolation { file: name, violation: Violation::document(message) });
            }
            _ => drop(found.insert(name, bytes)),
        }
    }
    problems.sort_by(|one, other| one.file.cmp(&other.file));
    match Policies::check(found) {
        Ok(policies) if problems.is_empty() => Ok(policies),
        checked => {
            problems.extend(checked.err().into_iter().flatten());
            Err(unusable(&layout.shown(&dir), &problems))
        }
    }
}

/// The policies of a directory, by their names; what cannot be read is told.
fn read_policies(
    dir: &Path,
    is_meant: fn(&str) -> bool,
    problems: &mut Vec<PolicyViolation>,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(found);
        }
        Err(source) => return Err(Error::io("read", dir, source)),
    };
    for entry in entries {
        let path = entry.map_err(|source| Error::io("read", dir, source))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Notes beside the policies are the user's own.
        if path.extension().is_none_or(|extension| extension != "json") || !is_meant(&name) {
            continue;
        }
        match read(&path) {
            Ok(bytes) => drop(found.insert(name, bytes)),
            Err(error) => {
                let violation = Violation::document(format!("could not be read: {error}"));
                problems.push(PolicyViolation { file: name, violation });
            }
        }
    }
    Ok(found)
}

/// The repository's own policies, as its users commit them.
pub(crate) fn own_policies(layout: &Layout) -> PathBuf {
    layout.root.join("policies")
}

/// The file that a policy is read from: the repository's own, unless the state directory says something itself.
pub(crate) fn policy_path(layout: &Layout, name: &str) -> PathBuf {
    let (usual, own) = (layout.policies().join(name), own_policies(layout).join(name));
    let says = |path: &Path| read(path).is_ok_and(|bytes| !is_built_in(name, &bytes));
    if !says(&usual) && says(&own) { own } else { usual }
}

fn policy_file(name: &str) -> Option<&'static PolicyFile> {
    POLICY_FILES.iter().find(|file| file.name == name)
}

fn is_built_in(name: &str, bytes: &[u8]) -> bool {
    let is_earlier = |file: &PolicyFile| file.earlier.contains(&contract::hash::sha256(bytes).to_string().as_str());
    policy_file(name)
        .is_some_and(|file| bytes == file.default.as_bytes() || bytes == file.written().as_bytes() || is_earlier(file))
}

/// Whether two files say the same, however they are written.
fn same_document(one: &[u8], other: &[u8]) -> bool {
    let said = |bytes: &[u8]| {
        let mut document: Option<Value> = serde_json::from_slice(bytes).ok();
        if let Some(Value::Object(members)) = &mut document {
            members.remove("$schema");
        }
        document
    };
    one == other || (said(one).is_some() && said(one) == said(other))
}

/// Reads what the user wants models to be told, below `templates/`. A file of another name is refused: whoever wrote it
/// wanted something said that nobody would say.
pub fn load_templates(layout: &Layout) -> Result<Templates> {
    let dir = layout.state.join("templates");
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Templates::default()),
        Err(source) => return Err(Error::io("read", &dir, source)),
    };
    let mut own = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|source| Error::io("read", &dir, source))?.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = read(&path).map_err(|source| Error::io("read", &path, source))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::usage(format!("{} is not UTF-8", path.display()), "write it as text"))?;
        own.insert(name, text);
    }
    Templates::new(own).map_err(|unknown| {
        let names: Vec<&str> = Templates::names().collect();
        let hint = format!("there are {}", names.join(", "));
        Error::usage(format!("{}: there is no template {}", layout.shown(&dir), unknown.join(", ")), hint)
    })
}

/// Has models told something else, below `templates/`, in runs that start from then on.
pub fn write_template(layout: &Layout, name: &RoleName, text: &str) -> Result<()> {
    let dir = layout.state.join("templates");
    std::fs::create_dir_all(&dir).map_err(|source| Error::io("create", &dir, source))?;
    Ok(store::write_whole(&dir.join(format!("{name}.md")), text.as_bytes())?)
}

/// Has the built-in template count again, if there is one; answers whether anybody had written another.
pub fn remove_template(layout: &Layout, name: &RoleName) -> Result<bool> {
    let path = layout.state.join("templates").join(format!("{name}.md"));
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::io("remove", &path, source)),
    }
}

/// The bytes of a document. Only a regular file: a link could lead anywhere, and a pipe would be waited for.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let irregular = || io::Error::other("it is not a regular file");
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return Err(irregular()),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(irregular());
    }
    let mut bytes = Vec::new();
    file.take(POLICY_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unusable(dir: &str, problems: &[PolicyViolation]) -> Error {
    let lines: Vec<String> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    Error::environment(
        format!("the policies in {dir} cannot be used, so nothing was run:{}", lines.concat()),
        "fix them (norma help gates), or delete a file to use the built-in one; then: norma trust",
    )
}

/// Writes the built-in policies where there are none, for people to read and edit; answers which.
pub fn write_policies(layout: &Layout) -> Result<Vec<&'static str>> {
    write_schemas(layout)?;
    let dir = layout.policies();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|source| Error::io("create", &dir, source))?;
    let mut written = Vec::new();
    for file in &POLICY_FILES {
        let path = dir.join(file.name);
        match File::options().write(true).create_new(true).open(&path) {
            Ok(mut new) => {
                new.write_all(file.written().as_bytes()).map_err(|source| Error::io("write", &path, source))?;
                written.push(file.name);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::io("create", &path, source)),
        }
    }
    Ok(written)
}

/// Writes the schemas that the files of a state directory name. They are this version's own, so that what an older one
/// left is replaced; an editor needs neither a network nor a setting to find them.
pub fn write_schemas(layout: &Layout) -> Result<()> {
    let dir = layout.schemas();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|source| Error::io("create", &dir, source))?;
    for name in contract::schema::AUTHORED {
        let (path, text) = (dir.join(name), contract::schema::built_in(name).expect("BUG: every schema is built in"));
        if std::fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
            continue;
        }
        std::fs::write(&path, text).map_err(|source| Error::io("write", &path, source))?;
    }
    Ok(())
}

/// The policies that a run was started under, if they are those of today. Where nobody asked for a state directory they are
/// the built-in ones, whatever lies there.
pub fn policies_of(run: &Run, layout: &Layout) -> Result<Policies> {
    let policies = if layout.is_private() { Policies::built_in() } else { load_policies(layout)? };
    same_policies(run, &policies).map(|()| policies)
}

/// A run is judged by one set of rules and policies from its start to its end. One from before there were policies
/// names none, and continues under those of today.
pub(crate) fn same_policies(run: &Run, policies: &Policies) -> Result<()> {
    if let Some(why) = run.started.contract.unknown_rules() {
        let message = format!("run {} cannot be judged here: {why}", run.id.slug());
        return Err(Error::environment(message, "use the norma that started it, or a newer one"));
    }
    let today = policies.digests();
    let bound = run.started.contract.policies.iter();
    let other: Vec<&str> =
        bound.filter(|(name, digest)| today.get(*name) != Some(*digest)).map(|(name, _)| name.as_str()).collect();
    if other.is_empty() {
        return Ok(());
    }
    let message =
        format!("run {} was started under other policies than the current ones: {}", run.id.slug(), other.join(", "));
    Err(Error::environment(message, "restore them, or start over under the current ones: norma run … --new"))
}
