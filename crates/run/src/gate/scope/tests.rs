//! Every trick that is known against a diff gate, as the gate sees it, each with the rule that must find it; then
//! changes that nobody thought of.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

/// Read once: thousands of changes are judged by them.
static PROTECTED: LazyLock<ProtectedPaths> = LazyLock::new(ProtectedPaths::built_in);
static SCRATCH: LazyLock<ScratchPaths> = LazyLock::new(ScratchPaths::built_in);

const PLAIN: Option<u32> = Some(0o100_644);
const EXECUTABLE: Option<u32> = Some(0o100_755);
const LINK: Option<u32> = Some(MODE_SYMLINK);
const GITLINK: Option<u32> = Some(MODE_GITLINK);

fn entry(path: impl AsRef<[u8]>, old_mode: Option<u32>, new_mode: Option<u32>) -> ChangedPath {
    ChangedPath { path: path.as_ref().to_vec(), old_mode, new_mode, ..ChangedPath::default() }
}

fn added(path: impl AsRef<[u8]>) -> ChangedPath {
    entry(path, None, PLAIN)
}

fn scope(allowed: &[&str]) -> Scope {
    Scope {
        denied_paths: Vec::new(),
        allowed_paths: allowed.iter().map(|path| RepoPath::parse(path).unwrap()).collect(),
        scratch_paths: SCRATCH.clone().into(),
        allow_binary: false,
        named_by_git: Vec::new(),
        rules: contract::RULES,
    }
}

fn judged(observed: &Observed, scope: &Scope) -> Vec<Finding> {
    let state = RepoPath::parse(".norma").unwrap();
    judge(observed, scope, &PROTECTED, Some(&state))
}

/// Judges a change with `src` as the only allowed path; the rule and the path of each finding.
#[track_caller]
fn check(changes: &[ChangedPath], expected: &[(Rule, &str)]) {
    let observed = Observed { changes: changes.to_vec(), ..Observed::default() };
    let found = judged(&observed, &scope(&["src"]));
    let found: Vec<(Rule, &str)> =
        found.iter().map(|finding| (finding.rule, finding.path.as_deref().unwrap_or_default())).collect();
    assert_eq!(found, expected, "{changes:?}");
}

#[test]
fn ordinary_changes_pass() {
    let changes = [
        entry("src/a.txt", PLAIN, PLAIN),
        added("src/deep/er/b.txt"),
        entry("src/run.sh", PLAIN, EXECUTABLE),
        entry("src/gone.txt", PLAIN, None),
        added("src/größe/日本.txt"),
        added("src/.env.example"),
        added("src/empty/.gitkeep"),
        added("src/[id].tsx"),
        added("src/a~b.txt"),
    ];
    check(&changes, &[]);
    let everywhere = Observed { changes: vec![added("a"), added("Cargo.toml"), added("b/c")], ..Observed::default() };
    assert_eq!(judged(&everywhere, &scope(&[])), []);
}

#[test]
fn both_sides_of_a_rename_out_of_a_protected_path_are_found() {
    let moved = [entry("secret/k.txt", PLAIN, None), added("src/k.txt")];
    check(&moved, &[(Rule::OutsideScope, "secret/k.txt")]);
    let moved = [entry("src/k.txt", PLAIN, None), added("secret/k.txt")];
    check(&moved, &[(Rule::OutsideScope, "secret/k.txt")]);
    let moved = [entry(".env", PLAIN, None), added("src/env.txt")];
    check(&moved, &[(Rule::OutsideScope, ".env"), (Rule::ProtectedPath, ".env")]);
}

