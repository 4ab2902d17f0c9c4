//! The terminal while a run goes on: lines that stay, and below them lines that are drawn again and again. Elsewhere
//! (a pipe, a terminal that knows no escapes) only the lines that stay are printed.

use crate::text::{duration, raw_out};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the lines below are drawn again.
const TICK: Duration = Duration::from_millis(250);

/// How many lines are drawn at once; the rest is counted.
const LINES_MAX: usize = 8;

/// How wide a terminal is that does not say.
const COLUMNS: usize = 80;

/// The lines that are drawn over; dropping the last one clears what was drawn.
pub(crate) struct Screen {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Whether lines are drawn again.
    live: bool,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    going: Vec<Going>,
    question: Option<String>,
    /// How many lines are there to be drawn over.
    drawn: usize,
}

/// Something that goes on: drawn with its time until it is over.
struct Going {
    key: String,
    label: String,
    since: Instant,
    detail: String,
}

impl Screen {
    pub(crate) fn new(live: bool) -> Screen {
        let shared = Arc::new(Shared { state: Mutex::default(), live, stop: AtomicBool::new(false) });
        let drawing = shared.clone();
        let draw = move || {
            while !drawing.stop.load(Ordering::Relaxed) {
                drawing.lock().draw();
                std::thread::park_timeout(TICK);
            }
        };
        let thread = live.then(|| std::thread::Builder::new().spawn(draw).ok()).flatten();
        Screen { shared, thread }
    }

    /// Prints a line that stays.
    pub(crate) fn line(&self, text: &str) {
        let mut state = self.shared.lock();
        let mut bytes = state.erased();
        bytes.push_str(text);
        bytes.push('\n');
        raw_out(&bytes);
        if self.shared.live {
            state.draw();
        }
    }

    /// Draws something that goes on since a moment.
    pub(crate) fn begin(&self, key: &str, label: String, since: Instant) {
        let mut state = self.shared.lock();
        state.going.retain(|going| going.key != key);
        state.going.push(Going { key: key.to_owned(), label, since, detail: String::new() });
    }

    /// What is known of it now.
    pub(crate) fn detail(&self, key: &str, detail: String) {
        let mut state = self.shared.lock();
        state.going.iter_mut().filter(|going| going.key == key).for_each(|going| going.detail = detail.clone());
    }

    /// It is over.
    pub(crate) fn end(&self, key: &str) {
        self.shared.lock().going.retain(|going| going.key != key);
    }

    /// Asks below everything else, or stops asking.
    pub(crate) fn ask(&self, question: Option<&str>) {
        let mut state = self.shared.lock();
        match (self.shared.live, question) {
            (true, _) => {
                state.question = question.map(str::to_owned);
                state.draw();
            }
            (false, Some(question)) => raw_out(&format!("{question}\n")),
            (false, None) => {}
        }
    }

    /// Draws nothing from now on.
    pub(crate) fn clear(&self) {
        let mut state = self.shared.lock();
        state.going.clear();
        state.question = None;
        raw_out(&state.erased());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn draw(&mut self) {
        let lines = self.lines(columns());
        if lines.is_empty() && self.drawn == 0 {
            return;
        }
        let mut bytes = self.erased();
        bytes.push_str(&lines.join("\n"));
        self.drawn = lines.len();
        raw_out(&bytes);
    }

    /// What takes away the lines that were drawn; the cursor is then where they began.
    fn erased(&mut self) -> String {
        let drawn = std::mem::take(&mut self.drawn);
        match drawn {
            0 => String::new(),
            lines => format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(lines - 1)),
        }
    }

    /// No line is wider than the terminal: one that is wrapped could not be drawn over.
    fn lines(&self, columns: usize) -> Vec<String> {
        let fits = |text: String| text.chars().take(columns.saturating_sub(1)).collect::<String>();
        let line = |going: &Going| {
            let detail = if going.detail.is_empty() { String::new() } else { format!("  {}", going.detail) };
            fits(format!("{} … {:>6}{detail}", going.label, duration(going.since.elapsed())))
        };
        let mut lines: Vec<String> = self.going.iter().take(LINES_MAX).map(line).collect();
        if self.going.len() > LINES_MAX {
            lines.push(fits(format!("    … and {} more", self.going.len() - LINES_MAX)));
        }
        lines.extend(self.question.clone().map(fits));
        lines
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    size.map(|size| usize::from(size.ws_col)).ok().filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_go_on_fit_and_are_drawn_over() {
        let mut state = State::default();
        for n in 0..10 {
            let (key, label) = (n.to_string(), format!("{n} worker"));
            state.going.push(Going { key, label, since: Instant::now(), detail: "x".repeat(100) });
        }
        state.question = Some("pause?".to_owned());
        let lines = state.lines(40);
        assert_eq!(lines.len(), LINES_MAX + 2);
        assert!(lines.iter().all(|line| line.chars().count() < 40), "{lines:?}");
        assert_eq!(lines[LINES_MAX..], ["    … and 2 more", "pause?"]);
        state.drawn = 3;
        assert_eq!(state.erased(), "\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K");
        assert_eq!(state.erased(), "");
    }
}
