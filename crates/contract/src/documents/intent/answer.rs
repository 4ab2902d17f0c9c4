//! What an agent answers that compiled an intent, and what is asked of the answer beyond its form.

use super::super::{Patch, Plan, read_value};
use crate::json::{Report, Violation};
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::in_one_piece;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where the form of the answer is.
pub const ANSWER_SCHEMA: &str = "schemas/compile_answer.v0.json";

/// How much an answer may be: what a person can still review.
pub(super) mod most {
    /// An answer without a step is none.
    pub(in super::super) const NODES_MIN: usize = 1;
    /// Nodes of a plan.
    pub(in super::super) const NODES: usize = 30;
    /// Files of a patch.
    pub(in super::super) const FILES: usize = 30;
    /// Characters of one diff.
    pub(in super::super) const DIFF_CHARS: usize = 20_000;
    /// Tests, in each list of them.
    pub(in super::super) const TESTS: usize = 20;
}

/// The answer: what its agent gives as `result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_one_piece)]
pub struct CompileAnswer {
    /// What is to be done.
    pub plan: Plan,
    /// The change to the repository's files.
    pub patch: Patch,
    /// Commands that show whether it is done.
    pub tests: Vec<String>,
}

impl CompileAnswer {
    /// Reads an answer, or says everything that is wrong with it.
    pub fn read(result: Value) -> Result<CompileAnswer, Vec<Violation>> {
        let answer: CompileAnswer = read_value(result)?;
        answer.check().map(|()| answer)
    }

    /// Everything about an answer that its form cannot say.
    pub(super) fn check(&self) -> Result<(), Vec<Violation>> {
        let CompileAnswer { plan, patch, tests } = self;
        let mut report = Report::default();
        plan.check("/plan", &mut report);
        patch.check("/patch", &mut report);
        if plan.nodes.len() < most::NODES_MIN {
            report.push("/plan/nodes".to_owned(), "there is no node in it".to_owned());
        }
        at_most("/plan/nodes", plan.nodes.len(), most::NODES, "nodes", &mut report);
        at_most("/patch/files", patch.files.len(), most::FILES, "files", &mut report);
        for (index, file) in patch.files.iter().enumerate() {
            let pointer = format!("/patch/files/{index}/diff");
            at_most(&pointer, file.diff.chars().count(), most::DIFF_CHARS, "characters", &mut report);
        }
        at_most("/patch/tests", patch.tests.as_ref().map_or(0, Vec::len), most::TESTS, "tests", &mut report);
        at_most("/tests", tests.len(), most::TESTS, "tests", &mut report);
        report.into_result()
    }
}

fn at_most(pointer: &str, count: usize, most: usize, what: &str, report: &mut Report) {
    if count > most {
        report.push(pointer.to_owned(), format!("there are {count} {what}, and {most} are the most"));
    }
}
