//! One request on its way to the function that answers it: what it carries, read strictly, and what is sent back. The
//! functions are blocking and know nothing of connections.

use crate::problem::{Outcome, Problem};
use crate::sessions::Principal;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::schema::Document;
use contract::{Limits, json};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ops::RangeInclusive;
use std::pin::pin;

/// Longest body that is looked at.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// How much of one that is longer is read and dropped, so that whoever sends it comes to read the answer.
const BODY_BYTES_DROPPED: usize = 8 << 20;

/// What somebody asks for.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) principal: Principal,
    /// What the path names, in order.
    pub(crate) names: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
}

impl Call {
    /// The name in the path, by its place.
    pub(crate) fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("", String::as_str)
    }

    /// A parameter of the query.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A number of the query, within these bounds.
    pub(crate) fn number(&self, name: &str, within: RangeInclusive<u64>) -> Outcome<Option<u64>> {
        let Some(text) = self.query(name) else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && within.contains(number));
        let (least, most) = (within.start(), within.end());
        number.map(Some).ok_or_else(|| Problem::invalid(format!("{name} must be a number from {least} to {most}")))
    }

    /// Whether a parameter of the query says 1; 0 is the same as nothing.
    pub(crate) fn flag(&self, name: &str) -> Outcome<bool> {
        match self.query(name) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(_) => Err(Problem::invalid(format!("{name} must be 0 or 1"))),
        }
    }

    /// The body, as what it has to be; one that is not there is an empty object.
    pub(crate) fn read<T: DeserializeOwned + Document>(&self) -> Outcome<T> {
        let bytes = if self.body.is_empty() { b"{}".as_slice() } else { &self.body };
        json::decode(bytes, &Limits::DOCUMENT)
            .map_err(|violations| Problem::violations("the body is refused", violations))
    }
}

/// What is sent back.
pub(crate) enum Reply {
    Json(StatusCode, Value),
    /// JSON that is spelled out already.
    Spelled(StatusCode, String),
    /// Bytes of this type, to be shown or kept.
    Bytes {
        kind: &'static str,
        headers: Vec<(HeaderName, HeaderValue)>,
        bytes: Bytes,
    },
    /// Another answer.
    Other(Response),
}

impl Reply {
    pub(crate) fn ok(value: Value) -> Outcome<Reply> {
        Ok(Reply::Json(StatusCode::OK, value))
    }

    pub(crate) fn text(kind: &'static str, text: impl Into<Bytes>) -> Outcome<Reply> {
        Ok(Reply::Bytes { kind, headers: Vec::new(), bytes: text.into() })
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let (status, kind, more, bytes) = match self {
            Reply::Json(status, value) => (status, "application/json", Vec::new(), value.to_string().into()),
            Reply::Spelled(status, text) => (status, "application/json", Vec::new(), text.into()),
            Reply::Bytes { kind, headers, bytes } => (StatusCode::OK, kind, headers, bytes),
            Reply::Other(response) => return response,
        };
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().extend(more);
        response
    }
}

/// The body of a request. One that is there is JSON and says so.
pub(crate) async fn body_of(headers: &HeaderMap, body: Body) -> Outcome<Bytes> {
    let (bytes, is_whole) = collect(body).await?;
    if !is_whole {
        let why = format!("the body has more than {BODY_BYTES_MAX} bytes");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    if !bytes.is_empty() && !is_json(headers) {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"));
    }
    Ok(bytes)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// The bytes of a body, and whether these are all of them.
async fn collect(body: Body) -> Outcome<(Bytes, bool)> {
    let (mut body, mut bytes, mut dropped) = (pin!(body), Vec::new(), 0_usize);
    let mut is_whole = true;
    while let Some(frame) = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = frame.map_err(|_| Problem::invalid("the body ended before it was whole"))?;
        let Some(data) = frame.data_ref() else { continue };
        is_whole &= bytes.len() + data.len() <= BODY_BYTES_MAX;
        if is_whole {
            bytes.extend_from_slice(data);
            continue;
        }
        bytes = Vec::new();
        dropped += data.len();
        if dropped > BODY_BYTES_DROPPED {
            break;
        }
    }
    Ok((bytes.into(), is_whole))
}
