//! From what somebody wants to the run of a pipeline: who fills which role, what norma fills of every contract, and which of the
//! contracts a person has written already.

use crate::change::contracts::{completed, document, hold_to, in_pipeline, overlaps};
use crate::drive::pipeline::{tech_lead_item, writer};
use crate::host::intake::Planned;
use crate::host::start::{PipelineOrder, no_such_agent};
use crate::{Error, Result, Settings, Submitted};
use contract::documents::task_contract::{self, Draft};
use contract::documents::{AgentRole, TaskContract, TechLeadAnswer, roles};
use contract::pipeline::{FIXES, PM_TASK, ROOT_TASK};
use contract::{Config, Item, PipelineTerms, Violation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What somebody wants of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineWish {
    /// In a sentence.
    pub goal: String,
    /// The contract, in place of a PM.
    pub contract: Option<String>,
    /// Its parts, in place of a tech lead.
    pub plan: Option<String>,
    /// Who turns the sentence into a contract.
    pub pm: Option<String>,
    /// Who splits it.
    pub tech_lead: Option<String>,
    /// Who carries out the parts.
    pub worker: Option<String>,
    /// Who reviews them.
    pub reviewer: Option<String>,
    /// Commands that the repository has for testing, which any contract may name.
    #[serde(default)]
    pub tests: Vec<String>,
}

/// Who fills which role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seats {
    /// Nobody where there is a contract already.
    pub pm: Option<String>,
    /// Nobody where it stays one, or is split already.
    pub tech_lead: Option<String>,
    /// Who carries out the parts.
    pub worker: String,
    /// Who reviews them.
    pub reviewers: Vec<String>,
}

impl PipelineWish {
    /// Who fills which role: whoever was named, or the entry of the configuration.
    pub fn seats(&self, config: &Config) -> Result<Seats> {
        let filled = |named: &Option<String>, entry: &str| {
            named.clone().or_else(|| config.agents.contains_key(entry).then(|| entry.to_owned()))
        };
        let worker = filled(&self.worker, "worker").or_else(|| config.default_agent.clone());
        let worker = worker.ok_or_else(|| no_such_agent("worker"))?;
        let is_written = self.contract.is_some() || self.plan.is_some();
        let seats = Seats {
            pm: filled(&self.pm, "pm").filter(|_| !is_written),
            tech_lead: filled(&self.tech_lead, "tech_lead").filter(|_| self.plan.is_none()),
            reviewers: config.reviewers(&worker, self.reviewer.as_deref()).map(|it| it.agents).unwrap_or_default(),
            worker,
        };
        let named = [&seats.pm, &seats.tech_lead].into_iter().flatten().chain([&seats.worker]).chain(&seats.reviewers);
        let unknown = named.into_iter().find(|name| config.agent(name).is_none()).cloned();
        unknown.map_or(Ok(seats), |name| Err(no_such_agent(&name)))
    }
}

