//! From a sentence to a contract that somebody can see before it is started: who works, what may change, what must
//! succeed. The command line and the server both propose by this one function, so that the same words come to the same
//! contract wherever they are said. Nothing is written here, not even a state directory.

pub(crate) mod agent;
mod draft;
mod questions;
mod shown;

use crate::context::own::{InForce, settings_in_force};
use crate::{Context, Error, Preview, Settings, Submitted, Surveyed, Typed, check_sandbox};
use contract::api::{ContractPreview, Intake, Question};
use contract::{Item, Mode};
pub use draft::{Draft, Typing};
use draft::{allowed, check_committed, tests, unjudged};
use questions::Answered;
pub use questions::which_agent;
use run::proposal::propose;
use serde_json::Value;
use shown::budgets_of;
use std::collections::BTreeMap;
use std::path::Path;

/// What somebody wants.
pub struct Wanted<'w> {
    /// In a sentence.
    pub sentence: &'w str,
    /// What else was said about it.
    pub typing: Typing<'w>,
    /// Who works.
    pub agent: Option<&'w str>,
    /// The model, instead of the agent's own choice.
    pub model: Option<&'w str>,
    /// What it may use up, as `NAME=N`.
    pub budgets: &'w [String],
    /// What they answered to questions, by their ids.
    pub answers: &'w BTreeMap<String, String>,
}

/// Which part of what was wanted something is wrong with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The agent.
    Agent,
    /// One of the paths.
    Allow(usize),
    /// One of the tests.
    Test(usize),
    /// What must hold.
    Criteria,
    /// What it may use up, or the model.
    Budget,
    /// The answer to this question.
    Answer(String),
}

/// Why there is no contract.
#[derive(Debug)]
pub enum Unplanned {
    /// This part cannot be.
    At(Part, Error),
    /// The contract would be refused.
    Contract(Box<Submitted>),
    /// Something else.
    Other(Error),
}

/// What comes of planning.
pub(crate) type Planning<T> = Result<T, Unplanned>;

impl<E: Into<Error>> From<E> for Unplanned {
    fn from(error: E) -> Unplanned {
        Unplanned::Other(error.into())
    }
}

/// A sentence on its way to a contract.
pub struct Planned<'c> {
    /// The commit that it would start from.
    pub preview: Preview<'c>,
    /// With what was typed in them.
    pub settings: Settings,
    /// Who works.
    pub agent: Surveyed,
    /// What was typed beside the contract.
    pub typed: Typed,
    notes: Vec<String>,
    /// Where the proposed scope comes from; empty if it was typed.
    pub because: String,
    /// What somebody should be asked.
    pub questions: Vec<Question>,
    /// Whether criteria were typed, which something has to judge.
    has_criteria: bool,
    /// The contract, as it is submitted.
    pub document: Value,
}

/// A contract that can be started.
pub struct Checked {
    /// What it compiles to.
    pub item: Item,
    /// Why it needs an approval of its own.
    pub wide: Vec<String>,
    notes: Vec<String>,
}

/// Proposes a contract, with what was said in place of proposals. `pick` names one of several agents that are ready.
pub fn plan<'c>(
    context: &'c Context,
    (config, mode): (Option<&Path>, Mode),
    wanted: &Wanted<'_>,
    pick: impl FnOnce(&[Surveyed]) -> crate::Result<String>,
) -> Planning<Planned<'c>> {
    let InForce { mut settings, unused } = settings_in_force(context, config)?;
    check_sandbox(&settings.config.sandbox, mode, &context.sandbox)?;
    let answered = Answered::read(wanted)?;
    let typed = &wanted.typing;
    let placed = |unplanned: Unplanned| answered.placed(typed, unplanned);
    let agent = agent::choose(context, &settings.config, wanted.agent.or(answered.agent.as_deref()), pick)
        .map_err(|error| placed(Unplanned::At(Part::Agent, error)))?;
    let preview = Preview::open(context)?;
    let (facts, left_out) = preview.facts_for(wanted.sentence, &settings)?;
    let proposal = propose(wanted.sentence, &facts, answered.share_percent);
    let typing = &answered.typing(typed);
    let questions = questions::about(&proposal, typing, answered.share_percent);
    let typed_paths = allowed(&preview, typing).map_err(placed)?;
    let new = typed_paths.iter().filter(|it| it.is_new).map(|it| format!("{} is a new file", it.path));
    let mut notes: Vec<String> = new.chain(left_out).collect();
    let tests = match typing.tests.is_empty() {
        true => {
            notes.extend(proposal.notes);
            proposal.tests
        }
        false => tests(&preview, &settings, &facts, typing).map_err(placed)?,
    };
    let (allow, because) = match typed_paths.is_empty() {
        true => (proposal.allow, proposal.because),
        false => (typed_paths.into_iter().map(|it| it.path).collect(), String::new()),
    };
    let budgets = budgets_of(wanted.budgets, &settings.config.budgets, &agent);
    let typed = Typed { agent: agent.name.clone(), model: wanted.model.map(str::to_owned), budgets };
    typed.apply(&mut settings).map_err(|error| Unplanned::At(Part::Budget, error))?;
    let draft = Draft { goal: wanted.sentence, criteria: typing.criteria, agent: &agent.name, allow, tests };
    let document = draft.document().map_err(|error| Unplanned::At(Part::Criteria, error))?;
    notes.extend(unused);
    let has_criteria = !typing.criteria.is_empty();
    Ok(Planned { preview, settings, agent, typed, notes, because, questions, has_criteria, document })
}

impl Planned<'_> {
    /// Holds the contract to everything that a run of it would be held to before an agent starts.
    pub fn check(&self) -> Planning<Checked> {
        let bytes = self.document.to_string().into_bytes();
        let submitted = self.preview.submit(&self.settings, &bytes)?;
        let Ok(items) = &submitted.items else { return Err(Unplanned::Contract(Box::new(submitted))) };
        let [item] = &items[..] else {
            return Err(Error::usage("a sentence is one work item", "several: norma batch FILE").into());
        };
        if self.has_criteria && item.tests.is_empty() {
            return Err(Unplanned::At(Part::Criteria, unjudged()));
        }
        let mut notes = self.notes.clone();
        for path in &item.scope.allowed_paths {
            let path = check_committed(&self.preview, path.as_str(), path.as_str())?;
            let note = format!("{} is a new file", path.path);
            if path.is_new && !notes.contains(&note) {
                notes.push(note);
            }
        }
        if let Some(review) = self.settings.config.reviewers(&item.worker, None) {
            notes.push(format!("reviewed by {} before it is tested", review.agents.join(", ")));
        }
        let wide = self.preview.approval_reasons(&self.settings, items)?;
        Ok(Checked { item: item.clone(), wide, notes })
    }

    /// The contract as people and programs are shown it; `next` is how to have it run.
    pub fn shown(&self, checked: &Checked, next: String) -> ContractPreview {
        shown::preview(self, checked, next)
    }

    /// The same with what norma would like to know.
    pub fn intake(&self, checked: &Checked, next: String) -> Intake {
        let preview = self.shown(checked, next);
        Intake { contract: preview.contract.clone(), questions: self.questions.clone(), preview }
    }
}
