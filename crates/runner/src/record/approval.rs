//! A run and the person it waits for: asking, and going on once somebody has answered. What is asked is bound to the run,
//! its contract and the reasons; using the answer is the run's own fact ([`contract::Fact::ApprovalUsed`]), and the store
//! lets it into the log only with an approval that is there to be used.

use crate::agent;
use crate::context::policy::extent;
use crate::git::{ObjectId, Objects};
use crate::{Error, Result};
use contract::graph::{NodeAnswered, NodeWish};
use contract::view::graph::ResolutionStatus;
use contract::{
    ApprovalDecision, ApprovalId, ApprovalState, ApprovalTerms, ApprovalView, ApprovalWait, Fact, Item, Policies,
    approval_bound,
};
use run::Run;
use run::gate::policy::{Extent, needs_approval};
use run::workflow::graph::{Wished, outcome};
use store::{Reader, Store};

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redeemed {
    /// It was approved. The approval is used by recording [`contract::Fact::ApprovalUsed`] with this name.
    Granted {
        /// Who.
        by: String,
        /// How far it goes.
        terms: ApprovalTerms,
    },
    /// Somebody said no.
    Denied {
        /// Who.
        by: String,
        /// Why, in their words; empty if they gave none.
        reason: String,
    },
    /// Nobody has answered yet.
    Pending,
    /// Its time passed.
    Expired,
}

/// Asks whether a run may continue in spite of these reasons, exactly as its contract has them; answers what it waits for.
pub fn ask(store: &Store, run: &Run, reasons: Vec<String>) -> Result<ApprovalWait> {
    Ok(store.ask_approval(run, reasons).wait()?)
}

/// How the reason begins that says which command an agent asks about.
pub(crate) const OF_COMMAND: &str = "command: ";

/// Why an approval cannot be given for another command than the one that was asked about, if it cannot. Said before it is
/// granted: an agent that cannot take another command would be denied by it.
pub(crate) fn refuses_another_command(run: &Run, asked: &ApprovalView) -> Option<String> {
    let of_node = run.graph().and_then(|graph| graph.wishes.values().find(|wished| wished.waits_for(asked.id)));
    if let Some(wished) = of_node {
        let is_command = matches!(wished.wish, NodeWish::Command { .. });
        return (!is_command).then(|| "it is not about a command".to_owned());
    }
    let wait = run.waits().find(|wait| wait.id.0 == asked.id.to_string());
    let item = wait.and_then(|wait| wait.about).and_then(|step| step.item).and_then(|at| run.items().get(at as usize));
    let agent = item.and_then(|item| run.worker_of(&item.item));
    match agent.map(|agent| (agent::kind_of(agent), agent.program())) {
        _ if !asked.reasons.iter().any(|reason| reason.starts_with(OF_COMMAND)) => {
            Some("it is not about a command".to_owned())
        }
        None => Some("its turn is over".to_owned()),
        Some((Some(kind), _)) if kind.takes_another_command() => None,
        Some((_, program)) => Some(format!("{program} cannot take another command than the one it asks about")),
    }
}

/// Why an approval is there that nobody gave by `norma approve`.
pub(crate) const TYPED: &str = "approved on the command line";

/// Approves what a run waits for, unless somebody has answered already.
pub(crate) fn grant_pending(store: &Store, run: &Run, wait: &ApprovalWait, by: &str) -> Result<()> {
    match redeem(store, run, wait)? {
        Redeemed::Pending => grant_typed(store, wait.approval, by.to_owned()),
        Redeemed::Granted { .. } | Redeemed::Denied { .. } | Redeemed::Expired => Ok(()),
    }
}

/// Puts on record that whoever asked for a run approves what it needs approval for.
pub(crate) fn grant_typed(store: &Store, approval: ApprovalId, by: String) -> Result<()> {
    let (decision, reason) = (ApprovalDecision::Granted, Some(TYPED.to_owned()));
    store.answer_approval(approval, decision, by, reason, ApprovalTerms::default()).wait()?;
    Ok(())
}

/// What came of the question that a run waits for. An approval that is not about exactly this, or was used before, is
/// none.
pub fn redeem(store: &Store, run: &Run, wait: &ApprovalWait) -> Result<Redeemed> {
    let asked = Reader::open(&store.layout)?.approval(&wait.approval.to_string())?;
    let bound = approval_bound(&run.id, &run.started.contract_digest, &wait.reasons);
    if asked.id != wait.approval || asked.run_id != run.id.slug() || asked.bound != bound {
        let why = format!("approval {} is about something else than what run {} waits for", asked.id, run.id.slug());
        return Err(store::Error::Refused(why).into());
    }
    let by = asked.by.unwrap_or_default();
    match asked.state {
        ApprovalState::Pending => Ok(Redeemed::Pending),
        ApprovalState::Granted => Ok(Redeemed::Granted { by, terms: asked.terms }),
        ApprovalState::Denied => Ok(Redeemed::Denied { by, reason: asked.reason.unwrap_or_default() }),
        ApprovalState::Expired => Ok(Redeemed::Expired),
        ApprovalState::Used => {
            Err(store::Error::Refused(format!("approval {} was used already; it counts once", asked.id)).into())
        }
    }
}

