//! What the documents may say, and that the built-in ones hold their own examples.

use super::*;
use serde_json::{Value, json};

fn argv(line: &str) -> Vec<String> {
    example(line)
}

fn allow(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut rule = json!({
        "name": "a", "reason": "r", "exec": ["tool"], "prefixes": [["look"]],
        "options": ["-v", "-n=", "--all", "--format=", "--color[=]", "-#"], "operands": "paths",
        "match": ["tool look"], "not_match": ["tool touch"],
    });
    change(&mut rule);
    violations(CommandAllowlist::parse(json!({"version": 1, "allow": [rule]}).to_string().as_bytes()))
}

fn forbid(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut rule = json!({
        "name": "a", "reason": "r", "exec": ["tool"], "match": ["tool x"], "not_match": ["other x"],
    });
    change(&mut rule);
    violations(ForbiddenActions::parse(json!({"version": 1, "forbid": [rule]}).to_string().as_bytes()))
}

fn violations<T>(parsed: Result<T, Vec<Violation>>) -> Vec<String> {
    parsed.err().unwrap_or_default().iter().map(Violation::to_string).collect()
}

#[test]
fn the_builtin_policies_hold_their_own_examples() {
    assert_eq!(violations(CommandAllowlist::parse(CommandAllowlist::BUILTIN.as_bytes())), [""; 0]);
    assert_eq!(violations(ForbiddenActions::parse(ForbiddenActions::BUILTIN.as_bytes())), [""; 0]);
}

