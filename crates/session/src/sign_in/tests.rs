//! Sign-ins as the four command lines keep them, renewed as they do it, and everything that an agent could make of one
//! to have the user work for somebody else or not at all.

use super::*;
use serde_json::json;

/// 2026-01-23T14:55:01Z.
const NOW_MS: u64 = 1_769_180_101_000;
const NOW: u64 = NOW_MS / 1000;

fn jwt(claims: &Value) -> String {
    let payload = Base64UrlUnpadded::encode_string(claims.to_string().as_bytes());
    format!("eyJhbGciOiJSUzI1NiJ9.{payload}.c2lnbmF0dXJl")
}

fn openai(account: &str, expires: u64) -> String {
    jwt(&json!({
        "iss": "https://auth.openai.com", "sub": "auth0|ada", "exp": expires, "email": "ada@example.org",
        OPENAI_CLAIMS: {"chatgpt_account_id": account, "chatgpt_plan_type": "pro", "chatgpt_user_id": "user-1"},
    }))
}

fn codex() -> Value {
    json!({
        "OPENAI_API_KEY": null,
        "tokens": {
            "id_token": openai("acc-1", NOW - 60), "access_token": openai("acc-1", NOW - 60), "refresh_token": "rt_1",
            "account_id": "acc-1",
        },
        "last_refresh": "2026-01-15T08:00:00.123456789Z",
    })
}

fn claude() -> Value {
    json!({"claudeAiOauth": {
        "accessToken": "sk-ant-oat01-a", "refreshToken": "sk-ant-ort01-a", "expiresAt": NOW_MS - 5,
        "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
    }})
}

fn gemini() -> Value {
    let id = json!({"iss": "https://accounts.google.com", "sub": "108", "aud": "app", "exp": NOW - 60});
    json!({
        "access_token": "ya29.a", "refresh_token": "1//a", "scope": "openid email", "token_type": "Bearer",
        "id_token": jwt(&id), "expiry_date": NOW_MS - 5,
    })
}

fn opencode() -> Value {
    json!({
        "anthropic": {"type": "oauth", "access": "a", "refresh": "b", "expires": NOW_MS - 5},
        "github-copilot": {"type": "oauth", "access": "c", "refresh": "d", "expires": 0},
        "openrouter": {"type": "api", "key": "sk-or-1"},
    })
}

/// A kind's main file as the user has it, and what the check says of it after a change to it.
fn judged(kind: Kind, change: impl FnOnce(&mut Value)) -> Result<(), String> {
    let before = match kind {
        Kind::Codex => codex(),
        Kind::Claude => claude(),
        Kind::Gemini => gemini(),
        Kind::Opencode => opencode(),
        Kind::Acp => unreachable!("no sign-in of it is known"),
    };
    let mut after = before.clone();
    change(&mut after);
    assert_ne!(before, after, "the case changes nothing");
    let file = provider::sign_in_files(kind).next().unwrap();
    let now = Timestamp::from_unix_ms(NOW_MS);
    check_renewed(kind, file, before.to_string().as_bytes(), after.to_string().as_bytes(), now)
}

/// Sets one member, by its JSON pointer; a name that is not there yet is added.
fn set(pointer: &str, value: Value) -> impl FnOnce(&mut Value) {
    move |document| {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[name] = value;
    }
}

#[track_caller]
fn refused(kind: Kind, pointer: &str, value: Value, why: &str) {
    let shown = value.to_string().chars().take(80).collect::<String>();
    assert_eq!(judged(kind, set(pointer, value)), Err(why.to_owned()), "{pointer} {shown}");
}

