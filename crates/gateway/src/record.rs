//! Where exchanges are kept.

use std::io;

use crate::exchange::Exchange;

/// Keeps exchanges, for good when it returns.
///
/// Each exchange comes twice under the same `seq`: without an answer before its request is forwarded, and with one
/// when that is over, however it ended. One that norma answers itself comes once. If either fails, the program gets
/// no more than it has, its connection is closed, and nothing is forwarded any more.
pub trait Record: Send + Sync {
    /// Keeps an exchange as it stands. Called from the threads that serve, several at once.
    fn exchange(&self, exchange: &Exchange) -> io::Result<()>;
}
