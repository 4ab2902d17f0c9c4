//! Tables of pages and sources that the checker must read right.

use super::*;

fn by(names: &[&str]) -> Held {
    Held::By(names.iter().map(|name| test_name(name).unwrap()).collect())
}

fn page(row: &str) -> String {
    let mut page = String::from("# Conformance\n\nProse | with a bar.\n");
    for seed in SEEDS {
        page += &format!("\n## Seed {seed}: a title\n\n| id | statement | where | held by |\n");
        page += "|---|---|---|---|\n";
        page += &format!("| {seed}-9-9 | something | §9 | not yet |\n");
        if seed == "000" {
            page += &format!("{row}\n");
        }
    }
    page
}

/// The extra row sits on line 10 of the page.
#[track_caller]
fn check_row(row: &str, expected: Result<Held, &str>) {
    let (rows, problems) = parse_page(&page(row));
    match expected {
        Ok(held) => {
            assert_eq!(problems, Vec::<String>::new());
            assert_eq!(rows[1].held, held);
            assert_eq!(rows[1].line, 10);
        }
        Err(problem) => assert_eq!(problems, [format!("{PAGE}:10: {problem}")]),
    }
}

#[track_caller]
fn check_held(cell: &str, expected: Result<Held, &str>) {
    check_row(&format!("| 000-4.1-3 | it holds | §4.1 | {cell} |"), expected);
}

