//! A server whose process appends facts to the log of a run when it is told to, as the workers of a run would, and says
//! when each was acknowledged.

use crate::log::open_run;
use crate::{Result, print};
use contract::{Fact, Role, SessionEvent, StepRef};
use runner::git::{Repository, UserEnvironment};
use runner::process::Supervisor;
use runner::{Context, Hosted, Hosting, Sender, Trust};
use serde_json::json;
use server::{Options, Server};
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Layout;

/// The first word that makes this program such a server.
pub(crate) const SERVE: &str = "serve-appending";

/// Between two facts, so that each finds the server at rest.
const PAUSE: Duration = Duration::from_millis(2);

fn step() -> StepRef {
    StepRef { index: 1, role: Role::Plan, iteration: 1, attempt: 1, item: None, node: None }
}

/// A fact as there are most of them: an agent that says something.
pub(super) fn fact(number: usize) -> Fact {
    let text = format!("This is what an agent says while it works, for the {number}th time, in a sentence of its own.");
    Fact::AgentEvent { step: step(), event: Box::new(SessionEvent::Message { text }) }
}

/// Nanoseconds of the clock that all processes share.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Serves until nobody says what to append any more.
pub(crate) fn serve(dir: &Path, norma: &Path, home: &Path) -> Result<()> {
    let user = Repository::discover(dir, UserEnvironment::default())?;
    let layout = Layout::new(&user.root, None);
    let trust = Trust::new(&home.join("data/norma"), &layout.state);
    let token_file = trust.server_token()?;
    let context = Arc::new(Context {
        trust,
        user,
        agent_env: Default::default(),
        user_env: Default::default(),
        templates: Default::default(),
        supervisor: Supervisor { program: norma.to_owned(), args: vec!["__supervise".into()] },
        sandbox: Arc::new(crate::confine::sandbox(norma)),
        told: Arc::new(|_| ()),
        command: "bench".into(),
        own_config: Default::default(),
        policies: None,
        layout,
    });
    let Hosted::Ours(hosting) = Hosting::take(&context)? else { return Err("somebody else is at work here".into()) };
    let hosting = Arc::new(*hosting);
    let store = &hosting.state().store;
    let mut log = open_run(store, 0)?;
    store.append(&mut log, vec![Fact::StepStarted { step: step(), base: None, taken: None }], Vec::new())?;
    let options = Options {
        port: 0,
        listen: None,
        user_file: None,
        token_file,
        person: "bench".to_owned(),
        sender: Sender::default(),
        connections: 64,
        drain: Duration::ZERO,
    };
    let server = Server::bind(hosting.clone(), options)?;
    let stop = server.stopper();
    print(&json!({"url": server.url(), "run": log.name.run.to_string(), "seq": log.seq}).to_string());
    let serving = std::thread::spawn(move || server.run().map_err(|error| error.to_string()));
    for line in std::io::stdin().lock().lines() {
        let count: usize = line?.trim().parse()?;
        let (mut took, mut committed, before) = (Vec::new(), Vec::new(), processor_us());
        for number in 0..count {
            std::thread::sleep(PAUSE);
            let begun = Instant::now();
            store.append(&mut log, vec![fact(number)], Vec::new())?;
            took.push(begun.elapsed().as_nanos() as u64);
            committed.push(now_ns());
        }
        // What is under way is charged, too.
        std::thread::sleep(Duration::from_millis(50));
        let cpu_us = processor_us() - before;
        print(&json!({"took": took, "committed": committed, "cpu_us": cpu_us, "seq": log.seq}).to_string());
    }
    stop();
    serving.join().map_err(|_| "the server panicked")??;
    Ok(())
}

/// Processor time of this process so far.
fn processor_us() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000 + used.tv_nsec as u64 / 1000
}
