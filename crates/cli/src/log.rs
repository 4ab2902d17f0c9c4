//! What norma itself does, for whoever operates it: git calls, what the sandbox falls back to, recoveries, slow commits.
//! A line each on stderr, off unless somebody asks (`NORMA_LOG`, `-vv`), and without secrets. It is no record: facts are in
//! the logs of runs, and nothing is decided by what is told here. The few lines below stand for tracing-subscriber, which
//! would bring a dozen packages.

use crate::error::{CommandError, Outcome};
use crate::text::{err, safe};
use run::redact::{Known, Redactor};
use std::ffi::OsString;
use std::fmt::{self, Write};
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber, span};

/// The words of `NORMA_LOG`.
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// Starts telling, if somebody asked: by `-vv`, or by the value of `NORMA_LOG`.
pub(crate) fn start(verbose: u8, asked: Option<OsString>) -> Outcome<()> {
    let level = level(verbose, asked.as_ref().map(|word| word.to_string_lossy()).as_deref())?;
    if level == LevelFilter::OFF {
        return Ok(());
    }
    let mut known = Known::new();
    for (name, value) in std::env::vars_os() {
        known.add_variable(&name.to_string_lossy(), &value.to_string_lossy());
    }
    let log = Log { level, redactor: Redactor::new(&known), started: Instant::now() };
    tracing::subscriber::set_global_default(log).expect("BUG: a program starts telling once");
    Ok(())
}

fn level(verbose: u8, asked: Option<&str>) -> Outcome<LevelFilter> {
    // `-v` is for what agents say; what norma does itself begins with the next one.
    let typed = match verbose {
        0 | 1 => LevelFilter::OFF,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let Some(asked) = asked else { return Ok(typed) };
    let known = LEVELS.iter().find(|(word, _)| *word == asked).map(|(_, level)| *level);
    known.map(|level| level.max(typed)).ok_or_else(|| {
        CommandError::usage(format!("NORMA_LOG is {asked:?}"), "set it to off, error, warn, info, debug or trace")
    })
}

struct Log {
    level: LevelFilter,
    redactor: Redactor,
    started: Instant,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("norma::")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let seconds = self.started.elapsed().as_secs_f64();
        let text = format!("{seconds:9.3} {level:<5} {target}: {}{}", line.message, line.fields);
        err(&safe(&self.redactor.redact_str(&text).0));
    }

    // norma tells what happened, not what it is in the middle of: there are no spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The words of an event, and its fields after them.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_off_unless_somebody_asks_and_the_louder_one_counts() {
        let check = |verbose: u8, asked: Option<&str>, expected: LevelFilter| {
            assert_eq!(level(verbose, asked).ok(), Some(expected), "{verbose} {asked:?}");
        };
        check(0, None, LevelFilter::OFF);
        check(1, None, LevelFilter::OFF);
        check(2, None, LevelFilter::DEBUG);
        check(9, None, LevelFilter::TRACE);
        check(0, Some("warn"), LevelFilter::WARN);
        check(1, Some("debug"), LevelFilter::DEBUG);
        check(2, Some("off"), LevelFilter::DEBUG);
        assert!(level(0, Some("loud")).is_err());
    }
}
