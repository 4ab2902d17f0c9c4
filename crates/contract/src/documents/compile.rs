//! From a submitted document to the items of a run. Nothing is read but what the caller hands over, everything that is
//! wrong is said at once with its JSON pointer, and nothing is coerced: what asks for too much is refused.

use super::agent_registry::{ApprovalPolicy, Defaults, Platform};
use super::{AgentRegistry, AgentRole, task_contract, work_item};
use crate::json::{self, Limits, Report, Violation};
use crate::policy::{McpAllowlist, allowed_path_outside, is_trivial, split};
use crate::work::{Item, NetworkRight};
use crate::{AgentConfig, AgentType, Backend, Mode, RepoPath, ReviewTerms, SandboxConfig, refuses_agent, schema};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Largest item in bytes of JSON: it must fit into a line of the log, with room for what stands around it.
pub const ITEM_BYTES_MAX: usize = 128 << 10;

/// Longest id in bytes; it becomes the name of a directory.
const ID_BYTES_MAX: usize = 64;

/// A week: nobody waits longer for a turn, and milliseconds stay exact.
const WAIT_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;

/// What a document is held against.
pub struct Terms<'a> {
    /// Who there is.
    pub registry: &'a AgentRegistry,
    /// The agents of the configuration, by name.
    pub agents: &'a BTreeMap<String, AgentConfig>,
    /// What confines agents.
    pub sandbox: &'a SandboxConfig,
    /// How much the machine is trusted with.
    pub mode: Mode,
    /// The tools that may be named.
    pub mcp: &'a McpAllowlist,
    /// The ids of the items that the batch has already, where these are added to one.
    pub present: &'a BTreeSet<String>,
    /// Where the state directory is, if it is in the repository.
    pub state_dir: Option<&'a RepoPath>,
    /// The commit that the run starts from.
    pub base: &'a str,
    /// A file of that commit, or why there is none.
    pub file: &'a dyn Fn(&RepoPath) -> Result<Vec<u8>, String>,
    /// Whether that commit has a directory there.
    pub is_directory: &'a dyn Fn(&RepoPath) -> bool,
    /// Why a command may not be started, if it may not.
    pub refusal: &'a dyn Fn(&[String]) -> Option<String>,
    /// Who reviews what an agent of this name changes.
    pub reviewers: &'a dyn Fn(&str) -> Option<ReviewTerms>,
    /// Whether a conversation of this name with an agent of this type is kept, so that it can be continued.
    pub has_thread: &'a dyn Fn(&str, AgentType) -> bool,
}

impl Terms<'_> {
    /// Whether norma counts the tool operations of who fills this role: by what is started in a sandbox, or by what a
    /// protocol tells.
    pub(super) fn counts_tools(&self, agent_id: &str, role: AgentRole, asked: Option<Backend>) -> bool {
        let confined = asked.unwrap_or(self.sandbox.backend) == Backend::Native;
        let kind = self.worker(agent_id, role).ok().and_then(|name| self.kind_of(&name));
        confined || kind.is_some_and(|kind| kind != AgentType::Exec)
    }

    /// What an entry of the configuration is.
    fn kind_of(&self, worker: &str) -> Option<AgentType> {
        self.agents.get(worker).map(|agent| agent.kind).or_else(|| AgentType::named(worker))
    }

    /// Why who fills this role cannot work on a backend, if it cannot. One that is nowhere is said of its name.
    fn not_there(&self, backend: Backend, agent_id: &str, role: AgentRole) -> Option<String> {
        let worker = self.worker(agent_id, role).ok()?;
        let kind = self.kind_of(&worker)?;
        refuses_agent(backend, kind)
    }

    /// Why who fills this role cannot continue a conversation, if it cannot.
    pub(super) fn not_continued(&self, thread: &str, agent_id: &str, role: AgentRole) -> Option<String> {
        let worker = self.worker(agent_id, role).ok()?;
        let kind = self.kind_of(&worker)?;
        if self.agents.get(&worker).is_some_and(|agent| agent.resume == Some(false)) {
            return Some(format!("agents.{worker}.resume is false, so it continues no conversation; leave it out"));
        }
        if self.sandbox.backend != Backend::Native {
            let why = "conversations are kept beyond their run only where agents are confined; leave it out";
            return Some(why.to_owned());
        }
        let shown = kind.as_str();
        (!(self.has_thread)(thread, kind)).then(|| {
            format!(
                "no conversation {thread:?} with an agent of type {shown} is kept here; norma show --json names those of a \
                 run (steps[].session_id); leave it out to begin a new one"
            )
        })
    }

    /// What somebody in this role may do at most. An agent of a trusted configuration needs no line in the registry as
    /// long as that is the built-in one, which can know none of them: it may do what the built-in ones may.
    pub(super) fn rights(&self, agent_id: &str, role: AgentRole) -> Result<Defaults, String> {
        let registered = self.registry.require(agent_id, role);
        let is_configured = self.agents.contains_key(agent_id) && registered.is_err();
        if is_configured && *self.registry == *AgentRegistry::builtin() {
            return Ok(Defaults {
                sandbox: Platform::WorkspaceWrite,
                approval_policy: ApprovalPolicy::Never,
                network: NetworkRight::Deny,
            });
        }
        registered.map(|agent| agent.defaults.clone())
    }

    /// The entry of the configuration that fills this role.
    pub(super) fn worker(&self, agent_id: &str, role: AgentRole) -> Result<String, String> {
        let by_role = role.as_str().to_ascii_lowercase();
        let known = |name: &&str| self.agents.contains_key(*name) || AgentType::named(name).is_some();
        let name = [agent_id, by_role.as_str()].into_iter().find(known);
        name.map(str::to_owned).ok_or_else(|| {
            format!("no agent is configured for it; add {agent_id:?} or {by_role:?} to \"agents\" in config.json")
        })
    }

    /// The bytes of a file that a document relies on: norma's own schemas first, then the base.
    pub(super) fn bytes(&self, path: &RepoPath) -> Result<Cow<'static, [u8]>, String> {
        match built_in_schema(path) {
            Some(text) => Ok(Cow::Borrowed(text.as_bytes())),
            None => (self.file)(path).map(Cow::Owned),
        }
    }
}

