//! Ignored files: what an agent's build leaves does not keep its change from landing, what is left out of a change is
//! named wherever its result is, and what the contract or the change itself asks for is never left out.

use crate::batches::{batch, item, with_worker};
use crate::environment::TestEnvironment;
use serde_json::{Value, json};

/// An environment that ignores objects, `build/` (a scratch directory) and `gen/` (none), and whose worker does this.
fn building(script: &str) -> TestEnvironment {
    let env = with_worker(script);
    env.write(".gitignore", "*.o\nbuild/\ngen/\nitems.json\n");
    env.commit("what builds leave");
    env
}

fn receipt(result: &Value) -> Value {
    serde_json::from_slice(&std::fs::read(result["receipt_path"].as_str().unwrap()).unwrap()).unwrap()
}

fn landed(env: &TestEnvironment) -> Vec<String> {
    env.git(&["show", "--format=", "--name-only", "HEAD"]).lines().map(str::to_owned).collect()
}

#[test]
fn what_a_build_leaves_outside_the_scope_does_not_keep_a_change_from_landing() {
    let env = building("echo a > src/a.txt; echo o > a.o; mkdir -p build lib; echo b > build/out; printf '' > lib/x.o");
    let work = item("a", json!({"allowed_paths": ["src/a.txt"]}));
    let results = batch(&env, &[work], 0);
    assert_eq!(landed(&env), ["src/a.txt"]);
    let hash = |text: &str| contract::hash::sha256(text.as_bytes()).to_string();
    let left_out = json!({"count": 3, "bytes": 4, "files": [
        {"path": "a.o", "size": 2, "sha256": hash("o\n")},
        {"path": "build/out", "size": 2, "sha256": hash("b\n")},
        {"path": "lib/x.o", "size": 0, "sha256": hash("")},
    ]});
    assert_eq!(results[0]["left_out"], left_out);
    assert_eq!(receipt(&results[0])["left_out"], left_out);
    assert_eq!(env.last()["left_out"], json!(["a.o", "build/out", "lib/x.o"]));
    let line = "left out of a: 3 files, ignored or built (4 bytes): a.o, build/out, lib/x.o; to have a file in, name it in \
                allowed_paths or output_files";
    let shown = env.norma(&["show", "@last"]).to_string();
    assert!(shown.contains(line), "{shown}");
    let again = env.norma(&["batch", "items.json", "--new"]).to_string();
    assert!(again.contains(line), "{again}");
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

/// What a build makes, in a repository that ignores none of it.
const BUILD: &str =
    r"echo a > src/a.txt; mkdir obj; printf '\177ELF\002\000' > obj/a.o; printf '!<arch>\n\000' > liba.a;";

#[test]
fn what_a_build_makes_is_left_out_though_nothing_ignores_it() {
    let env = building(BUILD);
    env.write(".gitignore", "items.json\n");
    env.write("t.sh", "! test -e obj/a.o\n");
    env.commit("nothing is ignored");
    let work = item("a", json!({"allowed_paths": ["src/a.txt"], "test_command": "sh t.sh"}));
    let results = batch(&env, &[work], 0);
    assert_eq!(landed(&env), ["src/a.txt"], "and the test ran without it");
    assert_eq!(env.last()["left_out"], json!(["liba.a", "obj/a.o"]));
    assert_eq!(receipt(&results[0])["left_out"]["count"], 2);
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn what_a_build_makes_is_judged_where_the_contract_speaks_of_it_and_where_it_is_protected() {
    let refused = |script: &str, scope: Value, rule: &str, path: &str| {
        let env = building(script);
        env.write(".gitignore", "items.json\n");
        env.commit("nothing is ignored");
        let results = batch(&env, &[item("a", scope)], 1);
        let shown = results[0].to_string();
        assert!(shown.contains(rule) && shown.contains(path), "{shown}");
    };
    let hook = format!("{BUILD} mkdir -p .github/workflows; printf '\\177ELF' > .github/workflows/ci.yml");
    refused(&hook, json!({"allowed_paths": ["src/a.txt"]}), "protected", ".github/workflows/ci.yml");
    refused(BUILD, json!({"allowed_paths": ["src", "obj"]}), "binary", "obj/a.o");
    refused(BUILD, json!({}), "binary", "liba.a");
}

#[test]
fn what_test_runners_keep_is_left_out_wherever_it_lies() {
    let script = "echo a > src/a.txt; mkdir -p src/__pycache__ .pytest_cache; printf '\\313\\r\\r\\n' > src/__pycache__/a.pyc; \
                  echo '*' > .pytest_cache/.gitignore";
    for scope in [json!({}), json!({"allowed_paths": ["src"]})] {
        let env = building(script);
        env.write(".gitignore", "items.json\n");
        env.commit("nothing is ignored");
        let results = batch(&env, &[item("a", scope)], 0);
        assert_eq!(landed(&env), ["src/a.txt"]);
        assert_eq!(results[0]["left_out"]["count"], 2, "{}", results[0]);
    }
}

#[test]
fn a_file_that_the_contract_names_is_part_of_the_change_even_if_it_is_ignored() {
    let env = building("mkdir -p build; echo r > build/report.txt; echo x > build/x; echo k > keep.o");
    let work = item("a", json!({"output_files": ["build/report.txt"], "allowed_paths": ["build", "keep.o"]}));
    let results = batch(&env, &[work], 0);
    assert_eq!(landed(&env), ["build/report.txt", "keep.o"]);
    assert_eq!(results[0]["left_out"]["files"][0]["path"], "build/x");
    assert_eq!(env.read("build/report.txt"), "r\n");
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_file_that_the_change_stops_ignoring_is_part_of_it() {
    let env =
        building("printf 'build/\\nitems.json\\n' > .gitignore; echo k > keep.o; mkdir -p build; echo x > build/x");
    let work = item("a", json!({"allowed_paths": [".gitignore", "keep.o"]}));
    let results = batch(&env, &[work], 0);
    assert_eq!(landed(&env), [".gitignore", "keep.o"]);
    assert_eq!(results[0]["left_out"]["count"], 1);
}

#[test]
fn a_protected_file_is_not_hidden_by_ignoring_it() {
    // Among so many ignored files that not all of them are listed, and deep in a directory that is ignored as a whole.
    let script =
        "echo a > src/a.txt; mkdir -p gen/z; for i in $(seq 1 1200); do : > gen/$i.o; done; echo K > gen/z/.env";
    let env = building(script);
    let results = batch(&env, &[item("a", json!({"allowed_paths": ["src/a.txt"]}))], 1);
    let why = results[0]["denial_reason"].as_str().unwrap();
    assert!(why.starts_with("gen/z/.env: protected:"), "{why}");
    assert_eq!(receipt(&results[0])["left_out"]["count"], 1201);
    assert_eq!(receipt(&results[0])["left_out"]["files"].as_array().unwrap().len(), 100);
    env.norma(&["replay", "@last"]).success();
}
