//! Redaction: secrets are taken out of what an agent prints and says before it is hashed, signed and kept. Nothing here
//! reads a file or knows where a text comes from: the same bytes always become the same bytes, so that whoever replays a
//! run redacts as it was redacted.
//!
//! Three passes, each over what the one before left: values that norma knows, tokens that are known by their form, and
//! values that are secret because of what stands before them. The passes are made so that redacting twice changes
//! nothing: a token is long enough or it is not, whatever follows it, and a value beside a mark is never judged.

mod assigned;
mod known;
mod names;
mod pem;
mod scan;
mod stream;
mod tokens;
mod value;

pub use known::Known;
pub use stream::Stream;

use known::Needles;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// What a secret is, as far as that can be told; the word in a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A value that norma was told of.
    Known,
    /// A key of Anthropic.
    AnthropicKey,
    /// A key of OpenAI, or of a provider that spells them alike.
    OpenaiKey,
    /// A key or an access token of Google.
    GoogleKey,
    /// A token of GitHub.
    GithubToken,
    /// A token of GitLab.
    GitlabToken,
    /// A token of Slack.
    SlackToken,
    /// An access key of AWS.
    AwsKey,
    /// A token of npm.
    NpmToken,
    /// A token of Hugging Face.
    HuggingfaceToken,
    /// A key of Stripe.
    StripeKey,
    /// A token of another service that marks its own.
    ServiceToken,
    /// A JSON Web Token.
    Jwt,
    /// The block of a private key.
    PrivateKey,
    /// The credentials of an `Authorization` header.
    Authorization,
    /// A header that carries a key or a token.
    ApiKeyHeader,
    /// The password in a URL.
    UrlPassword,
    /// A parameter of a URL whose name says that it is secret.
    UrlParameter,
    /// A value whose name says that it is secret and that looks like one.
    AssignedSecret,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 19] = [
        Kind::Known,
        Kind::AnthropicKey,
        Kind::OpenaiKey,
        Kind::GoogleKey,
        Kind::GithubToken,
        Kind::GitlabToken,
        Kind::SlackToken,
        Kind::AwsKey,
        Kind::NpmToken,
        Kind::HuggingfaceToken,
        Kind::StripeKey,
        Kind::ServiceToken,
        Kind::Jwt,
        Kind::PrivateKey,
        Kind::Authorization,
        Kind::ApiKeyHeader,
        Kind::UrlPassword,
        Kind::UrlParameter,
        Kind::AssignedSecret,
    ];

    /// The word in a mark; the same as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Known => "known",
            Kind::AnthropicKey => "anthropic_key",
            Kind::OpenaiKey => "openai_key",
            Kind::GoogleKey => "google_key",
            Kind::GithubToken => "github_token",
            Kind::GitlabToken => "gitlab_token",
            Kind::SlackToken => "slack_token",
            Kind::AwsKey => "aws_key",
            Kind::NpmToken => "npm_token",
            Kind::HuggingfaceToken => "huggingface_token",
            Kind::StripeKey => "stripe_key",
            Kind::ServiceToken => "service_token",
            Kind::Jwt => "jwt",
            Kind::PrivateKey => "private_key",
            Kind::Authorization => "authorization",
            Kind::ApiKeyHeader => "api_key_header",
            Kind::UrlPassword => "url_password",
            Kind::UrlParameter => "url_parameter",
            Kind::AssignedSecret => "assigned_secret",
        }
    }

    /// The same for people.
    pub fn description(self) -> &'static str {
        match self {
            Kind::Known => "a secret that norma knows",
            Kind::AnthropicKey => "a provider key (anthropic)",
            Kind::OpenaiKey => "a provider key (openai)",
            Kind::GoogleKey => "a provider key (google)",
            Kind::GithubToken => "a token (github)",
            Kind::GitlabToken => "a token (gitlab)",
            Kind::SlackToken => "a token (slack)",
            Kind::AwsKey => "an access key (aws)",
            Kind::NpmToken => "a token (npm)",
            Kind::HuggingfaceToken => "a token (huggingface)",
            Kind::StripeKey => "a provider key (stripe)",
            Kind::ServiceToken => "the token of a service",
            Kind::Jwt => "a JSON Web Token",
            Kind::PrivateKey => "a private key",
            Kind::Authorization => "the credentials of an Authorization header",
            Kind::ApiKeyHeader => "a header with a key",
            Kind::UrlPassword => "a password in a URL",
            Kind::UrlParameter => "a secret in a URL",
            Kind::AssignedSecret => "a secret value, by its name",
        }
    }

    /// What stands for a secret of this kind.
    pub fn mark(self) -> String {
        format!("{MARK}{}]", self.word())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How every mark begins.
const MARK: &str = "[redacted:";

/// How many secrets of each kind were replaced.
pub type Counts = BTreeMap<Kind, u64>;

/// Counts more of them.
pub fn add(all: &mut Counts, more: &Counts) {
    for (kind, count) in more {
        *all.entry(*kind).or_default() += count;
    }
}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where it is.
    pub range: Range<usize>,
    /// What it is.
    pub kind: Kind,
}

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// What is left; the text itself where nothing was found.
    pub bytes: Cow<'t, [u8]>,
    /// What was replaced.
    pub counts: Counts,
}

