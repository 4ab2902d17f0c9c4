//! The known agents: how one is started for a turn, how norma talks to it, and what is kept of that. An `exec` agent reads a request
//! and prints an answer; these are told a prompt, work while norma listens, and their last message is the answer.

mod access;
mod greet;
mod home;
mod installed;
mod ongoing;
mod saving;
pub(crate) mod spool;
mod talk;
mod threads;
pub mod tools;

use crate::context::Context;
use crate::process::{End, Limits, Outcome, Talk};
use crate::world::{Spoken, TurnOrder};
use crate::{Error, Result};
pub use access::Reach;
use access::{Access, Answering, DOOR};
pub(crate) use access::{reach, sign_in_problem, unused_address};
use contract::session::{ErrorKind, SessionError};
use contract::work::NetworkRight;
use contract::{AgentConfig, AgentType, Contract, PromptBlock, PromptBlocks, Sent, SessionOutcome, Usage, Usd};
use gateway::{Options, Price, Prices, Retries};
pub(crate) use greet::{Greeted, Greeter};
use home::{Home, TurnEnd};
use installed::installed;
pub(crate) use installed::{environment, program};
use ongoing::{Known, Ongoing, Place};
use run::TurnRights;
use run::prompt::blocks;
use run::redact::Redactor;
use sandbox::{Overlay, Placed, Root, Upper};
use saving::Saving;
pub(crate) use saving::Work;
use serde_json::Value;
use session::{Brief, Exit, Kind, Launch, Mode, ModelPlace, Rights, ToolServer, launch};
use spool::{Exchanges, Spool};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
pub(crate) use talk::Conversation;
use talk::Form;
use threads::Lasting;
pub(crate) use threads::Threads;

/// The name of the private home below the one that every program has inside.
const HOME: &str = "agent";

/// Room for what a command line keeps in its home during a turn.
const HOME_BYTES: u64 = 1 << 30;

/// How long a known agent may be silent where nothing else is configured: some of them wait without end for a provider
/// that does not answer.
const IDLE_DEFAULT: Duration = Duration::from_secs(600);

/// What an agent is told and given for a turn.
struct Terms {
    kind: Kind,
    mode: Mode,
    model: Option<String>,
    effort: Option<String>,
    base_url: Option<String>,
    cwd: String,
    home: String,
    step_dir: String,
    rights: Rights,
    schema: Value,
    /// Tools of norma's own, for a node of a graph.
    tools: Option<ToolServer>,
    args: Vec<String>,
    /// Variables that the configuration says.
    own_env: BTreeMap<String, String>,
    prompt: PromptBlocks,
    /// The conversation it continues.
    ongoing: Option<Ongoing>,
    access: Access,
    /// An address that the user's environment has for it and that does not count.
    unused_address: Option<String>,
}

/// An agent that is about to take a turn.
pub(crate) struct Engaged {
    terms: Terms,
    launch: Launch,
    home: Home,
    /// Where its conversation is kept, to continue.
    place: Place,
    /// Whether the next turn of its role continues it.
    continues: bool,
    /// What keeps it beyond the run, where anything does.
    lasting: Option<Lasting>,
    spool: Option<Spool>,
    /// What waits for the agent outside of any sandbox.
    free_door: Option<TcpListener>,
    /// Norma's program, where the sandbox has it.
    tools: Option<Placed>,
}

/// What the sandbox of a known agent has besides what every agent's has.
#[derive(Default)]
pub(crate) struct Extra {
    /// Variables.
    pub(crate) env: BTreeMap<String, String>,
    /// Variables that its configuration says, which go before those.
    pub(crate) own_env: BTreeMap<String, String>,
    /// Hosts, as `host:port`.
    pub(crate) network: Vec<String>,
    /// What it can read.
    pub(crate) read: Vec<Root>,
    /// Its home.
    pub(crate) home: Option<Overlay>,
    /// Where norma itself answers.
    pub(crate) door: Option<u16>,
    /// A program of norma's own that it may start.
    pub(crate) tools: Option<Placed>,
}

