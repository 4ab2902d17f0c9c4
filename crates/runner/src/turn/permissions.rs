//! Who is there while an agent works: what it does goes on record, and what it asks is decided by the gates or by a
//! person. A person's yes is bound to the exact command, the directory it runs in and the tree it runs on.

use crate::process::Wake;
use crate::record::Driver;
use crate::record::answers::Waiter;
use crate::record::approval::{self, OF_COMMAND, Redeemed};
use crate::record::{Pending, SharedRun};
use crate::world::{Allowed, Answered, Question, Witness};
use crate::{Error, Result};
use contract::path::lies_within;
use contract::session::{Decision, Permission, ToolKind};
use contract::work::{Gate, NetworkRight, ShellRight};
use contract::{ApprovalTerms, Fact, Policies, RepoPath, SessionEvent, TreeId};
use run::gate::command::{self, Origin};
use run::{Run, TurnSpec};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use store::{Attached, Store};

/// So many different violations of a turn are put on record; what follows is in the conversation.
const VIOLATIONS_MAX: usize = 100;

/// A longer request is denied: nobody reads it to its end, and an approval is bound to all of what was shown.
const SHOWN_BYTES_MAX: usize = 16 << 10;

pub(crate) struct OnRecord<'w, 'a> {
    shared: Arc<SharedRun<'a>>,
    store: &'w Store,
    policies: &'w Policies,
    spec: TurnSpec,
    run: Arc<Run>,
    pending: RefCell<Vec<Pending>>,
    /// What a person allowed for the rest of the run.
    allowed: RefCell<Vec<Vec<String>>>,
    /// What the agent asked for: what it was, and whether a person is to say.
    requests: RefCell<BTreeMap<String, Request>>,
    /// What it asked for and may not, so far.
    violations: RefCell<BTreeSet<String>>,
    failed: RefCell<Option<Error>>,
    /// Commands that it may run, for whoever hears what it starts.
    may_run: Allowed,
    waiter: Waiter,
}

/// What an agent asked for.
#[derive(Default)]
struct Request {
    what: String,
    of_person: bool,
}

impl<'w, 'a> OnRecord<'w, 'a> {
    pub(crate) fn new(driver: &Driver<'w, 'a>, spec: TurnSpec) -> Result<OnRecord<'w, 'a>> {
        Ok(OnRecord {
            waiter: driver.control.join_turn()?,
            shared: driver.shared.clone(),
            store: driver.store,
            policies: driver.policies,
            spec,
            run: driver.run.clone(),
            pending: RefCell::default(),
            allowed: RefCell::default(),
            requests: RefCell::default(),
            violations: RefCell::default(),
            failed: RefCell::default(),
            may_run: Allowed::default(),
        })
    }