#[test]
fn odd_names_are_recorded_exactly_and_never_split() {
    check(&[added("src/a\nsecret/k.txt")], &[(Rule::OddName, "src/a\\nsecret/k.txt")]);
    check(&[added(b"src/\xff")], &[(Rule::OddName, "src/\u{fffd}")]);
    for name in ["src/\u{202e}txt", "src/a\u{200b}b", "src/a\tb", "src/a\u{7f}", "src/a\\b", "src/a\u{1b}[2J"] {
        let observed = Observed { changes: vec![added(name)], ..Observed::default() };
        let found = judged(&observed, &scope(&["src"]));
        assert_eq!(found.iter().map(|finding| finding.rule).collect::<Vec<_>>(), [Rule::OddName], "{name:?}");
        assert!(!found[0].path.as_deref().unwrap().contains(['\u{202e}', '\u{1b}', '\t']), "{found:?}");
    }
    let observed = Observed { changes: vec![added(b"src/\xff\n")], ..Observed::default() };
    assert_eq!(judged(&observed, &scope(&["src"]))[0].path_hex.as_deref(), Some("7372632fff0a"));
    check(
        &[added("src/GITMOD~1"), added("src/a~12.txt")],
        &[(Rule::OddName, "src/GITMOD~1"), (Rule::OddName, "src/a~12.txt")],
    );
    for name in ["/etc/passwd", "../x", "src/../secret/x", "", "src//x", "./src/x", "src/x/"] {
        check(&[added(name)], &[(Rule::OddName, name)]);
    }
}

#[test]
fn a_file_whose_change_the_index_hides_is_a_change_like_any_other() {
    // assume-unchanged, skip-worktree and sparse entries exist in an index; the gate sees trees.
    check(&[entry("secret/k.txt", PLAIN, PLAIN)], &[(Rule::OutsideScope, "secret/k.txt")]);
}

#[test]
fn a_symbolic_link_added_retargeted_or_in_place_of_a_file_is_refused() {
    for (old, new) in [(None, LINK), (LINK, LINK), (PLAIN, LINK)] {
        check(&[entry("src/l", old, new)], &[(Rule::Symlink, "src/l")]);
        let leading = ChangedPath { leads_to: Some("src/a".into()), ..entry("src/l", old, new) };
        check(&[leading], &[(Rule::Symlink, "src/l")]);
    }
    check(&[entry("src/l", LINK, None), entry("src/m", LINK, PLAIN)], &[]);
}

#[test]
fn a_link_that_the_contract_names_may_lead_to_where_changes_may_be() {
    let rules = |target: Option<&str>, allowed: &[&str]| {
        let link = ChangedPath { leads_to: target.map(str::to_owned), ..entry("src/l", None, LINK) };
        let observed = Observed { changes: vec![link], ..Observed::default() };
        judged(&observed, &scope(allowed)).iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(Some("src/lib/a"), &["src/l", "src/lib"]), []);
    assert_eq!(rules(Some("src/lib/a"), &["src"]), [Rule::Symlink]);
    for target in [None, Some("secret/k"), Some("src/lib/.gitmodules"), Some(".norma/config.json")] {
        assert_eq!(rules(target, &["src/l", "src/lib"]), [Rule::Symlink], "{target:?}");
    }
}

#[test]
fn what_the_base_has_is_no_reason_to_refuse_a_change_of_it() {
    for path in [&b"src/a."[..], b"src/aux.c", b"src/-rf", b"src/GITMOD~1", b"src/\xff"] {
        check(&[entry(path, PLAIN, PLAIN), entry(path, PLAIN, None)], &[]);
    }
    let outside = Observed { changes: vec![entry(b"lib/\xff", PLAIN, None)], ..Observed::default() };
    assert_eq!(judged(&outside, &scope(&["src"]))[0].rule, Rule::OutsideScope);
    assert_eq!(judged(&outside, &scope(&["src"]))[0].path_hex.as_deref(), Some("6c69622fff"));
    let known = ChangedPath { binary: true, excused: true, ..entry("src/logo.png", None, PLAIN) };
    check(&[known], &[]);
}

#[test]
fn a_new_name_that_some_system_takes_for_something_else_is_refused() {
    for path in ["src/CON", "src/aux.c", "src/lpt1.txt", "src/a.", "src/a ", "src/-rf", "src/nul /x"] {
        check(&[added(path)], &[(Rule::OddName, path)]);
    }
    for path in ["src/console", "src/com0", "src/com10", "src/a-b", "src/lpt", "src/auxiliary.c"] {
        check(&[added(path)], &[]);
    }
}

