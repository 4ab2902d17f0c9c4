//! The escape drill: every known attack, made from inside the sandbox on the machine at hand, so that nobody has to
//! believe a page about somebody else's.
//!
//! The drill is a play of one program in several roles. The caller ([`run`]) starts a *launcher* with a secret in its
//! environment; the launcher builds a [`World`] with a *victim* beside it, confines an *attacker* as any agent would
//! be, and passes on what the attacker says. Nothing is attacked unconfined: the attacker looks first whether it is
//! in a sandbox. ([`attack_all`] does not look; tests use it to see that each attack is one.)

mod attack;
mod means;
mod world;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use serde::{Deserialize, Serialize};

pub use self::attack::{ATTACKS, Alone, Attack};
pub use self::world::{CANARY, Stage, World};
use crate::give::give_directory;
use crate::level::Level;
use crate::policy::{Heard, Identity, Limits, Network, Policy, Root};
use crate::start::{Command, Sandbox, SetUp, Streams};
use crate::{End, visible};

/// The variable in which the launcher carries the secret.
pub const SECRET_VARIABLE: &str = "NORMA_CANARY";

/// Where the attacker's tools would be. Not the user's own PATH: what is on it differs, and is not what is tried.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// More than ninety short processes need, one after the other.
const LIMITS: Limits = Limits {
    pids: 400,
    memory_bytes: 2 << 30,
    cpu_seconds: 120,
    file_bytes: 1 << 30,
    disk_bytes: 128 << 20,
    open_files: 4096,
};

/// The first arguments by which the program takes a role: it then calls [`main`], or
/// [`setup::main`](crate::setup::main).
#[derive(Clone, Copy, Debug)]
pub struct Roles {
    /// One of the drill's.
    pub drill: &'static str,
    /// The set-up server.
    pub set_up: &'static str,
}

/// One attack that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// Its name.
    pub attack: String,
    /// Whether it failed.
    pub blocked: bool,
    /// What the attacker was told.
    pub detail: String,
}

/// What the launcher tells the caller, a line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Tried(Tried),
    Failed(String),
}

/// Holds the drill at a level, in `base`, a directory that the drill may fill and that is gone afterwards; tells of
/// each attack when it was made. An attack that could not be made is missing in the answer.
pub fn run(
    program: &Path,
    roles: &Roles,
    level: Level,
    base: &Path,
    each: &mut dyn FnMut(&Tried),
) -> io::Result<Vec<Tried>> {
    let mut launcher = std::process::Command::new(program)
        .args([roles.drill, "launch", &level.to_string()])
        .arg(base)
        .env_clear()
        .env(SECRET_VARIABLE, CANARY)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // What is typed at a terminal ends the caller. The launcher hears of that by its broken pipe, and clears up.
        .process_group(0)
        .spawn()?;
    let mut tried = Vec::new();
    let mut failed = None;
    for line in launcher.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
        match serde_json::from_str(&line?)? {
            Line::Tried(one) => {
                each(&one);
                tried.push(one);
            }
            Line::Failed(why) => failed = Some(why),
        }
    }
    launcher.wait()?;
    failed.map_or(Ok(tried), |why| Err(io::Error::other(why)))
}

/// One of the drill's processes: to be called first thing by a program that was started with [`Roles::drill`].
pub fn main(roles: &Roles) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let played = match words.as_slice() {
        ["launch", level, base] => launch(roles, level, Path::new(base)),
        ["victim"] => world::victim(),
        ["attack", world] => attack_confined(world),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The launcher. Whatever goes wrong is told to the caller, if there still is one.
fn launch(roles: &Roles, level: &str, base: &Path) -> io::Result<()> {
    let level = Level::ALL.into_iter().find(|it| it.to_string() == level);
    let level = level.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let held = std::env::current_exe().and_then(|program| hold(&program, roles, level, base));
    let _ = fs::remove_dir_all(base);
    held.or_else(|error| say(&Line::Failed(error.to_string())))
}

fn say(line: &Line) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(line)?)?;
    stdout.flush()
}

