//! `gemini`, speaking the Agent Client Protocol or one-shot. It merges settings from several files, the repository's
//! among them; the system's win over all others, so norma's are there too. What a mode does not allow is not
//! offered to the model one-shot, and asked for otherwise.

use super::{Launch, Protocol, RETRIES_MAX};
use crate::brief::{Brief, Mode, Rights};
use crate::node_tools::SERVER;
use contract::work::ShellRight;
use serde_json::{Value, json};

/// Below home; read last.
const SYSTEM_FILE: &str = ".gemini/system-settings.json";

pub(super) fn launch(brief: &Brief<'_>, mode: Mode) -> Launch {
    let protocol = if mode == Mode::Live { Protocol::Acp } else { Protocol::Events };
    let mut launch = Launch::new(protocol, brief.home);
    // Otherwise it starts itself a second time.
    launch.set("GEMINI_CLI_NO_RELAUNCH", "true");
    launch.set("GEMINI_CLI_SYSTEM_SETTINGS_PATH", &format!("{}/{SYSTEM_FILE}", brief.home));
    if let Some(base_url) = brief.base_url {
        launch.set("GOOGLE_GEMINI_BASE_URL", base_url.trim_end_matches('/'));
        launch.set("GEMINI_API_KEY", brief.api_key.unwrap_or("none"));
    } else if let Some(key) = brief.api_key {
        launch.set("GEMINI_API_KEY", key);
    }
    match mode {
        Mode::Live => launch.arg("--acp"),
        // Without a prompt among the arguments it is read from stdin.
        Mode::OneShot => launch.args(&["--output-format", "stream-json"]),
    }
    launch.option("-m", brief.model);
    let approval = approval_mode(&brief.rights);
    launch.option("--approval-mode", Some(approval));
    for directory in brief.extra_write {
        launch.option("--include-directories", Some(directory));
    }
    if mode == Mode::OneShot {
        launch.option("--resume", brief.resume);
    }
    launch.args.extend_from_slice(brief.args);
    let settings = settings(brief);
    launch.file(".gemini/settings.json", settings.to_string());
    launch.file(SYSTEM_FILE, settings.to_string());
    launch.configured = json!({"approval_mode": approval, "settings": settings});
    launch
}

/// What runs unasked.
fn approval_mode(rights: &Rights) -> &'static str {
    match (rights.shell, rights.write) {
        (ShellRight::Never, _) => "yolo",
        (_, true) => "auto_edit",
        (_, false) => "default",
    }
}

/// Tools that do not exist for the model.
fn excluded(rights: &Rights) -> Vec<&'static str> {
    // One writes into the home for later runs, the other waits for a person.
    let mut tools = vec!["save_memory", "enter_plan_mode"];
    if !rights.write {
        tools.extend(["write_file", "replace"]);
    }
    if rights.shell == ShellRight::Deny {
        tools.push("run_shell_command");
    }
    if !rights.network {
        tools.extend(["web_fetch", "google_web_search"]);
    }
    tools
}

fn settings(brief: &Brief<'_>) -> Value {
    let keyed = brief.base_url.is_some() || brief.api_key.is_some();
    let auth = if keyed { "gemini-api-key" } else { "oauth-personal" };
    let mut settings = json!({
        "security": {"auth": {"selectedType": auth}, "folderTrust": {"enabled": false}},
        "general": {
            "enableAutoUpdate": false,
            "enableAutoUpdateNotification": false,
            "checkpointing": {"enabled": false},
            "maxAttempts": RETRIES_MAX + 1,
            "retryFetchErrors": false,
        },
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "ui": {"hideBanner": true, "hideTips": true},
        "tools": {"exclude": excluded(&brief.rights)},
    });
    if let Some(server) = brief.tools {
        let mut told = server.settings();
        // Nobody is asked about a call: whether anything comes of it is decided once the turn has ended.
        told["trust"] = json!(true);
        settings["mcpServers"] = json!({SERVER: told});
    }
    settings
}
