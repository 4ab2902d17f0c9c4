//! A home for an agent of its own: set up to speak to the scripted model and to nobody else, to keep its traces to
//! itself, and to give up at the first trouble, so that a test sees it. The settings are those that the versions in
//! `testing/agents` were measured with; each that is not obvious says why it is there.

use crate::agents::Agent;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::Path;

/// The model each agent is to ask for: one it knows, so that it offers its usual tools.
#[must_use]
pub fn model(agent: Agent) -> &'static str {
    match agent {
        Agent::Codex => "gpt-5.5",
        Agent::Claude => "claude-sonnet-4-5",
        Agent::Gemini => "gemini-2.5-flash",
        Agent::Opencode => "scripted/scripted-1",
    }
}

/// Where the model is, and what the agent may do unasked.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The server's port.
    pub port: u16,
    /// The key to show it.
    pub key: &'a str,
    /// Whether the agent is to ask before it writes or runs anything, where that is a matter of its configuration.
    pub asks: bool,
}

/// Where programs are looked for if this process does not know.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The arguments for one prompt and one turn in which nothing is asked, with lines of JSON as output. opencode takes the
/// prompt from standard input: as an argument it would reach the model in quotation marks.
#[must_use]
pub fn one_shot(agent: Agent, prompt: &str) -> Vec<String> {
    let model = model(agent);
    let args: Vec<&str> = match agent {
        Agent::Codex => vec!["exec", "--json", "-m", model, "-s", "danger-full-access", prompt],
        Agent::Claude => {
            // It refuses to be asked nothing at all where it runs as root.
            let edits = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
            let output = ["-p", prompt, "--output-format", "stream-json", "--verbose", "--model", model];
            output.into_iter().chain(edits).collect()
        }
        Agent::Gemini => {
            vec!["-p", prompt, "-m", model, "--output-format", "stream-json", "--approval-mode", "yolo"]
        }
        Agent::Opencode => vec!["run", "--pure", "--format", "json", "-m", model],
    };
    args.into_iter().map(str::to_owned).collect()
}

/// Fills a home and says which variables the agent is to be started with. But for the path there is nothing of this
/// process's in them: an inherited variable could lead it to a real account.
pub fn furnish(agent: Agent, home: &Path, setup: &Setup<'_>) -> io::Result<Vec<(&'static str, String)>> {
    let at = |below: &str| home.join(below).to_string_lossy().into_owned();
    fs::create_dir_all(home.join("tmp"))?;
    let mut env = vec![
        ("HOME", home.to_string_lossy().into_owned()),
        ("PATH", std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned())),
        ("LANG", "C.UTF-8".to_owned()),
        // codex keeps its helpers below its home, and refuses to if that is where temporary files go.
        ("TMPDIR", at("tmp")),
    ];
    match agent {
        Agent::Codex => codex(home, setup, &mut env)?,
        Agent::Claude => claude(home, setup, &mut env),
        Agent::Gemini => gemini(home, setup, &mut env)?,
        Agent::Opencode => opencode(home, setup, &mut env)?,
    }
    Ok(env)
}

