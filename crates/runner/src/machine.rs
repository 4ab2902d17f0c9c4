//! The real world: agents as processes in a private checkout, git with real objects.

use crate::git::{Checkout, CommitSpec, Identity, Objects, PatchLimits, PatchProblem, Repository};
use crate::landing::{carry_out, id, own_branch};
use crate::process::{self, Cancel, Captured, Command, End, Limits, Ready, Spent, Supervisor};
use crate::world::{Execution, LandResult, PatchResult, TurnOrder, World};
use crate::{Error, Result};
use contract::{AgentConfig, Landing, LandingMode, ProcessEnd, Reason};
use run::Run;
use run::gate::change::ChangedPath;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Layout;

/// Names the turn in the environment of every process that belongs to it, so that what outlives a killed norma
/// can be found.
pub(crate) const MARKER: &str = "NORMA_RUN_ID";

/// See the module.
pub struct Machine<'a> {
    /// Where things are.
    pub layout: &'a Layout,
    /// The user's repository.
    pub user: &'a Repository,
    /// norma's own objects.
    pub objects: &'a Objects,
    /// The clean environment agents start from.
    pub env: &'a BTreeMap<OsString, OsString>,
    /// How norma becomes the supervisor of an agent.
    pub supervisor: &'a Supervisor,
    /// Ends a turn early.
    pub cancel: Cancel,
    /// The checkout and the tree it shows.
    workspace: Option<(Checkout, String)>,
    /// The supervisor of the next turn.
    ready: Option<Ready>,
    /// The supervisor of the turn before, on its way out.
    spent: Option<Spent>,
}

impl<'a> Machine<'a> {
    /// A machine without a checkout yet.
    pub fn new(
        layout: &'a Layout,
        user: &'a Repository,
        objects: &'a Objects,
        env: &'a BTreeMap<OsString, OsString>,
        supervisor: &'a Supervisor,
        cancel: Cancel,
    ) -> Machine<'a> {
        Machine { layout, user, objects, env, supervisor, cancel, workspace: None, ready: None, spent: None }
    }

    fn command(&self, agent: &AgentConfig, tree: &Path, order: &TurnOrder<'_>) -> std::result::Result<Command, String> {
        let program = agent.cmd.first().map_or("", String::as_str);
        let path_var = self.env.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default();
        let Some(resolved) = process::resolve(program, &path_var, tree) else {
            return Err(format!("{program:?} is not an executable file here"));
        };
        let cwd =
            agent.path.as_deref().filter(|path| *path != ".").map_or_else(|| tree.to_owned(), |path| tree.join(path));
        let args = agent.cmd.iter().skip(1).map(|arg| script_argument(arg, tree, &cwd)).collect();
        let mut env = self.env.clone();
        env.extend(agent.env.iter().map(|(name, value)| (name.into(), value.into())));
        env.insert(MARKER.into(), order.run.id.slug().into());
        env.insert("NORMA_STEP_DIR".into(), order.live_dir.into());
        // An agent that deletes its private `.git` must not find the user's repository further up.
        env.insert("GIT_CEILING_DIRECTORIES".into(), tree.parent().unwrap_or(tree).into());
        let limits = &order.run.started.contract.limits;
        let wall = Duration::from_secs(limits.step_seconds.into());
        Ok(Command {
            program: resolved,
            args,
            cwd,
            env,
            stdin: serde_json::to_vec(order.request).expect("BUG: a request is plain data"),
            limits: Limits {
                wall: order.time_left.map_or(wall, |left| left.min(wall)),
                idle: limits.idle_seconds.map(|seconds| Duration::from_secs(seconds.into())),
                output_bytes_max: u64::from(limits.output_mb) << 20,
            },
        })
    }

    fn identity(run: &Run) -> Identity {
        let author = &run.started.author;
        Identity { name: author.name.clone(), email: author.email.clone() }
    }
}

