//! `evidence_bundle.v1`: what was asked, which sources were looked at, and what they say.

use super::{ArtifactRef, Sha256};
use crate::Timestamp;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct EvidenceBundle {
    /// Unique.
    #[schemars(length(min = 8))]
    pub bundle_id: String,
    /// When the bundle was made.
    pub created_at: Timestamp,
    /// Who asked.
    pub requested_by: Requester,
    /// What was asked.
    pub query: Query,
    /// What was looked at.
    #[schemars(length(min = 1))]
    pub sources: Vec<Source>,
    /// What it says.
    pub claims: Vec<Claim>,
    /// What it does not say.
    pub limitations: Vec<String>,
    /// Where sources agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consensus: Option<Consensus>,
    /// Files of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<ArtifactRef>>,
}

/// Who asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requester {
    /// In which role.
    pub role: RequesterRole,
    /// The name of whoever asked.
    pub agent_id: String,
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names say it")]
pub enum RequesterRole {
    Pm,
    TechLead,
    Searcher,
    Orchestrator,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Query {
    /// As it was asked.
    pub raw_question: String,
    /// As it was looked for.
    pub refined_prompt: String,
    /// How old an answer may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness_requirement_days: Option<u64>,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Source {
    /// What it is called here.
    pub source_id: String,
    /// Of which kind.
    pub kind: SourceKind,
    /// What it is called.
    pub title: String,
    /// When it was looked at.
    pub retrieved_at: Timestamp,
    /// The address it was found at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// What it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_sha256: Option<Sha256>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// Kinds of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum SourceKind {
    Webpage,
    Pdf,
    Repo,
    Issue,
    Paper,
    ForumThread,
    Video,
    Other,
}

/// Something that sources say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Claim {
    /// What it is called here.
    pub claim_id: String,
    /// The claim itself, in words.
    pub text: String,
    /// Whether it holds.
    pub status: ClaimStatus,
    /// How sure that is.
    #[schemars(range(min = 0, max = 1))]
    pub confidence: f64,
    /// Who says so.
    pub supporting_source_ids: Vec<String>,
    /// Who says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicting_source_ids: Option<Vec<String>>,
    /// How it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_notes: Option<String>,
    /// What is at stake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_if_wrong: Option<Risk>,
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimStatus {
    /// Nobody looked.
    Unverified,
    /// It does.
    Verified,
    /// Sources disagree.
    Disputed,
    /// It does not.
    Rejected,
}

/// What is at stake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Risk {
    Low,
    Medium,
    High,
}

/// Where sources agree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Consensus {
    /// Where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreements: Option<Vec<String>>,
    /// Where they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disagreements: Option<Vec<String>>,
    /// Where somebody has to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_verification: Option<Vec<String>>,
}