#[test]
fn a_renewal_as_each_of_them_does_it_is_brought_back() {
    let renewed = judged(Kind::Codex, |file| {
        file["tokens"]["id_token"] = openai("acc-1", NOW + 3600).into();
        file["tokens"]["access_token"] = openai("acc-1", NOW + 10 * 86400).into();
        file["tokens"]["refresh_token"] = "rt_2".into();
        file["last_refresh"] = "2026-01-23T14:54:59.5Z".into();
    });
    assert_eq!(renewed, Ok(()));
    let renewed = judged(Kind::Claude, |file| {
        let oauth = &mut file["claudeAiOauth"];
        oauth["accessToken"] = "sk-ant-oat01-b".into();
        oauth["refreshToken"] = "sk-ant-ort01-b".into();
        oauth["expiresAt"] = (NOW_MS + 8 * 3_600_000).into();
        oauth["scopes"] = json!(["user:profile", "user:inference"]);
    });
    assert_eq!(renewed, Ok(()));
    let renewed = judged(Kind::Gemini, |file| {
        let id = json!({"iss": "https://accounts.google.com", "sub": "108", "aud": "app", "exp": NOW + 3600, "iat": 1});
        file["access_token"] = "ya29.b".into();
        file["id_token"] = jwt(&id).into();
        file["scope"] = "email openid".into();
        file["expiry_date"] = (NOW_MS + 3_599_000).into();
    });
    assert_eq!(renewed, Ok(()));
    let renewed = judged(Kind::Opencode, |file| {
        let entry = &mut file["anthropic"];
        entry["access"] = "x".into();
        entry["refresh"] = "y".into();
        entry["expires"] = (NOW_MS + 3_600_000).into();
    });
    assert_eq!(renewed, Ok(()));
}

#[test]
fn the_sign_in_of_another_account_is_not() {
    let other = || json!(openai("acc-2", NOW + 3600));
    let why = "is the token of another account, or for something else";
    refused(Kind::Codex, "/tokens/id_token", other(), &format!("tokens.id_token {why}"));
    refused(Kind::Codex, "/tokens/access_token", other(), &format!("tokens.access_token {why}"));
    refused(Kind::Codex, "/tokens/account_id", json!("acc-2"), "tokens.account_id is another, and is no token");
    let mine = json!({"iss": "https://accounts.google.com", "sub": "109", "aud": "app", "exp": NOW + 3600});
    let changed = judged(Kind::Gemini, |file| {
        file["id_token"] = jwt(&mine).into();
        file["expiry_date"] = (NOW_MS + 1000).into();
    });
    assert_eq!(changed, Err(format!("id_token {why}")));
    let hidden = "tokens.id_token does not say any more whose token it is";
    refused(Kind::Codex, "/tokens/id_token", json!("opaque"), hidden);
    refused(Kind::Codex, "/tokens/id_token", json!("a.b.c"), hidden);
    refused(Kind::Codex, "/OPENAI_API_KEY", json!("sk-mine"), "OPENAI_API_KEY is another, and is no token");
    refused(
        Kind::Claude,
        "/claudeAiOauth/subscriptionType",
        json!("free"),
        "claudeAiOauth.subscriptionType is another, and is no token",
    );
    refused(Kind::Opencode, "/openrouter/key", json!("sk-or-2"), "openrouter.key is another, and is no token");
    refused(Kind::Opencode, "/anthropic/type", json!("api"), "anthropic.type is another, and is no token");
}

#[test]
fn nothing_is_added_and_nothing_is_gone() {
    let entry = json!({"type": "api", "key": "sk-mine"});
    refused(Kind::Opencode, "/openai", entry.clone(), "the document has a member more");
    refused(Kind::Claude, "/mcpOAuth", json!({}), "the document has a member more");
    refused(Kind::Codex, "/tokens/base_url", json!("https://evil.example"), "tokens has a member more");
    let swapped = judged(Kind::Opencode, |file| {
        file.as_object_mut().unwrap().remove("openrouter");
        file["openai"] = entry;
    });
    assert_eq!(swapped, Err("openrouter is gone".to_owned()));
    let gone = judged(Kind::Gemini, |file| drop(file.as_object_mut().unwrap().remove("refresh_token")));
    assert_eq!(gone, Err("refresh_token is gone".to_owned()));
    refused(Kind::Gemini, "/scope", json!("openid email cloud"), "scope has other words");
    refused(Kind::Gemini, "/scope", json!(["openid", "email"]), "scope has other words");
}

