//! A small repository of a user who has work of their own lying about, four shell agents, and the real norma in
//! it: FAIL in iteration 1, a patch, PASS in iteration 2, landed. The checks here stand outside: they read the
//! database, the directories and the repository themselves, and believe norma only where it is asked to verify.
#![allow(dead_code, reason = "each test binary uses its part")]

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

const PLAN: &str = r#"#!/bin/sh
cat > /dev/null
echo "run the tests, mend what fails" > "$NORMA_STEP_DIR/plan.md"
echo '{"version":1,"status":"ok","summary":"planned","files":["plan.md"]}'
"#;

/// Leaves a small file and one that is too large to be kept in the database.
const DO: &str = r#"#!/bin/sh
cat > /dev/null
mkdir -p "$NORMA_STEP_DIR/files"
cat answer > "$NORMA_STEP_DIR/files/result.txt"
head -c 100000 /dev/zero | tr '\0' 'x' > "$NORMA_STEP_DIR/files/large.log"
echo '{"version":1,"status":"ok","summary":"ran","files":["files/result.txt"]}'
"#;

const CHECK: &str = r#"#!/bin/sh
cat > /dev/null
if [ "$(cat answer)" = 42 ]; then verdict=PASS pass=true; else verdict=FAIL pass=false; fi
echo "{\"version\":1,\"verdict\":\"$verdict\",\"criteria\":[{\"id\":\"AC1\",\"pass\":$pass,\"evidence\":\"files/result.txt\"}]}" > "$NORMA_STEP_DIR/verdict.json"
echo "$verdict" > "$NORMA_STEP_DIR/scorecard.md"
echo '{"version":1,"status":"ok","summary":"judged","files":["verdict.json","scorecard.md"]}'
"#;

const ACT: &str = r#"#!/bin/sh
cat > /dev/null
cat > "$NORMA_STEP_DIR/patch.diff" <<'END'
diff --git a/answer b/answer
--- a/answer
+++ b/answer
@@ -1 +1 @@
-41
+42
diff --git a/docs/new.md b/docs/new.md
new file mode 100644
--- /dev/null
+++ b/docs/new.md
@@ -0,0 +1 @@
+The answer is 42.
END
echo '{"version":1,"status":"ok","summary":"patched","files":["patch.diff"]}'
"#;

const CONFIG: &str = r#"{
  "agents": {
    "plan": {"type": "exec", "cmd": ["agents/plan"]}, "do": {"type": "exec", "cmd": ["agents/do"]},
    "check": {"type": "exec", "cmd": ["agents/check"]}, "act": {"type": "exec", "cmd": ["agents/act"]}
  },
  "budgets": {"max_iterations": 3, "max_patch_kb": 200, "max_changed_files": 5}
}
"#;

/// What the user has lying about: changed, staged, untracked. None of it is norma's to touch.
const DIRTY: [(&str, &str); 3] = [("other.txt", "changed\n"), ("staged.txt", "staged\n"), ("notes/own.txt", "mine\n")];

/// How long processes of a killed norma may take to follow it. Not a promise, only an end to waiting.
const PATIENCE: Duration = Duration::from_secs(30);

/// The norma binary of this build, made by cargo once, unless `NORMA_PROGRAM` names one.
pub(crate) fn norma() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(path) = std::env::var_os("NORMA_PROGRAM") {
            return path.into();
        }
        // target/<profile>/deps/<this test>
        let exe = std::env::current_exe().unwrap();
        let profile = exe.ancestors().nth(2).unwrap();
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "norma", "--target-dir"]).arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        profile.join("norma")
    })
}

