//! What runs wait for a person to approve, and the answers. An answer is about exactly what was asked: the command and
//! where it runs, or the difference.

use super::spelled;
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem, done};
use contract::api::{ModifiedArgs, ResolveApproval};
use contract::view::graph::{ResolutionScope, ResolutionStatus};
use contract::{ApprovalDecision, ApprovalId, ApprovalState, ApprovalTerms, ApprovalView, ApprovalWait, Slug};
use runner::Request;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn list(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let pending_only = !call.flag("all")?;
    let (found, asked) = app.with_reader(|reader| Ok((reader.approvals(pending_only)?, reader.asked()?)))?;
    let nodes: BTreeMap<String, String> = asked.into_iter().map(|(_, it)| (it.approval_id, it.node_id)).collect();
    let mut alike: BTreeMap<Vec<String>, Vec<ApprovalId>> = BTreeMap::new();
    for asked in &found {
        alike.entry(question(asked)).or_default().push(asked.id);
    }
    let mut runs: BTreeMap<Slug, Option<contract::RunId>> = BTreeMap::new();
    let mut approvals = Vec::new();
    for asked in &found {
        let node = nodes.get(&asked.id.to_string()).cloned();
        // A question that is not in its run's log yet is told in a moment.
        let is_untold = asked.state == ApprovalState::Pending && node.is_none();
        if is_untold && app.with_reader(|reader| reader.has_graph(&asked.run_id))? {
            continue;
        }
        let id = match runs.get(&asked.run_id) {
            Some(known) => *known,
            None => {
                let found = app.with_reader(|reader| reader.run(&asked.run_id))?.map(|view| view.id);
                runs.insert(asked.run_id, found);
                found
            }
        };
        approvals.push(described(app, asked, (id, node), &alike[&question(asked)]));
    }
    Reply::ok(json!({ "approvals": approvals }))
}

/// What is asked, whichever turn asks it.
fn question(asked: &ApprovalView) -> Vec<String> {
    asked.reasons.iter().filter(|reason| !reason.starts_with("step: ")).cloned().collect()
}

/// An approval in both forms: the seed's, and norma's own beside it.
fn described(
    app: &App,
    asked: &ApprovalView,
    (run, node): (Option<contract::RunId>, Option<String>),
    alike: &[ApprovalId],
) -> Value {
    let mut value = serde_json::to_value(asked).expect("BUG: an approval is plain data");
    let Some(run) = run else { return value };
    let wait = ApprovalWait { approval: asked.id, reasons: asked.reasons.clone(), expires_at: asked.expires_at };
    let seed = run::view::approval(&run, String::new(), &wait, &app.root);
    value["approvalId"] = json!(seed.approval_id);
    value["runId"] = json!(run);
    if let Some(node) = node {
        value["nodeId"] = json!(node);
    }
    value["tool"] = json!(seed.tool);
    value["context"] = json!(seed.context);
    value["createdAt"] = json!(asked.asked_at);
    value["expiresAt"] = json!(asked.expires_at);
    value["alike"] = json!(alike);
    value
}