#[test]
fn a_token_stays_a_token() {
    let none = "tokens.refresh_token is no token any more, or was none";
    for value in [json!(null), json!(7), json!(["rt_2"]), json!({"a": "rt_2"}), json!(true)] {
        refused(Kind::Codex, "/tokens/refresh_token", value, none);
    }
    let form = "tokens.refresh_token does not have the form of a token";
    for value in ["", "rt 2", "rt\n2", "rt_\u{e9}", "\u{202e}rt", &"x".repeat(TOKEN_BYTES_MAX + 1)] {
        refused(Kind::Codex, "/tokens/refresh_token", json!(value), form);
    }
    refused(Kind::Codex, "/tokens", json!("all of it"), "tokens is another, and is no token");
    refused(Kind::Claude, "/claudeAiOauth", json!(null), "claudeAiOauth is another, and is no token");
}

#[test]
fn a_renewed_token_is_one_that_has_not_expired() {
    let expired = "tokens.access_token has expired, or does so too far ahead";
    for at in [json!(NOW - 1), json!(NOW), json!(u64::MAX), json!("never"), json!(-1), json!(null), json!(1.5)] {
        let claims = json!({
            "iss": "https://auth.openai.com", "sub": "auth0|ada", "exp": at, "email": "ada@example.org",
            OPENAI_CLAIMS: {"chatgpt_account_id": "acc-1", "chatgpt_user_id": "user-1"},
        });
        let judged = judged(Kind::Codex, set("/tokens/access_token", jwt(&claims).into()));
        assert!(judged.is_err(), "{at}");
    }
    refused(Kind::Codex, "/tokens/access_token", json!(openai("acc-1", NOW)), expired);
    let passed = "claudeAiOauth.expiresAt is a time that has passed, or one that is too far ahead";
    refused(Kind::Claude, "/claudeAiOauth/expiresAt", json!(NOW_MS), passed);
    refused(Kind::Claude, "/claudeAiOauth/expiresAt", json!(9_007_199_254_740_991_u64), passed);
    refused(Kind::Claude, "/claudeAiOauth/expiresAt", json!("tomorrow"), "claudeAiOauth.expiresAt is no time");
    refused(Kind::Claude, "/claudeAiOauth/expiresAt", json!(null), "claudeAiOauth.expiresAt is no time");
    // The time beside a renewed token counts too, even where it was left as it was.
    refused(Kind::Claude, "/claudeAiOauth/accessToken", json!("sk-ant-oat01-b"), passed);
    for at in ["2027-01-01T00:00:00Z", "2026-01-01T00:00:00Z"] {
        refused(Kind::Codex, "/last_refresh", json!(at), "last_refresh is not between the last renewal and now");
    }
    refused(Kind::Codex, "/last_refresh", json!("yesterday"), "last_refresh is no time");
    refused(Kind::Codex, "/last_refresh", json!(null), "last_refresh is no time");
}

#[test]
fn what_no_reader_would_agree_on_is_refused() {
    let now = Timestamp::from_unix_ms(NOW_MS);
    let before = claude().to_string();
    let check = |after: &[u8]| check_renewed(Kind::Claude, ".claude/.credentials.json", before.as_bytes(), after, now);
    let unread = Err("it is no JSON document that norma reads".to_owned());
    let twice = before.replacen("\"accessToken\":", "\"accessToken\":\"mine\",\"accessToken\":", 1);
    assert_ne!(twice, before);
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let huge = format!("{before}{}", " ".repeat(1 << 20));
    for after in [&b""[..], b"{", b"\xff", twice.as_bytes(), &deep, huge.as_bytes(), b"{} {}"] {
        assert_eq!(check(after), unread);
    }
    for after in [&b"[]"[..], b"null", b"\"x\"", b"7"] {
        assert_eq!(check(after), Err("the document is another, and is no token".to_owned()));
    }
    let unknown = check_renewed(Kind::Acp, "x", b"{}", b"{}", now);
    assert_eq!(unknown, Err("it is not known what a renewal changes there".to_owned()));
    let accounts = br#"{"active":"ada@example.org","old":[]}"#;
    let other = br#"{"active":"eve@example.org","old":[]}"#;
    let judged = check_renewed(Kind::Gemini, ".gemini/google_accounts.json", accounts, other, now);
    assert_eq!(judged, Err("active is another, and is no token".to_owned()));
}
