//! `codex app-server`, and `codex exec` for one-shot. Norma's sandbox is the boundary: codex has one of its own, which
//! needs namespaces inside namespaces and fails without a word where it cannot have them, so workers run without it.

use super::{KEY_VARIABLE, Launch, Protocol, RETRIES_MAX, has_shell};
use crate::brief::{Brief, Mode, Rights};
use crate::node_tools::SERVER;
use crate::strict::is_strict;
use contract::work::ShellRight;
use serde_json::json;
use std::fmt::Write;

/// Below home.
const SCHEMA_FILE: &str = ".norma/output_schema.json";

/// What codex is told about commands; nothing where it has no shell at all.
pub(crate) fn approval_policy(shell: ShellRight) -> Option<&'static str> {
    match shell {
        ShellRight::Deny => None,
        ShellRight::Never => Some("never"),
        ShellRight::OnRequest => Some("on-request"),
        ShellRight::Untrusted => Some("untrusted"),
    }
}

/// What codex is told about files.
pub(crate) fn sandbox(rights: &Rights) -> &'static str {
    if rights.write { "danger-full-access" } else { "read-only" }
}

pub(super) fn launch(brief: &Brief<'_>, mode: Mode) -> Launch {
    let protocol = if mode == Mode::Live { Protocol::CodexAppServer } else { Protocol::Events };
    let mut launch = Launch::new(protocol, brief.home);
    launch.set("CODEX_HOME", &format!("{}/.codex", brief.home));
    // Codex refuses to work when its home is below the directory for temporary files, and says so only on stderr.
    if brief.home.starts_with("/tmp/") {
        launch.set("TMPDIR", &format!("{}/.tmp", brief.home));
        launch.file(".tmp/.keep", "");
    }
    match (brief.base_url, brief.api_key) {
        (Some(_), key) => launch.set(KEY_VARIABLE, key.unwrap_or("none")),
        (None, Some(key)) => launch.set_each(&[("CODEX_API_KEY", key), ("OPENAI_API_KEY", key)]),
        (None, None) => {}
    }
    launch.file(".codex/config.toml", settings(brief, mode));
    match mode {
        Mode::Live => {
            launch.arg("app-server");
            launch.args.extend_from_slice(brief.args);
        }
        Mode::OneShot => one_shot(brief, &mut launch),
    }
    launch.configured = json!({
        "approval_policy": approval_policy(brief.rights.shell),
        "sandbox": sandbox(&brief.rights),
        "shell_tool": has_shell(brief.rights.shell, mode),
    });
    launch
}

fn one_shot(brief: &Brief<'_>, launch: &mut Launch) {
    launch.arg("exec");
    if brief.resume.is_some() {
        launch.arg("resume");
    }
    launch.args(&["--json", "--skip-git-repo-check", "--ignore-rules"]);
    launch.option("-m", brief.model);
    // Resuming knows neither: the directory is where it starts, and the sandbox is in its settings.
    if brief.resume.is_none() {
        launch.args(&["-C", brief.cwd, "-s", sandbox(&brief.rights)]);
    }
    if let Some(schema) = brief.output_schema.filter(|schema| is_strict(schema)) {
        launch.file(SCHEMA_FILE, schema.to_string());
        launch.option("--output-schema", Some(&format!("{}/{SCHEMA_FILE}", brief.home)));
    }
    launch.args.extend_from_slice(brief.args);
    launch.args.extend(brief.resume.map(str::to_owned));
    // The prompt comes on stdin.
    launch.arg("-");
}

fn settings(brief: &Brief<'_>, mode: Mode) -> String {
    let mut toml = String::new();
    let mut put = |key: &str, value: &str| writeln!(toml, "{key} = {value}").expect("BUG: a text takes any text");
    if let Some(model) = brief.model {
        put("model", &quoted(model));
    }
    if let Some(effort) = brief.effort {
        put("model_reasoning_effort", &quoted(effort));
    }
    if brief.base_url.is_some() {
        put("model_provider", "\"norma\"");
    }
    // Codex does not start with `untrusted` in its settings, and takes it only for a thread.
    if let Some(policy) = approval_policy(brief.rights.shell).filter(|policy| *policy != "untrusted") {
        put("approval_policy", &quoted(policy));
    }
    put("sandbox_mode", &quoted(sandbox(&brief.rights)));
    put("check_for_update_on_startup", "false");
    // What the repository tells agents is part of the prompt, as the base has it.
    put("project_doc_max_bytes", "0");
    put("cli_auth_credentials_store", "\"file\"");
    if !brief.rights.network {
        put("web_search", "\"disabled\"");
    }
    if let Some(base_url) = brief.base_url {
        put("\n[model_providers.norma]\nname", "\"norma\"");
        put("base_url", &quoted(base_url.trim_end_matches('/')));
        put("wire_api", "\"responses\"");
        put("env_key", &quoted(KEY_VARIABLE));
        put("request_max_retries", &RETRIES_MAX.to_string());
        put("stream_max_retries", &RETRIES_MAX.to_string());
    }
    if let Some(server) = brief.tools {
        put(&format!("\n[mcp_servers.{SERVER}]\ncommand"), &quoted(&server.command));
        let args: Vec<String> = server.args.iter().map(|arg| quoted(arg)).collect();
        put("args", &format!("[{}]", args.join(", ")));
        // Whether anything comes of a call is norma's to decide, once the turn has ended.
        put("default_tools_approval_mode", "\"approve\"");
    }
    put("\n[analytics]\nenabled", "false");
    put("\n[features]\nplugins", "false");
    // Each of these starts something, fetches something or offers the model something that nobody asked for; the
    // retries are those without end when nobody listens at the model's address.
    for feature in ["apps", "shell_snapshot", "hooks", "multi_agent", "goals", "unbounded_connection_retries"] {
        put(feature, "false");
    }
    for feature in ["daemon_auto_start", "tool_suggest", "skill_mcp_dependency_install"] {
        put(feature, "false");
    }
    // One-shot codex asks nobody, and runs what it would have asked for.
    if !has_shell(brief.rights.shell, mode) {
        put("shell_tool", "false");
        put("unified_exec", "false");
    }
    toml
}

/// A text of JSON is one of TOML as well, but for one character.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