/// How a conversation is kept.
type Keep = fn(&Place, &Known, &[&OwnedFd]) -> Result<()>;

/// What a turn of an agent came to.
pub(crate) struct Ended {
    pub(crate) spoken: Spoken,
    pub(crate) notes: Vec<String>,
}

/// The kind of a configured agent; none for one without an interactive session.
pub(crate) fn kind_of(agent: &AgentConfig) -> Option<Kind> {
    known_kind(agent.kind)
}

/// The same of a type.
pub(crate) fn known_kind(kind: AgentType) -> Option<Kind> {
    Some(match kind {
        AgentType::Exec => return None,
        AgentType::Codex => Kind::Codex,
        AgentType::Claude => Kind::Claude,
        AgentType::Gemini => Kind::Gemini,
        AgentType::Opencode => Kind::Opencode,
        AgentType::Acp => Kind::Acp,
    })
}

/// What came of getting an agent ready.
pub(crate) enum Engagement {
    Ready(Box<Engaged>),
    /// What keeps it from being started.
    Refused(String),
}

/// What an agent is engaged with, whichever machine it is on.
pub(crate) struct Engaging<'e> {
    pub(crate) context: &'e Context,
    /// The directory of the turn's ground, which nobody else uses.
    pub(crate) private: PathBuf,
    /// Finds the secrets that must not be kept.
    pub(crate) redactor: Arc<Redactor>,
    /// What the base of the repository tells agents.
    pub(crate) repository: Option<PromptBlock>,
}

impl Engaging<'_> {
    pub(crate) fn engage(
        self,
        order: &TurnOrder<'_>,
        agent: &AgentConfig,
        kind: Kind,
        cwd: &Path,
        inside: Option<&Path>,
    ) -> Result<Engagement> {
        let Engaging { context, private, redactor, repository } = self;
        let (spec, name) = (order.spec, order.spec.step.dir_name());
        let home_dir = private.join(format!("home-{name}"));
        let limits = &order.run.started.contract.limits;
        let dir = private.join(format!("spool-{name}"));
        let spool = Spool::new(dir, u64::from(limits.evidence_mb) << 20, Arc::clone(&redactor))?;
        let exchanges = Arc::new(Exchanges::new(&spool.dir, Arc::clone(&redactor)));
        let access = match access(context, order, agent, kind, exchanges) {
            Ok(access) => access,
            Err(why) => return Ok(Engagement::Refused(why)),
        };
        let free_door = match (&access, inside) {
            (Access::Gateway(..), None) => Some(free_door()?),
            _ => None,
        };
        let port = match &free_door {
            Some(door) => door.local_addr().map_err(|source| Error::io("listen on", &private, source))?.port(),
            None => DOOR,
        };
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let home_inside = inside.map_or_else(|| home_dir.clone(), |home| home.join(HOME));
        let mut prompt = match order.again {
            Some(again) => again.prompt.clone(),
            None => blocks(order.request, spec.node.as_ref(), &context.templates, repository),
        };
        let session = spec.node.as_ref().map_or(0, |node| node.session);
        let kept = Place::of(kind, &conversations(context, order), spec.step, session);
        let (ongoing, sent) = match resumed(context, order, agent, &kept, &prompt) {
            Ok(resumed) => resumed,
            Err(why) => return Ok(Engagement::Refused(why)),
        };
        prompt.sent = sent;
        let told = Told::new(&access, agent, port, &context.user_env);
        let (norma, tools) = tools::norma_inside(&context.supervisor.program, inside.filter(|_| spec.node.is_some()));
        let terms = Terms {
            kind,
            mode: if spec.interactive { Mode::Live } else { Mode::OneShot },
            model: access.model(kind, agent).map(str::to_owned),
            effort: agent.effort.clone(),
            base_url: told.base_url,
            cwd: text(cwd),
            home: text(&home_inside),
            step_dir: order.request.paths.step_dir.clone(),
            rights: rights(&spec.rights),
            schema: spec.answer_schema(),
            tools: spec.node.as_ref().map(|_| tools::server(&norma, &order.request.paths.step_dir)),
            args: told.args,
            own_env: told.own_env,
            prompt,
            ongoing,
            access,
            unused_address: unused_address(kind, agent, &context.user_env),
        };
        let launch = launch(&terms.brief(&[&terms.step_dir]), terms.mode);
        let user_home = context.user_env.get(OsStr::new("HOME")).map(PathBuf::from);
        let sign_in = user_home.as_deref().filter(|_| matches!(terms.access, Access::SignIn));
        let files = terms.ongoing.as_ref().map(|ongoing| (kind, ongoing.files.as_path()));
        let home = Home::furnish(home_dir, &launch, sign_in.map(|home| (kind, home)), files)?;
        let (spool, continues) = (Some(spool), spec.continues);
        let lasts = inside.is_some() && order.again.is_none() && agent.resume != Some(false);
        let lasting = spec.item.as_ref().filter(|_| lasts && spec.node.is_none()).map(|item| Lasting {
            threads: Threads::new(context.layout.threads()),
            continued: item.thread.clone(),
            redactor,
        });
        let engaged = Engaged { terms, launch, home, place: kept, continues, lasting, spool, free_door, tools };
        Ok(Engagement::Ready(Box::new(engaged)))
    }
}

