//! One PDCA step with an agent that answers at once, in repositories of three sizes. The real runner is driven in
//! this process, with the real norma as the agents' supervisor; every wait for the disk and every process is part
//! of the time. The runs of the three sizes take turns, one iteration each, and before each `plan` step the floor
//! is measured once, so that all of them see the same machine.

use crate::barriers;
use crate::floor::StepFloor;
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};
use contract::{Config, Event, Fact, Policies, Role};
use run::Run;
use runner::process::Supervisor;
use runner::{Alone, Context, Control, Machine, Order, Owner, Progress, Settings, Starting, Taken, Trust};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::Layout;

/// What the cheapest agent says.
pub(crate) const RESPONSE: &str =
    r#"{"version":1,"status":"ok","summary":"x","files":[],"next_actions":[],"errors":[]}"#;

/// A check that finds the work wanting, so that the loop continues.
const CHECK: &str = r#"printf '{"version":1,"verdict":"FAIL","criteria":[]}' > "$NORMA_STEP_DIR/verdict.json"
echo no > "$NORMA_STEP_DIR/scorecard.md"
echo '"#;

/// Iterations whose samples are dropped: the first makes the checkout.
const WARM_UP: usize = 2;

/// The mirror of the log is synced after the fact; what it still does would be charged to the floor.
const QUIET: Duration = Duration::from_millis(5);

const TARGET_FLOOR: f64 = 2.0;
const TARGET_SIZE: f64 = 1.5;

pub(crate) fn run(world: &World) -> Result<Section> {
    let sizes: &[u32] = if world.quick { &[100, 10_000] } else { &[100, 10_000, 100_000] };
    let iterations = world.count(60, 12);
    let mut benches = Vec::new();
    for size in sizes {
        tell(&format!("bench: step, making a repository of {size} files"));
        benches.push((*size, world.repository(&format!("step-{size}"), *size)?));
    }
    let baton = Baton::new(benches.len());
    let measured: Vec<Result<Measured>> = std::thread::scope(|scope| {
        let baton = &baton;
        let start = |(number, (size, dir)): (usize, &(u32, PathBuf))| {
            let (size, dir) = (*size, dir.clone());
            scope.spawn(move || drive(world, size, &dir, iterations, Turn { baton, number }))
        };
        let threads: Vec<_> = benches.iter().enumerate().map(start).collect();
        threads.into_iter().map(|it| it.join().unwrap_or_else(|_| Err("a benchmark panicked".into()))).collect()
    });
    let measured = measured.into_iter().collect::<Result<Vec<_>>>()?;
    let barriers = barriers::run(world)?;
    let about = format!(
        "Agents are `/bin/echo` of a fixed answer (`check` is a shell script that writes a FAIL), {iterations} \
         iterations of four steps for each repository; set-up is not counted. A `plan` step is everything between \
         the record of the step before and its own record: two commits, supervisor, agent, evidence. Floor: start \
         that same `/bin/echo` without norma and read its answer, then 4 × append 361 bytes and fsync."
    );
    Ok(Section {
        title: "One PDCA step",
        about,
        tables: vec![steps(&measured), sizes_table(&measured), roles(&measured), barriers],
    })
}

fn steps(measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        "files",
        "floor: spawn ms",
        "4 fsyncs ms",
        "sum ms",
        "plan step ms",
        "p90 ms",
        "× floor",
        "target",
        "",
    ]);
    for one in measured {
        let (floor, plan) = (one.floor.after(WARM_UP), one.role(Role::Plan));
        let ratio = plan.median() / floor.median();
        table.row(vec![
            one.files.to_string(),
            ms(one.spawn.after(WARM_UP).median()),
            ms(one.barriers.after(WARM_UP).median()),
            ms(floor.median()),
            ms(plan.median()),
            ms(plan.quantile(0.9)),
            format!("{ratio:.2}"),
            format!("≤ {TARGET_FLOOR} ×"),
            at_most(ratio, TARGET_FLOOR),
        ]);
    }
    table
}

fn sizes_table(measured: &[Measured]) -> Table {
    let mut table = Table::new(&["plan step", "ms", "ratio", "target", ""]);
    if let [small, .., large] = measured {
        let (few, many) = (small.role(Role::Plan).median(), large.role(Role::Plan).median());
        let ratio = many / few;
        table.row(vec![
            format!("{} files : {} files", large.files, small.files),
            format!("{} : {}", ms(many), ms(few)),
            format!("{ratio:.2}"),
            format!("≤ {TARGET_SIZE} ×"),
            at_most(ratio, TARGET_SIZE),
        ]);
    }
    table
}

/// No targets: where the time of a whole round goes, and whether late steps are dearer than early ones.
fn roles(measured: &[Measured]) -> Table {
    let mut table = Table::new(&["files", "plan ms", "do ms", "check ms", "act ms", "last : first quarter of the run"]);
    for one in measured {
        let (first, last) = one.role(Role::Plan).quarters();
        let [plan, act_on, check, act] =
            [Role::Plan, Role::Do, Role::Check, Role::Act].map(|role| ms(one.role(role).median()));
        let growth = format!("{:.2}", last.median() / first.median());
        table.row(vec![one.files.to_string(), plan, act_on, check, act, growth]);
    }
    table
}

fn ms(value: f64) -> String {
    format!("{value:.2}")
}

