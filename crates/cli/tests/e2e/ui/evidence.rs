//! What the page checks of a bundle, held to `norma-verify` on the same files: good ones, and ones with a byte changed.

use super::world::{click, is_well, page, repository};
use crate::environment::{TestEnvironment, norma_verify};
use crate::serve::{Served, serve};
use std::path::PathBuf;
use std::process::Command;
use wire_page::Chromium;

/// A run that has landed, its bundle, and the key that signed it.
fn bundled() -> (TestEnvironment, Served, PathBuf, String) {
    let env = repository();
    let run =
        ["run", "greet quietly", "--agent", "worker", "--allow", "src", "--test", "python3 tests/greet.py", "--yes"];
    env.norma(&run).success();
    let bundle = env.dir.join("bundle.tar");
    env.norma(&["export", "@last", "-o", &bundle.display().to_string()]).success();
    let keys = env.dir.join("keys");
    std::fs::create_dir(&keys).unwrap();
    let pem = env.norma(&["keys", "export"]).success().raw.clone();
    std::fs::write(keys.join("ours.pem"), &pem).unwrap();
    let served = serve(&env);
    (env, served, bundle, pem)
}

/// Whether the program for that finds nothing wrong with a bundle.
fn holds(env: &TestEnvironment, bundle: &std::path::Path) -> bool {
    let checked = Command::new(norma_verify()).arg("--trust").arg(env.dir.join("keys")).arg(bundle).output().unwrap();
    checked.status.success()
}

#[test]
fn a_bundle_is_verified_in_the_browser_and_a_tampered_one_is_refused() {
    let Some(browser) = Chromium::start() else { return };
    let (env, served, bundle, pem) = bundled();
    let tab = page(&browser, &served);
    tab.click("[data-run]");
    tab.until("document.querySelector('[data-testid=situation]') !== null");
    tab.press("e");
    click(&tab, "Verify in this browser");
    tab.until("document.querySelector('[data-testid=report]')?.dataset.verified === 'true'");
    assert!(tab.text("[data-testid=report]").to_lowercase().contains("not checked here"));
    // What held the agent is among the files of a bundle that was checked.
    tab.until(
        "document.querySelector('[data-testid=contents]')?.textContent.includes('run/steps/001-worker/sandbox.json')",
    );
    // What was asked for and what held, turn by turn.
    tab.until("document.querySelector('[data-testid=turns]')?.innerText.includes('level')");
    let turn = tab.text("[data-testid=turns]");
    assert!(turn.contains("Effective") && turn.contains("no new privileges") && turn.contains("no attempt"), "{turn}");
    click(&tab, "Judge again on its evidence");
    tab.until("document.querySelector('[data-testid=replay]')?.innerText.includes('pass')");
    click(&tab, "Ask the server");
    tab.until("document.querySelector('[data-testid=server-report]')?.innerText.includes('Verified')");
    click(&tab, "Verify a bundle");
    tab.fill("main textarea", &pem);
    tab.choose("[name=bundle]", &bundle);
    tab.until("document.querySelector('[data-testid=report]')?.dataset.verified === 'true'");
    assert!(holds(&env, &bundle));
    let mut bytes = std::fs::read(&bundle).unwrap();
    let at = bytes.windows(13).position(|part| part == b"event_type\":\"").unwrap();
    bytes[at + 14] ^= 1;
    let bad = env.dir.join("tampered.tar");
    std::fs::write(&bad, &bytes).unwrap();
    tab.choose("[name=bundle]", &bad);
    tab.until("document.querySelector('[data-testid=report]')?.dataset.verified === 'false'");
    assert!(tab.text("[data-testid=report]").contains("run/events.jsonl differs from index.json"));
    assert!(!holds(&env, &bad));
    is_well(&tab);
}

#[test]
fn what_a_contract_binds_is_shown_to_be_read_only() {
    let Some(browser) = Chromium::start() else { return };
    let env = crate::batches::with_worker("mkdir -p src && echo new > src/new.txt");
    let contract = ["contract", "new", "--goal", "make it new", "--allow", "src/new.txt", "-o", "fix.json"];
    env.norma(&[&contract[..], &["--test", "test -f src/new.txt"]].concat()).success();
    env.norma(&["run", "fix.json"]);
    let served = serve(&env);
    let tab = page(&browser, &served);
    tab.go(&format!("{}/run/{}/evidence", served.url, env.last()["run_id"].as_str().unwrap()));
    tab.until("document.querySelector('[data-testid=read-models]') !== null");
    let shown = tab.text("[data-testid=read-models]");
    for model in ["role_binding_read_model", "workflow_case_read_model"] {
        assert!(shown.contains(model), "{model} in {shown}");
    }
    assert_eq!(shown.matches("execution_authority = task_contract").count(), 2, "{shown}");
    assert_eq!(
        tab.eval("document.querySelectorAll('[data-testid=read-models] :is(input, select, textarea)').length"),
        0
    );
    is_well(&tab);
}

/// How many bundles with a changed byte both are asked about.
const TAMPERED: usize = 60;

#[test]
fn the_page_refuses_every_bundle_that_norma_verify_refuses_for_a_changed_byte() {
    let Some(browser) = Chromium::start() else { return };
    let (env, served, bundle, pem) = bundled();
    let good = std::fs::read(&bundle).unwrap();
    let tab = page(&browser, &served);
    tab.eval("import('/a/verify.js').then((it) => { window.verify = it.verify; })");
    let path = "fetch('/api/runs/' + document.querySelector('[data-run]').dataset.run + '/bundle')";
    tab.until("document.querySelector('[data-run]') !== null");
    tab.eval(&format!("{path}.then((it) => it.arrayBuffer()).then((it) => {{ window.good = new Uint8Array(it); }})"));
    assert_eq!(tab.eval("good.length"), good.len());
    let pem = serde_json::json!([pem]);
    assert_eq!(tab.eval(&format!("verify(good, {pem}).then((it) => it.verified)")), true);
    // Another key than the one that signed is not enough.
    let other = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n-----END PUBLIC KEY-----\n";
    let report = tab.eval(&format!("verify(good, {})", serde_json::json!([other])));
    assert_eq!(report["verified"], false);
    let bad = env.dir.join("bad.tar");
    for number in 0..TAMPERED {
        let at = number * (good.len() - 1) / (TAMPERED - 1);
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (number % 8);
        std::fs::write(&bad, &bytes).unwrap();
        let changed = format!(
            "(() => {{ const it = good.slice(); it[{at}] ^= {}; return verify(it, {pem}); }})()",
            1 << (number % 8)
        );
        let report = tab.eval(&changed);
        assert_eq!((&report["verified"], holds(&env, &bad)), (&false.into(), false), "byte {at}: {report:#}");
    }
    for length in [0, 511, 512, good.len() / 2, good.len() - 512, good.len() - 1] {
        std::fs::write(&bad, &good[..length]).unwrap();
        let report = tab.eval(&format!("verify(good.slice(0, {length}), {pem})"));
        assert_eq!((&report["verified"], holds(&env, &bad)), (&false.into(), false), "{length} bytes: {report:#}");
    }
    is_well(&tab);
}
