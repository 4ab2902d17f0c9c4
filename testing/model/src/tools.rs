//! From a step to the tool that the request offers. Every agent has its own names and fields; what an agent has no tool
//! for is done by its shell. The tables are what the real programs were seen to accept.

use crate::answer::{Call, Input};
use crate::asked::Asked;
use crate::place::absolute;
use serde_json::{Value, json};

/// How long a command may take where the tool insists on a number.
const TIMEOUT_MS: u64 = 120_000;

/// The tool for structured answers.
const STRUCTURED: &str = "StructuredOutput";

pub(crate) fn write(asked: &Asked, path: &str, content: &str) -> Option<Call> {
    if asked.tool("apply_patch").is_some_and(|tool| tool.is_freeform) {
        return Some(Call { name: "apply_patch".into(), input: Input::Text(patch(path, content)) });
    }
    let at = absolute(path, asked.cwd.as_deref());
    let fields = json!({ "file_path": at, "content": content });
    first(asked, &["Write", "mcp__acp__Write", "write_file"], &fields)
        .or_else(|| first(asked, &["write"], &json!({ "filePath": at, "content": content })))
        .or_else(|| shell(asked, &written_by_shell(path, content)))
        // Opencode without a shell, for a model that it takes for one that writes patches.
        .or_else(|| first(asked, &["apply_patch"], &json!({ "patchText": patch(path, content) })))
}

pub(crate) fn shell(asked: &Asked, command: &str) -> Option<Call> {
    let described = json!({ "command": command, "description": "Run what the script says" });
    first(asked, &["exec_command"], &json!({ "cmd": command }))
        .or_else(|| first(asked, &["shell_command"], &json!({ "command": command })))
        .or_else(|| first(asked, &["mcp__acp__Bash"], &json!({ "command": command, "timeout": TIMEOUT_MS })))
        .or_else(|| first(asked, &["Bash", "run_shell_command", "bash"], &described))
}

pub(crate) fn read(asked: &Asked, path: &str) -> Option<Call> {
    let at = absolute(path, asked.cwd.as_deref());
    first(asked, &["Read", "mcp__acp__Read", "read_file"], &json!({ "file_path": at }))
        .or_else(|| first(asked, &["read"], &json!({ "filePath": at })))
        .or_else(|| shell(asked, &format!("cat -- {}", quoted(path))))
}

pub(crate) fn plan(asked: &Asked, items: &[String]) -> Option<Call> {
    let list = |entry: fn(usize, &String) -> Value| items.iter().enumerate().map(|(n, item)| entry(n, item)).collect();
    let steps: Value = list(|_, item| json!({ "step": item, "status": "pending" }));
    let described: Value = list(|_, item| json!({ "description": item, "status": "pending" }));
    let contents: Value = list(
        |n, item| json!({ "id": n.to_string(), "content": item, "activeForm": item, "status": "pending", "priority": "medium" }),
    );
    let subject = items.join(", ");
    first(asked, &["update_plan"], &json!({ "plan": steps }))
        .or_else(|| first(asked, &["TaskCreate"], &json!({ "subject": subject, "description": subject })))
        .or_else(|| first(asked, &["write_todos"], &json!({ "todos": described })))
        .or_else(|| first(asked, &["TodoWrite", "todowrite"], &json!({ "todos": contents })))
}

pub(crate) fn structured(asked: &Asked, answer: &Value) -> Option<Call> {
    first(asked, &[STRUCTURED], answer)
}

/// A call of the tool on offer whose name ends so.
pub(crate) fn ending(asked: &Asked, name: &str, arguments: &Value) -> Option<Call> {
    let tool = asked.tools.iter().find(|tool| tool.name.ends_with(name))?;
    Some(named(&tool.name, arguments.clone()))
}

pub(crate) fn named(name: &str, arguments: Value) -> Call {
    Call { name: name.to_owned(), input: Input::Json(arguments) }
}

/// A call of the first of these tools that is on offer.
fn first(asked: &Asked, names: &[&str], arguments: &Value) -> Option<Call> {
    let name = names.iter().find(|name| asked.tool(name).is_some())?;
    Some(named(name, arguments.clone()))
}

/// A file in the language of `apply_patch`, whose paths are below the agent's directory.
fn patch(path: &str, content: &str) -> String {
    let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
    format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")
}

fn written_by_shell(path: &str, content: &str) -> String {
    let path = quoted(path);
    format!("mkdir -p -- \"$(dirname -- {path})\" && printf '%s' {} > {path}", quoted(content))
}

/// One word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Api;
    use crate::asked::Tool;

    fn offering(names: &[&str]) -> Asked {
        let tool = |name: &&str| Tool { name: (*name).to_owned(), is_freeform: *name == "apply_patch" };
        Asked {
            api: Api::Chat,
            model: "m".into(),
            streamed: true,
            wants_json: false,
            said: Vec::new(),
            tools: names.iter().map(tool).collect(),
            cwd: Some("/src/tree".into()),
            bytes: 0,
        }
    }

    #[track_caller]
    fn check(call: Option<Call>, name: &str, input: Value) {
        let call = call.expect("there is a tool for it");
        let made = match call.input {
            Input::Json(value) => value,
            Input::Text(text) => text.into(),
        };
        assert_eq!((call.name.as_str(), made), (name, input));
    }

    #[test]
    fn a_file_is_written_with_what_there_is() {
        let codex = offering(&["exec_command", "apply_patch"]);
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch\n";
        check(write(&codex, "a.txt", "one\ntwo\n"), "apply_patch", json!(patch));
        let claude = offering(&["Bash", "Write"]);
        check(write(&claude, "a.txt", "x"), "Write", json!({ "file_path": "/src/tree/a.txt", "content": "x" }));
        let opencode = offering(&["bash", "write"]);
        check(write(&opencode, "a.txt", "x"), "write", json!({ "filePath": "/src/tree/a.txt", "content": "x" }));
        let bare = offering(&["exec_command"]);
        let command = "mkdir -p -- \"$(dirname -- 'a/it'\\''s')\" && printf '%s' 'x' > 'a/it'\\''s'";
        check(write(&bare, "a/it's", "x"), "exec_command", json!({ "cmd": command }));
        assert!(write(&offering(&["read_file"]), "a.txt", "x").is_none());
    }

    #[test]
    fn a_plan_takes_the_form_of_its_tool() {
        let items = ["look".to_owned()];
        let gemini = json!({ "todos": [{ "description": "look", "status": "pending" }] });
        check(plan(&offering(&["write_todos"]), &items), "write_todos", gemini);
        let claude = json!({ "subject": "look", "description": "look" });
        check(plan(&offering(&["TaskCreate"]), &items), "TaskCreate", claude);
        assert!(plan(&offering(&["bash"]), &items).is_none());
    }
}
