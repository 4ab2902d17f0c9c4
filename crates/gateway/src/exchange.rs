//! One request and its answer, as it goes on record and comes back for a replay.

use contract::Timestamp;
use serde::{Deserialize, Serialize};

use crate::http::Headers;
use crate::usage::Usage;

/// One request, with its answer once that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Its place among the requests of this gateway, from 1.
    pub seq: u64,
    /// When the request had arrived.
    pub started: Timestamp,
    /// As it was sent.
    pub method: String,
    /// The path and the query, without a key in it.
    pub path: String,
    /// The model that was asked for, if the request says one.
    pub model: Option<String>,
    /// As they are forwarded, without keys and cookies and without those that concern one connection only.
    pub request_headers: Headers,
    /// As it was sent. Of a request that is not forwarded it is not read.
    #[serde(with = "bytes")]
    pub request_body: Vec<u8>,
    /// Earlier attempts at the same call that the provider failed; nothing of them reached the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<Retried>,
    /// What came of it; none while the request is under way.
    pub answer: Option<Answer>,
}

/// An attempt at a call after which it was made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retried {
    /// When it was over.
    pub ended: Timestamp,
    /// The provider's status, or the one that norma would have answered with.
    pub status: u16,
    /// What went wrong, in words, where it was not the provider that said so.
    pub problem: Option<String>,
    /// How long was waited after it.
    pub pause_ms: u64,
    /// What it used up; none if nothing was.
    pub usage: Option<Usage>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// When it was over.
    pub ended: Timestamp,
    /// Who gave it.
    pub from: Origin,
    /// Its status.
    pub status: u16,
    /// As they were passed on, without cookies.
    pub headers: Headers,
    /// As it was passed on, without its framing.
    #[serde(with = "bytes")]
    pub body: Vec<u8>,
    /// Whether all of it was passed on. Otherwise the body is what had been, and `problem` says why.
    pub complete: bool,
    /// What went wrong, in words.
    pub problem: Option<String>,
    /// The model that says it answered.
    pub model: Option<String>,
    /// What it used up; none if nothing was.
    pub usage: Option<Usage>,
}

/// Who gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The provider.
    Provider,
    /// norma, which refused to forward the request or got no usable answer.
    Norma,
}

/// What a record takes besides its texts: names of fields, and an answer of norma's own.
const RECORD_FRAME_BYTES: usize = 1024;

/// A text is not a recorded exchange.
#[derive(Debug, thiserror::Error)]
#[error("not a recorded exchange: {0}")]
pub struct ExchangeProblem(#[from] serde_json::Error);

impl Exchange {
    /// One JSON document on one line, with its fields always in the same order.
    pub fn to_json(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("BUG: an exchange consists of texts and numbers");
        line.push(b'\n');
        line
    }

    /// About how much its newest part takes on record: the answer's if there is one, the request's otherwise.
    pub(crate) fn newest_bytes(&self) -> u64 {
        let (headers, body) = match &self.answer {
            Some(answer) if answer.from == Origin::Provider => (&answer.headers, &answer.body),
            _ => (&self.request_headers, &self.request_body),
        };
        let heads: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        (heads + body.len() + self.path.len() + RECORD_FRAME_BYTES) as u64
    }

    /// Reads what [`Exchange::to_json`] wrote.
    pub fn from_json(json: &[u8]) -> Result<Exchange, ExchangeProblem> {
        Ok(serde_json::from_slice(json)?)
    }
}

/// Bodies as people can read them: `{"text": …}` if it is UTF-8, `{"base64": …}` otherwise.
mod bytes {
    use base64ct::{Base64, Encoding as _};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Spelled {
        Text(String),
        Base64(String),
    }

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let spelled = match std::str::from_utf8(bytes) {
            Ok(text) => Spelled::Text(text.to_owned()),
            Err(_) => Spelled::Base64(Base64::encode_string(bytes)),
        };
        spelled.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        match Spelled::deserialize(deserializer)? {
            Spelled::Text(text) => Ok(text.into_bytes()),
            Spelled::Base64(text) => Base64::decode_vec(&text).map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exchange(request_body: Vec<u8>, body: Vec<u8>) -> Exchange {
        Exchange {
            seq: 7,
            started: Timestamp::from_unix_ms(1_769_180_101_042),
            method: "POST".to_owned(),
            path: "/v1/messages?beta=true".to_owned(),
            model: Some("claude".to_owned()),
            request_headers: vec![("accept".to_owned(), "*/*".to_owned())],
            request_body,
            retries: Vec::new(),
            answer: Some(Answer {
                ended: Timestamp::from_unix_ms(1_769_180_102_000),
                from: Origin::Provider,
                status: 200,
                headers: Vec::new(),
                body,
                complete: true,
                problem: None,
                model: None,
                usage: Some(Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() }),
            }),
        }
    }

    #[test]
    fn is_written_in_one_way() {
        let text = String::from_utf8(exchange(b"{}".to_vec(), vec![0xff]).to_json()).unwrap();
        let expected = concat!(
            r#"{"seq":7,"started":"2026-01-23T14:55:01.042Z","method":"POST","path":"/v1/messages?beta=true","#,
            r#""model":"claude","request_headers":[["accept","*/*"]],"request_body":{"text":"{}"},"#,
            r#""answer":{"ended":"2026-01-23T14:55:02.000Z","from":"provider","status":200,"headers":[],"#,
            r#""body":{"base64":"/w=="},"complete":true,"problem":null,"model":null,"#,
            r#""usage":{"input_tokens":1,"cached_tokens":0,"cache_write_tokens":0,"#,
            r#""cache_write_hour_tokens":0,"output_tokens":2,"reasoning_tokens":0,"cost_micro_usd":null,"estimated":false}}}"#,
            "\n"
        );
        assert_eq!(text, expected);
    }

    proptest! {
        #[test]
        fn reads_back_what_it_writes(request: Vec<u8>, answer: Vec<u8>) {
            let exchange = exchange(request, answer);
            prop_assert_eq!(Exchange::from_json(&exchange.to_json()).unwrap(), exchange);
        }
    }
}
