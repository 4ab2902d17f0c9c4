//! The policies of the scope gate: `protected_paths.json`, which no agent changes unless a contract names them,
//! and `scratch_paths.json`, where tools may leave what never lands. Both are data with a reason per line; a
//! rule that protects carries examples, and one that does not hold its own examples is not loaded.

use super::pattern::{FoldedPath, PathPattern};
use crate::json::{self, Limits, Violation};
use crate::path::{RepoPath, lies_within};
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// The default `protected_paths.json`.
pub const PROTECTED_PATHS_DEFAULT: &str = include_str!("protected_paths.json");

/// The default `scratch_paths.json`.
pub const SCRATCH_PATHS_DEFAULT: &str = include_str!("scratch_paths.json");

/// `protected_paths.json` as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtectedPathsFile {
    /// A path is protected if any rule says so; order does not matter.
    pub rules: Vec<ProtectedPathRule>,
}

/// A line of `protected_paths.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtectedPathRule {
    /// `name` anywhere, `dir/`, `dir/name` or `/name` from the root, `**/dir/name` at any depth; one `*` in a component.
    /// Everything below is meant too. Case does not count.
    pub pattern: String,
    /// Names that the pattern does not mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Why it is protected; shown with every finding.
    #[schemars(length(min = 1))]
    pub reason: String,
    /// Whether a contract can allow it by naming it, or something below it, in `allowed_paths`. If not, it can only name the
    /// very file, and a person has to approve that.
    pub contractable: bool,
    /// Paths that the rule must match.
    #[serde(rename = "match")]
    #[schemars(length(min = 1))]
    pub examples: Vec<String>,
    /// Paths that the rule must not match.
    #[schemars(length(min = 1))]
    pub not_match: Vec<String>,
}

/// Paths that no agent changes unless a contract names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedPaths {
    rules: Vec<Protection>,
}

/// One rule, ready to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    pattern: PathPattern,
    /// Why the path is protected, as the policy says it.
    pub reason: String,
    /// Whether a contract can allow it.
    pub contractable: bool,
}

impl Protection {
    /// Whether the path is what the rule protects, or lies below it.
    pub fn covers(&self, path: &FoldedPath) -> bool {
        self.pattern.matches(path)
    }

    /// Whether one of these entries allows the path: it holds the path and is itself at or below what the rule
    /// protects. `.github/workflows` allows itself; `/` or a wide directory around it does not.
    pub fn is_allowed(&self, path: &RepoPath, allowed_paths: &[RepoPath]) -> bool {
        let names_it = |entry: &&RepoPath| path.is_within(entry) && self.covers(&FoldedPath::new(entry));
        self.contractable && allowed_paths.iter().any(|entry| names_it(&entry))
    }
}

impl ProtectedPaths {
    /// Reads the file; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<ProtectedPaths, Vec<Violation>> {
        let file: ProtectedPathsFile = json::decode(bytes, &Limits::DOCUMENT)?;
        let mut rules = Vec::new();
        let mut problems = Vec::new();
        for (index, rule) in file.rules.into_iter().enumerate() {
            match rule.compile() {
                Ok(protection) => rules.push(protection),
                Err(found) => problems.extend(
                    found
                        .into_iter()
                        .map(|(field, message)| Violation { pointer: format!("/rules/{index}/{field}"), message }),
                ),
            }
        }
        if problems.is_empty() { Ok(ProtectedPaths { rules }) } else { Err(problems) }
    }

    /// What counts where nobody wrote another one.
    pub fn built_in() -> ProtectedPaths {
        ProtectedPaths::parse(PROTECTED_PATHS_DEFAULT.as_bytes()).expect("BUG: the default is verified by a test")
    }

    /// Every rule that covers a path.
    pub fn covering<'a>(&'a self, path: &'a FoldedPath) -> impl Iterator<Item = &'a Protection> {
        self.rules.iter().filter(move |rule| rule.covers(path))
    }
}

