//! `claude`, two-way with permissions on stdio, or one-shot. Its tools are a list: what is not in it does not exist
//! for the model. What is allowed unasked is another list; the mode stays `default`, since `acceptEdits` would let
//! some commands through as well.

use super::{Launch, Protocol, RETRIES_MAX, has_shell};
use crate::brief::{Brief, Mode};
use crate::node_tools::{SERVER, TOOLS};
use contract::work::ShellRight;
use serde_json::json;

/// Below home.
const TOOLS_FILE: &str = ".norma/mcp.json";

/// Reading and planning, which every role may.
const THINK: [&str; 10] =
    ["Read", "Glob", "Grep", "TodoWrite", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList", "ToolSearch", "LSP"];
/// Changing files.
const WRITE: [&str; 3] = ["Edit", "Write", "NotebookEdit"];
/// Running commands.
const SHELL: [&str; 3] = ["Bash", "BashOutput", "KillShell"];
/// Reaching the network.
const FETCH: [&str; 2] = ["WebFetch", "WebSearch"];

pub(super) fn launch(brief: &Brief<'_>, mode: Mode) -> Launch {
    let protocol = if mode == Mode::Live { Protocol::ClaudeStream } else { Protocol::Events };
    let mut launch = Launch::new(protocol, brief.home);
    environment(brief, &mut launch);
    launch.args(&["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "default"]);
    if mode == Mode::Live {
        launch.args(&["--input-format", "stream-json", "--permission-prompt-tool", "stdio"]);
        launch.arg("--include-partial-messages");
    }
    // Neither the repository's servers nor its settings, which could allow anything.
    launch.args(&["--strict-mcp-config", "--setting-sources", ""]);
    if let Some(server) = brief.tools {
        let mut told = server.settings();
        told["type"] = json!("stdio");
        launch.file(TOOLS_FILE, json!({"mcpServers": {SERVER: told}}).to_string());
        launch.option("--mcp-config", Some(&format!("{}/{TOOLS_FILE}", brief.home)));
    }
    launch.option("--model", brief.model);
    launch.option("--effort", brief.effort);
    let lists = Lists::of(brief, mode);
    launch.option("--tools", Some(&lists.offered.join(",")));
    launch.option("--allowedTools", Some(&lists.allowed.join(",")));
    launch.option("--disallowedTools", (!lists.denied.is_empty()).then(|| lists.denied.join(",")).as_deref());
    if mode == Mode::Live && brief.rights.shell == ShellRight::Untrusted {
        // Without, it runs what it takes for harmless without a question.
        launch.option("--settings", Some(r#"{"permissions":{"ask":["Bash"]}}"#));
    }
    launch.option("--json-schema", brief.output_schema.map(ToString::to_string).as_deref());
    for directory in brief.extra_write {
        launch.option("--add-dir", Some(directory));
    }
    launch.option("--resume", brief.resume);
    launch.args.extend_from_slice(brief.args);
    launch.configured = json!({"tools": lists.offered, "allowed": lists.allowed, "denied": lists.denied});
    launch
}

fn environment(brief: &Brief<'_>, launch: &mut Launch) {
    launch.set("CLAUDE_CONFIG_DIR", &format!("{}/.claude", brief.home));
    launch.set("CLAUDE_CODE_MAX_RETRIES", &RETRIES_MAX.to_string());
    launch.set_each(&[
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
    ]);
    if let Some(base_url) = brief.base_url {
        launch.set("ANTHROPIC_BASE_URL", base_url.trim_end_matches('/'));
    }
    // A token in the place of a key would be shown in another header, without what the provider asks of tokens.
    let variable = brief.key_variable.unwrap_or("ANTHROPIC_API_KEY");
    match (brief.api_key, brief.base_url) {
        (Some(key), _) => launch.set(variable, key),
        (None, Some(_)) => launch.set(variable, "none"),
        (None, None) => {}
    }
}

/// The rights as lists of tools.
struct Lists {
    offered: Vec<String>,
    allowed: Vec<String>,
    denied: Vec<String>,
}

impl Lists {
    fn of(brief: &Brief<'_>, mode: Mode) -> Lists {
        let rights = &brief.rights;
        let mut lists = Lists { offered: Vec::new(), allowed: Vec::new(), denied: Vec::new() };
        lists.sort(&THINK, true, true);
        lists.sort(&WRITE, rights.write, true);
        lists.sort(&SHELL, has_shell(rights.shell, mode), rights.shell == ShellRight::Never);
        lists.sort(&FETCH, rights.network, true);
        lists.allowed.extend_from_slice(&rights.mcp_tools);
        let own = TOOLS.iter().filter(|_| brief.tools.is_some());
        lists.allowed.extend(own.map(|tool| format!("mcp__{SERVER}__{tool}")));
        lists
    }

    fn sort(&mut self, tools: &[&str], offered: bool, unasked: bool) {
        let tools = tools.iter().map(|tool| (*tool).to_owned());
        match (offered, unasked) {
            (false, _) => self.denied.extend(tools),
            (true, false) => self.offered.extend(tools),
            (true, true) => {
                self.offered.extend(tools.clone());
                self.allowed.extend(tools);
            }
        }
    }
}
