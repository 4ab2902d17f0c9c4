//! A client that does not know whether its request arrived sends it again with the same key: it is answered as before,
//! and nothing is done twice. Of two that come at the same time the second waits for the first.

use crate::problem::{Outcome, Problem};
use crate::sessions::Principal;
use axum::http::StatusCode;
use contract::{Digest, hash};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// How many answers are remembered; the oldest are forgotten first.
const KEPT_MAX: usize = 10_000;
/// Longest key.
const KEY_BYTES_MAX: usize = 255;

type Slot = Arc<Mutex<Option<(StatusCode, String)>>>;

/// The answers that were given, by who asked and their key.
#[derive(Default)]
pub(crate) struct Answers {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_key: HashMap<Digest, (Digest, Slot)>,
    order: VecDeque<Digest>,
}

impl Answers {
    /// Answers a request that has a key: what was answered before, or what comes of it now. What could not be done is
    /// tried again.
    pub(crate) fn once(
        &self,
        principal: &Principal,
        key: &str,
        request: &[&[u8]],
        answer: impl FnOnce() -> Outcome<(StatusCode, String)>,
    ) -> Outcome<(StatusCode, String)> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Problem::invalid(format!("an Idempotency-Key has 1 to {KEY_BYTES_MAX} visible characters")));
        }
        let slot = self.slot(principal, key, hash::sha256(&request.join(&0)))?;
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = &*slot {
            return Ok(before.clone());
        }
        let answered = answer()?;
        *slot = Some(answered.clone());
        Ok(answered)
    }

    fn slot(&self, principal: &Principal, key: &str, request: Digest) -> Outcome<Slot> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let name = hash::sha256(format!("{}\0{key}", principal.name).as_bytes());
        if let Some((known, slot)) = kept.by_key.get(&name) {
            return match *known == request {
                true => Ok(slot.clone()),
                false => Err(Problem::conflict("this Idempotency-Key was used for another request")),
            };
        }
        if kept.order.len() >= KEPT_MAX
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.by_key.remove(&oldest);
        }
        let slot = Slot::default();
        kept.by_key.insert(name, (request, slot.clone()));
        kept.order.push_back(name);
        Ok(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Sessions;

    #[test]
    fn the_same_key_is_answered_once_and_another_body_is_a_conflict() {
        let (answers, sessions) = (Answers::default(), Sessions::new("t", "ada".to_owned(), None));
        let (ada, mut count) = (sessions.owner("x"), 0);
        let mut ask = |key: &str, body: &[u8]| {
            answers.once(&ada, key, &[b"POST /api/runs", body], || {
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
    fn what_could_not_be_done_is_tried_again() {
        let (answers, sessions) = (Answers::default(), Sessions::new("t", "ada".to_owned(), None));
        let ada = sessions.owner("x");
        assert!(answers.once(&ada, "a", &[], || Err(Problem::conflict("not now"))).is_err());
        assert!(answers.once(&ada, "a", &[], || Ok((StatusCode::OK, String::new()))).is_ok());
    }
}
