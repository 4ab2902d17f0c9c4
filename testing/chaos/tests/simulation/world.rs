//! The simulated world: agents that answer as they please, one branch that its user moves when nobody expects it, and
//! crashes before and after everything. What is in commits is real ([`crate::ground`]). It outlives every simulated
//! process and remembers what it was asked, what it answered and what was told, all of it outside the log.

use crate::batch;
use crate::dice::Dice;
use crate::ground::{FILES, Ground, LINES, with_line};
use crate::patches;
use contract::{CommitId, Digest, Event, Item, Landing, ProcessEnd, Role, Slug, StepRef, TreeId};
use run::{Run, TurnSpec};
use runner::git::{MODE_FILE, ObjectId, id, recorded};
use runner::{
    Acceptance, Control, Execution, Keys, LandResult, Place, Progress, Result, Stop, Trust, TurnOrder, World,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use store::crash::Crashed;

/// More than the store keeps in a commit.
const LARGE_BYTES: usize = 70_000;

/// What an error of this world says was tried; no error of norma's own does.
pub(crate) const SIMULATED: &str = "simulate";

/// What is kept outside of every state directory; the same key signs on all days.
pub(crate) static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    Trust::new(&dir.join("simulated-home"), dir)
});

pub(crate) static KEYS: LazyLock<Keys> = LazyLock::new(|| TRUST.keys().expect("a key can be made"));

/// One turn that an agent took, as the world knows it.
pub(crate) struct Turn {
    pub(crate) run: Slug,
    pub(crate) step: StepRef,
    /// The tree it was taken on.
    pub(crate) tree: TreeId,
    /// Whether it was a check whose PASS must count, or a worker that did as its contract says.
    pub(crate) passes: bool,
}

/// One time that the tests of an item were run.
pub(crate) struct Test {
    pub(crate) run: Slug,
    pub(crate) item: String,
    pub(crate) tree: ObjectId,
    pub(crate) passed: bool,
    /// Whether the item had ended already, and what was tested is a result that is about to land.
    pub(crate) to_land: bool,
}

/// One move of the branch by norma.
pub(crate) struct Move {
    pub(crate) run: Slug,
    pub(crate) commit: CommitId,
    /// How often the user had moved it before.
    pub(crate) user_moves: u64,
}

/// See the module.
pub(crate) struct Outside<'g> {
    pub(crate) ground: &'g Ground,
    pub(crate) dice: Dice,
    /// How many of a hundred calls crash.
    pub(crate) crashes: u64,
    /// Where the user's branch is.
    pub(crate) branch: CommitId,
    pub(crate) user_moves: u64,
    pub(crate) own_branches: BTreeMap<String, CommitId>,
    pub(crate) moves: Vec<Move>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) tests: Vec<Test>,
    /// Runs in the order in which somebody wanted to start them.
    pub(crate) started: Vec<String>,
    pub(crate) told: Vec<(Slug, Event)>,
    /// Runs whose evidence was spoilt beyond repair while they were under way.
    pub(crate) spoilt: Vec<String>,
}

impl Outside<'_> {
    pub(crate) fn new(ground: &Ground, seed: u64) -> Outside<'_> {
        let mut dice = Dice::new(seed);
        let crashes = dice.below(12);
        Outside {
            ground,
            branch: recorded(ground.first),
            dice,
            crashes,
            user_moves: 0,
            own_branches: BTreeMap::new(),
            moves: Vec::new(),
            turns: Vec::new(),
            tests: Vec::new(),
            started: Vec::new(),
            told: Vec::new(),
            spoilt: Vec::new(),
        }
    }

    /// The user does as users do; then, perhaps, everything ends here.
    fn meanwhile(&mut self) {
        if self.dice.percent(2) {
            self.move_branch();
        }
        self.maybe_crash();
    }

    /// The user commits something: a file of their own, or a line of one that others change as well.
    fn move_branch(&mut self) {
        let Outside { ground, dice, .. } = self;
        let tree = ground.tree_of(self.branch);
        let path = *dice.pick(&["mine.txt", FILES[0], FILES[1], FILES[2]]);
        let line = format!("mine {}", self.user_moves);
        let text = match ground.text(tree, path) {
            Some(text) => with_line(&text, 1 + dice.below(LINES), &line),
            None => format!("{line}\n"),
        };
        let tree = ground.with_file(tree, path, MODE_FILE, &text);
        self.branch = recorded(ground.commit(tree, &[id(self.branch)]));
        self.user_moves += 1;
    }

    fn maybe_crash(&mut self) {
        let chance = self.crashes;
        if self.dice.percent(chance) {
            std::panic::resume_unwind(Box::new(Crashed("world")));
        }
    }

    /// An error of the machine, which ends the process as a crash does, but through every `?` on the way.
    fn maybe_fail(&mut self) -> Result<()> {
        let chance = self.crashes / 4;
        if self.dice.percent(chance) {
            let source = std::io::Error::other("simulated");
            return Err(runner::Error::Io { action: SIMULATED, path: PathBuf::from("the world"), source });
        }
        Ok(())
    }
}

