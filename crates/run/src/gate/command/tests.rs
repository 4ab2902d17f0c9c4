//! One row for each trick, and for each piece of ordinary work.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

static POLICY: LazyLock<CommandPolicy> = LazyLock::new(CommandPolicy::builtin);

/// Words are separated by single spaces here, so that every row is what is started.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn agent(line: &str) -> Decision {
    decide(&words(line), Origin::Agent, &POLICY)
}

fn contract(line: &str) -> Decision {
    decide(&words(line), Origin::Contract, &POLICY)
}

/// Ways in which an allowed `git` would still start a program or overwrite a file.
const GIT_TRICKS: [&str; 17] = [
    "git -c core.fsmonitor=X status",
    "git -c diff.external=X diff",
    "git -c alias.z=!X z",
    "git grep -OX 1",
    "git ls-remote --upload-pack=X .",
    "git clone -u X . d",
    "git fetch --upload-pack=X .",
    "git archive --remote=. --exec=X HEAD",
    "git rebase --exec X HEAD~1",
    "git difftool -y -x X",
    "git -c core.sshCommand=X ls-remote ssh://h/x",
    "git -c protocol.ext.allow=always ls-remote ext::X",
    "git -c gpg.program=X commit -S",
    "git -c core.editor=X commit",
    "git -c sequence.editor=X rebase -i",
    "git log --output=F",
    "git diff --output=F",
];

/// The same in other tools.
const TOOL_TRICKS: [&str; 12] = [
    "find . -fprintf F x",
    "find . -exec X",
    "sort --compress-prog=X",
    "sed -n 1wF",
    "sed 1eX",
    "tar cf /dev/null --checkpoint-action=exec=X",
    "awk BEGIN{system(X)}",
    "rg --pre X",
    "xargs X",
    "env X",
    "go test -exec X",
    "npm test --script-shell=X",
];

/// The same tricks in other spellings, and their relatives.
const OTHER_SPELLINGS: [&str; 66] = [
    // Abbreviated, with the value in the next word, bundled, behind other options.
    "git fetch --upl X .",
    "git fetch --upload-pack X .",
    "git fetch --u=X .",
    "git ls-remote --e=X .",
    "git log --outp=F",
    "git log --output F",
    "git log -p --output=F -- src",
    "git diff -- --output=F",
    "git grep -nOX 1",
    "git grep --open-files-in-pager=X 1",
    "git grep --op=X 1",
    "git clone -lu X . d",
    "git rebase -ix X",
    "git -C . -c alias.z=!X z",
    "git --no-pager -c alias.z=!X z",
    "git -C . --exec-path=X status",
    "git --exec-path=X status",
    "git --config-env=core.pager=X log",
    "git --git-dir=d status",
    "git --git-dir d status",
    "git config core.fsmonitor X",
    "git -C d config core.hooksPath X",
    "git mergetool --tool=X",
    "git bisect run X",
    "git submodule foreach X",
    "git push origin main",
    "find . -execdir X",
    "find . -ok X",
    "find . -delete",
    "find . -fls F",
    "find . -name a -exec X",
    "sort -o F a",
    "sort a -oF",
    "sort -ro F a",
    "sed -i s/a/b/ f",
    "sed s/a/b/e f",
    "sed -e 1eX f",
    "sed --expression=1eX f",
    "sed -f script f",
    "tar -I X -cf a.tar .",
    "tar --use-comp=X -xf a.tar",
    "tar --to-command X -xf a.tar",
    "rg --pre=X y",
    "rg --hostname-bin X y",
    "rg -nz y",
    "go test ./... --exec=X",
    "go build -toolexec X ./...",
    "npm test --script-sh=X",
    "npm test -script-shell=X",
    "npm --prefix d test",
    "cargo test --config build.rustc-wrapper=X",
    "make --eval=X test",
    // Programs by path, and in another case.
    "/usr/bin/git -c core.fsmonitor=X status",
    "./git -c core.fsmonitor=X status",
    "/bin/sed 1eX",
    "/usr/bin/find . -exec X",
    "/usr/bin/env git status",
    "ENV X",
    // Code as an argument.
    "sh -c X",
    "bash -lc X",
    "python3.12 -Ic X",
    "python -W ignore -c X",
    "node --eval=X",
    "node -pe X",
    "perl -lne X",
    "ruby -rsocket -e X",
];

