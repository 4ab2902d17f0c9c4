//! A document that somebody submits, held against this repository: its policies, its configuration, and the files of the
//! commit that a run would start from. Nothing is read from the work tree, where an agent may have been.

use crate::agent::{self, Threads};
use crate::git::{Objects, Repository};
use crate::{Error, Request, Result, Settings};
use contract::documents::task_contract::{self, RoleContract};
use contract::documents::{self, Kind, Terms};
use contract::{Digest, Item, RefusedBy, Violation, hash};
use run::gate::command::{Decision, Origin, decide};
use std::collections::BTreeSet;
use store::Layout;

/// What came of looking at a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// SHA-256 of the document.
    pub sha256: Digest,
    /// What it claims to be, as far as that could be told.
    pub kind: Option<Kind>,
    /// Its items, or everything that is wrong with it.
    pub items: std::result::Result<Vec<Item>, Vec<Violation>>,
    /// What it is refused by; of no meaning where it is not.
    pub refused_by: RefusedBy,
    /// The role that a task contract gives its agent, resolved for people to read.
    pub role: Option<RoleContract>,
}

impl Submitted {
    /// What has to be put on record if it was refused.
    pub fn refusal(&self) -> Option<Request> {
        let violations = self.items.as_ref().err()?.clone();
        let kind = self.kind.map(|kind| kind.as_str().to_owned());
        Some(Request::ContractRefused { by: self.refused_by, sha256: self.sha256, kind, violations })
    }

    /// The items, or an error with every violation; `name` is what the document is called.
    pub fn into_items(self, name: &str) -> Result<Vec<Item>> {
        self.items.map_err(|violations| {
            let lines: Vec<String> = violations.iter().map(|violation| format!("\n  {violation}")).collect();
            Error::usage(
                format!("{name} is not valid; nothing was run:{}", lines.concat()),
                "fix it (norma help contracts), then: norma contract check",
            )
        })
    }
}

/// Looks at a document, whose items may be added to those that are present; `Err` only where norma itself could not look.
pub fn submit(
    user: &Repository,
    objects: &Objects,
    layout: &Layout,
    settings: &Settings,
    bytes: &[u8],
    present: &BTreeSet<String>,
) -> Result<Submitted> {
    let head = user.head()?;
    let state_dir = layout.state_in_repository();
    let policies = &settings.policies;
    let commands = policies.commands();
    let refusal = |argv: &[String]| match decide(argv, Origin::Contract, &commands) {
        Decision::Deny { rule, why } => Some(format!("rule {rule} of forbidden_actions.json refuses it: {why}")),
        Decision::Allow { .. } | Decision::Ask { .. } => None,
    };
    let threads = Threads::new(layout.threads());
    let terms = Terms {
        registry: policies.agent_registry(),
        agents: &settings.config.agents,
        sandbox: &settings.config.sandbox,
        mode: settings.config.mode,
        mcp: &policies.mcp_allowlist(),
        present,
        state_dir: state_dir.as_ref(),
        base: &head.commit.to_string(),
        file: &|path| objects.committed_file(head.tree, path),
        is_directory: &|path| objects.has_directory(head.tree, path),
        refusal: &refusal,
        reviewers: &|worker| settings.config.reviewers(worker, None),
        has_thread: &|thread, kind| agent::known_kind(kind).is_some_and(|kind| threads.has(kind, thread)),
    };
    let (kind, items) = documents::compile(bytes, &terms);
    let refused_by = match kind {
        Some(kind) if items.is_err() && documents::has_form(kind, bytes) => RefusedBy::PolicyViolation,
        _ => RefusedBy::GateFailed,
    };
    let given = (kind == Some(Kind::TaskContract)).then(|| task_contract::read(bytes).ok()).flatten();
    let role = given.filter(|_| items.is_ok()).and_then(|given| task_contract::resolve_role(&given, &terms));
    Ok(Submitted { sha256: hash::sha256(bytes), kind, items, refused_by, role })
}

/// Makes a document the active contract, whole or not at all.
pub fn activate(layout: &Layout, bytes: &[u8]) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let path = layout.active_contract();
    let dir = path.parent().expect("BUG: the active contract lies in a directory");
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| Error::io("create", dir, source))?;
    Ok(store::write_whole(&path, bytes)?)
}

/// Leaves nothing active; answers whether anything was.
pub fn deactivate(layout: &Layout) -> Result<bool> {
    let path = layout.active_contract();
    match std::fs::remove_file(&path) {
        Ok(()) => {
            // The empty directory would say that a contract is missing; if it is not empty, it is somebody's.
            let _ = path.parent().map(std::fs::remove_dir);
            Ok(true)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::io("remove", &path, source)),
    }
}
