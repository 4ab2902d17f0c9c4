//! The owner of a state directory: it holds the lock, has recovered what was left, and takes requests from
//! other terminals over `norma.sock` while it works. Every verb that changes something goes through it.

use crate::drive::keep_diff;
use crate::drive::{Control, Driver, Progress, Stop};
use crate::git::{Objects, Repository};
use crate::machine::{MARKER, Machine, diff};
use crate::process::Supervisor;
use crate::start::take_up;
use crate::{Answer, Error, Keys, Request, Result, Trust, landing, workspace};
use contract::{ApprovalDecision, Policies, Status};
use rustix::net::sockopt::socket_peercred;
use sandbox::Sandbox;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use store::{Layout, OwnerLock, Reader, Recovery, Store};

/// A request is one line; nothing legitimate comes near this.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// How long a client may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How many layers of workspaces a clean-up leaves, besides those that these stand on: the next tree is made from one of
/// the trees used last.
const LAYERS_KEPT: usize = 4;

/// What a process knows of its surroundings; only the command line reads the environment.
pub struct Context {
    /// Where things are.
    pub layout: Layout,
    /// The user's repository.
    pub user: Repository,
    /// What is kept outside the repository.
    pub trust: Trust,
    /// The clean environment agents start from.
    pub agent_env: BTreeMap<OsString, OsString>,
    /// The user's own environment, from which keys of providers are taken, and nothing else.
    pub user_env: BTreeMap<OsString, OsString>,
    /// What models are told, as far as the user wrote it.
    pub templates: run::prompt::Templates,
    /// How norma becomes the supervisor of an agent.
    pub supervisor: Supervisor,
    /// What confines agents.
    pub sandbox: Sandbox,
    /// Is told what takes its time before an agent can start.
    pub told: Box<dyn Fn(News<'_>) + Send + Sync>,
    /// What was typed, for whoever waits.
    pub command: String,
}

/// What takes its time before an agent can start.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// The first workspace of a repository, which takes as long as the repository is large.
    Checkout(workspace::Progress),
    /// The configured setup, with its program and arguments.
    Setup(&'a [String]),
}

/// What came of asking for the lock.
pub enum Taken {
    /// It is ours.
    Ours(Box<Owner>),
    /// Somebody else has it.
    Theirs(Option<store::Owner>),
}

/// What the listener and the owner share.
struct Shared {
    store: Store,
    user: Repository,
    objects: Objects,
    keys: Keys,
    /// The run that is being driven, and how to stop it.
    current: Mutex<Option<(String, Control)>>,
}

/// See the module.
pub struct Owner {
    shared: Arc<Shared>,
    trust: Trust,
    /// What was found and done on taking the lock.
    pub recovery: Recovery,
    listener: Option<(UnixListener, JoinHandle<()>)>,
    // Dropped last: the lock is given back when everything else is closed.
    _lock: OwnerLock,
}

impl Owner {
    /// Takes the lock if it is free, recovers, and starts to listen.
    pub fn take(context: &Context) -> Result<Taken> {
        let layout = &context.layout;
        layout.create()?;
        let me = store::Owner { pid: std::process::id(), command: context.command.clone(), since: store::now() };
        let Some(lock) = OwnerLock::try_take(layout, &me)? else {
            return Ok(Taken::Theirs(store::owner_of(layout)));
        };
        let store = Store::open(layout)?;
        let objects = Objects::open_or_create(&layout.git(), &context.user)?;
        let killed = kill_leftovers(layout)?;
        let keys = context.trust.keys()?;
        let mut recovery = store::recover(&store, &|said| keys.sign(said))?;
        recovery.notes.extend(killed);
        if store.journal != store::JournalMode::Wal {
            let note = "the file system cannot do WAL; norma.db uses a rollback journal, which is slower";
            recovery.notes.push(note.into());
        }
        let (user, current) = (context.user.clone(), Mutex::new(None));
        let shared = Arc::new(Shared { store, user, objects, keys, current });
        recovery.notes.extend(finish_landings(&shared, context)?);
        clear_worktrees(&shared)?;
        workspace::clear_leftovers(&layout.cache());
        drop_bases(&shared, false)?;
        let listener = Some(listen(layout, &shared)?);
        let trust = context.trust.clone();
        Ok(Taken::Ours(Box::new(Owner { shared, trust, recovery, listener, _lock: lock })))
    }

