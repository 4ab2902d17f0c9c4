//! A world of its own for every test: a folder with a home, a repository and a scripted agent, an environment in
//! which nothing of the machine's user shows, and outputs in which whatever changes from run to run is redacted.

use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a loaded machine, seven turns of an agent that is slow to start among it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// How often something that is waited for is looked for.
const POLL: Duration = Duration::from_millis(5);

/// What the repository of a new environment holds.
const FILES: [(&str, &str); 2] = [("README.md", "hello\n"), ("src/lib.txt", "one\ntwo\nthree\n")];

/// A patch that fits the repository of a new environment.
pub(crate) const PATCH: &str = "--- a/src/lib.txt\n+++ b/src/lib.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";

/// See the module.
pub(crate) struct TestEnvironment {
    /// The folder that holds everything, with no links in its path.
    pub(crate) dir: PathBuf,
    /// The user's repository.
    pub(crate) root: PathBuf,
    /// What norma and git see; a test may add to it.
    pub(crate) env: BTreeMap<String, String>,
    /// Whether the configuration asks for no sandbox.
    unconfined: Cell<bool>,
    _folder: tempfile::TempDir,
}

impl TestEnvironment {
    /// A folder with a home, and no repository yet.
    pub(crate) fn bare() -> TestEnvironment {
        let folder = tempfile::Builder::new().prefix("norma-e2e-").tempdir().unwrap();
        let dir = folder.path().canonicalize().unwrap();
        let root = dir.join("repo");
        for made in ["home", "tmp", "repo"] {
            std::fs::create_dir(dir.join(made)).unwrap();
        }
        let identity = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n";
        std::fs::write(dir.join("home/.gitconfig"), identity).unwrap();
        let at = |name: &str| dir.join(name).display().to_string();
        let env = BTreeMap::from(
            [
                ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("HOME", at("home")),
                ("XDG_CONFIG_HOME", at("home/.config")),
                ("XDG_DATA_HOME", at("home/.local/share")),
                ("TMPDIR", at("tmp")),
                ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
                ("GIT_AUTHOR_DATE", "2026-01-23T14:55:01Z".to_owned()),
                ("GIT_COMMITTER_DATE", "2026-01-23T14:55:01Z".to_owned()),
                ("LC_ALL", "C.UTF-8".to_owned()),
                ("TZ", "UTC".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        TestEnvironment { dir, root, env, unconfined: Cell::new(false), _folder: folder }
    }

    /// A repository with one commit that norma has never seen.
    pub(crate) fn unseen() -> TestEnvironment {
        let env = TestEnvironment::bare();
        env.git(&["init", "--quiet"]);
        for (path, content) in FILES {
            env.write(path, content);
        }
        env.commit("first");
        env
    }

    /// The same with a state directory without agents.
    pub(crate) fn initialized() -> TestEnvironment {
        let env = TestEnvironment::unseen();
        env.norma(&["init"]).success();
        env
    }

    /// The same with a task 1 that has one criterion, and agents that do what `script` says.
    pub(crate) fn new(script: Value) -> TestEnvironment {
        let env = TestEnvironment::initialized();
        env.norma(&["task", "add", "make two loud", "--ac", "the tests pass"]).success();
        env.script(script);
        env
    }

    /// An environment whose first check fails and whose act proposes `patch`; everything else goes well.
    pub(crate) fn with_patch(patch: &str) -> TestEnvironment {
        TestEnvironment::new(json!({
            "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]],
            "act": [[{"patch": patch}]],
        }))
    }

    /// Gives every role to the scripted agent, with this script.
    pub(crate) fn script(&self, script: Value) {
        std::fs::write(self.dir.join("script.json"), script.to_string()).unwrap();
        self.configure(|_| {});
    }

    /// The same without a sandbox, from now on: for agents that meet the test at files outside of the repository, or
    /// that do what a sandbox keeps them from.
    pub(crate) fn script_unconfined(&self, script: Value) {
        self.unconfined.set(true);
        self.script(script);
    }

    /// Writes a configuration in which the scripted agent fills every role, changed by `change`, and trusts it.
    pub(crate) fn configure(&self, change: impl FnOnce(&mut Value)) {
        let agent = json!({"type": "exec", "cmd": [scripted_agent(), self.dir.join("script.json")]});
        let mut config = json!({
            "agents": {"plan": agent, "do": agent, "check": agent, "act": agent},
            "budgets": {"max_iterations": 3},
        });
        if self.unconfined.get() {
            config["sandbox"] = json!({"backend": "none"});
        }
        change(&mut config);
        self.write(".norma/config.json", &config.to_string());
        self.norma(&["trust"]).success();
    }

    /// Writes a file of the repository.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Commits so many files in `src` that a scope of that directory is a wide one.
    pub(crate) fn with_most_in_src(&self) {
        for name in ["src/a.txt", "src/b.txt", "src/c.txt", "src/d.txt"] {
            self.write(name, "x\n");
        }
        self.commit("most of it is in src");
    }

    /// Reads a file of the repository.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Reads a file of the repository that need not be text.
    #[track_caller]
    pub(crate) fn read_bytes(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Commits everything but the state directory.
    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all", "--", ".", ":!.norma"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
    }

    /// Runs git as the user would; answers its stdout.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(args).current_dir(&self.root).env_clear().envs(&self.env);
        // A test that makes the environment hostile to norma still wants to see the repository as it is.
        for name in self.env.keys().filter(|name| name.starts_with("GIT_") && !FIXED_GIT.contains(&name.as_str())) {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_norma"));
        command.args(args).current_dir(&self.root).env_clear().envs(&self.env).stdin(Stdio::null());
        command
    }

    /// Has programs looked for in a directory before all others.
    pub(crate) fn find_first_in(&mut self, dir: &Path) {
        let path = self.env.get_mut("PATH").unwrap();
        *path = format!("{}:{path}", dir.display());
    }

    /// Runs norma in the repository until it ends.
    pub(crate) fn norma(&self, args: &[&str]) -> Output {
        self.spawn(args).wait()
    }

    /// Runs norma in another folder.
    pub(crate) fn norma_in(&self, dir: &Path, args: &[&str]) -> Output {
        let mut command = self.command(args);
        command.current_dir(dir);
        self.started(command).wait()
    }

    /// Runs another program in the repository, which sees what norma would.
    pub(crate) fn output_of(&self, program: &str, args: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.root).env_clear().envs(&self.env).stdin(Stdio::null());
        self.started(command).wait()
    }

    /// Starts norma in the repository; it continues while the test does something else.
    pub(crate) fn spawn(&self, args: &[&str]) -> Running {
        self.started(self.command(args))
    }

    fn started(&self, mut command: Command) -> Running {
        let [out, err] = [(); 2].map(|()| tempfile::NamedTempFile::new_in(&self.dir).unwrap());
        command.stdout(out.reopen().unwrap()).stderr(err.reopen().unwrap());
        let child = command.spawn().unwrap();
        Running { child, out, err, dir: self.dir.clone() }
    }

    /// Runs norma with `--json` and parses the last line of its stdout.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.norma(&[args, &["--json"]].concat());
        let line = output.raw.lines().last().unwrap_or_else(|| panic!("nothing on stdout: {output}"));
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// The newest run as `show --json` has it.
    #[track_caller]
    pub(crate) fn last(&self) -> Value {
        self.json(&["show", "@last"])
    }

    /// The newest run's directory.
    #[track_caller]
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.root.join(self.last()["run_dir"].as_str().unwrap())
    }

    /// The events of the newest run.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        let output = self.norma(&["events", "@last", "--json"]);
        output.success();
        output.raw.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The types of those events, in order.
    #[track_caller]
    pub(crate) fn event_types(&self) -> Vec<String> {
        self.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    /// The payload of the only event of this type.
    #[track_caller]
    pub(crate) fn event(&self, kind: &str) -> Value {
        let mut found: Vec<Value> = self.events().into_iter().filter(|event| event["type"] == kind).collect();
        assert_eq!(found.len(), 1, "{kind}: {:?}", self.event_types());
        found.remove(0)["payload"].take()
    }

    /// Waits until a file is there, for example one that an agent writes in the middle of its turn.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str) -> PathBuf {
        let path = self.dir.join(name);
        eventually(&format!("{name} is there"), || path.exists());
        path
    }

    /// Any text with whatever changes from run to run redacted.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact(text, &self.dir.display().to_string())
    }