#[track_caller]
fn check_found(source: &str, expected: &[(&str, bool)]) {
    let found: Vec<_> = test_functions(source).into_iter().map(|test| (test.name, test.ignored)).collect();
    let expected: Vec<_> = expected.iter().map(|(name, ignored)| ((*name).to_owned(), *ignored)).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_is_checked_for_each_agent_is_a_test() {
    check_found("for_each_agent!(\n    it_lands,\n    it_ends\n);", &[("it_lands", false), ("it_ends", false)]);
    check_found("for_each_protocol!(it_asks);", &[("it_asks", false)]);
    check_found("// for_each_agent!(it_lands)\nfor_each_agent!(@ $check: codex Codex);", &[]);
}

#[test]
fn every_word_of_the_last_column_is_understood() {
    check_held("not yet", Ok(Held::NotYet));
    check_held("not yet: the second half", Ok(Held::NotYet));
    check_held("exception: it would harm", Ok(Held::Excepted));
    check_held("exception: docs/decisions/0001-why.md", Ok(Held::ExceptedBy("docs/decisions/0001-why.md".into())));
    check_held("`store::it_holds`", Ok(by(&["store::it_holds"])));
    check_held("`store::a`, `scripted-agent::b`", Ok(by(&["store::a", "scripted-agent::b"])));
    check_held("`store::log::tests::a`", Ok(by(&["store::a"])));
}

#[test]
fn a_last_column_of_another_shape_is_a_problem() {
    let unknown = |text| format!("000-4.1-3: `{text}` is neither a test in backticks nor a known word");
    check_held("someday", Err(&unknown("someday")));
    check_held("store::a", Err(&unknown("store::a")));
    check_held("`store::a` and more", Err(&unknown("`store::a` and more")));
    check_held("", Err(&unknown("")));
    check_held("`a`", Err("000-4.1-3: `a` is not package::test_name"));
    check_held("`store::a b`", Err("000-4.1-3: `store::a b` is not package::test_name"));
    check_held(
        "exception: docs/decisions/../../x.md",
        Err("000-4.1-3: `docs/decisions/../../x.md` is not docs/decisions/NNNN-….md"),
    );
}

#[test]
fn a_row_of_another_shape_is_a_problem() {
    check_row("| 000-1-1 | three | cells |", Err("a row has four cells, this one has 3"));
    check_row("| 000-1-1 | a | b | not yet", Err("neither a row nor empty"));
    check_row("000-1-1 | a | b | not yet |", Err("neither a row nor empty"));
    check_row("| 000-1-1 | | b | not yet |", Err("000-1-1: an empty cell"));
    check_row("| 000-1 | a | b | not yet |", Err("`000-1` is not an id such as 000-4.1-3"));
    check_row("| 000-a-1 | a | b | not yet |", Err("`000-a-1` is not an id such as 000-4.1-3"));
    check_row("| 005-1-1 | a | b | not yet |", Err("`005-1-1` is not an id such as 000-4.1-3"));
    check_row("| 001-1-1 | a | b | not yet |", Err("`001-1-1` is in the table of seed 000"));
    check_row("| 000-9-9 | a | b | not yet |", Err("000-9-9 is already on line 9"));
}

#[test]
fn a_bar_inside_a_cell_is_escaped() {
    check_row(r"| 000-1-1 | `a\|b` | §1 | not yet |", Ok(Held::NotYet));
}

#[test]
fn a_row_outside_its_seed_and_a_seed_without_rows_are_problems() {
    let (_, problems) = parse_page("| 000-1-1 | a | b | not yet |\n## Seed 007: bond\n");
    assert_eq!(problems[0], format!("{PAGE}:1: a row outside its seed"));
    assert_eq!(problems[1], format!("{PAGE}:2: not the heading of a seed: `## Seed 007: bond`"));
    assert_eq!(problems[2], format!("{PAGE}: seed 000 has no statements"));
    assert_eq!(problems.len(), 7);
}

#[test]
fn a_test_is_found_between_its_attributes() {
    check_found("#[test]\nfn plain() {}", &[("plain", false)]);
    check_found("#[test]\n#[should_panic(expected = \"]\")]\nfn a() {}", &[("a", false)]);
    check_found("#[cfg(unix)] #[test] pub async fn b() {}", &[("b", false)]);
    check_found("#[test]\n/// Why.\n#[ignore = \"slow\"]\nfn c() {}", &[("c", true)]);
    check_found("#[ignore]\n#[test]\nfn d() {}", &[("d", true)]);
    check_found("#[tokio::test(flavor)]\nfn e() {}\n#[x::test]\nfn f() {}", &[("e", false), ("f", false)]);
    check_found("#[derive(Debug)]\nstruct S;\nfn helper() {}", &[]);
    check_found("#[test]\nstruct S;\nfn helper() {}", &[]);
}

#[test]
fn a_test_is_found_in_a_proptest_block() {
    let source = "proptest! {\n  #![proptest_config(x)]\n  #[test]\n  fn any(n in 0..9) { }\n
        #[test] fn other(s in \"[a-z]\") { } }";
    check_found(source, &[("any", false), ("other", false)]);
}

#[test]
fn a_test_in_a_comment_or_a_literal_is_not_found() {
    check_found("// #[test] fn a() {}\n/* /* #[test] */ #[test] fn b() {} */", &[]);
    check_found(r##"const A: &str = "\" #[test] fn a() {}";"##, &[]);
    check_found(r###"const A: &str = r#"" #[test] fn a() {}"#;"###, &[]);
    check_found("const A: char = '\"'; #[test] fn a<'x>() {} // \"", &[("a", false)]);
    check_found(r"const A: char = '\''; #[test] fn b() {}", &[("b", false)]);
}

#[test]
fn the_tests_of_this_file_are_found_under_its_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tests = Tests::collect(&root).unwrap();
    let name = |text: &str| test_name(text).unwrap();
    let own = "the_tests_of_this_file_are_found_under_its_package";
    assert_eq!(tests.missing(&name(&format!("xtask::{own}"))), None);
    assert_eq!(tests.missing(&name("xtask::no_such_test")), Some("there is no test xtask::no_such_test".into()));
    assert_eq!(tests.missing(&name(&format!("nobody::{own}"))), Some("there is no package nobody".into()));
}

#[test]
fn a_promise_is_kept_only_by_a_live_test_and_an_existing_page() {
    let mut tests = Tests::default();
    tests.packages.insert("store".into());
    tests.scan("store", "#[test] fn a() {} #[test] #[ignore] fn b() {}");
    let judged = |held| {
        let row = Row { line: 3, id: "000-1-1".into(), seed: "000", held };
        judge(&row, &tests, Path::new("nowhere"))
    };
    let problem = |text| vec![format!("{PAGE}:3: 000-1-1: {text}")];
    assert_eq!(judged(by(&["store::a"])), Vec::<String>::new());
    assert_eq!(judged(by(&["store::b"])), problem("store::b is ignored"));
    assert_eq!(judged(by(&["store::a", "store::c"])), problem("there is no test store::c"));
    assert_eq!(judged(Held::ExceptedBy("x.md".into())), problem("x.md does not exist"));
}

#[test]
fn statements_are_counted_per_seed_and_in_all() {
    let (rows, _) = parse_page(&page("| 000-1-1 | a | b | `store::a` |"));
    let counts = count(&rows, &BTreeSet::new());
    assert_eq!(summary(&counts).lines().next(), Some("seeds 000: 2 statements, 1 held, 0 exceptions, 1 not yet"));
    assert_eq!(counts["total"].statements, 6);
    assert!(json(&counts, &[]).contains(r#""004":{"exceptions":0,"held":0,"not_yet":1"#));
}

#[test]
fn what_rests_on_tests_that_were_not_run_alone_is_vacuous_here() {
    let (rows, _) = parse_page(&page("| 000-1-1 | a | b | `norma::each`, `norma::one` |"));
    let seed = |not_run: &str| summary(&count(&rows, &not_run_tests(not_run))).lines().next().unwrap().to_owned();
    let held = "seeds 000: 2 statements, 1 held, 0 exceptions, 1 not yet";
    assert_eq!(seed(""), held);
    assert_eq!(seed("e2e\treal::loops::each::codex\tcodex is not installed\n"), held);
    assert_eq!(
        seed("e2e\treal::loops::each::codex\tno codex\ne2e\treal::one\tno codex\n"),
        "seeds 000: 2 statements, 0 held, 1 vacuous here (something is missing), 0 exceptions, 1 not yet"
    );
}

#[test]
fn the_page_of_this_workspace_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let outcome = check(&root, &[]);
    assert_eq!(outcome.map(|summary| summary.lines().count()), Ok(SEEDS.len() + 1));
}