#[test]
fn a_rule_whose_examples_do_not_hold_is_refused_with_their_places() {
    assert_eq!(allow(|_| {}), [""; 0]);
    let examples = json!(["tool look", "tool look --al", "/bin/tool look"]);
    assert_eq!(
        allow(|rule| (rule["match"], rule["not_match"]) = (examples, json!(["tool look -v", "tool look -x"]))),
        [
            r#"/allow/0/match/1: the rule does not match its own example: "tool look --al""#,
            r#"/allow/0/match/2: the rule does not match its own example: "/bin/tool look""#,
            r#"/allow/0/not_match/0: the rule matches it all the same: "tool look -v""#,
        ]
    );
    assert_eq!(
        forbid(|rule| rule["not_match"] = json!(["/usr/bin/TOOL"])),
        [r#"/forbid/0/not_match/0: the rule matches it all the same: "/usr/bin/TOOL""#]
    );
}

#[test]
fn a_policy_is_refused_with_every_violation_at_once() {
    assert_eq!(
        allow(|rule| {
            rule["exec"] = json!(["to*", ""]);
            rule["options"] = json!(["v", "-vn", "--a b", "---x", "-"]);
            rule["prefixes"] = json!([[]]);
            rule["match"] = json!(["to* -z"]);
        }),
        [
            r#"/allow/0/exec/0: "to*" is not the exact name of a program"#,
            r#"/allow/0/exec/1: "" is not the exact name of a program"#,
            "/allow/0/prefixes/0: a sub-command has at least one word; leave `prefixes` out where there is none",
            "/allow/0/options/0: v: an option is spelled -x, --name, -x=, --name=, -x[=], --name[=] or -#",
            "/allow/0/options/1: -vn: with style gnu, one dash and several letters are several options: list them one by one",
            "/allow/0/options/2: --a b: an option is spelled -x, --name, -x=, --name=, -x[=], --name[=] or -#",
            "/allow/0/options/3: ---x: an option is spelled -x, --name, -x=, --name=, -x[=], --name[=] or -#",
            "/allow/0/options/4: -: an option is spelled -x, --name, -x=, --name=, -x[=], --name[=] or -#",
            r#"/allow/0/match/0: the rule does not match its own example: "to* -z""#,
        ]
    );
    assert_eq!(
        forbid(|rule| {
            rule["exec"] = json!(["/bin/tool", "*"]);
            rule["options"] = json!(["--x="]);
            rule["arguments"] = json!(["a/b", "*"]);
        }),
        [
            "/forbid/0/exec/0: /bin/tool is not the name of a program; it counts under any path",
            "/forbid/0/exec/1: * is not the name of a program; it counts under any path",
            "/forbid/0/options/0: --x=: a rule that refuses names options only: -x, --name or -name",
            "/forbid/0/arguments/0: a/b is not the name of one file or directory",
            "/forbid/0/arguments/1: * is not the name of one file or directory",
            r#"/forbid/0/match/0: the rule does not match its own example: "tool x""#,
        ]
    );
    assert_eq!(
        forbid(|rule| drop(rule.as_object_mut().unwrap().remove("exec"))),
        [
            "/forbid/0: without `exec` and `arguments` it would refuse everything",
            r#"/forbid/0/not_match/0: the rule matches it all the same: "other x""#,
        ]
    );
}

#[test]
fn what_the_form_does_not_know_is_refused() {
    let unknown = allow(|rule| rule["shell"] = json!(true));
    assert!(unknown[0].starts_with("/allow/0/shell: unknown key"), "{unknown:?}");
    let empty = allow(|rule| (rule["match"], rule["reason"]) = (json!([]), json!("")));
    assert_eq!(
        empty,
        [
            "/allow/0/match: expected at least 1 item, found 0",
            "/allow/0/reason: expected at least 1 character, found 0"
        ]
    );
    let version = violations(ForbiddenActions::parse(br#"{"version": 2, "forbid": []}"#));
    assert_eq!(version, ["/version: expected at most 1, found 2"]);
    let twice = violations(ForbiddenActions::parse(br#"{"version": 1, "forbid": [], "forbid": []}"#));
    assert_eq!(twice, ["/forbid: duplicate key"]);
}

#[test]
fn a_name_stands_for_one_rule() {
    let rule = json!({"name": "a", "reason": "r", "exec": ["x"], "match": ["x"], "not_match": ["y"]});
    let list = json!({"version": 1, "deny": [rule], "allow": [rule]});
    let found = violations(CommandAllowlist::parse(list.to_string().as_bytes()));
    assert_eq!(found, [r#"/allow/0/name: another rule is called "a" too"#]);
}

#[test]
fn options_are_known_by_their_exact_spelling_and_with_their_values() {
    let rule: AllowRule = serde_json::from_value(json!({
        "name": "a", "reason": "r", "exec": ["tool"], "leading": ["-q", "-C="], "prefixes": [["look"], ["look", "far"]],
        "options": ["-v", "-n=", "-M[=]", "--all", "--format=", "--color[=]", "-#"], "operands": "paths",
        "match": [], "not_match": [],
    }))
    .unwrap();
    let allowed = [
        "tool look",
        "tool look -v --all",
        "tool look -vn5",
        "tool look -n 5",
        "tool look -vn 5 path",
        "tool look -20",
        "tool look -n -5",
        "tool look --format=x",
        "tool look --format x",
        "tool look --color --color=x",
        "tool look -",
        "tool look -vMx",
        "tool look -- -x --output",
        "tool -q look",
        "tool -qC dir look far",
        "tool look path --all",
    ];
    for line in allowed {
        assert_eq!(rule.fit(&argv(line)), Fit::Allowed, "{line}");
    }
    let unknown = [
        "tool look --al",
        "tool look --all=x",
        "tool look -x",
        "tool look -vx",
        "tool look -n -x",
        "tool look --format -x",
        "tool look --form=x",
        "tool look @file",
        "tool look +file",
        "tool look -all",
        "tool look ---all",
        "tool look --=",
        "tool look -v -- @file",
    ];
    for line in unknown {
        assert!(matches!(rule.fit(&argv(line)), Fit::Unknown(_)), "{line}: {:?}", rule.fit(&argv(line)));
    }
    for line in ["tool", "tool -q", "tool look -n", "tool look --format"] {
        assert!(matches!(rule.fit(&argv(line)), Fit::Incomplete(_)), "{line}: {:?}", rule.fit(&argv(line)));
    }
    for line in ["", "./tool look", "/bin/tool look", "Tool look", "tool -x look", "tool -v look", "tool lo", "other"] {
        assert_eq!(rule.fit(&argv(line)), Fit::Other, "{line}");
    }
    assert_eq!(rule.fit(&[]), Fit::Other);
}
