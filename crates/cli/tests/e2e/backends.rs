//! Jobs, tests and agents on the backends: the kernel, virtual machines on this machine (`msb`), and those of a service
//! (e2b). The two elsewhere are stand-ins that speak the real ones' wire; the last test is for a machine that boots a guest.

use crate::environment::TestEnvironment;
use crate::sandbox::confining;
use machines::{Behaviour, E2b, Msb};
use serde_json::{Value, json};

const KEY: &str = "e2b_0123456789abcdef";

fn job(cmd: &str, files: Value) -> Value {
    json!({"imageOrTemplate": "base", "cmd": cmd, "files": files, "env": {"GREETING": "hello"}, "timeoutMs": 60000})
}

fn run(env: &TestEnvironment, job: &Value, backend: &str) -> crate::environment::Output {
    env.write("job.json", &job.to_string());
    env.norma(&["sandbox", "job", "job.json", "--backend", backend])
}

fn result(output: &crate::environment::Output) -> Value {
    serde_json::from_str(&output.raw).unwrap_or_else(|error| panic!("{error}: {} {}", output.raw, output.err()))
}

/// An environment whose configuration names a service.
fn with_e2b(behaviour: Behaviour) -> (TestEnvironment, E2b) {
    let service = E2b::start(behaviour);
    let mut env = TestEnvironment::initialized();
    env.env.insert("TEST_E2B_KEY".to_owned(), KEY.to_owned());
    env.configure(|config| {
        config["sandbox"]["e2b"] = json!({"url": service.url(), "key_env": "TEST_E2B_KEY", "template": "base"});
    });
    (env, service)
}

/// An environment whose configuration names `msb`.
fn with_msb() -> (TestEnvironment, Msb) {
    let env = TestEnvironment::initialized();
    let msb = Msb::in_dir(&env.dir);
    env.configure(|config| {
        config["sandbox"]["microsandbox"] = json!({"bin": msb.bin, "home": msb.home, "rootfs": "/srv/rootfs"});
    });
    (env, msb)
}

/// The same job has the same result everywhere, but for where it ran.
fn check_job(env: &TestEnvironment, backend: &str) {
    let files = json!({"in.txt": "one\n", "sub/kept.txt": "same", "script.sh": "cat in.txt; echo $GREETING >&2; \
        echo new > out.txt; echo more >> in.txt; mkdir -p a; echo z > a/z; printf '\\377' > binary; exit 3\n"});
    let output = run(env, &job("sh script.sh", files), backend);
    output.exits(1);
    let result = result(&output);
    assert_eq!(result["exitCode"], 3, "{result}");
    assert_eq!(result["stdout"], "one\n");
    assert_eq!(result["stderr"], "hello\n");
    assert_eq!(result["files"], json!({"a/z": "z\n", "in.txt": "one\nmore\n", "out.txt": "new\n"}));
    assert_eq!(result["meta"]["provider"], backend);
    assert!(result["meta"]["bootMs"].is_u64());
    assert!(output.err().contains("binary was left out: it is not text"), "{}", output.err());
    let members: Vec<_> = result.as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["exitCode", "files", "meta", "stderr", "stdout"]);
    assert!(output.raw.find("\"a/z\"") < output.raw.find("\"in.txt\""), "sorted: {}", output.raw);
    let fine = run(env, &job("true", json!({})), backend);
    assert_eq!(fine.success().raw.lines().count(), 1);
    run(env, &job("no-such-program-here", json!({})), backend).exits(2);
    // No shell: what only a shell understands is refused before anything is started, with its place.
    let refused = run(env, &job("echo a; echo b", json!({})), backend);
    refused.exits(2);
    assert!(refused.err().contains("/cmd"), "{}", refused.err());
    let quoted = run(env, &job("printf %s 'a; $b'", json!({})), backend);
    assert_eq!(self::result(&quoted)["stdout"], "a; $b");
}