    /// The record.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// norma's own objects.
    pub fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    /// The key that what is found here is signed with.
    pub fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// Makes a run the one that `cancel` can stop.
    pub fn set_current(&self, current: Option<(String, Control)>) {
        *self.shared.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// Carries out a request, as the listener would; what takes tests, only here: whoever listens must not be kept from
    /// listening.
    pub fn handle(&self, context: &Context, request: Request) -> Answer {
        match request {
            Request::Land { run } => land(&self.shared, Some(context), &run).unwrap_or_else(refused),
            request => handle(&self.shared, request),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some((listener, thread)) = self.listener.take() {
            let _ = std::fs::remove_file(self.shared.store.layout.socket());
            // Wakes the accepting thread with an error, which ends it.
            let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
            let _ = thread.join();
        }
        // Losing a checkpoint weakens a later `verify`; it must not fail what was done.
        if let Ok(head) = self.shared.store.audit_head() {
            let _ = self.trust.keep_checkpoint(head);
        }
    }
}

/// Before anything is read or removed, nobody writes there any more. A run that is still running on record is one
/// whose process died; the record changes only after this, so a crash in between has it done again.
fn kill_leftovers(layout: &Layout) -> Result<Vec<String>> {
    let reader = Reader::open(layout)?;
    let mut notes = Vec::new();
    for slug in reader.unsealed()? {
        if reader.run(&slug)?.is_some_and(|run| run.status == Status::Running) {
            let killed = crate::process::leftovers::kill(MARKER, &slug).unwrap_or(0);
            notes.extend((killed > 0).then(|| format!("{slug}: {killed} left-over process(es) were killed")));
        }
    }
    Ok(notes)
}

/// A landing whose ref had already moved when its process died is completed; no agent is asked for that. The
/// others wait for `resume`.
fn finish_landings(shared: &Shared, context: &Context) -> Result<Vec<String>> {
    let reader = Reader::open(&shared.store.layout)?;
    let mut notes = Vec::new();
    for slug in reader.unsealed()? {
        let (run, log) = reader.load(&slug)?;
        let run::Stage::LandingOpen(open) = run.stage.clone() else { continue };
        let moved = shared.user.read_ref(&open.target)?.map(|id| id.to_string()) == Some(open.commit);
        if !moved || run.status != Status::Paused || run.started.contract.unknown_rules().is_some() {
            continue;
        }
        let control = Control::new()?;
        let cancel = control.cancel.clone();
        let mut machine = Machine::new(context, &shared.objects, &shared.keys, cancel);
        let (run, log) = take_up(&shared.store, run, log)?;
        // Everything was judged before the landing began; no policy is asked any more.
        let policies = Policies::built_in();
        Driver::new(&shared.store, &shared.objects, run, log, &mut machine, &mut Untold, control, &policies)?
            .drive()?;
        notes.push(format!("{slug}: its landing on {} had moved the branch already and was completed", open.target));
    }
    Ok(notes)
}

/// Nobody watches.
struct Untold;

impl Progress for Untold {
    fn recorded(&mut self, _: &run::Run, _: &[contract::Event]) {}
}

/// Checkouts of runs that are not being driven by anybody: the lock is ours, so nobody works in them.
fn clear_worktrees(shared: &Shared) -> Result<()> {
    let dir = shared.store.layout.state.join("worktrees");
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        store::remove_tree(&entry.path())?;
    }
    Ok(())
}

fn listen(layout: &Layout, shared: &Arc<Shared>) -> Result<(UnixListener, JoinHandle<()>)> {
    let path = layout.socket();
    let failed = |source| Error::io("listen on", &path, source);
    let _ = std::fs::remove_file(&path);
    let listener = reachable(layout).and_then(|(path, _dir)| UnixListener::bind(path)).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let (accepting, shared) = (listener.try_clone().map_err(failed)?, shared.clone());
    let main = move || {
        while let Ok((stream, _)) = accepting.accept() {
            // One client that is slow or hostile must not keep the others waiting for ever.
            let _ = stream.set_read_timeout(Some(REQUEST_TIMEOUT));
            let _ = stream.set_write_timeout(Some(REQUEST_TIMEOUT));
            let _ = serve(&stream, &shared);
        }
    };
    let thread = std::thread::Builder::new().name("norma-socket".into()).spawn(main).map_err(failed)?;
    Ok((listener, thread))
}

/// A socket path may have 107 bytes and a state directory may be deeper than that: it is reached through the
/// descriptor of its directory, which must stay open meanwhile.
fn reachable(layout: &Layout) -> std::io::Result<(PathBuf, std::fs::File)> {
    let dir = std::fs::File::open(&layout.state)?;
    let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join("norma.sock");
    Ok((path, dir))
}

fn serve(stream: &UnixStream, shared: &Shared) -> std::io::Result<()> {
    if socket_peercred(stream)?.uid != rustix::process::geteuid() {
        return Ok(());
    }
    let mut line = String::new();
    BufReader::new(stream).take(REQUEST_BYTES_MAX).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Ok(request) => handle(shared, request),
        Err(why) => Answer::Refused { message: format!("not a request: {why}"), hint: None, code: 2 },
    };
    let mut text = serde_json::to_string(&answer).expect("BUG: an answer is plain data");
    text.push('\n');
    (&mut &*stream).write_all(text.as_bytes())
}

/// Whether a live process owns the state directory. Takes no lock.
pub fn is_owned(layout: &Layout) -> bool {
    reachable(layout).and_then(|(path, _dir)| UnixStream::connect(path)).is_ok()
}

/// Sends a request to the owner. `None`: there is none to be reached.
pub fn send(layout: &Layout, request: &Request) -> Result<Option<Answer>> {
    let Ok(mut stream) = reachable(layout).and_then(|(path, _dir)| UnixStream::connect(path)) else {
        return Ok(None);
    };
    let failed = |source| Error::io("speak to", &layout.socket(), source);
    let mut text = serde_json::to_string(request).expect("BUG: a request is plain data");
    text.push('\n');
    stream.write_all(text.as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(failed)?;
    serde_json::from_str(&line).map(Some).map_err(|e| failed(std::io::Error::other(e)))
}

fn handle(shared: &Shared, request: Request) -> Answer {
    carry_out(shared, request).unwrap_or_else(refused)
}

fn refused(error: Error) -> Answer {
    Answer::Refused {
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
        code: match error {
            Error::Usage { .. } | Error::Store(store::Error::Refused(_)) => 2,
            Error::Declined { .. } => 1,
            Error::Waiting { .. } => 3,
            _ => 4,
        },
    }
}

/// Lands a run on demand. Without a context there is nothing to run tests with.
fn land(shared: &Shared, context: Option<&Context>, run: &str) -> Result<Answer> {
    let control = Control::new()?;
    let mut machine =
        context.map(|context| Machine::new(context, &shared.objects, &shared.keys, control.cancel.clone()));
    let later = landing::Later { store: &shared.store, user: &shared.user, objects: &shared.objects };
    let landing = later.land(run, machine.as_mut())?;
    let message = format!("landed on {}; undo: norma undo {run}", landing::short_ref(&landing.target));
    Ok(Answer::Done { message, value: value(&landing) })
}

fn carry_out(shared: &Shared, request: Request) -> Result<Answer> {
    let done = |message: String, value: serde_json::Value| Ok(Answer::Done { message, value });
    match request {
        Request::TaskAdd { goal, criteria } => {
            let task = shared.store.add_task(goal, criteria).wait()?;
            done(format!("task {task} added"), task.into())
        }
        Request::TaskLink { task, depends_on } => {
            let shown: Vec<String> = depends_on.iter().map(ToString::to_string).collect();
            shared.store.link_task(task, depends_on).wait()?;
            done(format!("task {task} waits for {}", shown.join(", ")), task.into())
        }
        Request::TaskDone { task } => {
            shared.store.finish_task(task).wait()?;
            done(format!("task {task} is done"), task.into())
        }
        Request::Cancel { run } => cancel(shared, &run),
        Request::Land { run } => land(shared, None, &run),
        Request::Undo { run } => {
            let back = landing::undo(&shared.store, &shared.user, &shared.objects, &run)?;
            let branch = landing::short_ref(&back.target);
            let message = match back.commit.as_str() {
                "" => format!("{branch} is gone again"),
                commit => format!("{branch} is back at {commit}"),
            };
            done(message, value(&back))
        }
        Request::KeepReplay { run, mode, status, at, report } => {
            let mut bytes = serde_json::to_vec_pretty(&report).expect("BUG: a report is plain data");
            bytes.push(b'\n');
            let path = shared.store.keep_replay(&run, mode, status, at, &bytes)?;
            let shown = shared.store.layout.shown(&path);
            done(format!("the report is in {shown}"), shown.into())
        }
        Request::ContractRefused { sha256, kind, violations } => {
            shared.store.audit(contract::Audit::contract_refused(sha256, kind, violations)).wait()?;
            done("the refusal is on record".to_owned(), sha256.to_string().into())
        }
        Request::Answer { approval, decision, by, reason, terms } => {
            let answered = shared.store.answer_approval(approval, decision, by, reason, terms).wait()?;
            let next = match decision {
                // A turn that is open looks for its answer itself.
                ApprovalDecision::Granted if is_running(shared, &answered.run_id) => {
                    format!("granted; run {} goes on", answered.run_id)
                }
                ApprovalDecision::Granted => format!("granted; go on: norma resume {}", answered.run_id),
                ApprovalDecision::Denied => format!("denied; run {} does not go on with it", answered.run_id),
            };
            done(next, serde_json::to_value(answered).expect("BUG: an approval is plain data"))
        }
        Request::Reindex => {
            let runs = store::reindex(&shared.store)?;
            done(format!("the index was rebuilt from the logs of {runs} run(s)"), runs.into())
        }
        Request::Gc => gc(shared),
    }
}

fn value(landing: &contract::Landing) -> serde_json::Value {
    serde_json::to_value(landing).expect("BUG: a landing is plain data")
}

fn cancel(shared: &Shared, slug: &str) -> Result<Answer> {
    let done = |message: &str| Ok(Answer::Done { message: message.to_owned(), value: slug.into() });
    if let Some((current, control)) = &*shared.current.lock().unwrap_or_else(PoisonError::into_inner)
        && current == slug
    {
        control.request(Stop::Cancel);
        return done("the run is asked to end; its turn is being stopped");
    }
    let (run, mut log) = Reader::open(&shared.store.layout)?.load(slug)?;
    if run.status.is_terminal() {
        return Err(Error::declined(
            format!("run {slug} is {} already", run.status),
            format!("look at it: norma show {slug}"),
        ));
    }
    keep_diff(&shared.store.layout.run(slug), diff(&shared.objects, &run)?)?;
    let end = contract::End { reason: Some(contract::Reason::Canceled), message: "canceled on request".into() };
    shared.store.append(&mut log, vec![contract::Fact::RunCanceled(end)], Vec::new())?;
    store::seal(&shared.store, slug, &|said| shared.keys.sign(said))?;
    done("canceled")
}

/// Lets go of the bases of runs that have ended, and of those that never came to be: a process may have died
/// between keeping a base and the first fact, or between the last fact and letting go. A stopped run keeps its
/// base, so that it can be gone on from; `gone_on_from` lets go of those that were.
fn drop_bases(shared: &Shared, gone_on_from: bool) -> Result<u64> {
    let reader = Reader::open(&shared.store.layout)?;
    let mut removed = 0;
    for (name, at) in shared.user.refs_below(crate::machine::BASES)? {
        let slug = name.split('/').nth(2).unwrap_or_default();
        let keep = match reader.run(slug)?.map(|run| run.status) {
            Some(Status::Running | Status::Paused | Status::Waiting) => true,
            Some(Status::Stopped) => !(gone_on_from && reader.has_child(slug)?),
            _ => false,
        };
        if !keep && name == crate::machine::base_ref(slug) {
            let _ = shared.user.swap_ref(&name, None, Some(at), "norma: run ended")?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes what nobody needs any more of what is kept alive in the user's repository, and of what workspaces are made
/// of. Events and evidence are never deleted.
/// Whether this process works on a run at this moment.
fn is_running(shared: &Shared, slug: &str) -> bool {
    let current = shared.current.lock().unwrap_or_else(PoisonError::into_inner);
    current.as_ref().is_some_and(|(running, _)| running == slug)
}

fn gc(shared: &Shared) -> Result<Answer> {
    let refs = drop_bases(shared, true)?;
    let mut message = format!("{refs} ref(s) of ended runs removed");
    let cache = shared.store.layout.cache();
    if cache.is_dir() {
        // What history and which names count does not matter to who only removes.
        let layers = workspace::Workspaces::new(&cache, contract::History::default(), |_| false)?.gc(LAYERS_KEPT)?;
        let setups = workspace::SetupLayers::open(&cache)?.gc(workspace::SETUPS_KEPT)?;
        let (count, mib) = (layers.layers + setups.layers, (layers.bytes + setups.bytes) >> 20);
        if count > 0 {
            message.push_str(&format!("; {count} layer(s) of workspaces removed, {mib} MiB"));
        }
        if layers.busy || setups.busy {
            message.push_str("; one is being made, so not all were looked at");
        }
    }
    Ok(Answer::Done { message, value: refs.into() })
}
