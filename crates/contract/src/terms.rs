//! `contract.v1`: what a run was asked to do, compiled from whatever the user wrote (a task today) and frozen
//! before anything starts. It is stored beside the run, embedded in its first event, and its digest starts
//! the chain: a run cannot be shown under another contract than the one it ran under.

use crate::{AcceptanceCriterion, AgentConfig, Budgets, Digest, Domain, LandingConfig, Role, TurnLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The compiled contract of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Always `contract.v1`.
    pub schema: ContractSchema,
    /// Which workflow carries it out.
    pub workflow: Workflow,
    /// The goal, in words.
    pub goal: String,
    /// What must hold.
    pub acceptance_criteria: Vec<AcceptanceCriterion>,
    /// What may be used up.
    pub budgets: Budgets,
    /// Limits on a single turn.
    pub limits: TurnLimits,
    /// How the result lands.
    pub landing: LandingConfig,
    /// Who fills which role.
    pub agents: BTreeMap<Role, AgentConfig>,
    /// What confines the agents.
    pub sandbox: Backend,
    /// The task it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<i64>,
}

impl Contract {
    /// The digest of the canonical bytes.
    pub fn digest(&self) -> Digest {
        crate::hash::digest(Domain::Contract, &self.canonical())
    }

    /// The canonical bytes: what is stored as `contract.json`.
    pub fn canonical(&self) -> Vec<u8> {
        crate::json::canonical(self).expect("BUG: a contract holds only small integers and strings")
    }
}

/// The one schema name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContractSchema {
    /// Version 1.
    #[serde(rename = "contract.v1")]
    V1,
}

/// Which function decides what is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Workflow {
    /// plan → do → check → act until PASS.
    Pdca,
}

/// What confines an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Nothing does; on record in every run that used it.
    None,
}