const WRAPPERS: [&str; 19] = [
    "env git status",
    "xargs git status",
    "nice git status",
    "timeout 5 git status",
    "time git status",
    "nohup git status",
    "setsid git status",
    "stdbuf -o0 git status",
    "busybox ls",
    "busybox.static ls",
    "npx jest",
    "uvx ruff",
    "pipx run ruff",
    "npm exec jest",
    "pnpm dlx jest",
    "watch ls",
    "strace ls",
    "command ls",
    "ld-linux-x86-64.so.2 /bin/ls",
];

const ORDINARY: [&str; 55] = [
    "pytest",
    "pytest -x tests/a.py",
    "pytest -xvs -k name tests/a.py::test_b[1]",
    "python -m pytest",
    "python3 -m pytest -q tests",
    "python -m unittest discover -s tests",
    "npm test",
    "npm run build",
    "npm run lint --silent",
    "pnpm test",
    "yarn test",
    "cargo test",
    "cargo test -p run gate::command",
    "cargo test -- --nocapture",
    "cargo build --release",
    "cargo check --workspace",
    "cargo clippy",
    "cargo clippy --all-targets -- -D warnings",
    "cargo fmt --all --check",
    "go test ./...",
    "go test -run TestA -count=1 ./pkg",
    "go vet ./...",
    "go build ./...",
    "make test",
    "make -j4 check",
    "ruff check src",
    "mypy src",
    "tsc --noEmit",
    "git status",
    "git status -sb",
    "git diff",
    "git diff --stat HEAD~1 -- src",
    "git log --oneline",
    "git log --oneline -5",
    "git --no-pager log -n 3 --format=%H",
    "git show HEAD",
    "git blame -L 1,5 src/a.rs",
    "git ls-files",
    "git grep -n pattern",
    "git branch --show-current",
    "git rev-parse --show-toplevel",
    "ls",
    "ls -la src",
    "cat src/a.rs",
    "cat -n src/a.rs",
    "head -20 src/a.rs",
    "tail -n 5 src/a.rs",
    "wc -l src/a.rs",
    "sed -n 10,20p src/a.rs",
    "find . -name *.rs -type f",
    "sort -rn a",
    "rg pattern",
    "rg -n --hidden -g !target pattern src",
    "grep -rn pattern src",
    "diff -u a b",
];

/// Neither known to be harmless nor known to be bad.
const QUESTIONS: [&str; 28] = [
    "git commit -m x",
    "git fetch",
    "git checkout main",
    "git z",
    "git status --sho",
    "git log --show-signature",
    "git -C d status",
    "/usr/bin/git status",
    "./git status",
    "./pytest",
    "../pytest",
    "/usr/bin/python3 -m pytest",
    "python script.py",
    "python",
    "bash scripts/test.sh",
    "pytest -p plugin",
    "pytest --maxf=1",
    "npm install left-pad",
    "npm run deploy",
    "cargo run",
    "cargo +nightly test",
    "make install",
    "make test CC=X",
    "rm file",
    "unknown-tool",
    "tar -tf a.tar",
    "sort -k",
    "sed -n",
];

const FORBIDDEN: [&str; 21] = [
    "rm -rf build",
    "rm -fr build",
    "rm build -Rf",
    "rm -r --force build",
    "rm --rec --fo build",
    "/bin/rm -r -f build",
    "sudo ls",
    "/usr/bin/sudo ls",
    "ssh host ls",
    "scp a host:b",
    "curl https://example.org",
    "./curl https://example.org",
    "wget https://example.org",
    "cat .env",
    "cp x config/.env.local",
    "tee --output=.env",
    "git show HEAD:.env",
    "cat .norma/norma.db",
    "ls ./.norma",
    "cp x .norma/policies/command_allowlist.json",
    ".norma/x",
];

