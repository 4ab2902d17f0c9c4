//! How an agent reaches its model. With a key it speaks to norma's gateway, and the key stays outside. With a sign-in of
//! its own it speaks to its provider, and gets a copy of that sign-in and a way to the provider's hosts; nothing else.

use super::spool::Exchanges;
use crate::{Error, Result};
use contract::{AgentConfig, ModelApi};
use gateway::{Api, Gateway, Key, Ledger, Options, Upstream};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use session::{KeyPlace, Kind, ModelPlace};
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

pub(super) enum Access {
    /// Over norma, which holds what is in this variable.
    Gateway(Arc<Gateway>, Option<String>),
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
        ledger: &Arc<Ledger>,
        exchanges: Arc<Exchanges>,
        extra_roots: Option<&Path>,
        options: Options,
    ) -> std::result::Result<Access, String> {
        let (key, variable, base_url) = match reach(kind, agent, user_env) {
            Reach::Not(what_to_do) => return Err(what_to_do),
            Reach::SignIn => return Ok(Access::SignIn),
            Reach::Own => return Ok(Access::Configured),
            Reach::Address(base_url) => (Key::none(), None, base_url),
            Reach::Key(variable) => {
                let found = key(kind, agent, user_env).ok_or_else(|| how_to_sign_in(kind, agent))?;
                let key = Key::new(&found.value).map_err(|problem| format!("{variable}: {problem}"))?;
                let key = if found.place.bearer { key.as_bearer() } else { key };
                let base_url = agent.base_url.clone().unwrap_or_else(|| found.place.base_url.to_owned());
                (key, Some(variable), base_url)
            }
        };
        let api = api(kind, agent).expect("BUG: a way over norma is known of an API only");
        let variable_of = |names: [&str; 2]| {
            let value = names.iter().find_map(|name| user_env.get(OsStr::new(name))?.to_str());
            value.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let upstream = Upstream {
            api,
            base_url,
            key,
            extra_roots_pem: extra_roots.map(read_roots).transpose()?,
            proxy: variable_of(["HTTPS_PROXY", "https_proxy"]),
            no_proxy: variable_of(["NO_PROXY", "no_proxy"]),
        };
        let gateway = Gateway::live_with(upstream, Arc::clone(ledger), exchanges, options);
        let gateway = gateway.map_err(|problem| problem.to_string())?;
        Ok(Access::Gateway(Arc::new(gateway), variable))
    }

    /// The variable that holds the key outside, if it is one that the program itself knows.
    pub(super) fn variable(&self, kind: Kind) -> Option<&'static str> {
        let Access::Gateway(_, Some(variable)) = self else { return None };
        session::keys(kind).iter().map(|place| place.variable).find(|known| known == variable)
    }

    /// The model as whoever is asked for it names it. A provider that is reached over norma does not know its own name
    /// before those of its models, which says only where they are.
    pub(super) fn model<'m>(&self, kind: Kind, agent: &'m AgentConfig) -> Option<&'m str> {
        let model = agent.model.as_deref()?;
        let of_provider = of_provider(kind, agent).filter(|_| matches!(self, Access::Gateway(..)));
        Some(of_provider.map_or(model, |(_, model)| model))
    }

    /// The key that the program is given.
    pub(super) fn placeholder(&self) -> Option<&'static str> {
        matches!(self, Access::Gateway(..)).then_some(PLACEHOLDER)
    }

    /// Where an agent that speaks ACP finds its model at this address of norma's, if it goes over norma.
    pub(super) fn place<'p>(&self, agent: &'p AgentConfig, url: Option<&'p str>) -> Option<ModelPlace<'p>> {
        let (api, url, key) = (agent.api?, url?, self.placeholder()?);
        Some(ModelPlace { api, url, key, model: agent.model.as_deref() })
    }

    /// The hosts that the program itself needs.
    pub(super) fn hosts(&self, kind: Kind) -> Vec<String> {
        match self {
            Access::SignIn => session::hosts(kind).iter().map(|host| (*host).to_owned()).collect(),
            Access::Gateway(..) | Access::Configured => Vec::new(),
        }
    }
}

fn read_roots(path: &Path) -> std::result::Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("tls.extra_roots: could not read {}: {error}", path.display()))
}

