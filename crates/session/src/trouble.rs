//! From what an agent says went wrong to what can be done about it. A status of HTTP decides where one is named, also
//! inside a text; words decide otherwise.

use crate::limits;
use crate::wire;
use contract::session::{ErrorKind, SessionError};

/// The agent broke its protocol.
pub(crate) fn protocol(message: &str) -> SessionError {
    with(ErrorKind::Protocol, message, None)
}

/// The model would not.
pub(crate) fn refused(message: &str) -> SessionError {
    with(ErrorKind::Refused, message, None)
}

/// The connection broke.
pub(crate) fn network(message: &str) -> SessionError {
    with(ErrorKind::Network, message, None)
}

/// Nothing more is known.
pub(crate) fn other(message: &str) -> SessionError {
    with(ErrorKind::Other, message, None)
}

/// Too much was asked for.
pub(crate) fn rate_limited(message: &str, status: Option<u16>) -> SessionError {
    with(limited(message), message, status)
}

/// By its status, or by what it says.
pub(crate) fn judge(status: Option<u16>, message: &str) -> SessionError {
    let status = status.or_else(|| status_in(message));
    let kind = status.and_then(|status| of_status(status, message)).unwrap_or_else(|| of_words(message));
    with(kind, message, status)
}

/// What a provider did with a call: the status of its answer, and the seconds after which to ask again.
pub fn provider_error(status: u16, retry_after: Option<u64>) -> SessionError {
    let after = retry_after.map(|seconds| format!("; retry after {seconds} s")).unwrap_or_default();
    judge(Some(status), &format!("the provider answered with status {status}{after}"))
}

/// Of this kind, whatever it says.
pub(crate) fn with(kind: ErrorKind, message: &str, status: Option<u16>) -> SessionError {
    SessionError { kind, message: wire::clip(message, limits::ERROR_BYTES_MAX).to_owned(), status }
}

fn of_status(status: u16, message: &str) -> Option<ErrorKind> {
    match status {
        401 | 403 => Some(ErrorKind::Auth),
        429 => Some(limited(message)),
        408 | 504 => Some(ErrorKind::Network),
        500..=599 => Some(ErrorKind::Server),
        _ => None,
    }
}

fn limited(message: &str) -> ErrorKind {
    ErrorKind::RateLimited { reset_after_seconds: reset_after(message), resets_at: resets_at(message) }
}

/// Words by which each kind is known, all in lower case; the first that fits decides.
const WORDS: [(&[&str], ErrorKind); 5] = [
    (
        &["rate limit", "rate_limit", "ratelimit", "too many requests", "usage limit", "quota", "resource_exhausted"],
        ErrorKind::RateLimited { reset_after_seconds: None, resets_at: None },
    ),
    (
        &["unauthorized", "invalid api key", "api key not valid", "authentication", "not logged in", "please log in"],
        ErrorKind::Auth,
    ),
    (
        &[
            "connection",
            "disconnected",
            "network",
            "econnre",
            "enotfound",
            "stream ended",
            "incomplete json",
            "fetch failed",
            "socket",
            "timed out",
        ],
        ErrorKind::Network,
    ),
    (
        &["overloaded", "high demand", "internal server error", "server_error", "unavailable", "malformed response"],
        ErrorKind::Server,
    ),
    (&["refusal", "usage policy", "content policy", "safety"], ErrorKind::Refused),
];

fn of_words(message: &str) -> ErrorKind {
    let message = wire::clip(message, limits::ERROR_BYTES_MAX).to_lowercase();
    let found = WORDS.iter().find(|(words, _)| words.iter().any(|word| message.contains(word)));
    match found {
        Some((_, ErrorKind::RateLimited { .. })) => limited(&message),
        Some((_, kind)) => *kind,
        None => ErrorKind::Other,
    }
}

/// Whether a line is no message, but the beginning of a sign-in by a person, as gemini prints it where its own has ended.
pub(crate) fn asks_to_sign_in(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&line[..line.len().min(limits::ERROR_BYTES_MAX)]).to_lowercase();
    ["visit the following url to authorize", "enter the authorization code"].iter().any(|words| text.contains(words))
}

/// A status that is named as one: "last status: 429", "API Error: 401 …", `"code":503`.
fn status_in(message: &str) -> Option<u16> {
    let mut before = String::new();
    for word in wire::clip(message, limits::ERROR_BYTES_MAX).split(|c: char| !c.is_ascii_alphanumeric()) {
        if word.is_empty() {
            continue;
        }
        if matches!(before.as_str(), "status" | "error" | "code" | "http" | "statuscode")
            && word.len() == 3
            && let Ok(status @ 400..=599) = word.parse()
        {
            return Some(status);
        }
        before = word.to_ascii_lowercase();
    }
    None
}

/// What a time to wait follows.
const RESET_AFTER: [&str; 8] = [
    "try again in",
    "retry after",
    "retry-after",
    "retry_after",
    "reset after",
    "resets_in_seconds",
    "retrydelay",
    "retry in",
];

/// What a moment follows.
const RESETS_AT: [&str; 4] = ["resets_at", "resetsat", "limit reached|", "reset_at"];

