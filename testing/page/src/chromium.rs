//! Chromium without a window, driven by Playwright (`driver/driver.mjs`): it clicks and types as a person would, once an
//! element is drawn, at rest and not covered. Starting Node and a browser costs more than most tests do with them, so tests
//! that run at the same time share both; each has a browser context of its own, with its own cookies and storage.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// More than the driver waits for anything, since its errors say what was missing.
const PATIENCE: Duration = Duration::from_secs(120);
/// The program's name in Debian.
const PROGRAM: &str = "chromium";
/// Where `cargo xtask playwright` installs Playwright, and what it writes there last.
const PLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/playwright");
const STAMP: &str = "installed.sha256";
const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/driver/driver.mjs");
/// Its standard error, for whoever looks why it does not start.
const LOG: &str = "driver.log";

/// The driver of the tests that run now, if any of them has one.
static SHARED: Mutex<Weak<Driver>> = Mutex::new(Weak::new());

/// Numbers requests, browser contexts and tabs.
fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// The program that drives a browser. Both end with the last test that uses them, and with the test program.
struct Driver {
    process: Mutex<Child>,
    waiting: Waiting,
    home: tempfile::TempDir,
}

/// Who waits for an answer, by the id of the request.
type Waiting = Arc<Mutex<HashMap<u64, Sender<Value>>>>;

impl Driver {
    /// The one in use, or a new one; or what is not installed.
    fn shared() -> Result<Arc<Driver>, &'static str> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path).map(|dir| dir.join(PROGRAM)).find(|program| program.is_file());
        let program = program.ok_or("chromium is not installed (Debian's package of that name)")?;
        if !Path::new(PLACE).join(STAMP).is_file() {
            return Err("Playwright is not installed (cargo xtask playwright)");
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(shared.upgrade().unwrap_or_else(|| {
            let driver = Arc::new(Driver::start(&program));
            *shared = Arc::downgrade(&driver);
            driver
        }))
    }

    fn start(program: &Path) -> Driver {
        let home = tempfile::Builder::new().prefix("norma-chromium-").tempdir().unwrap();
        let mut process = Command::new("node")
            .arg(DRIVER)
            .arg(Path::new(PLACE).join("node_modules/playwright-core/index.mjs"))
            .arg(program)
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(home.path().join(LOG)).unwrap())
            .spawn()
            .unwrap();
        let waiting = Waiting::default();
        let (out, answered) = (process.stdout.take().unwrap(), Arc::clone(&waiting));
        std::thread::spawn(move || pass_on(out, &answered));
        Driver { process: Mutex::new(process), waiting, home }
    }

    /// Sends a request and waits for its answer; an error says what went wrong and what the page showed.
    fn ask(&self, mut request: Value) -> Result<Value, String> {
        let (id, (sender, answer)) = (number(), channel());
        request["id"] = json!(id);
        self.waiting.lock().unwrap().insert(id, sender);
        if self.send(&request).is_err() {
            self.waiting.lock().unwrap().clear();
        }
        let answer = answer.recv_timeout(PATIENCE).map_err(|why| {
            let log = fs::read_to_string(self.home.path().join(LOG)).unwrap_or_default();
            format!("no answer: {why}\n{log}")
        })?;
        answer["error"].as_str().map_or(Ok(answer["value"].clone()), |why| Err(why.to_owned()))
    }

    fn send(&self, request: &Value) -> io::Result<()> {
        let mut process = self.process.lock().unwrap();
        writeln!(process.stdin.as_mut().expect("BUG: it is closed on drop"), "{request}")
    }
}

/// Passes answers on until the driver ends; whoever still waits then is told.
fn pass_on(out: ChildStdout, waiting: &Waiting) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        let Ok(answer) = serde_json::from_str::<Value>(&line) else { break };
        let sender = answer["id"].as_u64().and_then(|id| waiting.lock().unwrap().remove(&id));
        let _ = sender.map(|sender| sender.send(answer));
    }
    waiting.lock().unwrap().clear();
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Closes its standard input first, at whose end it kills the browser, which has a process group of its own.
        let _ = self.process.get_mut().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

/// A browser of one test, with cookies and storage of its own; it ends with the test.
pub struct Chromium {
    driver: Arc<Driver>,
    number: u64,
}

impl Chromium {
    /// Starts it; none if it is not installed, which is said.
    #[track_caller]
    pub fn start() -> Option<Chromium> {
        match Driver::shared() {
            Ok(driver) => Some(Chromium { driver, number: number() }),
            Err(reason) => {
                assert!(!not_run::in_ci(), "{reason}");
                not_run::because(reason);
                None
            }
        }
    }