#[test]
fn a_job_runs_in_the_kernels_sandbox_and_says_so() {
    let Some(env) = confining() else { return };
    check_job(&env, "native");
    let alone = run(&env, &job("sh -c 'ls /; cat /etc/shadow; exit 0'", json!({})), "native");
    assert!(!result(&alone)["stdout"].as_str().unwrap().contains("root:"));
    let mut slow = job("sleep 600", json!({}));
    slow["timeoutMs"] = json!(300);
    let ended = run(&env, &slow, "native");
    ended.exits(1);
    assert!(ended.err().contains("took longer than 300 ms"), "{}", ended.err());
}

#[test]
fn a_job_that_is_none_is_refused_with_every_pointer_and_nothing_runs() {
    let env = TestEnvironment::bare();
    let bad = json!({"imageOrTemplate": "", "cmd": "a | b", "files": {"../x": ""}, "env": {"A=": ""}, "timeoutMs": 0});
    let refused = run(&env, &bad, "native");
    refused.exits(2);
    assert!(refused.err().contains("/timeoutMs"), "{}", refused.err());
    let bad = json!({"imageOrTemplate": "", "cmd": "a | b", "files": {"../x": ""}, "env": {"A=": ""}, "timeoutMs": 1});
    let refused = run(&env, &bad, "native").err();
    for pointer in ["/cmd", "/files/..~1x", "/env/A="] {
        assert!(refused.contains(pointer), "{pointer}: {refused}");
    }
}

#[test]
fn a_backend_that_is_not_configured_is_refused_and_the_host_never_stands_in() {
    let env = TestEnvironment::initialized();
    let marker = env.dir.join("ran");
    for backend in ["microsandbox", "e2b"] {
        let refused = run(&env, &job(&format!("touch {}", marker.display()), json!({})), backend);
        refused.exits(4);
        assert!(refused.err().contains("sandbox_unavailable"), "{}", refused.err());
    }
    let (env, _service) = with_e2b(Behaviour::Well);
    let mut env = env;
    env.env.remove("TEST_E2B_KEY");
    let refused = run(&env, &job(&format!("touch {}", marker.display()), json!({})), "e2b");
    refused.exits(4);
    assert!(refused.err().contains("TEST_E2B_KEY"), "{}", refused.err());
    assert!(!marker.exists());
}

#[test]
fn production_mode_lists_the_backends_that_it_allows() {
    let (mut env, service) = with_e2b(Behaviour::Well);
    env.env.insert("NORMA_MODE".to_owned(), "production".to_owned());
    let refused = run(&env, &job("true", json!({})), "e2b");
    refused.exits(4);
    assert!(refused.err().contains("it allows native"), "{}", refused.err());
    assert_eq!(service.machines(), (0, 0));
    env.configure(|config| {
        config["sandbox"] = json!({"allowed": ["e2b"], "e2b": {"url": service.url(), "key_env": "TEST_E2B_KEY"}});
    });
    run(&env, &job("true", json!({})), "e2b").success();
}

#[test]
fn a_job_runs_on_a_machine_of_the_service_which_is_ended_and_never_sees_the_key() {
    let (env, service) = with_e2b(Behaviour::Well);
    check_job(&env, "e2b");
    let (left, made) = service.machines();
    assert!(left == 0 && made > 0);
    for asked in service.asked() {
        let is_api = asked.what.starts_with("POST /v2/sandboxes") || asked.what.starts_with("DELETE /sandboxes/");
        assert_eq!(asked.headers.get("x-api-key").map(String::as_str), is_api.then_some(KEY), "{}", asked.what);
    }
    let create = service.asked().into_iter().find(|asked| asked.what == "POST /v2/sandboxes").unwrap();
    let body: Value = serde_json::from_slice(&create.body).unwrap();
    assert_eq!((&body["templateID"], &body["allow_internet_access"]), (&json!("base"), &json!(false)));
    assert!(body["timeout"].as_u64().unwrap() > 60);
    let start = service.asked().into_iter().rev().find(|asked| asked.what.ends_with("/Start")).unwrap();
    let body: Value = serde_json::from_slice(&start.body[5..]).unwrap();
    assert_eq!(body["process"]["cmd"], "printf", "the words themselves, and no shell");
}

