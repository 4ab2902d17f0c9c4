//! `contract.v1`: what a run was asked to do, compiled from whatever the user wrote (a task today) and frozen
//! before anything starts. It is stored beside the run, embedded in its first event, and its digest starts
//! the chain: a run cannot be shown under another contract than the one it ran under.

use crate::schema::JsonSchema;
use crate::{
    AcceptanceCriterion, AgentConfig, Backend, Backends, Budgets, Digest, Domain, GraphTerms, IntentTerms, Item,
    LandingConfig, ModelPrice, PipelineTerms, RepoPath, Role, SandboxLimits, TlsConfig, TurnLimits, WorkspaceConfig,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rules that runs are judged by today; a run started now has this version in its contract. It goes up by one when the
/// same evidence would be judged differently, so that older runs replay as they were judged.
///
/// | version | since then |
/// |---|---|
/// | 1 | items that changed the same path conflict |
/// | 2 | items that changed the same text are merged line by line; `gates.json` has every finding with its rule |
/// | 3 | receipts tell of every test command; names are judged in the tree that results, and what the base has (a link, an odd name, the bytes of a binary file) is no reason to refuse; tool operations are counted by norma |
/// | 4 | tokens of more services count as secrets; `contract.json` of a run of items is the document that was submitted; the log says that an answer was checked against its schema; where a change touches what decides about its tests, they run with the base's version of it as well, and what fails there needs a person's approval; a file that a program's answer names and did not leave breaks the protocol; a worker's change is checked against `limits.change_mb`; a patch says of a file over 16 MiB only that it differs; what an agent built outside of the allowed paths is left out of its change; line endings are stored as `git add` would; what looks like a secret in test files needs approval; a receipt says that no test was run |
pub const RULES: u32 = 4;

/// The first version of the rules that merges texts line by line.
pub const RULES_MERGE_LINES: u32 = 2;

/// The first version of the rules under which `gates.json` has every finding.
pub const RULES_ALL_FINDINGS: u32 = 2;

/// The first version of the rules under which receipts tell of every test command, whether or not its output has counts.
pub const RULES_ALL_TESTS: u32 = 3;

/// The first version of the rules that judges a change by what it brings, and its names in the tree that results.
pub const RULES_RESULT: u32 = 3;

/// The first version of the rules under which tokens count as secrets that `tokens.json` marks as newer.
pub const RULES_MORE_TOKENS: u32 = 4;

/// The first version of the rules under which norma counts the tool operations of an agent itself.
pub const RULES_COUNTED_OPS: u32 = 3;

/// The first version of the rules under which `contract.json` is the document that was submitted, and not what norma
/// compiled from it.
pub const RULES_GIVEN_CONTRACT: u32 = 4;

/// The first version of the rules under which the log says that an answer was checked against the schema its contract binds.
pub const RULES_SCHEMA_ENFORCED: u32 = 4;

/// What a run was asked for, in its directory.
pub const CONTRACT_FILE: &str = "contract.json";

/// What norma compiled from it, where it is a document.
pub const COMPILED_CONTRACT_FILE: &str = "compiled_contract.json";

/// The document that was submitted, as evidence of the run; a goal that was only typed has none.
pub const SUBMITTED_FILE: &str = "submitted/document.json";

/// The first version of the rules that guards every test and not only those that a command names.
pub const RULES_GUARDED_TESTS: u32 = 4;

/// The first version of the rules under which the files that an answer names must be there.
pub const RULES_NAMED_FILES: u32 = 4;

/// The first version of the rules under which `limits.change_mb` holds for what a worker left, too.
pub const RULES_CHANGE_SIZE: u32 = 4;

/// The first version of the rules under which a receipt says that no test was run.
pub const RULES_UNTESTED: u32 = 4;

/// The first version of the rules under which a patch says of a large file only that it differs.
pub const RULES_LARGE_FILES: u32 = 4;

/// The first version of the rules under which what an agent built outside of the allowed paths is left out of its change.
pub const RULES_BUILD_PRODUCTS: u32 = 4;

/// The first version of the rules under which line endings of a worker's files are stored as `git add` would.
pub const RULES_LINE_ENDINGS: u32 = 4;

/// The first version of the rules under which a person is asked about what looks like a secret in test files.
pub const RULES_FIXTURES: u32 = 4;

/// The version of contracts that name none.
const RULES_FIRST: u32 = 1;

fn first_rules() -> u32 {
    RULES_FIRST
}

fn are_first_rules(rules: &u32) -> bool {
    *rules == RULES_FIRST
}

/// The compiled contract of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Always `contract.v1`.
    pub schema: ContractSchema,
    /// Which workflow carries it out.
    pub workflow: Workflow,
    /// The goal, in words.
    pub goal: String,
    /// What must hold.
    pub acceptance_criteria: Vec<AcceptanceCriterion>,
    /// What may be used up.
    pub budgets: Budgets,
    /// Limits on a single turn.
    pub limits: TurnLimits,
    /// How the result lands.
    pub landing: LandingConfig,
    /// Who fills which role.
    pub agents: BTreeMap<Role, AgentConfig>,
    /// What confines the agents.
    pub sandbox: Backend,
    /// What each of them may use up in there.
    #[serde(default)]
    pub sandbox_limits: SandboxLimits,
    /// What the backends elsewhere were told, where the configuration says anything of them.
    #[serde(default, skip_serializing_if = "Backends::is_empty")]
    pub backends: Backends,
    /// What they see of the machine besides the tools on the PATH.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sandbox_read: Vec<String>,
    /// How their workspaces are made.
    #[serde(default)]
    pub workspace: WorkspaceConfig,
    /// The task it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<i64>,
    /// What may change. Left out of the canonical bytes where nothing is said, so that contracts from before there
    /// were scopes keep their digests.
    #[serde(default, skip_serializing_if = "Scope::is_default")]
    pub scope: Scope,
    /// The SHA-256 of every policy that the run is judged by, by file name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, Digest>,
    /// Why a person has to approve it before anything starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval_for: Vec<String>,
    /// Whether somebody is there to answer: a run whose budget is used up then asks for more instead of ending.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attended: bool,
    /// Whether a change that has landed before may land again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// What models cost, where the configuration says it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
    /// Whom norma itself believes when it speaks to providers.
    #[serde(default, skip_serializing_if = "TlsConfig::is_default")]
    pub tls: TlsConfig,
    /// The version of the rules that the run is judged by. Left out where it is the first, so that contracts from before
    /// there were versions keep their digests.
    #[serde(default = "first_rules", skip_serializing_if = "are_first_rules")]
    pub rules: u32,
    /// What a graph was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphTerms>,
    /// What the run of an intent was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<IntentTerms>,
    /// What the run of a pipeline was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineTerms>,
    /// Who carries out items, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workers: BTreeMap<String, AgentConfig>,
    /// What is to be done, in the order in which it lands within a level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
}

