//! From a turn to the sandbox that holds it: what its agent sees, changes, reaches and uses up. Inside, the run's
//! tree is at the repository's own path, the state directory is empty but for the steps of this run, and the
//! machine is the tools on the user's PATH.

use crate::agent::Extra;
use crate::git::sweep;
use crate::machine::startable::startable;
use crate::process::MARKER;
use crate::world::TurnOrder;
use crate::{Error, Result};
use contract::work::ShellRight;
use contract::{AgentConfig, RepoPath, SandboxLimits};
use sandbox::{Heard, HostPort, Identity, Level, Limits, Network, Overlay, Placed, Policy, Root, Upper, visible};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Who an agent is inside when norma runs as root: programs refuse to work unattended as root, and rightly.
const ORDINARY: Identity = Identity { uid: 1000, gid: 1000 };

/// A home that is used where the user's own lies in the repository, or nowhere.
const OTHER_HOME: &str = "/tmp/home";

/// How much more than it may keep a step may write before it is stopped: what is over the limit is left out with a
/// note, which is better than an agent that fails at the last byte.
const STEP_ROOM_BYTES: u64 = 64 << 20;

/// Room for the place of one directory among the earlier steps.
const STEPS_BYTES: u64 = 1 << 20;

/// What of the machine every agent of a run sees.
pub(crate) struct Tools {
    read: Vec<Root>,
    hidden: Vec<Root>,
    pub(crate) home: PathBuf,
    level: Level,
}

/// How the run's tree is shown.
pub(crate) enum Shown {
    /// As layers under a private one.
    Layers {
        /// The topmost first.
        lower: Vec<PathBuf>,
        /// What is covered, relative to the tree.
        secrets: Vec<PathBuf>,
    },
    /// As a private directory, where there are no overlays.
    Directory {
        /// Where it is.
        source: PathBuf,
        /// What is covered, relative to the tree.
        secrets: Vec<PathBuf>,
    },
}

impl Tools {
    /// Looks at the machine once.
    pub(crate) fn find(env: &BTreeMap<OsString, OsString>, named: &[String], root: &Path, level: Level) -> Tools {
        let text = |name: &str| env.get(OsStr::new(name)).and_then(|value| value.to_str()).unwrap_or_default();
        let user_home = Path::new(text("HOME"));
        let named = named.iter().map(|path| Root::new(path, "named in sandbox.read"));
        let read = visible::existing(visible::visible(text("PATH"), user_home).into_iter().chain(named).collect());
        let hidden = visible::secrets(&read, user_home);
        let usable = user_home.is_absolute() && !user_home.starts_with(root) && user_home != Path::new("/");
        let home = if usable { user_home.to_owned() } else { PathBuf::from(OTHER_HOME) };
        Tools { read, hidden, home, level }
    }
}

/// Everything about where programs work on a tree.
pub(crate) struct Scene<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) shown: Shown,
    /// The repository's own path.
    pub(crate) root: &'a Path,
    /// The state directory.
    pub(crate) state: &'a Path,
    /// The clean environment programs start from.
    pub(crate) env: &'a BTreeMap<OsString, OsString>,
    /// What a program may use up.
    pub(crate) limits: &'a SandboxLimits,
    /// What it may write to the tree.
    pub(crate) layer_mb: u32,
}

/// What one program needs beyond that.
pub(crate) struct Program<'a> {
    /// Where it starts.
    pub(crate) cwd: &'a Path,
    /// Files that its command names by absolute path.
    pub(crate) named: Vec<&'a Path>,
    /// What it was installed with.
    pub(crate) read: Vec<Root>,
    /// Variables added to the clean environment.
    pub(crate) env: BTreeMap<String, String>,
    /// What it may reach, as `host:port`.
    pub(crate) network: &'a [String],
}

