//! Batches: contracts of a few items that need each other, or the same files, and workers that leave what workers leave.

use crate::dice::Dice;
use crate::ground::{FILES, Ground, LINES, with_line};
use crate::world::Outside;
use contract::work::{TestCommand, TestsPolicy};
use contract::{Item, ProcessEnd, RepoPath, Scope};
use run::gate::acceptance::TestStatus;
use run::gate::{Finding, Rule};
use runner::git::id;
use runner::git::{MODE_FILE, MODE_SYMLINK, ObjectId};
use runner::workspace::Captured;
use runner::{Acceptance, CommandOutcome, Control, LogFile, Side, Stop, TurnOrder};

/// The name that items know their agent by.
pub(crate) const WORKER: &str = "worker";

const ITEMS_MAX: u64 = 6;

/// What items may declare to write; all of the tree where it is nothing.
const SCOPES: [&[&str]; 6] = [&[], &["a.txt"], &["b.txt"], &["lib"], &["a.txt", "new"], &["b.txt", "lib/c.txt"]];

/// A file that no contract of this world names, and that needs one that does.
const PROTECTED: &str = ".github/workflows/ci.yml";

/// What an agent of an item left, as the world knows it.
pub(crate) struct Worked {
    pub(crate) process: ProcessEnd,
    pub(crate) stdout: &'static str,
    pub(crate) captured: Option<Captured>,
    /// Whether it answered and broke none of its terms.
    pub(crate) acceptable: bool,
}

/// The items of a contract.
pub(crate) fn items(dice: &mut Dice) -> Vec<Item> {
    let count = 1 + dice.below(ITEMS_MAX);
    (1..=count).map(|number| item(dice, number)).collect()
}

fn item(dice: &mut Dice, number: u64) -> Item {
    let name = format!("item-{number}");
    let path = |text: &str| RepoPath::parse(text).unwrap();
    let needs = (1..number).filter(|_| dice.percent(20)).map(|other| format!("item-{other}")).collect();
    let allowed_paths = dice.pick(&SCOPES).iter().map(|text| path(text)).collect();
    let test = TestCommand { name: "unit".into(), argv: vec!["make".into()], must_pass: true, of_whole: false };
    Item {
        agent_id: if dice.percent(8) { "agent-0".to_owned() } else { format!("agent-{number}") },
        role: "BACKEND".into(),
        worker: WORKER.into(),
        goal: format!("do {name}"),
        needs,
        scope: Scope { allowed_paths, ..Scope::default() },
        read_only: dice.percent(8),
        rights: Default::default(),
        input_files: dice.percent(4).then(|| path("nothing.txt")).into_iter().collect(),
        output_files: dice.percent(6).then(|| path("new/out.txt")).into_iter().collect(),
        artifacts: Vec::new(),
        tests: dice.percent(35).then_some(test).into_iter().collect(),
        tests_policy: TestsPolicy::default(),
        constraints: Default::default(),
        timeout_ms: 1000,
        retries: dice.below(3) as u32,
        retry_backoff_ms: 0,
        output_schema: None,
        forbidden_actions: Vec::new(),
        audit_only: false,
        sandbox_backend: None,
        review: None,
        thread: None,
        submitted: contract::hash::sha256(name.as_bytes()),
        id: name,
    }
}