/// What a norma that was run said, and how it ended.
pub(crate) struct Ran {
    pub(crate) killed: bool,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn of(output: Output) -> Ran {
        Ran {
            killed: output.status.signal() == Some(9) || output.status.code() == Some(128 + 9),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The facts that were told: whole JSON lines with a place in a log.
    pub(crate) fn told(&self) -> Vec<Value> {
        let lines = self.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let values = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        values.filter(|value| value.get("seq").is_some()).collect()
    }
}

/// See the module.
pub(crate) struct Place {
    pub(crate) base: PathBuf,
    pub(crate) repo: PathBuf,
    start: String,
    /// Whether more than processes may have died.
    power_cut: bool,
}

impl Place {
    /// Makes everything below `base`, which is empty.
    pub(crate) fn new(base: &Path) -> Place {
        let repo = base.join("repo");
        std::fs::create_dir_all(base.join("home")).unwrap();
        let files = [("agents/plan", PLAN), ("agents/do", DO), ("agents/check", CHECK), ("agents/act", ACT)];
        for (path, content) in files {
            write(&repo.join(path), content, 0o755);
        }
        for (path, content) in [("answer", "41\n"), ("other.txt", "as committed\n"), ("README", "read me\n")] {
            write(&repo.join(path), content, 0o644);
        }
        let mut place = Place { base: base.to_owned(), repo, start: String::new(), power_cut: false };
        place.git(&["init", "-q", "-b", "main"]);
        place.git(&["config", "user.name", "A User"]);
        place.git(&["config", "user.email", "user@example.org"]);
        place.git(&["add", "."]);
        place.git(&["commit", "-q", "-m", "start"]);
        place.start = place.git(&["rev-parse", "HEAD"]);
        for (path, content) in DIRTY {
            write(&place.repo.join(path), content, 0o644);
        }
        place.git(&["add", "staged.txt"]);
        for args in [&["init"][..], &["task", "add", "the answer must be 42", "--ac", "answer is 42"]] {
            let ran = place.norma(args, None);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        }
        write(&place.state().join("config.json"), CONFIG, 0o644);
        assert_eq!(place.norma(&["trust"], None).code, Some(0));
        place
    }

    /// The same place, made before and copied from a disk whose power was cut.
    pub(crate) fn at(base: &Path, start: &str) -> Place {
        Place { base: base.to_owned(), repo: base.join("repo"), start: start.to_owned(), power_cut: true }
    }

    /// The commit it started from.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.repo.join(".norma")
    }

    /// A command in a hermetic environment.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let home = self.base.join("home");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home).env("LC_ALL", "C");
        command.current_dir(&self.repo);
        command
    }

    /// Runs norma, to be killed at a crash point if one is given.
    pub(crate) fn norma(&self, args: &[&str], point: Option<&str>) -> Ran {
        let mut command = self.command(norma());
        if let Some(point) = point {
            command.env("NORMA_CRASH_POINT", point);
        }
        Ran::of(command.args(args).output().unwrap())
    }