/// Finds secrets. It never shows those it knows.
#[derive(Clone, Default)]
pub struct Redactor {
    needles: Needles,
    /// Whether forms are left out that gates did not know before [`contract::RULES_MORE_TOKENS`].
    without_newer: bool,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    /// Finds what is secret by its form, and these values besides.
    pub fn new(known: &Known) -> Redactor {
        Redactor { needles: Needles::new(known), without_newer: false }
    }

    /// Finds what is secret by its form alone: what gates use, since whoever judges again knows no values.
    pub fn patterns() -> Redactor {
        Redactor::default()
    }

    /// The same as runs are judged by whose rules are older than [`contract::RULES_MORE_TOKENS`].
    pub fn older_patterns() -> Redactor {
        Redactor { without_newer: true, ..Redactor::default() }
    }

    /// Replaces every secret in a text by a mark.
    pub fn redact<'t>(&self, text: &'t [u8]) -> Redacted<'t> {
        let spans = self.spans(text);
        Redacted { bytes: replaced(text, &spans), counts: counted(&spans) }
    }

    /// The same for text; what is not UTF-8 before stays what it was, so the result always is.
    pub fn redact_str<'t>(&self, text: &'t str) -> (Cow<'t, str>, Counts) {
        let Redacted { bytes, counts } = self.redact(text.as_bytes());
        let text = match bytes {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        };
        (text, counts)
    }

    /// The secrets of a text from left to right, never overlapping.
    pub fn spans(&self, text: &[u8]) -> Vec<Span> {
        let mut all: Vec<Span> = Vec::new();
        let mut seen = Cow::Borrowed(text);
        for pass in [Pass::Known, Pass::Tokens, Pass::Assigned] {
            let found = self.pass(pass, &seen);
            if !found.is_empty() {
                let mut found = originals(found, &all);
                all.append(&mut found);
                all.sort_by_key(|span| span.range.start);
                seen = replaced(text, &all);
            }
        }
        all
    }

    fn pass(&self, pass: Pass, text: &[u8]) -> Vec<Span> {
        match pass {
            Pass::Known => self.needles.spans(text),
            Pass::Tokens => tokens::spans(text, !self.without_newer),
            Pass::Assigned => assigned::spans(text),
        }
    }
}

/// One look at a text; the module says what for.
enum Pass {
    Known,
    Tokens,
    Assigned,
}

/// Where the mark that begins here ends, if one does.
pub(crate) fn mark_at(text: &[u8], at: usize) -> Option<(usize, Kind)> {
    let rest = text.get(at..)?.strip_prefix(MARK.as_bytes())?;
    let fits = |kind: &Kind| rest.strip_prefix(kind.word().as_bytes()).is_some_and(|rest| rest.first() == Some(&b']'));
    let kind = Kind::ALL.into_iter().find(fits)?;
    Some((at + MARK.len() + kind.word().len() + 1, kind))
}

/// The marks in a text.
pub fn marks(text: &[u8]) -> Vec<Span> {
    let mut marks = Vec::new();
    let mut from = 0;
    while let Some(at) = scan::next_of(text, from, b'[', b'[') {
        let mark = mark_at(text, at).map(|(end, kind)| Span { range: at..end, kind });
        from = mark.as_ref().map_or(at + 1, |mark| mark.range.end);
        marks.extend(mark);
    }
    marks
}

/// The text with a mark in place of every span.
fn replaced<'t>(text: &'t [u8], spans: &[Span]) -> Cow<'t, [u8]> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        out.extend_from_slice(&text[done..span.range.start]);
        out.extend_from_slice(span.kind.mark().as_bytes());
        done = span.range.end;
    }
    out.extend_from_slice(&text[done..]);
    Cow::Owned(out)
}

fn counted(spans: &[Span]) -> Counts {
    let mut counts = Counts::new();
    for span in spans {
        *counts.entry(span.kind).or_default() += 1;
    }
    counts
}

/// Where spans of a text with marks lie in the text before. Both are sorted, and no span touches the inside of a mark.
fn originals(found: Vec<Span>, marked: &[Span]) -> Vec<Span> {
    let mut marked = marked.iter().peekable();
    // How far the text with marks has fallen behind: what was replaced, less the marks.
    let (mut gone, mut marks) = (0, 0);
    let place = |Span { range, kind }: Span| {
        while let Some(before) = marked.next_if(|before| before.range.start + marks < range.start + gone) {
            gone += before.range.len();
            marks += before.kind.mark().len();
        }
        Span { range: range.start + gone - marks..range.end + gone - marks, kind }
    };
    found.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests;
