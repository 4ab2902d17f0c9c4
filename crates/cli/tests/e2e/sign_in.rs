//! The user's sign-in with a provider, of which an agent gets a copy: what the agent made of it comes back only as what it
//! is after a renewal, and only from a turn that ended well.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// In place of claude's program: leaves what it is given of a sign-in, answers, and ends as it is told.
const CLAUDE: &str = r#"#!/bin/sh
while IFS= read -r line; do :; done
printf '%s\n' 'LEFT' > "$HOME/.claude/.credentials.json"
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"m-1"}'
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"{\"version\":1,\"status\":\"ok\",\"summary\":\"planned\",\"files\":[],\"next_actions\":[],\"errors\":[],\"plan_md\":\"x\"}"}'
exit CODE
"#;

fn signed_in(access: &str, expires: u64) -> Value {
    let oauth = json!({"accessToken": access, "refreshToken": "r", "expiresAt": expires, "scopes": ["user"]});
    json!({"claudeAiOauth": oauth})
}

/// What the user's sign-in is after a run whose planner left `left` and ended with `code`.
fn after_run(left: &Value, code: i32) -> (Value, String) {
    let mut env = TestEnvironment::new(json!({}));
    let place = |name: &str| -> PathBuf { env.dir.join(name) };
    let (file, program) = (place("home/.claude/.credentials.json"), place("bin/claude"));
    for path in [&file, &program] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    }
    std::fs::write(&file, signed_in("mine", 1).to_string()).unwrap();
    let script = CLAUDE.replace("LEFT", &left.to_string()).replace("CODE", &code.to_string());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", env.at("bin"), env.env["PATH"]);
    env.env.insert("PATH".to_owned(), path);
    env.configure(|config| config["agents"]["plan"] = json!({"type": "claude"}));
    let output = env.norma(&["run", "1"]).to_string();
    (serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap(), output)
}

#[test]
fn an_agent_renews_the_users_sign_in_and_does_nothing_else_to_it() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let renewed = signed_in("renewed", now + 3_600_000);
    let (kept, output) = after_run(&renewed, 0);
    assert_eq!(kept, renewed, "{output}");
    let (kept, output) = after_run(&renewed, 1);
    assert_eq!(kept, signed_in("mine", 1), "{output}");
    assert!(output.contains("yours was kept: the turn did not end well"), "{output}");
    let mut another = renewed;
    another["mcpOAuth"] = json!({"evil": {"accessToken": "x"}});
    let (kept, output) = after_run(&another, 0);
    assert_eq!(kept, signed_in("mine", 1), "{output}");
    assert!(output.contains("yours was kept: the document has a member more"), "{output}");
}

/// The real gemini, whose sign-in has expired and whose provider is not there to renew it: it would wait for a person.
#[test]
fn a_sign_in_that_cannot_be_renewed_is_told_as_that() {
    let Some(program) = scripted_model::agents::needed(scripted_model::agents::Agent::Gemini) else { return };
    let env = TestEnvironment::initialized();
    let file = env.dir.join("home/.gemini/oauth_creds.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let expired =
        json!({"access_token": "ya29.old", "refresh_token": "1//old", "token_type": "Bearer", "expiry_date": 1});
    std::fs::write(&file, expired.to_string()).unwrap();
    env.configure(|config| {
        config["agents"] = json!({"gemini": {"type": "gemini", "model": "gemini-2.5-flash", "bin": program}})
    });
    env.write("item.json", &json!({"id": "a", "agent_id": "gemini", "description": "do it"}).to_string());
    let output = env.norma(&["run", "item.json"]);
    assert!(output.exits(1).raw.contains("failed (sign_in_failed)"), "{output}");
}