/// One of norma's own schemas, by the path under which documents name it.
pub(super) fn built_in_schema(path: &RepoPath) -> Option<&'static str> {
    schema::built_in(path.as_str().strip_prefix("schemas/")?)
}

/// The kinds of documents that can be submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A task contract.
    TaskContract,
    /// A work item, or an array of them.
    WorkItems,
}

impl Kind {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::TaskContract => "task_contract",
            Kind::WorkItems => "work_items",
        }
    }
}

/// How large a document may be that is submitted: an array of work items is larger than one document.
pub fn limits_of(bytes: &[u8]) -> &'static Limits {
    if is_list(bytes) { &Limits::BATCH } else { &Limits::DOCUMENT }
}

fn is_list(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"[")
}

/// Whether what was submitted is a task contract. A list is none, and is not read for that: it may be long.
pub fn is_task_contract(bytes: &[u8]) -> bool {
    !is_list(bytes) && kind_of(bytes).is_ok_and(|kind| kind == Kind::TaskContract)
}

/// What a document claims to be.
fn kind_of(bytes: &[u8]) -> Result<Kind, Vec<Violation>> {
    let document = json::parse(bytes, limits_of(bytes))?;
    let has = |key: &str| document.get(key).is_some();
    match &document {
        Value::Array(_) => Ok(Kind::WorkItems),
        Value::Object(_) if has("task_id") || has("assigned_agent") => Ok(Kind::TaskContract),
        Value::Object(_) if has("id") || has("agent_id") => Ok(Kind::WorkItems),
        _ => Err(vec![Violation::document(
            "this is neither a task contract (an object with \"task_id\") nor work items (an array of objects with \
             \"id\")",
        )]),
    }
}

/// Compiles whatever was submitted; the kind is there as far as it could be told.
pub fn compile(bytes: &[u8], terms: &Terms<'_>) -> (Option<Kind>, Result<Vec<Item>, Vec<Violation>>) {
    match kind_of(bytes) {
        Err(violations) => (None, Err(violations)),
        Ok(kind @ Kind::TaskContract) => {
            let read = task_contract::read(bytes);
            let item = read.and_then(|contract| task_contract::compile(&contract, bytes, terms));
            (Some(kind), item.map(|item| vec![item]))
        }
        Ok(kind @ Kind::WorkItems) => {
            let read = work_item::read_batch(bytes);
            (Some(kind), read.and_then(|batch| work_item::compile_batch(&batch, bytes, terms)))
        }
    }
}

/// Whether a document has the form of its kind, whatever it asks for.
pub fn has_form(kind: Kind, bytes: &[u8]) -> bool {
    match kind {
        Kind::TaskContract => task_contract::read(bytes).is_ok(),
        Kind::WorkItems => work_item::read_batch(bytes).is_ok(),
    }
}

/// The problems found so far in one part of a document.
pub(super) struct Problems<'r> {
    report: &'r mut Report,
    /// Where that part is.
    at: String,
}

impl<'r> Problems<'r> {
    pub(super) fn new(report: &'r mut Report, at: String) -> Problems<'r> {
        Problems { report, at }
    }

    pub(super) fn add(&mut self, pointer: &str, message: impl Into<String>) {
        self.report.push(format!("{}{pointer}", self.at), message.into());
    }

    /// The value, or its problem on record.
    pub(super) fn take<T>(&mut self, pointer: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|message| self.add(pointer, message)).ok()
    }

    /// The values of a list, or the problem of each that is not good.
    pub(super) fn each<S, T>(
        &mut self,
        pointer: &str,
        values: impl IntoIterator<Item = S>,
        check: impl Fn(S) -> Result<T, String>,
    ) -> Vec<T> {
        let values = values.into_iter().enumerate();
        values.filter_map(|(index, value)| self.take(&format!("{pointer}/{index}"), check(value))).collect()
    }

