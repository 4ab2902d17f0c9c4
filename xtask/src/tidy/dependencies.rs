//! Which package may depend on which. The direction of crates is the architecture: what a crate cannot link, it
//! cannot do. Dependencies of tests are free, since they are not in the program.

use serde_json::Value;
use std::path::Path;

/// The crates from the bottom up: each may depend on those before it, never on those after.
const LAYERS: [&str; 11] = [
    "sandbox",
    "contract-derive",
    "contract",
    "run",
    "verify",
    "store",
    "session",
    "gateway",
    "runner",
    "server",
    "norma",
];

/// Who may confine: the sandbox knows nothing of runs, and decisions and records know nothing of it.
const CONFINERS: [&str; 2] = ["runner", "norma"];

/// Crates whose list of foreign dependencies is closed, with what it guarantees.
const CLOSED: [(&str, &[&str], &str); 4] = [
    (
        "contract",
        &[
            "base64ct",
            "blake3",
            "jiff",
            "jsonschema",
            "serde",
            "serde_json",
            "serde_path_to_error",
            "sha2",
            "thiserror",
            "unicode-normalization",
            "uuid",
        ],
        "it is data: no I/O, no clock",
    ),
    ("run", &["libm", "serde", "serde_json"], "it decides: no I/O, clock, randomness, async or logging"),
    (
        "session",
        &["agent-client-protocol-schema", "base64ct", "serde", "serde_json", "thiserror"],
        "it talks: what agents say is parsed where nothing can be done",
    ),
    (
        "verify",
        &["p256", "serde", "serde_json", "sha1dc", "sha2", "thiserror"],
        "it checks: small enough for who does not trust norma",
    ),
];

/// Dependencies that exactly one crate may have, with what that guarantees.
const EXCLUSIVE: [(&str, &[&str], &str); 7] = [
    ("rusqlite", &["store"], "one crate writes norma.db"),
    ("axum", &["server"], "one crate serves HTTP"),
    ("tokio", &["server"], "one crate is asynchronous"),
    ("clap", &["norma"], "one crate speaks to people"),
    ("httparse", &["gateway"], "one crate speaks to providers"),
    ("rustls", &["gateway", "server"], "one crate speaks to providers, and one is spoken to"),
    ("webpki-roots", &["gateway"], "one crate holds keys of providers"),
];

/// One package of the workspace.
struct Package {
    name: String,
    /// Its folder below the root.
    place: String,
    /// What it links, without what only its tests use.
    needs: Vec<String>,
}

/// Checks the packages of `cargo metadata`.
pub(crate) fn check(metadata: &Value, root: &Path) -> Vec<String> {
    let packages: Vec<Package> =
        metadata["packages"].as_array().into_iter().flatten().map(|package| read(package, root)).collect();
    packages.iter().flat_map(|package| judge(package, &packages)).collect()
}

fn read(package: &Value, root: &Path) -> Package {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let place = manifest.parent().and_then(|dir| dir.strip_prefix(root).ok()).unwrap_or(manifest);
    let needs = package["dependencies"].as_array().into_iter().flatten();
    let linked = needs.filter(|need| need["kind"].as_str() != Some("dev"));
    Package {
        name: package["name"].as_str().unwrap_or_default().to_owned(),
        place: place.to_string_lossy().into_owned(),
        needs: linked.filter_map(|need| need["name"].as_str()).map(str::to_owned).collect(),
    }
}

