//! What a client is told when something did not work: one form for every error, with a word for programs. What went
//! wrong inside norma is told the operator, never the client.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::Violation;
use contract::api::{Problem as Told, ProblemDetails};
use runner::{Answer, EditProblem, Error, exit};

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    told: Box<Told>,
    retry_after: Option<u64>,
}

/// What a handler answers.
pub(crate) type Outcome<T> = Result<T, Problem>;

/// Every error there is, with its word; what the document of the API lists.
pub(crate) const STATUSES: [(u16, &str); 16] = [
    (400, "invalid"),
    (401, "unauthorized"),
    (403, "forbidden"),
    (404, "not_found"),
    (405, "method_not_allowed"),
    (409, "conflict"),
    (413, "too_large"),
    (414, "uri_too_long"),
    (415, "unsupported_media_type"),
    (421, "misdirected"),
    (426, "upgrade_required"),
    (429, "too_many_requests"),
    (431, "headers_too_large"),
    (500, "internal"),
    (501, "not_implemented"),
    (503, "unavailable"),
];

impl Problem {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Problem {
        let code = STATUSES.iter().find(|(known, _)| *known == status.as_u16()).map_or("error", |(_, word)| word);
        let told = Told { error: error.into(), code: code.to_owned(), details: ProblemDetails::default() };
        Problem { status, told: Box::new(told), retry_after: None }
    }

    pub(crate) fn invalid(error: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, error)
    }

    /// What is wrong at one place of the body.
    pub(crate) fn at(pointer: &str, message: impl Into<String>) -> Problem {
        let violation = Violation { pointer: pointer.to_owned(), message: message.into() };
        Problem::violations("the body is refused", vec![violation])
    }

    pub(crate) fn violations(error: impl Into<String>, violations: Vec<Violation>) -> Problem {
        let mut problem = Problem::invalid(error);
        problem.told.details.violations = violations;
        problem
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, error)
    }

    pub(crate) fn conflict(error: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, error)
    }

    pub(crate) fn too_many(retry_after: u64) -> Problem {
        let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many requests; wait a moment");
        problem.retry_after = Some(retry_after);
        problem
    }

    /// Something went wrong inside; the operator reads what, the client does not.
    pub(crate) fn internal(why: &dyn std::fmt::Display) -> Problem {
        tracing::error!(target: "norma::server", "a request failed: {why}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "norma could not do this; its log says why")
    }

    pub(crate) fn with(mut self, causes: Vec<String>, hint: Option<&str>) -> Problem {
        self.told.details.causes = causes;
        self.told.details.hint = hint.map(str::to_owned);
        self
    }

    /// Says where the run is that does not allow it.
    pub(crate) fn in_state(mut self, word: &str) -> Problem {
        self.told.details.status = Some(word.to_owned()).filter(|_| self.status == StatusCode::CONFLICT);
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }
}

/// What keeps the host from doing something is told as far as it is for people; what failed inside is not.
impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let told = |status| Problem::new(status, error.to_string()).with(error.causes(), error.hint());
        match &error {
            Error::Usage { .. } | Error::Store(store::Error::Refused(_)) => told(StatusCode::BAD_REQUEST),
            Error::Edit(EditProblem::Missing(_)) => told(StatusCode::NOT_FOUND),
            Error::Edit(EditProblem::Invalid { .. }) => told(StatusCode::BAD_REQUEST),
            Error::Edit(EditProblem::Refused(_)) => told(StatusCode::CONFLICT),
            Error::Declined { .. } | Error::Waiting { .. } | Error::Environment { .. } => told(StatusCode::CONFLICT),
            Error::Leaving => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is about to end"),
            _ => Problem::internal(&format!("{error} ({})", error.causes().join("; "))),
        }
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Problem {
        Error::from(error).into()
    }
}

impl From<runner::git::GitError> for Problem {
    fn from(error: runner::git::GitError) -> Problem {
        Error::from(error).into()
    }
}

/// What the host answered, if it did it.
pub(crate) fn done(answer: Answer) -> Outcome<(String, serde_json::Value)> {
    match answer {
        Answer::Done { message, value } => Ok((message, value)),
        Answer::Leaving => Err(Error::Leaving.into()),
        Answer::Refused { message, causes, hint, code } => {
            let status = match code {
                exit::USAGE => StatusCode::BAD_REQUEST,
                exit::FAILED | exit::WAITING => StatusCode::CONFLICT,
                _ => return Err(Problem::internal(&format!("{message} ({})", causes.join("; ")))),
            };
            Err(Problem::new(status, message).with(causes, hint.as_deref()))
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = serde_json::to_string(&self.told).expect("BUG: an error is plain data");
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