type Env = Vec<(&'static str, String)>;

fn codex(home: &Path, setup: &Setup<'_>, env: &mut Env) -> io::Result<()> {
    let port = setup.port;
    // Without `plugins = false` it looks for plugins in the network at each start.
    let config = format!(
        r#"model = "{}"
model_provider = "scripted"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "workspace-write"
cli_auth_credentials_store = "file"

[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 20000

[analytics]
enabled = false

[features]
plugins = false
apps = false
shell_snapshot = false
"#,
        model(Agent::Codex)
    );
    write(&home.join(".codex/config.toml"), &config)?;
    env.push(("CODEX_HOME", home.join(".codex").to_string_lossy().into_owned()));
    env.push(("SCRIPTED_KEY", setup.key.to_owned()));
    Ok(())
}

fn claude(home: &Path, setup: &Setup<'_>, env: &mut Env) {
    env.push(("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", setup.port)));
    env.push(("ANTHROPIC_API_KEY", setup.key.to_owned()));
    env.push(("CLAUDE_CONFIG_DIR", home.join(".claude").to_string_lossy().into_owned()));
    let switches = [
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
    ];
    env.extend(switches.map(|name| (name, "1".to_owned())));
    env.push(("CLAUDE_CODE_MAX_RETRIES", "0".to_owned()));
}

fn gemini(home: &Path, setup: &Setup<'_>, env: &mut Env) -> io::Result<()> {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
        "general": {
            "enableAutoUpdate": false,
            "enableAutoUpdateNotification": false,
            "checkpointing": { "enabled": false },
            "maxAttempts": 1,
            "retryFetchErrors": false,
        },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "ui": { "hideBanner": true, "hideTips": true },
    });
    write(&home.join(".gemini/settings.json"), &settings.to_string())?;
    env.push(("GEMINI_API_KEY", setup.key.to_owned()));
    env.push(("GOOGLE_GEMINI_BASE_URL", format!("http://127.0.0.1:{}", setup.port)));
    // Otherwise it starts itself once more, with more memory.
    env.push(("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()));
    Ok(())
}

fn opencode(home: &Path, setup: &Setup<'_>, env: &mut Env) -> io::Result<()> {
    let at = |below: &str| home.join(below).to_string_lossy().into_owned();
    write(&home.join("opencode.json"), &opencode_config(setup).to_string())?;
    // An empty list of models instead of the one it carries, which takes a second and half a gigabyte.
    write(&home.join("models.json"), "{}")?;
    env.push(("OPENCODE_CONFIG", at("opencode.json")));
    env.push(("OPENCODE_MODELS_PATH", at("models.json")));
    env.push(("XDG_CONFIG_HOME", at(".config")));
    env.push(("XDG_DATA_HOME", at(".local/share")));
    env.push(("XDG_CACHE_HOME", at(".cache")));
    env.push(("XDG_STATE_HOME", at(".local/state")));
    let switches = [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_PURE",
    ];
    env.extend(switches.map(|name| (name, "1".to_owned())));
    Ok(())
}

fn opencode_config(setup: &Setup<'_>) -> Value {
    let unasked = if setup.asks { "ask" } else { "allow" };
    let options = json!({ "baseURL": format!("http://127.0.0.1:{}/v1", setup.port), "apiKey": setup.key });
    let model = json!({
        "name": "Scripted 1",
        "tool_call": true,
        "limit": { "context": 200_000, "output": 32_000 },
        "cost": { "input": 1, "output": 2, "cache_read": 0.1 },
    });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": options,
        "models": { "scripted-1": model },
    });
    json!({
        "autoupdate": false,
        "share": "disabled",
        "model": self::model(Agent::Opencode),
        "small_model": self::model(Agent::Opencode),
        "enabled_providers": ["scripted"],
        "lsp": false,
        "formatter": false,
        "permission": { "edit": unasked, "bash": unasked, "webfetch": "deny", "external_directory": "deny" },
        "provider": { "scripted": provider },
    })
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_led_to_the_model_and_to_its_own_home() {
        let home = std::env::temp_dir().join(format!("scripted-model-home-{}", std::process::id()));
        for agent in Agent::ALL {
            let setup = Setup { port: 4711, key: "k", asks: true };
            let env = furnish(agent, &home, &setup).unwrap();
            let files = [".codex/config.toml", ".gemini/settings.json", "opencode.json"];
            let files = files.iter().filter_map(|file| fs::read_to_string(home.join(file)).ok());
            let all: String = env.iter().map(|(_, value)| value.clone()).chain(files).collect();
            assert!(all.contains("http://127.0.0.1:4711"), "{}", agent.name());
            assert_eq!(env[0], ("HOME", home.to_string_lossy().into_owned()));
            fs::remove_dir_all(&home).unwrap();
        }
    }
}
