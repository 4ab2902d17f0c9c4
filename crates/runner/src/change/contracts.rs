//! Contracts that agents write, held to what a stranger's would be held to: completed with what is norma's to fill, compiled by the
//! one compiler, and no wider than the contract that they are a part of. Nothing is narrowed or corrected; what may not be is
//! refused with its pointer. Nothing is started and nothing is recorded here, so that whoever replays a run checks them again.

use super::gates::Gates;
use crate::context::policy::extent;
use crate::git::id;
use contract::documents::roles::ContractMembers;
use contract::documents::task_contract::{self, ToolPermissions};
use contract::documents::{TaskContract, TechLeadAnswer, Terms, Written};
use contract::json::Violation;
use contract::pipeline::{CONTRACT_BYTES_MAX, CONTRACTS_MAX, ROOT_TASK};
use contract::work::TestCommand;
use contract::{Item, Mode, PipelineTerms, RepoPath, SandboxConfig, TurnLimits};
use run::gate::command::{Decision, Origin, decide};
use run::gate::policy::{Extent, needs_approval};
use run::gate::{Finding, Rule};
use run::workflow::pipeline::skeleton;
use serde_json::Value;
use std::collections::BTreeSet;

/// How many files a tree has at least before a share of it says anything.
const TREE_FILES_MIN: u64 = 20;

/// A contract that can be carried out.
pub(crate) struct Part {
    /// The contract.
    pub(crate) contract: TaskContract,
    /// What it compiles to.
    pub(crate) item: Item,
}

impl Part {
    /// The contract in its one spelling.
    pub(crate) fn document(&self) -> String {
        document(&self.contract)
    }
}

/// A contract in its one spelling.
pub(crate) fn document(contract: &TaskContract) -> String {
    let bytes = contract::json::canonical(contract).expect("BUG: a contract holds only small integers and strings");
    String::from_utf8(bytes).expect("BUG: canonical JSON is text")
}

/// What a problem of a contract is to a gate.
pub(crate) fn finding(violation: &Violation) -> Finding {
    Finding::whole(Rule::Contract, violation.to_string())
}

/// What a role of a pipeline wrote, as contracts that can be carried out, or everything that is wrong with them. Before there is a
/// contract it is the PM's answer; then it is that of whoever splits it.
pub(crate) fn of(gates: &Gates<'_>, answer: &Value) -> Result<Vec<Part>, Vec<Violation>> {
    let document = |why: &str| vec![Violation::document(why)];
    let terms = gates.run.started.contract.pipeline.as_ref().ok_or_else(|| document("the run is no pipeline"))?;
    let state = gates.run.pipeline().ok_or_else(|| document("the run is no pipeline"))?;
    let form = || document("is neither the members of a contract nor a whole one");
    let Some(root) = state.root() else {
        let written: Written = serde_json::from_value(answer.clone()).map_err(|_| form())?;
        let part = Checker { gates, terms, parent: None }.part(&written, ROOT_TASK.to_owned(), String::new())?;
        return Ok(vec![part]);
    };
    let answer: TechLeadAnswer = serde_json::from_value(answer.clone()).map_err(|_| form())?;
    let checker = Checker { gates, terms, parent: Some(root) };
    checker.parts(&answer.contracts)
}

/// Has an item carried out as the part of a pipeline: by its worker, looked at by its reviewers. Repeats of a turn are bounded by the
/// configuration; the contract's retries bound fixes.
pub(crate) fn in_pipeline(item: &mut Item, terms: &PipelineTerms, limits: &TurnLimits) {
    item.worker.clone_from(&terms.worker);
    item.review.clone_from(&terms.review);
    item.retries = limits.protocol_retries.unwrap_or_default();
    if let Some(schema) = &mut item.output_schema {
        schema.optional = true;
    }
}

/// A contract that norma itself completed, compiled as any other.
pub(crate) fn compile(
    gates: &Gates<'_>,
    contract: &TaskContract,
    parent: Option<&TaskContract>,
) -> Result<Item, Vec<Violation>> {
    let terms = gates.run.started.contract.pipeline.as_ref();
    let terms = terms.ok_or_else(|| vec![Violation::document("the run is no pipeline")])?;
    Checker { gates, terms, parent }.compile(contract)
}

