//! The terminal while the board is on it: its own screen, keys one by one, and everything as it was afterwards, however
//! this ends.

use super::POLL;
use super::board::{Board, Effect, Key};
use super::draw::draw;
use crate::command::events::readable;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use contract::{ApprovalDecision, ApprovalId, ApprovalTerms};
use ratatui::Terminal;
use ratatui::backend::TermionBackend;
use ratatui::termion::event::{Event, Key as Typed, parse_event};
use ratatui::termion::raw::IntoRawMode;
use ratatui::termion::screen::IntoAlternateScreen;
use runner::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Layout, Reader};

/// How many runs are listed.
const RUNS_MAX: u64 = 200;
/// How many events are read at once.
const PAGE: u64 = 1000;

/// Shows the board until somebody has seen enough, or the only run that is watched has ended.
pub(super) fn watch(here: &Surroundings, layout: &Layout, reader: &Reader, only: Option<String>) -> Outcome<ExitCode> {
    let told_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, told_to_end.clone()).map_err(|error| failed(&error))?;
    }
    let mut board = Board { zoomed: only.is_some(), chosen: only.clone(), ..Board::default() };
    let screen = std::io::stdout().into_raw_mode().and_then(IntoAlternateScreen::into_alternate_screen);
    let screen = screen.map_err(|error| failed(&error))?;
    let mut terminal = Terminal::new(TermionBackend::new(screen)).map_err(|error| failed(&error))?;
    loop {
        if told_to_end.load(Ordering::Relaxed) {
            return Ok(ExitCode::from(code::INTERRUPTED));
        }
        let ended = look(here, layout, reader, only.as_deref(), &mut board)?;
        terminal.draw(|frame| draw(&mut board, frame, here.color)).map_err(|error| failed(&error))?;
        if ended {
            break;
        }
        for key in keys() {
            match board.press(key) {
                Effect::Nothing => {}
                Effect::Quit => return Ok(ExitCode::SUCCESS),
                Effect::Answer(id, decision) => board.said = answered(here, id, decision),
            }
        }
    }
    drop(terminal);
    if let Some(run) = board.run() {
        here.print(run, || format!("run {} {}\nlook: norma show {}", run.run_id, run.word(), run.run_id));
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes over what is new; answers whether the only run that is watched has ended.
fn look(here: &Surroundings, layout: &Layout, reader: &Reader, only: Option<&str>, board: &mut Board) -> Outcome<bool> {
    let mut runs = match only {
        Some(slug) => reader.run(slug)?.into_iter().collect(),
        None => reader.runs(Some(RUNS_MAX))?,
    };
    // Before its lines: whatever is behind an end is shown.
    let ended = only.is_some() && runs.iter().all(|run| run.status.is_terminal());
    here.truthful(layout, runs.iter_mut());
    board.update(runs, reader.approvals(true)?);
    while let Some(slug) = board.chosen.clone() {
        let lines = reader.lines(&slug, board.read, PAGE)?;
        if lines.is_empty() {
            break;
        }
        board.add(lines.iter().map(|line| readable(line)));
    }
    Ok(ended)
}

/// Has the owner record the answer; what is said of it.
fn answered(here: &Surroundings, approval: ApprovalId, decision: ApprovalDecision) -> String {
    let answer = || {
        let by = here.person(&here.repository()?);
        let reason = (decision == ApprovalDecision::Denied).then(|| "denied while watching".to_owned());
        let terms = ApprovalTerms::default();
        here.request(Request::Answer { approval, decision, by, reason, terms })
    };
    match answer() {
        Ok((message, _)) => message,
        Err(error) => error.message().to_owned(),
    }
}

/// The keys that are pressed within a moment.
fn keys() -> Vec<Key> {
    let stdin = rustix::stdio::stdin();
    let moment = Timespec { tv_sec: 0, tv_nsec: POLL.subsec_nanos().into() };
    let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
    let mut typed = [0; 64];
    let count = match poll(&mut waited, Some(&moment)) {
        // Nobody is there any more.
        Ok(1..) => rustix::io::read(stdin, &mut typed).ok().filter(|count| *count > 0),
        _ => return Vec::new(),
    };
    let Some(count) = count else { return vec![Key::Letter('q')] };
    let mut bytes = typed[..count].iter().map(|byte| Ok(*byte));
    let mut keys = Vec::new();
    while let Some(Ok(first)) = bytes.next() {
        keys.extend(meaning(first, &mut bytes));
    }
    keys
}

fn meaning(first: u8, rest: &mut impl Iterator<Item = std::io::Result<u8>>) -> Option<Key> {
    match parse_event(first, rest) {
        Ok(Event::Key(key)) => match key {
            Typed::Up => Some(Key::Up),
            Typed::Down => Some(Key::Down),
            Typed::PageUp => Some(Key::PageUp),
            Typed::PageDown => Some(Key::PageDown),
            Typed::Char('\n' | '\r') => Some(Key::Enter),
            Typed::Ctrl('c') => Some(Key::Letter('q')),
            Typed::Char(letter) => Some(Key::Letter(letter)),
            Typed::Esc => Some(Key::Escape),
            _ => None,
        },
        // An escape with nothing behind it.
        Err(_) if first == 0x1b => Some(Key::Escape),
        _ => None,
    }
}

fn failed(error: &std::io::Error) -> CommandError {
    let message = format!("could not draw on the terminal: {error}");
    CommandError::new(code::ENVIRONMENT, message, "line by line: norma watch | cat")
}
