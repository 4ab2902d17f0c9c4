//! `opencode`, speaking the Agent Client Protocol or one-shot. Its settings are given in a variable, which wins over
//! every file, and the repository's are not read. An edit that is allowed is never asked for: after an approval
//! opencode would ask its client to write the file as well.

use super::{KEY_VARIABLE, Launch, Protocol, has_shell};
use crate::brief::{Brief, Mode, Rights};
use crate::node_tools::SERVER;
use contract::work::ShellRight;
use serde_json::{Map, Value, json};

/// Below home. The list of all models there are takes most of a gigabyte and is not needed where one is named.
const MODELS_FILE: &str = ".norma/models.json";

pub(super) fn launch(brief: &Brief<'_>, mode: Mode) -> Launch {
    let protocol = if mode == Mode::Live { Protocol::Acp } else { Protocol::Events };
    let mut launch = Launch::new(protocol, brief.home);
    environment(brief, &mut launch);
    let settings = settings(brief, mode);
    launch.set("OPENCODE_CONFIG_CONTENT", &settings.to_string());
    match mode {
        Mode::Live => launch.args(&["acp", "--pure"]),
        Mode::OneShot => {
            // The prompt comes on stdin: an argument with spaces would reach the model in quotes.
            launch.args(&["run", "--pure", "--format", "json"]);
            launch.option("--session", brief.resume);
        }
    }
    launch.args.extend_from_slice(brief.args);
    launch.configured = settings;
    launch
}

fn environment(brief: &Brief<'_>, launch: &mut Launch) {
    for (variable, below) in [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_STATE_HOME", ".local/state"),
    ] {
        launch.set(variable, &format!("{}/{below}", brief.home));
    }
    launch.set_each(&[
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
        ("OPENCODE_PURE", "1"),
    ]);
    if brief.base_url.is_some() {
        launch.set(KEY_VARIABLE, brief.api_key.unwrap_or("none"));
        launch.set("OPENCODE_MODELS_PATH", &format!("{}/{MODELS_FILE}", brief.home));
        launch.file(MODELS_FILE, "{}");
    } else if let Some(key) = brief.api_key {
        launch.set("OPENCODE_API_KEY", key);
    }
}

fn settings(brief: &Brief<'_>, mode: Mode) -> Value {
    let mut settings = json!({
        "autoupdate": false,
        "share": "disabled",
        "lsp": false,
        "formatter": false,
        // It would ask the model for one first, and nobody sees it.
        "agent": {"title": {"disable": true}},
        "permission": permissions(&brief.rights, mode, brief.extra_write),
    });
    if let Some(server) = brief.tools {
        let command: Vec<&String> = std::iter::once(&server.command).chain(&server.args).collect();
        settings["mcp"] = json!({SERVER: {"type": "local", "command": command, "enabled": true}});
    }
    let Some(base_url) = brief.base_url else {
        if let Some(model) = brief.model {
            settings["model"] = json!(model);
        }
        return settings;
    };
    let model = brief.model.unwrap_or("default");
    settings["model"] = json!(format!("norma/{model}"));
    settings["small_model"] = json!(format!("norma/{model}"));
    settings["enabled_providers"] = json!(["norma"]);
    let mut known = json!({
        "name": model,
        "tool_call": true,
        "limit": {"context": 200_000, "output": 32_000},
    });
    if let Some(effort) = brief.effort {
        known["options"] = json!({"reasoningEffort": effort});
    }
    settings["provider"] = json!({"norma": {
        "npm": "@ai-sdk/openai-compatible",
        "name": "norma",
        "options": {
            "baseURL": base_url.trim_end_matches('/'),
            "apiKey": format!("{{env:{KEY_VARIABLE}}}"),
        },
        "models": {model: known},
    }});
    settings
}

fn permissions(rights: &Rights, mode: Mode, extra_write: &[&str]) -> Value {
    let allow = |allowed| if allowed { "allow" } else { "deny" };
    let shell = match rights.shell {
        // One-shot a question would end the turn, and call that a success.
        shell if !has_shell(shell, mode) => "deny",
        ShellRight::Never => "allow",
        _ => "ask",
    };
    // The last rule that matches decides; `*` sorts before every path.
    let mut outside = Map::from_iter([("*".to_owned(), json!("deny"))]);
    outside.extend(extra_write.iter().map(|directory| (format!("{directory}/*"), json!("allow"))));
    json!({
        "edit": allow(rights.write),
        "bash": shell,
        "webfetch": allow(rights.network),
        "websearch": allow(rights.network),
        "external_directory": outside,
        "question": "deny",
    })
}