    /// Waits until everything that was seen is on record.
    pub(crate) fn settle(&self) -> Result<()> {
        for pending in self.pending.take() {
            self.shared.settle(pending)?;
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn submit(&self, fact: Fact) {
        let (pending, _) = self.shared.submit(self.store, |_| (vec![fact], Attached::default()));
        self.pending.borrow_mut().push(pending);
    }

    /// What an agent was refused by rule is on record as what it is: it asked for what its contract does not allow, once
    /// for the same thing. A person's no, or nobody's yes, is no violation.
    fn violation(&self, event: &SessionEvent) -> Option<Fact> {
        let finding = match event {
            SessionEvent::ToolProposed { tool, kind, .. } | SessionEvent::ToolStarted { tool, kind, .. } => {
                format!("{tool}: {}", self.not_given(*kind)?)
            }
            SessionEvent::PermissionRequested(permission) => {
                let what = permission.command.clone().unwrap_or_else(|| permission.paths.join(" "));
                let what = format!("{} {what}", permission.tool).trim_end().to_owned();
                self.requests.borrow_mut().entry(permission.id.clone()).or_default().what = what;
                return None;
            }
            SessionEvent::PermissionAnswered { id, decision } => {
                let Request { what, of_person } = self.requests.borrow_mut().remove(id).unwrap_or_default();
                match decision {
                    Decision::Deny { message } if !of_person => format!("{what}: {message}"),
                    _ => return None,
                }
            }
            _ => return None,
        };
        self.violated(finding)
    }

    /// The fact for something that was refused, once for the same thing. A loop's agents have no contract of their own.
    fn violated(&self, finding: String) -> Option<Fact> {
        let (item, node) = (self.spec.step.item, self.spec.step.node);
        if item.is_none() && node.is_none() {
            return None;
        }
        let mut violations = self.violations.borrow_mut();
        let is_new = violations.len() < VIOLATIONS_MAX && violations.insert(finding.clone());
        is_new.then(|| Fact::PolicyViolation { item, node, gate: Gate::Tools, findings: run::bounded(vec![finding]) })
    }

    /// Why a tool is one that the agent was not given, if it is. Its program refuses it, and so does the sandbox.
    fn not_given(&self, kind: ToolKind) -> Option<&'static str> {
        match kind {
            ToolKind::Shell if self.spec.rights.shell == ShellRight::Deny => Some("the contract allows no commands"),
            ToolKind::Write if !self.spec.rights.write => Some("the contract allows no changes"),
            _ => None,
        }
    }

    fn ask(&self, permission: &Permission, why: &str) -> Answered {
        self.requests.borrow_mut().entry(permission.id.clone()).or_default().of_person = true;
        if self.allowed.borrow().contains(&same_as(permission)) || self.was_allowed(permission) {
            return Answered::Now(Decision::Allow);
        }
        let mut reasons = vec![format!("the agent asks to use {}: {why}", permission.tool)];
        reasons.extend(same_as(permission));
        reasons.push(format!("tree: {}", self.spec.tree));
        reasons.push(format!("step: {} {}", self.spec.step.dir_name(), permission.id));
        let bytes: usize = reasons.iter().map(|reason| contract::printable(reason).len()).sum();
        if bytes > SHOWN_BYTES_MAX {
            return deny(format!(
                "nobody can be asked about a request that takes {bytes} bytes to show; at most {SHOWN_BYTES_MAX} are \
                 shown. Split it, or write it to a file and run that"
            ));
        }
        match approval::ask(self.store, &self.run, reasons) {
            Ok(wait) => {
                self.submit(Fact::ApprovalAsked { step: self.spec.step, wait: wait.clone() });
                // A question is told only when it is on record.
                if let Err(error) = self.settle() {
                    return self.broken(error);
                }
                let patience = Duration::from_secs(self.run.started.contract.limits.approval_seconds.into());
                let expires = wait.expires_at.unix_ms().saturating_sub(store::now().unix_ms());
                let until = Instant::now() + patience.min(Duration::from_millis(expires));
                Answered::Later(Box::new(Question { wait, permission: permission.clone(), until }))
            }
            Err(error) => self.broken(error),
        }
    }

    /// Whether a person said in an earlier turn of this run that the same may happen again.
    fn was_allowed(&self, permission: &Permission) -> bool {
        let approvals = store::Reader::open(&self.store.layout).and_then(|reader| reader.approvals(false));
        let (slug, same) = (self.run.id.slug(), same_as(permission));
        approvals.unwrap_or_default().iter().any(|asked| {
            asked.run_id == slug && asked.terms.lasting && same.iter().all(|reason| asked.reasons.contains(reason))
        })
    }

    /// What cannot be recorded is not allowed, and ends the turn.
    fn broken(&self, error: Error) -> Answered {
        let message = format!("it could not be put on record: {error}");
        self.failed.borrow_mut().get_or_insert(error);
        Answered::Now(Decision::Deny { message })
    }

    fn command(&self, permission: &Permission) -> Answered {
        let is_asked_about = self.spec.rights.shell != ShellRight::Never;
        let Some(line) = &permission.command else {
            return match is_asked_about {
                true => self.ask(permission, "the request does not name a command"),
                false => deny("the request does not name a command".to_owned()),
            };
        };
        if let Some(why) = self.forbidden(line) {
            return deny(why);
        }
        let decision = command::decide_line(line, &self.policies.commands());
        // It runs where it is confined, and nobody is to be asked; some agents ask nevertheless.
        match if is_asked_about { decision } else { decision.unasked() } {
            // Nothing runs on trust alone where the contract trusts nothing.
            command::Decision::Allow { .. } if self.spec.rights.shell == ShellRight::Untrusted => {
                self.ask(permission, "the contract has every command asked about")
            }
            command::Decision::Allow { .. } => Answered::Now(Decision::Allow),
            command::Decision::Deny { rule, why } => deny(format!("{rule}: {why}")),
            command::Decision::Ask { rule, why } => {
                let why = rule.map_or(why.clone(), |rule| format!("{rule}: {why}"));
                self.ask(permission, &why)
            }
        }
    }

    /// Why nobody may run this, if so: the contract or policy forbids it, whoever approves. A line for a shell is checked
    /// against that as the words that a shell would be given.
    fn forbidden(&self, line: &str) -> Option<String> {
        let words = &self.spec.rights.forbidden_actions;
        if let Some(word) = words.iter().find(|word| line.contains(word.as_str())) {
            return Some(format!("the contract forbids {word:?}"));
        }
        // Code may have lines and tabs; they are shown as what they are.
        let code = || ["sh", "-c", &line.replace(['\n', '\t'], " ")].map(str::to_owned).to_vec();
        let argv = command::split(line).unwrap_or_else(|_| code());
        match command::decide(&argv, Origin::Contract, &self.policies.commands()) {
            command::Decision::Deny { rule, why } => Some(format!("{rule}: {why}")),
            _ => None,
        }
    }

    /// Whether files may change is the contract's to say; the scope gate looks at what did.
    fn files(&self, permission: &Permission) -> Answered {
        let Some(allowed) = &self.spec.rights.write_within else { return Answered::Now(Decision::Allow) };
        let root = self.store.layout.root.clone();
        for path in &permission.paths {
            let within = Path::new(path).strip_prefix(&root).map(Path::to_string_lossy);
            let below = within.as_deref().unwrap_or(path);
            let Ok(parsed) = RepoPath::parse(below) else {
                return deny(format!("{path} is not in the repository"));
            };
            if !allowed.is_empty() && !allowed.iter().any(|allowed| parsed.is_within(allowed)) {
                return deny(format!("{below} is not one of the allowed paths"));
            }
            let denied = self.spec.item.iter().flat_map(|item| &item.scope.denied_paths);
            if denied.into_iter().any(|denied| lies_within(&parsed, denied)) {
                return deny(format!("{below} is not to be changed"));
            }
        }
        Answered::Now(Decision::Allow)
    }

    /// What follows from an approval. Another command than the agent's is looked at by the gates again.
    fn granted(&self, question: &Question, by: String, terms: &ApprovalTerms) -> Decision {
        let permission = &question.permission;
        let decision = match &terms.instead {
            None => Decision::Allow,
            Some(line) => match self.forbidden(line) {
                Some(why) => {
                    return Decision::Deny { message: format!("instead of it {line:?} was allowed, but {why}") };
                }
                None => Decision::AllowModified { input: with_command(&permission.input, line) },
            },
        };
        if terms.lasting {
            self.allowed.borrow_mut().push(same_as(permission));
        }
        self.used(question, by, decision)
    }

    fn used(&self, question: &Question, by: String, decision: Decision) -> Decision {
        self.submit(Fact::ApprovalUsed { approval: question.wait.approval, by });
        match self.settle() {
            Ok(()) => decision,
            Err(error) => {
                let message = format!("it could not be put on record: {error}");
                self.failed.borrow_mut().get_or_insert(error);
                Decision::Deny { message }
            }
        }
    }
}

/// What makes two requests the same: the whole command, or all arguments of a tool that has none.
fn same_as(permission: &Permission) -> Vec<String> {
    let command = permission.command.iter().map(|command| format!("{OF_COMMAND}{command}"));
    let paths = permission.paths.iter().map(|path| format!("path: {path}"));
    let cwd = permission.cwd.iter().map(|cwd| format!("directory: {cwd}"));
    let tool = std::iter::once(format!("tool: {}", permission.tool));
    let arguments = permission.input.get("rawInput").unwrap_or(&permission.input);
    let has_others = permission.command.is_none() && !arguments.is_null();
    let arguments = has_others.then(|| format!("arguments: {arguments}"));
    tool.chain(command).chain(arguments).chain(paths).chain(cwd).collect()
}

/// The arguments of a tool with another command in them.
fn with_command(input: &Value, line: &str) -> Value {
    let mut input = input.clone();
    for name in ["command", "cmd"] {
        if let Some(command) = input.get_mut(name) {
            *command = line.into();
        }
    }
    input
}

fn deny(message: String) -> Answered {
    Answered::Now(Decision::Deny { message })
}

impl Witness for OnRecord<'_, '_> {
    fn saw(&self, event: SessionEvent, kept: bool) {
        if kept {
            let violation = self.violation(&event);
            self.submit(Fact::AgentEvent { step: self.spec.step, event: Box::new(event) });
            violation.into_iter().for_each(|violation| self.submit(violation));
            // People watch: what happened is told now, and it is not told before it is on record.
            if let Err(error) = self.settle() {
                self.failed.borrow_mut().get_or_insert(error);
            }
        } else {
            self.shared.show(self.spec.step, &event);
        }
    }