/// The world as one simulated process sees it.
pub(crate) struct Simulated<'a, 'g> {
    pub(crate) outside: &'a Mutex<Outside<'g>>,
    pub(crate) control: Control,
}

/// Is told what is on record.
pub(crate) struct Teller<'a, 'g>(pub(crate) &'a Mutex<Outside<'g>>);

impl Progress for Teller<'_, '_> {
    fn recorded(&mut self, run: &Arc<Run>, events: &Arc<[Event]>) {
        let slug = run.id.slug();
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .told
            .extend(events.iter().map(|event| (slug, event.clone())));
    }
}

impl World for Simulated<'_, '_> {
    fn workspace(&mut self, _: &Run, _: &TurnSpec) -> Result<Place> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.meanwhile();
        outside.maybe_fail()?;
        Ok(Place { repo_root: PathBuf::from("/nowhere"), final_names: false })
    }

    fn execute(&mut self, order: &TurnOrder<'_>) -> Result<Execution> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.meanwhile();
        let (execution, passes) = take_turn(&mut outside, order, &self.control);
        let (run, tree) = (order.run.id.slug(), order.run.tree());
        outside.turns.push(Turn { run, step: order.spec.step, tree, passes });
        outside.maybe_crash();
        outside.maybe_fail()?;
        Ok(execution)
    }

    fn accept(&mut self, run: &Run, item: &Item, candidate: ObjectId, _: ObjectId) -> Result<Acceptance> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.meanwhile();
        outside.maybe_fail()?;
        let (passed, interrupted) = (outside.dice.percent(75), outside.dice.percent(2));
        if interrupted {
            self.control.request(Stop::Interrupt);
        }
        let to_land = run.items().iter().all(|state| state.ended().is_some());
        let (run, name) = (run.id.slug(), item.id.clone());
        outside.tests.push(Test { run, item: name, tree: candidate, passed, to_land });
        outside.maybe_crash();
        outside.maybe_fail()?;
        Ok(batch::tested(item, passed))
    }

    fn state_hash(&mut self, tree: ObjectId) -> Result<Digest> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.meanwhile();
        outside.maybe_fail()?;
        outside.ground.state_hash(tree)
    }

    fn moved_to(&mut self, landing: &Landing) -> Result<Option<ObjectId>> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.meanwhile();
        outside.maybe_fail()?;
        let is_known = !landing.checkout || Some(outside.branch) == landing.from;
        let moved = !is_known && outside.branch != landing.commit;
        Ok(moved.then(|| id(outside.branch)))
    }

    fn land(&mut self, run: &Run, landing: &Landing) -> Result<LandResult> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.meanwhile();
        outside.maybe_fail()?;
        let result = if landing.checkout {
            land_on_main(&mut outside, run, landing)
        } else {
            let at = outside.own_branches.entry(landing.target.clone()).or_insert(landing.commit);
            if *at == landing.commit { LandResult::Done } else { LandResult::Declined("it exists".into()) }
        };
        outside.maybe_crash();
        outside.maybe_fail()?;
        Ok(result)
    }

    fn keys(&self) -> &Keys {
        &KEYS
    }

    fn release(&mut self, _: &Run) -> Result<()> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.meanwhile();
        outside.maybe_fail()
    }
}

fn land_on_main(outside: &mut Outside<'_>, run: &Run, landing: &Landing) -> LandResult {
    if outside.branch == landing.commit {
        return LandResult::Done;
    }
    if Some(outside.branch) != landing.from {
        return LandResult::Declined("main has moved meanwhile".into());
    }
    if outside.dice.percent(5) {
        return LandResult::Declined("your uncommitted changes are in the way".into());
    }
    outside.branch = landing.commit;
    let user_moves = outside.user_moves;
    outside.moves.push(Move { run: run.id.slug(), commit: landing.commit, user_moves });
    LandResult::Done
}