impl Scene<'_> {
    /// The sandbox of an agent's turn; an error says what about the agent cannot be confined as it is. The step's
    /// layer is the last one.
    pub(crate) fn turn(
        &self,
        order: &TurnOrder<'_>,
        agent: &AgentConfig,
        (cwd, program): (&Path, &Path),
        run_dir: &Path,
        extra: Extra,
    ) -> std::result::Result<Policy, String> {
        let mut extra = extra;
        extra.own_env.insert(MARKER.to_owned(), order.run.id.slug().to_string());
        extra.own_env.insert("NORMA_STEP_DIR".to_owned(), order.step_dir.to_string_lossy().into_owned());
        extra.network.extend(agent.network.iter().filter(|_| order.spec.rights.own_hosts).cloned());
        let mut policy = self.agent(agent, (cwd, program), extra, order.spec.rights.shell)?;
        if let Some(roots) = &order.spec.rights.write_roots {
            self.close_tree(&mut policy, roots)?;
        } else {
            policy.protected.extend(order.spec.item.iter().flat_map(|item| self.closed(&item.scope.denied_paths)));
        }
        // Where other turns come and go meanwhile, only those steps are shown that this one builds on.
        match order.spec.in_parallel {
            false => policy.overlays.push(earlier_steps(order, run_dir)),
            true => {
                let dirs = &order.spec.look_back.dirs;
                policy.placed.extend(dirs.iter().map(|dir| earlier_step(run_dir, dir)));
            }
        }
        policy.overlays.push(step(order));
        Ok(policy)
    }

    /// What of the tree is not to be changed, as far as it is there. What is made in its place is refused by the gates.
    fn closed(&self, denied: &[RepoPath]) -> Vec<Root> {
        let below: &[PathBuf] = match &self.shown {
            Shown::Layers { lower, .. } => lower,
            Shown::Directory { source, .. } => std::slice::from_ref(source),
        };
        let is_there = |path: &&RepoPath| {
            let found = below.iter().find_map(|layer| layer.join(path.as_str()).symlink_metadata().ok());
            found.is_some_and(|found| found.is_dir())
        };
        let closed = |path: &RepoPath| Root::new(self.root.join(path.as_str()), "what this node may not change");
        denied.iter().filter(is_there).map(closed).collect()
    }

    /// Has nothing of the tree changed but what lies below these paths.
    fn close_tree(&self, policy: &mut Policy, roots: &[RepoPath]) -> std::result::Result<(), String> {
        let reason = "what this node may change";
        let is_tree = |path: &Path| path == self.root;
        for overlay in policy.overlays.iter_mut().filter(|it| is_tree(&it.path)) {
            overlay.writable = false;
            policy.opened.extend(roots.iter().map(|root| Root::new(self.root.join(root.as_str()), reason)));
        }
        let Some(tree) = policy.placed.iter_mut().find(|it| is_tree(&it.path)) else { return Ok(()) };
        tree.writable = false;
        let source = tree.source.clone();
        for root in roots {
            // No link is followed on the way: the tree is somebody else's, and could name a place outside of it.
            let tree = sweep::open_directory(&source).map_err(|error| error.to_string())?;
            let made = sweep::make_below(&tree, root.as_str().as_bytes());
            let (source, path) = (source.join(root.as_str()), self.root.join(root.as_str()));
            let given = made.and_then(|_| sandbox::give_directory(&source, self.tools.level));
            given.map_err(|error| format!("could not make {}: {error}", source.display()))?;
            policy.placed.push(Placed { source, path, writable: true, reason: reason.to_owned() });
        }
        Ok(())
    }

    /// The sandbox of an agent, whatever it is started for.
    pub(crate) fn agent(
        &self,
        agent: &AgentConfig,
        (cwd, program): (&Path, &Path),
        extra: Extra,
        shell: ShellRight,
    ) -> std::result::Result<Policy, String> {
        let arguments = agent.cmd.iter().skip(1).map(Path::new).filter(|path| path.is_absolute());
        let mut env = extra.env;
        env.extend(extra.own_env);
        let named = [program].into_iter().chain(arguments).collect();
        let read = extra.read.clone();
        let mut policy = self.policy(Program { cwd, named, read, env, network: &extra.network })?;
        policy.door = extra.door;
        let own: Vec<Root> = extra.tools.iter().map(|tools| Root::new(&tools.path, &tools.reason)).collect();
        policy.placed.extend(extra.tools);
        let package: Vec<Root> = extra.read.into_iter().chain(own).collect();
        self.hear(&mut policy, program, &package, shell);
        policy.overlays.extend(extra.home);
        Ok(policy)
    }

    /// Has what the agent starts heard, and where it may run no commands nothing started but itself.
    fn hear(&self, policy: &mut Policy, program: &Path, package: &[Root], shell: ShellRight) {
        let path = policy.env.get("PATH").map(String::as_str).unwrap_or_default();
        // A directory of programs is not a package: its program is in there with all others.
        let is_package =
            |root: &&Root| !root.path.ends_with("bin") && path.split(':').all(|dir| Path::new(dir) != root.path);
        let package: Vec<Root> = package.iter().filter(is_package).cloned().collect();
        policy.heard = Some(Heard { own: package.iter().map(|root| root.path.clone()).collect() });
        if shell != ShellRight::Deny {
            return;
        }
        let mut startable = startable(program, path);
        startable.extend(package);
        // One that lies in the tree must stay what it is.
        let in_tree = startable.iter().filter(|root| root.path.starts_with(self.root));
        policy.protected.extend(in_tree.map(|root| Root::new(&root.path, "the agent's own program")));
        policy.startable = Some(startable);
    }

    /// Has the earlier steps readable inside. What is above them in the state directory is closed to other users of the
    /// machine.
    pub(crate) fn open_up(&self, order: &TurnOrder<'_>, run_dir: &Path) -> Result<()> {
        let steps = order.spec.look_back.dirs.iter().map(|dir| run_dir.join(dir));
        for path in steps.chain(order.again.map(|again| again.steps.clone())) {
            let opened = sandbox::open_directory(&path, self.tools.level);
            opened.map_err(|source| Error::io("open to agents", &path, source))?;
        }
        Ok(())
    }

    /// The sandbox of any program that works on the tree.
    pub(crate) fn policy(&self, program: Program<'_>) -> std::result::Result<Policy, String> {
        let mut policy = self.bare(program)?;
        let upper = Upper::Memory { bytes: layer_bytes(self.layer_mb) };
        self.show_tree(&mut policy, upper, "the tree; what is changed here goes to a layer of its own");
        Ok(policy)
    }

    /// The sandbox for the setup of a tree, whose changes are kept in a directory.
    pub(crate) fn setup(&self, program: Program<'_>, layer: &Path) -> std::result::Result<Policy, String> {
        let mut policy = self.bare(program)?;
        let upper = Upper::Directory { path: layer.to_owned() };
        self.show_tree(&mut policy, upper, "the run's tree; what is made here is shown to agents");
        Ok(policy)
    }

    /// A sandbox with the machine in it, and nothing of a tree.
    fn bare(&self, program: Program<'_>) -> std::result::Result<Policy, String> {
        let mut read = self.tools.read.clone();
        for root in program.read {
            if !read.iter().any(|it| it.path == root.path) {
                read.push(root);
            }
        }
        read.extend(self.named(&program.named, &read));
        Ok(Policy {
            read,
            write: Vec::new(),
            placed: Vec::new(),
            empty: vec![Root::new(self.state, "norma's own directory, of which agents see their run's steps")],
            overlays: Vec::new(),
            protected: Vec::new(),
            opened: Vec::new(),
            hidden: self.tools.hidden.clone(),
            env: self.environment(program.env)?,
            cwd: program.cwd.to_owned(),
            home: self.tools.home.clone(),
            network: network(program.network)?,
            door: None,
            heard: None,
            startable: None,
            limits: limits(self.limits),
            hostname: "norma".to_owned(),
            identity: identity(),
            landlock_abi_min: 0,
            control_group: true,
            level: self.tools.level,
        })
    }

    fn show_tree(&self, policy: &mut Policy, upper: Upper, reason: &str) {
        let reason = reason.to_owned();
        let secrets = match &self.shown {
            Shown::Layers { lower, secrets } => {
                let (path, lower) = (self.root.to_owned(), lower.clone());
                policy.overlays.push(Overlay { path, lower, upper, writable: true, reason });
                secrets
            }
            Shown::Directory { source, secrets } => {
                let (source, path) = (source.clone(), self.root.to_owned());
                policy.placed.push(Placed { source, path, writable: true, reason });
                secrets
            }
        };
        let cover = |path: &PathBuf| Root::new(self.root.join(path), "its name says that it holds secrets");
        policy.hidden.extend(secrets.iter().map(cover));
    }

    /// What the command names by absolute path and nothing else shows.
    fn named(&self, paths: &[&Path], read: &[Root]) -> Vec<Root> {
        let shown = |path: &Path| read.iter().any(|root| path.starts_with(&root.path)) || path.starts_with(self.root);
        let mut named: Vec<Root> = Vec::new();
        for path in paths {
            let real = path.canonicalize().ok().filter(|real| real.is_file());
            for path in [Some((*path).to_owned()).filter(|_| real.is_some()), real].into_iter().flatten() {
                if !shown(&path) && !named.iter().any(|it| it.path == path) {
                    named.push(Root::new(path, "named in the command"));
                }
            }
        }
        named
    }

    fn environment(&self, more: BTreeMap<String, String>) -> std::result::Result<BTreeMap<String, String>, String> {
        let mut env = BTreeMap::new();
        for (name, value) in self.env {
            let utf8 = |text: &OsStr| text.to_str().map(str::to_owned);
            let pair = utf8(name).zip(utf8(value)).ok_or_else(|| format!("the variable {name:?} is not UTF-8"))?;
            env.extend([pair]);
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        env.extend([("HOME".to_owned(), text(&self.tools.home)), ("TMPDIR".to_owned(), "/tmp".to_owned())]);
        env.extend(more);
        env.extend([
            // An agent that deletes its private `.git` must not look for one further up.
            ("GIT_CEILING_DIRECTORIES".to_owned(), text(self.root.parent().unwrap_or(self.root))),
        ]);
        Ok(env)
    }
}

