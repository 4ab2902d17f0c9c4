//! What somebody may ask of the host: from this process, or over `norma.sock`. Each request is carried out by the thread
//! that brought it.

use crate::agent::Threads;
use crate::change::diff;
use crate::host::owner::drop_bases;
use crate::host::{Host, garbage, graph, intent, review};
use crate::machine::Machine;
use crate::record::approval::refuses_another_command;
use crate::record::{Control, Stop, keep_diff};
use crate::{Answer, Error, Request, Result, Sender, landing, workspace};
use contract::{ApprovalDecision, ApprovalId, ApprovalView};
use std::sync::Arc;
use store::Reader;

/// How many layers of workspaces a clean-up leaves, besides those that these stand on: the next tree is made from one of
/// the trees used last.
const LAYERS_KEPT: usize = 4;

/// Lands a run on demand, after its tests where the branch has moved.
fn land(host: &Host, run: &str) -> Result<Answer> {
    let _lane = host.state.lane();
    let mut machine = Machine::new(host.context.clone(), &host.state, Control::new()?.cancel);
    let later = landing::Later { store: &host.state.store, user: &host.state.user, objects: &host.state.objects };
    let landing = later.land(run, Some(&mut machine))?;
    let message = format!("landed on {}; undo: norma undo {run}", landing::short_ref(&landing.target));
    Ok(Answer::Done { message, value: value(&landing) })
}

/// Does what somebody asks for.
pub(super) fn carry_out(host: &Arc<Host>, request: Request) -> Result<Answer> {
    let done = |message: String, value: serde_json::Value| Ok(Answer::Done { message, value });
    match request {
        Request::TaskAdd { goal, criteria } => {
            let task = host.state.store.add_task(goal, criteria).wait()?;
            done(format!("task {task} added"), task.into())
        }
        Request::TaskLink { task, depends_on } => link_task(host, task, depends_on),
        Request::TaskDone { task } => {
            host.state.store.finish_task(task).wait()?;
            done(format!("task {task} is done"), task.into())
        }
        Request::TaskEdit { task, goal, criteria } => edit_task(host, task, goal, criteria),
        Request::TaskRemove { task } => remove_task(host, task),
        Request::Cancel { run } => cancel(host, &run),
        Request::Unlist { run, by } => unlist(host, &run, by),
        Request::Land { run } => land(host, &run),
        Request::Pause { run } => pause(host, &run),
        Request::Add { sender, run, name, text } => add(host, &sender, &run, &name, text),
        Request::IntentCreate { intent: wanted, by } => intent::create(host, &wanted, by),
        Request::IntentAnswer { run, event, by } => intent::answer(host, &run, &event, &by),
        Request::Edit { run, edit, by } => graph::edit(host, &run, &edit, &by),
        Request::Remark { run, remark, by } => review::leave(host, &run, *remark, by),
        Request::Follow { run, .. } => {
            Err(Error::usage(format!("run {run} is followed over the socket"), "norma events RUN --follow"))
        }
        Request::Start { sender, start } => {
            let started = host.start(&sender, start)?;
            done(format!("run {} is under way", started.run.id.slug()), started.told())
        }
        Request::Undo { run } => {
            let _lane = host.state.lane();
            let back = landing::undo(&host.state.store, &host.state.user, &host.state.objects, &run)?;
            let branch = landing::short_ref(&back.target);
            let message = match back.commit {
                None => format!("{branch} is gone again"),
                Some(commit) => format!("{branch} is back at {commit}"),
            };
            done(message, value(&back))
        }
        Request::KeepReplay { run, mode, status, at, report } => {
            let path = host.state.store.keep_replay(&run, mode, status, at, &contract::json::pretty(&report))?;
            let shown = host.state.store.layout.shown(&path);
            done(format!("the report is in {shown}"), shown.into())
        }
        Request::ContractRefused { by, sha256, kind, violations } => {
            host.state.store.audit(contract::Audit::contract_refused(by, sha256, kind, violations)).wait()?;
            done("the refusal is on record".to_owned(), sha256.to_string().into())
        }
        Request::Answer { approval, decision, by, reason, terms } => {
            if let Some(command) = &terms.instead {
                can_take(host, approval, command, terms.lasting)?;
            }
            let answered = host.state.store.answer_approval(approval, decision, by, reason, terms).wait()?;
            answer(host, decision, &answered)
        }
        Request::Reindex => {
            let store::Reindexed { runs, damaged } = store::reindex(&host.state.store)?;
            let left = match damaged.is_empty() {
                true => String::new(),
                false => format!("; damaged, so left unchanged: {}", damaged.join(", ")),
            };
            done(format!("the index was rebuilt from the logs of {runs} run(s){left}"), runs.into())
        }
        Request::Gc => gc(host),
        Request::Quarantine { run, reason, by } => quarantine(host, run, reason, by),
    }
}