    /// Runs norma under another program.
    pub(crate) fn norma_under(&self, program: &str, options: &[String], args: &[&str]) -> Ran {
        Ran::of(self.command(Path::new(program)).args(options).arg(norma()).args(args).output().unwrap())
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = self.command(Path::new("git")).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// The first thing a user does after a crash, and again until the run has ended: looks, then continues
    /// what is paused. Answers everything that was told meanwhile, or what is in the way.
    pub(crate) fn go_on(&self, by_task: bool) -> Result<Vec<Value>, String> {
        let mut told = Vec::new();
        for _ in 0..3 {
            let runs: Value = serde_json::from_str(&self.norma(&["runs", "--json"], None).stdout).unwrap();
            let ran = match runs[0]["status"].as_str() {
                None => self.norma(&["run", "1", "--json"], None),
                Some("paused") if by_task => self.norma(&["run", "1", "--json"], None),
                Some("paused") => self.norma(&["resume", "@last", "--json"], None),
                // Whatever takes the lock cleans up behind a run that had ended.
                Some(_) => {
                    self.norma(&["cancel", "@last"], None);
                    return Ok(told);
                }
            };
            // A landing that had moved the branch already is completed on the way in; then nothing is left to do.
            let said = format!("{}{}", ran.stdout, ran.stderr);
            let done = ran.code == Some(1) && (said.contains("is succeeded") || said.contains("task 1 is done"));
            if ran.code != Some(0) && !done {
                return Err(format!("going on failed: {:?} {said}", ran.code));
            }
            told.extend(ran.told());
        }
        Err("the run does not end".into())
    }

    /// Waits until the processes of a killed norma are gone.
    pub(crate) fn wait_for_processes(&self) {
        let since = std::time::Instant::now();
        while !self.processes().is_empty() && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Processes that have to do with this place.
    fn processes(&self) -> Vec<String> {
        let needle = self.base.to_string_lossy().into_owned();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            if pid == std::process::id() {
                continue;
            }
            let read = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let (line, environ) = (read("cmdline"), read("environ"));
            let all = [line.clone(), environ].concat();
            if String::from_utf8_lossy(&all).contains(&needle) {
                found.push(format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        found
    }

    pub(crate) fn db(&self) -> Connection {
        Connection::open_with_flags(self.state().join("norma.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
    }

    fn newest_run(&self) -> String {
        self.db().query_row("SELECT max(run_id) FROM runs", [], |row| row.get(0)).unwrap()
    }

    /// Where the branch may be in between: where it was, or where the run brings it.
    pub(crate) fn check_branch_between(&self, result: Option<&str>) -> Vec<String> {
        let at = self.git(&["rev-parse", "refs/heads/main"]);
        let legal = at == self.start || result == Some(&at) || self.is_result(&at);
        if legal { vec![] } else { vec![format!("I-5: main is at {at}")] }
    }

    fn is_result(&self, commit: &str) -> bool {
        let parents = self.git(&["rev-list", "--parents", "-n1", commit]);
        parents.split(' ').collect::<Vec<_>>()[1..] == [self.start.as_str()]
            && self.git(&["show", &format!("{commit}:answer")]) == "42"
    }

    /// Every invariant that must hold once the run has ended well; all that is broken.
    pub(crate) fn check_end(&self, told: &[Value]) -> Vec<String> {
        let mut broken = self.check_log(told);
        broken.extend(self.check_steps());
        broken.extend(self.check_verify());
        broken.extend(self.check_repository());
        broken.extend(self.check_leftovers());
        broken.extend(self.check_idempotence());
        broken.extend(self.check_structures());
        broken
    }

    /// I-1: whatever was told is in the log, as it was told.
    fn check_log(&self, told: &[Value]) -> Vec<String> {
        let db = self.db();
        let mut broken = Vec::new();
        for fact in told {
            let row = db.query_row(
                "SELECT type, ts, data_json FROM events WHERE run_id = ?1 AND seq = ?2",
                rusqlite::params![fact["run_id"].as_str().unwrap(), fact["seq"].as_i64().unwrap()],
                |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?)),
            );
            let same = row.is_ok_and(|(kind, ts, data)| {
                fact["type"] == kind
                    && fact["ts"] == ts
                    && serde_json::from_str(&data).ok().as_ref() == Some(&fact["payload"])
            });
            if !same {
                broken.push(format!("I-1: this was told and is not in the log: {fact}"));
            }
        }
        broken
    }

    /// I-2, I-3: a directory for each step row and a row for each directory; every manifest verifies.
    fn check_steps(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let run = self.newest_run();
        let dir = self.state().join("runs").join(&run);
        let db = self.db();
        let mut rows = db.prepare("SELECT step_dir FROM steps WHERE run_id = ?1 ORDER BY step_index").unwrap();
        let rows: Vec<String> = rows.query_map([&run], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let expected: BTreeSet<PathBuf> = rows.iter().map(|row| self.repo.join(row)).collect();
        let there: BTreeSet<PathBuf> = entries(&dir.join("steps")).into_iter().collect();
        if expected != there || rows.len() != expected.len() {
            broken.push(format!("I-2: rows {expected:?}, directories {there:?}"));
        }
        let mut found = db.prepare("SELECT step_dir FROM steps WHERE run_id = ?1 AND summary IS NULL").unwrap();
        let found = found.query_map([&run], |row| row.get::<_, String>(0)).unwrap();
        let found: Vec<PathBuf> = found.map(|row| self.repo.join(row.unwrap())).collect();
        for dir in there.iter().chain(&entries(&dir.join("changes"))) {
            // Of a step that never got its record a power cut may take anything.
            if self.power_cut && found.contains(dir) {
                continue;
            }
            broken.extend(check_manifest(dir).into_iter().map(|what| format!("I-3: {}: {what}", dir.display())));
        }
        let patch = std::fs::read_to_string(dir.join("patch.diff")).unwrap_or_default();
        if !patch.contains("+42") {
            broken.push(format!("I-3: patch.diff of the run is {patch:?}"));
        }
        broken
    }

    /// I-4: norma's own verification, of every run.
    fn check_verify(&self) -> Vec<String> {
        let ran = self.norma(&["verify", "@last"], None);
        if ran.code == Some(0) { vec![] } else { vec![format!("I-4: {} {}", ran.stdout, ran.stderr)] }
    }

    /// I-5, I-11: the branch has the result exactly once; what was the user's is untouched.
    fn check_repository(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let head = self.git(&["rev-parse", "refs/heads/main"]);
        if !self.is_result(&head) {
            let last = "SELECT group_concat(message, '; ') FROM events WHERE type LIKE 'land%'";
            let said: Option<String> = self.db().query_row(last, [], |row| row.get(0)).unwrap();
            broken.push(format!("I-5: main ends at {head}: {said:?}"));
        }
        let moves = self.git(&["reflog", "show", "main"]).lines().filter(|line| line.contains("norma: land")).count();
        if moves > 1 {
            broken.push(format!("I-5: main was moved {moves} times"));
        }
        let status = self.git(&["status", "--porcelain", "--", ".", ":!.norma"]);
        if status != " M other.txt\nA  staged.txt\n?? notes/" {
            broken.push(format!("I-11: the work tree has {status:?}"));
        }
        for (path, content) in DIRTY {
            if std::fs::read_to_string(self.repo.join(path)).ok().as_deref() != Some(content) {
                broken.push(format!("I-11: {path} changed"));
            }
        }
        let landed: Option<String> = self
            .db()
            .query_row("SELECT landing_json FROM runs ORDER BY run_id DESC LIMIT 1", [], |row| row.get(0))
            .unwrap();
        if !landed.is_some_and(|landing| landing.contains(&head)) {
            broken.push("I-5: the index does not say that the result is on main".to_owned());
        }
        broken
    }

    /// I-6: nobody and nothing is left.
    fn check_leftovers(&self) -> Vec<String> {
        let mut broken: Vec<String> =
            self.processes().into_iter().map(|line| format!("I-6: still there: {line}")).collect();
        let state = self.state();
        for path in walk(&self.base) {
            if path.to_string_lossy().contains(".tmp-") && !path.starts_with(state.join("quarantine")) {
                broken.push(format!("I-6: left over: {}", path.display()));
            }
        }
        for dir in ["worktrees", "quarantine"] {
            // What stands aside after a crash before the first fact is a run directory that no run has.
            let left = entries(&state.join(dir));
            let unknown =
                left.iter().filter(|path| !path.join("contract.json").is_file() || path.join("events.jsonl").exists());
            broken.extend(unknown.map(|path| format!("I-6: left in {dir}: {}", path.display())));
        }
        if entries(&state.join("locks")) != [state.join("locks/run.lock")] || state.join("norma.sock").exists() {
            broken.push("I-6: locks or the socket are left".to_owned());
        }
        let refs = self.git(&["for-each-ref", "--format=%(refname)", "refs/norma", "refs/heads/norma"]);
        if !refs.is_empty() {
            broken.push(format!("I-6: refs are left: {refs}"));
        }
        broken
    }

    /// I-9: looking, and a verb that takes the lock, recovers and has nothing to do, write nothing.
    fn check_idempotence(&self) -> Vec<String> {
        let before = self.snapshot();
        for args in [&["runs"][..], &["doctor"], &["cancel", "@last"]] {
            self.norma(args, None);
        }
        compare(&before, &self.snapshot()).into_iter().map(|what| format!("I-9: {what}")).collect()
    }

    /// I-10: SQLite and git find their own structures whole.
    fn check_structures(&self) -> Vec<String> {
        let found: String = self.db().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        let mut broken = if found == "ok" { vec![] } else { vec![format!("I-10: {found}")] };
        for dir in [".", ".norma/git"] {
            let output =
                self.command(Path::new("git")).args(["-C", dir, "fsck", "--strict", "--no-dangling"]).output().unwrap();
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            if !output.status.success() || words.contains("error") {
                broken.push(format!("I-10: git fsck in {dir}: {words}"));
            }
        }
        broken
    }

    /// Every file of the state directory by digest, and every row of the database. The lock file names its last
    /// holder and is left out.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, String> {
        let state = self.state();
        let mut all = dump(&self.db());
        for path in walk(&state) {
            let name = path.strip_prefix(&state).unwrap().to_string_lossy().into_owned();
            if path.is_file() && !name.starts_with("norma.db") && name != "locks/run.lock" {
                all.insert(name, contract::hash::sha256(&std::fs::read(&path).unwrap()).to_string());
            }
        }
        all
    }
}

/// Every row of every table, by table and row number.
pub(crate) fn dump(db: &Connection) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut tables = db.prepare(names).unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for table in tables {
        let mut statement = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let values = |row: &rusqlite::Row<'_>| {
            (0..columns).map(|i| row.get_ref(i).map(|value| format!("{value:?}"))).collect::<rusqlite::Result<Vec<_>>>()
        };
        let rows = statement.query_map([], values).unwrap();
        let mut rows: Vec<String> = rows.map(|row| row.unwrap().join(", ")).collect();
        rows.sort();
        all.extend((1..).zip(rows).map(|(number, row)| (format!("{table} row {number:06}"), row)));
    }
    all
}

/// What differs.
pub(crate) fn compare(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    differing.map(|name| format!("{name}: {:?} became {:?}", before.get(name), after.get(name))).collect()
}

/// What speaks against a sealed directory, from its own manifest.
fn check_manifest(dir: &Path) -> Vec<String> {
    let text = std::fs::read(dir.join("manifest.json")).unwrap_or_default();
    let Ok(manifest) = serde_json::from_slice::<Value>(&text) else { return vec!["no manifest".into()] };
    let listed = manifest["files"].as_array().unwrap();
    let mut broken = Vec::new();
    for file in listed {
        let path = dir.join(file["path"].as_str().unwrap());
        let bytes = std::fs::read(&path).unwrap_or_default();
        if contract::hash::sha256(&bytes).to_string() != file["sha256"].as_str().unwrap() {
            broken.push(format!("{} differs", path.display()));
        }
    }
    let there = walk(dir).into_iter().filter(|path| path.is_file()).count();
    if there != listed.len() + 1 {
        broken.push(format!("{there} files where {} are listed", listed.len()));
    }
    broken
}

/// What is in a directory; nothing if it is not there.
pub(crate) fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Everything below a directory.
pub(crate) fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in entries(dir) {
        if path.is_dir() && !path.is_symlink() {
            all.extend(walk(&path));
        }
        all.push(path);
    }
    all
}

fn write(path: &Path, content: &str, mode: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
