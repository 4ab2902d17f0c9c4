//! Approvals: questions to a person about one run. Asking, answering and using are facts of the state directory, and
//! what they need to hold is checked inside the writer's transaction. An approval is used in the very commit in which
//! the run's log says so, so that neither can be there without the other, whenever a process dies.

use crate::log::{Tx, now, random10};
use crate::{Error, Result, Store, Ticket, read};
use contract::{
    APPROVAL_LIFETIME_MS, ApprovalDecision, ApprovalId, ApprovalState, ApprovalTerms, ApprovalView, ApprovalWait,
    Audit, Digest, Fact, Timestamp, approval_bound,
};
use run::Run;
use rusqlite::OptionalExtension;

/// Longest name and longest reason of an answer, in bytes: a line of the log has a limit, and people read it.
const ANSWER_BYTES_MAX: usize = 2000;

impl Store {
    /// Asks whether a run may continue in spite of these reasons; answers what it waits for. Asked again before somebody
    /// said no or its time passed, it is the same question: a process may have died before the run's log named it.
    pub fn ask_approval(&self, run: &Run, reasons: Vec<String>) -> Ticket<ApprovalWait> {
        let (run_id, bound) = (run.id.slug(), approval_bound(&run.id, &run.started.contract_digest, &reasons));
        self.submit(move |tx| {
            let at = now();
            if let Some(open) = open_question(tx, &bound, at)? {
                return Ok(open);
            }
            let id = ApprovalId::new(at.unix_ms(), random10());
            let expires_at = Timestamp::from_unix_ms(at.unix_ms().saturating_add(APPROVAL_LIFETIME_MS));
            let asked = Audit::ApprovalAsked { id, run_id, reasons: reasons.clone(), bound, expires_at };
            tx.audit(&asked, at)?;
            Ok(ApprovalWait { approval: id, reasons, expires_at })
        })
    }

    /// Records what a person said. Only a question that is still open can be answered.
    pub fn answer_approval(
        &self,
        id: ApprovalId,
        decision: ApprovalDecision,
        by: String,
        reason: Option<String>,
        terms: ApprovalTerms,
    ) -> Ticket<ApprovalView> {
        self.submit(move |tx| {
            let at = now();
            for text in [Some(&by), reason.as_ref(), terms.instead.as_ref()].into_iter().flatten() {
                if text.trim().is_empty() || text.len() > ANSWER_BYTES_MAX {
                    let why = format!("a name and a reason need words, and at most {ANSWER_BYTES_MAX} bytes of them");
                    return Err(Error::Refused(why));
                }
            }
            let asked = require(tx, id)?;
            match asked.state_at(at) {
                ApprovalState::Pending => {}
                _ => return Err(Error::Refused(format!("approval {id} cannot be answered: {}", standing(&asked, at)))),
            }
            if let Some(status) = ended(tx, &asked.run_id)? {
                let why = format!("approval {id} cannot be answered: run {} is {status} already", asked.run_id);
                return Err(Error::Refused(why));
            }
            tx.audit(&Audit::ApprovalAnswered { id, decision, by, reason, terms }, at)?;
            require(tx, id)
        })
    }
}

/// Whether a run's log may say this: a fact that an approval was used needs one that was granted to this run by that
/// person, and was not used before. Asked before anything of the commit is written.
pub(crate) fn require_usable(tx: &Tx<'_>, slug: &str, fact: &Fact, at: Timestamp) -> Result<()> {
    let Fact::ApprovalUsed { approval, by } = fact else { return Ok(()) };
    let refused = |why: String| Err(Error::Refused(format!("approval {approval} cannot be used: {why}")));
    let asked = require(tx, *approval)?;
    if asked.run_id != slug {
        return refused(format!("it is about run {}, not {slug}", asked.run_id));
    }
    match asked.state_at(at) {
        ApprovalState::Granted if asked.by.as_ref() == Some(by) => Ok(()),
        ApprovalState::Granted => refused("it was granted by somebody else".into()),
        _ => refused(standing(&asked, at)),
    }
}

/// What stands against an approval, in words.
fn standing(asked: &ApprovalView, at: Timestamp) -> String {
    let by = asked.by.as_deref().unwrap_or("somebody").escape_debug().to_string();
    match asked.state_at(at) {
        ApprovalState::Pending => "it has not been answered yet".into(),
        ApprovalState::Granted => format!("{by} granted it already"),
        ApprovalState::Denied => format!("{by} denied it already"),
        ApprovalState::Used => format!("{by} granted it, and its run has used it already"),
        ApprovalState::Expired => format!("it expired at {}", asked.expires_at),
    }
}

fn require(tx: &Tx<'_>, id: ApprovalId) -> Result<ApprovalView> {
    let sql = format!("{} WHERE id = ?1", read::APPROVAL_SELECT);
    let found = tx.db.prepare_cached(&sql)?.query_row([id.to_string()], read::approval_row).optional()?.transpose()?;
    found.ok_or_else(|| Error::Refused(format!("there is no approval {id}; `norma approvals` lists them")))
}

/// The question with this bound that can still let its run continue.
fn open_question(tx: &Tx<'_>, bound: &Digest, at: Timestamp) -> Result<Option<ApprovalWait>> {
    let sql = format!("{} WHERE bound = ?1 ORDER BY id", read::APPROVAL_SELECT);
    let mut statement = tx.db.prepare_cached(&sql)?;
    for asked in statement.query_map([bound.to_string()], read::approval_row)? {
        let asked = asked??;
        if matches!(asked.state_at(at), ApprovalState::Pending | ApprovalState::Granted) {
            return Ok(Some(ApprovalWait { approval: asked.id, reasons: asked.reasons, expires_at: asked.expires_at }));
        }
    }
    Ok(None)
}

/// The status of a run that has come to its end.
fn ended(tx: &Tx<'_>, slug: &str) -> Result<Option<String>> {
    let sql = "SELECT state FROM runs WHERE run_id = ?1 AND ended_at IS NOT NULL";
    Ok(tx.db.query_row(sql, [slug], |row| row.get(0)).optional()?)
}