#[test]
fn a_job_that_takes_too_long_is_ended_with_its_machine() {
    let (env, service) = with_e2b(Behaviour::Well);
    let mut slow = job("sleep 600", json!({}));
    slow["timeoutMs"] = json!(500);
    let ended = run(&env, &slow, "e2b");
    ended.exits(1);
    assert!(ended.err().contains("took longer than 500 ms"), "{}", ended.err());
    assert_eq!(service.machines(), (0, 1));
    let (env, msb) = with_msb();
    let ended = run(&env, &slow, "microsandbox");
    ended.exits(1);
    assert!(ended.err().contains("took longer than 500 ms"), "{}", ended.err());
    assert_eq!(msb.machines(), 0);
}

#[test]
fn a_service_that_is_busy_is_asked_again() {
    let (env, service) = with_e2b(Behaviour::BusyOnce);
    run(&env, &job("true", json!({})), "e2b").success();
    assert_eq!(service.machines(), (0, 1));
}

#[test]
fn whatever_a_service_says_ends_in_an_error_without_the_key_and_leaves_no_machine() {
    for (behaviour, code, said) in [
        (Behaviour::Unauthorized, 4, "check the key in TEST_E2B_KEY"),
        (Behaviour::NotJson, 4, "makes no sense"),
        (Behaviour::OddName, 4, "sandboxID"),
        (Behaviour::DiesMidway, 4, "did not carry the command out"),
        (Behaviour::HugeEnvelope, 4, "an envelope has"),
        (Behaviour::LongFile, 4, "longer than"),
    ] {
        let (env, service) = with_e2b(behaviour);
        let output = run(&env, &job("sh -c 'echo x > made'", json!({"a": "1"})), "e2b");
        output.exits(code);
        assert!(output.err().contains(said), "{behaviour:?}: {}", output.err());
        assert!(!output.err().contains(KEY) && output.raw.is_empty(), "{behaviour:?}");
        if behaviour != Behaviour::OddName {
            assert_eq!(service.machines().0, 0, "{behaviour:?}");
        }
    }
    let (env, service) = with_e2b(Behaviour::Traversal);
    let output = run(&env, &job("sh -c 'echo x > made'", json!({})), "e2b");
    assert_eq!(result(&output)["files"], json!({"made": "x\n"}));
    assert!(output.err().contains("..") && output.err().contains(".git"), "{}", output.err());
    assert_eq!(service.machines().0, 0);
}

#[test]
fn a_job_runs_in_a_virtual_machine_that_is_removed() {
    let (env, msb) = with_msb();
    check_job(&env, "microsandbox");
    assert_eq!(msb.machines(), 0);
    let log = msb.log();
    let create = log.iter().find(|line| line.starts_with("create")).unwrap();
    for option in ["--no-net", "--security restricted", "--pull never", "--max-duration", "-- base"] {
        assert!(create.contains(option), "{option}: {create}");
    }
    let verbs: Vec<&str> = log.iter().take(4).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(verbs, ["doctor", "create", "exec", "remove"]);
}

#[test]
fn a_machine_that_boots_no_guest_is_told_by_its_doctor() {
    let (env, msb) = with_msb();
    msb.behave("no-guest");
    let refused = run(&env, &job("true", json!({})), "microsandbox");
    refused.exits(4);
    assert!(refused.err().contains("CPU virtualization is not available"), "{}", refused.err());
    assert_eq!(msb.log(), ["doctor"]);
    let doctor = env.json(&["doctor"]);
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "backend").unwrap();
    assert_eq!(check["status"], "warn", "runs do not need it: {check}");
    assert!(check["message"].as_str().unwrap().contains("CPU virtualization is not available"), "{check}");
}

