//! Named points at which a test kills the process, to prove that nothing is lost there. The list is the
//! contract: a test walks it and fails if a point was never reached. In release builds the points are empty.

use std::cell::Cell;
use std::sync::OnceLock;

/// Every point, in the order in which a run meets them.
pub const POINTS: &[&str] = &[
    "run.before_start",
    "run.after_start",
    "step.after_intent",
    "step.after_agent",
    "step.before_rename",
    "step.after_rename",
    "step.after_submit",
    "mirror.before_append",
    "mirror.after_append",
    "change.after_intent",
    "change.before_rename",
    "change.after_rename",
    "change.after_submit",
    "land.after_intent",
    "land.exported",
    "land.ref_moved",
    "land.index_locked",
    "land.files_moved",
    "land.checked_out",
    "land.after_commit",
    "end.after_commit",
    "seal.after_sync",
    "seal.after_commit",
];

thread_local! {
    /// The same for a simulation, which leaves its thread's work instead of the process.
    static SIMULATED: Cell<Option<(&'static str, u32)>> = const { Cell::new(None) };
}

/// What a simulated crash unwinds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crashed(pub &'static str);

/// Has this thread unwind at a visit of a point (from 1) that is still to come; `None`: not any more.
pub fn simulate(at: Option<(&'static str, u32)>) {
    SIMULATED.set(at);
}

/// What happens at which visit of which point.
struct Armed {
    name: String,
    nth: u32,
    /// Whether only the thread goes wrong that comes there, not the process.
    panics: bool,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Arms one point for this process; only in builds with debug assertions. `NAME` or `NAME:N`: die at the N-th visit (from
/// 1); `panic:NAME` or `panic:NAME:N`: panic there.
pub fn arm(spec: &str) {
    let (panics, spec) = spec.strip_prefix("panic:").map_or((false, spec), |spec| (true, spec));
    let (name, nth) = match spec.split_once(':') {
        Some((name, nth)) => (name, nth.parse().unwrap_or(1)),
        None => (spec, 1),
    };
    assert!(POINTS.contains(&name), "BUG: there is no crash point {name}");
    let _ = ARMED.set(Armed { name: name.to_owned(), nth, panics });
}

/// Dies here, if this is the armed point.
pub fn point(name: &'static str) {
    if !cfg!(debug_assertions) {
        return;
    }
    debug_assert!(POINTS.contains(&name), "BUG: {name} is not in the list");
    if let Some((simulated, left)) = SIMULATED.get().filter(|(simulated, _)| *simulated == name) {
        SIMULATED.set((left > 1).then_some((simulated, left - 1)));
        if left <= 1 {
            std::panic::resume_unwind(Box::new(Crashed(name)));
        }
    }
    let Some(armed) = ARMED.get() else { return };
    if armed.name == name && visits() == armed.nth {
        assert!(!armed.panics, "a test has norma go wrong at {name}");
        let me = rustix::process::getpid();
        let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
        // SIGKILL is on its way; nothing more may happen on this thread.
        loop {
            std::thread::park();
        }
    }
}

fn visits() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static VISITS: AtomicU32 = AtomicU32::new(0);
    VISITS.fetch_add(1, Ordering::Relaxed) + 1
}