impl ProtectedPathRule {
    /// The rule, or what is wrong with which of its fields.
    fn compile(self) -> Result<Protection, Vec<(String, String)>> {
        let mut problems = Vec::new();
        let mut pattern = PathPattern::parse(&self.pattern).map_err(|message| vec![("pattern".to_owned(), message)])?;
        for (index, name) in self.except.iter().enumerate() {
            match pattern.clone().except(name) {
                Ok(narrower) => pattern = narrower,
                Err(message) => problems.push((format!("except/{index}"), message)),
            }
        }
        for (field, examples, expected) in [("match", &self.examples, true), ("not_match", &self.not_match, false)] {
            for (index, example) in examples.iter().enumerate() {
                let message = match RepoPath::parse(example) {
                    Err(problem) => problem.to_string(),
                    Ok(path) if pattern.matches(&FoldedPath::new(&path)) == expected => continue,
                    Ok(_) => {
                        let verb = if expected { "does not match" } else { "matches" };
                        format!("the rule {:?} {verb} this example", self.pattern)
                    }
                };
                problems.push((format!("{field}/{index}"), message));
            }
        }
        let protection = Protection { pattern, reason: self.reason, contractable: self.contractable };
        if problems.is_empty() { Ok(protection) } else { Err(problems) }
    }
}

/// `scratch_paths.json` as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScratchPathsFile {
    /// Order does not matter.
    pub rules: Vec<ScratchPathRule>,
}

/// A line of `scratch_paths.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScratchPathRule {
    /// A name means that directory or file at any depth; a path with `/` is taken from the repository's root. One `*` in
    /// a component stands for any characters of it.
    pub path: String,
    /// Who leaves what there.
    #[schemars(length(min = 1))]
    pub reason: String,
}

/// Where tools may leave what never lands. Names count exactly: a list that allows does not guess.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScratchPaths {
    /// Meant at any depth.
    names: Vec<ScratchName>,
    /// Meant from the root, component by component.
    paths: Vec<Vec<ScratchName>>,
}

/// What one component must be, byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ScratchName {
    before: String,
    /// What comes after a `*`, if there is one.
    after: Option<String>,
}

impl ScratchName {
    fn new(text: &str) -> ScratchName {
        match text.split_once('*') {
            Some((before, after)) => ScratchName { before: before.to_owned(), after: Some(after.to_owned()) },
            None => ScratchName { before: text.to_owned(), after: None },
        }
    }

    fn is(&self, name: &[u8]) -> bool {
        let before = self.before.as_bytes();
        match self.after.as_ref().map(String::as_bytes) {
            None => name == before,
            Some(after) => {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            }
        }
    }
}

impl ScratchPaths {
    /// Reads the file; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<ScratchPaths, Vec<Violation>> {
        let file: ScratchPathsFile = json::decode(bytes, &Limits::DOCUMENT)?;
        let mut scratch = ScratchPaths::default();
        let mut problems = Vec::new();
        for (index, rule) in file.rules.iter().enumerate() {
            match scratch_path(&rule.path) {
                Ok(parts) if rule.path.trim_end_matches('/').contains('/') => scratch.paths.push(parts),
                Ok(parts) => scratch.names.extend(parts),
                Err(message) => problems.push(Violation { pointer: format!("/rules/{index}/path"), message }),
            }
        }
        if problems.is_empty() { Ok(scratch) } else { Err(problems) }
    }

    /// What counts where nobody wrote another one.
    pub fn built_in() -> ScratchPaths {
        ScratchPaths::parse(SCRATCH_PATHS_DEFAULT.as_bytes()).expect("BUG: the default is verified by a test")
    }

    /// The scratch directory that a path is or lies below, as a path of its own. The path is taken as bytes, since
    /// what tools leave there may have any name.
    pub fn directory_of(&self, path: &[u8]) -> Option<RepoPath> {
        let components: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        if components.iter().any(|component| matches!(*component, b"" | b"." | b"..")) {
            return None;
        }
        (1..=components.len()).find_map(|count| {
            let found = &components[..count];
            let named = self.names.iter().any(|name| name.is(found[count - 1]));
            let is_path = |parts: &Vec<ScratchName>| {
                parts.len() == count && parts.iter().zip(found).all(|(part, name)| part.is(name))
            };
            let directory = RepoPath::parse_bytes(&found.join(&b'/')).ok()?;
            (named || self.paths.iter().any(is_path)).then_some(directory)
        })
    }
}

/// Reads a line of `scratch_paths.json`, which is an allowed path but for its stars.
fn scratch_path(text: &str) -> Result<Vec<ScratchName>, String> {
    let component = |name: &str| match name.matches('*').count() {
        1 if name == "*" => Err("a `*` by itself would mean everything".to_owned()),
        0 | 1 => Ok(ScratchName::new(name)),
        _ => Err(format!("{name:?} has more than one `*`")),
    };
    // A star is as good as a letter here: what is left must be a path that a repository can hold.
    allowed_path(&text.replace('*', "x"))?;
    text.trim_matches('/').split('/').map(component).collect()
}