    /// Files and directories outside of norma's own.
    pub(super) fn paths(&mut self, pointer: &str, texts: &[String], terms: &Terms<'_>) -> Vec<RepoPath> {
        self.each(pointer, texts, |text| allowed_path_outside(text, terms.state_dir))
    }

    /// Milliseconds that somebody may wait for.
    pub(super) fn wait(&mut self, pointer: &str, milliseconds: Option<u64>) -> u64 {
        let fits = milliseconds.filter(|milliseconds| *milliseconds <= WAIT_MS_MAX);
        self.take(pointer, fits.ok_or_else(|| "longer than a week".to_owned())).unwrap_or_default()
    }

    /// What confines an item, where its document says so at `at`. Whoever works there has to be able to; if nothing was
    /// asked for, that is said of the agent's name.
    pub(super) fn backend(
        &mut self,
        at: &str,
        agent: &str,
        asked: Option<Backend>,
        (agent_id, role): (&str, AgentRole),
        terms: &Terms<'_>,
    ) -> Option<Backend> {
        let pointer = format!("{at}/sandbox_backend");
        let asked_for = |backend| terms.sandbox.may_be_asked_for(backend, terms.mode);
        if let Some(Err(why)) = asked.map(asked_for) {
            self.add(&pointer, why);
        } else if let Some(why) = terms.not_there(asked.unwrap_or(terms.sandbox.backend), agent_id, role) {
            self.add(if asked.is_some() { &pointer } else { agent }, why);
        }
        asked
    }

    pub(super) fn not_blank(&mut self, pointer: &str, text: &str) {
        if text.trim().is_empty() {
            self.add(pointer, "is blank");
        }
    }

    /// The last look at an item: it must fit into the log.
    pub(super) fn size(&mut self, item: &Item) {
        let bytes = serde_json::to_vec(item).expect("BUG: an item is plain data").len();
        if bytes > ITEM_BYTES_MAX {
            let message = format!("is {bytes} bytes, larger than {ITEM_BYTES_MAX}; move text into files");
            self.add("", message);
        }
    }
}

/// Whether an id is fit to be a directory name.
pub(super) fn id(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match text {
        "" => Err("is empty".to_owned()),
        _ if text.len() > ID_BYTES_MAX => Err(format!("is longer than {ID_BYTES_MAX} characters")),
        _ if text.starts_with('.') || !text.chars().all(fits) => {
            Err(format!("{text:?} becomes a directory: letters, digits, `.`, `_` and `-`, not a `.` first"))
        }
        _ => Ok(text.to_owned()),
    }
}

/// The words of a test that may be started.
pub(super) fn test_words(line: &str, terms: &Terms<'_>) -> Result<Vec<String>, String> {
    let argv = split(line).map_err(|problem| problem.to_string())?;
    (terms.refusal)(&argv).map_or(Ok(argv), Err)
}

/// Refuses a test that cannot fail.
pub(super) fn not_trivial(argv: Vec<String>) -> Result<Vec<String>, String> {
    match is_trivial(&argv) {
        true => Err(format!("`{}` succeeds whatever was done; name a command that can fail", argv[0])),
        false => Ok(argv),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::with_terms;
    use super::*;

    #[test]
    fn a_document_is_known_by_its_keys() {
        let kind = |text: &str| kind_of(text.as_bytes()).map_err(|violations| violations[0].to_string());
        assert_eq!(kind(r#"{"task_id":"x"}"#), Ok(Kind::TaskContract));
        assert_eq!(kind(r#"{"id":"x"}"#), Ok(Kind::WorkItems));
        assert_eq!(kind("[]"), Ok(Kind::WorkItems));
        assert!(kind("7").unwrap_err().starts_with("(document): this is neither"));
        assert_eq!(kind(r#"{"id":1,"id":2}"#).unwrap_err(), "/id: duplicate key");
    }

    #[test]
    fn an_id_is_fit_to_be_a_directory() {
        for good in ["a", "work-item-1", "A.b_c-9", "task_0001"] {
            assert_eq!(id(good).as_deref(), Ok(good));
        }
        for bad in ["", ".", "..", ".a", "a/b", "a b", "ä", "a\n", &"x".repeat(65)] {
            assert!(id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_test_that_cannot_fail_is_none_unless_that_is_wanted() {
        let words = |line: &str| with_terms(|terms| test_words(line, terms));
        for line in ["true", "/bin/true", ":", "echo ok", "printf x"] {
            assert!(words(line).and_then(not_trivial).is_err(), "{line}");
            assert!(words(line).is_ok(), "{line}");
        }
        assert_eq!(words("sudo make").unwrap_err(), "sudo may not be started");
        assert_eq!(words("pytest -x").and_then(not_trivial).unwrap(), ["pytest", "-x"]);
    }
}
