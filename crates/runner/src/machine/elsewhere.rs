//! Programs that work on a tree in another system: an agent's turn, or the test of a change. The tree is checked out into a
//! private directory, its files go there and what was changed comes back into that directory, from which it is captured,
//! gated and tested as what any other agent left. The repository's history, files whose names say that they hold secrets
//! and what the checkout has besides stay here.

use crate::backend::{self, Done, File, Files, Left, Means, Trouble, Work, tree};
use crate::machine::Machine;
use crate::machine::confine::Shown;
use crate::machine::execute::{kept, limits, not_started, unused_hosts};
use crate::machine::view::Ground;
use crate::process::{Limits, MARKER};
use crate::world::{Execution, TurnOrder};
use crate::{Context, Error, Result, agent};
use contract::{AgentRequest, Backend, Backends, Contract, ProcessEnd, refuses_agent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the tree, the step, and the earlier steps are below the backend's root.
const TREE: &str = "tree";
const STEP: &str = "step";
const RUN: &str = "run";

/// What was asked for and what held, for the record.
fn record(backend: Backend, held: &Value) -> Value {
    let asked = json!({ "backend": backend.as_str(), "network": "deny" });
    json!({ "backend": backend.as_str(), "asked": asked, "effective": held })
}

/// What backends need of a process that carries out runs.
pub(crate) fn means<'m>(context: &'m Context, backends: &'m Backends, roots: Option<String>) -> Means<'m> {
    Means {
        sandbox: &context.sandbox,
        supervisor: &context.supervisor,
        env: &context.agent_env,
        user_env: &context.user_env,
        backends,
        extra_roots_pem: roots,
    }
}

/// The certificates that a contract trusts besides the public ones.
fn roots(context: &Context, contract: &Contract) -> std::result::Result<Option<String>, Trouble> {
    let path = contract.tls.extra_roots.as_ref().map(|path| context.layout.root.join(path));
    let read = |path: &Path| {
        let failed = |error| Trouble::Broken(format!("tls.extra_roots: could not read {}: {error}", path.display()));
        std::fs::read_to_string(path).map_err(failed)
    };
    path.as_deref().map(read).transpose()
}

/// A command of a test.
pub(crate) struct Test<'t> {
    pub(crate) argv: &'t [String],
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) limits: Limits,
}

impl Machine {
    /// Has a program take a turn on a backend.
    pub(crate) fn execute_elsewhere(&mut self, order: &TurnOrder<'_>, backend: Backend) -> Result<Execution> {
        let on = Ground::of(order.run, order.spec);
        if let Some(why) = refuses_agent(backend, order.spec.agent.kind).or_else(|| no_setup(&on)) {
            return Ok(not_started(ProcessEnd::NotStarted(why), record(backend, &Value::Null)));
        }
        let place = self.private(&on)?;
        let mut notes: Vec<String> = unused_hosts(order).into_iter().collect();
        if order.spec.rights.own_hosts && !order.spec.agent.network.is_empty() {
            notes.push(format!("{} gives no network, so the agent could reach no host", backend.as_str()));
        }
        let done = match self.take_turn(order, backend, &place, &on) {
            Ok(done) => done,
            Err(trouble) => {
                return Ok(not_started(ProcessEnd::NotConfined(trouble.to_string()), record(backend, &Value::Null)));
            }
        };
        notes.extend(done.left.left_out.iter().cloned());
        self.bring_back(&place, order.live_dir, &done.left)?;
        Ok(Execution {
            process: done.end,
            stdout_truncated: done.stdout.truncated,
            stdout: kept(done.stdout),
            stderr_truncated: done.stderr.truncated,
            stderr: kept(done.stderr),
            written: None,
            captured: self.captured(order, Vec::new())?,
            spoken: None,
            notes,
            sandbox: record(backend, &done.record),
        })
    }

    /// The private directory that shows the tree, and what in it stays here.
    fn private(&mut self, on: &Ground<'_>) -> Result<Private> {
        let Shown::Directory { source, secrets } = self.show(on)? else {
            unreachable!("BUG: layers are for programs that the kernel confines")
        };
        let state = self.context.layout.state_in_repository().map(|path| path.as_str().to_owned());
        Ok(Private { source, secrets, state })
    }

    fn take_turn(
        &self,
        order: &TurnOrder<'_>,
        backend: Backend,
        place: &Private,
        on: &Ground<'_>,
    ) -> std::result::Result<Done, Trouble> {
        let root = backend::root(backend);
        let contract = &order.run.started.contract;
        let run_dir = self.context.layout.run(&order.run.id.slug());
        let request = guest_request(order.request, root, &order.spec.look_back.dirs);
        let mut files = place.files()?;
        files.extend(below(STEP, tree::read(order.live_dir, &|_| true).map_err(Trouble::Broken)?.0));
        files.insert(format!("{STEP}/input.json"), File::text(&pretty(&request)));
        for dir in &order.spec.look_back.dirs {
            let (step, _) = tree::read(&run_dir.join(dir), &|_| true).map_err(Trouble::Broken)?;
            files.extend(below(&format!("{RUN}/{dir}"), step));
        }
        let agent = &order.spec.agent;
        let guest_tree = format!("{root}/{TREE}");
        let failed = |error: Error| Trouble::Broken(error.to_string());
        let mut argv = vec![in_guest(agent.program(), &self.context.layout.root, &guest_tree)];
        argv.extend(
            self.arguments(agent, Path::new(&guest_tree), on)
                .map_err(failed)?
                .into_iter()
                .filter_map(|word| word.into_string().ok()),
        );
        let mut env = agent::own_env(agent, None, &self.context.user_env);
        env.insert(MARKER.to_owned(), order.run.id.slug().to_string());
        env.insert("NORMA_STEP_DIR".to_owned(), format!("{root}/{STEP}"));
        let below = agent.path.as_deref().filter(|path| *path != ".");
        let cwd = below.map_or_else(|| TREE.to_owned(), |path| format!("{TREE}/{path}"));
        let stdin = serde_json::to_vec(&request).expect("BUG: a request is plain data");
        let work =
            Work { argv: &argv, files: &files, env, stdin: &stdin, cwd: &cwd, image: None, limits: limits(order) };
        let means = means(&self.context, &contract.backends, roots(&self.context, contract)?);
        backend::run(backend, &work, &means, &self.cancel)
    }

