//! What makes a fresh workspace buildable: included files, the setup and its cache. On a machine without overlays the
//! tests of the setup are not run: there is nothing to look at.

use crate::environment::{PATCH, TestEnvironment, eventually};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A build as `make` would do it: what is newer than its output is built again. The log says what was built.
const BUILD: &str = r#"mkdir -p out
for source in src/*.txt local/*.txt; do
  [ -e "$source" ] || continue
  output="out/$(basename "$source")"
  if [ ! -e "$output" ] || [ -n "$(find "$source" -newer "$output")" ]; then
    tr a-z A-Z < "$source" > "$output"
    echo "$source" >> out/log
  fi
done
"#;

/// An environment with `out/` and `local/` ignored, whose agents do what `script` says after this setup.
fn with_setup(setup: &[&str], script: &Value) -> Option<TestEnvironment> {
    let env = TestEnvironment::new(script.clone());
    env.write(".gitignore", "out/\nlocal/\n");
    env.write("build.sh", BUILD);
    env.write(".worktreeinclude", "local/*.txt\n");
    env.commit("a build");
    env.configure(|config| {
        config["workspace"] = json!({"setup": setup, "cache_paths": ["out"]});
    });
    match why_no_setup() {
        None => Some(env),
        Some(tried) => {
            not_run::because(format_args!("this machine cannot keep what a setup makes: {tried}"));
            None
        }
    }
}

/// What a run says on a machine without overlays whose changes can be kept; found out once.
fn why_no_setup() -> Option<&'static str> {
    static TRIED: OnceLock<Option<String>> = OnceLock::new();
    let tried = TRIED.get_or_init(|| {
        let env = TestEnvironment::new(json!({}));
        env.configure(|config| config["workspace"] = json!({"setup": ["true"]}));
        let tried = env.norma(&["run", "1"]);
        let cannot =
            tried.raw_err.contains("needs a sandbox with overlays") || tried.raw.contains("could not be confined");
        cannot.then(|| tried.to_string())
    });
    tried.as_deref()
}

/// The same with agents that leave a copy of what they see of `out/`.
fn building() -> Option<TestEnvironment> {
    let look = "mkdir -p {step_dir}/seen; cp -r out/. {step_dir}/seen";
    with_setup(&["sh", "build.sh"], &json!({"plan": [[{"shell": look}]]}))
}

/// Runs a new task and answers what its first agent saw of a file.
#[track_caller]
fn run_and_see(env: &TestEnvironment, file: &str) -> String {
    env.norma(&["run", "--goal", "look", "--ac", "it was looked at"]).success();
    std::fs::read_to_string(env.run_dir().join("steps/001-plan/seen").join(file)).unwrap()
}

/// The results of setups that are kept.
fn kept(env: &TestEnvironment) -> Vec<PathBuf> {
    let users = std::fs::read_dir(env.root.join(".norma/cache")).unwrap().map(|entry| entry.unwrap().path());
    let layers = users.map(|user| user.join("setup/layers")).filter(|layers| layers.is_dir());
    layers.flat_map(|layers| std::fs::read_dir(layers).unwrap().map(|entry| entry.unwrap().path())).collect()
}

fn said_setup(output: &crate::environment::Output) -> usize {
    output.raw.matches("setting up the workspace").count()
}

#[test]
fn an_included_file_is_seen_and_a_secret_is_not() {
    for layers in [true, false] {
        let env = TestEnvironment::new(json!({"plan": [[{"shell":
            "mkdir {step_dir}/seen; find . -path ./.git -prune -o -path ./.norma -prune -o -type f -print | sort > {step_dir}/seen/files; \
             cat local/settings.json > {step_dir}/seen/settings; echo changed > local/settings.json"}]]}));
        env.write(".gitignore", "local/\n.env\n");
        env.write(".worktreeinclude", "# local settings\nlocal/*.json\n.env\nREADME.md\n!local/not.json\n");
        env.commit("includes");
        for (path, content) in
            [("local/settings.json", "mine"), ("local/not.json", ""), ("local/other.txt", ""), (".env", "TOKEN=1")]
        {
            env.write(path, content);
        }
        std::os::unix::fs::symlink("/etc/passwd", env.root.join("local/link.json")).unwrap();
        env.configure(|config| config["workspace"] = json!({"layers": layers}));
        let output = env.norma(&["run", "1"]);
        assert!(output.success().raw.contains("as .worktreeinclude asks: local/settings.json\n"), "{output}");
        let seen = env.run_dir().join("steps/001-plan/seen");
        let files = std::fs::read_to_string(seen.join("files")).unwrap();
        let expected = ["./.gitignore", "./.worktreeinclude", "./README.md", "./local/settings.json", "./src/lib.txt"];
        assert_eq!(files.lines().collect::<Vec<_>>(), expected);
        assert_eq!(std::fs::read_to_string(seen.join("settings")).unwrap(), "mine");
        assert_eq!(env.read("local/settings.json"), "mine");
        let started = env.event("run_started");
        assert_eq!(started["included"], json!(["local/settings.json"]));
        assert_eq!(started["left_out"], json!([".env (its name says that it holds secrets)"]));
        if layers {
            let record: Value =
                serde_json::from_slice(&std::fs::read(env.run_dir().join("steps/001-plan/sandbox.json")).unwrap())
                    .unwrap();
            assert_eq!(record["workspace"]["included"][0]["path"], "local/settings.json");
        }
    }
}

#[test]
fn a_list_that_catches_too_much_is_refused() {
    let env = TestEnvironment::new(json!({}));
    env.write(".gitignore", "local/\n");
    env.write(".worktreeinclude", "local/\n");
    env.commit("includes");
    for index in 0..1001 {
        env.write(&format!("local/{index}"), "");
    }
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    ! error: .worktreeinclude matches 1001 ignored files; at most 1000 are copied
    ! next: narrow its patterns; what can be built is for workspace.setup
    [exit 4]
    ");
    assert_eq!(env.json(&["runs"]).as_array().unwrap().len(), 0);
}

#[test]
fn what_the_tree_tracks_is_never_covered_by_an_included_file() {
    let env = TestEnvironment::new(json!({"plan": [[{"shell": "cp README.md {step_dir}/seen"}]]}));
    env.write(".gitignore", "README.md\n");
    env.write(".worktreeinclude", "README.md\n");
    env.git(&["add", ".gitignore", ".worktreeinclude"]);
    env.git(&["commit", "--quiet", "--message", "ignored, and still tracked"]);
    env.git(&["rm", "--quiet", "--cached", "README.md"]);
    env.write("README.md", "another");
    env.norma(&["run", "1"]).success();
    assert_eq!(std::fs::read_to_string(env.run_dir().join("steps/001-plan/seen")).unwrap(), "hello\n");
}

#[test]
fn a_setup_runs_once_for_each_tree_and_is_not_part_of_the_change() {
    let script = json!({
        "plan": [[{"shell": "cp -r out {step_dir}/seen"}]],
        "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]],
        "act": [[{"patch": PATCH}]],
    });
    let Some(env) = with_setup(&["sh", "build.sh"], &script) else { return };
    let before = env.git(&["status", "--porcelain"]);
    let output = env.norma(&["run", "1"]);
    assert_eq!((said_setup(output.success()), kept(&env).len()), (2, 1), "{output}");
    let seen =
        |step: &str| std::fs::read_to_string(env.run_dir().join("steps").join(step).join("seen/lib.txt")).unwrap();
    assert_eq!((seen("001-plan"), seen("005-plan")), ("ONE\nTWO\nTHREE\n".to_owned(), "ONE\nTWO\nTHREE\n".to_owned()));
    assert_eq!(env.git(&["diff", "--name-only", "HEAD~1"]), "src/lib.txt");
    assert_eq!(env.git(&["status", "--porcelain"]), before);
    assert!(!env.root.join("out").exists());
    let committed = env.events().into_iter().filter(|event| event["type"] == "step_committed");
    let notes: Vec<Value> = committed.map(|event| event["payload"]["notes"].clone()).collect();
    assert!(notes[0][0].as_str().unwrap().starts_with("workspace.setup ran for this tree"), "{notes:?}");
    assert_eq!(notes[1], json!([]));
    // The landed tree is the user's now, and its setup is made from the user's cache.
    std::fs::write(env.dir.join("script.json"), "{}").unwrap();
    let output = env.norma(&["run", "1", "--new"]);
    assert_eq!(said_setup(output.success()), 1, "{output}");
    let output = env.norma(&["run", "1", "--new"]);
    assert_eq!(said_setup(output.success()), 0, "{output}");
}

#[test]
fn a_setup_that_fails_ends_the_run_before_an_agent_starts() {
    let script = json!({"plan": [[{"write": {"path": "here", "content": ""}}]]});
    let Some(env) = with_setup(&["sh", "-c", "echo building; echo it is broken >&2; exit 3"], &script) else { return };
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
        setting up the workspace: sh -c 'echo building; echo it is broken >&2; exit 3'
      1 plan  fail  <took>  setup_failed
    failed (setup_failed): step 001-plan failed
      exit code 3
        | it is broken
        log: .norma/runs/<run>/steps/001-plan/logs/stderr.txt
      what helps: fix workspace.setup; its output is in the logs (norma logs)
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
    let step = env.run_dir().join("steps/001-plan");
    assert!(!step.join("here").exists());
    assert_eq!(std::fs::read_to_string(step.join("logs/stdout.txt")).unwrap(), "building\n");
    assert_eq!(std::fs::read_to_string(step.join("logs/stderr.txt")).unwrap(), "it is broken\n");
    assert!(step.join("sandbox.json").exists());
    assert!(kept(&env).is_empty());
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_setup_that_the_gate_refuses_is_not_started() {
    let Some(env) = with_setup(&["bash", "-c", "curl x | sh"], &json!({})) else { return };
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  fail  <took>  setup_failed
    failed (setup_failed): step 001-plan failed
      refused by rule download: fetches from the network, past the list of destinations
      what helps: fix workspace.setup; its output is in the logs (norma logs)
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
}

#[test]
fn a_setup_may_not_change_what_is_tracked_nor_add_to_it() {
    let setup = ["sh", "-c", "mkdir out; echo x >> README.md; echo y > new.txt; rm src/lib.txt; git config a.b c"];
    let Some(env) = with_setup(&setup, &json!({})) else { return };
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
        setting up the workspace: sh -c 'mkdir out; echo x >> README.md; echo y > new.txt; rm …
      1 plan  fail  <took>  setup_failed
    failed (setup_failed): step 001-plan failed
      it changed what .gitignore does not name: README.md, new.txt, src/lib.txt
      what helps: fix workspace.setup; its output is in the logs (norma logs)
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
    let summary = &env.event("step_committed")["summary"];
    assert!(summary.as_str().unwrap().ends_with("does not name: README.md, new.txt, src/lib.txt"), "{summary}");
    assert!(kept(&env).is_empty());
}

#[test]
fn a_setup_leaves_nothing_in_the_repository_of_agents() {
    let script = json!({"plan": [[{"shell": "cp .git/config {step_dir}/config; ls -A > {step_dir}/names"}]]});
    let Some(env) = with_setup(&["git", "config", "core.hooksPath", "evil"], &script) else { return };
    env.norma(&["run", "1"]).success();
    let step = env.run_dir().join("steps/001-plan");
    assert!(!std::fs::read_to_string(step.join("config")).unwrap().contains("evil"));
}

#[test]
fn a_setup_ends_at_the_wall_clock() {
    let Some(env) = with_setup(&["sleep", "600"], &json!({})) else { return };
    env.configure(|config| {
        config["limits"] = json!({"step_seconds": 1});
        config["workspace"] = json!({"setup": ["sleep", "600"]});
    });
    let output = env.norma(&["run", "1"]);
    assert!(output.exits(1).raw.contains("it took longer than limits.step_seconds"), "{output}");
}

#[test]
fn a_warm_cache_is_used_and_never_gives_a_stale_result() {
    let Some(env) = building() else { return };
    env.write("src/other.txt", "other");
    env.write("local/mine.txt", "first");
    env.commit("two sources");
    assert_eq!(run_and_see(&env, "lib.txt"), "ONE\nTWO\nTHREE\n");
    let first = env.git(&["rev-parse", "HEAD"]);
    env.write("src/lib.txt", "changed\n");
    env.commit("changed");
    assert_eq!(run_and_see(&env, "lib.txt"), "CHANGED\n");
    // Warm: what did not change was not built again; the included file has a new time in every run.
    let log = run_and_see(&env, "log");
    assert_eq!(log.lines().filter(|line| *line == "src/other.txt").count(), 1, "{log}");
    assert_eq!(log.lines().filter(|line| *line == "src/lib.txt").count(), 2, "{log}");
    // The first tree again, whose files are older than everything in the cache; a setting makes it another setup.
    env.git(&["reset", "--quiet", "--hard", &first]);
    env.write("local/mine.txt", "second");
    assert_eq!(run_and_see(&env, "lib.txt"), "ONE\nTWO\nTHREE\n");
    assert_eq!(run_and_see(&env, "mine.txt"), "SECOND");
    let log = run_and_see(&env, "log");
    assert_eq!(log.lines().filter(|line| *line == "src/other.txt").count(), 1, "{log}");
}

#[test]
fn what_no_setup_in_between_built_again_is_not_taken_for_new() {
    let Some(env) = building() else { return };
    // The source is left alone while the marker is there.
    let build = BUILD.replace("continue", "continue; [ $source = src/lib.txt ] && [ -e skip ] && continue");
    env.write("build.sh", &build.replace("|| continue; ", "|| continue\n  "));
    env.commit("may skip");
    assert_eq!(run_and_see(&env, "lib.txt"), "ONE\nTWO\nTHREE\n");
    let first = env.git(&["rev-parse", "HEAD"]);
    env.write("src/lib.txt", "changed\n");
    env.commit("changed");
    assert_eq!(run_and_see(&env, "lib.txt"), "CHANGED\n");
    env.git(&["checkout", "--quiet", &first, "--", "src/lib.txt"]);
    env.write("skip", "");
    env.commit("back, and not built");
    assert_eq!(run_and_see(&env, "lib.txt"), "CHANGED\n");
    // The first tree again: its source is what it was just now, and older than the output.
    env.git(&["reset", "--quiet", "--hard", &first]);
    env.write("local/mine.txt", "another setting");
    assert_eq!(run_and_see(&env, "lib.txt"), "ONE\nTWO\nTHREE\n");
}

#[test]
fn what_was_changed_in_the_cache_is_made_anew_and_named() {
    let Some(mut env) = building() else { return };
    env.env.insert("NORMA_LOG".into(), "warn".into());
    let run = |env: &TestEnvironment| env.norma(&["run", "--goal", "look", "--ac", "it was looked at"]);
    let seen =
        |env: &TestEnvironment| std::fs::read_to_string(env.run_dir().join("steps/001-plan/seen/lib.txt")).unwrap();
    let first = run(&env);
    assert_eq!((said_setup(first.success()), seen(&env).as_str()), (1, "ONE\nTWO\nTHREE\n"), "{first}");
    // What nobody changed is used again, whatever was done above it.
    let again = run(&env);
    assert_eq!((said_setup(again.success()), again.raw_err.contains("not what was made")), (0, false), "{again}");
    let result = kept(&env).remove(0);
    let base = result.ancestors().nth(3).unwrap().join("layers");
    let base = std::fs::read_dir(base).unwrap().next().unwrap().unwrap().path();
    std::fs::write(result.join("cache/out/lib.txt"), "evil\n").unwrap();
    std::fs::write(base.join("files/src/lib.txt"), "evil\n").unwrap();
    let anew = run(&env);
    assert_eq!((said_setup(anew.success()), seen(&env).as_str()), (1, "ONE\nTWO\nTHREE\n"), "{anew}");
    for (layer, path) in [(&base, "files/src/lib.txt"), (&result, "cache/out/lib.txt")] {
        let name = layer.file_name().unwrap().display();
        let line = format!(
            "the layer {name} was changed after it was made, and is made again: {}",
            layer.join(path).display()
        );
        assert!(anew.raw_err.contains(&line), "{line}\n{anew}");
    }
    assert_eq!(kept(&env).len(), 1);
}

#[test]
fn a_turn_cannot_poison_what_the_next_one_sees() {
    let script = json!({
        "plan": [[{"shell": "echo evil > out/lib.txt; echo evil > out/new; chmod -R a-w out"}]],
        "do": [[{"shell": "cp -r out {step_dir}/seen"}, {"write": {"path": "files/test.log", "content": "ok"}}]],
    });
    let Some(env) = with_setup(&["sh", "build.sh"], &script) else { return };
    for _ in 0..2 {
        env.norma(&["run", "1", "--new"]).success();
        let seen = env.run_dir().join("steps/002-do/seen");
        assert_eq!(std::fs::read_to_string(seen.join("lib.txt")).unwrap(), "ONE\nTWO\nTHREE\n");
        assert!(!seen.join("new").exists());
    }
}

#[test]
fn the_setup_of_an_agents_tree_fills_no_cache() {
    let Some(env) = building() else { return };
    let patch = format!(
        "--- a/build.sh\n+++ b/build.sh\n@@ -1,2 +1,3 @@\n {}\n+echo evil > out/lib.txt\n {}\n",
        BUILD.lines().next().unwrap(),
        BUILD.lines().nth(1).unwrap()
    );
    let look = "mkdir -p {step_dir}/seen; cp -r out/. {step_dir}/seen";
    let script = json!({
        "plan": [[{"shell": look}]], "check": [[{"verdict": "FAIL"}]], "act": [[{"patch": patch}]],
    });
    std::fs::write(env.dir.join("script.json"), script.to_string()).unwrap();
    env.norma(&["run", "1"]).exits(1);
    let seen = env.run_dir().join("steps/005-plan/seen/lib.txt");
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "evil\n");
    std::fs::write(env.dir.join("script.json"), json!({"plan": [[{"shell": look}]]}).to_string()).unwrap();
    assert_eq!(run_and_see(&env, "lib.txt"), "ONE\nTWO\nTHREE\n");
    env.write("README.md", "another tree");
    env.commit("another tree");
    assert_eq!(run_and_see(&env, "lib.txt"), "ONE\nTWO\nTHREE\n");
    assert_eq!(kept(&env).len(), 2);
}

#[test]
fn a_setup_that_was_killed_is_begun_anew() {
    let script = json!({"plan": [[{"shell": "cp -r out {step_dir}/seen"}]]});
    let setup = ["sh", "-c", "mkdir out; echo half > out/half; sleep $(cat local/wait.txt); mv out/half out/whole"];
    let Some(env) = with_setup(&setup, &script) else { return };
    env.write("local/wait.txt", "600");
    let running = env.spawn(&["run", "1"]);
    let new = || {
        std::fs::read_dir(env.root.join(".norma/cache")).ok().and_then(|mut users| {
            users.find_map(|user| {
                Some(user.ok()?.path().join("setup/new")).filter(|new| new.join("upper/out/half").exists())
            })
        })
    };
    eventually("the setup is under way", || new().is_some());
    running.signal("KILL");
    running.wait();
    env.write("local/wait.txt", "0");
    env.norma(&["run", "1"]).success();
    let names = std::fs::read_dir(env.run_dir().join("steps/002-plan/seen").as_path())
        .or_else(|_| std::fs::read_dir(env.run_dir().join("steps/001-plan/seen")))
        .unwrap();
    let names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["whole"]);
    assert_eq!((new(), kept(&env).len()), (None, 1));
}

#[test]
fn the_results_of_setups_do_not_pile_up() {
    let Some(env) = building() else { return };
    for index in 0..4 {
        env.write("README.md", &index.to_string());
        env.commit("another");
        run_and_see(&env, "lib.txt");
    }
    assert_eq!(kept(&env).len(), 2);
    env.configure(|config| config["workspace"] = json!({"setup": ["sh", "build.sh"], "cache_paths": []}));
    run_and_see(&env, "lib.txt");
    env.norma(&["gc"]).success();
    assert_eq!(kept(&env).len(), 3);
    let strange = kept(&env)[0].with_file_name("of-another-version");
    std::fs::create_dir(&strange).unwrap();
    std::fs::write(strange.join("file"), vec![1; 3 << 20]).unwrap();
    let output = env.norma(&["gc"]);
    assert!(output.success().raw.contains("1 layer(s) of workspaces removed, 3 MiB"), "{output}");
    run_and_see(&env, "lib.txt");
}

#[test]
fn a_setup_without_layers_or_sandbox_is_refused() {
    let env = TestEnvironment::new(json!({}));
    for (workspace, sandbox) in [
        (json!({"setup": ["make"], "layers": false}), json!({})),
        (json!({"setup": ["make"]}), json!({"backend": "none"})),
    ] {
        let config = json!({"budgets": {"max_iterations": 1}, "workspace": workspace, "sandbox": sandbox});
        env.write(".norma/config.json", &config.to_string());
        let output = env.norma(&["trust"]);
        assert!(output.raw_err.contains("/workspace/setup: workspace.setup needs"), "{output}");
        assert_ne!(output.code(), Some(0));
    }
}
