//! What a request's body asks for, as far as it concerns who pays.

use serde::Deserialize;

use crate::refusal::Refusal;

/// The fields that concern the bill. A field that is there twice makes the body unreadable: the provider could take
/// the other one.
#[derive(Deserialize)]
struct Asked {
    model: Option<String>,
    background: Option<bool>,
}

/// The model that a body names. A body that cannot be read is refused, and so is work that goes on after its answer:
/// neither could be counted.
pub(super) fn model(body: &[u8]) -> Result<Option<String>, Refusal> {
    let asked: Asked = serde_json::from_slice(body).map_err(|_| Refusal::malformed("its body is not plain JSON"))?;
    if asked.background == Some(true) {
        return Err(Refusal::malformed("it asks for work in the background, which could not be counted"));
    }
    Ok(asked.model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_concerns_the_bill() {
        let body = br#"{"input": [{"model": "other"}, "\ud800"], "model": "m", "background": false}"#;
        assert_eq!(model(body), Ok(Some("m".to_owned())));
        assert_eq!(model(b"{}"), Ok(None));
    }

    #[test]
    fn refuses_what_could_not_be_counted() {
        let twice = br#"{"model": "a", "model": "b"}"#;
        let hidden = br#"{"background": true}"#;
        for body in [&b""[..], b"[]", twice, hidden, br#"{"model": 1}"#, b"no", b"\x28\xb5\x2f\xfd"] {
            assert_eq!(model(body).unwrap_err().status, 400);
        }
    }
}