/// Whether a checkout is where norma made it. An agent could have removed it, or put a link to the user's files in
/// its place.
fn is_in_place(dir: &Path) -> bool {
    let real = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    real(dir) && dir.parent().is_some_and(real)
}

/// Arguments that name a file of the run's tree mean that file even when the agent starts in a directory below.
fn script_argument(arg: &str, tree: &Path, cwd: &Path) -> OsString {
    let relative = !arg.starts_with(['-', '/']) && cwd != tree;
    if relative && !cwd.join(arg).exists() && tree.join(arg).is_file() {
        return tree.join(arg).into_os_string();
    }
    arg.into()
}

impl World for Machine<'_> {
    fn workspace(&mut self, run: &Run) -> Result<PathBuf> {
        let dir = self.layout.worktree(&run.id.slug()).join("tree");
        let (commit, tree) = (id(&run.started.base.commit)?, id(&run.tree)?);
        if self.workspace.is_some() && !is_in_place(&dir) {
            self.workspace = None;
        }
        match &mut self.workspace {
            Some((_, at)) if *at == run.tree => {}
            Some((checkout, at)) => {
                checkout.advance(self.objects, commit, tree)?;
                at.clone_from(&run.tree);
            }
            // What an earlier process left is not looked at: an agent could have written it.
            empty => {
                store::remove_tree(&self.layout.worktree(&run.id.slug()))?;
                *empty = Some((Checkout::create(self.objects, &dir, commit, tree)?, run.tree.clone()));
            }
        }
        Ok(dir)
    }

    fn prepare(&mut self) -> Result<()> {
        self.spent = None;
        if self.ready.is_none() {
            let ready = process::get_ready(self.supervisor);
            self.ready = Some(ready.map_err(|source| Error::io("run", &self.supervisor.program, source))?);
        }
        Ok(())
    }

    fn execute(&mut self, order: &TurnOrder<'_>) -> Result<Execution> {
        let agent = &order.run.started.contract.agents[&order.step.role];
        let tree = self.workspace(order.run)?;
        let command = match self.command(agent, &tree, order) {
            Ok(command) => command,
            Err(why) => return Ok(not_started(why)),
        };
        self.prepare()?;
        let ready = self.ready.take().expect("BUG: a supervisor was just made ready");
        let outcome = ready.go(&command, &self.cancel);
        let (outcome, spent) = outcome.map_err(|source| Error::io("run", &command.program, source))?;
        self.spent = Some(spent);
        if outcome.end == End::Signaled(9) {
            // The supervisor itself may have been the victim; whatever it watched over must not go on.
            let _ = process::leftovers::kill(MARKER, &order.run.id.slug());
        }
        Ok(Execution {
            process: outcome.end,
            stdout_truncated: outcome.stdout.truncated,
            stdout: kept(outcome.stdout),
            stderr_truncated: outcome.stderr.truncated,
            stderr: kept(outcome.stderr),
        })
    }

    fn apply(&mut self, run: &Run, patch: &[u8]) -> Result<PatchResult> {
        let most = u64::from(run.started.contract.limits.change_mb) << 20;
        let limits = PatchLimits { patch_bytes_max: most, result_bytes_max: most };
        let applied = match self.objects.apply(id(&run.tree)?, patch, &limits) {
            Ok(applied) => applied,
            Err(PatchProblem::Git(error)) => return Err(error.into()),
            Err(problem) => return Ok(refused(&problem)),
        };
        let mut changes = Vec::with_capacity(applied.changes.len());
        for change in applied.changes {
            let binary = match &change.new {
                Some(entry) if entry.mode != 0o160_000 => self.objects.looks_binary(entry.id)?,
                _ => false,
            };
            changes.push(ChangedPath {
                path: change.path,
                old_mode: change.old.map(|entry| entry.mode),
                new_mode: change.new.map(|entry| entry.mode),
                binary,
            });
        }
        // Durable before it can be mentioned.
        self.objects.pin(&format!("runs/{}/tree", run.id.slug()), applied.tree)?;
        Ok(PatchResult::Tree { tree: applied.tree.to_string(), changes })
    }

    fn plan_landing(&mut self, run: &Run) -> Result<Landing> {
        let slug = run.id.slug();
        let at = run.verdict_at.unwrap_or_default();
        let spec = CommitSpec {
            tree: id(&run.tree)?,
            parents: vec![id(&run.started.base.commit)?],
            author: Machine::identity(run),
            seconds: (at.unix_ms() / 1000) as i64,
            message: commit_message(run),
        };
        let commit = self.objects.commit(&spec)?;
        self.objects.pin(&format!("runs/{slug}/result"), commit)?;
        let commit = commit.to_string();
        if run.declined.is_some() || run.started.contract.landing.mode == LandingMode::Branch {
            return Ok(Landing { target: own_branch(&slug), from: None, commit, checkout: false });
        }
        let target = run.started.base.branch.clone().unwrap_or_else(|| "HEAD".to_owned());
        Ok(Landing { target, from: Some(run.started.base.commit.clone()), commit, checkout: true })
    }

    fn land(&mut self, run: &Run, landing: &Landing) -> Result<LandResult> {
        carry_out(self.user, self.objects, run, landing)
    }

    fn diff(&mut self, run: &Run) -> Result<(Vec<u8>, Vec<u8>)> {
        let (old, new) = (id(&run.started.base.tree)?, id(&run.tree)?);
        if old == new {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut names = Vec::new();
        for change in self.objects.diff(old, new)? {
            names.extend_from_slice(String::from_utf8_lossy(&change.path).escape_debug().to_string().as_bytes());
            names.push(b'\n');
        }
        Ok((self.objects.diff_text(old, new)?, names))
    }

    fn release(&mut self, run: &Run) -> Result<()> {
        (self.workspace, self.ready) = (None, None);
        let slug = run.id.slug();
        store::remove_tree(&self.layout.worktree(&slug))?;
        // A stopped run can be gone on from, so its base must outlive the user's own clean-up; others need not.
        if run.reason != Some(Reason::BudgetExceeded) {
            let base = id(&run.started.base.commit)?;
            let _ = self.user.swap_ref(&base_ref(&slug), None, Some(base), "norma: run ended")?;
        }
        Ok(())
    }
}