/// What the provider of an agent speaks; none where nothing is known of it.
fn api(kind: Kind, agent: &AgentConfig) -> Option<Api> {
    Some(match (kind, agent.api) {
        (Kind::Codex, _) => Api::OpenAi,
        (Kind::Claude, _) | (Kind::Acp, Some(ModelApi::Anthropic)) => Api::Anthropic,
        (Kind::Gemini, _) | (Kind::Acp, Some(ModelApi::Gemini)) => Api::Gemini,
        (Kind::Opencode, _) => Api::OpenAiChat,
        (Kind::Acp, Some(ModelApi::Openai)) => Api::OpenAiAny,
        (Kind::Acp, None) => return None,
    })
}

/// The variables that may hold the key of an agent. That of one that speaks ACP is for the provider of its API, as the
/// make that is known of that provider has it.
fn places(kind: Kind, agent: &AgentConfig) -> &'static [KeyPlace<'static>] {
    session::keys(match (kind, agent.api) {
        (Kind::Acp, Some(ModelApi::Anthropic)) => Kind::Claude,
        (Kind::Acp, Some(ModelApi::Openai)) => Kind::Codex,
        (Kind::Acp, Some(ModelApi::Gemini)) => Kind::Gemini,
        _ => kind,
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
    if let Some(what_to_do) = unset_variable(agent, user_env) {
        return Reach::Not(what_to_do);
    }
    if api(kind, agent).is_none() {
        return Reach::Own;
    }
    match (key(kind, agent, user_env), &agent.base_url) {
        (Some(_), None) if needs_model(kind, agent) => Reach::Not(name_a_model(kind)),
        (Some(found), _) => Reach::Key(found.variable),
        (None, Some(url)) => Reach::Address(url.clone()),
        (None, None) if signed_in(kind, user_env) => Reach::SignIn,
        (None, None) => Reach::Not(how_to_sign_in(kind, agent)),
    }
}

/// An address of the model that the user's environment has for the program itself, and that does not count here: a key is
/// shown to nobody whom the configuration does not name.
pub(crate) fn unused_address(
    kind: Kind,
    agent: &AgentConfig,
    user_env: &BTreeMap<OsString, OsString>,
) -> Option<String> {
    let is_set = |name: &&&str| user_env.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
    let name = session::addresses(kind).iter().find(is_set).filter(|_| agent.base_url.is_none())?;
    let kind = kind.as_str();
    Some(format!(
        "{name} is set but not used: put it in the configuration, \"agents\": {{ \"{kind}\": {{ \"type\": \"{kind}\", \"base_url\": \"…\" }} }}"
    ))
}

/// What to do about a variable that the agent is to be given and that is not set.
fn unset_variable(agent: &AgentConfig, user_env: &BTreeMap<OsString, OsString>) -> Option<String> {
    let is_set = |name: &&String| user_env.get(OsStr::new(*name)).is_some_and(|value| !value.is_empty());
    let missing = agent.pass_env.iter().find(|name| !is_set(name))?;
    Some(format!("set {missing}, which it is to be given (\"pass_env\")"))
}

/// What the name of a model says of where it is, if it says it. At an address of one's own it says nothing.
fn of_provider(kind: Kind, agent: &AgentConfig) -> Option<(&'static KeyPlace<'static>, &str)> {
    let (provider, model) = agent.model.as_deref().filter(|_| agent.base_url.is_none())?.split_once('/')?;
    let place = session::keys(kind).iter().find(|place| place.provider == Some(provider))?;
    Some((place, model))
}

/// Whether an agent has no model of its own choice for a key.
fn needs_model(kind: Kind, agent: &AgentConfig) -> bool {
    agent.model.is_none() && session::keys(kind).iter().any(|place| place.provider.is_some())
}

fn name_a_model(kind: Kind) -> String {
    let provider = session::keys(kind).iter().find_map(|place| place.provider).unwrap_or_default();
    format!(
        "{kind} has many providers: set its \"model\" in the configuration, as in \"{provider}/NAME\"",
        kind = kind.as_str()
    )
}

/// What keeps an agent from its model before anything is tried; none if it can be tried. Of one without an interactive session
/// only its variables are known.
pub(crate) fn sign_in_problem(
    kind: Option<Kind>,
    agent: &AgentConfig,
    user_env: &BTreeMap<OsString, OsString>,
) -> Option<String> {
    let Some(kind) = kind else { return unset_variable(agent, user_env) };
    match reach(kind, agent, user_env) {
        Reach::Not(what_to_do) => Some(what_to_do),
        _ => None,
    }
}

/// A key that was found.
struct Found {
    variable: String,
    value: String,
    place: &'static KeyPlace<'static>,
}

/// The key for an agent's model. A key is only ever shown to whom it is for: to the provider of its variable, or to the
/// address that the configuration gives in its place.
fn key(kind: Kind, agent: &AgentConfig, user_env: &BTreeMap<OsString, OsString>) -> Option<Found> {
    let usual = match of_provider(kind, agent) {
        Some((place, _)) => std::slice::from_ref(place),
        // An address of one's own stands for the first of several providers.
        None if agent.base_url.is_some() => of_first(places(kind, agent)),
        None => places(kind, agent),
    };
    let first = usual.first()?;
    let own = agent.key_env.as_deref().map(|name| (name, first));
    let places = own.map_or_else(|| usual.iter().map(|place| (place.variable, place)).collect(), |own| vec![own]);
    places.into_iter().find_map(|(name, place)| {
        let value = user_env.get(OsStr::new(name))?.to_str().filter(|value| !value.is_empty())?;
        Some(Found { variable: name.to_owned(), value: value.to_owned(), place })
    })
}

fn of_first(places: &'static [KeyPlace<'static>]) -> &'static [KeyPlace<'static>] {
    let same = places.iter().take_while(|place| place.provider == places[0].provider).count();
    &places[..same]
}

