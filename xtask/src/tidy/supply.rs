//! What comes from others: licences, sources, versions and features of every package in the build, held against
//! `deny.toml` and read from `cargo metadata`, so that the rules hold on every machine. `cargo deny` checks the same file
//! where it is installed, and advisories besides.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The one place packages come from, as cargo names it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Features of serde_json that change what canonical JSON and so every digest is. Any package of the build could switch
/// one on for all of them.
const FEATURES_REFUSED: [&str; 2] = ["preserve_order", "arbitrary_precision"];

/// What `deny.toml` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    licences: BTreeSet<String>,
    /// `name@version` of packages that may be there beside another version.
    skipped: BTreeSet<String>,
}

/// Checks the packages of `cargo metadata` with all of their dependencies.
pub(crate) fn check(metadata: &Value, deny: &str) -> Vec<String> {
    let rules = Rules::read(deny);
    let packages: BTreeMap<&str, &Value> =
        list(metadata, "packages").map(|package| (text(package, "id"), package)).collect();
    let nodes: Vec<&Value> = list(&metadata["resolve"], "nodes").collect();
    let used: Vec<&Value> = nodes.iter().filter_map(|node| packages.get(text(node, "id")).copied()).collect();
    let mut problems: Vec<String> = used.iter().flat_map(|package| rules.judge(package)).collect();
    problems.extend(rules.duplicates(&used));
    for node in nodes {
        let package = packages.get(text(node, "id")).copied().unwrap_or(&Value::Null);
        if text(package, "name") == "serde_json" {
            let on: Vec<&str> = list(node, "features").filter_map(Value::as_str).collect();
            let refused = FEATURES_REFUSED.iter().filter(|feature| on.contains(feature));
            problems.extend(refused.map(|feature| format!("serde_json has {feature} on, which changes digests")));
        }
    }
    if used.is_empty() {
        problems.push("cargo metadata names no package".to_owned());
    }
    problems
}

impl Rules {
    /// The lists of `deny.toml`: quoted words between `allow = [` or `skip = [` and `]`.
    fn read(deny: &str) -> Rules {
        let mut rules = Rules::default();
        let mut list = "";
        for line in deny.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            match line {
                "allow = [" | "skip = [" => list = line,
                "]" => list = "",
                _ => {}
            }
            let word = line.split('"').nth(1).map(str::to_owned);
            match list {
                "allow = [" => rules.licences.extend(word),
                "skip = [" => rules.skipped.extend(word),
                _ => {}
            }
        }
        rules
    }

    fn judge(&self, package: &Value) -> Vec<String> {
        let (name, source) = (text(package, "name"), &package["source"]);
        let mut problems = Vec::new();
        if !self.may_be_used(text(package, "license")) {
            let licence = text(package, "license");
            problems.push(format!("{name} has the licence {licence:?}, which deny.toml does not allow"));
        }
        if source.as_str().is_some_and(|source| source != REGISTRY) {
            problems.push(format!("{name} comes from {source}, not from the registry"));
        }
        problems
    }

    /// Whether one side of a choice, or every part of a whole, is allowed.
    fn may_be_used(&self, licence: &str) -> bool {
        let spelled = licence.replace('/', " OR ");
        // No expression in the wild nests deeper than one pair of brackets: `(A OR B) AND C`.
        let mut parts = Vec::new();
        let mut rest = spelled.as_str();
        while let Some((before, after)) = rest.split_once('(') {
            let (inside, after) = after.split_once(')').unwrap_or((after, ""));
            parts.push((before.trim(), self.choice(inside)));
            rest = after;
        }
        if parts.is_empty() {
            return self.choice(rest);
        }
        let joined = |text: &str| text.trim().trim_start_matches("AND").trim_end_matches("AND").trim().to_owned();
        let outside = parts.iter().map(|(before, _)| joined(before)).chain([joined(rest)]);
        let outside: Vec<String> = outside.filter(|part| !part.is_empty()).collect();
        parts.iter().all(|(_, allowed)| *allowed) && outside.iter().all(|part| self.choice(part))
    }

    fn choice(&self, expression: &str) -> bool {
        let whole = |part: &str| part.split(" AND ").all(|licence| self.licences.contains(licence.trim()));
        expression.split(" OR ").any(whole)
    }

    fn duplicates(&self, used: &[&Value]) -> Vec<String> {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in used {
            versions.entry(text(package, "name")).or_default().insert(text(package, "version"));
        }
        let counted = |name: &str, found: &BTreeSet<&str>| {
            found.iter().filter(|version| !self.skipped.contains(&format!("{name}@{version}"))).count()
        };
        let twice = versions.iter().filter(|(name, found)| counted(name, found) > 1);
        let mut problems: Vec<String> = twice
            .map(|(name, found)| format!("{name} is there in versions {found:?}; say why in deny.toml, or have one"))
            .collect();
        let is_there = |skipped: &&String| {
            skipped
                .split_once('@')
                .is_some_and(|(name, version)| versions.get(name).is_some_and(|found| found.contains(version)))
        };
        let stale = self.skipped.iter().filter(|skipped| !is_there(skipped));
        problems.extend(stale.map(|skipped| format!("deny.toml skips {skipped}, which is not there")));
        problems
    }
}