/// What a program that starts others is given may be forbidden too.
const FORBIDDEN_INSIDE: [&str; 8] = [
    "env A=1 curl https://example.org",
    "timeout 5 sudo ls",
    "nice -n 5 /usr/bin/ssh host",
    "xargs rm -rf",
    "find . -name x -exec rm -r -f {} ;",
    "bash -c true;curl|sh",
    "sh -c $(wget)",
    "busybox wget x",
];

#[test]
fn no_trick_with_git_gets_past() {
    for line in GIT_TRICKS {
        assert!(agent(line).is_deny(), "{line}: {:?}", agent(line));
    }
}

#[test]
fn no_trick_with_other_tools_gets_past() {
    for line in TOOL_TRICKS {
        assert!(agent(line).is_deny(), "{line}: {:?}", agent(line));
    }
}

#[test]
fn no_other_spelling_of_a_trick_gets_past() {
    for line in OTHER_SPELLINGS {
        assert!(agent(line).is_deny(), "{line}: {:?}", agent(line));
    }
}

#[test]
fn a_program_that_starts_others_is_never_looked_through() {
    for line in WRAPPERS {
        assert!(agent(line).is_deny(), "{line}: {:?}", agent(line));
    }
}

#[test]
fn ordinary_work_needs_no_question() {
    for line in ORDINARY {
        assert!(agent(line).is_allow(), "{line}: {:?}", agent(line));
    }
}

#[test]
fn what_no_rule_knows_is_a_question() {
    for line in QUESTIONS {
        assert!(matches!(agent(line), Decision::Ask { .. }), "{line}: {:?}", agent(line));
    }
}

#[test]
fn what_is_forbidden_is_forbidden_to_a_persons_contract_too() {
    for line in FORBIDDEN.into_iter().chain(FORBIDDEN_INSIDE) {
        assert!(agent(line).is_deny(), "{line}: {:?}", agent(line));
        assert!(contract(line).is_deny(), "{line}: {:?}", contract(line));
    }
}

#[test]
fn a_persons_contract_allows_what_it_says() {
    let lines = [
        "bash -c true",
        "timeout 60 pytest",
        "git commit -m x",
        "./gradlew test",
        "env A=1 pytest",
        "find . -name curl",
    ];
    for line in lines.into_iter().chain(ORDINARY).chain(QUESTIONS) {
        assert!(contract(line).is_allow(), "{line}: {:?}", contract(line));
    }
}

#[test]
fn words_that_cannot_be_a_command_are_refused_to_everybody() {
    let long = "x".repeat(ARGV_BYTES_MAX);
    let lists: [&[&str]; 11] = [
        &[],
        &[""],
        &["", "ls"],
        &["ls", "a\0b"],
        &["ls", "a\nb"],
        &["ls", "a\u{1b}[2J"],
        &["ls", "a\u{7f}"],
        &["l\u{202e}s"],
        &["ls", "a\u{200b}"],
        &["A=1", "pytest"],
        &["echo", &long],
    ];
    for list in lists {
        let argv: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
        for origin in [Origin::Agent, Origin::Contract] {
            let decision = decide(&argv, origin, &POLICY);
            assert!(matches!(&decision, Decision::Deny { rule, .. } if rule == RULE_FORM), "{decision:?}");
        }
    }
}

#[test]
fn the_examples_of_every_rule_hold_for_the_policy_as_a_whole() {
    for rule in &POLICY.allowlist.allow {
        for line in &rule.matching {
            assert!(agent(line).is_allow(), "{}: {line}: {:?}", rule.name, agent(line));
        }
    }
    for rule in &POLICY.allowlist.deny {
        for line in &rule.matching {
            assert!(agent(line).is_deny(), "{}: {line}: {:?}", rule.name, agent(line));
        }
    }
    for rule in &POLICY.forbidden.forbid {
        for line in &rule.matching {
            assert!(contract(line).is_deny(), "{}: {line}: {:?}", rule.name, contract(line));
        }
    }
}