/// Whether the user has signed in with the provider on this machine.
fn signed_in(kind: Kind, user_env: &BTreeMap<OsString, OsString>) -> bool {
    let home = user_env.get(OsStr::new("HOME"));
    home.is_some_and(|home| session::sign_in_files(kind).any(|file| Path::new(home).join(file).is_file()))
}

/// What to do about an agent that nobody signed in.
fn how_to_sign_in(kind: Kind, agent: &AgentConfig) -> String {
    let usual = of_provider(kind, agent).map(|(place, _)| place).or_else(|| places(kind, agent).first());
    let variable = agent.key_env.as_deref().or_else(|| usual.map(|place| place.variable));
    let variable = variable.unwrap_or("its key's variable");
    if kind == Kind::Acp {
        return format!("its model needs a key: set {variable}, or \"base_url\" for one that needs none");
    }
    let sign_in = session::sign_in(kind).unwrap_or(kind.as_str());
    format!("{} is not signed in: set {variable}, or sign in with: {sign_in}", kind.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;
    use contract::AgentType;

    const ALL: [&str; 5] =
        ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_API_KEY"];

    /// Who is shown which variable, by how an agent is configured and what is set.
    fn shown(agent: &AgentConfig, kind: Kind, set: &[&str]) -> Option<(String, String)> {
        let env = set.iter().map(|name| (OsString::from(name), OsString::from("a-secret-value"))).collect();
        let found = key(kind, agent, &env)?;
        let to = agent.base_url.clone().unwrap_or_else(|| found.place.base_url.to_owned());
        Some((found.variable, to))
    }

    fn opencode(model: Option<&str>, base_url: Option<&str>) -> AgentConfig {
        let (model, base_url) = (model.map(str::to_owned), base_url.map(str::to_owned));
        AgentConfig { model, base_url, ..AgentConfig::of(AgentType::Opencode) }
    }

    #[track_caller]
    fn check(agent: &AgentConfig, set: &[&str], expected: Option<(&str, &str)>) {
        let expected = expected.map(|(variable, to)| (variable.to_owned(), to.to_owned()));
        assert_eq!(shown(agent, Kind::Opencode, set), expected);
    }

    #[test]
    fn a_key_is_shown_to_its_own_provider_only() {
        let of = |model| opencode(Some(model), None);
        check(&of("anthropic/claude-x"), &ALL, Some(("ANTHROPIC_API_KEY", "https://api.anthropic.com/v1")));
        check(&of("openrouter/a/b"), &ALL, Some(("OPENROUTER_API_KEY", "https://openrouter.ai/api/v1")));
        check(&of("anthropic/claude-x"), &["OPENAI_API_KEY"], None);
        check(&of("gpt-x"), &ALL, Some(("OPENAI_API_KEY", "https://api.openai.com/v1")));
        check(&of("glm-x"), &["OPENCODE_API_KEY"], Some(("OPENCODE_API_KEY", "https://opencode.ai/zen/v1")));
        let own = opencode(Some("anthropic/claude-x"), Some("http://127.0.0.1:1"));
        check(&own, &ALL, Some(("OPENAI_API_KEY", "http://127.0.0.1:1")));
        check(&own, &["ANTHROPIC_API_KEY"], None);
        let named = AgentConfig { key_env: Some("MINE".to_owned()), ..own };
        check(&named, &ALL, None);
        check(&named, &["MINE"], Some(("MINE", "http://127.0.0.1:1")));
    }

    #[test]
    fn an_address_that_does_not_count_is_named() {
        let env = |name: &str| BTreeMap::from([(OsString::from(name), OsString::from("http://proxy.example"))]);
        let claude = AgentConfig::of(AgentType::Claude);
        let told = unused_address(Kind::Claude, &claude, &env("ANTHROPIC_BASE_URL")).unwrap();
        assert!(told.starts_with("ANTHROPIC_BASE_URL is set but not used: "), "{told}");
        assert_eq!(unused_address(Kind::Claude, &claude, &env("OPENAI_BASE_URL")), None);
        assert_eq!(unused_address(Kind::Claude, &claude, &BTreeMap::new()), None);
        let own = AgentConfig { base_url: Some("http://127.0.0.1:1".to_owned()), ..claude };
        assert_eq!(unused_address(Kind::Claude, &own, &env("ANTHROPIC_BASE_URL")), None);
    }

    #[test]
    fn a_model_is_named_as_whoever_is_asked_names_it() {
        let gateway = Access::Gateway(Arc::new(Gateway::replay(std::iter::empty())), None);
        let of = opencode(Some("openrouter/a/b"), None);
        assert_eq!(gateway.model(Kind::Opencode, &of), Some("a/b"));
        assert_eq!(Access::SignIn.model(Kind::Opencode, &of), Some("openrouter/a/b"));
        let own = opencode(Some("openai/x"), Some("http://127.0.0.1:1"));
        assert_eq!(gateway.model(Kind::Opencode, &own), Some("openai/x"));
        let env = BTreeMap::from([(OsString::from("OPENAI_API_KEY"), OsString::from("a-secret-value"))]);
        match reach(Kind::Opencode, &opencode(None, None), &env) {
            Reach::Not(what) => assert!(what.contains("openai/NAME"), "{what}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(reach(Kind::Codex, &AgentConfig::of(AgentType::Codex), &env), Reach::Key("OPENAI_API_KEY".into()));
    }

    #[test]
    fn an_agent_of_which_only_the_api_is_known_has_that_providers_key_and_no_other() {
        let acp = |api| AgentConfig { api, cmd: vec!["x".to_owned()], ..AgentConfig::of(AgentType::Acp) };
        let of = |api, set: &[&str]| shown(&acp(Some(api)), Kind::Acp, set);
        let expected = |variable: &str, to: &str| Some((variable.to_owned(), to.to_owned()));
        assert_eq!(of(ModelApi::Anthropic, &ALL), expected("ANTHROPIC_API_KEY", "https://api.anthropic.com"));
        assert_eq!(of(ModelApi::Openai, &ALL), expected("OPENAI_API_KEY", "https://api.openai.com/v1"));
        assert_eq!(of(ModelApi::Gemini, &["OPENAI_API_KEY"]), None);
        let none = BTreeMap::new();
        assert_eq!(reach(Kind::Acp, &acp(None), &none), Reach::Own);
        let told =
            Reach::Not("its model needs a key: set OPENAI_API_KEY, or \"base_url\" for one that needs none".into());
        assert_eq!(reach(Kind::Acp, &acp(Some(ModelApi::Openai)), &none), told);
        let given = AgentConfig { pass_env: vec!["TOKEN".to_owned()], ..acp(None) };
        let told = Reach::Not("set TOKEN, which it is to be given (\"pass_env\")".into());
        assert_eq!(reach(Kind::Acp, &given, &none), told);
    }

    #[test]
    fn a_token_is_given_to_claude_as_the_token_that_it_is() {
        let variable = |name: &str| {
            let gateway = Arc::new(Gateway::replay(std::iter::empty()));
            Access::Gateway(gateway, Some(name.to_owned())).variable(Kind::Claude)
        };
        assert_eq!(variable("CLAUDE_CODE_OAUTH_TOKEN"), Some("CLAUDE_CODE_OAUTH_TOKEN"));
        assert_eq!(variable("MINE"), None);
        let bearer: Vec<bool> = session::keys(Kind::Claude).iter().map(|place| place.bearer).collect();
        assert_eq!(bearer, [false, true, true]);
    }
}
