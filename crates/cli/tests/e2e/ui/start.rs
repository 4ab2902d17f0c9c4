//! From a sentence to a landing, and back: the first run of somebody who has never seen the page.

use super::world::{click, is_well, page, repository, shows};
use crate::environment::{TestEnvironment, eventually};
use crate::serve::{Served, serve};
use serde_json::json;
use wire_page::{Chromium, Tab};

/// Starts a run from a sentence, as the page has people do it; answers its slug when it has landed.
fn land(tab: &Tab<'_>) -> String {
    click(tab, "New run");
    tab.fill("main textarea", "greet quietly");
    click(tab, "Adjust");
    tab.fill("[name=agent]", "worker");
    tab.fill("[name=allow]", "src");
    tab.fill("[name=test]", "python3 tests/greet.py");
    click(tab, "Show contract");
    tab.until("document.querySelector('[data-testid=preview]') !== null");
    let lines = tab.text("[data-testid=preview]");
    for line in ["Agent", "May write", "Tests", "Network", "Time", "Money", "worker", "src", "python3 tests/greet.py"] {
        assert!(lines.contains(line), "{line} in {lines}");
    }
    click(tab, "Run");
    tab.until("location.pathname.startsWith('/run/')");
    tab.until(&shows("Landed on main"));
    tab.eval("location.pathname.split('/')[2]").as_str().unwrap().to_owned()
}

fn started() -> (TestEnvironment, Served) {
    let env = repository();
    let served = serve(&env);
    (env, served)
}

