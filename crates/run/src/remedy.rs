//! What would allow what was refused, and what helps against what went wrong: a sentence for each rule and each reason, so
//! that no refusal leaves somebody without a next step. Both matches name every variant: a new rule needs its sentence.

use crate::gate::Rule;
use contract::Reason;

impl Rule {
    /// What would allow what this rule found.
    pub fn allowed_by(self) -> &'static str {
        match self {
            Rule::OddName => {
                "another name: no control, invisible or bidi characters, no backslash, none that Windows reserves"
            }
            Rule::StateDirectory => "nothing: no agent changes norma's own directory",
            Rule::OutsideScope => "the path in allowed_paths (--allow PATH)",
            Rule::ProtectedPath => {
                "this exact path in allowed_paths (--allow PATH), or another policies/protected_paths.json, then norma trust"
            }
            Rule::Symlink => "the link's own path in allowed_paths, if it leads to something inside the scope",
            Rule::Submodule => "nothing: change the submodule yourself, and commit it before the run",
            Rule::Mode => "mode 644 or 755",
            Rule::Binary => "\"allow_binary\": true in the contract, which a person approves",
            Rule::CaseTwin => "a name that differs in more than case or Unicode form from what is there",
            Rule::IgnoredOutside => "the path in allowed_paths, or in policies/scratch_paths.json, then norma trust",
            Rule::NestedRepository => "the agent leaving no repository of its own in the workspace",
            Rule::SpecialFile => "regular files only: no pipe, socket or device",
            Rule::TooDeep => "fewer nested directories",
            Rule::TooLarge => "a smaller change, or a larger limits.change_mb in the configuration",
            Rule::OnlyInGit => {
                "the same change in files of the workspace; what is only staged or committed there is not taken"
            }
            Rule::Unreadable => "files that can be read",
            Rule::ReorderedText => "the line without bidi control characters",
            Rule::Secret => {
                "the secret kept out of the change; for a test value, a line that has norma:allow-secret in the base"
            }
            Rule::PatchFailed => "a patch that applies to the run's tree",
            Rule::Budget => "a larger budget: norma resume RUN --budget NAME=N",
            Rule::MaxFiles => "a larger constraints.max_files, or the files named in allowed_paths",
            Rule::MaxToolOps => "a larger constraints.max_tool_ops",
            Rule::MaxDeltaSize => "a larger constraints.max_delta_size",
            Rule::MaxPatchBytes => "a larger constraints.max_patch_bytes",
            Rule::Duplicate => "--new, which makes the same change again",
            Rule::OutputMissing => "the agent writing every file of output_files",
            Rule::TestsChanged => "nothing has to: it is a remark, and the change was not refused for it",
            Rule::TestsFailed => "a change with which the test passes, or another test command",
            Rule::InputMissing => "the file committed before the run, as the contract names it",
            Rule::Output => "an answer in the form that the agent is asked for",
            Rule::ReadOnly => "a contract that may write (it is read-only)",
            Rule::Conflict => "the same work on what has landed since: run it again",
            Rule::Contract => {
                "a contract within the rules of this repository, as narrow as the one that it is a part of"
            }
            Rule::Review => "a change that the reviewer lets pass",
            Rule::ReviewerChanged => "a reviewer that changes nothing",
        }
    }
}

/// What helps where a run or an item ended, or is held, for a reason.
pub fn remedy(reason: Reason) -> &'static str {
    match reason {
        Reason::AgentFailed => "look at what the agent said (norma logs), then run it again",
        Reason::AgentMissing => "install the agent, or name another: norma doctor says which are there",
        Reason::AgentTimeout => "a longer timeout (constraints.timeout_ms, or limits.step_seconds), or a smaller goal",
        Reason::OutOfMemory => "a larger sandbox.limits.memory_mb",
        Reason::DiskFull => "a larger sandbox.limits.file_mb or private_mb, or an agent that writes less",
        Reason::OutOfCpuTime => "a larger sandbox.limits.cpu_seconds",
        Reason::SandboxUnavailable => "norma doctor names what this machine lacks, and how to get it",
        Reason::SetupFailed => "fix workspace.setup; its output is in the logs (norma logs)",
        Reason::ProtocolError => "an answer in the form that the agent is asked for; run it again",
        Reason::PatchFailed => "run it again: the patch did not fit the files",
        Reason::PolicyViolation => "a contract that allows it, or a change that stays inside of the contract",
        Reason::BudgetExceeded => "more of the budget: norma resume RUN --budget NAME=N",
        Reason::Interrupted => "norma resume RUN continues from the last step",
        Reason::Canceled => "run it again if it is still wanted",
        Reason::EvidenceLost => "find out who changed the run's directory (norma verify RUN), then run it again",
        Reason::LandingConflict => "norma land RUN once the branch has settled",
        Reason::TestsFailed => "a change with which the tests pass: look at their log (norma logs), then run it again",
        Reason::ConstraintExceeded => "larger constraints in the contract, or a smaller change",
        Reason::DuplicateChange => "--new makes the same change again",
        Reason::OutputMissing => "the agent writing every file of output_files",
        Reason::InputMissing => "the missing file, committed before the run",
        Reason::DependencyFailed => "the item that it depends on has to succeed first",
        Reason::MergeConflict => "run it again, on what has landed since",
        Reason::ItemsFailed => "look at each item above; the same batch again does only what is left",
        Reason::ApprovalRequired => "a person's approval: norma approvals, then norma approve ID",
        Reason::AnswerRequired => "an answer: norma show RUN says what is asked",
        Reason::ApprovalDenied => "another contract: a person did not approve this one, or nobody did in time",
        Reason::SignInFailed => "sign the agent in again (norma doctor has the line), then norma resume RUN",
        Reason::ProviderLimit => "wait for the provider's limit, then norma resume RUN",
        Reason::ProviderFailed => "try again later: norma resume RUN",
        Reason::Stalled => "another prompt, a reset of the node, or norma resume RUN to let it try again",
        Reason::ReviewFailed => "a change that the reviewer lets pass: norma show RUN has what blocks it",
        Reason::SystemFault => {
            "find out how a reviewer could change anything (norma doctor), before anything is run again"
        }
        Reason::AgentRefused => "another goal or another model: the provider refused this one",
    }
}