#[test]
fn a_decision_says_which_rule_and_why() {
    let check = |line: &str, expected: &str| assert_eq!(serde_json::to_string(&agent(line)).unwrap(), expected);
    check("git status", r#"{"decision":"allow","rule":"git-status","why":"reads the repository and reports"}"#);
    check(
        "sed 1eX",
        r#"{"decision":"deny","rule":"sed-print","why":"its scripts can start programs and write files"}"#,
    );
    check("git status --sho", r#"{"decision":"ask","why":"the option --sho is not listed (rule git-status)"}"#);
    check("git commit", r#"{"decision":"ask","why":"no rule for git knows this sub-command"}"#);
    check("./git status", r#"{"decision":"ask","why":"./git is a program by its path, and no rule names it so"}"#);
    check("frobnicate", r#"{"decision":"ask","why":"no rule speaks of frobnicate"}"#);
}

/// Every way to shorten a long option, down to one letter.
fn shortened(option: &str) -> impl Iterator<Item = &str> {
    (3..option.len()).map(|end| &option[..end])
}

#[test]
fn no_option_is_allowed_in_short() {
    let rules = &POLICY.allowlist.allow;
    for rule in rules {
        let spelled = |option: &str| option.trim_end_matches("[=]").trim_end_matches('=').to_owned();
        let of_program = rules.iter().filter(|other| other.exec.iter().any(|name| rule.is_about(name)));
        let listed: Vec<String> = of_program.flat_map(|other| &other.options).map(|option| spelled(option)).collect();
        for option in rule.options.iter().map(|option| spelled(option)).filter(|option| option.starts_with("--")) {
            for short in shortened(&option).filter(|short| !listed.contains(&(*short).to_owned())) {
                for given in [short.to_owned(), format!("{short}=1")] {
                    let mut argv = vec![rule.exec[0].clone()];
                    argv.extend(rule.prefixes.first().into_iter().flatten().cloned());
                    argv.push(given);
                    assert!(!decide(&argv, Origin::Agent, &POLICY).is_allow(), "{argv:?}");
                }
            }
        }
    }
}

#[test]
fn every_denied_option_is_denied_in_short() {
    for rule in &POLICY.allowlist.deny {
        let program = rule.exec[0].trim_end_matches('*');
        for option in rule.options.iter().filter(|option| option.starts_with("--")) {
            for short in shortened(option).chain([option.as_str()]) {
                for given in [vec![format!("{short}=X")], vec![short.to_owned(), "X".to_owned()]] {
                    let argv: Vec<String> = [program.to_owned()].into_iter().chain(given).collect();
                    assert!(decide(&argv, Origin::Agent, &POLICY).is_deny(), "{argv:?}");
                }
            }
        }
    }
}

/// Words of which commands are made that come near the rules.
fn word() -> impl Strategy<Value = String> {
    let seen: Vec<String> =
        [&GIT_TRICKS[..], &TOOL_TRICKS, &OTHER_SPELLINGS, &WRAPPERS, &ORDINARY, &QUESTIONS, &FORBIDDEN]
            .concat()
            .iter()
            .flat_map(|line| words(line))
            .collect();
    let short = ["--", "-", "-c", "-x", "-nO", "--e", "--o", "--u", "--output", "a=b", "=", "@f", "+1", "'"];
    prop_oneof![
        6 => proptest::sample::select(seen),
        2 => proptest::sample::select(short.map(str::to_owned).to_vec()),
        1 => "\\PC{0,8}",
        1 => "-{0,3}[a-zA-Z-]{0,8}=?[a-z]{0,3}",
    ]
}

fn command() -> impl Strategy<Value = Vec<String>> {
    let programs =
        ["git", "find", "sort", "sed", "rg", "npm", "cargo", "go", "python", "rm", "cat", "make", "/bin/git"];
    let program = prop_oneof![4 => proptest::sample::select(programs.to_vec()).prop_map(str::to_owned), 1 => word()];
    (program, proptest::collection::vec(word(), 0..7)).prop_map(|(program, mut words)| {
        words.insert(0, program);
        words
    })
}

proptest! {
    #[test]
    fn no_words_panic(argv in proptest::collection::vec(any::<String>(), 0..8)) {
        decide(&argv, Origin::Agent, &POLICY);
        decide(&argv, Origin::Contract, &POLICY);
    }

    #[test]
    fn the_same_words_get_the_same_decision(argv in command()) {
        prop_assert_eq!(decide(&argv, Origin::Agent, &POLICY), decide(&argv.clone(), Origin::Agent, &POLICY.clone()));
    }

    #[test]
    fn one_more_argument_never_allows_what_was_denied(argv in command(), more in word()) {
        let longer: Vec<String> = argv.iter().cloned().chain([more]).collect();
        if decide(&argv, Origin::Agent, &POLICY).is_deny() {
            prop_assert!(!decide(&longer, Origin::Agent, &POLICY).is_allow(), "{:?}", longer);
        }
    }

    #[test]
    fn an_agent_is_never_allowed_what_a_persons_contract_is_denied(argv in command()) {
        if decide(&argv, Origin::Contract, &POLICY).is_deny() {
            prop_assert!(decide(&argv, Origin::Agent, &POLICY).is_deny());
        }
    }

    #[test]
    fn what_is_allowed_by_name_is_never_allowed_by_path(argv in command(), place in "(/usr/bin/|\\./|/|a/)") {
        let mut by_path = argv;
        by_path[0] = format!("{place}{}", by_path[0]);
        prop_assert!(!decide(&by_path, Origin::Agent, &POLICY).is_allow(), "{:?}", by_path);
    }
}

#[test]
fn a_line_for_a_shell_is_judged_by_its_words_or_looked_at_whole() {
    let word = |line: &str| match decide_line(line, &POLICY) {
        Decision::Allow { .. } => "allow".to_owned(),
        Decision::Ask { why, .. } if why.starts_with("only a shell") => "ask: shell".to_owned(),
        Decision::Ask { .. } => "ask".to_owned(),
        Decision::Deny { rule, .. } => format!("deny: {rule}"),
    };
    for (line, expected) in [
        ("git status", "allow"),
        ("/bin/bash -lc 'git status'", "allow"),
        ("bash -lc 'cp a b'", "ask"),
        ("cp a b", "ask"),
        ("git push origin", "deny: publish"),
        ("/bin/bash -lc 'git push origin'", "deny: publish"),
        ("cp a b && make test\n\techo done", "ask: shell"),
        ("/bin/bash -lc 'cp a b | tee c'", "ask: shell"),
        ("cp a b && sudo make install", "deny: another-user"),
        ("/bin/sh -c 'sudo make install'", "deny: another-user"),
        ("cp a b && echo \u{202e}x", "deny: form"),
        // A shell in a shell is no plain command.
        ("bash -c \"bash -c 'cp a b'\"", "deny: shell-code"),
        ("bash -c 'cp a b' x", "deny: shell-code"),
    ] {
        assert_eq!(word(line), expected, "{line}");
    }
}

#[test]
fn what_an_agent_starts_is_held_to_the_contract_and_to_policy() {
    let words = ["rm -rf", "curl", "git push"].map(str::to_owned).to_vec();
    let gate =
        Started { policy: CommandPolicy::builtin().into(), words, state: "/repo/.norma".to_owned(), asks: false };
    let refuses =
        |line: &str, chosen: bool| gate.refuses(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), chosen, &[]);
    let loaded = "/lib64/ld-linux-x86-64.so.2 /usr/bin/curl x";
    for line in ["rm -rf build", "/bin/rm -f -r x", "curl -s x", "git -C . push origin", "busybox rm -fr x", loaded] {
        assert!(refuses(line, false).is_some_and(|why| why.starts_with("the contract forbids")), "{line}");
    }
    for line in ["rm -r x", "cc -lcurl x.c", "grep -rf x", "git pull", "cat docs/curl", "sh -c ls"] {
        assert_eq!(refuses(line, false), None, "{line}");
    }
    // Policy speaks of what somebody chose, not of what a build does.
    for line in ["sudo ls", "cat .env", "cargo publish", "ls /repo/.norma/keys"] {
        assert!(refuses(line, true).is_some(), "{line}");
        assert_eq!(refuses(line, false), None, "{line}");
    }
    for line in
        ["cat /repo/.norma/runs/1/steps/001-do/input.json", "cargo test", "sh -c ls;ls", "python3 -c 1", "awk x"]
    {
        assert_eq!(refuses(line, true), None, "{line}");
    }
}

/// A policy whose owner has deployments asked about.
fn asking() -> CommandPolicy {
    let mut policy = CommandPolicy::builtin();
    let rule = serde_json::json!({"name": "deploy", "reason": "it reaches customers", "exec": ["deploy"],
        "subcommands": ["now"], "match": ["deploy now"], "not_match": ["deploy plan"]});
    policy.allowlist.ask.push(serde_json::from_value(rule).unwrap());
    policy
}

#[test]
fn what_a_rule_has_asked_about_is_told_from_what_no_rule_speaks_of() {
    let policy = asking();
    let word = |line: &str| match decide_line(line, &policy) {
        Decision::Ask { rule, .. } => format!("ask: {}", rule.unwrap_or_default()),
        decision => format!("{decision:?}"),
    };
    for (line, expected) in [
        ("deploy now", "ask: deploy"),
        ("/opt/deploy -v now", "ask: deploy"),
        ("bash -lc 'make test && deploy now'", "ask: deploy"),
        ("cd sub && (deploy now)", "ask: deploy"),
        // It would be allowed otherwise, and with it the program that it only names.
        ("echo 'deploy now'", "ask: deploy"),
        ("deploy plan", "ask: "),
        ("make test && deploy plan", "ask: "),
        ("cp a b", "ask: "),
    ] {
        assert_eq!(word(line), expected, "{line}");
    }
    // A person's contract asks for it, and what is refused is not asked about.
    assert!(decide(&words("deploy now"), Origin::Contract, &policy).is_allow());
    assert!(decide(&words("timeout 9 deploy now"), Origin::Agent, &policy).is_deny());
}

#[test]
fn where_nobody_is_asked_only_what_no_rule_speaks_of_runs() {
    let policy = asking();
    let unasked = |line: &str| decide_line(line, &policy).unasked();
    for line in ["cp a b", "deploy plan", "cp a b && make test", "cargo test"] {
        assert!(unasked(line).is_allow(), "{line}: {:?}", unasked(line));
    }
    for (line, by) in [("deploy now", "deploy"), ("cp a b; deploy now", "deploy"), ("git push", "publish")] {
        assert!(matches!(unasked(line), Decision::Deny { rule, .. } if rule == by), "{line}: {:?}", unasked(line));
    }
}

#[test]
fn a_program_that_has_to_be_asked_about_does_not_start_unasked() {
    let started = |asks, chosen, allowed: &[&str]| {
        let allowed: Vec<String> = allowed.iter().map(|line| (*line).to_owned()).collect();
        let gate = Started { policy: asking().into(), words: Vec::new(), state: "/repo/.norma".to_owned(), asks };
        gate.refuses(&words("/usr/bin/deploy now --to x"), chosen, &allowed).is_none()
    };
    assert!(!started(true, true, &[]));
    assert!(!started(true, true, &["deploy plan", "cargo test"]));
    assert!(started(true, true, &["cargo test && deploy now --to $WHERE"]));
    // Nobody may approve under `never`, and what a build starts is not what somebody chose.
    assert!(!started(false, true, &["deploy now"]));
    assert!(started(false, false, &[]));
}

#[test]
fn every_rule_that_is_seen_through_is_there() {
    let policy = CommandPolicy::builtin();
    let names: Vec<&str> = policy.allowlist.deny.iter().map(|rule| rule.name.as_str()).collect();
    assert!(SEEN_THROUGH.iter().all(|name| names.contains(name)), "{names:?}");
    let rest: Vec<&&str> = names.iter().filter(|name| !SEEN_THROUGH.contains(name)).collect();
    assert_eq!(rest, [&"publish"]);
}

#[test]
fn code_that_nobody_was_asked_about_is_known() {
    let allowed = ["cargo test --offline".to_owned(), "bash -lc 'echo \"a b\"'".to_owned()];
    let check = |argv: &[&str], expected: bool| {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(was_not_asked(&argv, &allowed), expected, "{argv:?}");
    };
    check(&["/bin/bash", "-lc", "cargo test --offline"], false);
    check(&["bash", "-c", "shopt -u x; { cargo test --offline; }; echo done"], false);
    check(&["/bin/bash", "-lc", "echo \"a b\""], false);
    check(&["/bin/bash", "-lc", "ls"], true);
    check(&["git", "status"], false);
    check(&["sh", "script.sh"], false);
}
