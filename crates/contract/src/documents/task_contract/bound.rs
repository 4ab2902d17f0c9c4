//! The files that a task contract relies on: inputs that must be what it says, and the schema that the agent's answer is
//! held to.

use super::super::AgentRole;
use super::super::compile::{Problems, Terms, built_in_schema};
use super::{InputFile, TaskContract};
use crate::json::schema::Schema;
use crate::work::{InputArtifact, OutputSchema};
use crate::{RepoPath, hash, schema};

/// The name of the artifact that binds a schema; `.` and a role may follow.
const OUTPUT_SCHEMA: &str = "output_schema";

/// The schema that an agent in this role answers by, as a contract names it.
pub fn schema_of(role: AgentRole) -> &'static str {
    match role {
        AgentRole::Reviewer => "schemas/review_report.v1.json",
        AgentRole::TestRunner | AgentRole::Test => "schemas/test_report.v1.json",
        _ => "schemas/agent_task_result.v1.json",
    }
}

/// The artifact that binds it.
pub fn schema_artifact(role: AgentRole) -> InputFile {
    let uri = schema_of(role);
    let text = schema::built_in(uri.trim_start_matches("schemas/")).expect("BUG: every role's schema is built in");
    InputFile {
        name: OUTPUT_SCHEMA.to_owned(),
        uri: uri.to_owned(),
        sha256: super::super::Sha256(hash::sha256(text.as_bytes())),
    }
}

/// What the contract relies on, and what it binds.
pub(super) fn inputs(
    contract: &TaskContract,
    terms: &Terms<'_>,
    problems: &mut Problems<'_>,
) -> (Vec<InputArtifact>, Option<OutputSchema>) {
    let role = contract.assigned_agent.role;
    let (mut relied_on, mut bound, mut binding) = (Vec::new(), None, 0);
    for (index, artifact) in contract.inputs.artifacts.iter().enumerate() {
        let pointer = format!("/inputs/artifacts/{index}");
        let binds = binds(&artifact.name, role);
        binding += usize::from(binds);
        let Some((path, bytes)) = found(artifact, &pointer, terms, problems) else { continue };
        if binds {
            bound = output_schema(artifact, &path, &bytes, role)
                .map_err(|(at, message)| {
                    problems.add(&format!("{pointer}{at}"), message);
                })
                .ok();
        } else if built_in_schema(&path).is_none() {
            relied_on.push(InputArtifact { name: artifact.name.clone(), path, sha256: artifact.sha256.0 });
        }
    }
    match binding {
        0 => {
            let wanted = serde_json::to_string(&schema_artifact(role)).expect("BUG: an artifact is plain data");
            problems.add("/inputs/artifacts", format!("no schema for the answer; add {wanted}"));
        }
        1 => {}
        _ => problems.add("/inputs/artifacts", "more than one schema is bound"),
    }
    (relied_on, bound)
}

/// Whether an artifact binds the schema of this role.
fn binds(name: &str, role: AgentRole) -> bool {
    let name = name.to_ascii_lowercase();
    name == OUTPUT_SCHEMA || name == format!("{OUTPUT_SCHEMA}.{}", role.as_str().to_ascii_lowercase())
}

/// Path and bytes of a file that is there and is what the contract says.
fn found(
    artifact: &InputFile,
    pointer: &str,
    terms: &Terms<'_>,
    problems: &mut Problems<'_>,
) -> Option<(RepoPath, Vec<u8>)> {
    let uri = artifact.uri.strip_prefix('/').unwrap_or(&artifact.uri);
    let path = RepoPath::parse(uri).map_err(|problem| problem.to_string());
    let path = problems.take(&format!("{pointer}/uri"), path)?;
    let bytes = problems.take(&format!("{pointer}/uri"), terms.bytes(&path))?;
    let digest = hash::sha256(&bytes);
    if digest != artifact.sha256.0 {
        problems.add(&format!("{pointer}/sha256"), format!("the file's SHA-256 is {digest}"));
        return None;
    }
    Some((path, bytes.into_owned()))
}

/// The schema, or what is wrong with it and where.
fn output_schema(
    artifact: &InputFile,
    path: &RepoPath,
    bytes: &[u8],
    role: AgentRole,
) -> Result<OutputSchema, (&'static str, String)> {
    if built_in_schema(path).is_some() && path.as_str() != schema_of(role) {
        return Err(("/uri", format!("{role} answers by {}, or by a schema of the repository's own", schema_of(role))));
    }
    let unusable = |message: String| ("/uri", format!("not a JSON Schema that can be used: {message}"));
    Schema::compile(bytes).map_err(|problems| unusable(problems[0].to_string()))?;
    let text = String::from_utf8(bytes.to_vec()).map_err(|problem| unusable(problem.to_string()))?;
    Ok(OutputSchema { uri: artifact.uri.clone(), sha256: artifact.sha256.0, text, optional: false })
}
