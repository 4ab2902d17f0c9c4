//! What a gateway can be told besides where to send: sizes, times and prices.

use std::time::Duration;

use crate::price::Prices;

/// How a gateway works; the defaults suit the providers' own endpoints.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How much is taken.
    pub limits: Limits,
    /// How long is waited.
    pub patience: Patience,
    /// Whether the provider may be asked to reach other hosts, to search or to run code.
    pub network: bool,
    /// How often a call is made again.
    pub retries: Retries,
    /// What models cost.
    pub prices: Prices,
}

/// How long a call is made again that the provider failed as it may fail anybody for a while: rate limited, overloaded,
/// out of reach, or cut off before it said anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// From the first attempt on. A provider that asks for more patience than is left is not asked again.
    pub patience: Duration,
    /// Before the second attempt; each later pause is twice as long, up to [`Retries::PAUSE_MAX`]. The provider's own word
    /// on when to ask again counts where it is longer.
    pub pause: Duration,
}

impl Retries {
    /// The longest pause that the provider did not ask for.
    pub const PAUSE_MAX: Duration = Duration::from_secs(30);

    /// A call is made once.
    pub const NONE: Retries = Retries { patience: Duration::ZERO, pause: Duration::ZERO };
}

/// Shorter than the time after which the agents' programs give up on a call themselves, the shortest of which is five
/// minutes.
impl Default for Retries {
    fn default() -> Retries {
        Retries { patience: Duration::from_secs(120), pause: Duration::from_secs(1) }
    }
}

/// How much a gateway takes before it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, with its first line.
    pub head_bytes: usize,
    /// Bytes of a body, either way. A longer answer is cut, because it could not be recorded whole.
    pub body_bytes: usize,
    /// Connections at once.
    pub connections: usize,
    /// How often in a row the provider may fail before it is not called any more.
    pub failures: u32,
    /// Bytes of bodies and heads that are given to the record in all. Then it counts as failed: a program that asks
    /// without end, also for what is refused and costs nothing, must not fill the disk.
    pub recorded_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_bytes: 64 * 1024,
            body_bytes: 64 * 1024 * 1024,
            connections: 64,
            failures: 3,
            recorded_bytes: 8 * 1024 * 1024 * 1024,
        }
    }
}

/// How long a gateway waits for the provider, and for a program in the middle of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until there is a connection, with looking up the name and the handshake.
    pub connect: Duration,
    /// From the request to the first byte of its answer. Models think before they speak.
    pub first_byte: Duration,
    /// From one piece of an answer to the next.
    pub idle: Duration,
    /// For the program inside to continue what it began to send, or to take what it asked for.
    pub client: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            client: Duration::from_secs(120),
        }
    }
}