    /// A path in the folder, for scripts.
    pub(crate) fn at(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Makes a file in the folder, for example one that an agent waits for.
    pub(crate) fn touch(&self, name: &str) {
        std::fs::write(self.dir.join(name), "").unwrap();
    }

    /// Everything of the repository that is the user's: HEAD, refs, index, configuration, files with their modes.
    pub(crate) fn repository(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let git_dir = self.root.join(".git");
        for name in ["HEAD", "index", "config", "packed-refs"] {
            let bytes = std::fs::read(git_dir.join(name)).unwrap_or_default();
            found.insert(format!(".git/{name}"), String::from_utf8_lossy(&bytes).into_owned());
        }
        found.insert("refs".into(), self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]));
        walk(&self.root, &self.root, &mut found);
        found
    }
}

/// Variables of git that belong to the hermetic environment.
const FIXED_GIT: [&str; 3] = ["GIT_CONFIG_NOSYSTEM", "GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];

fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let shown = path.strip_prefix(root).unwrap().display().to_string();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if [".git", ".norma"].contains(&shown.as_str()) {
            continue;
        } else if meta.is_dir() {
            walk(root, &path, found);
        } else {
            let bytes = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            found.insert(shown, format!("{:o} {}", meta.permissions().mode(), String::from_utf8_lossy(&bytes)));
        }
    }
}

/// Where the scripted agent is.
pub(crate) fn scripted_agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| program("NORMA_SCRIPTED_AGENT", "scripted-agent", "scripted-agent"))
}

/// Where `norma-verify` is.
pub(crate) fn norma_verify() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program("NORMA_VERIFY", "verify", "norma-verify"))
}