/// How an agent reaches its model: as its turn did before where it is taken again, else as its configuration says. The error
/// says what keeps it from that.
fn access(
    context: &Context,
    order: &TurnOrder<'_>,
    agent: &AgentConfig,
    kind: Kind,
    exchanges: Arc<Exchanges>,
) -> std::result::Result<Access, String> {
    if let Some(again) = order.again {
        return Ok(Access::Gateway(Arc::clone(&again.gateway), None));
    }
    let tls = &order.run.started.contract.tls;
    let roots = tls.extra_roots.as_ref().map(|path| context.layout.root.join(path));
    let options = gateway_options(order);
    Access::find(kind, agent, &context.user_env, order.ledger, exchanges, roots.as_deref(), options)
}

/// Where the conversations of a run are kept. One that is taken again from the record has others than the run itself.
fn conversations(context: &Context, order: &TurnOrder<'_>) -> PathBuf {
    let (layout, slug) = (&context.layout, order.run.id.slug());
    match order.again {
        Some(_) => layout.worktree(&slug).join("conversations"),
        None => layout.conversations(&slug),
    }
}

/// The conversation that a turn goes on with, and how much of its prompt is said in it. The error says what keeps it from that.
fn resumed(
    context: &Context,
    order: &TurnOrder<'_>,
    agent: &AgentConfig,
    kept: &Place,
    prompt: &PromptBlocks,
) -> std::result::Result<(Option<Ongoing>, Sent), String> {
    let own = match order.again {
        Some(again) if again.prompt.sent == Sent::Full => None,
        _ if agent.resume == Some(false) || order.spec.node.is_some() && !order.spec.continues => None,
        _ => kept.find(prompt),
    };
    match own {
        Some(own) => Ok((Some(own), Sent::Delta)),
        None if order.again.is_some_and(|again| again.prompt.sent == Sent::Delta) => {
            Err("the conversation that it went on with was cut off, and is not on record".to_owned())
        }
        None => Ok((named(context, order, kept)?, Sent::Full)),
    }
}

