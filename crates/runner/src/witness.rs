//! Who is there while an agent works: what it does goes on record, and what it asks is decided by the gates or by a
//! person. A person's yes is bound to the exact command, the directory it runs in and the tree it runs on.

use crate::approval::{self, Redeemed};
use crate::book::{Book, Pending};
use crate::drive::Driver;
use crate::show::Ground;
use crate::world::{Answered, Question, Witness};
use crate::{Error, Result};
use contract::session::{Decision, Permission, ToolKind};
use contract::work::NetworkRight;
use contract::{Fact, Item, Policies, RepoPath, SessionEvent, StepRef};
use run::Run;
use run::gate::command;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use store::Store;

/// See the module.
pub(crate) struct OnRecord<'a> {
    book: Arc<Book<'a>>,
    store: &'a Store,
    policies: &'a Policies,
    step: StepRef,
    run: Run,
    tree: String,
    pending: RefCell<Vec<Pending>>,
    failed: RefCell<Option<Error>>,
}

impl<'a> OnRecord<'a> {
    pub(crate) fn new(driver: &Driver<'_, 'a>, step: StepRef) -> OnRecord<'a> {
        let tree = Ground::of(&driver.run, step).tree;
        OnRecord {
            book: driver.book.clone(),
            store: driver.store,
            policies: driver.policies,
            step,
            run: driver.run.clone(),
            tree,
            pending: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// Waits until everything that was seen is on record.
    pub(crate) fn settle(&self) -> Result<()> {
        for pending in self.pending.take() {
            self.book.settle(pending)?;
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn submit(&self, fact: Fact) {
        let (pending, _) = self.book.submit(self.store, |_| (vec![fact], Vec::new()));
        self.pending.borrow_mut().push(pending);
    }

    fn item(&self) -> Option<&Item> {
        self.step.item.map(|place| &*self.run.items[place as usize].item)
    }

    fn ask(&self, permission: &Permission, why: &str) -> Answered {
        let mut reasons = vec![format!("the agent asks to use {}: {why}", permission.tool)];
        reasons.extend(permission.command.as_ref().map(|command| format!("command: {command}")));
        reasons.extend(permission.paths.iter().map(|path| format!("path: {path}")));
        reasons.extend(permission.cwd.as_ref().map(|cwd| format!("directory: {cwd}")));
        reasons.push(format!("tree: {}", self.tree));
        reasons.push(format!("step: {} {}", self.step.dir_name(), permission.id));
        match approval::ask(self.store, &self.run, run::bounded(reasons)) {
            Ok(wait) => {
                self.submit(Fact::ApprovalAsked { step: self.step, wait: wait.clone() });
                // A question is told only when it is on record.
                if let Err(error) = self.settle() {
                    return self.broken(error);
                }
                Answered::Later(Box::new(Question { wait, permission: permission.clone() }))
            }
            Err(error) => self.broken(error),
        }
    }

    /// What cannot be recorded is not allowed, and ends the turn.
    fn broken(&self, error: Error) -> Answered {
        let message = format!("it could not be put on record: {error}");
        self.failed.borrow_mut().get_or_insert(error);
        Answered::Now(Decision::Deny { message })
    }

    fn command(&self, permission: &Permission) -> Answered {
        let Some(line) = &permission.command else { return self.ask(permission, "it does not say which command") };
        let forbidden = self.item().map(|item| item.forbidden_actions.as_slice()).unwrap_or_default();
        if let Some(word) = forbidden.iter().find(|word| line.contains(word.as_str())) {
            return deny(format!("the contract forbids {word:?}"));
        }
        match command::decide_line(line, &self.policies.commands()) {
            command::Decision::Allow { .. } => Answered::Now(Decision::Allow),
            command::Decision::Deny { rule, why } => deny(format!("{rule}: {why}")),
            command::Decision::Ask { why } => self.ask(permission, &why),
        }
    }

    /// Whether files may change is the contract's to say; the scope gate looks at what did.
    fn files(&self, permission: &Permission) -> Answered {
        let Some(item) = self.item() else { return Answered::Now(Decision::Allow) };
        let root = self.store.layout.root.clone();
        for path in &permission.paths {
            let within = Path::new(path).strip_prefix(&root).map(Path::to_string_lossy);
            let below = within.as_deref().unwrap_or(path);
            let Ok(parsed) = RepoPath::parse(below) else {
                return deny(format!("{path} is not in the repository"));
            };
            let allowed = &item.scope.allowed_paths;
            if !allowed.is_empty() && !allowed.iter().any(|allowed| parsed.is_within(allowed)) {
                return deny(format!("{below} is not one of the allowed paths"));
            }
        }
        Answered::Now(Decision::Allow)
    }

    fn used(&self, question: &Question, by: String) -> Decision {
        self.submit(Fact::ApprovalUsed { approval: question.wait.approval.clone(), by });
        match self.settle() {
            Ok(()) => Decision::Allow,
            Err(error) => {
                let message = format!("it could not be put on record: {error}");
                self.failed.borrow_mut().get_or_insert(error);
                Decision::Deny { message }
            }
        }
    }
}

fn deny(message: String) -> Answered {
    Answered::Now(Decision::Deny { message })
}

impl Witness for OnRecord<'_> {
    fn saw(&self, event: SessionEvent, kept: bool) {
        if kept {
            self.submit(Fact::AgentEvent { step: self.step, event: Box::new(event) });
        }
    }

    fn decide(&self, permission: &Permission) -> Answered {
        match permission.kind {
            ToolKind::Read | ToolKind::Search | ToolKind::Think => Answered::Now(Decision::Allow),
            ToolKind::Write => self.files(permission),
            ToolKind::Shell => self.command(permission),
            ToolKind::Fetch => match self.item().map(|item| item.rights.network) {
                Some(NetworkRight::Allow) => Answered::Now(Decision::Allow),
                Some(NetworkRight::OnRequest) => self.ask(permission, "it reaches the network"),
                _ => deny("this role may not reach the network".to_owned()),
            },
            ToolKind::Mcp => {
                let allowed = self.item().is_some_and(|item| item.rights.mcp_tools.contains(&permission.tool));
                match allowed {
                    true => Answered::Now(Decision::Allow),
                    false => deny(format!("the contract does not name the tool {}", permission.tool)),
                }
            }
            ToolKind::Other => self.ask(permission, "nothing is known of this tool"),
        }
    }

    fn answer(&self, question: &Question) -> Option<Decision> {
        match approval::redeem(self.store, &self.run, &question.wait) {
            Ok(Redeemed::Pending) => None,
            Ok(Redeemed::Granted { by }) => Some(self.used(question, by)),
            Ok(Redeemed::Denied { by, reason }) => Some(Decision::Deny { message: format!("{by} said no: {reason}") }),
            Ok(Redeemed::Expired) => Some(Decision::Deny { message: "nobody said yes in time".to_owned() }),
            Err(error) => {
                let message = error.to_string();
                self.failed.borrow_mut().get_or_insert(error);
                Some(Decision::Deny { message })
            }
        }
    }
}
