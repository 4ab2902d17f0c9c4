//! How an agent reaches its model. With a key it speaks to norma's gateway, and the key stays outside. With a sign-in of
//! its own it speaks to its provider, and gets a copy of that sign-in and a way to the provider's hosts; nothing else.

use super::spool::Exchanges;
use crate::{Error, Result};
use contract::AgentConfig;
use gateway::{Api, Budget, Gateway, Key, Upstream};
use run::Run;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use session::Kind;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::{JoinHandle, spawn};

/// Where the gateway is inside a sandbox.
pub(super) const DOOR: u16 = 4180;

/// What a program is given where norma holds the key.
const PLACEHOLDER: &str = "norma-holds-the-key";

/// See the module.
pub(super) enum Access {
    /// Over norma.
    Gateway(Arc<Gateway>),
    /// With what the user signed in with.
    SignIn,
    /// By what the configuration says, which is all that is known of it.
    Configured,
}

impl Access {
    /// How this agent gets to its model; an error says what a person has to do.
    pub(super) fn find(
        kind: Kind,
        agent: &AgentConfig,
        user_env: &BTreeMap<OsString, OsString>,
        run: &Run,
        exchanges: Arc<Exchanges>,
    ) -> std::result::Result<Access, String> {
        let Some(api) = api(kind) else { return Ok(Access::Configured) };
        let key = key(kind, agent, user_env);
        if key.is_none() && agent.base_url.is_none() {
            return if signed_in(kind, user_env) { Ok(Access::SignIn) } else { Err(how_to_sign_in(kind, agent)) };
        }
        let key = match key {
            Some((name, value)) => Key::new(&value).map_err(|problem| format!("{name}: {problem}"))?,
            None => Key::none(),
        };
        let base_url = agent.base_url.as_deref().or_else(|| session::default_base_url(kind)).unwrap_or_default();
        let upstream = Upstream { api, base_url: base_url.to_owned(), key, extra_roots_pem: None };
        let gateway = Gateway::live(upstream, budget(run), exchanges).map_err(|problem| problem.to_string())?;
        Ok(Access::Gateway(Arc::new(gateway)))
    }

    /// The key that the program is given.
    pub(super) fn placeholder(&self) -> Option<&'static str> {
        matches!(self, Access::Gateway(_)).then_some(PLACEHOLDER)
    }

    /// The hosts that the program itself needs.
    pub(super) fn hosts(&self, kind: Kind) -> Vec<String> {
        match self {
            Access::SignIn => session::hosts(kind).iter().map(|host| (*host).to_owned()).collect(),
            Access::Gateway(_) | Access::Configured => Vec::new(),
        }
    }
}

/// What the provider of a kind speaks; none where nothing is known of it.
fn api(kind: Kind) -> Option<Api> {
    Some(match kind {
        Kind::Codex => Api::OpenAi,
        Kind::Claude => Api::Anthropic,
        Kind::Gemini => Api::Gemini,
        Kind::Opencode => Api::OpenAiChat,
        Kind::Acp => return None,
    })
}

/// How an agent reaches its model, as far as that can be told without trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// With a key from this variable, which norma holds.
    Key(String),
    /// At the configured address, without a key.
    Address(String),
    /// With what the user signed in with.
    SignIn,
    /// Whatever the program itself does.
    Own,
    /// Not at all; what to do about it.
    Not(String),
}

/// How an agent reaches its model.
pub(crate) fn reach(kind: Kind, agent: &AgentConfig, user_env: &BTreeMap<OsString, OsString>) -> Reach {
    if api(kind).is_none() {
        return Reach::Own;
    }
    match (key(kind, agent, user_env), &agent.base_url) {
        (Some((name, _)), _) => Reach::Key(name),
        (None, Some(url)) => Reach::Address(url.clone()),
        (None, None) if signed_in(kind, user_env) => Reach::SignIn,
        (None, None) => Reach::Not(how_to_sign_in(kind, agent)),
    }
}

/// What keeps an agent from its model before anything is tried; none if it can be tried.
pub(crate) fn sign_in_problem(
    kind: Kind,
    agent: &AgentConfig,
    user_env: &BTreeMap<OsString, OsString>,
) -> Option<String> {
    match reach(kind, agent, user_env) {
        Reach::Not(what_to_do) => Some(what_to_do),
        _ => None,
    }
}

/// The variable that holds a key, and the key.
fn key(kind: Kind, agent: &AgentConfig, user_env: &BTreeMap<OsString, OsString>) -> Option<(String, String)> {
    let usual = session::key_variables(kind).iter().copied();
    let names: Vec<&str> = match &agent.key_env {
        Some(name) => vec![name],
        None => usual.collect(),
    };
    names.into_iter().find_map(|name| {
        let value = user_env.get(OsStr::new(name))?.to_str().filter(|value| !value.is_empty())?;
        Some((name.to_owned(), value.to_owned()))
    })
}

/// Whether the user has signed in with the provider on this machine.
fn signed_in(kind: Kind, user_env: &BTreeMap<OsString, OsString>) -> bool {
    let home = user_env.get(OsStr::new("HOME"));
    home.is_some_and(|home| session::sign_in_files(kind).iter().any(|file| Path::new(home).join(file).is_file()))
}

/// What to do about an agent that nobody signed in.
fn how_to_sign_in(kind: Kind, agent: &AgentConfig) -> String {
    let variable = agent.key_env.as_deref().or_else(|| session::key_variables(kind).first().copied());
    format!(
        "{0} is not signed in: set {1}, or sign in with `{0}` itself",
        kind.as_str(),
        variable.unwrap_or("its key's variable")
    )
}

fn budget(run: &Run) -> Budget {
    let budgets = &run.started.contract.budgets;
    Budget {
        max_tokens: budgets.max_tokens.map(|most| most.saturating_sub(run.spent.tokens())),
        max_cost_micro_usd: budgets
            .max_cost_usd
            .map(|most| most.0.saturating_sub(run.spent.cost_micro_usd.unwrap_or(0))),
    }
}

/// A gateway that answers on a listener, as long as this lives.
pub(crate) struct Answering {
    gateway: Arc<Gateway>,
    stop: Arc<OwnedFd>,
    accepting: Option<JoinHandle<()>>,
}

impl Answering {
    pub(super) fn start(gateway: Arc<Gateway>, door: TcpListener) -> Result<Answering> {
        let failed = |source| Error::io("answer on", Path::new("the gateway's door"), source);
        door.set_nonblocking(true).map_err(failed)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = Arc::new(eventfd(0, flags).map_err(|errno| failed(errno.into()))?);
        let (serving, stopping) = (Arc::clone(&gateway), Arc::clone(&stop));
        let accepting = Some(spawn(move || accept_until(&stopping, &door, &serving)));
        Ok(Answering { gateway, stop, accepting })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The only possible failure is a full counter, and then it is readable already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        self.gateway.stop();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept_until(stop: &OwnedFd, door: &TcpListener, gateway: &Arc<Gateway>) {
    loop {
        let mut watched = [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(door.as_fd(), PollFlags::IN)];
        if rustix::event::poll(&mut watched, None).is_err() {
            continue;
        }
        if !watched[0].revents().is_empty() {
            return;
        }
        let Ok((client, _)) = door.accept() else { continue };
        if client.set_nonblocking(false).is_ok() {
            let gateway = Arc::clone(gateway);
            spawn(move || gateway.serve(client));
        }
    }
}