/// Where the bases of runs are kept.
pub(crate) const BASES: &str = "refs/norma/";

/// Keeps the base of a run alive in the user's repository, whatever the user deletes meanwhile.
pub(crate) fn base_ref(slug: &str) -> String {
    format!("{BASES}{slug}/base")
}

fn commit_message(run: &Run) -> String {
    let goal = run.started.contract.goal.trim();
    let (subject, rest) = goal.split_once('\n').unwrap_or((goal, ""));
    let body = if rest.trim().is_empty() { String::new() } else { format!("{}\n\n", rest.trim()) };
    let digest = run.started.contract_digest;
    format!("{subject}\n\n{body}Norma-Run: {}\nNorma-Contract: {digest}\n", run.id.slug())
}

fn refused(problem: &PatchProblem) -> PatchResult {
    let reason = match problem {
        PatchProblem::Binary
        | PatchProblem::UnsafePath { .. }
        | PatchProblem::TooLarge { .. }
        | PatchProblem::Inflates { .. } => Reason::PolicyViolation,
        _ => Reason::PatchFailed,
    };
    PatchResult::Refused { reason, findings: vec![problem.to_string()] }
}

fn kept(captured: Captured) -> Vec<u8> {
    if captured.truncated { captured.with_mark() } else { captured.bytes }
}

fn not_started(why: String) -> Execution {
    Execution {
        process: ProcessEnd::NotStarted(why),
        stdout: Vec::new(),
        stdout_truncated: false,
        stderr: Vec::new(),
        stderr_truncated: false,
    }
}
