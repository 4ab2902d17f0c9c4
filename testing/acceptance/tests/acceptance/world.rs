//! A repository, a run on it, and changes that are tried with real commands, confined or not.

use contract::work::{TestCommand, TestsPolicy};
use contract::{Backend, Config, Item, Policies};
use run::gate::acceptance::TestStatus;
use runner::git::{Entry, MODE_EXECUTABLE, MODE_FILE, ObjectId, Objects, Repository, UserEnvironment};
use runner::process::{Cancel, Supervisor};
use runner::{Acceptance, Context, Machine, Order, Owner, Settings, Starting, Taken, Trust};
use sandbox::{Sandbox, SetUp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// How long a command may take that is not about time.
const PATIENCE_MS: u64 = 60_000;

/// See the module.
pub(crate) struct World {
    pub(crate) repo: PathBuf,
    /// On the PATH of every command, before the system's own.
    pub(crate) bin: PathBuf,
    /// What else is on it, before everything.
    pub(crate) path_first: Vec<PathBuf>,
    pub(crate) config: Value,
    dir: tempfile::TempDir,
}

/// A change: paths with their new content, or none where they are gone. A first line `#!` makes it executable.
pub(crate) type Edits<'e> = &'e [(&'e str, Option<&'e str>)];

impl World {
    /// A repository with these files. Where nothing can be confined there is no such world, and it says so.
    pub(crate) fn new(backend: Backend, files: &[(&str, &str)]) -> Option<World> {
        let dir = tempfile::tempdir().unwrap();
        // Whoever is confined is somebody else, and has to get there.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if backend == Backend::Native && sandbox::probe(&sandbox()).at_least(runner::LEVEL_MIN).is_none() {
            not_run::because("nothing can be confined on this machine");
            return None;
        }
        let at = dir.path().canonicalize().unwrap();
        let world =
            World { repo: at.join("repo"), bin: at.join("bin"), path_first: Vec::new(), config: config(backend), dir };
        for made in [&world.repo, &world.bin, &at.join("home")] {
            fs::create_dir(made).unwrap();
        }
        for (path, content) in files {
            write(&world.repo.join(path), content);
        }
        world.git(&["init", "--quiet", "--initial-branch=main"]);
        world.git(&["add", "--all"]);
        world.git(&["-c", "user.name=u", "-c", "user.email=u@localhost", "commit", "--quiet", "--message=base"]);
        Some(world)
    }

    /// The same world in every kind: confined on layers, confined on a directory of its own, and not confined.
    pub(crate) fn all(files: &[(&str, &str)]) -> Vec<World> {
        let on_directory = World::new(Backend::Native, files).map(|mut world| {
            world.config["workspace"] = json!({ "layers": false });
            world
        });
        let others = [Backend::Native, Backend::None].into_iter().filter_map(|backend| World::new(backend, files));
        others.chain(on_directory).collect()
    }

    /// Tries a change with these commands, which all must pass.
    pub(crate) fn accept(&self, edits: Edits<'_>, commands: &[&[&str]]) -> Acceptance {
        self.accept_item(edits, &item(commands))
    }

    /// Tries a change.
    pub(crate) fn accept_item(&self, edits: Edits<'_>, item: &Item) -> Acceptance {
        self.accept_until(edits, item, &Cancel::new().unwrap())
    }

    /// Tries a change until somebody cancels it.
    pub(crate) fn accept_until(&self, edits: Edits<'_>, item: &Item, cancel: &Cancel) -> Acceptance {
        let context = self.context();
        let Taken::Ours(owner) = Owner::take(&context).unwrap() else { panic!("nobody else works here") };
        let config: Config = serde_json::from_value(self.config.clone()).unwrap();
        let settings = Settings::new(config, &[], &context.layout.config(), Policies::built_in());
        let order =
            Order { goal: "g".into(), criteria: Vec::new(), task: None, parent: None, budgets: None, agent: None };
        let (store, objects, path) = (owner.store(), owner.objects(), self.path());
        let (user, trust, settings, path_var) = (&context.user, &context.trust, &settings, path.as_os_str());
        let (run, _log) = Starting {
            store,
            user,
            objects,
            trust,
            settings,
            path_var,
            user_env: &Default::default(),
            attended: false,
            shows_dependencies: false,
        }
        .start(order)
        .unwrap();
        let base = context.user.head().unwrap().tree;
        let candidate = edited(objects, base, edits);
        let before = self.seen();
        let mut machine = Machine::new(context.clone(), owner.state(), cancel.clone());
        let acceptance = machine.accept(&run, item, candidate, base).unwrap();
        assert_eq!(self.seen(), before, "the user's checkout is never touched");
        let is_pass = acceptance.status == TestStatus::Pass;
        assert!(acceptance.findings.is_empty() || !is_pass, "{:?}", acceptance.findings);
        acceptance
    }

    pub(crate) fn context(&self) -> Arc<Context> {
        let at = self.repo.parent().unwrap();
        let environment = UserEnvironment {
            path: Some(self.path()),
            home: Some(at.join("home").into()),
            ..UserEnvironment::default()
        };
        let user = Repository::discover(&self.repo, environment).unwrap();
        let layout = store::Layout::new(&user.root, None);
        Arc::new(Context {
            trust: Trust::new(&self.dir.path().join("data"), &layout.state),
            user,
            agent_env: BTreeMap::from([("PATH".into(), self.path()), ("HOME".into(), at.join("home").into())]),

            user_env: Default::default(),
            templates: Default::default(),
            supervisor: Supervisor { program: helper(), args: vec!["__supervise".into()] },
            sandbox: Arc::new(sandbox()),
            told: Arc::new(|_| ()),
            command: "test".into(),
            own_config: PathBuf::new(),
            policies: None,
            layout,
        })
    }

    pub(crate) fn path(&self) -> OsString {
        let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        std::env::join_paths(self.path_first.iter().chain([&self.bin]).chain(&system)).unwrap()
    }

    /// Every file of the user's checkout but norma's own, with its content.
    pub(crate) fn seen(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut seen, mut due) = (BTreeMap::new(), vec![self.repo.clone()]);
        while let Some(dir) = due.pop() {
            for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                let name = entry.file_name().unwrap();
                match entry.is_dir() {
                    true if name != ".norma" && name != ".git" => due.push(entry),
                    true => {}
                    false => drop(seen.insert(entry.clone(), fs::read(&entry).unwrap())),
                }
            }
        }
        seen
    }

    pub(crate) fn git(&self, args: &[&str]) {
        let home = self.repo.parent().unwrap().join("home");
        let mut git = Command::new("git");
        let status = git.current_dir(&self.repo).env("HOME", home).args(args).status().unwrap();
        assert!(status.success(), "git {args:?}");
    }
}

