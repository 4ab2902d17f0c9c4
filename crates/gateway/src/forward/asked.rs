//! What a request's body asks for, as far as it concerns who pays.

use serde::Deserialize;

use crate::refusal::Refusal;
use crate::usage::{Usage, unanswered};

/// What a call may generate where it does not say: more than most answers, and less than a budget worth having.
const OUTPUT_TOKENS: u64 = 16 * 1024;

/// The fields that concern the bill. A field that is there twice makes the body unreadable: the provider could take
/// the other one.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Asked {
    /// The model, where the body names it.
    pub(super) model: Option<String>,
    background: Option<bool>,
    max_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    #[serde(rename = "generationConfig")]
    generation: Option<Generation>,
}

/// Where one of the providers has it.
#[derive(Debug, PartialEq, Deserialize)]
struct Generation {
    #[serde(rename = "maxOutputTokens")]
    max_output_tokens: Option<u64>,
}

impl Asked {
    /// What a call of this size may use up.
    pub(super) fn most(&self, body_len: usize) -> Usage {
        let generated = self.generation.as_ref().and_then(|it| it.max_output_tokens);
        let named = self.max_tokens.or(self.max_output_tokens).or(self.max_completion_tokens).or(generated);
        Usage { output_tokens: named.unwrap_or(OUTPUT_TOKENS), ..unanswered(body_len) }
    }
}

/// Reads what a body asks for. One that cannot be read is refused, and so is work that continues after its answer: neither
/// could be counted.
pub(super) fn read(body: &[u8]) -> Result<Asked, Refusal> {
    let asked: Asked = serde_json::from_slice(body).map_err(|_| Refusal::malformed("its body is not plain JSON"))?;
    if asked.background == Some(true) {
        return Err(Refusal::malformed("it asks for work in the background, which could not be counted"));
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_concerns_the_bill() {
        let body = br#"{"input": [{"model": "other"}, "\ud800"], "model": "m", "background": false}"#;
        assert_eq!(read(body).unwrap().model, Some("m".to_owned()));
        assert_eq!(read(b"{}").unwrap().model, None);
    }

    #[test]
    fn reads_how_much_may_be_generated() {
        for (body, most) in [
            (r#"{"max_tokens": 7}"#, 7),
            (r#"{"max_output_tokens": 8}"#, 8),
            (r#"{"max_completion_tokens": 9}"#, 9),
            (r#"{"generationConfig": {"maxOutputTokens": 10, "temperature": 0}}"#, 10),
            ("{}", OUTPUT_TOKENS),
        ] {
            assert_eq!(read(body.as_bytes()).unwrap().most(body.len()).output_tokens, most, "{body}");
        }
    }

    #[test]
    fn refuses_what_could_not_be_counted() {
        let twice = br#"{"model": "a", "model": "b"}"#;
        let hidden = br#"{"background": true}"#;
        for body in [&b""[..], b"[]", twice, hidden, br#"{"model": 1}"#, b"no", b"\x28\xb5\x2f\xfd"] {
            assert_eq!(read(body).unwrap_err().status, 400);
        }
    }
}