/// How an agent fares, and whether it was a check whose PASS must count, or a worker that did as its contract says.
fn take_turn(outside: &mut Outside<'_>, order: &TurnOrder<'_>, control: &Control) -> (Execution, bool) {
    if order.spec.step.role == Role::Worker {
        let batch::Worked { process, stdout, captured, acceptable } = batch::work(outside, order, control);
        return (Execution { captured, ..execution(process, stdout) }, acceptable);
    }
    let dice = &mut outside.dice;
    let ok = r#"{"version":1,"status":"ok","summary":"done"}"#;
    let (process, stdout) = match dice.below(100) {
        0 => (ProcessEnd::Exited(1), ok),
        1 => (ProcessEnd::WallDeadline, ""),
        2 => (ProcessEnd::Signaled(11), ""),
        3..=7 => (ProcessEnd::Exited(0), "{\"version\":1,"),
        8 => (ProcessEnd::Exited(0), r#"{"version":1,"status":"fail","summary":"cannot"}"#),
        9 | 10 => {
            control.request(if dice.percent(20) { Stop::Cancel } else { Stop::Interrupt });
            (ProcessEnd::Canceled, "")
        }
        _ => (ProcessEnd::Exited(0), ok),
    };
    let answered = process == ProcessEnd::Exited(0) && stdout == ok;
    let good_files = leave_files(dice, outside.ground, order);
    let passes = answered && good_files && order.spec.step.role == Role::Check;
    let stderr_truncated = dice.percent(2);
    (Execution { stderr_truncated, ..execution(process, stdout) }, passes)
}

fn execution(process: ProcessEnd, stdout: &str) -> Execution {
    Execution {
        process,
        stdout: stdout.as_bytes().to_vec(),
        stdout_truncated: false,
        stderr: b"said\n".to_vec(),
        stderr_truncated: false,
        written: None,
        captured: None,
        spoken: None,
        sandbox: serde_json::json!({ "backend": "none" }),
        notes: Vec::new(),
    }
}

/// Fills the live directory. For a check: whether what it left is a PASS that must count.
fn leave_files(dice: &mut Dice, ground: &Ground, order: &TurnOrder<'_>) -> bool {
    if dice.percent(1) {
        std::fs::remove_dir_all(order.live_dir).unwrap();
        return false;
    }
    match order.spec.step.role {
        Role::Plan
        | Role::Worker
        | Role::Node
        | Role::Decide
        | Role::Execute
        | Role::Pm
        | Role::TechLead
        | Role::Reviewer => write(order.live_dir, "plan.md", b"plan\n"),
        Role::Do => {
            write(order.live_dir, "files/test.log", b"ran\n");
            if dice.percent(20) {
                write(order.live_dir, "files/large.log", &vec![b'x'; LARGE_BYTES]);
            }
        }
        Role::Check => return leave_verdict(dice, order.live_dir),
        Role::Act => {
            let patch = patches::propose(dice, ground, id(order.run.tree()));
            patch.into_iter().for_each(|patch| write(order.live_dir, "patch.diff", patch.as_bytes()));
        }
    }
    false
}

fn leave_verdict(dice: &mut Dice, dir: &Path) -> bool {
    let (verdict, pass) = if dice.percent(45) { ("PASS", true) } else { ("FAIL", false) };
    let covered = *dice.pick(&["AC1", "AC1", "AC1", "AC1", "AC1", "AC1", "AC9"]);
    let held = dice.percent(92);
    // The evidence is there if this iteration's do left it, which the contract of this world cannot know: a check
    // that names its own file is sure.
    let evidence = *dice.pick(&["scorecard.md", "scorecard.md", "scorecard.md", "scorecard.md", "nothing.log", ""]);
    let text = format!(
        r#"{{"version":1,"verdict":"{verdict}","criteria":[{{"id":"{covered}","pass":{held},"evidence":"{evidence}"}}]}}"#
    );
    let scorecard = dice.percent(96);
    if scorecard {
        write(dir, "scorecard.md", b"score\n");
    }
    let valid = dice.percent(96);
    write(dir, "verdict.json", if valid { text.as_bytes() } else { b"PASS" });
    pass && covered == "AC1" && held && evidence == "scorecard.md" && scorecard && valid
}

fn write(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}
