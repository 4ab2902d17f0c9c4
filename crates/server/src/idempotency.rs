//! A client that does not know whether its request arrived sends it again with the same key: it is answered as before,
//! and nothing is done twice, whether or not the server ended in between. Of two that come at the same time the second
//! waits for the first. The answers are in the store; here is who is at which key now.

use crate::problem::{Outcome, Problem};
use crate::sessions::Principal;
use axum::http::StatusCode;
use contract::{Digest, hash};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use store::{Asked, Store};

/// Longest key.
const KEY_BYTES_MAX: usize = 255;

/// The keys under which something is being done.
#[derive(Default)]
pub(crate) struct Answers {
    under_way: Mutex<HashMap<Digest, Arc<Mutex<()>>>>,
}

impl Answers {
    /// Answers a request that has a key: what was answered before, or what comes of it now. What could not be done is
    /// tried again.
    pub(crate) fn once(
        &self,
        store: &Store,
        principal: &Principal,
        (key, request): (&str, &[&[u8]]),
        answer: impl FnOnce() -> Outcome<(StatusCode, String)>,
    ) -> Outcome<(StatusCode, String)> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Problem::invalid(format!("an Idempotency-Key has 1 to {KEY_BYTES_MAX} visible characters")));
        }
        let key = hash::sha256(format!("{}\0{key}", principal.name).as_bytes());
        let turn = self.turn(key);
        let _alone = turn.lock().unwrap_or_else(PoisonError::into_inner);
        match store.take_key(key, hash::sha256(&request.join(&0))).wait()? {
            Asked::Now => {}
            Asked::Otherwise => return Err(Problem::conflict("this Idempotency-Key was used for another request")),
            Asked::CutOff => {
                let hint = "look whether it was done (GET /api/runs); if it was not, send it with another key";
                let why = "the server ended while it was at a request with this Idempotency-Key";
                return Err(Problem::conflict(why).with(Vec::new(), Some(hint)));
            }
            Asked::Before { status, body } => {
                let status = StatusCode::from_u16(status).map_err(|why| Problem::internal(&why))?;
                return Ok((status, body));
            }
        }
        match answer() {
            Ok((status, body)) => {
                store.keep_answer(key, status.as_u16(), body.clone()).wait()?;
                Ok((status, body))
            }
            // Whatever failed inside may have come after something was done.
            Err(problem) if problem.status().is_server_error() => Err(problem),
            Err(problem) => {
                store.give_key_back(key).wait()?;
                Err(problem)
            }
        }
    }

    fn turn(&self, key: Digest) -> Arc<Mutex<()>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, turn| Arc::strong_count(turn) > 1);
        under_way.entry(key).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Sessions;

    struct World {
        answers: Answers,
        store: Store,
        ada: Principal,
        _dir: tempfile::TempDir,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&store::Layout::new(dir.path(), None)).unwrap();
        let ada = Sessions::new("t", "ada".to_owned(), None).owner("x");
        World { answers: Answers::default(), store, ada, _dir: dir }
    }

    #[test]
    fn the_same_key_is_answered_once_and_another_body_is_a_conflict() {
        let World { answers, store, ada, _dir } = world();
        let mut count = 0;
        let mut ask = |key: &str, body: &[u8]| {
            answers.once(&store, &ada, (key, &[b"POST /api/runs", body]), || {
                count += 1;
                Ok((StatusCode::CREATED, count.to_string()))
            })
        };
        assert_eq!(ask("a", b"1").unwrap().1, "1");
        assert_eq!(ask("a", b"1").unwrap(), (StatusCode::CREATED, "1".to_owned()));
        assert_eq!(ask("a", b"2").unwrap_err().status(), StatusCode::CONFLICT);
        assert_eq!(ask("b", b"2").unwrap().1, "2");
        assert_eq!(ask("", b"2").unwrap_err().status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn what_could_not_be_done_is_tried_again_and_what_was_cut_off_is_not() {
        let World { answers, store, ada, _dir } = world();
        let refused = || Err(Problem::conflict("not now"));
        assert!(answers.once(&store, &ada, ("a", &[]), refused).is_err());
        assert!(answers.once(&store, &ada, ("a", &[]), || Ok((StatusCode::OK, String::new()))).is_ok());
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            answers.once(&store, &ada, ("b", &[]), || panic!("norma failed"))
        }));
        assert!(died.is_err());
        let again = answers.once(&store, &ada, ("b", &[]), || Ok((StatusCode::OK, String::new())));
        assert_eq!(again.unwrap_err().status(), StatusCode::CONFLICT);
    }
}