    fn saved(&self, tree: TreeId) {
        self.submit(Fact::WorkSaved { step: self.spec.step, tree });
        if let Err(error) = self.settle() {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    fn decide(&self, permission: &Permission) -> Answered {
        let answered = self.decided(permission);
        if let Answered::Now(decision) = &answered {
            self.note(permission, decision);
        }
        answered
    }

    fn allowed(&self) -> Allowed {
        Arc::clone(&self.may_run)
    }

    fn refused(&self, findings: &[String]) {
        let facts = findings.iter().filter_map(|finding| self.violated(finding.clone()));
        facts.for_each(|fact| self.submit(fact));
    }

    fn wake(&self) -> Option<&Wake> {
        Some(&self.waiter.wake)
    }

    fn answer(&self, question: &Question) -> Option<Decision> {
        let decision = self.answered(question)?;
        self.note(&question.permission, &decision);
        Some(decision)
    }
}

impl OnRecord<'_, '_> {
    /// Remembers a command that may run, before the agent hears so.
    fn note(&self, permission: &Permission, decision: &Decision) {
        let line = match decision {
            Decision::Allow | Decision::AllowForSession => permission.command.clone(),
            Decision::AllowModified { input } => input.get("command").or(input.get("cmd")).map(ToString::to_string),
            Decision::Deny { .. } => None,
        };
        self.may_run.lock().unwrap_or_else(PoisonError::into_inner).extend(line);
    }

    fn decided(&self, permission: &Permission) -> Answered {
        match permission.kind {
            ToolKind::Read | ToolKind::Search | ToolKind::Think => Answered::Now(Decision::Allow),
            ToolKind::Write => self.files(permission),
            ToolKind::Shell => self.command(permission),
            ToolKind::Fetch => match self.spec.rights.network {
                NetworkRight::Allow => Answered::Now(Decision::Allow),
                NetworkRight::OnRequest => self.ask(permission, "it reaches the network"),
                NetworkRight::Deny => deny("this role may not reach the network".to_owned()),
            },
            // It only says what it wishes for, which is decided when the turn has ended.
            ToolKind::Mcp if self.spec.node.is_some() && session::is_node_tool(&permission.tool) => {
                Answered::Now(Decision::Allow)
            }
            ToolKind::Mcp => match self.spec.rights.mcp_tools.contains(&permission.tool) {
                true => Answered::Now(Decision::Allow),
                false => deny(format!("the contract does not name the tool {}", permission.tool)),
            },
            ToolKind::Other => self.ask(permission, "nothing is known of this tool"),
        }
    }

    fn answered(&self, question: &Question) -> Option<Decision> {
        match approval::redeem(self.store, &self.run, &question.wait) {
            Ok(Redeemed::Pending) if Instant::now() >= question.until => {
                Some(Decision::Deny { message: "no approval in time".to_owned() })
            }
            Ok(Redeemed::Granted { by, terms }) => Some(self.granted(question, by, &terms)),
            Ok(Redeemed::Pending) => None,
            Ok(Redeemed::Denied { by, reason }) => {
                Some(Decision::Deny { message: format!("denied by {by}: {reason}") })
            }
            Ok(Redeemed::Expired) => Some(Decision::Deny { message: "no approval in time".to_owned() }),
            Err(error) => {
                let message = error.to_string();
                self.failed.borrow_mut().get_or_insert(error);
                Some(Decision::Deny { message })
            }
        }
    }
}