impl PipelineWish {
    /// Fills in what the repository says by itself: who works, the commands that it is tested by, and without a PM the contract.
    pub fn complete(&mut self, planned: &Planned<'_>) -> Result<()> {
        self.tests = texts(&planned.document["test_commands"]);
        self.worker.get_or_insert_with(|| planned.agent.name.clone());
        let has_pm = self.pm.is_some() || planned.settings.config.agents.contains_key("pm");
        if !has_pm {
            self.contract = Some(by_rules(planned, &self.goal, &self.tests)?);
        }
        Ok(())
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// The contract that follows from the repository by rules.
fn by_rules(planned: &Planned<'_>, goal: &str, tests: &[String]) -> Result<String> {
    let allowed_paths = texts(&planned.document["allowed_paths"]);
    let unfound = match (allowed_paths.is_empty(), tests.is_empty()) {
        (true, _) => Some("nothing in the repository says which files the sentence is about"),
        (_, true) => Some("nothing in the repository says how it is tested"),
        _ => None,
    };
    if let Some(what) = unfound {
        let hint =
            "write the contract: norma pipeline --contract FILE; or have a PM look around: add \"pm\" to \"agents\"";
        return Err(Error::usage(what, hint));
    }
    let policies = &planned.settings.policies;
    let (agent_id, tests) = ("agent-1".to_owned(), tests.to_vec());
    let draft = Draft { task_id: ROOT_TASK.to_owned(), goal: goal.to_owned(), allowed_paths, tests, agent_id };
    let contract = draft.contract(policies.agent_registry(), &policies.mcp_allowlist());
    let mut contract = contract.map_err(|why| Error::usage(why, "look at policies/agent_registry.json"))?;
    contract.timeout_retry.max_retries = FIXES;
    Ok(serde_json::to_string_pretty(&contract).expect("BUG: a contract is plain data"))
}

/// Compiles a contract that a person wrote.
type Compile<'c> = dyn FnMut(&str, &Settings, &[u8]) -> Result<Submitted> + 'c;

/// The order that a wish comes to. Contracts that a person wrote are compiled here; nothing is started.
pub(crate) fn order(wish: &PipelineWish, settings: &Settings, compile: &mut Compile<'_>) -> Result<PipelineOrder> {
    let seats = wish.seats(&settings.config)?;
    let skeleton = skeleton(wish, settings, &seats.worker)?;
    // A contract names its worker by what the registry knows; who that is here was said.
    let mut known = settings.clone();
    let agent = settings.config.agent(&seats.worker).ok_or_else(|| no_such_agent(&seats.worker))?;
    known.config.agents.insert("worker".to_owned(), agent);
    let review = settings.config.reviewers(&seats.worker, wish.reviewer.as_deref());
    let limits = settings.config.limits.clone();
    let mut terms = PipelineTerms {
        pm: seats.pm,
        tech_lead: seats.tech_lead,
        worker: seats.worker,
        review,
        skeleton: Box::new(skeleton),
        root: None,
        parts: Vec::new(),
    };
    let mut items = Vec::new();
    let mut submitted = serde_json::json!({ "sentence": wish.goal }).to_string().into_bytes();
    if let Some(text) = &wish.contract {
        let (root, item) = given(text, &known, &terms, compile)?;
        submitted = text.clone().into_bytes();
        terms.root = Some(Box::new(root));
        items.push(item);
    }
    if let Some(text) = &wish.plan {
        let (parts, of_parts) = split(text, &mut terms, &wish.goal, &known, compile)?;
        (terms.parts, items) = (parts, of_parts);
        if wish.contract.is_none() {
            submitted = text.clone().into_bytes();
        }
    }
    for item in &mut items {
        in_pipeline(item, &terms, &limits);
    }
    let wide = items.clone();
    match (&terms.pm, &terms.tech_lead, &terms.root) {
        (_, Some(name), Some(root)) => items = vec![tech_lead_item(name, &root.inputs.spec, &limits)],
        (Some(name), _, None) => {
            items = vec![writer(PM_TASK, ("PM", name), roles::PM_SCHEMA, &wish.goal, &limits)];
        }
        (None, _, None) => {
            let hint = "add \"pm\" to \"agents\", or write the contract: norma pipeline --contract FILE";
            return Err(Error::usage("nobody turns the sentence into a contract", hint));
        }
        (_, None, Some(_)) => {}
    }
    // What the run was asked for is what everything that it starts with was made of.
    let digest = contract::hash::sha256(&submitted);
    items.iter_mut().for_each(|item| item.submitted = digest);
    let goal = match (&terms.root, wish.goal.is_empty()) {
        (Some(root), true) => root.inputs.spec.clone(),
        _ => wish.goal.clone(),
    };
    Ok(PipelineOrder { goal, terms, items, submitted, written: wide })
}

/// What norma fills of every contract.
fn skeleton(wish: &PipelineWish, settings: &Settings, worker: &str) -> Result<TaskContract> {
    let registry = settings.policies.agent_registry();
    let is_registered = registry.require(worker, AgentRole::Worker).is_ok();
    let agent_id = if is_registered { worker.to_owned() } else { "agent-1".to_owned() };
    let draft = Draft {
        task_id: ROOT_TASK.to_owned(),
        goal: String::new(),
        allowed_paths: Vec::new(),
        tests: wish.tests.clone(),
        agent_id,
    };
    let hint = "policies/agent_registry.json names nobody who works, or mcp_allowlist.json allows nothing";
    let contract = draft.contract(registry, &settings.policies.mcp_allowlist());
    let mut skeleton = contract.map_err(|why| Error::usage(why, hint))?;
    skeleton.timeout_retry.max_retries = FIXES;
    Ok(skeleton)
}

fn refused(name: &str, problems: &[Violation]) -> Error {
    let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    Error::usage(format!("{name} is not valid; nothing was run:{lines}"), "fix it (norma help pipelines)")
}

/// The contract that a person wrote, with the stages that it asks for.
fn given(
    text: &str,
    settings: &Settings,
    terms: &PipelineTerms,
    compile: &mut Compile<'_>,
) -> Result<(TaskContract, Item)> {
    let name = "the contract";
    let root = task_contract::read(text.as_bytes()).map_err(|problems| refused(name, &problems))?;
    let chain = root.handoff_chain.iter().filter(|chain| chain.enabled != Some(false));
    for (index, role) in chain.flat_map(|chain| chain.roles.iter().flatten()).enumerate() {
        let is_there = match role {
            AgentRole::TechLead => terms.tech_lead.is_some(),
            AgentRole::Reviewer => terms.review.is_some(),
            _ => true,
        };
        if !is_there {
            let message = format!("nobody takes over as {role}; add {:?} to \"agents\"", role.as_str().to_lowercase());
            let problem = Violation { pointer: format!("/handoff_chain/roles/{index}"), message };
            return Err(refused(name, &[problem]));
        }
    }
    // Its stages are those of the pipeline.
    let plain = TaskContract { handoff_chain: None, role_contract: None, ..root.clone() };
    let item = compiled(name, &plain, settings, compile)?;
    Ok((root, item))
}

fn compiled(name: &str, contract: &TaskContract, settings: &Settings, compile: &mut Compile<'_>) -> Result<Item> {
    let submitted = compile(name, settings, document(contract).as_bytes())?;
    let mut items = submitted.into_items(name)?;
    items.pop().ok_or_else(|| Error::usage(format!("{name} asks for nothing"), "norma help pipelines"))
}

/// The parts that a person has split a contract into. Where there is no contract they are it.
fn split(
    text: &str,
    terms: &mut PipelineTerms,
    goal: &str,
    settings: &Settings,
    compile: &mut Compile<'_>,
) -> Result<(Vec<TaskContract>, Vec<Item>)> {
    let name = "the plan";
    let limits = contract::documents::limits_of(text.as_bytes());
    let value = contract::json::parse(text.as_bytes(), limits).map_err(|problems| refused(name, &problems))?;
    let value = if value.is_array() { serde_json::json!({ "contracts": value }) } else { value };
    let plan: TechLeadAnswer = serde_json::from_value(value)
        .map_err(|error| refused(name, &[Violation::document(format!("expected {{\"contracts\": […]}}: {error}"))]))?;
    let root = terms.root.as_deref().cloned();
    let parent = root.as_ref().map_or(ROOT_TASK, |root| root.task_id.as_str()).to_owned();
    let mut skeleton = (*terms.skeleton).clone();
    skeleton.parent_task_id = Some(parent.clone());
    let (mut parts, mut items) = (Vec::new(), Vec::new());
    for (index, written) in plan.contracts.iter().enumerate() {
        let at =
            |problem: Violation| Violation { pointer: format!("/contracts/{index}{}", problem.pointer), ..problem };
        let part = completed(&skeleton, written, format!("{parent}-{}", index + 1), root.as_ref())
            .map_err(|problems| refused(name, &problems.into_iter().map(at).collect::<Vec<_>>()))?;
        let mut item = compiled(name, &part, settings, compile)?;
        root.iter().for_each(|root| hold_to(&mut item, root));
        items.push(item);
        parts.push(part);
    }
    let scopes: Vec<&[contract::RepoPath]> = items.iter().map(|item| &item.scope.allowed_paths[..]).collect();
    let problems = overlaps(&scopes, &plan.contracts);
    if !problems.is_empty() || parts.is_empty() {
        return Err(refused(name, &problems));
    }
    if terms.root.is_none() {
        let mut whole = (*terms.skeleton).clone();
        whole.inputs.spec = if goal.is_empty() { parts[0].inputs.spec.clone() } else { goal.to_owned() };
        whole.allowed_paths = parts.iter().flat_map(|part| part.allowed_paths.clone()).collect();
        whole.acceptance_tests = parts.iter().flat_map(|part| part.acceptance_tests.clone()).collect();
        terms.root = Some(Box::new(whole));
    }
    Ok((parts, items))
}
