//! What is said of an archive: a CycloneDX list of every package that is linked, with the checksums of `Cargo.lock`, and
//! an in-toto statement of how it was built. The statement is not signed: this machine has no key that others trust.

use crate::tidy::supply::{list, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How an archive was built.
pub(super) struct Build<'b> {
    pub(super) commit: &'b str,
    pub(super) dirty: bool,
    pub(super) profile: &'b str,
    /// The SHA-256 of `Cargo.lock`.
    pub(super) lock: &'b str,
}

/// The packages that both programs link, as CycloneDX 1.5.
pub(super) fn sbom(root: &Path, version: &str) -> Result<String, String> {
    let metadata = crate::tidy::build(root)?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))
        .map_err(|error| format!("could not read Cargo.lock: {error}"))?;
    let document = document(&metadata, &checksums(&lock), version);
    Ok(serde_json::to_string_pretty(&document).expect("BUG: JSON can be written") + "\n")
}

fn document(metadata: &Value, checksums: &BTreeMap<(String, String), String>, version: &str) -> Value {
    let packages: BTreeMap<&str, &Value> =
        list(metadata, "packages").map(|package| (text(package, "id"), package)).collect();
    let needs: BTreeMap<&str, Vec<&str>> =
        list(&metadata["resolve"], "nodes").map(|node| (text(node, "id"), linked(node))).collect();
    let mut open: Vec<&str> = packages
        .iter()
        .filter(|(_, package)| ["norma", "verify"].contains(&text(package, "name")) && package["source"].is_null())
        .map(|(id, _)| *id)
        .collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(needs.get(id).into_iter().flatten());
        }
    }
    let purl = |id: &str| {
        let package = packages.get(id).copied().unwrap_or(&Value::Null);
        format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
    };
    let component = |id: &&str| {
        let package = packages.get(id).copied().unwrap_or(&Value::Null);
        let (name, version) = (text(package, "name"), text(package, "version"));
        let mut component =
            json!({"type": "library", "bom-ref": purl(id), "name": name, "version": version, "purl": purl(id)});
        if let Some(licence) = package["license"].as_str() {
            component["licenses"] = json!([{"expression": licence}]);
        }
        if let Some(sum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        component
    };
    let depends = |id: &&str| {
        let on: BTreeSet<String> = needs.get(id).into_iter().flatten().map(|id| purl(id)).collect();
        json!({"ref": purl(id), "dependsOn": on})
    };
    json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "application", "name": "norma", "version": version}},
        "components": found.iter().map(component).collect::<Vec<_>>(),
        "dependencies": found.iter().map(depends).collect::<Vec<_>>(),
    })
}

/// What a package links: neither what only its tests use nor what only builds it.
fn linked(node: &Value) -> Vec<&str> {
    let normal = |need: &&Value| list(need, "dep_kinds").any(|kind| kind["kind"].is_null());
    list(node, "deps").filter(normal).map(|need| text(need, "pkg")).collect()
}

/// The checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) = (field("name"), field("version"), field("checksum")) {
            found.insert((name, version), sum);
        }
    }
    found
}

/// An in-toto statement with SLSA provenance.
pub(super) fn provenance(subjects: &[(String, String)], how: &Build<'_>, tools: &[String]) -> String {
    let subject = |(name, sha256): &(String, String)| json!({"name": name, "digest": {"sha256": sha256}});
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.iter().map(subject).collect::<Vec<_>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:norma:xtask-release:v1",
                "externalParameters": {"profile": how.profile, "uncommittedChanges": how.dirty},
                "internalParameters": {"tools": tools},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": how.commit}},
                    {"name": "Cargo.lock", "digest": {"sha256": how.lock}},
                ],
            },
            "runDetails": {"builder": {"id": "urn:norma:xtask"}},
        },
    });
    serde_json::to_string_pretty(&statement).expect("BUG: JSON can be written") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_linked_is_listed_with_its_checksum() {
        let package = |id: &str, source: Value| json!({"id": id, "name": id, "version": "1.0.0", "license": "MIT", "source": source});
        let need = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("norma", Value::Null), package("serde", json!("r")), package("insta", json!("r"))],
            "resolve": {"nodes": [
                {"id": "norma", "deps": [need("serde", Value::Null), need("insta", json!("dev"))]},
                {"id": "serde", "deps": []}, {"id": "insta", "deps": []},
            ]},
        });
        let sums = checksums("[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n");
        let document = document(&metadata, &sums, "0.1.0");
        let names: Vec<&str> = list(&document, "components").map(|component| text(component, "name")).collect();
        assert_eq!(names, ["norma", "serde"]);
        assert_eq!(document["components"][1]["hashes"], json!([{"alg": "SHA-256", "content": "ab"}]));
        assert_eq!(document["dependencies"][0]["dependsOn"], json!(["pkg:cargo/serde@1.0.0"]));
    }

    #[test]
    fn a_statement_names_archive_and_commit() {
        let how = Build { commit: "c0ffee", dirty: false, profile: "dist", lock: "ab" };
        let text = provenance(&[("norma.tar.gz".to_owned(), "cd".to_owned())], &how, &[]);
        let statement: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(statement["subject"][0]["digest"]["sha256"], "cd");
        let source = &statement["predicate"]["buildDefinition"]["resolvedDependencies"][0];
        assert_eq!(source["digest"]["gitCommit"], "c0ffee");
    }
}