#[test]
fn a_sentence_becomes_a_contract_and_a_run_that_is_followed_reviewed_and_undone() {
    let Some(browser) = Chromium::start() else { return };
    let (env, served) = started();
    let tab = page(&browser, &served);
    tab.until(&shows("No runs yet"));
    land(&tab);
    assert!(!env.read("src/greet.py").contains('!'));
    for said in ["Every gate passed on the tree that landed", "1 test command ran on exactly this tree", "tests"] {
        tab.until(&format!("document.querySelector('[data-testid=situation]').innerText.includes({said:?})"));
    }
    tab.press("r");
    tab.until("document.querySelector('[data-testid=review] [data-file=\"src/greet.py\"] .diff-code-insert') !== null");
    tab.press("v");
    tab.until(&shows("1 OF 1 FILES VIEWED").replace("innerText", "innerText.toUpperCase()"));
    click(&tab, "Undo");
    click(&tab, "Yes");
    tab.until(&shows("Passed, and not landed yet."));
    eventually("the branch is back", || env.read("src/greet.py").contains('!'));
    click(&tab, "Land");
    tab.until(&shows("Landed on main"));
    is_well(&tab);
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_browser_without_a_session_is_told_how_to_log_in_and_a_filter_is_in_the_address() {
    let Some(browser) = Chromium::start() else { return };
    let (env, served) = started();
    let stranger = browser.open(&served.url);
    stranger.until(&shows("norma open"));
    assert_eq!(stranger.eval("document.querySelector('script')"), json!(null));
    stranger.close();
    for goal in ["greet quietly", "say whether it is loud"] {
        env.norma(&["run", goal, "--agent", "worker", "--allow", "src", "--test", "python3 tests/greet.py", "--yes"])
            .success();
    }
    let tab = page(&browser, &served);
    let runs = "document.querySelectorAll('[data-run]').length";
    tab.until(&format!("{runs} === 2"));
    tab.press("/");
    tab.until("document.activeElement.id === 'filter'");
    tab.write("loud");
    tab.until(&format!("{runs} === 1 && location.search === '?q=loud'"));
    tab.reload();
    tab.until(&format!("{runs} === 1 && document.querySelector('#filter').value === 'loud'"));
    tab.press("j");
    tab.until(&format!(
        "location.pathname.startsWith('/run/') && location.search === '?q=loud' && {}",
        shows("say whether it is loud")
    ));
    tab.press("Control+k");
    tab.until("document.querySelector('[cmdk-input]') === document.activeElement");
    tab.write("greet quietly");
    tab.until("document.querySelector('[cmdk-item][data-selected=true]')?.innerText.includes('greet quietly')");
    tab.press("Enter");
    tab.until("document.querySelector('h1').innerText === 'greet quietly'");
    is_well(&tab);
}

#[test]
fn a_comment_on_a_line_becomes_the_contract_of_a_fix() {
    let Some(browser) = Chromium::start() else { return };
    let (env, served) = started();
    let tab = page(&browser, &served);
    let first = land(&tab);
    tab.press("r");
    tab.until("document.querySelector('.diff-gutter-insert') !== null");
    tab.click(".diff-gutter-insert[data-change-key]");
    tab.until("document.querySelector('[data-file] textarea') !== null");
    tab.fill("[data-file] textarea", "say whether it is loud");
    click(&tab, "Add comment");
    // It is on record, not in this page.
    tab.until("document.querySelector('[data-comment]')?.innerText.includes('not sent yet')");
    tab.reload();
    tab.until("document.querySelector('[data-comment]')?.innerText.includes('say whether it is loud')");
    click(&tab, "Send back as a fix");
    tab.until("document.querySelector('[data-testid=comments] [data-testid=preview]') !== null");
    let contract = tab.text("[data-testid=comments] [data-testid=preview]");
    for line in ["worker", "src/greet.py", "python3 tests/greet.py"] {
        assert!(contract.contains(line), "{line} in {contract}");
    }
    click(&tab, "Run");
    tab.until(&format!("location.pathname.startsWith('/run/') && !location.pathname.includes('{first}')"));
    tab.until(&shows("Landed on main"));
    assert!(env.read("src/greet.py").contains("LOUD"));
    tab.go(&format!("{}/run/{first}/review", served.url));
    tab.until("document.querySelector('[data-comment]')?.innerText.includes('sent to a run that fixes it')");
    is_well(&tab);
}

#[test]
fn a_run_is_forked_from_an_event_of_the_slider() {
    let Some(browser) = Chromium::start() else { return };
    let (env, served) = started();
    let tab = page(&browser, &served);
    let first = land(&tab);
    tab.press("r");
    tab.until("document.querySelector('[data-testid=decide]')?.innerText.includes('It is on main.')");
    click(&tab, "Drop: undo the landing");
    click(&tab, "Yes");
    let greet = || std::fs::read_to_string(env.root.join("src/greet.py")).unwrap_or_default();
    eventually("the branch is back", || greet().contains('!'));
    tab.until(
        "document.querySelector('[data-testid=decide]')?.innerText.includes('It passed and is not on your branch.')",
    );
    tab.eval("document.querySelector('input[type=range]').focus()");
    tab.press("Home");
    tab.until("document.querySelector('[data-testid=at]').innerText.startsWith('As of event 1 of')");
    // What was shown then takes the place of what is shown now, and moves what is to be clicked.
    tab.until(&shows("phase BOOT"));
    click(&tab, "Fork from here");
    tab.until(&format!("location.pathname.startsWith('/run/') && !location.pathname.includes('{first}')"));
    tab.until(&shows("Landed on main"));
    tab.until(&shows(&format!("Continues from {first}")));
    assert!(!env.read("src/greet.py").contains('!'));
    is_well(&tab);
}

#[test]
fn a_conflict_is_shown_with_both_sides() {
    let Some(browser) = Chromium::start() else { return };
    let (env, slug) = crate::batches::conflicting();
    let served = serve(&env);
    let tab = page(&browser, &served);
    tab.go(&format!("{}/run/{slug}/review", served.url));
    tab.until("document.querySelector('[data-testid=conflicts]') !== null");
    let shown = tab.text("[data-testid=conflicts]");
    for said in ["text", "one\n", "b\n", "a\n"] {
        assert!(shown.contains(said.trim()), "{said} in {shown}");
    }
    is_well(&tab);
}

#[test]
fn a_page_that_loses_its_server_says_so_and_catches_up_without_a_gap() {
    let Some(browser) = Chromium::start() else { return };
    let (env, served) = started();
    let tab = page(&browser, &served);
    let slug = land(&tab);
    tab.press("t");
    tab.until("document.querySelector('[data-testid=timeline] li') !== null");
    let before = tab.eval("document.querySelector('[data-testid=at]').innerText");
    let port = served.port();
    served.norma.signal("KILL");
    tab.until(&shows("Not connected. What you see is as of"));
    drop(served);
    let served = crate::serve::serve_at(&env, port, &[]);
    // Sessions end with their server: the page says what to do, and continues when somebody has done it in another tab.
    tab.until(&shows("not logged in any more"));
    let other = page(&browser, &served);
    tab.until(&shows("Reconnected, caught up from event"));
    assert_eq!(tab.eval("document.querySelector('[data-testid=at]').innerText"), before);
    assert_eq!(tab.eval("location.pathname"), json!(format!("/run/{slug}/timeline")));
    is_well(&other);
}

#[test]
fn lines_around_a_change_are_shown_when_somebody_asks() {
    let Some(browser) = Chromium::start() else { return };
    let env = crate::batches::with_worker("sed -i 's/^line 50$/changed/' src/long.txt");
    let text: String = (1..=100).map(|line| format!("line {line}\n")).collect();
    env.write("src/long.txt", &text);
    env.commit("a long file");
    let item = json!({"id": "a", "agent_id": "agent-1", "description": "change it", "allowed_paths": ["src/long.txt"]});
    env.write("item.json", &item.to_string());
    env.norma(&["run", "item.json"]).success();
    let served = serve(&env);
    let tab = page(&browser, &served);
    let run = env.last()["run_id"].as_str().unwrap().to_owned();
    tab.go(&format!("{}/run/{run}/review", served.url));
    tab.until(&shows("changed"));
    assert_eq!(tab.eval(&shows("line 30\n")), false, "only three lines around it are part of the patch");
    click(&tab, "Show more above (46 lines hidden)");
    tab.until(&shows("line 30"));
    click(&tab, "Show more below");
    tab.until(&shows("line 60"));
    let whole = format!("/api/runs/{run}/changes/0/file?path=src/long.txt");
    assert_eq!(served.ask("GET", &whole, None).with(200)["text"], text, "as it was before");
    served.ask("GET", &whole.replace("long.txt", "none.txt"), None).with(404);
    served.ask("GET", &whole.replace("src/long.txt", "../x"), None).with(400);
    served.ask("GET", &whole.replace("/0/", "/9/"), None).with(404);
    is_well(&tab);
}

#[test]
fn a_plan_is_answered_in_the_page() {
    use crate::intent_runs::world::{node, plan, run_true, world};
    let Some(browser) = Chromium::start() else { return };
    let choices = json!({"choices": ["fast", "safe"], "by": "human"});
    let mut after = run_true("last", &["ask"]);
    after["budget"]["when"] = json!({"which": "safe"});
    let nodes = [node("which", "decision", &[], choices), node("ask", "approval", &["which"], json!({})), after];
    let world = world(&plan(&nodes));
    let run = world.started();
    world.until(&run, "waiting_input");
    let tab = page(&browser, &world.served);
    tab.go(&format!("{}/run/{run}", world.served.url));
    tab.until(&shows("Which way does it go on? · which"));
    click(&tab, "safe");
    tab.until(&shows("May it go on? · ask"));
    click(&tab, "approve");
    let view = world.until(&run, "succeeded");
    assert_eq!(crate::intent_runs::world::statuses(&view, &["last"]), ["succeeded"]);
    tab.until("document.querySelector('[data-question]') === null");
    is_well(&tab);
}