fn judge(package: &Package, all: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    let name = &package.name;
    let layer = LAYERS.iter().position(|layer| layer == name);
    if package.place.starts_with("crates/") && layer.is_none() {
        problems.push(format!("{name} is not in the list of layers (xtask/src/tidy/dependencies.rs)"));
    }
    for need in &package.needs {
        let below = LAYERS.iter().position(|other| other == need);
        if let (Some(layer), Some(below)) = (layer, below)
            && below >= layer
        {
            problems.push(format!("{name} depends on {need}, which is above it: {}", LAYERS.join(" ← ")));
        }
        let aside = all.iter().any(|other| other.name == *need && !other.place.starts_with("crates/"));
        // What only tests need may help each other.
        if aside && !package.place.starts_with("testing/") {
            problems.push(format!("{name} depends on {need}, which is no part of the program"));
        }
        if need == "sandbox" && layer.is_some() && !CONFINERS.contains(&name.as_str()) {
            problems.push(format!("{name} depends on sandbox, which only {} may", CONFINERS.join(" and ")));
        }
        for (foreign, owners, why) in EXCLUSIVE {
            if need == foreign && !owners.contains(&name.as_str()) {
                let owners = owners.join(" and ");
                problems.push(format!("{name} depends on {foreign}, which only {owners} may: {why}"));
            }
        }
    }
    for (_, allowed, why) in CLOSED.iter().filter(|(closed, ..)| closed == name) {
        let foreign = package.needs.iter().filter(|need| !LAYERS.contains(&need.as_str()));
        let extra = foreign.filter(|need| !allowed.contains(&need.as_str()));
        problems.extend(extra.map(|need| format!("{name} depends on {need}, which it must not: {why}")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(name: &str, needs: &[&str], expected: &[&str]) {
        let package = |name: &str, place: &str, needs: &[&str]| Package {
            name: name.to_owned(),
            place: place.to_owned(),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        };
        let one = package(name, &format!("crates/{name}"), needs);
        let all = [package("xtask", "xtask", &[]), package("scripted-agent", "testing/agent", &[])];
        assert_eq!(judge(&one, &all), expected);
    }

    #[test]
    fn a_crate_depends_downwards_only() {
        check_one("store", &["contract", "run", "rusqlite"], &[]);
        check_one("norma", &["sandbox"], &[]);
        check_one("store", &["sandbox"], &["store depends on sandbox, which only runner and norma may"]);
        check_one("runner", &["contract"], &[]);
        let above = "which is above it: sandbox ← contract-derive ← contract ← run ← verify ← store ← session ← gateway ← runner ← server ← norma";
        check_one("run", &["store"], &[&format!("run depends on store, {above}")]);
        check_one("newcomer", &[], &["newcomer is not in the list of layers (xtask/src/tidy/dependencies.rs)"]);
    }

    #[test]
    fn closed_lists_and_single_owners_are_kept() {
        check_one(
            "runner",
            &["rusqlite"],
            &["runner depends on rusqlite, which only store may: one crate writes norma.db"],
        );
        check_one(
            "run",
            &["rand"],
            &["run depends on rand, which it must not: it decides: no I/O, clock, randomness, async or logging"],
        );
        for (name, ..) in CLOSED {
            let package =
                Package { name: name.to_owned(), place: format!("crates/{name}"), needs: vec!["tracing".into()] };
            assert_eq!(judge(&package, &[]).len(), 1, "{name} tells nothing");
        }
        check_one("runner", &["tracing"], &[]);
        check_one("verify", &["contract", "run", "p256"], &[]);
        check_one(
            "verify",
            &["clap"],
            &[
                "verify depends on clap, which only norma may: one crate speaks to people",
                "verify depends on clap, which it must not: it checks: small enough for who does not trust norma",
            ],
        );
        check_one("norma", &["scripted-agent"], &["norma depends on scripted-agent, which is no part of the program"]);
    }

    #[test]
    fn dependencies_of_tests_are_free() {
        let text = r#"{"name":"run","manifest_path":"/r/crates/run/Cargo.toml","dependencies":[
            {"name":"proptest","kind":"dev"},{"name":"contract","kind":null},{"name":"cc","kind":"build"}]}"#;
        let package = read(&serde_json::from_str(text).unwrap(), Path::new("/r"));
        assert_eq!((package.place.as_str(), package.needs.join(" ")), ("crates/run", "contract cc".to_owned()));
    }
}
