//! Policies: lists that a person keeps in `policies/` of the state directory and that gates hold runs to. Each
//! file has a default, which counts where there is no file, and a check that names everything wrong with it. A
//! run's contract names the digest of every policy, so that it cannot be judged by others later.

mod command;
mod mcp;
mod pattern;
mod scope;
mod wide;

pub use command::{
    AllowRule, CommandAllowlist, CommandPolicy, Fit, ForbiddenActions, Operands, RefuseRule, SplitError, Style, Words,
    Wrapper, forbidden_word, is_trivial, join, split,
};
pub use mcp::McpAllowlist;
pub use pattern::{FoldedPath, PathPattern};
pub use scope::{
    PROTECTED_PATHS_DEFAULT, ProtectedPathRule, ProtectedPaths, ProtectedPathsFile, Protection, SCRATCH_PATHS_DEFAULT,
    ScratchPathRule, ScratchPaths, ScratchPathsFile, allowed_path, allowed_path_outside,
};
pub use wide::{WIDE_PATHS_DEFAULT, WidePathRule, WidePaths, WidePathsFile};

use crate::documents::AgentRegistry;
use crate::json::Violation;
use crate::{Digest, hash, schema};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// One kind of policy.
pub struct PolicyFile {
    /// Its file name in `policies/`.
    pub name: &'static str,
    /// What counts where there is no file.
    pub default: &'static str,
    /// The SHA-256 of what earlier versions of norma wrote as their default: a state directory of that time still has it,
    /// and nobody has to look at it again.
    pub earlier: &'static [&'static str],
    /// Everything that is wrong with such a file.
    pub check: fn(&[u8]) -> Result<(), Vec<Violation>>,
}

impl PolicyFile {
    /// The default as it is written into a state directory, where it names its schema.
    pub fn written(&self) -> String {
        let schema = self.name.trim_end_matches(".json");
        schema::with_reference(self.default, &format!("../schemas/{schema}.v1.json"))
    }
}

/// Every policy there is, sorted by name.
pub const POLICY_FILES: [PolicyFile; 7] = [
    PolicyFile {
        name: AgentRegistry::FILE,
        default: AgentRegistry::BUILTIN,
        earlier: &["3512a398b9faa2cfe0fdd99f9415124234ec16434336ff274c4617b02cc26b48"],
        check: |bytes| AgentRegistry::parse(bytes).map(drop),
    },
    PolicyFile {
        name: CommandAllowlist::FILE,
        default: CommandAllowlist::BUILTIN,
        earlier: &[],
        check: |bytes| CommandAllowlist::parse(bytes).map(drop),
    },
    PolicyFile {
        name: ForbiddenActions::FILE,
        default: ForbiddenActions::BUILTIN,
        earlier: &[],
        check: |bytes| ForbiddenActions::parse(bytes).map(drop),
    },
    PolicyFile {
        name: McpAllowlist::FILE,
        default: McpAllowlist::BUILTIN,
        earlier: &[],
        check: |bytes| McpAllowlist::parse(bytes).map(drop),
    },
    PolicyFile {
        name: "protected_paths.json",
        default: PROTECTED_PATHS_DEFAULT,
        earlier: &[
            "6068e0fe8f6454bb9e6183c7cf02339b86fc2be25ecc9ab08761d9e201a56072",
            "48593c34c3944886144f75b7bbe27604537b3270b125e6728098bd9f47c5fea2",
        ],
        check: |bytes| ProtectedPaths::parse(bytes).map(drop),
    },
    PolicyFile {
        name: "scratch_paths.json",
        default: SCRATCH_PATHS_DEFAULT,
        earlier: &["be14f12acdd4e3eb532d225a49021e2df6c4febd6a5f011edc6847d919ff2ae2"],
        check: |bytes| ScratchPaths::parse(bytes).map(drop),
    },
    PolicyFile {
        name: "wide_paths.json",
        default: WIDE_PATHS_DEFAULT,
        earlier: &["6451bfdfff1e741ec8b55ce7b20561334383e1ded70de79103ffb12cb1af97eb"],
        check: |bytes| WidePaths::parse(bytes).map(drop),
    },
];

/// Something wrong with a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyViolation {
    /// The file's name.
    pub file: String,
    /// What and where.
    pub violation: Violation,
}

impl fmt::Display for PolicyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file.escape_debug(), self.violation)
    }
}

/// Every policy of a state directory, checked.
#[derive(Debug, Clone)]
pub struct Policies {
    /// The bytes of every policy by file name.
    files: BTreeMap<&'static str, Vec<u8>>,
    /// Policies without a file, for which the default counts.
    pub missing: Vec<&'static str>,
    /// Read from their bytes when first asked for: every start and every change is judged by them.
    registry: OnceLock<AgentRegistry>,
    commands: OnceLock<Arc<CommandPolicy>>,
    protected: OnceLock<ProtectedPaths>,
    scratch: OnceLock<Arc<ScratchPaths>>,
}