/// Has a worker take its turn.
pub(crate) fn work(outside: &mut Outside<'_>, order: &TurnOrder<'_>, control: &Control) -> Worked {
    let Outside { dice, ground, .. } = outside;
    let item = order.spec.item.as_deref().expect("a worker has an item");
    let ok = r#"{"version":1,"status":"ok","summary":"done"}"#;
    let (process, stdout) = match dice.below(100) {
        0..=3 => (ProcessEnd::Exited(1), ok),
        4..=6 => (ProcessEnd::WallDeadline, ""),
        7..=9 => (ProcessEnd::Exited(0), "{\"version\":1,"),
        10..=12 => (ProcessEnd::Exited(0), r#"{"version":1,"status":"fail","summary":"cannot"}"#),
        13 | 14 => {
            control.request(if dice.percent(20) { Stop::Cancel } else { Stop::Interrupt });
            (ProcessEnd::Canceled, "")
        }
        _ => (ProcessEnd::Exited(0), ok),
    };
    let base = id(order.spec.tree);
    let tree = edited(dice, ground, base, item);
    let changes = ground.objects.diff(base, tree).unwrap();
    let is_fine = |path: &RepoPath| {
        let allowed = &item.scope.allowed_paths;
        let declared = allowed.is_empty() || allowed.iter().any(|within| path.is_within(within));
        declared && path.as_str() != PROTECTED && !item.read_only
    };
    let plain = |mode: u32| mode == MODE_FILE;
    let within = changes.iter().all(|change| {
        let path = RepoPath::parse_bytes(&change.path);
        path.is_ok_and(|path| is_fine(&path)) && change.new.is_none_or(|entry| plain(entry.mode))
    });
    let complete = item.output_files.iter().all(|path| ground.text(tree, path.as_str()).is_some());
    let acceptable = process == ProcessEnd::Exited(0) && stdout == ok && within && complete;
    let captured = Captured { changes, ..Captured::nothing(tree) };
    Worked { process, stdout, captured: Some(captured), acceptable }
}

/// What an agent makes of a tree.
fn edited(dice: &mut Dice, ground: &Ground, tree: ObjectId, item: &Item) -> ObjectId {
    let line = format!("{} says {}", item.id, dice.below(1000));
    let own = |file: &&str| {
        let (path, allowed) = (RepoPath::parse(file).unwrap(), &item.scope.allowed_paths);
        allowed.is_empty() || allowed.iter().any(|within| path.is_within(within))
    };
    let files: Vec<&str> = FILES.iter().copied().filter(own).collect();
    let file = *dice.pick(&files);
    let with_line_of = |tree, file: &str, number| {
        let text = ground.text(tree, file).unwrap_or_default();
        ground.with_file(tree, file, MODE_FILE, &with_line(&text, number, &line))
    };
    let add = |path: &str| ground.with_file(tree, path, MODE_FILE, &format!("{line}\n"));
    match dice.below(20) {
        0 | 1 => tree,
        2 => add("elsewhere.txt"),
        3 => add(PROTECTED),
        4 => ground.with_file(tree, "new/link", MODE_SYMLINK, "a.txt"),
        // Where everybody writes.
        5..=7 => with_line_of(tree, file, 1),
        8 | 9 => add("new/out.txt"),
        10 => with_line_of(with_line_of(tree, file, 1 + dice.below(LINES)), files[0], LINES),
        _ => with_line_of(tree, file, 1 + dice.below(LINES)),
    }
}

/// What the tests of an item come to.
pub(crate) fn tested(item: &Item, passed: bool) -> Acceptance {
    let text = b"ran\n".to_vec();
    let log = |name: &str| LogFile {
        path: format!("tests/1/{name}"),
        sha256: contract::hash::sha256(&text),
        size: text.len() as u64,
    };
    let (stdout, stderr) = (log("stdout.log"), log("stderr.log"));
    let why = (!passed).then(|| "exit code 1".to_owned());
    let finding = |why: &String| Finding::whole(Rule::TestsFailed, format!("unit: {why}"));
    let status = if passed { TestStatus::Pass } else { TestStatus::Fail };
    Acceptance {
        status,
        counts: None,
        findings: why.iter().map(finding).collect(),
        needs_approval: Vec::new(),
        tests_changed: Vec::new(),
        files: ["command.txt", "stdout.log", "stderr.log"].map(|name| (log(name).path, text.clone())).into(),
        commands: vec![CommandOutcome {
            name: item.tests[0].name.clone(),
            argv: item.tests[0].argv.clone(),
            tests: Side::Candidate,
            of_whole: false,
            program: None,
            program_sha256: None,
            must_pass: true,
            status,
            exit_code: Some(i32::from(!passed)),
            timeout: false,
            timeout_ms: item.timeout_ms,
            duration_ms: 1,
            counts: None,
            why,
            stdout: Some(stdout),
            stderr: Some(stderr),
            redacted: Default::default(),
        }],
    }
}
