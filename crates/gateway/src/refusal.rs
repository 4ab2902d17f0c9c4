//! What norma answers in a provider's place, and with which status.

/// An answer of norma's own. The message goes to the program and on record, so it never holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Refusal {
        Refusal { status, message: format!("norma: {}", message.into()) }
    }

    /// The request is not in order.
    pub(crate) fn malformed(what: &str) -> Refusal {
        Refusal::new(400, format!("the request is refused: {what}"))
    }

    /// The call is none that the API needs.
    pub(crate) fn not_forwarded() -> Refusal {
        Refusal::new(404, "this call is not forwarded")
    }

    /// 400 and not 429 or 402: every agent's program ends at once on 400, and some repeat 429 without end.
    pub(crate) fn budget(message: &str) -> Refusal {
        Refusal::new(400, message)
    }

    /// The provider would do what the contract does not allow. 400, so that no program asks again.
    pub(crate) fn unreachable(message: &str) -> Refusal {
        Refusal::new(400, message)
    }

    /// The provider failed too often. 400 as well: some programs repeat what failed without end.
    pub(crate) fn given_up(times: u32, status: u16) -> Refusal {
        let often = format!("the provider failed {times} times in a row, the last time with status {status}");
        Refusal::new(400, format!("{often}; the call was not made"))
    }

    /// The provider gave no usable answer.
    pub(crate) fn bad_gateway(why: &str) -> Refusal {
        Refusal::new(502, why)
    }
}