impl PartialEq for Policies {
    fn eq(&self, other: &Policies) -> bool {
        (&self.files, &self.missing) == (&other.files, &other.missing)
    }
}

impl Eq for Policies {}

impl Policies {
    /// The policies that these files make, by their names; the default counts for a file that is not there. A
    /// file of another name is refused: whoever wrote it wanted something held that nobody would hold.
    pub fn check(mut found: BTreeMap<String, Vec<u8>>) -> Result<Policies, Vec<PolicyViolation>> {
        let mut policies = Policies {
            files: BTreeMap::new(),
            missing: Vec::new(),
            registry: OnceLock::new(),
            commands: OnceLock::new(),
            protected: OnceLock::new(),
            scratch: OnceLock::new(),
        };
        let mut problems = Vec::new();
        for file in &POLICY_FILES {
            let bytes = found.remove(file.name).unwrap_or_else(|| {
                policies.missing.push(file.name);
                file.default.as_bytes().to_vec()
            });
            // The same policy, whether it names its schema or is not written down at all: runs name it by one digest.
            let is_default = bytes == file.default.as_bytes() || bytes == file.written().as_bytes();
            let bytes = if is_default { file.default.as_bytes().to_vec() } else { bytes };
            // The default is checked by a test; every start of norma would pay for checking it again.
            let violations = if is_default { Ok(()) } else { (file.check)(&bytes) };
            for violation in violations.err().into_iter().flatten() {
                problems.push(PolicyViolation { file: file.name.to_owned(), violation });
            }
            policies.files.insert(file.name, bytes);
        }
        for file in found.into_keys() {
            let names: Vec<&str> = POLICY_FILES.iter().map(|file| file.name).collect();
            let violation = Violation::document(format!("there is no such policy; there are {}", names.join(", ")));
            problems.push(PolicyViolation { file, violation });
        }
        if problems.is_empty() { Ok(policies) } else { Err(problems) }
    }

    /// The same with another file in place of one of them.
    pub fn with(&self, name: &str, bytes: Vec<u8>) -> Result<Policies, Vec<PolicyViolation>> {
        let written = self.files.iter().filter(|(name, _)| !self.missing.contains(name));
        let mut found: BTreeMap<String, Vec<u8>> =
            written.map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
        found.insert(name.to_owned(), bytes);
        Policies::check(found)
    }

    /// What counts where nobody wrote anything.
    pub fn built_in() -> Policies {
        Policies::check(BTreeMap::new()).expect("BUG: the defaults are verified by a test")
    }

    /// The SHA-256 of every policy, by file name.
    pub fn digests(&self) -> BTreeMap<String, Digest> {
        self.files.iter().map(|(name, bytes)| ((*name).to_owned(), hash::sha256(bytes))).collect()
    }

    /// The policies that are neither the built-in ones nor those of an earlier version, each with its digest.
    pub fn changed(&self) -> BTreeMap<&'static str, Digest> {
        let digests = POLICY_FILES.iter().map(|file| (file, hash::sha256(self.bytes(file.name))));
        let written = |(file, digest): &(&PolicyFile, Digest)| {
            self.bytes(file.name) != file.default.as_bytes() && !file.earlier.contains(&digest.to_string().as_str())
        };
        digests.filter(written).map(|(file, digest)| (file.name, digest)).collect()
    }

    /// The digest that trust in these policies is bound to; none if all of them are the built-in ones, which need
    /// no trust.
    pub fn trust_digest(&self) -> Option<Digest> {
        let changed = self.changed();
        let lines: String = changed.iter().map(|(name, digest)| format!("{name} {digest}\n")).collect();
        (!changed.is_empty()).then(|| hash::sha256(format!("norma policies v1\n{lines}").as_bytes()))
    }

    /// What a changed policy says otherwise than the built-in one, one line an entry: `-` what is not in it any
    /// more, `+` what is new or says something else.
    pub fn differences(&self, name: &str) -> Vec<String> {
        let Some(file) = POLICY_FILES.iter().find(|file| file.name == name) else { return Vec::new() };
        let (before, after) = (entries(file.default.as_bytes()), entries(self.bytes(file.name)));
        let gone = before.iter().filter(|entry| !after.contains(entry)).map(|entry| format!("- {}", shown(entry)));
        let new = after.iter().filter(|entry| !before.contains(entry)).map(|entry| format!("+ {}", shown(entry)));
        gone.chain(new).collect()
    }

    /// `agent_registry.json`.
    pub fn agent_registry(&self) -> &AgentRegistry {
        self.registry.get_or_init(|| {
            let parsed = AgentRegistry::parse(self.bytes(AgentRegistry::FILE));
            parsed.expect("BUG: policies are checked when they are read")
        })
    }

    /// `command_allowlist.json` and `forbidden_actions.json`.
    pub fn commands(&self) -> Arc<CommandPolicy> {
        let read = || {
            let checked = "BUG: policies are checked when they are read";
            Arc::new(CommandPolicy {
                allowlist: CommandAllowlist::parse(self.bytes(CommandAllowlist::FILE)).expect(checked),
                forbidden: ForbiddenActions::parse(self.bytes(ForbiddenActions::FILE)).expect(checked),
            })
        };
        self.commands.get_or_init(read).clone()
    }

    /// `mcp_allowlist.json`.
    pub fn mcp_allowlist(&self) -> McpAllowlist {
        McpAllowlist::parse(self.bytes(McpAllowlist::FILE)).expect("BUG: policies are checked when they are read")
    }

    /// `protected_paths.json`.
    pub fn protected_paths(&self) -> &ProtectedPaths {
        self.protected.get_or_init(|| {
            let parsed = ProtectedPaths::parse(self.bytes("protected_paths.json"));
            parsed.expect("BUG: policies are checked when they are read")
        })
    }

    /// `scratch_paths.json`.
    pub fn scratch_paths(&self) -> Arc<ScratchPaths> {
        let read = || {
            let parsed = ScratchPaths::parse(self.bytes("scratch_paths.json"));
            Arc::new(parsed.expect("BUG: policies are checked when they are read"))
        };
        self.scratch.get_or_init(read).clone()
    }

    /// `wide_paths.json`.
    pub fn wide_paths(&self) -> WidePaths {
        WidePaths::parse(self.bytes("wide_paths.json")).expect("BUG: policies are checked when they are read")
    }

    fn bytes(&self, name: &str) -> &[u8] {
        self.files.get(name).expect("BUG: every policy has bytes")
    }
}