/// An item with these commands, which all must pass.
pub(crate) fn item(commands: &[&[&str]]) -> Item {
    let test = |(number, argv): (usize, &&[&str])| TestCommand {
        name: format!("t{}", number + 1),
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        must_pass: true,
        of_whole: false,
    };
    Item {
        id: "i".into(),
        agent_id: "agent-1".into(),
        role: "WORKER".into(),
        worker: "worker".into(),
        goal: "g".into(),
        needs: Vec::new(),
        scope: Default::default(),
        read_only: false,
        rights: Default::default(),
        input_files: Vec::new(),
        output_files: Vec::new(),
        artifacts: Vec::new(),
        tests: commands.iter().enumerate().map(test).collect(),
        tests_policy: TestsPolicy::Candidate,
        constraints: Default::default(),
        timeout_ms: PATIENCE_MS,
        retries: 0,
        retry_backoff_ms: 0,
        output_schema: None,
        forbidden_actions: Vec::new(),
        audit_only: false,
        sandbox_backend: None,
        review: None,
        thread: None,
        submitted: contract::hash::sha256(b"x"),
    }
}

/// What the commands came to, with their exit codes.
pub(crate) fn statuses(acceptance: &Acceptance) -> Vec<(TestStatus, Option<i32>)> {
    acceptance.commands.iter().map(|command| (command.status, command.exit_code)).collect()
}

/// A kept file as text.
pub(crate) fn kept(acceptance: &Acceptance, path: &str) -> String {
    let found = acceptance.files.iter().find(|(name, _)| name == path);
    let (_, bytes) = found.unwrap_or_else(|| panic!("{path} is kept"));
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many processes of this machine have this word in their command line.
pub(crate) fn processes_with(word: &str) -> usize {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.unwrap().path().join("cmdline")).ok());
    let has = |line: &Vec<u8>| line.split(|byte| *byte == 0).any(|it| it == word.as_bytes());
    lines.filter(has).count()
}

pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    let mode = if content.starts_with("#!") { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn edited(objects: &Objects, base: ObjectId, edits: Edits<'_>) -> ObjectId {
    let edit = |(path, content): &(&str, Option<&str>)| {
        let entry = content.map(|content| Entry {
            mode: if content.starts_with("#!") { MODE_EXECUTABLE } else { MODE_FILE },
            id: objects.write_blob(content.as_bytes()).unwrap(),
        });
        (path.as_bytes().to_vec(), entry)
    };
    objects.edit(base, &edits.iter().map(edit).collect::<Vec<_>>()).unwrap()
}

fn config(backend: Backend) -> Value {
    let agent = json!({ "type": "exec", "cmd": ["/bin/true"] });
    json!({
        "agents": { "plan": agent, "do": agent, "check": agent, "act": agent },
        "budgets": { "max_iterations": 1 },
        "sandbox": { "backend": backend },
    })
}

fn helper() -> PathBuf {
    env!("CARGO_BIN_EXE_acceptance").into()
}

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(SetUp { program: helper(), args: vec!["__sandbox".into()] })
}