pub(crate) fn resolve(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    if !app.sessions.may_answer(&call.principal) {
        return Err(Problem::too_many(1));
    }
    let ResolveApproval { resolution } = call.read()?;
    let terms = terms(resolution.status, resolution.scope, resolution.modified_args.as_ref())?;
    let unknown = || Problem::not_found("there is no such approval");
    let id = call.name(0).parse::<ApprovalId>().map_err(|_| unknown())?;
    let asked = app.with_reader(|reader| match reader.approval(&id.to_string()) {
        Err(store::Error::Refused(_)) => Ok(None),
        found => found.map(Some),
    })?;
    let asked = asked.ok_or_else(unknown)?;
    if asked.state != ApprovalState::Pending {
        return Err(Problem::conflict(format!("the approval is {} already", asked.state)));
    }
    // The turn that asked may be over.
    let is_waited_for = app.with_reader(|reader| {
        Ok(!reader.has_graph(&asked.run_id)? || reader.asked()?.iter().any(|(_, it)| it.approval_id == id.to_string()))
    })?;
    if !is_waited_for {
        return Err(Problem::conflict("nothing waits for this approval any more: the turn that asked is over"));
    }
    let decision = match resolution.status {
        ResolutionStatus::Denied => ApprovalDecision::Denied,
        ResolutionStatus::Approved | ResolutionStatus::Modified => ApprovalDecision::Granted,
    };
    app.on_record(call, "POST /api/approvals/{id}/resolve", Some(&id.to_string()))?;
    let (by, reason) = (call.principal.name.clone(), resolution.reason.clone());
    let answered = app.hosting.handle(Request::Answer { approval: id, decision, by, reason, terms });
    // Whatever stands against it now, somebody else was quicker or its time is over.
    done(answered).map_err(|problem| match problem.status().as_u16() {
        400 => Problem::conflict("the approval cannot be answered any more"),
        _ => problem,
    })?;
    let mut told = serde_json::to_value(&resolution).expect("BUG: a resolution is plain data");
    told["by"] = json!(call.principal.name);
    Reply::ok(json!({"approvalId": id, "resolution": told}))
}

/// How far an answer goes.
fn terms(
    status: ResolutionStatus,
    scope: Option<ResolutionScope>,
    modified: Option<&ModifiedArgs>,
) -> Outcome<ApprovalTerms> {
    let lasting = scope == Some(ResolutionScope::Contract);
    let at = |pointer: &str, why: &str| Err(Problem::at(&format!("/resolution{pointer}"), why));
    match (status, modified) {
        (ResolutionStatus::Modified, None) => at("/modifiedArgs", "say what may run instead"),
        (ResolutionStatus::Modified, Some(_)) if lasting => at("/scope", "another command is allowed once"),
        (ResolutionStatus::Modified, Some(args)) => match (&args.cmd, &args.argv) {
            (Some(cmd), None) => Ok(ApprovalTerms { lasting, instead: Some(cmd.clone()) }),
            (None, Some(argv)) => Ok(ApprovalTerms { lasting, instead: Some(spelled(argv)) }),
            _ => at("/modifiedArgs", "exactly one of cmd and argv"),
        },
        (_, Some(_)) => at("/modifiedArgs", "only with modified"),
        (ResolutionStatus::Denied, None) if scope.is_some() => at("/scope", "a denial has none"),
        (_, None) => Ok(ApprovalTerms { lasting, instead: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_run_instead_is_said_once_and_only_where_it_counts() {
        use ResolutionStatus::{Approved, Denied, Modified};
        let args = |cmd: Option<&str>, argv: Option<&[&str]>| ModifiedArgs {
            cmd: cmd.map(str::to_owned),
            argv: argv.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
        };
        let ok =
            |status, scope, given: Option<&ModifiedArgs>| terms(status, scope, given).map_err(|p| p.status().as_u16());
        assert_eq!(ok(Approved, None, None), Ok(ApprovalTerms::default()));
        let lasting = ApprovalTerms { lasting: true, instead: None };
        assert_eq!(ok(Approved, Some(ResolutionScope::Contract), None), Ok(lasting));
        let instead = ApprovalTerms { lasting: false, instead: Some("ls -l".to_owned()) };
        assert_eq!(ok(Modified, None, Some(&args(Some("ls -l"), None))), Ok(instead.clone()));
        assert_eq!(ok(Modified, None, Some(&args(None, Some(&["ls", "-l"])))), Ok(instead));
        for (status, scope, given) in [
            (Modified, None, None),
            (Modified, None, Some(args(Some("ls"), Some(&["ls"])))),
            (Modified, None, Some(args(None, None))),
            (Modified, Some(ResolutionScope::Contract), Some(args(Some("ls"), None))),
            (Approved, None, Some(args(Some("ls"), None))),
            (Denied, Some(ResolutionScope::Once), None),
        ] {
            assert_eq!(ok(status, scope, given.as_ref()), Err(400), "{status:?} {given:?}");
        }
    }
}
