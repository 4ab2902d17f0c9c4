//! A handshake: an agent that speaks ACP is started, opens a session and is sent away. That shows that it starts where it is
//! confined, speaks the protocol and is signed in, without a word to its model: whatever it asks norma's gateway for that
//! costs something is refused.

use super::access::{Access, Answering, DOOR};
use super::home::Home;
use super::installed::installed;
use super::spool::Exchanges;
use super::talk::Lines;
use super::{Extra, HOME, Told, home_overlay};
use crate::Result;
use crate::context::Context;
use crate::process::{Cancel, Talk};
use contract::{AgentConfig, Config, SessionEvent};
use gateway::{Amount, Budget, Ledger, Options};
use run::redact::Redactor;
use session::{Act, Brief, Exit, Kind, Launch, Mode, Rights, Session, launch};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// An agent that is about to be greeted.
pub(crate) struct Greeter {
    launch: Launch,
    own_env: BTreeMap<String, String>,
    home: Home,
    home_inside: String,
    cwd: String,
    access: Access,
}

impl Greeter {
    /// Gets everything ready, below a directory that nobody else uses; the inner error says what keeps the agent from being
    /// started. `home` is the home that every program has inside.
    pub(crate) fn new(
        context: &Context,
        config: &Config,
        agent: &AgentConfig,
        private: &Path,
        home: &Path,
        redactor: &Arc<Redactor>,
    ) -> Result<std::result::Result<Greeter, String>> {
        let exchanges = Arc::new(Exchanges::new(private, Arc::clone(redactor)));
        let nothing = Budget { max_tokens: Some(0), ..Budget::default() };
        let ledger = Arc::new(Ledger::new(nothing, Amount::default()));
        let roots = config.tls.extra_roots.as_ref().map(|path| context.layout.root.join(path));
        let options = Options::default();
        let env = &context.user_env;
        let access = match Access::find(Kind::Acp, agent, env, &ledger, exchanges, roots.as_deref(), options) {
            Ok(access) => access,
            Err(why) => return Ok(Err(why)),
        };
        let Told { args, own_env, .. } = Told::new(&access, agent, DOOR, env);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (cwd, home_inside) = (text(&context.layout.root), text(&home.join(HOME)));
        let launch = launch(&brief(&cwd, &home_inside, &args), Mode::Live);
        let home = Home::furnish(private.join("home"), &launch, None, None)?;
        Ok(Ok(Greeter { launch, own_env, home, home_inside, cwd, access }))
    }

    pub(crate) fn args(&self) -> &[String] {
        &self.launch.args
    }

    /// What its sandbox has besides what every agent's has.
    pub(crate) fn extra(&self, program: &Path, agent: &AgentConfig) -> Extra {
        Extra {
            env: self.launch.env.clone(),
            own_env: self.own_env.clone(),
            network: agent.network.clone(),
            read: installed(program, &self.launch.args),
            home: Some(home_overlay(&self.home_inside, &self.home)),
            door: matches!(self.access, Access::Gateway(..)).then_some(DOOR),
            tools: None,
        }
    }

    /// Begins, and answers at the door. `cancel` is told when the agent may go.
    pub(crate) fn begin(&self, door: Option<TcpListener>, cancel: Cancel) -> Result<(Greeting, Option<Answering>)> {
        let answering = match (&self.access, door) {
            (Access::Gateway(gateway, _), Some(door)) => Some(Answering::start(Arc::clone(gateway), door)?),
            _ => None,
        };
        let (session, acts) = Session::greet(&brief(&self.cwd, &self.home_inside, &self.launch.args));
        let mut greeting = Greeting { session, lines: Lines::default(), words: Vec::new(), opened: None, cancel };
        greeting.perform(acts);
        Ok((greeting, answering))
    }
}

fn brief<'b>(cwd: &'b str, home: &'b str, args: &'b [String]) -> Brief<'b> {
    Brief {
        kind: Kind::Acp,
        model: None,
        effort: None,
        base_url: None,
        api_key: None,
        key_variable: None,
        cwd,
        home,
        extra_write: &[],
        rights: Rights::default(),
        tools: None,
        output_schema: None,
        resume: None,
        used: contract::Usage::default(),
        args,
    }
}

/// The conversation of a handshake.
pub(crate) struct Greeting {
    session: Session,
    lines: Lines,
    words: Vec<u8>,
    opened: Option<Opened>,
    cancel: Cancel,
}

/// What an agent told of the session that it opened.
#[derive(Default)]
struct Opened {
    model: Option<String>,
}

/// What came of it.
pub(crate) struct Greeted {
    /// What the agent calls itself.
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    /// The ways to sign in that it offers.
    pub(crate) ways_to_sign_in: Vec<String>,
    /// Whether it was waiting for somebody to sign in.
    pub(crate) is_signing_in: bool,
    /// What kept it from opening a session.
    pub(crate) error: Option<contract::session::SessionError>,
}

impl Greeting {
    /// What came of it, once the agent is gone.
    pub(crate) fn end(self, exit: Exit) -> Greeted {
        let error = match self.opened {
            Some(_) => None,
            None => self.session.finish(exit).error,
        };
        Greeted {
            agent: self.session.agent().map(str::to_owned),
            model: self.opened.and_then(|opened| opened.model),
            ways_to_sign_in: self.session.ways_to_sign_in().to_vec(),
            is_signing_in: self.session.is_signing_in(),
            error,
        }
    }

    fn perform(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Say(words) => self.words.extend(words),
                Act::Tell(SessionEvent::Session { model, .. }) => {
                    self.opened = Some(Opened { model });
                    self.cancel.cancel();
                }
                Act::CloseInput => self.cancel.cancel(),
                // It was asked for nothing yet.
                Act::Tell(_) | Act::Ask(_) | Act::WriteFile { .. } => {}
            }
        }
    }
}

impl Talk for Greeting {
    fn hear(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        let heard = lines.feed(bytes, |line| {
            let acts = self.session.hear(line);
            self.perform(acts);
            Ok(())
        });
        self.lines = lines;
        heard
    }

    fn take_words(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.words)
    }

    fn is_over(&self) -> bool {
        false
    }

    fn is_done(&self) -> bool {
        false
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn next_look(&self) -> Option<Instant> {
        None
    }

    fn look(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> bool {
        false
    }
}