/// What a run may change, apart from what policy protects.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Scope {
    /// Files and directories; the whole tree if there are none.
    pub allowed_paths: Vec<RepoPath>,
    /// What of them may not be changed all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_paths: Vec<RepoPath>,
    /// Whether files may have binary content.
    pub allow_binary: bool,
    /// What the git configuration of the machine names as something to run or to read settings from. It is protected:
    /// the user's own git would run what an agent put there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_by_git: Vec<RepoPath>,
}

impl Scope {
    fn is_default(&self) -> bool {
        *self == Scope::default()
    }
}

impl Contract {
    /// What confines an item's agent and its tests; without an item, what confines any other turn.
    pub fn backend_of(&self, item: Option<&Item>) -> Backend {
        item.and_then(|item| item.sandbox_backend).unwrap_or(self.sandbox)
    }

    /// The digest of the canonical bytes.
    pub fn digest(&self) -> Digest {
        crate::hash::digest(Domain::Contract, &self.canonical())
    }

    /// Why this build cannot judge a run under this contract; none if it can.
    pub fn unknown_rules(&self) -> Option<String> {
        let known = (RULES_FIRST..=RULES).contains(&self.rules);
        (!known)
            .then(|| format!("its rules have version {}, and this build knows {RULES_FIRST} to {RULES}", self.rules))
    }

    /// The file of the run's directory that holds the canonical bytes.
    pub fn file(&self) -> &'static str {
        // A loop is asked for in words, and has no other document.
        let is_given = self.rules >= RULES_GIVEN_CONTRACT && !matches!(self.workflow, Workflow::Pdca | Workflow::Graph);
        if is_given { COMPILED_CONTRACT_FILE } else { CONTRACT_FILE }
    }

    /// The canonical bytes: what is stored in [`Contract::file`].
    pub fn canonical(&self) -> Vec<u8> {
        crate::json::canonical(self).expect("BUG: a contract holds only small integers and strings")
    }
}

/// The one schema name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContractSchema {
    /// Version 1.
    #[serde(rename = "contract.v1")]
    V1,
}

/// Which function decides what is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Workflow {
    /// plan → do → check → act until PASS.
    Pdca,
    /// Items, level by level, each one turn and one change; a single contract is a batch of one.
    Batch,
    /// Nodes that people and agents make, send messages to and connect.
    Graph,
    /// An intent: compiled, its patch applied, its plan carried out.
    Intent,
    /// A request becomes contracts, which are worked on, reviewed, tested, fixed and merged.
    Pipeline,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn contract(rules: u32) -> Contract {
        let value = json!({
            "schema": "contract.v1", "workflow": "batch", "goal": "g", "acceptance_criteria": [],
            "budgets": {"max_iterations": 1}, "limits": {}, "landing": {}, "agents": {}, "sandbox": "native", "rules": rules,
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn contracts_from_before_there_were_rules_keep_their_digest() {
        let (old, new) = (contract(1), contract(RULES));
        assert!(!String::from_utf8(old.canonical()).unwrap().contains("rules"));
        assert_ne!(old.digest(), new.digest());
        let read: Contract = serde_json::from_slice(&old.canonical()).unwrap();
        assert_eq!(read, old);
    }

    #[test]
    fn only_a_contract_that_somebody_attends_says_so() {
        let (alone, attended) = (contract(1), Contract { attended: true, ..contract(1) });
        assert!(!String::from_utf8(alone.canonical()).unwrap().contains("attended"));
        assert_ne!(alone.digest(), attended.digest());
        assert_eq!(serde_json::from_slice::<Contract>(&attended.canonical()).unwrap(), attended);
    }

    #[test]
    fn what_was_asked_for_and_what_was_compiled_have_names_of_their_own_since_there_are_rules_for_it() {
        assert_eq!(contract(RULES_GIVEN_CONTRACT - 1).file(), CONTRACT_FILE);
        assert_eq!(contract(RULES).file(), COMPILED_CONTRACT_FILE);
        assert_eq!(Contract { workflow: Workflow::Pdca, ..contract(RULES) }.file(), CONTRACT_FILE);
    }

    #[test]
    fn rules_that_are_not_known_are_named() {
        assert_eq!((contract(1).unknown_rules(), contract(RULES).unknown_rules()), (None, None));
        let newer = contract(RULES + 1).unknown_rules();
        assert_eq!(newer.unwrap(), format!("its rules have version {}, and this build knows 1 to {RULES}", RULES + 1));
    }
}