/// The conversation that the contract of a turn names. All is told in it: what was said there before is no instruction.
fn named(context: &Context, order: &TurnOrder<'_>, kept: &Place) -> std::result::Result<Option<Ongoing>, String> {
    let Some(thread) = order.spec.item.as_ref().and_then(|item| item.thread.as_deref()) else { return Ok(None) };
    if order.again.is_some() {
        return Err(format!("it continued conversation {thread}, which is not on record as it was then"));
    }
    let found = Threads::new(context.layout.threads()).find(kept.kind, thread);
    found.map(Some).ok_or_else(|| format!("conversation {thread}, which the contract names, is not kept any more"))
}

fn gateway_options(order: &TurnOrder<'_>) -> Options {
    // What the provider would reach for the agent, the agent would have reached.
    let network = order.spec.rights.network != NetworkRight::Deny;
    let prices = prices(&order.run.started.contract);
    Options { network, retries: retries(order), prices, ..Options::default() }
}

/// What models cost: as the contract says, else as the providers list it.
pub(crate) fn prices(contract: &Contract) -> Prices {
    let dollars = |usd: Usd| usd.0 as f64 / 1e6;
    contract.prices.iter().fold(Prices::default(), |prices, (model, price)| {
        let own = Price {
            input_per_million_usd: dollars(price.input),
            cached_per_million_usd: dollars(price.cached.unwrap_or(price.input)),
            cache_write_per_million_usd: None,
            cache_write_hour_per_million_usd: None,
            output_per_million_usd: dollars(price.output),
            long: None,
        };
        prices.with(model, own)
    })
}

/// How long a call to the model is made again: within the turn's time, and well before the silence of an agent that waits
/// for it is taken for a hang.
fn retries(order: &TurnOrder<'_>) -> Retries {
    let limits = &order.run.started.contract.limits;
    let wanted = Duration::from_secs(limits.provider_seconds().into());
    let idle = limits.idle_seconds.map_or(IDLE_DEFAULT, |seconds| Duration::from_secs(seconds.into()));
    Retries { patience: wanted.min(order.time_left).min(idle * 3 / 4), ..Retries::default() }
}

fn free_door() -> Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", 0)).map_err(|source| Error::io("listen on", Path::new("127.0.0.1"), source))
}

fn home_overlay(inside: &str, home: &Home) -> Overlay {
    Overlay {
        path: PathBuf::from(inside),
        lower: vec![home.dir.clone()],
        upper: Upper::Memory { bytes: HOME_BYTES },
        writable: true,
        reason: "the agent's own home".to_owned(),
    }
}

/// An error with what was found of its cause, unless it says that itself.
pub(crate) fn caused(error: SessionError, cause: &str) -> SessionError {
    let is_vague = matches!(error.kind, ErrorKind::Other | ErrorKind::Protocol) && !error.message.contains(cause);
    if !is_vague {
        return error;
    }
    SessionError { message: format!("{cause} ({})", error.message), ..error }
}

/// What an agent's program is told from outside of its protocol.
struct Told {
    /// Where norma answers in place of its provider.
    base_url: Option<String>,
    args: Vec<String>,
    own_env: BTreeMap<String, String>,
}

impl Told {
    fn new(access: &Access, agent: &AgentConfig, port: u16, user_env: &BTreeMap<OsString, OsString>) -> Told {
        let base_url = access.placeholder().map(|_| format!("http://127.0.0.1:{port}"));
        let place = access.place(agent, base_url.as_deref());
        let typed = if agent.kind.has_command() { &agent.cmd[1..] } else { &agent.args[..] };
        let args = typed.iter().map(|arg| place.as_ref().map_or_else(|| arg.clone(), |place| place.fill(arg)));
        Told { args: args.collect(), own_env: own_env(agent, place.as_ref(), user_env), base_url }
    }
}

