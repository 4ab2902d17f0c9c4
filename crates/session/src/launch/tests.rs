//! What `launch` says, and what it is told for that.

use super::*;
use crate::brief::Rights;
use crate::testing::{brief, worker};

fn rights(write: bool, shell: ShellRight, network: bool) -> Rights {
    Rights { write, shell, network, mcp_tools: Vec::new() }
}

fn thinker() -> Rights {
    rights(false, ShellRight::Deny, false)
}

#[track_caller]
fn file(launch: &Launch, path: &str) -> String {
    let found = launch.files.iter().find(|(name, _)| name == path).expect("the file");
    String::from_utf8(found.1.clone()).unwrap()
}

#[track_caller]
fn option<'l>(launch: &'l Launch, name: &str) -> &'l str {
    let at = launch.args.iter().position(|arg| arg == name).expect("the option");
    &launch.args[at + 1]
}

#[test]
fn codex_live() {
    let mut brief = brief(Kind::Codex);
    brief.effort = Some("high");
    let launch = launch(&brief, Mode::Live);
    assert_eq!((launch.protocol, launch.args.as_slice()), (Protocol::CodexAppServer, &["app-server".to_owned()][..]));
    assert_eq!(launch.env["CODEX_HOME"], "/home/agent/.codex");
    assert_eq!(launch.env["NORMA_MODEL_KEY"], "placeholder");
    assert_eq!(
        file(&launch, ".codex/config.toml"),
        r#"model = "m-1"
model_reasoning_effort = "high"
model_provider = "norma"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
project_doc_max_bytes = 0
cli_auth_credentials_store = "file"
web_search = "disabled"

[model_providers.norma]
name = "norma"
base_url = "http://127.0.0.1:8765"
wire_api = "responses"
env_key = "NORMA_MODEL_KEY"
request_max_retries = 2
stream_max_retries = 2

[analytics]
enabled = false

[features]
plugins = false
apps = false
shell_snapshot = false
hooks = false
multi_agent = false
goals = false
unbounded_connection_retries = false
daemon_auto_start = false
tool_suggest = false
skill_mcp_dependency_install = false
"#
    );
}

#[test]
fn codex_without_a_shell_or_signed_in() {
    let mut brief = brief(Kind::Codex);
    brief.rights = thinker();
    (brief.base_url, brief.api_key, brief.model) = (None, None, Some("a\"b"));
    let launch = launch(&brief, Mode::Live);
    let toml = file(&launch, ".codex/config.toml");
    assert!(toml.starts_with("model = \"a\\\"b\"\nsandbox_mode = \"read-only\"\n"), "{toml}");
    assert!(toml.ends_with("shell_tool = false\nunified_exec = false\n"), "{toml}");
    assert!(!toml.contains("model_provider") && !toml.contains("approval_policy"), "{toml}");
    assert!(toml.contains("[analytics]\nenabled = false"));
    assert!(!launch.env.keys().any(|name| name.ends_with("KEY")));
}

/// What a reviewer is given: it looks around, changes nothing, and nobody is asked for anything.
#[test]
fn codex_that_reviews_is_read_only_and_never_asks() {
    let mut brief = brief(Kind::Codex);
    brief.rights = rights(false, ShellRight::Never, false);
    let toml = file(&launch(&brief, Mode::Live), ".codex/config.toml").to_owned();
    assert!(toml.contains("sandbox_mode = \"read-only\""), "{toml}");
    assert!(toml.contains("approval_policy = \"never\""), "{toml}");
}

#[test]
fn codex_has_a_shell_only_where_somebody_can_be_asked_if_need_be() {
    let mut brief = brief(Kind::Codex);
    for (shell, mode, has) in [
        (ShellRight::Deny, Mode::Live, false),
        (ShellRight::Never, Mode::Live, true),
        (ShellRight::OnRequest, Mode::Live, true),
        (ShellRight::Untrusted, Mode::Live, true),
        (ShellRight::Deny, Mode::OneShot, false),
        (ShellRight::Never, Mode::OneShot, true),
        (ShellRight::OnRequest, Mode::OneShot, false),
        (ShellRight::Untrusted, Mode::OneShot, false),
    ] {
        brief.rights = rights(true, shell, false);
        let launch = launch(&brief, mode);
        assert_eq!(!file(&launch, ".codex/config.toml").contains("shell_tool = false"), has, "{shell:?} {mode:?}");
        assert_eq!(launch.configured["settings"]["shell_tool"], has);
    }
}

