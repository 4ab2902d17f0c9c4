//! Whether the sign-in that an agent left is the user's own, renewed. An agent is given a copy of it, and what it leaves
//! may be anything: the sign-in of another account, a provider more, rubbish. Only the members that `providers.json`
//! lists for a file may differ, each in its own way; everything else must be what it was. Where a token says whose it is (a JWT does), it must still say the same.
//!
//! Signatures are not checked: that takes the provider's keys, and a forged token opens nothing. Tokens of claude, and
//! the access tokens of gemini, say nothing of their account, so nothing can be told from them.

use crate::brief::Kind;
use crate::provider;
use base64ct::{Base64UrlUnpadded, Encoding};
use contract::json::{Limits, parse};
use contract::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Sign-ins are a few kilobytes and a few levels.
const LIMITS: Limits = Limits::new(1 << 20, 16);

/// Longest token. Those that carry claims have two to four kilobytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// How far ahead an expiry may be. The longest that one of these tokens is given for is a year; a time that never comes
/// would keep the command line from ever renewing it again.
const EXPIRES_AFTER_MS_MAX: u64 = 400 * 24 * 3600 * 1000;

/// The claims of a token that say whose it is and what it is for.
const IDENTITY: [&str; 6] = ["iss", "sub", "aud", "azp", "client_id", "email"];

/// Where OpenAI's tokens name the account, and its members that do.
const OPENAI_CLAIMS: &str = "https://api.openai.com/auth";
const OPENAI_IDENTITY: [&str; 4] = ["chatgpt_account_id", "chatgpt_account_user_id", "chatgpt_user_id", "user_id"];

/// A file that holds a sign-in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignInFile<'a> {
    /// Its path below the home directory.
    pub(crate) path: &'a str,
    #[serde(borrow)]
    renewed: Vec<Renewed<'a>>,
}

/// A member that a renewal changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Renewed<'a> {
    /// Names from the top, with dots between them; `*` is any name.
    member: &'a str,
    is: Form,
}

/// What may take the place of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// Another token, of the same account and not expired where it says so.
    Token,
    /// A later time that is still to come, in milliseconds. It must be so even if only its neighbours were renewed.
    ExpiresMs,
    /// The time of the renewal: later than the one before, and past.
    RenewedAt,
    /// The same words in another order.
    Words,
}

/// Checks that `after` is `before` with nothing but its tokens and their times renewed; the error says what else differs.
/// It quotes nothing that the agent wrote.
pub fn check_renewed(kind: Kind, file: &str, before: &[u8], after: &[u8], now: Timestamp) -> Result<(), String> {
    let known = provider::sign_in_file(kind, file).ok_or("it is not known what a renewal changes there")?;
    let before = parse(before, &LIMITS).map_err(|_| "yours is no JSON document that norma reads".to_owned())?;
    let after = parse(after, &LIMITS).map_err(|_| "it is no JSON document that norma reads".to_owned())?;
    if !before.is_object() {
        return Err("yours is no JSON object".to_owned());
    }
    Check { rules: &known.renewed, now_ms: now.unix_ms() }.member(&mut Vec::new(), &before, &after, false)
}

struct Check<'a> {
    rules: &'a [Renewed<'a>],
    now_ms: u64,
}