/// The variables that an agent's configuration gives it: by value, with the place of its model filled in, and by name.
pub(crate) fn own_env(
    agent: &AgentConfig,
    place: Option<&ModelPlace<'_>>,
    user_env: &BTreeMap<OsString, OsString>,
) -> BTreeMap<String, String> {
    let told = place.map(ModelPlace::variables).unwrap_or_default();
    let told = told.into_iter().map(|(name, value)| (name.to_owned(), value));
    let passed = agent.pass_env.iter().filter_map(|name| {
        let value = user_env.get(OsStr::new(name))?.to_str()?;
        Some((name.clone(), value.to_owned()))
    });
    let said = agent
        .env
        .iter()
        .map(|(name, value)| (name.clone(), place.map_or_else(|| value.clone(), |place| place.fill(value))));
    told.chain(passed).chain(said).collect()
}

/// What an agent's own program is told that it may do.
fn rights(given: &TurnRights) -> Rights {
    Rights {
        write: given.write,
        shell: given.shell,
        network: given.network != NetworkRight::Deny,
        mcp_tools: given.mcp_tools.clone(),
    }
}

impl Terms {
    /// What the conversation that it continues had used.
    fn used_before(&self) -> Usage {
        self.ongoing.as_ref().map(|ongoing| ongoing.known.used).unwrap_or_default()
    }

    fn brief<'b>(&'b self, extra_write: &'b [&'b str]) -> Brief<'b> {
        Brief {
            kind: self.kind,
            model: self.model.as_deref(),
            effort: self.effort.as_deref(),
            base_url: self.base_url.as_deref(),
            api_key: self.access.placeholder(),
            key_variable: self.access.variable(self.kind),
            cwd: &self.cwd,
            home: &self.home,
            extra_write,
            rights: self.rights.clone(),
            tools: self.tools.as_ref(),
            output_schema: Some(&self.schema),
            resume: self.ongoing.as_ref().map(|ongoing| &*ongoing.known.id),
            used: self.used_before(),
            args: &self.args,
        }
    }
}

impl Engaged {
    /// What the program is started with.
    pub(crate) fn args(&self) -> &[String] {
        &self.launch.args
    }

    /// What its sandbox has besides what every agent's has.
    pub(crate) fn extra(&self, program: &Path) -> Extra {
        let home = home_overlay(&self.terms.home, &self.home);
        Extra {
            env: self.launch.env.clone(),
            own_env: self.terms.own_env.clone(),
            network: self.terms.access.hosts(self.terms.kind),
            read: installed(program, &self.launch.args),
            home: Some(home),
            door: matches!(self.terms.access, Access::Gateway(..)).then_some(DOOR),
            tools: self.tools.clone(),
        }
    }

    /// Which of a sandbox's layers is its home.
    pub(crate) fn home_layer(&self, policy: &sandbox::Policy) -> Option<usize> {
        policy.overlays.iter().position(|overlay| overlay.path == Path::new(&self.terms.home))
    }

    /// The variables it gets where nothing confines it: norma's, and those of its configuration, which go before them.
    pub(crate) fn env(&self) -> impl Iterator<Item = (&String, &String)> {
        self.launch.env.iter().chain(&self.terms.own_env)
    }

    /// The bounds of its turn.
    pub(crate) fn limits(&self, limits: Limits) -> Limits {
        Limits { idle: Some(limits.idle.unwrap_or(IDLE_DEFAULT)), ..limits }
    }