    /// Opens a tab at an address.
    #[track_caller]
    pub fn open(&self, url: &str) -> Tab<'_> {
        let tab = Tab { browser: self, number: number() };
        tab.call("open", json!([]));
        tab.go(url);
        tab
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.driver.send(&json!({"test": self.number, "call": "leave"}));
    }
}

/// A page in the browser. Its calls are those of Playwright's `Page`, and a few of the driver's own.
pub struct Tab<'b> {
    browser: &'b Chromium,
    number: u64,
}

impl Tab<'_> {
    fn try_call(&self, call: &str, args: Value) -> Result<Value, String> {
        let Chromium { driver, number } = self.browser;
        driver.ask(json!({"test": number, "tab": self.number, "call": call, "args": args}))
    }

    #[track_caller]
    fn call(&self, call: &str, args: Value) -> Value {
        match self.try_call(call, args.clone()) {
            Ok(value) => value,
            Err(why) => panic!("{call} {args}: {why}"),
        }
    }

    /// Goes to an address, as somebody who types it.
    #[track_caller]
    pub fn go(&self, url: &str) {
        self.call("goto", json!([url]));
    }

    /// Loads the page again.
    #[track_caller]
    pub fn reload(&self) {
        self.call("reload", json!([]));
    }

    /// Closes it.
    #[track_caller]
    pub fn close(self) {
        self.call("close", json!([]));
    }

    /// The value of an expression in the page; what it promises is waited for.
    #[track_caller]
    pub fn eval(&self, expression: &str) -> Value {
        self.call("evaluate", json!([expression]))
    }

    /// The same, or what was thrown.
    pub fn try_eval(&self, expression: &str) -> Result<Value, String> {
        self.try_call("evaluate", json!([expression]))
    }

    /// Waits until an expression is true; what it waits for must come without further ado.
    #[track_caller]
    pub fn until(&self, expression: &str) {
        self.call("until", json!([expression]));
    }

    /// The text of whatever a selector finds, once it is there.
    #[track_caller]
    pub fn text(&self, selector: &str) -> String {
        self.call("innerText", json!([selector])).as_str().unwrap_or_default().to_owned()
    }

    /// How much a selector finds.
    #[track_caller]
    pub fn count(&self, selector: &str) -> u64 {
        self.eval(&format!("document.querySelectorAll({}).length", json!(selector))).as_u64().unwrap_or_default()
    }

    /// Clicks on what a selector finds, once it can be clicked.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        self.call("click", json!([selector]));
    }

    /// The same for the first that is drawn and whose text is this name.
    #[track_caller]
    pub fn click_named(&self, selector: &str, name: &str) {
        self.call("clickNamed", json!([selector, name]));
    }

    /// Drags what one selector finds to what another one does.
    #[track_caller]
    pub fn drag(&self, from: &str, to: &str) {
        self.call("dragAndDrop", json!([from, to]));
    }

    /// Types into a field, in place of what is there.
    #[track_caller]
    pub fn fill(&self, selector: &str, text: &str) {
        self.call("fill", json!([selector, text]));
    }

    /// Presses a key, such as `Enter`, `n` or `Shift+N`, where the focus is.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        self.call("keyboard.press", json!([keys]));
    }

    /// Types where the focus is.
    #[track_caller]
    pub fn write(&self, text: &str) {
        self.call("keyboard.insertText", json!([text]));
    }

    /// Has a field for files choose one.
    #[track_caller]
    pub fn choose(&self, selector: &str, file: &Path) {
        self.call("setInputFiles", json!([selector, file]));
    }

    /// Has every page that is opened from now on run a script before its own.
    #[track_caller]
    pub fn before_each_page(&self, script: &str) {
        self.call("addInitScript", json!([script]));
    }

    /// Has the page be seen on a screen of this size, by somebody who wants it dark or light.
    #[track_caller]
    pub fn screen(&self, width: u32, height: u32, is_dark: bool) {
        self.call("setViewportSize", json!([{"width": width, "height": height}]));
        self.call("emulateMedia", json!([{"colorScheme": if is_dark { "dark" } else { "light" }}]));
    }

    /// Begins a trace of the browser; one at a time.
    #[track_caller]
    pub fn trace(&self) {
        self.call("trace", json!([]));
    }

    /// Ends it: how long each press of a key and each click took, from its dispatch to the end of the frame that the page
    /// made next, in milliseconds.
    #[track_caller]
    pub fn traced(&self) -> Vec<f64> {
        let took = self.call("traced", json!([]));
        took.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    }

    /// What the screen shows, as WebP in base64.
    #[track_caller]
    pub fn picture(&self) -> String {
        self.call("picture", json!([])).as_str().unwrap_or_default().to_owned()
    }
}