fn hold(program: &Path, roles: &Roles, level: Level, base: &Path) -> io::Result<()> {
    let stage = Stage::build(base, program, roles)?;
    give_directory(&stage.world.work, level)?;
    if !level.has_namespaces() {
        // The way to the workspace is the machine's own, and the attacker may be another user.
        fs::set_permissions(base, fs::Permissions::from_mode(0o755))?;
    }
    let world = serde_json::to_string(&stage.world)?;
    let args = [roles.drill, "attack", &world].map(str::to_owned).to_vec();
    let command = Command { program: program.display().to_string(), args };
    let (said, theirs) = io::pipe()?;
    let streams = Streams {
        stdin: File::open("/dev/null")?.into(),
        stdout: theirs.into(),
        stderr: io::stderr().as_fd().try_clone_to_owned()?,
    };
    let set_up = SetUp { program: program.to_owned(), args: vec![roles.set_up.into()] };
    let sandbox = Sandbox::new(set_up);
    let policy = policy(program, &stage.world, level)?;
    let confined = sandbox.prepare(&policy, &command, &streams).and_then(|it| it.start()).map_err(io::Error::other)?;
    drop(streams);
    for line in BufReader::new(said).lines() {
        say(&Line::Tried(stage.world.judge(serde_json::from_str(&line?)?)))?;
    }
    match confined.finish().map_err(io::Error::other)?.end {
        End::Exited(0) => Ok(()),
        end => Err(io::Error::other(format!("the attacker did not come to its end: {end:?}"))),
    }
}

/// What an agent would get: the system, a toolchain, a workspace with history and secrets, and this program.
fn policy(program: &Path, world: &World, level: Level) -> io::Result<Policy> {
    let mut read = visible::existing(visible::visible(PATH, &world.home));
    if let Some(root) = read.iter().find(|root| world.outside.starts_with(&root.path)) {
        let (place, root) = (world.outside.display(), root.path.display());
        return Err(io::Error::other(format!(
            "{place} is no place for the drill: programs may read {root}; set TMPDIR"
        )));
    }
    if level.has_namespaces() {
        // Where nothing can be hidden, a toolchain with credentials in it is not shown.
        read.push(Root::new(world.home.join(".cargo"), "a toolchain on the PATH"));
    }
    if !read.iter().any(|root| program.starts_with(&root.path)) {
        read.push(Root::new(program, "the attacker"));
    }
    let (mut protected, mut hidden) = (Vec::new(), Vec::new());
    if level.has_namespaces() {
        protected.push(Root::new(world.work.join(".git"), "history and hooks"));
        hidden.extend(visible::secrets(&read, &world.home));
        hidden.extend(visible::find_secrets(&world.work)?);
    }
    let variables = [("PATH", PATH.to_owned()), ("HOME", world.home.display().to_string())];
    Ok(Policy {
        opened: Vec::new(),
        placed: Vec::new(),
        empty: Vec::new(),
        overlays: Vec::new(),
        read,
        write: vec![Root::new(&world.work, "the workspace")],
        protected,
        hidden,
        env: BTreeMap::from(variables.map(|(name, value)| (name.to_owned(), value))),
        cwd: world.work.clone(),
        home: world.home.clone(),
        network: Network::Deny,
        door: None,
        heard: Some(Heard::default()),
        // As an agent that may run no commands.
        startable: Some(vec![Root::new(program.canonicalize()?, "the attacker")]),
        limits: LIMITS,
        hostname: "norma".to_owned(),
        identity: Identity::own(),
        landlock_abi_min: 0,
        control_group: true,
        level,
    })
}

/// The attacker. Somebody who types its verb at a terminal is not attacked: a sandbox of whatever level filters
/// kernel calls and lets nobody gain rights.
fn attack_confined(world: &str) -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let is = |name: &str, value: &str| {
        status.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.trim() == value))
    };
    if !is("Seccomp:", "2") || !is("NoNewPrivs:", "1") {
        return Err(io::Error::other("attacks are made from inside a sandbox only"));
    }
    attack_all(world, &mut |tried| {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", serde_json::to_string(&tried)?)?;
        stdout.flush()
    })
}

/// Makes every attack on a world, which is given as JSON, from where the calling process is. It must have one thread.
pub fn attack_all(world: &str, each: &mut dyn FnMut(Tried) -> io::Result<()>) -> io::Result<()> {
    let world: World = serde_json::from_str(world)?;
    for attack in ATTACKS {
        let (succeeded, detail) = in_child(|| (attack.run)(&world))?;
        each(Tried { attack: attack.name.to_owned(), blocked: !succeeded, detail })?;
    }
    Ok(())
}

/// Runs an attack in a process of its own, so that one that is killed does not end the drill; whether it succeeded,
/// and its error.
fn in_child(run: impl FnOnce() -> io::Result<()>) -> io::Result<(bool, String)> {
    let (mut reader, writer) = io::pipe()?;
    // SAFETY: the attacker has one thread, so the child finds no lock that nobody will release.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let result = run();
        if let Err(error) = &result {
            let _ = (&writer).write_all(error.to_string().as_bytes());
        }
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    drop(writer);
    let (mut detail, mut status) = (String::new(), 0);
    reader.read_to_string(&mut detail)?;
    // SAFETY: the status outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if libc::WIFSIGNALED(status) {
        detail = format!("killed by signal {}", libc::WTERMSIG(status));
    }
    Ok((libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, detail))
}