/// Reads an entry of a list of allowed paths: an exact path or a directory, in one spelling. A leading `/` means
/// the repository's root.
pub fn allowed_path(text: &str) -> Result<RepoPath, String> {
    if text.contains(['*', '?']) {
        return Err(format!("{text:?} is a glob; name a file or a directory, which stands for everything below it"));
    }
    let inside = text.strip_prefix('/').unwrap_or(text);
    let named = inside.strip_suffix('/').unwrap_or(inside);
    if matches!(named, "" | ".") {
        return Err(format!("{text:?} would allow the whole repository"));
    }
    let path = RepoPath::parse(named).map_err(|problem| problem.to_string())?;
    if path.as_str() != named {
        return Err(format!("write {text:?} as {:?}", path.as_str()));
    }
    Ok(path)
}

/// An entry of `allowed_paths` where the state directory lies here: that one is not for agents.
pub fn allowed_path_outside(text: &str, state_dir: Option<&RepoPath>) -> Result<RepoPath, String> {
    match allowed_path(text)? {
        path if state_dir.is_some_and(|dir| lies_within(&path, dir)) => {
            Err(format!("{text:?} is in the state directory, which is not for agents"))
        }
        path => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn folded(path: &str) -> FoldedPath {
        FoldedPath::new(&RepoPath::parse(path).unwrap())
    }

    #[test]
    fn the_defaults_hold_their_own_examples() {
        let protected = ProtectedPaths::built_in();
        assert!(protected.rules.len() > 40);
        assert!(ScratchPaths::built_in().names.len() > 10);
    }

    #[test]
    fn every_group_of_the_design_is_protected_and_ordinary_files_are_not() {
        let protected = ProtectedPaths::built_in();
        let contractable = |path: &str| -> Vec<bool> {
            protected.covering(&folded(path)).map(|protection| protection.contractable).collect()
        };
        for path in [".gitmodules", "a/.gitmodules", ".GITMODULES", ".gitconfig", ".norma/config.json", ".NORMA/x"] {
            assert!(contractable(path).contains(&false), "{path} is never contractable");
        }
        for path in [
            ".gitignore",
            "src/.gitattributes",
            ".GitIgnore.",
            ".claude/settings.json",
            "sub/.claude/settings.json",
            ".codex/config.toml",
            ".gemini/settings.json",
            ".opencode/agent/a.md",
            ".cursor/mcp.json",
            "AGENTS.md",
            "CLAUDE.md",
            "GEMINI.md",
            ".mcp.json",
            ".env",
            "service/.env.production",
            ".github/workflows/ci.yml",
            ".GitHub/workflows/ci.yml",
            ".gitlab-ci.yml",
            ".circleci/config.yml",
            ".ci/run",
            "Jenkinsfile",
            ".eslintrc.json",
            "eslint.config.mjs",
            "ruff.toml",
            ".flake8",
            "clippy.toml",
            "rustfmt.toml",
            ".pre-commit-config.yaml",
            ".husky/pre-commit",
            ".worktreeinclude",
            ".cargo/config.toml",
            "a/.cargo/config",
        ] {
            let found = contractable(path);
            assert!(!found.is_empty() && !found.contains(&false), "{path}: {found:?}");
        }
        for path in [
            "src/main.rs",
            "README.md",
            "docs/ci.md",
            ".env.example",
            ".env.sample",
            "a/.env.template",
            ".env.dist",
            "data/.gitkeep",
            "Cargo.toml",
            "package.json",
            "src/git/mod.rs",
            "environment.md",
            ".cargo/bin/x",
        ] {
            assert_eq!(contractable(path), [false; 0], "{path}");
        }
    }

    #[test]
    fn a_contract_allows_only_what_it_names_itself() {
        let protected = ProtectedPaths::built_in();
        let allows = |entry: &str, path: &str| {
            let (entry, path) = (RepoPath::parse(entry).unwrap(), RepoPath::parse(path).unwrap());
            protected.covering(&FoldedPath::new(&path)).all(|rule| rule.is_allowed(&path, std::slice::from_ref(&entry)))
        };
        assert!(allows(".github/workflows", ".github/workflows/ci.yml"));
        assert!(!allows(".github", ".github/workflows/ci.yml"));
        assert!(allows(".github", ".github/CONTRIBUTING.md"));
        assert!(allows("sub/.gitignore", "sub/.gitignore"));
        assert!(!allows("sub", "sub/.gitignore"));
        assert!(!allows(".github/workflows", ".github/actions/a.yml"));
        assert!(!allows(".github", ".GitHub/workflows/ci.yml"));
        assert!(!allows(".gitmodules", ".gitmodules"));
        assert!(!allows(".norma", ".norma/config.json"));
    }

    #[test]
    fn every_violation_of_a_list_is_named_with_its_place() {
        let rule = |pattern: &str| json!({"pattern": pattern, "reason": "r", "contractable": true, "match": ["a/x"], "not_match": ["b"]});
        let pointers = |rules: Value| -> Vec<String> {
            let text = json!({ "rules": rules }).to_string();
            let found = ProtectedPaths::parse(text.as_bytes()).err().unwrap_or_default();
            found.into_iter().map(|violation| violation.pointer).collect()
        };
        assert_eq!(pointers(json!([rule("x")])), [""; 0]);
        let mut wrong = rule("b");
        wrong["except"] = json!(["c/d", "e*"]);
        wrong["match"] = json!(["../x", "b"]);
        let expected =
            ["/rules/1/pattern", "/rules/2/except/0", "/rules/2/match/0", "/rules/2/not_match/0", "/rules/3/match/0"];
        assert_eq!(pointers(json!([rule("x"), rule("//x"), wrong, rule("y")])), expected);
        assert_eq!(pointers(json!([{"pattern": "x", "reason": "", "match": [], "not_match": ["b"]}])).len(), 3);
        let text = r#"{"rules":[{"path":"a/*","reason":"r"},{"path":"","reason":"r"},{"path":"../a","reason":"r"},
            {"path":"**/a","reason":"r"},{"path":"a*b*","reason":"r"},{"path":"a?","reason":"r"}]}"#;
        assert_eq!(ScratchPaths::parse(text.as_bytes()).unwrap_err().len(), 6);
    }

    #[test]
    fn a_scratch_name_is_meant_anywhere_and_a_scratch_path_from_the_root() {
        let text = r#"{"rules":[{"path":"target","reason":"r"},{"path":"gen/out","reason":"r"},{"path":"/bin","reason":"r"}]}"#;
        let scratch = ScratchPaths::parse(text.as_bytes()).unwrap();
        let found = |path: &[u8]| scratch.directory_of(path).map(|path| path.as_str().to_owned());
        for (path, expected) in [
            (&b"target"[..], Some("target")),
            (b"target/debug/x", Some("target")),
            (b"a/target/\xff/.git/x", Some("a/target")),
            (b"gen/out/x", Some("gen/out")),
            (b"bin/x", Some("bin")),
            (b"a/gen/out/x", None),
            (b"a/bin/x", None),
            (b"TARGET/x", None),
            (b"targets/x", None),
            (b"target/../src/x", None),
            (b"\xff/target/x", None),
            (b".git/target/x", None),
        ] {
            assert_eq!(found(path).as_deref(), expected, "{}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn a_star_in_a_scratch_path_stands_for_characters_of_one_component() {
        let text = r#"{"rules":[{"path":"cmake-build-*","reason":"r"},{"path":"*.o","reason":"r"},{"path":"gen/*.tmp/","reason":"r"}]}"#;
        let scratch = ScratchPaths::parse(text.as_bytes()).unwrap();
        let found = |path: &str| scratch.directory_of(path.as_bytes()).map(|path| path.as_str().to_owned());
        for (path, expected) in [
            ("cmake-build-debug/x", Some("cmake-build-debug")),
            ("a/cmake-build-/x", Some("a/cmake-build-")),
            ("src/a.o", Some("src/a.o")),
            ("gen/1.tmp/x", Some("gen/1.tmp")),
            ("a/gen/1.tmp/x", None),
            ("gen/x/1.tmp", None),
            ("CMAKE-BUILD-debug/x", None),
            ("src/a.obj", None),
            (".git/a.o", None),
        ] {
            assert_eq!(found(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn an_allowed_path_has_one_spelling_and_is_never_the_whole_tree() {
        for (text, expected) in [("src", "src"), ("src/", "src"), ("/src", "src"), ("a/[id].tsx", "a/[id].tsx")] {
            assert_eq!(allowed_path(text).unwrap().as_str(), expected);
        }
        for text in ["", "/", ".", "./", "./src", "src//", "//src", "a//b", "**", "src/*", "a?", "..", "../a", "a/../b"]
        {
            assert!(allowed_path(text).is_err(), "{text:?}");
        }
        for text in ["C:/x", ".git", "a/.GIT/config", "a\nb", "a\\b"] {
            assert!(allowed_path(text).is_err(), "{text:?}");
        }
    }
}