fn link_task(host: &Host, task: i64, depends_on: Vec<i64>) -> Result<Answer> {
    let shown: Vec<String> = depends_on.iter().map(ToString::to_string).collect();
    host.state.store.link_task(task, depends_on).wait()?;
    Ok(Answer::Done { message: format!("task {task} waits for {}", shown.join(", ")), value: task.into() })
}

fn edit_task(host: &Host, task: i64, goal: Option<String>, criteria: Option<Vec<String>>) -> Result<Answer> {
    host.state.store.edit_task(task, goal, criteria).wait()?;
    Ok(Answer::Done { message: format!("task {task} is changed"), value: task.into() })
}

fn remove_task(host: &Host, task: i64) -> Result<Answer> {
    host.state.store.remove_task(task).wait()?;
    Ok(Answer::Done { message: format!("task {task} is removed"), value: task.into() })
}

fn value(landing: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(landing).expect("BUG: a landing is plain data")
}

fn cancel(host: &Host, slug: &str) -> Result<Answer> {
    let done = |message: &str| Ok(Answer::Done { message: message.to_owned(), value: slug.into() });
    if host.workers.stop(slug, Stop::Cancel) {
        return done("the run is asked to end; its turn is being stopped");
    }
    let _alone = host.state.alone();
    let (run, mut log) = Reader::open(&host.state.store.layout)?.load(slug)?;
    if run.status.is_terminal() {
        return Err(Error::declined(
            format!("run {slug} is {} already", run.status),
            format!("look at it: norma show {slug}"),
        ));
    }
    keep_diff(&host.state.store.layout.run(slug), diff(&host.state.objects, &run)?)?;
    let end = contract::End { reason: Some(contract::Reason::Canceled), message: "canceled on request".into() };
    host.state.store.append(&mut log, vec![contract::Fact::RunCanceled(end)], Vec::new())?;
    store::seal(&host.state.store, slug, &|said| host.state.keys.sign(said))?;
    done("canceled")
}

/// Takes a run off the list. One that is being carried out is asked to end, and is gone from the list meanwhile.
fn unlist(host: &Host, slug: &str, by: String) -> Result<Answer> {
    let run_id = Reader::open(&host.state.store.layout)?.load(slug)?.0.id.slug();
    if host.live_or_held(slug)? {
        cancel(host, slug)?;
    }
    host.state.store.audit(contract::Audit::RunUnlisted { run_id, by }).wait()?;
    Ok(Answer::Done { message: "the run is off the list; its evidence is kept".to_owned(), value: slug.into() })
}

/// Adds items to a batch.
fn add(host: &Host, sender: &Sender, run: &str, name: &str, text: String) -> Result<Answer> {
    let added = host.add(sender, run, name, text)?;
    let next = match added.under_way {
        true => String::new(),
        false => format!("; to continue it: norma resume {run}"),
    };
    let message = format!("{} item(s) added to run {run}{next}", added.items.len());
    let value = serde_json::json!({"run_id": run, "added": added.items, "contract": added.contract});
    Ok(Answer::Done { message, value })
}

/// Whether whoever waits for an approval can take another command than its own.
fn can_take(host: &Host, approval: ApprovalId, command: &str, lasting: bool) -> Result<()> {
    if lasting {
        // What the agent asked would be allowed from then on, which nobody has said.
        let message = "another command is allowed once, not for the rest of the contract";
        return Err(Error::usage(message, "leave out --contract"));
    }
    let reader = Reader::open(&host.state.store.layout)?;
    let asked = reader.approval(&approval.to_string())?;
    let (run, _) = reader.load(&asked.run_id)?;
    match refuses_another_command(&run, &asked) {
        None => Ok(()),
        Some(why) => Err(Error::declined(
            format!("nothing was granted: {why}"),
            format!(
                "the agent reads why something is denied: norma deny {approval} --reason \"run {command} instead\""
            ),
        )),
    }
}