#[test]
fn a_line_that_is_shown_in_another_order_than_it_is_read_is_refused() {
    let change = ChangedPath { reordered: Some((3, '\u{202e}')), ..entry("src/a.c", PLAIN, PLAIN) };
    let found = judged(&Observed { changes: vec![change], ..Observed::default() }, &scope(&["src"]));
    assert_eq!(found[0].rule, Rule::ReorderedText);
    let message = "src/a.c: line 3 adds U+202E, which shows text in another order than it is read";
    assert_eq!(found[0].to_string(), message);
}

#[test]
fn a_run_of_earlier_rules_is_judged_as_it_was() {
    let known = ChangedPath { binary: true, excused: true, ..entry("src/b", PLAIN, PLAIN) };
    let changes = vec![
        entry("src/l", LINK, None),
        entry(b"src/\xff", PLAIN, PLAIN),
        known,
        added("src/aux.c"),
        added("src/AUX.c"),
        ChangedPath { reordered: Some((1, '\u{202e}')), ..added("src/x") },
        added("src/.gitmodules"),
    ];
    let scope = Scope { rules: 2, ..scope(&["src", "src/.gitmodules"]) };
    let found = judged(&Observed { changes, ..Observed::default() }, &scope);
    let rules: Vec<Rule> = found.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [Rule::Symlink, Rule::OddName, Rule::Binary, Rule::ProtectedPath, Rule::CaseTwin]);
}

#[test]
fn submodules_and_odd_modes_are_refused_on_either_side() {
    for (old, new) in [(None, GITLINK), (GITLINK, GITLINK), (GITLINK, None), (PLAIN, GITLINK), (GITLINK, PLAIN)] {
        check(&[entry("src/sub", old, new)], &[(Rule::Submodule, "src/sub")]);
    }
    for mode in [0o100_600, 0o100_664, 0o104_755, 0o40_000, 0o100_777, 0] {
        check(&[entry("src/m", None, Some(mode))], &[(Rule::Mode, "src/m")]);
        check(&[entry("src/m", Some(mode), PLAIN)], &[]);
    }
}

#[test]
fn a_prefix_is_compared_component_by_component_and_byte_by_byte() {
    for path in ["src-evil/x", "srcx", "SRC/x", "Src", "lib/src/x", "src.txt"] {
        check(&[added(path)], &[(Rule::OutsideScope, path)]);
    }
    check(&[added("src"), added("src/x")], &[]);
}

#[test]
fn attributes_modules_and_the_git_directory_are_protected_in_every_spelling() {
    for path in ["src/.gitattributes", "src/.GitAttributes", "src/.gitmodules", "src/.gitmodules:x/y"] {
        check(&[added(path)], &[(Rule::ProtectedPath, path)]);
    }
    let path = "src/.gitattributes.";
    check(&[added(path)], &[(Rule::OddName, path), (Rule::ProtectedPath, path)]);
    check(&[added("src/.gitted/config"), added("vendor/.travis.yml")], &[(Rule::OutsideScope, "vendor/.travis.yml")]);
    for path in ["src/.git/config", "src/.GIT/config", "src/git~1/config", ".git/hooks/post-checkout", "src/.git. /x"] {
        check(&[added(path)], &[(Rule::ProtectedPath, path)]);
    }
    check(&[added("src/.g\u{200c}it/config")], &[(Rule::OddName, "src/.g\\u{200c}it/config")]);
}

#[test]
fn binary_content_is_refused_unless_the_contract_allows_it() {
    let binary = Observed { changes: vec![ChangedPath { binary: true, ..added("src/b") }], ..Observed::default() };
    let rules = |scope: &Scope| judged(&binary, scope).iter().map(|finding| finding.rule).collect::<Vec<_>>();
    assert_eq!(rules(&scope(&["src"])), [Rule::Binary]);
    assert_eq!(rules(&Scope { allow_binary: true, ..scope(&["src"]) }), []);
}

#[test]
fn a_new_name_with_a_twin_in_the_tree_after_is_refused() {
    let twin = ChangedPath { twin: Some("src/a".into()), ..added("src/A") };
    check(&[added("src/b"), twin], &[(Rule::CaseTwin, "src/A")]);
    check(&[entry("src/Makefile", PLAIN, None), added("src/makefile")], &[]);
}

