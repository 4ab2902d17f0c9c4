//! What is known of each command line's provider: its program, where its model is, how a sign-in is kept and which
//! hosts it needs. It is data (`providers.json`), with a reason for every host.

use crate::brief::Kind;
use crate::sign_in::SignInFile;
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Providers<'a> {
    #[serde(borrow)]
    codex: Provider<'a>,
    claude: Provider<'a>,
    gemini: Provider<'a>,
    opencode: Provider<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider<'a> {
    program: &'a str,
    install: &'a str,
    sign_in: &'a str,
    #[serde(borrow)]
    sign_in_files: Vec<SignInFile<'a>>,
    #[serde(borrow)]
    conversations: Vec<&'a str>,
    #[serde(borrow)]
    keys: Vec<KeyPlace<'a>>,
    #[serde(borrow)]
    addresses: Vec<&'a str>,
    #[serde(borrow, deserialize_with = "names")]
    hosts: Vec<&'a str>,
}

/// A variable that may hold a key, and what that key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyPlace<'a> {
    /// Its name.
    pub variable: &'a str,
    /// The provider, as models are named after it where there are several (`provider/model`).
    #[serde(default)]
    pub provider: Option<&'a str>,
    /// Where the model is, as in [`Brief::base_url`](crate::Brief::base_url): what a gateway in between puts the command
    /// line's paths behind.
    pub base_url: &'a str,
    /// Whether it is shown as a token, and not in the provider's own header for keys.
    #[serde(default)]
    pub bearer: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host<'a> {
    host: &'a str,
    #[serde(rename = "reason")]
    _reason: &'a str,
}

/// The reasons are for whoever reads the file.
fn names<'de: 'a, 'a, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<&'a str>, D::Error> {
    Ok(Vec::<Host<'a>>::deserialize(from)?.into_iter().map(|host| host.host).collect())
}

static PROVIDERS: LazyLock<Providers<'static>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("providers.json")).expect("BUG: providers.json is checked by a test")
});

fn of(kind: Kind) -> Option<&'static Provider<'static>> {
    match kind {
        Kind::Codex => Some(&PROVIDERS.codex),
        Kind::Claude => Some(&PROVIDERS.claude),
        Kind::Gemini => Some(&PROVIDERS.gemini),
        Kind::Opencode => Some(&PROVIDERS.opencode),
        Kind::Acp => None,
    }
}

/// The program; empty for [`Kind::Acp`], whose configuration names it.
pub fn program(kind: Kind) -> &'static str {
    of(kind).map_or("", |provider| provider.program)
}

/// The command that installs it, if one is known.
pub fn install(kind: Kind) -> Option<&'static str> {
    of(kind).map(|provider| provider.install)
}

/// The command with which a person signs in, if one is known.
pub fn sign_in(kind: Kind) -> Option<&'static str> {
    of(kind).map(|provider| provider.sign_in)
}

/// The files below the home directory that hold a sign-in with the provider, and nothing else.
pub fn sign_in_files(kind: Kind) -> impl Iterator<Item = &'static str> {
    of(kind).into_iter().flat_map(|provider| provider.sign_in_files.iter().map(|file| file.path))
}

/// What is known of one of those files.
pub(crate) fn sign_in_file(kind: Kind, path: &str) -> Option<&'static SignInFile<'static>> {
    of(kind)?.sign_in_files.iter().find(|file| file.path == path)
}

/// The directories below its home in which the command line keeps its conversations; none where that is not known.
pub fn conversations(kind: Kind) -> &'static [&'static str] {
    of(kind).map_or(&[], |provider| &provider.conversations)
}

/// Whether a conversation can continue that was cut off in the middle of a turn. gemini (0.61) writes the file anew then, and
/// what was said in the turn is gone.
pub fn resumes_when_cut_off(kind: Kind) -> bool {
    kind != Kind::Gemini && !conversations(kind).is_empty()
}

/// Whether an interactive session can continue a conversation of another process that ended well. gemini (0.61) answers
/// `session/load` with "No previous sessions found for this project", though its files are there.
pub fn resumes_in_session(kind: Kind) -> bool {
    kind != Kind::Gemini && !conversations(kind).is_empty()
}

/// The variables that may hold a key, in the order they are looked for.
pub fn keys(kind: Kind) -> &'static [KeyPlace<'static>] {
    of(kind).map_or(&[], |provider| &provider.keys)
}

/// Whether some agent's key is looked for in a variable of this name.
pub fn is_key(variable: &str) -> bool {
    Kind::ALL.into_iter().flat_map(keys).any(|place| place.variable == variable)
}

/// Variables by which the program itself is told another address of its model.
pub fn addresses(kind: Kind) -> &'static [&'static str] {
    of(kind).map_or(&[], |provider| &provider.addresses)
}

/// The hosts that the command line needs when it speaks to its provider itself, as `host:port`.
pub fn hosts(kind: Kind) -> &'static [&'static str] {
    of(kind).map_or(&[], |provider| &provider.hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_is_whole() {
        for kind in Kind::ALL {
            if kind == Kind::Acp {
                assert_eq!((program(kind), keys(kind)), ("", &[][..]));
                continue;
            }
            assert_eq!(program(kind), kind.as_str());
            assert!(install(kind).is_some() && sign_in(kind).unwrap().starts_with(kind.as_str()));
            assert!(sign_in_files(kind).next().is_some() && !keys(kind).is_empty() && !conversations(kind).is_empty());
            assert!(sign_in_files(kind).all(|file| contract::RepoPath::parse(file).is_ok()));
            for place in keys(kind) {
                let model = place.base_url.strip_prefix("https://").unwrap();
                let host = model.split('/').next().unwrap();
                assert!(hosts(kind).contains(&format!("{host}:443").as_str()), "{model}");
            }
            assert!(hosts(kind).iter().all(|host| host.ends_with(":443")));
        }
    }
}