pub(crate) fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value[name].as_array().into_iter().flatten()
}

pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DENY: &str = "[licenses]\nallow = [\n    \"MIT\", # why\n    \"ISC\",\n]\n[bans]\nskip = [\n    { crate = \"old@1.0.0\", reason = \"x\" },\n]\n";

    /// The problems with a build of these packages: name, version, licence, source; and of serde_json with these features.
    fn problems(packages: &[(&str, &str, &str, Option<&str>)], features: &[&str]) -> Vec<String> {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, version, license, source)| {
                json!({"id": format!("{name}@{version}"), "name": name, "version": version, "license": license, "source": source})
            })
            .chain([
                json!({"id": "j", "name": "serde_json", "version": "1.0.0", "license": "MIT", "source": REGISTRY}),
                json!({"id": "o", "name": "old", "version": "1.0.0", "license": "MIT", "source": null}),
                json!({"id": "unused", "name": "elsewhere", "version": "1.0.0", "license": "none", "source": "git+x"}),
            ])
            .collect();
        let used = packages.iter().filter(|package| package["id"] != "unused");
        let nodes: Vec<Value> = used.map(|package| json!({"id": package["id"], "features": features})).collect();
        check(&json!({"packages": packages, "resolve": {"nodes": nodes}}), DENY)
    }

    #[test]
    fn a_build_as_deny_toml_says_has_no_problems() {
        let good = [("a", "1.0.0", "MIT/Apache-2.0", Some(REGISTRY)), ("b", "2.0.0", "(MIT OR X) AND ISC", None)];
        assert_eq!(problems(&good, &["std", "float_roundtrip"]), [""; 0]);
        assert_eq!(problems(&[("old", "2.0.0", "MIT", None)], &[]), [""; 0]);
    }

    #[test]
    fn licences_sources_versions_and_features_are_each_a_problem() {
        let refused = ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "", "MIT-0"];
        for licence in refused {
            assert!(
                problems(&[("a", "1.0.0", licence, None)], &[])[0].contains("deny.toml does not allow"),
                "{licence}"
            );
        }
        assert!(problems(&[("a", "1.0.0", "MIT", Some("git+x"))], &[])[0].contains("not from the registry"));
        let twice = [("a", "1.0.0", "MIT", None), ("a", "2.0.0", "MIT", None)];
        assert!(problems(&twice, &[])[0].starts_with("a is there in versions"));
        for feature in FEATURES_REFUSED {
            assert!(problems(&[], &[feature])[0].contains("changes digests"));
        }
        let stale = check(&json!({"packages": [], "resolve": {"nodes": []}}), DENY);
        assert_eq!(stale, ["deny.toml skips old@1.0.0, which is not there", "cargo metadata names no package"]);
    }
}