#[test]
fn the_state_directory_is_never_contractable() {
    for path in [".norma/config.json", ".norma/policies/protected_paths.json", ".NORMA/config.json", ".norma"] {
        let observed = Observed { changes: vec![added(path)], ..Observed::default() };
        for allowed in [&[][..], &[".norma"], &["src"]] {
            let found = judged(&observed, &scope(allowed));
            assert_eq!(found.iter().map(|finding| finding.rule).collect::<Vec<_>>(), [Rule::StateDirectory], "{path}");
        }
    }
    let moved = RepoPath::parse("var/state").unwrap();
    let observed = Observed { changes: vec![added("var/state/x"), added("var/stately")], ..Observed::default() };
    let found = judge(&observed, &scope(&[]), &PROTECTED, Some(&moved));
    assert_eq!(found.iter().map(|finding| finding.rule).collect::<Vec<_>>(), [Rule::StateDirectory]);
}

#[test]
fn what_is_denied_is_refused_in_every_spelling_though_the_rest_is_allowed() {
    let denying = |allowed: &[&str]| Scope { denied_paths: vec![RepoPath::parse("docs").unwrap()], ..scope(allowed) };
    let refused = |path: &str, allowed: &[&str]| {
        let observed = Observed { changes: vec![added(path)], ..Observed::default() };
        let found = judged(&observed, &denying(allowed));
        found.iter().any(|finding| finding.rule == Rule::OutsideScope && finding.message.contains("but docs"))
    };
    for allowed in [&[][..], &["docs", "src"], &["docs/page.md"]] {
        assert!(refused("docs/page.md", allowed) && refused("Docs/Page.md", allowed), "{allowed:?}");
        assert!(!refused("src/a", &[]) && !refused("docs2/a", &[]));
    }
}

#[test]
fn what_the_git_configuration_names_is_protected_unless_a_contract_names_it() {
    let named = |allowed: &[&str]| Scope {
        named_by_git: ["tools/clean.sh", "our-hooks"].map(|path| RepoPath::parse(path).unwrap()).to_vec(),
        ..scope(allowed)
    };
    let refused = |path: &str, allowed: &[&str]| {
        let observed = Observed { changes: vec![added(path)], ..Observed::default() };
        judged(&observed, &named(allowed)).iter().any(|finding| finding.rule == Rule::ProtectedPath)
    };
    assert!(refused("tools/clean.sh", &["tools"]) && refused("Tools/CLEAN.sh", &["Tools"]));
    assert!(refused("our-hooks/pre-commit", &[]) && refused("our-hooks/pre-commit", &["src"]));
    assert!(!refused("tools/clean.sh", &["tools/clean.sh"]) && !refused("our-hooks/a", &["our-hooks"]));
    assert!(!refused("tools/other.sh", &["tools"]));
}

#[test]
fn a_contract_allows_a_protected_path_by_naming_it_and_repository_internals_only_one_by_one() {
    let rules = |path: &str, allowed: &[&str]| {
        let observed = Observed { changes: vec![added(path)], ..Observed::default() };
        judged(&observed, &scope(allowed)).iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(".github/workflows/ci.yml", &[".github/workflows"]), []);
    assert_eq!(rules(".github/workflows/ci.yml", &["src", ".github"]), [Rule::ProtectedPath]);
    assert_eq!(rules(".github/CONTRIBUTING.md", &["src", ".github"]), []);
    assert_eq!(rules(".github/workflows/ci.yml", &[]), [Rule::ProtectedPath]);
    assert_eq!(rules(".github/actions/x.yml", &[".github/workflows"]), [Rule::OutsideScope, Rule::ProtectedPath]);
    assert_eq!(rules("sub/.gitignore", &["sub"]), [Rule::ProtectedPath]);
    assert_eq!(rules("sub/.gitignore", &["sub/.gitignore"]), []);
    assert_eq!(rules(".gitattributes", &[".gitattributes"]), []);
    assert_eq!(rules(".gitmodules", &[".gitmodules"]), []);
    assert_eq!(rules("sub/.gitmodules", &["sub", ".gitmodules"]), [Rule::ProtectedPath]);
    assert_eq!(rules(".runtime-cache/a/b", &[".runtime-cache/a"]), [Rule::ProtectedPath]);
}

