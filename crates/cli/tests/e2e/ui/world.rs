//! A browser that is logged in, and what every test of the page looks at: that nothing went wrong in it, that its policy was
//! never violated, and that it asked nobody but its own server.

use crate::environment::TestEnvironment;
use crate::serve::Served;
use serde_json::json;
use wire_page::{Chromium, Tab};

/// Keeps what goes wrong in a page, from before its first script.
const WATCH: &str = "
    window.seen = {errors: [], violations: []};
    addEventListener('error', (event) => seen.errors.push(String(event.message)));
    addEventListener('unhandledrejection', (event) => seen.errors.push(String(event.reason)));
    document.addEventListener('securitypolicyviolation', (event) =>
        seen.violations.push(event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample));
";

/// A page that is logged in.
pub(super) fn page<'b>(browser: &'b Chromium, served: &Served) -> Tab<'b> {
    let tab = browser.open("about:blank");
    tab.before_each_page(WATCH);
    tab.screen(1440, 900, false);
    log_in(&tab, served);
    tab
}

/// Opens a new link to log in with.
pub(super) fn log_in(tab: &Tab<'_>, served: &Served) {
    let link = served.ask("POST", "/api/login-ticket", Some(&json!({}))).with(200)["login"].clone();
    tab.go(link.as_str().unwrap());
    tab.until("location.pathname === '/' && document.querySelector('main') !== null");
}

/// Nothing of the page failed, its policy was not violated, and everything that it loaded is its own server's.
#[track_caller]
pub(super) fn is_well(tab: &Tab<'_>) {
    assert_eq!(tab.eval("seen.errors"), json!([]));
    assert_eq!(tab.eval("seen.violations"), json!([]));
    let foreign =
        "performance.getEntriesByType('resource').map((it) => it.name).filter((it) => !it.startsWith(location.origin))";
    assert_eq!(tab.eval(foreign), json!([]));
}

/// Whether the page shows a text.
pub(super) fn shows(text: &str) -> String {
    format!("document.body.innerText.includes({})", json!(text))
}

/// Clicks the button, link or tab with this text.
#[track_caller]
pub(super) fn click(tab: &Tab<'_>, text: &str) {
    tab.click_named(":is(button, a, summary, [role=tab]):not(:disabled)", text);
}

/// A repository whose agent `worker` drops the exclamation marks of a file, under a test that wants that.
pub(crate) fn repository() -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.write("src/greet.py", "def greet(name):\n    return \"hello \" + name + \"!\"\n");
    env.write("tests/greet.py", TEST);
    env.write("agents/worker.py", WORKER);
    env.commit("a greeting");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["python3", "agents/worker.py"]}});
    });
    env
}

const TEST: &str =
    "import sys\nsys.path.insert(0, \"src\")\nfrom greet import greet\nassert greet(\"Ada\").startswith(\"hello\")\n";

const WORKER: &str = r#"
import json, sys
json.load(sys.stdin)
text = open("src/greet.py").read()
open("src/greet.py", "w").write(text.replace(' + "!"', "") if "!" in text else text + "\n\nLOUD = False\n")
result = {"task_id": "goal", "status": "SUCCESS", "summary": "done", "evidence_refs": {}, "failure": None}
print(json.dumps({"version": 1, "status": "ok", "summary": "greets quietly", "files": [], "next_actions": [], "errors": [], "result": result}))
"#;