fn reset_after(message: &str) -> Option<u64> {
    let message = wire::clip(message, limits::ERROR_BYTES_MAX).to_ascii_lowercase();
    RESET_AFTER.iter().find_map(|anchor| message.split_once(anchor)).and_then(|(_, rest)| duration(rest))
}

fn resets_at(message: &str) -> Option<u64> {
    let message = wire::clip(message, limits::ERROR_BYTES_MAX).to_ascii_lowercase();
    let (_, rest) = RESETS_AT.iter().find_map(|anchor| message.split_once(anchor))?;
    let (number, _) = number(after_punctuation(rest))?;
    // Some count milliseconds; before 2001 no agent had a limit.
    let seconds = if number >= 1e12 { number / 1e3 } else { number };
    (seconds >= 1e9).then(|| whole(seconds))
}

/// `12s`, `1m30s`, `1h 5m`, `500ms`, `: 30`, `": "3.5s"`; without a unit, seconds.
fn duration(text: &str) -> Option<u64> {
    let mut rest = after_punctuation(text);
    let mut seconds = None;
    while let Some((count, after)) = number(rest) {
        let after = after.trim_start();
        let unit = after.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        let scale = match unit {
            "ms" | "milliseconds" => 0.001,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86400.0,
            "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            // A word after the number that is no unit: the number was seconds, and the time is over.
            _ => return Some(whole((seconds.unwrap_or(0.0) + count).ceil())),
        };
        seconds = Some(seconds.unwrap_or(0.0) + count * scale);
        rest = after[unit.len()..].trim_start();
        if unit.is_empty() {
            break;
        }
    }
    seconds.map(|seconds: f64| whole(seconds.ceil()))
}

/// Skips what stands between a name and its number, not more.
fn after_punctuation(text: &str) -> &str {
    let start = text.char_indices().take(6).find(|(_, c)| c.is_ascii_digit()).map_or(0, |(at, _)| at);
    &text[start..]
}

fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let digits = text[..end].trim_end_matches('.');
    Some((digits.parse().ok()?, &text[digits.len()..]))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; a cast saturates")]
fn whole(seconds: f64) -> u64 {
    seconds as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: Option<u16>, message: &str, kind: ErrorKind, found: Option<u16>) {
        let error = judge(status, message);
        assert_eq!((error.kind, error.status), (kind, found), "{message}");
    }

    fn limited_for(seconds: u64) -> ErrorKind {
        ErrorKind::RateLimited { reset_after_seconds: Some(seconds), resets_at: None }
    }

    const LIMITED: ErrorKind = ErrorKind::RateLimited { reset_after_seconds: None, resets_at: None };

    #[test]
    fn a_status_decides() {
        check(Some(401), "", ErrorKind::Auth, Some(401));
        check(Some(403), "quota", ErrorKind::Auth, Some(403));
        check(Some(429), "", LIMITED, Some(429));
        check(Some(500), "", ErrorKind::Server, Some(500));
        check(Some(529), "", ErrorKind::Server, Some(529));
        check(Some(400), "bad", ErrorKind::Other, Some(400));
        check(None, "exceeded retry limit, last status: 429", LIMITED, Some(429));
        check(None, "API Error: 401 {\"type\":\"error\"}", ErrorKind::Auth, Some(401));
        check(None, "{\"error\":{\"code\":503}}", ErrorKind::Server, Some(503));
        check(None, "unexpected status 401 Unauthorized", ErrorKind::Auth, Some(401));
        check(None, "wrote 404 lines", ErrorKind::Other, None);
    }

    #[test]
    fn what_a_provider_did_is_known_by_its_status() {
        assert_eq!(provider_error(502, None).kind, ErrorKind::Server);
        assert_eq!(provider_error(429, Some(17)).kind, limited_for(17));
        assert_eq!(provider_error(400, None).kind, ErrorKind::Other);
    }

    #[test]
    fn words_decide_otherwise() {
        check(None, "We're currently experiencing high demand", ErrorKind::Server, None);
        check(None, "Connection failed: error sending request", ErrorKind::Network, None);
        check(None, "stream disconnected before completion", ErrorKind::Network, None);
        check(None, "Missing environment variable: `KEY`.", ErrorKind::Other, None);
        check(None, "You've hit your usage limit. Try again in 3 hours.", limited_for(10_800), None);
    }

    #[test]
    fn the_time_to_wait_is_read_in_every_spelling() {
        for (message, seconds) in [
            ("Please try again in 12s.", 12),
            ("try again in 1.5s", 2),
            ("try again in 1m30s", 90),
            ("try again in 1h 5m", 3900),
            ("try again in 500ms", 1),
            ("retry-after: 30", 30),
            ("{\"retryDelay\": \"39.4s\"}", 40),
            ("{\"resets_in_seconds\":120}", 120),
            ("Your quota will reset after 2 minutes", 120),
            ("try again in 5 or so", 5),
        ] {
            check(Some(429), message, limited_for(seconds), Some(429));
        }
        check(Some(429), "try again in a while", LIMITED, Some(429));
        let at = ErrorKind::RateLimited { reset_after_seconds: None, resets_at: Some(1_763_280_000) };
        check(Some(429), "usage limit reached|1763280000", at, Some(429));
        check(Some(429), "{\"resets_at\":1763280000123}", at, Some(429));
        check(Some(429), "{\"resets_at\":12}", LIMITED, Some(429));
    }
}