#[test]
fn ignored_files_are_findings_only_if_they_are_protected() {
    let judged_as = |path: &[u8], allowed: &[&str], denies_ignored_outside| {
        let ignored = vec![IgnoredPath { path: path.to_vec() }];
        let observed = Observed { ignored, denies_ignored_outside, ..Observed::default() };
        judged(&observed, &scope(allowed)).iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    let rules = |path: &[u8], allowed: &[&str]| judged_as(path, allowed, false);
    for path in [
        &b"src/a.o"[..],
        b"target/debug/x",
        b"sub/node_modules/p/.eslintrc",
        b"node_modules/p/\xff",
        b".venv/src/p/.git/config",
        b"src/__pycache__/a.pyc",
    ] {
        assert_eq!(rules(path, &["src"]), [], "{}", String::from_utf8_lossy(path));
    }
    assert_eq!(rules(b"a.log", &[]), []);
    assert_eq!(rules(b"a.log", &["src"]), []);
    assert_eq!(rules(b"lib/a.o", &["src"]), []);
    assert_eq!(judged_as(b"a.log", &["src"], true), [Rule::IgnoredOutside]);
    assert_eq!(judged_as(b"targets/x", &["src"], true), [Rule::IgnoredOutside]);
    assert_eq!(judged_as(b".env", &["src"], true), [Rule::ProtectedPath, Rule::IgnoredOutside]);
    assert_eq!(rules(b"src/.env", &["src"]), [Rule::ProtectedPath]);
    assert_eq!(rules(b".env", &["src"]), [Rule::ProtectedPath]);
    assert_eq!(rules(b".claude/target/x", &[]), [Rule::ProtectedPath]);
    assert_eq!(rules(b".norma/target/x", &[]), [Rule::StateDirectory]);
    assert_eq!(rules(b"src/\xff", &["src"]), [Rule::OddName]);
    assert_eq!(rules(b"target/../.env", &["src"]), [Rule::OddName]);
    assert_eq!(rules(b"sub/.git/config", &[]), [Rule::ProtectedPath]);
}

#[test]
fn what_no_tree_can_hold_is_refused_outside_of_scratch_directories() {
    let cases = [
        (Odd::Fifo, Rule::SpecialFile),
        (Odd::Socket, Rule::SpecialFile),
        (Odd::Device, Rule::SpecialFile),
        (Odd::NestedRepository, Rule::NestedRepository),
        (Odd::TooDeep, Rule::TooDeep),
        (Odd::TooLarge, Rule::TooLarge),
        (Odd::Unreadable, Rule::Unreadable),
        (Odd::Other, Rule::SpecialFile),
    ];
    for (what, rule) in cases {
        let rules = |path: &[u8]| {
            let odd = vec![OddPath { path: path.to_vec(), what }];
            let found = judged(&Observed { odd, ..Observed::default() }, &scope(&["src"]));
            found.iter().map(|finding| finding.rule).collect::<Vec<_>>()
        };
        for path in [&b"src/x"[..], b"src/x/.git", b"\xff", b"", b".norma/target/x", b".codex/target/x"] {
            assert_eq!(rules(path), [rule], "{what:?} {path:?}");
        }
        let expected = if what == Odd::Device { vec![rule] } else { vec![] };
        assert_eq!(rules(b"node_modules/p"), expected, "{what:?}");
        assert_eq!(rules(b"node_modules/p/.git"), expected, "{what:?}");
    }
}

#[test]
fn a_finding_is_plain_data_for_gates_json() {
    let observed = Observed { changes: vec![entry("l", None, LINK), added(b"a\xff")], ..Observed::default() };
    let found = judged(&observed, &scope(&[]));
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(
        text,
        r#"[{"rule":"symlink","path":"l","message":"symbolic links are refused, unless allowed_paths names the link itself and it leads to something inside the scope"},{"rule":"odd_name","path":"a�","path_hex":"61ff","message":"path is not UTF-8 from byte 1 on"}]"#
    );
    assert_eq!(serde_json::from_str::<Vec<Finding>>(&text).unwrap(), found);
    assert!(found[0].to_string().starts_with("l: symbolic links are refused"));
}

fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "src",
        "SRC",
        "a",
        ".git",
        ".gitmodules",
        ".github",
        ".env",
        "target",
        "node_modules",
        ".norma",
        "x y",
        "..",
        "",
        "gi~1",
        "\u{202e}",
        "ö",
        "o\u{308}",
    ]);
    prop_oneof![
        3 => prop::collection::vec(words, 1..5).prop_map(|words| words.join("/").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..24),
    ]
}

