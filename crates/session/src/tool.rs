//! What a tool does, by the name its agent gives it. A name that is not listed is [`ToolKind::Other`]: it is asked
//! for, never allowed by itself.

use crate::node_tools::is_node_tool;
use contract::session::ToolKind;

/// By name, for the command lines that say nothing else.
pub(crate) fn kind_of(tool: &str) -> ToolKind {
    match tool {
        "Read" | "NotebookRead" | "read_file" | "read_many_files" | "read" | "view_image" => ToolKind::Read,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" | "write_file" | "replace" | "write" | "edit" | "multiedit"
        | "patch" | "apply_patch" => ToolKind::Write,
        "Bash"
        | "BashOutput"
        | "KillShell"
        | "PowerShell"
        | "Monitor"
        | "run_shell_command"
        | "bash"
        | "shell"
        | "exec_command"
        | "write_stdin"
        | "list_background_processes"
        | "read_background_output" => ToolKind::Shell,
        "Glob"
        | "Grep"
        | "LS"
        | "ToolSearch"
        | "LSP"
        | "glob"
        | "grep"
        | "list"
        | "lsp"
        | "grep_search"
        | "search_file_content"
        | "list_directory" => ToolKind::Search,
        "WebFetch" | "WebSearch" | "web_fetch" | "google_web_search" | "webfetch" | "websearch" | "codesearch" => {
            ToolKind::Fetch
        }
        "Task" | "Agent" | "TodoWrite" | "TaskCreate" | "TaskUpdate" | "TaskGet" | "TaskList" | "TaskOutput"
        | "TaskStop" | "EnterPlanMode" | "ExitPlanMode" | "StructuredOutput" | "Skill" | "write_todos"
        | "todowrite" | "todoread" | "task" | "skill" | "update_plan" | "update_topic" | "enter_plan_mode"
        | "exit_plan_mode" | "invoke_agent" | "activate_skill" => ToolKind::Think,
        _ if tool.starts_with("mcp_") || is_node_tool(tool) => ToolKind::Mcp,
        _ => ToolKind::Other,
    }
}

/// By the word of the Agent Client Protocol; where that says nothing, by name.
pub(crate) fn kind_of_acp(word: &str, tool: &str) -> ToolKind {
    match word {
        "read" => ToolKind::Read,
        "edit" | "delete" | "move" => ToolKind::Write,
        "search" => ToolKind::Search,
        "execute" => ToolKind::Shell,
        "think" | "switch_mode" => ToolKind::Think,
        "fetch" => ToolKind::Fetch,
        _ => kind_of(tool),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_by_the_names_of_every_agent() {
        for (tool, kind) in [
            ("Write", ToolKind::Write),
            ("write_file", ToolKind::Write),
            ("Bash", ToolKind::Shell),
            ("run_shell_command", ToolKind::Shell),
            ("mcp__orch__note", ToolKind::Mcp),
            ("mcp_orch_note", ToolKind::Mcp),
            ("Teleport", ToolKind::Other),
        ] {
            assert_eq!(kind_of(tool), kind, "{tool}");
        }
        assert_eq!(kind_of_acp("execute", "anything"), ToolKind::Shell);
        assert_eq!(kind_of_acp("other", "write_todos"), ToolKind::Think);
    }
}
