//! What somebody who watches has before them: the runs, the events of the chosen one, and what it needs. What a key means
//! is decided here, without a terminal.

use contract::{ApprovalDecision, ApprovalId, ApprovalView, RunView, lines_of_reason};
use std::collections::VecDeque;

/// How many events of the chosen run are kept to scroll back to.
const EVENTS_MAX: usize = 2000;

/// A key, as far as it means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Escape,
    Letter(char),
}

/// What a key asks for beyond what is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Quit,
    Answer(ApprovalId, ApprovalDecision),
}

/// What needs a person's approval, shown whole before it can be given.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: ApprovalId,
    /// Every line of the reasons.
    pub(super) lines: Vec<String>,
    /// The first row that is shown.
    pub(super) top: usize,
    /// Whether the last row has been shown.
    pub(super) seen: bool,
}

/// Everything that is shown.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// The newest first.
    pub(super) runs: Vec<RunView>,
    /// What runs wait for.
    pub(super) asked: Vec<ApprovalView>,
    /// The run whose events are shown.
    pub(super) chosen: Option<String>,
    /// Its events, for people.
    pub(super) events: VecDeque<String>,
    /// How many of its events have been read.
    pub(super) read: u64,
    /// How far somebody has scrolled back in them.
    pub(super) back: usize,
    /// Whether the events have the whole screen.
    pub(super) zoomed: bool,
    pub(super) question: Option<Question>,
    /// What came of the last answer.
    pub(super) said: String,
    /// How many rows a page has, as it was drawn last.
    pub(super) page: usize,
}

impl Board {
    /// Takes over how all runs are now; the chosen one stays chosen.
    pub(super) fn update(&mut self, runs: Vec<RunView>, asked: Vec<ApprovalView>) {
        (self.runs, self.asked) = (runs, asked);
        if self.place().is_none() {
            self.choose(0);
        }
        let asked = &self.asked;
        self.question.take_if(|question| asked.iter().all(|it| it.id != question.id));
    }

    /// Where the chosen run is in the list.
    pub(super) fn place(&self) -> Option<usize> {
        let chosen = self.chosen.as_deref()?;
        self.runs.iter().position(|run| &*run.run_id == chosen)
    }

    /// The chosen run.
    pub(super) fn run(&self) -> Option<&RunView> {
        self.runs.get(self.place()?)
    }

    /// What the chosen run needs first.
    pub(super) fn needs(&self) -> Option<&ApprovalView> {
        let chosen = self.chosen.as_deref()?;
        self.asked.iter().rev().find(|it| &*it.run_id == chosen)
    }

    /// More events of the chosen run.
    pub(super) fn add(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            self.read += 1;
            self.events.push_back(line);
            // Who has scrolled back goes on looking at the same lines.
            self.back += usize::from(self.back > 0);
        }
        let too_many = self.events.len().saturating_sub(EVENTS_MAX);
        self.events.drain(..too_many);
        self.back = self.back.min(self.events.len());
    }

    fn choose(&mut self, place: usize) {
        let Some(run) = self.runs.get(place.min(self.runs.len().saturating_sub(1))) else { return };
        let slug = run.run_id.to_string();
        if self.chosen.as_ref() != Some(&slug) {
            self.chosen = Some(slug);
            self.events.clear();
            (self.read, self.back) = (0, 0);
        }
    }

    /// What a key means now.
    pub(super) fn press(&mut self, key: Key) -> Effect {
        match (&self.question, key) {
            (Some(_), key) => self.press_in_question(key),
            (None, Key::Letter('q')) => Effect::Quit,
            (None, Key::Escape) => {
                self.zoomed = false;
                self.back = 0;
                Effect::Nothing
            }
            (None, Key::Enter) => {
                self.zoomed = !self.zoomed;
                Effect::Nothing
            }
            (None, Key::Letter('a' | 'd')) => {
                self.ask();
                Effect::Nothing
            }
            (None, key) => {
                self.move_by(key);
                Effect::Nothing
            }
        }
    }

    fn ask(&mut self) {
        self.said.clear();
        let Some(needed) = self.needs() else {
            self.said = "this run needs no approval".to_owned();
            return;
        };
        let lines = needed.reasons.iter().flat_map(|reason| lines_of_reason(reason)).map(str::to_owned).collect();
        self.question = Some(Question { id: needed.id, lines, top: 0, seen: false });
    }

    fn press_in_question(&mut self, key: Key) -> Effect {
        let page = self.page.max(1);
        let Some(question) = &mut self.question else { return Effect::Nothing };
        match key {
            Key::Up => question.top = question.top.saturating_sub(1),
            Key::PageUp => question.top = question.top.saturating_sub(page),
            // Drawing holds it to the last page.
            Key::Down => question.top += 1,
            Key::PageDown => question.top += page,
            Key::Letter('a') if !question.seen => self.said = "read it to its end first: ↓".to_owned(),
            Key::Letter('a') => return self.answer(ApprovalDecision::Granted),
            Key::Letter('d') => return self.answer(ApprovalDecision::Denied),
            Key::Escape | Key::Letter('q') => self.question = None,
            Key::Enter | Key::Letter(_) => {}
        }
        Effect::Nothing
    }

    fn answer(&mut self, decision: ApprovalDecision) -> Effect {
        self.question.take().map_or(Effect::Nothing, |question| Effect::Answer(question.id, decision))
    }

    fn move_by(&mut self, key: Key) {
        let (page, most) = (self.page.max(1), self.events.len());
        let place = self.place().unwrap_or_default();
        match (key, self.zoomed) {
            (Key::Up | Key::Letter('k'), false) => self.choose(place.saturating_sub(1)),
            (Key::Down | Key::Letter('j'), false) => self.choose(place + 1),
            (Key::Up | Key::Letter('k'), true) => self.back = (self.back + 1).min(most),
            (Key::Down | Key::Letter('j'), true) => self.back = self.back.saturating_sub(1),
            (Key::PageUp, _) => self.back = (self.back + page).min(most),
            (Key::PageDown, _) => self.back = self.back.saturating_sub(page),
            (Key::Enter | Key::Escape | Key::Letter(_), _) => {}
        }
    }
}