impl Check<'_> {
    /// Compares one member. `among_renewed` says whether anything in its object differs.
    fn member<'m>(
        &self,
        place: &mut Vec<&'m str>,
        before: &'m Value,
        after: &Value,
        among_renewed: bool,
    ) -> Result<(), String> {
        let at = |problem: &str| Err(format!("{} {problem}", name(place)));
        match (self.form(place), before, after) {
            (Some(Form::ExpiresMs), before, after) if among_renewed || before != after => match after.as_u64() {
                Some(time) if before.is_u64() && self.is_to_come(time) => Ok(()),
                Some(_) if before.is_u64() => at("is a time that has passed, or one that is too far ahead"),
                _ => at("is no time"),
            },
            (_, before, after) if before == after => Ok(()),
            (Some(form), before, after) => match self.renewed(form, before, after) {
                Ok(()) => Ok(()),
                Err(problem) => at(problem),
            },
            (None, Value::Object(before), Value::Object(after)) => {
                if let Some(name) = before.keys().find(|name| !after.contains_key(*name)) {
                    place.push(name);
                    return Err(format!("{} is gone", self::name(place)));
                }
                if after.len() > before.len() {
                    return at("has a member more");
                }
                // Times last: what they are worth depends on whether anything beside them was renewed.
                for times in [false, true] {
                    for (name, value) in before {
                        place.push(name);
                        if times == (self.form(place) == Some(Form::ExpiresMs)) {
                            self.member(place, value, &after[name], true)?;
                        }
                        place.pop();
                    }
                }
                Ok(())
            }
            (None, ..) => at("is another, and is no token"),
        }
    }

    fn form(&self, place: &[&str]) -> Option<Form> {
        let is_meant = |rule: &&Renewed<'_>| {
            let names = rule.member.split('.');
            names.clone().count() == place.len() && names.zip(place).all(|(meant, name)| meant == "*" || meant == *name)
        };
        self.rules.iter().find(is_meant).map(|rule| rule.is)
    }

    fn renewed(&self, form: Form, before: &Value, after: &Value) -> Result<(), &'static str> {
        match form {
            Form::Token => {
                let (Some(before), Some(after)) = (before.as_str(), after.as_str()) else {
                    return Err("is no token any more, or was none");
                };
                self.token(before, after)
            }
            Form::RenewedAt => {
                let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
                match (time(before), time(after)) {
                    (Some(before), Some(after)) if before <= after && after.unix_ms() <= self.now_ms => Ok(()),
                    (Some(_), Some(_)) => Err("is not between the last renewal and now"),
                    _ => Err("is no time"),
                }
            }
            Form::Words => match (words(before), words(after)) {
                (Some(before), Some(after)) if before == after => Ok(()),
                _ => Err("has other words"),
            },
            Form::ExpiresMs => unreachable!("BUG: an expiry is looked at with its neighbours"),
        }
    }

    fn token(&self, before: &str, after: &str) -> Result<(), &'static str> {
        if after.is_empty() || after.len() > TOKEN_BYTES_MAX || !after.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("does not have the form of a token");
        }
        let Some(before) = claims(before) else { return Ok(()) };
        let Some(after) = claims(after) else { return Err("does not say any more whose token it is") };
        if identity(&before) != identity(&after) {
            return Err("is the token of another account, or for something else");
        }
        let expires = |claims: &Map<String, Value>| claims.get("exp").cloned();
        match (expires(&before), expires(&after)) {
            (None, None) => Ok(()),
            (_, Some(at)) if at.as_u64().is_some_and(|at| self.is_to_come(at.saturating_mul(1000))) => Ok(()),
            _ => Err("has expired, or does so too far ahead"),
        }
    }

    fn is_to_come(&self, unix_ms: u64) -> bool {
        unix_ms > self.now_ms && unix_ms - self.now_ms <= EXPIRES_AFTER_MS_MAX
    }
}

/// A place in the user's own document, for a message.
fn name(place: &[&str]) -> String {
    if place.is_empty() { "the document".to_owned() } else { place.join(".") }
}

/// What a token claims, if it is a JWT: three parts, the second an object in base64.
fn claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    match parse(&Base64UrlUnpadded::decode_vec(payload).ok()?, &LIMITS).ok()? {
        Value::Object(claims) => Some(claims),
        _ => None,
    }
}

/// The claims that must stay as they were.
fn identity(claims: &Map<String, Value>) -> Vec<Option<&Value>> {
    let openai = claims.get(OPENAI_CLAIMS);
    let of_openai = OPENAI_IDENTITY.iter().map(|name| openai.and_then(|claims| claims.get(name)));
    IDENTITY.iter().map(|name| claims.get(*name)).chain(of_openai).collect()
}

/// The words of a text or of a list, sorted; none if it is neither.
fn words(value: &Value) -> Option<(bool, Vec<&str>)> {
    let mut words: Vec<&str> = match value {
        Value::String(text) => text.split(' ').collect(),
        Value::Array(list) => list.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    words.sort_unstable();
    Some((value.is_array(), words))
}

#[cfg(test)]
mod tests;
