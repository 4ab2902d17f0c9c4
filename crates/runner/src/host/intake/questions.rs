//! What norma would like to know about a sentence, and what somebody answers. Nothing has to be answered: where nobody does,
//! the proposal counts as it is shown.

use super::{Part, Planning, Typing, Unplanned, Wanted};
use crate::{Error, Surveyed};
use contract::api::{Question, QuestionId};
use contract::printable as safe;
use run::proposal::{Proposal, SHARE_PERCENT};

/// What somebody answered, in place of what was not said otherwise.
#[derive(Default)]
pub(super) struct Answered {
    pub(super) agent: Option<String>,
    allow: Option<Vec<String>>,
    tests: Option<Vec<String>>,
    /// How much of the tree the proposed scope may hold.
    pub(super) share_percent: Option<u8>,
}

impl Answered {
    /// Reads the answers.
    pub(super) fn read(wanted: &Wanted<'_>) -> Planning<Answered> {
        let mut answered = Answered::default();
        for (id, text) in wanted.answers {
            let Some(question) = QuestionId::ALL.into_iter().find(|question| question.as_str() == id) else {
                let known: Vec<&str> = QuestionId::ALL.map(QuestionId::as_str).into();
                let message = format!("there is no question {:?}", safe(id));
                return Err(wrong(id, Error::usage(message, format!("there are {}", known.join(", ")))));
            };
            let text = text.trim();
            if text.is_empty() {
                let error = Error::usage("the answer is empty", "leave it out to have norma propose something");
                return Err(wrong(id, error));
            }
            match question {
                QuestionId::Agent => answered.agent = Some(text.to_owned()),
                QuestionId::Tests => answered.tests = Some(list(text, &['\n'])),
                QuestionId::Scope => match text.strip_suffix('%') {
                    Some(number) => answered.share_percent = Some(share(number).map_err(|error| wrong(id, error))?),
                    None => answered.allow = Some(list(text, &[',', '\n'])),
                },
            }
        }
        Ok(answered)
    }

    /// What was typed, with answers where nothing was.
    pub(super) fn typing<'t>(&'t self, typed: &Typing<'t>) -> Typing<'t> {
        let or = |typed: &'t [String], answer: &'t Option<Vec<String>>| match answer {
            Some(answer) if typed.is_empty() => answer,
            _ => typed,
        };
        Typing { allow: or(typed.allow, &self.allow), tests: or(typed.tests, &self.tests), ..*typed }
    }

    /// The place of a mistake: in the answer, where it is not in what was typed.
    pub(super) fn placed(&self, typed: &Typing<'_>, unplanned: Unplanned) -> Unplanned {
        match unplanned {
            Unplanned::At(Part::Allow(_), error) if typed.allow.is_empty() => wrong(QuestionId::Scope.as_str(), error),
            Unplanned::At(Part::Test(_), error) if typed.tests.is_empty() => wrong(QuestionId::Tests.as_str(), error),
            Unplanned::At(Part::Agent, error) if self.agent.is_some() => wrong(QuestionId::Agent.as_str(), error),
            other => other,
        }
    }
}

fn wrong(id: &str, error: Error) -> Unplanned {
    Unplanned::At(Part::Answer(id.to_owned()), error)
}

fn share(number: &str) -> crate::Result<u8> {
    let share = number.trim().parse().ok().filter(|share| (1..=100).contains(share));
    share.ok_or_else(|| Error::usage("that is no share of the repository", "1 % to 100 %, or paths"))
}

fn list(text: &str, between: &[char]) -> Vec<String> {
    text.split(between).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// What somebody should be asked about a proposal; `typing` is what they said already.
pub(super) fn about(proposal: &Proposal, typing: &Typing<'_>, share_percent: Option<u8>) -> Vec<Question> {
    let mut questions = Vec::new();
    if typing.allow.is_empty() && share_percent.is_none() && proposal.is_a_guess {
        let question = "Nothing in the sentence says what may change. Name files or directories, with commas between \
                        them, or how much of the repository norma may choose by itself.";
        let choices = [SHARE_PERCENT / 2, SHARE_PERCENT, SHARE_PERCENT * 3].map(|share| format!("{share} %"));
        questions.push(Question { id: QuestionId::Scope, question: question.to_owned(), choices: choices.into() });
    }
    if typing.tests.is_empty() && proposal.tests.is_empty() {
        let question =
            "Which command tells whether the change is good? Without one, nothing but scope and size judges it.";
        questions.push(Question { id: QuestionId::Tests, question: question.to_owned(), choices: Vec::new() });
    }
    questions
}

/// Which of several agents works.
pub fn which_agent(ready: &[Surveyed]) -> Question {
    let choices = ready.iter().map(|agent| agent.name.clone()).collect();
    Question { id: QuestionId::Agent, question: "Several agents are ready. Which one works?".to_owned(), choices }
}