    /// Puts what was changed into the private directory, and what was written of the step where evidence is looked for.
    fn bring_back(&self, place: &Private, live_dir: &Path, left: &Left) -> Result<()> {
        let failed = |dir: &Path| {
            let dir = dir.to_owned();
            move |source| Error::io("write what came back to", &dir, source)
        };
        tree::apply(&place.source, &left.below(TREE)).map_err(failed(&place.source))?;
        let step = Left { removed: Vec::new(), ..left.below(STEP) };
        tree::apply(live_dir, &step).map_err(failed(live_dir))
    }

    /// Runs a test on a backend. What it wrote is in the directory that is answered.
    pub(crate) fn test_elsewhere(
        &mut self,
        on: &Ground<'_>,
        backend: Backend,
        test: Test<'_>,
    ) -> Result<std::result::Result<(Done, PathBuf), String>> {
        if let Some(why) = no_setup(on) {
            return Ok(Err(why));
        }
        let place = self.private(on)?;
        let guest_tree = format!("{}/{TREE}", backend::root(backend));
        let mut argv = test.argv.to_vec();
        argv[0] = in_guest(&argv[0], &self.context.layout.root, &guest_tree);
        let contract = &on.run.started.contract;
        let ran = place.files().and_then(|files| {
            let Test { env, limits, .. } = test;
            let work = Work { argv: &argv, files: &files, env, stdin: &[], cwd: TREE, image: None, limits };
            let means = means(&self.context, &contract.backends, roots(&self.context, contract)?);
            backend::run(backend, &work, &means, &self.cancel)
        });
        let mut done = match ran {
            Ok(done) => done,
            Err(trouble) => return Ok(Err(trouble.to_string())),
        };
        done.record = record(backend, &done.record);
        let left = done.left.below(TREE);
        tree::apply(&place.source, &left)
            .map_err(|source| Error::io("write what came back to", &place.source, source))?;
        Ok(Ok((done, place.source)))
    }
}

/// A checkout of a tree, and what of it stays here.
struct Private {
    source: PathBuf,
    secrets: Vec<PathBuf>,
    state: Option<String>,
}

impl Private {
    /// What is taken along.
    fn files(&self) -> std::result::Result<Files, Trouble> {
        let stays = |path: &str| {
            path == ".git"
                || self.state.as_deref() == Some(path)
                || self.secrets.iter().any(|secret| secret == Path::new(path))
        };
        let (files, left_out) = tree::read(&self.source, &|path| !stays(path)).map_err(Trouble::Broken)?;
        match left_out.first() {
            // A tree with a file missing is another tree.
            Some(why) => Err(Trouble::Broken(format!("not all of the tree can be taken along: {why}"))),
            None => Ok(below(TREE, files)),
        }
    }
}

fn below(dir: &str, files: Files) -> Files {
    files.into_iter().map(|(path, file)| (format!("{dir}/{path}"), file)).collect()
}

/// What a setup makes is a layer, and layers are for programs that the kernel confines.
fn no_setup(on: &Ground<'_>) -> Option<String> {
    let setup = &on.run.started.contract.workspace.setup;
    (!setup.is_empty()).then(|| "workspace.setup needs the native backend; leave it out, or use native here".to_owned())
}

/// A program as it is named there: one of the tree by its path, any other as it was written.
fn in_guest(program: &str, repository: &Path, guest_tree: &str) -> String {
    let inside = match Path::new(program).strip_prefix(repository) {
        Ok(inside) => inside.to_str(),
        Err(_) => (program.contains('/') && !program.starts_with('/')).then(|| program.trim_start_matches("./")),
    };
    inside.map_or_else(|| program.to_owned(), |inside| format!("{guest_tree}/{inside}"))
}

/// The request with the paths that are true there.
fn guest_request(sent: &AgentRequest, root: &str, earlier: &[String]) -> AgentRequest {
    let mut request = sent.clone();
    let moved = [
        (sent.paths.step_dir.clone(), format!("{root}/{STEP}")),
        (sent.paths.repo_root.clone(), format!("{root}/{TREE}")),
        (sent.paths.run_dir.clone(), format!("{root}/{RUN}")),
    ];
    for (here, there) in &moved {
        request.context.notes = request.context.notes.replace(here, there);
    }
    let [(_, step_dir), (_, tree), (_, run_dir)] = moved;
    request.paths.workspace_dir = request.paths.workspace_dir.map(|_| tree.clone());
    request.context.previous_step_dirs = earlier.iter().map(|dir| format!("{run_dir}/{dir}")).collect();
    (request.paths.step_dir, request.paths.repo_root, request.paths.run_dir) = (step_dir, tree, run_dir);
    request
}

fn pretty(request: &AgentRequest) -> String {
    String::from_utf8_lossy(&contract::json::pretty(request)).into_owned()
}
