//! Tables of what strict JSON takes and refuses, and what the checker says about it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::{Digest, RepoPath, RunId, Timestamp};

// The types of these tables have no file in `schemas/`; they are read as documents are, by schemas generated here.

fn decode<T: DeserializeOwned + JsonSchema>(bytes: &[u8], limits: &Limits) -> Result<T, Vec<Violation>> {
    decode_value(parse(bytes, limits)?)
}

fn decode_value<T: DeserializeOwned + JsonSchema>(value: Value) -> Result<T, Vec<Violation>> {
    check::check(&crate::schema::generate::of::<T>(), &value).into_result()?;
    decode_checked(value)
}

fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(Violation::to_string).collect()
}

fn refused(text: &str) -> Vec<String> {
    lines(&parse(text.as_bytes(), &Limits::DOCUMENT).unwrap_err())
}

#[test]
fn parses_one_value() {
    for (text, expected) in [
        ("null", json!(null)),
        (" true\n", json!(true)),
        ("9007199254740991", json!(9_007_199_254_740_991_i64)),
        ("-9007199254740991", json!(-9_007_199_254_740_991_i64)),
        ("1.5e3", json!(1500.0)),
        ("5e-324", json!(5e-324)),
        (r#""\u00e9\n\ud83d\ude00""#, json!("é\n😀")),
        (r#"{"a":[1,{"b":{}}],"":""}"#, json!({"a": [1, {"b": {}}], "": ""})),
        (r#"{"a":{"x":1},"b":{"x":2}}"#, json!({"a": {"x": 1}, "b": {"x": 2}})),
    ] {
        assert_eq!(parse(text.as_bytes(), &Limits::DOCUMENT).unwrap(), expected, "{text}");
    }
}

#[test]
fn refuses_with_a_place() {
    let cases: &[(&str, &[&str])] = &[
        ("", &["(document): could not parse JSON: EOF while parsing a value at line 1 column 0"]),
        ("1 2", &["(document): could not parse JSON: trailing characters at line 1 column 3"]),
        ("{} x", &["(document): could not parse JSON: trailing characters at line 1 column 4"]),
        ("\u{feff}1", &["(document): could not parse JSON: expected value at line 1 column 1"]),
        ("[1,]", &["/1: could not parse JSON: trailing comma at line 1 column 4"]),
        ("NaN", &["(document): could not parse JSON: expected value at line 1 column 1"]),
        (r#"{"a":{"b":[0,1e400]}}"#, &["/a/b/1: could not parse JSON: number out of range at line 1 column 18"]),
        (r#"["\ud800"]"#, &["/0: could not parse JSON: unexpected end of hex escape at line 1 column 9"]),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), *expected, "{text}");
    }
    let not_text = parse(b"\"\xff\"", &Limits::DOCUMENT).unwrap_err();
    assert_eq!(lines(&not_text), ["(document): document is not UTF-8 from byte 1 on"]);
}

#[test]
fn refuses_what_readers_disagree_on() {
    let cases: &[(&str, &[&str])] = &[
        (r#"{"a":1,"a":2}"#, &["/a: duplicate key"]),
        (r#"{"a":1,"\u0061":2}"#, &["/a: duplicate key"]),
        (
            r#"{"a":1,"b":[{"c":0,"c":{"d":1,"d":2}}],"a":2,"x/~y":0,"x/~y":0}"#,
            &["/b/0/c: duplicate key", "/b/0/c/d: duplicate key", "/a: duplicate key", "/x~1~0y: duplicate key"],
        ),
        ("9007199254740992", &["(document): number 9007199254740992 is outside ±(2^53-1)"]),
        ("[-9007199254740992]", &["/0: number -9007199254740992 is outside ±(2^53-1)"]),
        ("[1e17]", &["/0: number 1e+17 is outside ±(2^53-1)"]),
        (
            r#"{"n":18446744073709551616,"m":[1,1e300]}"#,
            &["/n: number 1.8446744073709552e+19 is outside ±(2^53-1)", "/m/1: number 1e+300 is outside ±(2^53-1)"],
        ),
        (
            "{\"\u{1b}[2J\":1,\"\u{1b}[2J\":1}",
            &[
                "(document): could not parse JSON: control character (\\u0000-\\u001F) found while parsing a string at line 1 column 3",
            ],
        ),
        (r#"{"\u001b[2J":1,"\u001b[2J":1}"#, &["/\\u{1b}[2J: duplicate key"]),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), *expected, "{text}");
    }
}

#[test]
fn a_duplicate_before_a_syntax_error_is_still_reported() {
    assert_eq!(
        refused(r#"{"a":1,"a":2,"b":}"#),
        ["/a: duplicate key", "/b: could not parse JSON: expected value at line 1 column 18"]
    );
}

#[test]
fn limits_size_and_depth() {
    let limits = Limits::new(10, 3);
    assert!(parse(b"[[[1]]]   ", &limits).is_ok());
    let longer = parse(b"[[[1]]]    ", &limits).unwrap_err();
    assert_eq!(lines(&longer), ["(document): document of 11 bytes is larger than 10"]);
    let deeper = parse(br#"[[[[]]]]"#, &limits).unwrap_err();
    assert_eq!(lines(&deeper), ["/0/0/0: nested deeper than 3"]);
    let limits = Limits::new(1000, 2);
    let both = parse(br#"[[{"a":[9]}],{"b":{"c":[1]}},{"d":1,"d":1}]"#, &limits).unwrap_err();
    assert_eq!(lines(&both), ["/0/0: nested deeper than 2", "/1/b: nested deeper than 2", "/2/d: duplicate key"]);
    assert!(parse(b"1", &Limits::new(10, 0)).is_ok());
}

#[test]
fn deep_nesting_does_not_overflow() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let text = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
        let violations = parse(text.as_bytes(), &Limits::DOCUMENT).unwrap_err();
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].message, "nested deeper than 32");
        assert!(parse(open.repeat(10_000).as_bytes(), &Limits::DOCUMENT).is_err());
        assert!(parse(text.as_bytes(), &Limits::new(usize::MAX, usize::MAX)).is_err());
    }
}

#[test]
fn lists_and_pointers_are_bounded() {
    let key = "k".repeat(100_000);
    let members = vec![r#""a":1"#; 1000].join(",");
    let violations = parse(format!(r#"{{"{key}":{{{members}}}}}"#).as_bytes(), &Limits::DOCUMENT).unwrap_err();
    assert_eq!(violations.len(), 1, "one key is reported once however often it is repeated");
    assert!(violations[0].pointer.len() < 1100);

    let members: Vec<_> = (0..1000).map(|n| format!(r#""a{n}":1,"a{n}":1"#)).collect();
    let text = format!("{{{}}}", members.join(","));
    let violations = parse(text.as_bytes(), &Limits::DOCUMENT).unwrap_err();
    assert_eq!(violations.len(), VIOLATIONS_MAX + 1);
    assert_eq!(violations[VIOLATIONS_MAX].message, "744 more violations are not listed");
}

#[test]
fn canonical_is_rfc_8785() {
    for (value, expected) in [
        (json!({"b": 1, "a": [true, null, "é\u{7}\"\\/"]}), r#"{"a":[true,null,"é\u0007\"\\/"],"b":1}"#),
        (json!({"\u{fb33}": 1, "\u{1f600}": 2, "\r": 3, "1": 4}), "{\"\\r\":3,\"1\":4,\"😀\":2,\"\u{fb33}\":1}"),
        (json!([1.0, -0.0, 1e-7, 333.3333333333333, 4.5]), "[1,0,1e-7,333.3333333333333,4.5]"),
        (json!(9_007_199_254_740_991_u64), "9007199254740991"),
    ] {
        assert_eq!(String::from_utf8(canonical(&value).unwrap()).unwrap(), expected);
    }
}

/// Appendix B of RFC 8785: the bits of a number, and how it is written.
const NUMBERS: [(u64, &str); 24] = [
    (0x0000_0000_0000_0000, "0"),
    (0x8000_0000_0000_0000, "0"),
    (0x0000_0000_0000_0001, "5e-324"),
    (0x8000_0000_0000_0001, "-5e-324"),
    (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
    (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
    (0x4340_0000_0000_0000, "9007199254740992"),
    (0xc340_0000_0000_0000, "-9007199254740992"),
    (0x4430_0000_0000_0000, "295147905179352830000"),
    (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
    (0x44b5_2d02_c7e1_4af6, "1e+23"),
    (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
    (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
    (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
    (0x444b_1ae4_d6e2_ef50, "1e+21"),
    (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
    (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
    (0x41b3_de43_5555_5553, "333333333.3333332"),
    (0x41b3_de43_5555_5554, "333333333.33333325"),
    (0x41b3_de43_5555_5555, "333333333.3333333"),
    (0x41b3_de43_5555_5556, "333333333.3333334"),
    (0x41b3_de43_5555_5557, "333333333.33333343"),
    (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
    (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
];

/// The documents of the RFC and of the test suite of its authors: what is read, and what is written.
const DOCUMENTS: [(&str, &str); 5] = [
    (
        r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
            "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#,
        "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
    ),
    (
        r#"{"numbers":[4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals":[null,true,false]}"#,
        r#"{"literals":[null,true,false],"numbers":[4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#,
    ),
    (
        r#"{"1":{"f":{"f":"hi","F":5},"\n":56.0},"10":{},"":"empty","a":{},"111":[{}],"A":{}}"#,
        r#"{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{}],"A":{},"a":{}}"#,
    ),
    (
        r#"{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":"ingnore locale"}"#,
        r#"{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":"ingnore locale"}"#,
    ),
    (r#"[56,{"d":true,"10":null,"1":[]}]"#, r#"[56,{"1":[],"10":null,"d":true}]"#),
];

/// Numbers that other readers would round are refused, and all others are written as the RFC says.
#[test]
fn canonical_writes_the_vectors_of_rfc_8785() {
    for (bits, expected) in NUMBERS {
        let number = f64::from_bits(bits);
        assert_eq!(String::from_utf8(canonical::write(&number).unwrap().0).unwrap(), expected);
        match canonical(&number) {
            Ok(bytes) => assert_eq!(String::from_utf8(bytes).unwrap(), expected),
            Err(_) => assert!(number.abs() > 9_007_199_254_740_991.0, "{expected}"),
        }
    }
    for (text, expected) in DOCUMENTS {
        let value = parse(text.as_bytes(), &Limits::DOCUMENT).unwrap();
        assert_eq!(String::from_utf8(canonical(&value).unwrap()).unwrap(), expected);
    }
}

#[test]
fn canonical_refuses_what_it_would_round() {
    for (value, expected) in [
        (json!({"a": [9_007_199_254_740_992_u64]}), "/a/0: number 9007199254740992 is outside ±(2^53-1)"),
        (json!([0, -9_007_199_254_740_993_i64]), "/1: number -9007199254740993 is outside ±(2^53-1)"),
        (json!(1e17), "(document): number 1e+17 is outside ±(2^53-1)"),
    ] {
        let error = canonical(&value).unwrap_err();
        assert_eq!(error.to_string(), format!("could not write canonical JSON: {expected}"));
    }
    assert!(canonical(&u128::MAX).is_err());
}

/// A contract-like type with every shape the checker knows.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sample {
    #[schemars(length(min = 1, max = 20))]
    name: String,
    #[serde(default)]
    paths: BTreeSet<RepoPath>,
    #[serde(default)]
    budget: Option<Budget>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    gates: Vec<Gate>,
    #[serde(default)]
    labels: BTreeMap<String, u8>,
    #[serde(default)]
    landing: Option<Landing>,
    #[serde(default)]
    pair: Option<(u8, String)>,
    #[serde(default)]
    ratio: Option<f64>,
    #[serde(default)]
    by_number: BTreeMap<u32, bool>,
    #[serde(default)]
    anything: Value,
    #[serde(default)]
    children: Vec<Sample>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Budget {
    #[schemars(range(min = 1, max = 100))]
    turns: u32,
    started: Option<Timestamp>,
    run: Option<RunId>,
    digest: Option<Digest>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Documented variants become a `oneOf` of constants.
    Fast,
    /// Another one.
    Careful,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Gate {
    Command { argv: Vec<String>, timeout_s: Option<u32> },
    Review(Review),
    Scope,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Review {
    score_min: u8,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Landing {
    None,
    Branch { name: String },
    Patch(String),
}

fn violations(value: Value) -> Vec<String> {
    lines(&decode_value::<Sample>(value).unwrap_err())
}

#[test]
fn decodes_what_fits() {
    let text = json!({
        "name": "x", "paths": ["a", "b"], "budget": {"turns": 3, "started": null}, "mode": "fast",
        "gates": [
            {"kind": "command", "argv": ["true"]}, {"kind": "review", "score_min": 7}, {"kind": "scope"},
        ],
        "labels": {"a": 1}, "landing": {"branch": {"name": "b"}}, "pair": [1, "x"], "ratio": 1,
        "by_number": {"1": true}, "anything": [{}], "children": [{"name": "y", "landing": "none"}],
    })
    .to_string();
    let sample: Sample = decode(text.as_bytes(), &Limits::DOCUMENT).unwrap();
    assert_eq!(sample.gates.len(), 3);
    assert_eq!(sample.landing, Some(Landing::Branch { name: "b".to_owned() }));
    let again: Sample = decode(&canonical(&sample).unwrap(), &Limits::DOCUMENT).unwrap();
    assert_eq!(again, sample);
}

#[test]
fn decode_reports_everything_at_once() {
    assert_eq!(
        violations(json!({
            "nmae": "x", "paths": ["a", 1, "a"], "budget": {"turns": 0, "extra": 1}, "mode": "slow",
            "gates": [
                {"kind": "command", "argv": "true"}, {"kind": "review", "score_min": 300, "x": 1},
                {"kind": "unknown"}, {}, {"kind": "scope", "y": 0}, 7,
            ],
            "labels": {"a": -1, "b": "x"}, "pair": [1, 2, 3], "ratio": "x",
            "children": [{"name": ""}, {"name": "y", "children": [{}]}],
        })),
        [
            r#"(document): missing required key "name""#,
            r#"/budget/extra: unknown key, expected "digest", "run", "started" or "turns""#,
            "/budget/turns: expected at least 1, found 0",
            "/children/0/name: expected at least 1 character, found 0",
            r#"/children/1/children/0: missing required key "name""#,
            "/gates/0/argv: expected array, found string",
            "/gates/1/score_min: expected at most 255, found 300",
            r#"/gates/1/x: unknown key, expected "kind" or "score_min""#,
            r#"/gates/2/kind: expected "command", "review" or "scope", found "unknown""#,
            r#"/gates/3: missing required key "kind", expected "command", "review" or "scope""#,
            r#"/gates/4/y: unknown key, expected "kind""#,
            concat!(
                r#"/gates/5: expected object with "kind" and "argv", object with "kind" and "#,
                r#""score_min" or object with "kind", found 7"#
            ),
            "/labels/a: expected at least 0, found -1",
            "/labels/b: expected integer, found string",
            r#"/mode: expected "fast" or "careful", found "slow""#,
            concat!(
                r#"/nmae: unknown key, did you mean "name"? expected "anything", "budget", "by_number", "children", "#,
                r#""gates", "labels", "landing", "mode", "name", "pair", "paths" or "ratio""#
            ),
            "/pair: expected at most 2 items, found 3",
            "/pair/1: expected string, found number",
            "/paths/1: expected string, found number",
            r#"/paths/2: duplicate item "a""#,
            "/ratio: expected number or null, found string",
        ]
    );
}

#[test]
fn decode_explains_enums() {
    let forms = r#"/landing: expected "none", object with "branch" or object with "patch""#;
    for (landing, expected) in [
        (json!("nowhere"), vec![format!(r#"{forms}, found "nowhere""#)]),
        (json!({"brunch": {}}), vec![format!("{forms}, found object")]),
        (json!(1), vec![format!("{forms}, found 1")]),
        (json!({"patch": 1}), vec!["/landing/patch: expected string, found number".to_owned()]),
        (json!({"branch": {"nam": 1}}), vec![r#"/landing/branch: missing required key "name""#.to_owned()]),
    ] {
        assert_eq!(violations(json!({"name": "x", "landing": landing})), expected);
    }
}

#[test]
fn the_type_has_the_last_word() {
    let sample = |budget: Value| json!({"name": "x", "budget": budget});
    for (value, expected) in [
        (json!({"name": "x", "paths": ["../a"]}), r#"/paths/0: path "../a" contains a `..` component"#),
        (sample(json!({"turns": 1, "digest": "ABC"})), r#"/budget/digest: "ABC" is not 64 lowercase hex digits"#),
        (
            sample(json!({"turns": 1, "started": "today"})),
            r#"/budget/started: "today" is not an RFC 3339 time such as 2026-01-23T14:55:01.042Z"#,
        ),
    ] {
        assert_eq!(violations(value), [expected]);
    }
}

#[test]
fn raw_violations_come_before_the_schema() {
    let text = br#"{"name":1,"name":2}"#;
    let found = decode::<Sample>(text, &Limits::DOCUMENT).unwrap_err();
    assert_eq!(lines(&found), ["/name: duplicate key"]);
}

/// A flattened enum makes schemars write `unevaluatedProperties`.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Flat {
    id: u8,
    #[serde(flatten)]
    landing: Landing,
}

#[test]
fn decode_knows_the_keys_of_flattened_parts() {
    let flat: Flat = decode_value(json!({"id": 1, "patch": "p"})).unwrap();
    assert_eq!(flat, Flat { id: 1, landing: Landing::Patch("p".to_owned()) });
    let value = json!({"id": 1, "patch": "p", "zzz": 1});
    assert_eq!(
        lines(&decode_value::<Flat>(value).unwrap_err()),
        [r#"/zzz: unknown key, expected "branch", "id", "none" or "patch""#]
    );
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value")]
enum Adjacent {
    Count(u8),
    Empty,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Text(String),
    Many(Vec<String>),
}

#[test]
fn decode_knows_the_other_enum_forms() {
    fn check<T: DeserializeOwned + JsonSchema + fmt::Debug>(value: Value, expected: &str) {
        assert_eq!(lines(&decode_value::<T>(value).unwrap_err()), [expected]);
    }
    assert_eq!(decode_value(json!({"type": "Count", "value": 1})), Ok(Adjacent::Count(1)));
    assert_eq!(decode_value(json!({"type": "Empty"})), Ok(Adjacent::Empty));
    check::<Adjacent>(json!({"type": "Count", "value": "x"}), "/value: expected integer, found string");
    check::<Adjacent>(json!({"type": "Coumt"}), r#"/type: expected "Count" or "Empty", found "Coumt""#);
    assert_eq!(decode_value(json!("x")), Ok(Untagged::Text("x".to_owned())));
    check::<Untagged>(json!(["x", 1]), "/1: expected string, found number");
    check::<Untagged>(json!(true), "(document): expected string or array, found true");
    check::<Vec<Mode>>(json!(["fast", "x"]), r#"/1: expected "fast" or "careful", found "x""#);
    check::<Option<Budget>>(json!([]), r#"(document): expected object with "turns" or null, found array"#);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
        // A whole double is written like an integer and would come back as one.
        (-1e12..1e12).prop_filter("whole", |x: &f64| x.fract() != 0.0).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn canonical_reads_back(value in any_json()) {
        let bytes = canonical(&value).unwrap();
        prop_assert_eq!(parse(&bytes, &Limits::DOCUMENT).unwrap(), value.clone());
        let again = canonical(&parse(&bytes, &Limits::DOCUMENT).unwrap()).unwrap();
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn whatever_parses_has_a_canonical_form(text in "[-0-9eE.+]{1,25}") {
        if let Ok(value) = parse(text.as_bytes(), &Limits::DOCUMENT) {
            let bytes = canonical(&value).unwrap();
            let again = canonical(&parse(&bytes, &Limits::DOCUMENT).unwrap()).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, &Limits::new(150, 8));
    }

    #[test]
    fn almost_json_never_panics(text in "([\\[\\]{},:\" 0-9eE.-]|null|\"a\"|\"a\":){0,60}") {
        let _ = decode::<Sample>(text.as_bytes(), &Limits::DOCUMENT);
    }

    #[test]
    fn checking_never_panics(value in any_json()) {
        let _ = decode_value::<Sample>(json!({"name": value, "gates": [value], "landing": value}));
    }

    #[test]
    fn canonical_is_what_another_writer_makes_of_it(value in anything(), number in any::<u64>(), part in any_json()) {
        let check = |ours: Vec<u8>, theirs: Vec<u8>| assert_eq!(String::from_utf8(ours), String::from_utf8(theirs));
        check(canonical::write(&value).unwrap().0, serde_json_canonicalizer::to_vec(&value).unwrap());
        let double = f64::from_bits(number);
        if double.is_finite() {
            check(canonical::write(&double).unwrap().0, serde_json_canonicalizer::to_vec(&double).unwrap());
        }
        // Fields in the order of a type, which is none of keys.
        let typed = Unsorted { zulu: number, b: Some(part), alpha: number as i64, b2: vec![double as i32 as f32] };
        check(canonical::write(&typed).unwrap().0, serde_json_canonicalizer::to_vec(&typed).unwrap());
    }
}

#[derive(Serialize)]
struct Unsorted {
    zulu: u64,
    b: Option<Value>,
    alpha: i64,
    #[serde(rename = "\u{ff5e}")]
    b2: Vec<f32>,
}

/// Any value, with numbers that would be rounded, and keys whose order in UTF-16 is not that of their bytes.
fn anything() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-10_i64..10).prop_map(|near| Value::from(INTEGER_MAX as i64 + near)),
        any::<f64>().prop_map(Value::from),
        (any::<i32>(), -30..30_i32).prop_map(|(digits, power)| Value::from(f64::from(digits) * 10_f64.powi(power))),
    ];
    let text = || {
        prop_oneof![any::<String>(), "[a-c\u{7f}\u{e9}\u{e000}-\u{e002}\u{fffd}\u{10000}\u{1f600}\"\\\\\n\u{1}/]{0,4}"]
    };
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, text().prop_map(Value::from)];
    leaf.prop_recursive(5, 60, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..8).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Two keys that are the same would be one to some readers.
#[test]
fn canonical_refuses_a_key_that_comes_twice() {
    struct Twice;
    impl Serialize for Twice {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([("b", 1), ("a", 2), ("b", 3)])
        }
    }
    assert!(matches!(canonical(&Twice), Err(CanonicalError::Serialize(_))));
}