/// The tests of a contract that must pass, as commands.
pub(crate) fn root_tests(root: &TaskContract) -> Vec<TestCommand> {
    let test = |test: &task_contract::AcceptanceTest| {
        let argv = contract::policy::split(&test.cmd).ok()?;
        Some(TestCommand { name: test.name.clone(), argv, must_pass: true, of_whole: false })
    };
    root.acceptance_tests.iter().filter(|test| test.must_pass).filter_map(test).collect()
}

/// Holds a part to what the whole is tested by: what passes without it must pass with it.
pub(crate) fn hold_to(part: &mut Item, whole: &TaskContract) {
    for test in root_tests(whole) {
        if !part.tests.iter().any(|own| own.argv == test.argv && own.must_pass) {
            part.tests.push(TestCommand { of_whole: true, ..test });
        }
    }
}

struct Checker<'c> {
    gates: &'c Gates<'c>,
    terms: &'c PipelineTerms,
    parent: Option<&'c TaskContract>,
}

impl Checker<'_> {
    fn parts(&self, written: &[Written]) -> Result<Vec<Part>, Vec<Violation>> {
        let parent = self.parent.map(|parent| parent.task_id.clone()).unwrap_or_default();
        let (mut parts, mut problems) = (Vec::new(), Vec::new());
        if written.is_empty() || written.len() > CONTRACTS_MAX {
            let message = format!("has {} contracts; between 1 and {CONTRACTS_MAX} can be carried out", written.len());
            return Err(vec![Violation { pointer: "/contracts".to_owned(), message }]);
        }
        for (index, one) in written.iter().enumerate() {
            match self.part(one, format!("{parent}-{}", index + 1), format!("/contracts/{index}")) {
                Ok(part) => parts.push(part),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() {
            let scopes: Vec<&[RepoPath]> = parts.iter().map(|part| &part.item.scope.allowed_paths[..]).collect();
            problems = overlaps(&scopes, written);
        }
        if problems.is_empty() { Ok(parts) } else { Err(problems) }
    }

    fn part(&self, written: &Written, task_id: String, at: String) -> Result<Part, Vec<Violation>> {
        let moved = |violation: Violation| Violation { pointer: format!("{at}{}", violation.pointer), ..violation };
        let skeleton = skeleton(self.gates.run).ok_or_else(|| vec![Violation::document("the run is no pipeline")])?;
        let contract = completed(&skeleton, written, task_id, self.parent);
        let checked = contract.and_then(|contract| {
            let mut item = self.compile(&contract)?;
            self.parent.into_iter().for_each(|parent| hold_to(&mut item, parent));
            Ok(Part { contract, item })
        });
        checked.map_err(|problems| problems.into_iter().map(moved).collect())
    }

    fn compile(&self, contract: &TaskContract) -> Result<Item, Vec<Violation>> {
        let run = self.gates.run;
        let policies = self.gates.rules.policies();
        let commands = policies.commands();
        let tree = id(run.started.base.tree);
        let objects = self.gates.objects;
        let refusal = |argv: &[String]| {
            let origin = if self.is_known(argv) { Origin::Contract } else { Origin::Agent };
            match decide(argv, origin, &commands).unasked() {
                Decision::Deny { rule, why } => Some(format!("rule {rule} refuses it: {why}")),
                Decision::Allow { .. } | Decision::Ask { .. } => None,
            }
        };
        let mut agents = run.started.contract.workers.clone();
        agents.extend(
            run.started.contract.workers.get(&self.terms.worker).map(|agent| ("worker".to_owned(), agent.clone())),
        );
        let sandbox = SandboxConfig { backend: run.started.contract.sandbox, ..SandboxConfig::default() };
        let present: BTreeSet<String> = run.items().iter().map(|state| state.item.id.clone()).collect();
        let state_dir = self.gates.rules.state_dir();
        let base = run.started.base.commit.to_string();
        let mcp = policies.mcp_allowlist();
        let terms = Terms {
            registry: policies.agent_registry(),
            agents: &agents,
            sandbox: &sandbox,
            mode: Mode::default(),
            mcp: &mcp,
            present: &present,
            state_dir,
            base: &base,
            file: &|path| objects.committed_file(tree, path),
            is_directory: &|path| objects.has_directory(tree, path),
            refusal: &refusal,
            reviewers: &|_| None,
            has_thread: &|_, _| false,
        };
        let text = document(contract);
        if text.len() > CONTRACT_BYTES_MAX {
            let message = format!("is {} bytes, and {CONTRACT_BYTES_MAX} are the most", text.len());
            return Err(vec![Violation { pointer: String::new(), message }]);
        }
        let mut item = task_contract::compile(contract, text.as_bytes(), &terms)?;
        let extent = extent(objects, tree, &item.scope.allowed_paths);
        let extent = extent.map_err(|error| vec![Violation::document(error.to_string())])?;
        let says_something = extent.files >= TREE_FILES_MIN;
        let wide = needs_approval(&item, policies, if says_something { extent } else { Extent::default() });
        if !wide.is_empty() && !self.is_a_persons(contract) {
            let message = format!("nobody approves what an agent asks for: {}", wide.join("; "));
            return Err(vec![Violation { pointer: "/allowed_paths".to_owned(), message }]);
        }
        in_pipeline(&mut item, self.terms, &run.started.contract.limits);
        item.scope.named_by_git.clone_from(&run.started.contract.scope.named_by_git);
        Ok(item)
    }

    /// Whether somebody other than an agent has named this very command as a test.
    fn is_known(&self, argv: &[String]) -> bool {
        let contracts = self.terms.parts.iter().chain(self.terms.root.as_deref()).chain([&*self.terms.skeleton]);
        let tests = contracts.flat_map(|contract| &contract.acceptance_tests);
        tests.into_iter().any(|test| contract::policy::split(&test.cmd).is_ok_and(|words| words == argv))
    }

    /// Whether its paths are those of a contract that a person wrote.
    fn is_a_persons(&self, contract: &TaskContract) -> bool {
        let own = self.terms.parts.iter().chain(self.terms.root.as_deref());
        own.into_iter().any(|own| own.allowed_paths == contract.allowed_paths)
    }
}

/// A contract with everything that is norma's to fill, if it asks for no more than the one that it is a part of.
pub(crate) fn completed(
    skeleton: &TaskContract,
    written: &Written,
    task_id: String,
    parent: Option<&TaskContract>,
) -> Result<TaskContract, Vec<Violation>> {
    let own = TaskContract { task_id, ..skeleton.clone() };
    let mut contract = match written {
        Written::Members(members) => with_members(own, members),
        Written::Whole(whole) => {
            let taken = with_whole(own, whole);
            let filled = filled_otherwise(&taken, whole, &skeleton.task_id);
            if !filled.is_empty() {
                return Err(filled);
            }
            taken
        }
    };
    let Some(parent) = parent else { return Ok(contract) };
    // What the whole may not do its parts may not do either.
    for word in &parent.forbidden_actions {
        if !contract.forbidden_actions.contains(word) {
            contract.forbidden_actions.push(word.clone());
        }
    }
    let problems = wider_than(&contract, parent);
    if problems.is_empty() { Ok(contract) } else { Err(problems) }
}

/// Where a part asks for more than the whole.
fn wider_than(contract: &TaskContract, parent: &TaskContract) -> Vec<Violation> {
    let mut problems = Vec::new();
    let whole: Vec<&str> = parent.allowed_paths.iter().map(|path| trimmed(path)).collect();
    for (index, path) in contract.allowed_paths.iter().enumerate() {
        if !whole.iter().any(|outer| lies_in(trimmed(path), outer)) {
            let message = format!("{path:?} is outside of what {} may change", parent.task_id);
            problems.push(Violation { pointer: format!("/allowed_paths/{index}"), message });
        }
    }
    let (asked, most) = (&contract.tool_permissions, &parent.tool_permissions);
    for (right, _) in wider(asked, most).into_iter().filter(|(_, wider)| *wider) {
        let message = format!("is more than {} gives", parent.task_id);
        problems.push(Violation { pointer: format!("/tool_permissions/{right}"), message });
    }
    problems
}

fn with_members(own: TaskContract, members: &ContractMembers) -> TaskContract {
    let mut contract = own;
    contract.inputs.spec.clone_from(&members.spec);
    contract.allowed_paths.clone_from(&members.allowed_paths);
    contract.acceptance_tests.clone_from(&members.acceptance_tests);
    if let Some(outputs) = &members.required_outputs {
        contract.required_outputs.clone_from(outputs);
    }
    if let Some(words) = &members.forbidden_actions {
        contract.forbidden_actions.clone_from(words);
    }
    if let Some(permissions) = &members.tool_permissions {
        contract.tool_permissions.clone_from(permissions);
    }
    contract
}

fn with_whole(own: TaskContract, whole: &TaskContract) -> TaskContract {
    TaskContract {
        inputs: task_contract::Inputs { spec: whole.inputs.spec.clone(), ..own.inputs },
        allowed_paths: whole.allowed_paths.clone(),
        acceptance_tests: whole.acceptance_tests.clone(),
        required_outputs: whole.required_outputs.clone(),
        forbidden_actions: whole.forbidden_actions.clone(),
        tool_permissions: whole.tool_permissions.clone(),
        ..own
    }
}

/// Where a whole contract says something else than what norma fills. Its name may be that of the skeleton.
fn filled_otherwise(taken: &TaskContract, whole: &TaskContract, skeleton_id: &str) -> Vec<Violation> {
    let mut said = whole.clone();
    if said.task_id == skeleton_id {
        said.task_id.clone_from(&taken.task_id);
    }
    let value = |contract: &TaskContract| serde_json::to_value(contract).expect("BUG: a contract is plain data");
    let (filled, said) = (value(taken), value(&said));
    let keys: BTreeSet<&String> =
        [&filled, &said].into_iter().flat_map(|it| it.as_object()).flat_map(|it| it.keys()).collect();
    let differs = |key: &&&String| filled.get(key.as_str()) != said.get(key.as_str());
    let violation = |key: &&String| Violation {
        pointer: format!("/{key}"),
        message: "is norma's to fill: leave it as context.skeleton has it".to_owned(),
    };
    keys.iter().filter(differs).map(violation).collect()
}

/// Parts whose paths meet, though not all of them are locked.
pub(crate) fn overlaps(scopes: &[&[RepoPath]], written: &[Written]) -> Vec<Violation> {
    let locked = |index: usize| match &written[index] {
        Written::Members(members) => members.file_lock == Some(true),
        Written::Whole(_) => false,
    };
    let mut problems = Vec::new();
    for (index, scope) in scopes.iter().enumerate() {
        for (other, outer) in scopes[..index].iter().enumerate() {
            let meets = |path: &RepoPath| {
                outer.iter().any(|it| lies_in(path.as_str(), it.as_str()) || lies_in(it.as_str(), path.as_str()))
            };
            let met = scope.iter().find(|path| meets(path));
            if let Some(path) = met.filter(|_| !(locked(index) && locked(other))) {
                let message = format!("{path} is also in /contracts/{other}: split it, or set file_lock in both");
                problems.push(Violation { pointer: format!("/contracts/{index}/allowed_paths"), message });
            }
        }
    }
    problems
}

fn wider(asked: &ToolPermissions, most: &ToolPermissions) -> [(&'static str, bool); 4] {
    [
        ("filesystem", asked.filesystem > most.filesystem),
        ("shell", asked.shell > most.shell),
        ("network", asked.network > most.network),
        ("mcp_tools", asked.mcp_tools.iter().any(|tool| !most.mcp_tools.contains(tool))),
    ]
}

fn trimmed(path: &str) -> &str {
    path.trim_start_matches("./").trim_matches('/')
}

fn lies_in(path: &str, outer: &str) -> bool {
    path == outer || path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}