/// The entries of a policy's lists, each under the name of its list.
fn entries(bytes: &[u8]) -> Vec<(String, Value)> {
    let document: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let lists = document.as_object().into_iter().flatten().filter(|(list, _)| *list != "$schema");
    lists
        .flat_map(|(list, value)| match value {
            Value::Array(items) => items.iter().map(|item| (list.clone(), item.clone())).collect(),
            other => vec![(list.clone(), other.clone())],
        })
        .collect()
}

/// An entry in a line: examples are for the check, the rest is what it says.
fn shown((list, entry): &(String, Value)) -> String {
    let mut entry = entry.clone();
    if let Value::Object(members) = &mut entry {
        members.remove("match");
        members.remove("not_match");
    }
    format!("{list} {entry}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_are_what_counts_without_files() {
        let policies = Policies::built_in();
        assert_eq!(policies.missing, POLICY_FILES.map(|file| file.name));
        assert!(policies.changed().is_empty());
        assert_eq!(policies.digests().len(), POLICY_FILES.len());
        assert!(POLICY_FILES.is_sorted_by_key(|file| file.name));
        for file in &POLICY_FILES {
            for text in [file.default.to_owned(), file.written()] {
                assert_eq!((file.check)(text.as_bytes()), Ok(()), "{}", file.name);
            }
        }
    }

    #[test]
    fn a_changed_policy_is_told_apart_and_says_how() {
        let text = r#"{"rules":[{"path":"target","reason":"mine"}]}"#;
        let found = BTreeMap::from([("scratch_paths.json".to_owned(), text.as_bytes().to_vec())]);
        let policies = Policies::check(found).unwrap();
        assert_eq!(policies.changed().into_keys().collect::<Vec<_>>(), ["scratch_paths.json"]);
        assert_eq!(
            policies.missing,
            POLICY_FILES
                .map(|file| file.name)
                .into_iter()
                .filter(|name| *name != "scratch_paths.json")
                .collect::<Vec<_>>()
        );
        let differences = policies.differences("scratch_paths.json");
        assert_eq!(differences.last().unwrap(), r#"+ rules {"path":"target","reason":"mine"}"#);
        assert!(differences[0].starts_with("- rules {\"path\":"), "{differences:?}");
        assert_eq!(policies.differences("protected_paths.json"), [""; 0]);
    }

    #[test]
    fn broken_and_unknown_policies_are_refused_all_at_once() {
        let found = ["protected_paths.json", "scratch_paths.json", "protected_path.json"];
        let found = found.map(|name| (name.to_owned(), br#"{"rules":[1]}"#.to_vec())).into();
        let said: Vec<String> = Policies::check(found).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "protected_paths.json /rules/0: expected object, found number",
                "scratch_paths.json /rules/0: expected object, found number",
                "protected_path.json (document): there is no such policy; there are agent_registry.json, \
                 command_allowlist.json, forbidden_actions.json, mcp_allowlist.json, protected_paths.json, \
                 scratch_paths.json, wide_paths.json",
            ]
        );
    }
}