/// Has whoever waits for an approval know that it was answered.
fn answer(host: &Host, decision: ApprovalDecision, answered: &ApprovalView) -> Result<Answer> {
    let goes_on = host.go_on_with(&answered.run_id);
    let message = match decision {
        ApprovalDecision::Granted if goes_on => format!("granted; run {} continues", answered.run_id),
        ApprovalDecision::Granted => format!("granted; to continue: norma resume {}", answered.run_id),
        ApprovalDecision::Denied => format!("denied; run {} does not do it", answered.run_id),
    };
    Ok(Answer::Done { message, value: serde_json::to_value(answered).expect("BUG: an approval is plain data") })
}

/// Has a run that is worked on stop at its next step; it can continue later.
fn pause(host: &Host, slug: &str) -> Result<Answer> {
    if host.workers.stop(slug, Stop::Interrupt) {
        return Ok(Answer::Done { message: "the run is asked to pause".to_owned(), value: slug.into() });
    }
    let message = format!("run {slug} is not running, so there is nothing to pause");
    Err(Error::declined(message, format!("look at it: norma show {slug}")))
}

/// Sets a damaged run aside. Whatever is not damaged has other ends.
fn quarantine(host: &Host, slug: String, reason: String, by: String) -> Result<Answer> {
    let _alone = host.state.alone();
    let reader = Reader::open(&host.state.store.layout)?;
    let done = |message: String, aside: &store::Quarantine| {
        let value = serde_json::to_value(aside).expect("BUG: a quarantine is plain data");
        Ok(Answer::Done { message, value })
    };
    if let Some(aside) = reader.quarantined_runs()?.into_iter().find(|aside| aside.run_id == slug) {
        return done(format!("run {slug} was set aside already, by {}: {}", aside.by, aside.reason), &aside);
    }
    let missing = reader.missing_runs()?.into_iter().find(|missing| missing.run_id == slug);
    let Some(damage) = reader.damage(&slug)?.or(missing) else {
        return Err(Error::declined(
            format!("the log of run {slug} is not damaged, so it is not set aside"),
            format!("end it: norma cancel {slug}; look for changed evidence: norma verify {slug}"),
        ));
    };
    let aside = host.state.store.quarantine_run(damage, reason, by)?;
    let moved = if aside.to.is_some() { "; its directory is in quarantine/" } else { "" };
    done(format!("run {slug} is set aside{moved}; its lines stay in the log"), &aside)
}

/// Removes what nobody needs any more of what is kept alive in the user's repository, and of what workspaces are made
/// of. Events and evidence are never deleted.
fn gc(host: &Host) -> Result<Answer> {
    let refs = drop_bases(&host.state, true)?;
    let mut message = format!("{refs} ref(s) of ended runs removed");
    let cache = host.state.store.layout.cache();
    if cache.is_dir() {
        // What history and which names count does not matter to who only removes.
        let layers = workspace::Workspaces::new(&cache, contract::History::default(), |_| false)?.gc(LAYERS_KEPT)?;
        let setups = workspace::SetupLayers::open(&cache)?.gc(workspace::SETUPS_KEPT)?;
        let (count, mib) = (layers.layers + setups.layers, (layers.bytes + setups.bytes) >> 20);
        if count > 0 {
            message.push_str(&format!("; {count} layer(s) of workspaces removed, {mib} MiB"));
        }
        if layers.busy || setups.busy {
            message.push_str("; one is being made, so not all were looked at");
        }
    }
    let threads = Threads::new(host.state.store.layout.threads()).prune(std::time::SystemTime::now())?;
    if threads > 0 {
        message.push_str(&format!("; {threads} old conversation(s) removed"));
    }
    message.push_str(&refused_files(host)?);
    Ok(Answer::Done { message, value: refs.into() })
}

/// Removes large files of refused changes; whoever is at work might bring one of them again at this moment.
fn refused_files(host: &Host) -> Result<String> {
    let _alone = host.state.alone();
    if !host.workers.live().is_empty() {
        return Ok("; runs are under way, so files of refused changes stay".to_owned());
    }
    let removed = garbage::remove_refused(&host.state)?;
    Ok(match removed.files {
        0 => String::new(),
        files => format!("; {files} large file(s) of refused changes removed, {} MiB", removed.bytes >> 20),
    })
}