#[test]
fn a_virtual_machine_that_misbehaves_is_removed_and_nothing_of_it_counts() {
    let (env, msb) = with_msb();
    msb.behave("create-fails");
    let refused = run(&env, &job("true", json!({})), "microsandbox");
    refused.exits(4);
    assert!(refused.err().contains("image not found"), "{}", refused.err());
    assert_eq!(msb.machines(), 0);
    msb.behave("exec-dies");
    let died = run(&env, &job("true", json!({})), "microsandbox");
    died.exits(4);
    assert!(died.err().contains("msb exec was killed by signal 9"), "{}", died.err());
    assert_eq!(msb.machines(), 0);
    msb.behave("link-out");
    let linked = run(&env, &job("true", json!({})), "microsandbox");
    assert_eq!(result(&linked)["files"], json!({}), "no link is followed");
    assert!(linked.err().contains("work/pipe was left out"), "{}", linked.err());
    msb.behave("floods");
    let flooded = run(&env, &job("true", json!({})), "microsandbox");
    assert!(flooded.success().raw.len() < 20_000_000);
}

/// Only where a guest boots, which a stand-in cannot show.
#[test]
fn a_job_runs_in_a_real_virtual_machine() {
    let (Some(bin), Some(rootfs)) = (std::env::var_os("NORMA_MSB"), std::env::var_os("NORMA_MSB_ROOTFS")) else {
        return not_run::because("no microsandbox is named in NORMA_MSB and NORMA_MSB_ROOTFS");
    };
    let doctor = std::process::Command::new(&bin).arg("doctor").output().unwrap();
    if !doctor.status.success() {
        return not_run::because("msb doctor says that this machine boots no guest");
    }
    let env = TestEnvironment::initialized();
    env.configure(|config| {
        config["sandbox"]["microsandbox"] =
            json!({"bin": bin.to_string_lossy(), "home": env.dir.join("msb"), "rootfs": rootfs.to_string_lossy()});
    });
    check_job(&env, "microsandbox");
}

/// A worker of the repository that says where it works, changes a file, removes one and leaves a note of its step.
const WORKER: &str = r#"#!/bin/sh
cat > request.tmp
grep -q '"workspace_dir"' request.tmp || exit 9
rm request.tmp
test ! -e .env || exit 8
test ! -d .git || exit 7
echo TWO > src/lib.txt
rm README.md
printf 'noted\n' > "$NORMA_STEP_DIR/note.txt"
echo '{"version":1,"status":"ok","summary":"did it"}'
"#;

/// Gives the repository that worker, a file with a secret, and tests that only what it changed passes.
fn with_worker(env: &TestEnvironment, sandbox: &Value) {
    env.write("agents/worker.sh", WORKER);
    env.write("agents/test.sh", "#!/bin/sh\nset -e\ngrep -q TWO src/lib.txt\ntest ! -e README.md\necho tested\n");
    env.write(".env", "TOKEN=hidden\n");
    for script in ["agents/worker.sh", "agents/test.sh"] {
        env.git(&["update-index", "--add", "--chmod=+x", script]);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(env.root.join(script), mode).unwrap();
    }
    env.commit("a worker");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
        config["sandbox"] = sandbox.clone();
    });
}

fn item(more: Value) -> Value {
    let mut item = json!({"id": "one", "agent_id": "agent-1", "description": "make two loud", "dependencies": [],
        "allowed_paths": ["src/lib.txt", "README.md"], "test_command": "./agents/test.sh"});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

/// The item lands, its evidence says what held, and the record verifies and replays.
fn check_item(env: &TestEnvironment, backend: &str, item: &Value) {
    env.write("items.json", &json!([item]).to_string());
    let output = env.norma(&["batch", "items.json", "--json"]);
    output.exits(0);
    assert_eq!(env.read("src/lib.txt"), "TWO\n");
    assert!(!env.root.join("README.md").exists());
    let dir = env.run_dir();
    let mut records = Vec::new();
    let mut folders = vec![dir.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.ends_with("sandbox.json") => records.push(path),
                path if path.ends_with("note.txt") => assert_eq!(std::fs::read_to_string(path).unwrap(), "noted\n"),
                _ => {}
            }
        }
    }
    assert!(records.len() >= 2, "a turn and a test: {records:?}");
    for path in records {
        let text = std::fs::read_to_string(&path).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["backend"], backend, "{}", path.display());
        assert_eq!(record["asked"]["backend"], backend);
        assert_eq!(record["effective"]["network"], "denied");
        assert!(record["effective"]["boot_ms"].is_u64() && !text.contains(KEY));
    }
    let slug = dir.file_name().unwrap().to_str().unwrap().to_owned();
    env.norma(&["verify", &slug]).success();
    env.norma(&["replay", &slug]).success();
}