fn any_mode() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(prop_oneof![
        Just(0o100_644),
        Just(0o100_755),
        Just(MODE_SYMLINK),
        Just(MODE_GITLINK),
        any::<u32>()
    ])
}

fn any_odd() -> impl Strategy<Value = Odd> {
    let all = [
        Odd::Fifo,
        Odd::Socket,
        Odd::Device,
        Odd::NestedRepository,
        Odd::TooDeep,
        Odd::TooLarge,
        Odd::Unreadable,
        Odd::Other,
    ];
    prop::sample::select(all.to_vec())
}

fn any_observed() -> impl Strategy<Value = Observed> {
    let change = (any_name(), any_mode(), any_mode(), any::<bool>()).prop_map(|(path, old_mode, new_mode, binary)| {
        ChangedPath { path, old_mode, new_mode, binary, ..ChangedPath::default() }
    });
    let ignored = any_name().prop_map(|path| IgnoredPath { path });
    let odd = (any_name(), any_odd()).prop_map(|(path, what)| OddPath { path, what });
    (prop::collection::vec(change, 0..6), prop::collection::vec(ignored, 0..4), prop::collection::vec(odd, 0..3))
        .prop_map(|(changes, ignored, odd)| Observed { changes, ignored, odd, denies_ignored_outside: false })
}

fn any_allowed() -> impl Strategy<Value = RepoPath> {
    let paths = ["src", "a", "a/b", ".github", ".github/workflows", ".env", "target", ".norma", "x y", ".gitmodules"];
    prop::sample::select(paths.to_vec()).prop_map(|path| RepoPath::parse(path).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn judging_never_panics_and_an_odd_path_never_goes_unnamed(observed in any_observed(), allow_binary in any::<bool>()) {
        let found = judged(&observed, &Scope { allow_binary, ..scope(&["src"]) });
        for change in &observed.changes {
            if RepoPath::parse_bytes(&change.path).is_err() || change.new_mode == LINK {
                prop_assert!(found.iter().any(|finding| finding.path == Some(crate::gate::shown(&change.path))));
            }
        }
    }

    #[test]
    fn a_plain_change_inside_the_allowed_paths_has_no_finding(
        // With a q in front no name is that of a Windows device.
        names in prop::collection::btree_set("q[a-z]{0,7}(/q[a-z]{0,7}){0,3}", 1..6), old in prop::option::of(Just(0o100_644)),
    ) {
        let changes: Vec<ChangedPath> = names
            .iter()
            .map(|name| format!("src/{name}.rs"))
            .map(|path| ChangedPath { path: path.into_bytes(), old_mode: old, new_mode: EXECUTABLE, ..ChangedPath::default() })
            .collect();
        prop_assert_eq!(judged(&Observed { changes, ..Observed::default() }, &scope(&["src"])), []);
    }

    #[test]
    fn one_more_allowed_path_never_adds_a_finding(
        observed in any_observed(), allowed in prop::collection::vec(any_allowed(), 1..3), more in any_allowed(),
    ) {
        let keys = |allowed_paths: Vec<RepoPath>| -> Vec<(Rule, Option<String>)> {
            let found = judged(&observed, &Scope { allowed_paths, ..scope(&[]) });
            found.into_iter().map(|finding| (finding.rule, finding.path)).collect()
        };
        let before = keys(allowed.clone());
        let after = keys([allowed, vec![more]].concat());
        prop_assert!(after.len() <= before.len());
        prop_assert!(after.iter().all(|finding| before.contains(finding)), "{:?} is not in {:?}", after, before);
    }
}