/// A program of another package, which cargo does not build for this test: where the variable says, as `cargo xtask test`
/// sets it, or built into the same target folder and profile as norma itself. On its own it has other features of its
/// dependencies, so that building it takes minutes.
fn program(variable: &str, package: &str, program: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let profile = Path::new(env!("CARGO_BIN_EXE_norma")).parent().unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", package, "--target-dir"]).arg(profile.parent().unwrap());
    if profile.file_name() == Some(OsStr::new("release")) {
        cargo.arg("--release");
    }
    assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success(), "{package}");
    profile.join(program)
}

/// A norma at work.
pub(crate) struct Running {
    child: Child,
    out: tempfile::NamedTempFile,
    err: tempfile::NamedTempFile,
    dir: PathBuf,
}

/// One that nobody waited for ends with its test.
impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Running {
    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Output {
        let mut status = None;
        eventually("norma has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let [raw, raw_err] = [&mut self.out, &mut self.err].map(|file| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        });
        Output { status: status.unwrap(), raw, raw_err, dir: self.dir.display().to_string() }
    }

    /// What it has said on stdout so far.
    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(self.out.path()).unwrap()
    }

    /// What it has said on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.err.path()).unwrap()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

/// What a norma left: exit status and outputs.
pub(crate) struct Output {
    status: std::process::ExitStatus,
    /// Its stdout as it is.
    pub(crate) raw: String,
    /// Its stderr as it is.
    pub(crate) raw_err: String,
    dir: String,
}

impl Output {
    /// The exit code; none if it was killed.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Fails the test unless the exit code is 0.
    #[track_caller]
    pub(crate) fn success(&self) -> &Output {
        self.exits(0)
    }

    /// Fails the test unless this is the exit code.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Output {
        assert_eq!(self.code(), Some(code), "{self}");
        self
    }

    /// Its stderr with whatever changes from run to run redacted.
    pub(crate) fn err(&self) -> String {
        redact(&self.raw_err, &self.dir)
    }

    /// Its stdout with whatever changes from run to run redacted.
    pub(crate) fn out(&self) -> String {
        redact(&self.raw, &self.dir)
    }
}

/// All of it, for snapshots: what was said, and the exit code.
impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.out())?;
        for line in self.err().lines() {
            writeln!(f, "! {line}")?;
        }
        match self.code() {
            Some(code) => write!(f, "[exit {code}]"),
            None => write!(f, "[{}]", self.status),
        }
    }
}

/// Replaces what changes from run to run, word by word: ids, times, hashes, the test's folder.
fn redact(text: &str, dir: &str) -> String {
    let text = text.replace(dir, "$DIR");
    let mut redacted = String::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        if word == 0 {
            let other = rest.find(is_word).unwrap_or(rest.len());
            redacted.push_str(&rest[..other]);
            rest = &rest[other..];
        } else {
            let (shown, padded) = known_word(&rest[..word], &redacted);
            redacted.truncate(redacted.trim_end_matches(if padded { ' ' } else { '\0' }).len());
            redacted.push_str(&shown);
            rest = &rest[word..];
        }
    }
    redacted
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-:.".contains(c)
}

/// What stands for a word, and whether the padding before it depends on its length.
fn known_word(word: &str, before: &str) -> (String, bool) {
    let shape: String = word
        .chars()
        .map(|c| match c {
            '0'..='9' => '0',
            'a'..='f' => 'a',
            c => c,
        })
        .collect();
    let hex = shape.chars().all(|c| matches!(c, '0' | 'a'));
    let slug = word.get(..22).filter(|head| is_slug(head));
    let shown = if let Some(slug) = slug {
        return (format!("<run>{}", &word[slug.len()..]), false);
    } else if hex && [10, 12, 40, 64].contains(&word.len()) && shape.contains('0') {
        "<hash>"
    } else if word.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64) {
        "sha256:<hash>"
    } else if word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12]) {
        "<uuid>"
    } else if shape.starts_with("0000-00-00T00:00:00") {
        "<time>"
    } else if shape.starts_with("00000000T000000.000Z") {
        return (format!("<time>{}", &word["00000000T000000.000Z".len()..]), false);
    } else if ["0ms", "00ms", "000ms", "0.0s", "00s", "0m00s"].contains(&shape.as_str()) {
        return ("  <took>".to_owned(), true);
    } else if word.starts_with("norma-demo-") {
        "norma-demo-<random>"
    } else if let Some((name, _)) = word.split_once(".tmp-") {
        return (format!("{name}.tmp-<random>"), false);
    } else if shape.chars().all(|c| c == '0') && before.ends_with("pid ") {
        "<pid>"
    } else {
        word
    };
    (shown.to_owned(), false)
}

fn is_slug(word: &str) -> bool {
    let lengths = word.split('-').map(str::len).eq([8, 6, 6]);
    lengths && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') && word.starts_with("20")
}

/// Waits until something holds; what it waits for must come without further ado.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what} does not hold");
        std::thread::sleep(POLL);
    }
}

/// Whether a process is gone, or a zombie that its parent has yet to reap.
pub(crate) fn is_dead(pid: &str) -> bool {
    let pid = pid.trim();
    assert!(pid.parse::<u32>().is_ok(), "not a process id: {pid:?}");
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}