#[test]
fn codex_one_shot_takes_the_prompt_on_stdin() {
    let schema = json!({"type": "string"});
    let mut brief = brief(Kind::Codex);
    brief.output_schema = Some(&schema);
    let launched = launch(&brief, Mode::OneShot);
    assert_eq!(
        launched.args,
        [
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--ignore-rules",
            "-m",
            "m-1",
            "-C",
            "/src/tree",
            "-s",
            "danger-full-access",
            "--output-schema",
            "/home/agent/.norma/output_schema.json",
            "-"
        ]
    );
    assert_eq!(file(&launched, ".norma/output_schema.json"), r#"{"type":"string"}"#);
    (brief.resume, brief.output_schema) = (Some("t-1"), None);
    assert_eq!(
        launch(&brief, Mode::OneShot).args,
        ["exec", "resume", "--json", "--skip-git-repo-check", "--ignore-rules", "-m", "m-1", "t-1", "-"]
    );
}

#[test]
fn codex_has_no_home_below_its_temporary_files() {
    let mut brief = brief(Kind::Codex);
    assert_eq!(launch(&brief, Mode::Live).env.get("TMPDIR"), None);
    brief.home = "/tmp/h";
    let launch = launch(&brief, Mode::Live);
    assert_eq!(launch.env["TMPDIR"], "/tmp/h/.tmp");
    assert_eq!(file(&launch, ".tmp/.keep"), "");
}

#[test]
fn claude_live() {
    let schema = json!({"type": "string"});
    let mut brief = brief(Kind::Claude);
    (brief.output_schema, brief.extra_write, brief.resume) = (Some(&schema), &["/step"], Some("s-1"));
    let launch = launch(&brief, Mode::Live);
    let tools =
        "Read,Glob,Grep,TodoWrite,TaskCreate,TaskUpdate,TaskGet,TaskList,ToolSearch,LSP,Edit,Write,NotebookEdit";
    assert_eq!(
        launch.args,
        [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "default",
            "--input-format",
            "stream-json",
            "--permission-prompt-tool",
            "stdio",
            "--include-partial-messages",
            "--strict-mcp-config",
            "--setting-sources",
            "",
            "--model",
            "m-1",
            "--tools",
            &format!("{tools},Bash,BashOutput,KillShell"),
            "--allowedTools",
            tools,
            "--disallowedTools",
            "WebFetch,WebSearch",
            "--json-schema",
            r#"{"type":"string"}"#,
            "--add-dir",
            "/step",
            "--resume",
            "s-1"
        ]
    );
    for (name, value) in [
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8765"),
        ("ANTHROPIC_API_KEY", "placeholder"),
        ("CLAUDE_CONFIG_DIR", "/home/agent/.claude"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_TELEMETRY", "1"),
    ] {
        assert_eq!(launch.env[name], value, "{name}");
    }
    assert!(launch.files.is_empty());
}

#[test]
fn claude_has_the_tools_of_its_rights() {
    let mut brief = brief(Kind::Claude);
    for (rights, mode, offered, allowed) in [
        (thinker(), Mode::Live, &[][..], &[][..]),
        (rights(true, ShellRight::Deny, false), Mode::Live, &["Write"][..], &["Write"][..]),
        (rights(true, ShellRight::Never, false), Mode::Live, &["Write", "Bash"], &["Write", "Bash"]),
        (rights(true, ShellRight::Never, false), Mode::OneShot, &["Write", "Bash"], &["Write", "Bash"]),
        (rights(true, ShellRight::OnRequest, false), Mode::Live, &["Write", "Bash"], &["Write"]),
        (rights(true, ShellRight::Untrusted, false), Mode::Live, &["Write", "Bash"], &["Write"]),
        (rights(true, ShellRight::OnRequest, false), Mode::OneShot, &["Write"], &["Write"]),
        (rights(false, ShellRight::Never, true), Mode::Live, &["Bash", "WebFetch"], &["Bash", "WebFetch"]),
    ] {
        brief.rights = rights;
        let launch = launch(&brief, mode);
        for tool in ["Write", "Bash", "WebFetch"] {
            let has = |name| option(&launch, name).split(',').any(|found| found == tool);
            assert_eq!(has("--tools"), offered.contains(&tool), "{tool} {mode:?} {:?}", brief.rights);
            assert_eq!(has("--allowedTools"), allowed.contains(&tool), "{tool} {mode:?} {:?}", brief.rights);
            let denied = launch.args.iter().any(|arg| arg == "--disallowedTools") && has("--disallowedTools");
            assert_eq!(denied, !offered.contains(&tool), "{tool} {mode:?} {:?}", brief.rights);
        }
    }
}

#[test]
fn claude_signed_in_keeps_its_own_address() {
    let mut brief = brief(Kind::Claude);
    (brief.base_url, brief.api_key) = (None, None);
    let launch = launch(&brief, Mode::OneShot);
    assert!(!launch.env.keys().any(|name| name.starts_with("ANTHROPIC")));
    assert_eq!(launch.env["DISABLE_TELEMETRY"], "1");
}

#[test]
fn gemini_has_the_mode_and_tools_of_its_rights() {
    let mut brief = brief(Kind::Gemini);
    for (rights, mode, excluded) in [
        (
            thinker(),
            "default",
            &[
                "save_memory",
                "enter_plan_mode",
                "write_file",
                "replace",
                "run_shell_command",
                "web_fetch",
                "google_web_search",
            ][..],
        ),
        (rights(true, ShellRight::Deny, true), "auto_edit", &["save_memory", "enter_plan_mode", "run_shell_command"]),
        (rights(true, ShellRight::Never, true), "yolo", &["save_memory", "enter_plan_mode"]),
        (rights(false, ShellRight::Never, true), "yolo", &["save_memory", "enter_plan_mode", "write_file", "replace"]),
        (rights(true, ShellRight::OnRequest, true), "auto_edit", &["save_memory", "enter_plan_mode"]),
        (
            rights(false, ShellRight::Untrusted, true),
            "default",
            &["save_memory", "enter_plan_mode", "write_file", "replace"],
        ),
    ] {
        brief.rights = rights;
        let launch = launch(&brief, Mode::Live);
        assert_eq!(launch.args, ["--acp", "-m", "m-1", "--approval-mode", mode], "{:?}", brief.rights);
        let settings: Value = serde_json::from_str(&file(&launch, ".gemini/settings.json")).unwrap();
        assert_eq!(settings["tools"]["exclude"], json!(excluded), "{:?}", brief.rights);
        assert_eq!(file(&launch, ".gemini/system-settings.json"), settings.to_string());
    }
}

#[test]
fn gemini_signs_in_by_key_or_account() {
    let mut brief = brief(Kind::Gemini);
    let auth = |brief: &Brief<'_>| {
        let launch = launch(brief, Mode::OneShot);
        let settings: Value = serde_json::from_str(&file(&launch, ".gemini/settings.json")).unwrap();
        assert_eq!(settings["privacy"]["usageStatisticsEnabled"], false);
        (settings["security"]["auth"]["selectedType"].as_str().unwrap().to_owned(), launch)
    };
    let (by, launched) = auth(&brief);
    assert_eq!(
        (by.as_str(), launched.env["GOOGLE_GEMINI_BASE_URL"].as_str()),
        ("gemini-api-key", "http://127.0.0.1:8765")
    );
    assert_eq!(launched.args[..2], ["--output-format", "stream-json"]);
    (brief.base_url, brief.api_key) = (None, None);
    let (by, launched) = auth(&brief);
    assert_eq!((by.as_str(), launched.env.get("GEMINI_API_KEY")), ("oauth-personal", None));
}

#[test]
fn opencode_has_the_permissions_of_its_rights() {
    let mut brief = brief(Kind::Opencode);
    brief.extra_write = &["/step"];
    for (rights, edit, bash, web) in [
        (thinker(), "deny", "deny", "deny"),
        (rights(true, ShellRight::Deny, true), "allow", "deny", "allow"),
        (rights(true, ShellRight::Never, false), "allow", "allow", "deny"),
        (rights(true, ShellRight::OnRequest, false), "allow", "ask", "deny"),
        (rights(true, ShellRight::Untrusted, false), "allow", "ask", "deny"),
    ] {
        brief.rights = rights;
        let once = launch(&brief, Mode::OneShot).configured["settings"]["permission"]["bash"].clone();
        assert_eq!(once, if bash == "ask" { "deny" } else { bash }, "{:?}", brief.rights);
        let launch = launch(&brief, Mode::Live);
        assert_eq!(launch.args, ["acp", "--pure"]);
        let settings: Value = serde_json::from_str(&launch.env["OPENCODE_CONFIG_CONTENT"]).unwrap();
        assert_eq!(
            settings["permission"],
            json!({"edit": edit, "bash": bash, "webfetch": web, "websearch": web, "question": "deny",
                   "external_directory": {"*": "deny", "/step/*": "allow"}}),
            "{:?}",
            brief.rights
        );
    }
}

#[test]
fn opencode_reaches_its_model_where_it_is_told() {
    let mut brief = brief(Kind::Opencode);
    let launched = launch(&brief, Mode::OneShot);
    assert_eq!(launched.args, ["run", "--pure", "--format", "json"]);
    let settings: Value = serde_json::from_str(&launched.env["OPENCODE_CONFIG_CONTENT"]).unwrap();
    assert_eq!((&settings["model"], &settings["small_model"]), (&json!("norma/m-1"), &json!("norma/m-1")));
    assert_eq!(
        settings["provider"]["norma"]["options"],
        json!({"baseURL": "http://127.0.0.1:8765", "apiKey": "{env:NORMA_MODEL_KEY}"})
    );
    assert_eq!(launched.env["NORMA_MODEL_KEY"], "placeholder");
    assert_eq!(file(&launched, ".norma/models.json"), "{}");
    (brief.base_url, brief.api_key, brief.resume) = (None, None, Some("ses_1"));
    let launched = launch(&brief, Mode::OneShot);
    assert_eq!(launched.args, ["run", "--pure", "--format", "json", "--session", "ses_1"]);
    let settings: Value = serde_json::from_str(&launched.env["OPENCODE_CONFIG_CONTENT"]).unwrap();
    assert_eq!((settings.get("provider"), &settings["autoupdate"]), (None, &json!(false)));
}

#[test]
fn another_agent_is_started_as_configured() {
    let args = ["--acp".to_owned()];
    let mut brief = brief(Kind::Acp);
    brief.args = &args;
    let launch = launch(&brief, Mode::OneShot);
    assert_eq!((launch.protocol, &launch.args[..]), (Protocol::Acp, &args[..]));
}

#[test]
fn no_key_is_in_files_arguments_or_evidence() {
    for kind in Kind::ALL {
        for mode in [Mode::Live, Mode::OneShot] {
            let mut brief = brief(kind);
            brief.rights = worker();
            for base_url in [None, Some("http://127.0.0.1:1")] {
                (brief.base_url, brief.api_key) = (base_url, Some("secret-key"));
                let launch = launch(&brief, mode);
                let files = launch.files.iter().map(|(_, content)| String::from_utf8_lossy(content).into_owned());
                let all = [launch.args.join(" "), launch.configured.to_string()].into_iter().chain(files);
                assert!(all.into_iter().all(|text| !text.contains("secret-key")), "{kind:?}");
                assert_eq!(launch.configured["agent"], kind.as_str());
                assert_eq!(launch.env["HOME"], "/home/agent");
            }
        }
    }
}