/// The directory of a step: what is there already can be read, what the agent adds goes to a layer of its own, from
/// which norma copies.
fn step(order: &TurnOrder<'_>) -> Overlay {
    let bytes = (u64::from(order.run.started.contract.limits.evidence_mb) << 20) + STEP_ROOM_BYTES;
    Overlay {
        path: order.step_dir.to_owned(),
        lower: vec![order.live_dir.to_owned()],
        upper: Upper::Memory { bytes },
        writable: true,
        reason: "the step's own directory, all that is kept of the turn".to_owned(),
    }
}

fn earlier_step(run_dir: &Path, dir: &str) -> Placed {
    let path = run_dir.join(dir);
    Placed { source: path.clone(), path, writable: false, reason: "an earlier step that this one builds on".to_owned() }
}

/// The steps so far, however many there are, as one directory in which this step's own can be placed.
fn earlier_steps(order: &TurnOrder<'_>, run_dir: &Path) -> Overlay {
    let path = run_dir.join("steps");
    Overlay {
        lower: vec![order.again.map_or_else(|| path.clone(), |again| again.steps.clone())],
        path,
        upper: Upper::Memory { bytes: STEPS_BYTES },
        writable: false,
        reason: "the earlier steps of the run".to_owned(),
    }
}

/// What may be written to a layer in memory: as configured, and never more than half of the machine's memory.
fn layer_bytes(layer_mb: u32) -> u64 {
    let system = rustix::system::sysinfo();
    let memory = system.totalram as u64 * u64::from(system.mem_unit);
    (u64::from(layer_mb) << 20).min(memory / 2)
}

fn identity() -> Identity {
    let own = Identity::own();
    if own.uid == 0 { ORDINARY } else { own }
}

fn network(entries: &[String]) -> std::result::Result<Network, String> {
    if entries.is_empty() {
        return Ok(Network::Deny);
    }
    let parsed =
        entries.iter().map(|entry| HostPort::parse(entry).ok_or_else(|| format!("{entry:?} is not host:port")));
    parsed.collect::<std::result::Result<_, _>>().map(Network::Allow)
}

fn limits(limits: &SandboxLimits) -> Limits {
    Limits {
        pids: limits.processes,
        memory_bytes: u64::from(limits.memory_mb) << 20,
        cpu_seconds: limits.cpu_seconds.into(),
        file_bytes: u64::from(limits.file_mb) << 20,
        disk_bytes: u64::from(limits.private_mb) << 20,
        open_files: limits.open_files.into(),
    }
}