/// The configuration: every role is cheap, and no round is the last.
pub(crate) fn config(iterations: u32) -> Result<Config> {
    let echo = serde_json::json!({"type": "exec", "cmd": ["/bin/echo", RESPONSE]});
    let check = serde_json::json!({"type": "exec", "cmd": ["/bin/sh", "-c", format!("{CHECK}{RESPONSE}'")]});
    let value = serde_json::json!({
        "agents": {"plan": echo, "do": echo, "check": check, "act": echo},
        "budgets": {"max_iterations": iterations},
        // The floor is a process without a sandbox; what a sandbox costs is a figure of its own.
        "sandbox": {"backend": "none"},
    });
    Ok(serde_json::from_value(value)?)
}

/// What one repository came to, in milliseconds.
struct Measured {
    files: u32,
    floor: Samples,
    spawn: Samples,
    barriers: Samples,
    roles: BTreeMap<Role, Samples>,
}

impl Measured {
    fn role(&self, role: Role) -> Samples {
        self.roles.get(&role).map(|samples| samples.after(WARM_UP)).unwrap_or_default()
    }
}

fn drive(world: &World, files: u32, dir: &Path, iterations: u32, turn: Turn<'_>) -> Result<Measured> {
    turn.wait();
    let user = world.discover(dir)?;
    let layout = Layout::new(&user.root, None);
    let context = Arc::new(Context {
        trust: Trust::new(&world.dir.join("home/data"), &layout.state),
        user,
        agent_env: world.agent_env(),
        user_env: Default::default(),
        templates: Default::default(),
        supervisor: Supervisor { program: world.norma.clone(), args: vec!["__supervise".into()] },
        sandbox: Arc::new(crate::confine::sandbox(&world.norma)),
        told: Arc::new(|_| ()),
        command: "bench".into(),
        own_config: Default::default(),
        policies: None,
        layout,
    });
    let Taken::Ours(owner) = Owner::take(&context)? else { return Err("somebody else is at work here".into()) };
    let settings = Settings::new(config(iterations)?, &[], &context.layout.config(), Policies::built_in());
    let order =
        Order { goal: "be quick".into(), criteria: Vec::new(), task: None, parent: None, budgets: None, agent: None };
    let (run, log) = Starting {
        store: owner.store(),
        user: &context.user,
        objects: owner.objects(),
        trust: &context.trust,
        settings: &settings,
        path_var: world.path(),
        user_env: &context.user_env,
        attended: false,
        shows_dependencies: false,
    }
    .start(order)?;
    let control = Control::new()?;
    let mut machine = Machine::new(context.clone(), owner.state(), control.cancel.clone());
    let agent = ["/bin/echo".to_owned(), RESPONSE.to_owned()];
    let mut watch = Watch::new(files, StepFloor::new(&context.layout.state, &agent)?, &turn);
    let (store, objects, policies) = (owner.store(), owner.objects(), &settings.policies);
    let progress = Box::new(&mut watch);
    Alone { store, objects, world: &mut machine, progress, control, policies }.drive(run, log)?;
    if let Some(error) = watch.failure {
        return Err(error);
    }
    Ok(watch.measured)
}

/// Told of every record as it is made; takes the times.
struct Watch<'a> {
    measured: Measured,
    floor: StepFloor,
    turn: &'a Turn<'a>,
    last: Instant,
    failure: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl<'a> Watch<'a> {
    fn new(files: u32, floor: StepFloor, turn: &'a Turn<'a>) -> Watch<'a> {
        let measured = Measured {
            files,
            floor: Samples::default(),
            spawn: Samples::default(),
            barriers: Samples::default(),
            roles: BTreeMap::new(),
        };
        Watch { measured, floor, turn, last: Instant::now(), failure: None }
    }

    fn measure_floor(&mut self) -> Result<()> {
        let sample = self.floor.measure()?;
        self.measured.spawn.push_ms(sample.spawn);
        self.measured.barriers.push_ms(sample.barriers);
        self.measured.floor.push_ms(sample.spawn + sample.barriers);
        Ok(())
    }
}

impl Progress for Watch<'_> {
    fn recorded(&mut self, _: &Arc<Run>, events: &Arc<[Event]>) {
        let committed = events.iter().find_map(|event| match &event.fact {
            Fact::StepCommitted(done) => Some(done.step),
            _ => None,
        });
        let Some(step) = committed else { return };
        self.measured.roles.entry(step.role).or_default().push_ms(self.last.elapsed());
        if step.role == Role::Act {
            if step.iteration == 1 {
                // The checkout has just been written; its way to the disk is set-up too.
                rustix::fs::sync();
            }
            self.turn.pass();
            self.turn.wait();
            std::thread::sleep(QUIET);
            if let Err(error) = self.measure_floor() {
                self.failure = Some(error);
            }
        }
        self.last = Instant::now();
    }
}

/// Whose iteration it is.
struct Baton {
    state: Mutex<(usize, Vec<bool>)>,
    changed: Condvar,
}

impl Baton {
    fn new(count: usize) -> Baton {
        Baton { state: Mutex::new((0, vec![true; count])), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, (usize, Vec<bool>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's hold on it; gives it up for good when dropped.
struct Turn<'a> {
    baton: &'a Baton,
    number: usize,
}

impl Turn<'_> {
    fn wait(&self) {
        let waiting = self.baton.changed.wait_while(self.baton.state(), |(turn, _)| *turn != self.number);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }

    fn pass(&self) {
        let mut state = self.baton.state();
        let count = state.1.len();
        let next = (1..=count).map(|ahead| (self.number + ahead) % count).find(|number| state.1[*number]);
        state.0 = next.unwrap_or(self.number);
        drop(state);
        self.baton.changed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.baton.state().1[self.number] = false;
        self.pass();
    }
}