/// Whether a person said no to a run for exactly these reasons.
pub(crate) fn is_denied(reader: &Reader, run: &Run, reasons: &[String]) -> Result<bool> {
    let bound = approval_bound(&run.id, &run.started.contract_digest, reasons);
    Ok(reader.approvals(false)?.iter().any(|asked| asked.bound == bound && asked.state == ApprovalState::Denied))
}

/// What a person reads before they approve what a node wishes for.
pub(crate) fn reasons_of_wish(run: &Run, wished: &Wished) -> Vec<String> {
    let graph = run.graph();
    let node = wished.step.node.and_then(|place| graph?.nodes.get(place as usize));
    let who = node.map(|node| format!("node: {} ({})", node.terms.label, node.terms.id));
    let mut reasons = match &wished.wish {
        NodeWish::Command { argv, cwd, reason } => {
            let mut lines = vec![format!("{}{}", OF_COMMAND, contract::policy::join(argv))];
            lines.extend(cwd.as_ref().map(|cwd| format!("directory: {cwd}")));
            lines.extend(reason.as_ref().map(|reason| format!("reason: {reason}")));
            lines
        }
        NodeWish::Spawn(wish) => {
            let arguments = serde_json::to_string(wish).expect("BUG: a wish is plain data");
            vec!["tool: spawn_node".to_owned(), format!("arguments: {arguments}")]
        }
        NodeWish::Edge(wish) => {
            let arguments = serde_json::to_string(wish).expect("BUG: a wish is plain data");
            vec!["tool: create_edge".to_owned(), format!("arguments: {arguments}")]
        }
    };
    reasons.extend(who);
    reasons.push(format!("turn: {}", wished.step.index));
    run::bounded(reasons)
}

/// Longer lists of reasons are refused: what a person approves is shown and bound whole.
const REASONS_BYTES_MAX: usize = 64 << 10;

/// Why items that start from a tree need approval.
pub fn reasons<'i>(
    objects: &Objects,
    tree: ObjectId,
    items: impl Iterator<Item = &'i Item>,
    policies: &Policies,
) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for item in items {
        let extent = match item.scope.allowed_paths.is_empty() || item.read_only {
            true => Extent::default(),
            false => extent(objects, tree, &item.scope.allowed_paths)?,
        };
        let reasons = needs_approval(item, policies, extent);
        all.extend(reasons.into_iter().map(|reason| format!("{}: {reason}", item.id)));
    }
    if all.iter().map(String::len).sum::<usize>() > REASONS_BYTES_MAX {
        let problem = format!("approving this needs {} reasons to be read, which nobody does", all.len());
        return Err(Error::usage(problem, "split it into smaller batches, or narrow what the items may change"));
    }
    Ok(all)
}

/// What was answered to a node, with the approval that is used by it.
pub(crate) struct Given {
    used: Option<Fact>,
    answered: NodeAnswered,
}

impl Given {
    /// The facts of the answer; none if somebody has recorded it meanwhile.
    pub(crate) fn facts(&self, run: &Run, wished: &Wished) -> Vec<Fact> {
        let open = run.graph().is_some_and(|graph| graph.wishes.contains_key(&wished.step.index));
        if !open {
            return Vec::new();
        }
        let facts = outcome::answered(run, wished, self.answered.clone(), store::now());
        self.used.clone().into_iter().chain(facts).collect()
    }
}

/// What was answered to what a node wished for, or that nobody did in time; none while somebody may.
pub(crate) fn answer_to(store: &Store, run: &Run, wished: &Wished) -> Result<Option<Given>> {
    let Some(wait) = &wished.asked else { return Ok(None) };
    let approval = wait.approval;
    let denied = |by: String, reason: String| {
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let answered = NodeAnswered { approval, status: ResolutionStatus::Denied, by, reason, argv: None };
        Some(Given { used: None, answered })
    };
    Ok(match redeem(store, run, wait)? {
        Redeemed::Pending => None,
        Redeemed::Denied { by, reason } => denied(by, reason),
        Redeemed::Expired => denied(String::new(), "no approval in time".to_owned()),
        Redeemed::Granted { by, terms } => {
            let instead = terms.instead.as_deref().map(|line| run::gate::command::split(line).unwrap_or_default());
            let status = if instead.is_some() { ResolutionStatus::Modified } else { ResolutionStatus::Approved };
            let argv = instead.or_else(|| match &wished.wish {
                NodeWish::Command { argv, .. } => Some(argv.clone()),
                NodeWish::Spawn(_) | NodeWish::Edge(_) => None,
            });
            let used = Some(Fact::ApprovalUsed { approval, by: by.clone() });
            Some(Given { used, answered: NodeAnswered { approval, status, by, reason: None, argv } })
        }
    })
}