#[test]
fn an_exec_agent_and_its_tests_work_on_a_machine_of_the_service() {
    let (env, service) = with_e2b(Behaviour::Well);
    let sandbox = json!({"e2b": {"url": service.url(), "key_env": "TEST_E2B_KEY"}});
    with_worker(&env, &sandbox);
    check_item(&env, "e2b", &item(json!({"sandbox_backend": "e2b"})));
    let (left, made) = service.machines();
    assert_eq!(left, 0);
    assert!(made >= 2, "one for the turn and one for each test: {made}");
    let bodies: Vec<u8> = service.asked().into_iter().flat_map(|asked| asked.body).collect();
    let text = String::from_utf8_lossy(&bodies);
    assert!(!text.contains("TOKEN=hidden"), "a file whose name says that it holds secrets stays here");
}

#[test]
fn an_exec_agent_and_its_tests_work_in_a_virtual_machine_where_the_configuration_says_so() {
    let (env, msb) = with_msb();
    let sandbox = json!({"backend": "microsandbox",
        "microsandbox": {"bin": msb.bin, "home": msb.home, "rootfs": "/srv/rootfs"}});
    with_worker(&env, &sandbox);
    check_item(&env, "microsandbox", &item(json!({})));
    assert_eq!(msb.machines(), 0);
    assert!(msb.log().iter().any(|line| line.starts_with("create") && line.ends_with("-- /srv/rootfs")));
}

#[test]
fn a_machine_that_is_lost_in_the_middle_of_a_turn_lands_nothing() {
    let (env, service) = with_e2b(Behaviour::DiesMidway);
    with_worker(&env, &json!({"e2b": {"url": service.url(), "key_env": "TEST_E2B_KEY"}}));
    let before = env.git(&["rev-parse", "HEAD"]);
    env.write("items.json", &json!([item(json!({"sandbox_backend": "e2b"}))]).to_string());
    let output = env.norma(&["batch", "items.json"]);
    assert_ne!(output.code(), Some(0));
    assert_eq!(env.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(env.read("src/lib.txt"), "one\ntwo\nthree\n");
    assert_eq!(service.machines().0, 0);
}

#[test]
fn what_cannot_work_elsewhere_is_refused_with_a_pointer_and_nothing_runs() {
    let (env, service) = with_e2b(Behaviour::Well);
    let check = |item: Value, expected: &str| {
        env.write("items.json", &json!([item]).to_string());
        let output = env.norma(&["batch", "items.json"]);
        output.exits(2);
        assert!(output.err().contains(expected), "{expected}: {}", output.err());
    };
    check(item(json!({"agent_id": "codex", "sandbox_backend": "e2b"})), "/0/sandbox_backend: an agent of type codex");
    check(item(json!({"agent_id": "codex", "sandbox_backend": "microsandbox"})), "/0/sandbox_backend");
    check(item(json!({"agent_id": "codex", "sandbox_backend": "none"})), "only a trusted configuration");
    check(item(json!({"agent_id": "codex", "sandbox_backend": "docker"})), "/0/sandbox_backend");
    let new =
        ["contract", "new", "--goal", "g", "--allow", "src", "--test", "grep x src", "--agent", "codex", "--json"];
    let mut contract: Value = serde_json::from_str(&env.norma(&new).success().raw).unwrap();
    contract["runtime_options"] = json!({"sandbox_backend": "e2b"});
    env.write("contract.json", &contract.to_string());
    let output = env.norma(&["contract", "check", "contract.json"]);
    output.exits(2);
    let said = format!("{}{}", output.err(), output.out());
    assert!(said.contains("/runtime_options/sandbox_backend"), "{said}");
    assert_eq!(service.machines(), (0, 0));
}