    /// Begins the conversation, and answers at the door.
    pub(crate) fn begin<'t>(
        &mut self,
        order: &TurnOrder<'t>,
        door: Option<TcpListener>,
        work: Option<Work>,
    ) -> Result<(Conversation<'t>, Option<Answering>)> {
        let spool = self.spool.take().expect("BUG: a turn is begun once");
        spool::configured(&spool, &self.launch.configured, matches!(self.terms.access, Access::Gateway(..)))?;
        let answering = match (&self.terms.access, door.or_else(|| self.free_door.take())) {
            (Access::Gateway(gateway, _), Some(door)) => Some(Answering::start(Arc::clone(gateway), door)?),
            _ => None,
        };
        let failed = |source| Error::io("speak with", Path::new(self.terms.kind.as_str()), source);
        let step_dir = [self.terms.step_dir.as_str()];
        let prompt = match &self.terms.ongoing {
            Some(ongoing) if self.terms.prompt.sent == Sent::Delta => self.terms.prompt.delta(&ongoing.known.told),
            _ => self.terms.prompt.full(),
        };
        let saving = work.zip(ongoing::home(&self.home.dir)).map(|(work, home)| {
            Saving::new(work, self.place.clone(), home, self.terms.prompt.clone(), self.terms.used_before())
        });
        let form =
            Form { role: order.spec.step.role, item: order.spec.item.clone(), schema: self.terms.schema.clone() };
        let (brief, mode) = (self.terms.brief(&step_dir), self.terms.mode);
        let talk = Conversation::open(&brief, mode, &prompt, form, spool, (order.witness, saving));
        Ok((talk.map_err(failed)?, answering))
    }

    /// What came of it, once nothing of the agent is alive. `home` is what it changed of its home. A conversation that came
    /// to a good end can continue, and so can one that was cut off.
    pub(crate) fn end(
        self,
        mut talk: Conversation<'_>,
        answering: Option<Answering>,
        outcome: &mut Outcome,
        home: Option<&OwnedFd>,
    ) -> Result<Ended> {
        drop(answering);
        let exit = match outcome.end {
            End::Exited(code) => Exit::Code(code),
            // It had nothing more to do, and was sent away.
            End::Signaled(_) if talk.is_done() => Exit::Code(0),
            End::Signaled(signal) => Exit::Signal(signal),
            _ => Exit::Killed,
        };
        let ended = talk.finish(exit);
        let (usage, refused) = self.usage(ended.usage);
        let out_of_budget = refused.is_some();
        let error = match refused {
            Some(message) => Some(SessionError { kind: ErrorKind::Other, message, status: None }),
            None => ended.error.map(|said| self.explained(said)),
        };
        // One that never came to speak says why on stderr only.
        let cause = session::cause(&outcome.stderr.bytes).filter(|_| ended.session_id.is_none());
        let error = match (error, cause) {
            (Some(error), Some(cause)) => Some(talk.spool.without_secrets(caused(error, &cause))),
            (error, _) => error,
        };
        let is_limited = error.as_ref().is_some_and(|error| matches!(error.kind, ErrorKind::RateLimited { .. }));
        let is_cut_off = exit == Exit::Killed || is_limited;
        match &ended.session_id {
            Some(id) if ended.ok && self.continues => self.keep(Place::keep, id, ended.usage, home)?,
            Some(id) if is_cut_off => self.keep(Place::keep_cut_off, id, ended.usage, home)?,
            _ => self.place.forget()?,
        }
        let lasting = self.lasting.as_ref().zip(ended.session_id.as_deref());
        let not_kept = match lasting.filter(|_| ended.ok && !out_of_budget) {
            Some((lasting, id)) => {
                self.with_homes(home, |homes| lasting.keep(self.terms.kind, &self.known(id, ended.usage), homes))
            }
            None => None,
        };
        let strayed = lasting.and_then(|(lasting, id)| lasting.strayed(id));
        let said = SessionOutcome {
            agent: self.terms.kind.as_str().to_owned(),
            protocol: self.launch.protocol.as_str().to_owned(),
            ok: ended.ok && !out_of_budget,
            session_id: ended.session_id,
            usage,
            error,
            tool_ops: ended.tool_ops,
            out_of_budget,
            redacted: talk.spool.redacted(),
        };
        if said.ok {
            // It was sent away after all was said, and left as it could.
            outcome.end = End::Exited(0);
        }
        let mut notes: Vec<String> = talk.spool.finish()?.into_iter().collect();
        notes.extend(self.gateway_notes());
        notes.extend(strayed.into_iter().chain(not_kept));
        notes.extend(self.terms.unused_address.clone());
        notes.extend(talk.asked_again.take().map(|why| format!("the agent was asked once more for its answer: {why}")));
        talk.spool.document("outcome.json", &serde_json::to_value(&said).expect("BUG: an outcome is plain data"))?;
        let has_ended_well = said.ok && ended.answer.is_some();
        let end = if has_ended_well { TurnEnd::Well(store::now()) } else { TurnEnd::Badly };
        notes.extend(self.home.bring_back(home, end)?);
        let spool = talk.spool.dir.clone();
        let spoken = Spoken { outcome: said, answer: ended.answer, prompt: self.terms.prompt.clone(), spool };
        Ok(Ended { spoken, notes })
    }

    /// What was noticed of the calls to the model.
    fn gateway_notes(&self) -> Vec<String> {
        let Access::Gateway(gateway, variable) = &self.terms.access else { return Vec::new() };
        let totals = gateway.totals();
        let short = variable.as_deref().filter(|_| !gateway.hides_its_key());
        let short =
            short.map(|name| format!("the key in {name} is a short word, and not searched for in what is kept"));
        let again = |times| format!("the provider failed for the moment, and calls were made again: {times}");
        let refused = |why| format!("a call to the model was refused: {why}");
        let retries = Some(totals.retries).filter(|times| *times > 0).map(again);
        retries.into_iter().chain(totals.refused_for_network.map(refused)).chain(short).collect()
    }

    /// Keeps the conversation: as the agent found it, with what it changed.
    fn keep(&self, how: Keep, id: &str, used: Usage, changed: Option<&OwnedFd>) -> Result<()> {
        self.with_homes(changed, |homes| how(&self.place, &self.known(id, used), homes))
    }

    /// What is known of its conversation, now that it has used so much in this turn.
    fn known(&self, id: &str, used: Usage) -> Known {
        let mut all = self.terms.used_before();
        all.add(&used);
        let agent = self.terms.kind.as_str().to_owned();
        Known { agent, id: id.to_owned(), told: self.terms.prompt.clone(), used: all }
    }

    /// Its home as it found it, and what it changed of it.
    fn with_homes<T>(&self, changed: Option<&OwnedFd>, each: impl FnOnce(&[&OwnedFd]) -> T) -> T {
        let found = ongoing::home(&self.home.dir);
        let homes: Vec<&OwnedFd> = found.iter().chain(changed).collect();
        each(&homes)
    }

    /// What went wrong: what the provider last did to the agent, where it does not know or had no time to say.
    fn explained(&self, said: SessionError) -> SessionError {
        let Access::Gateway(gateway, _) = &self.terms.access else { return said };
        let by_provider = gateway.totals().last_error.map(|(status, after)| session::provider_error(status, after));
        // Agents pass on that there is a limit, and often not for how long.
        let is_vague = matches!(
            said.kind,
            ErrorKind::Other | ErrorKind::RateLimited { reset_after_seconds: None, resets_at: None }
        );
        by_provider.filter(|error| is_vague && error.kind != ErrorKind::Other).unwrap_or(said)
    }

    /// What was used: by the gateway's count where there is one, else by the agent's; and whether a budget ended it.
    fn usage(&self, by_agent: Usage) -> (Usage, Option<String>) {
        let Access::Gateway(gateway, _) = &self.terms.access else { return (by_agent, None) };
        let totals = gateway.totals();
        let counted = Usage {
            input_tokens: totals.usage.input_tokens,
            output_tokens: totals.usage.output_tokens,
            cached_tokens: totals.usage.cached_tokens,
            reasoning_tokens: totals.usage.reasoning_tokens,
            // An agent that knows no price says that it was nothing.
            cost_micro_usd: totals.usage.cost_micro_usd.or(by_agent.cost_micro_usd.filter(|cost| *cost > 0)),
        };
        (counted, totals.refused_for_budget)
    }
}
