//! Chromium without a window, driven over the pipe that it offers for that: no driver program and no port are needed
//! beside Debian's own package. What is clicked is clicked with the mouse, where a person would.

use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How many times in a row something is found in one place before it is at rest.
const AT_REST: u32 = 8;

/// Longer than anything takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often something that is waited for is looked for.
const POLL: Duration = Duration::from_millis(50);
/// How long a click is waited for where it was meant to arrive.
const ARRIVAL: Duration = Duration::from_secs(1);

/// The middle of an element; or, as text, why nobody could click there now. What lies around it may take its clicks, as a
/// label does; what lies over it may not.
const MIDDLE: &str = "(it) => {
    if (!it) return 'it is not there';
    if (it.disabled) return 'it is disabled';
    if (it.getClientRects().length === 0) return 'it is not drawn';
    it.scrollIntoView({block: 'center'});
    const box = it.getBoundingClientRect(), at = {x: box.x + box.width / 2, y: box.y + box.height / 2};
    const hit = document.elementFromPoint(at.x, at.y);
    if (!hit) return 'it is outside of the screen';
    return it.contains(hit) || hit.contains(it) ? at : 'it is behind ' + hit.outerHTML.slice(0, 200);
}";

/// Keeps whether the next click arrives at an element, and where it does otherwise.
const WATCH_CLICK: &str = "(it) => {
    const box = it.getBoundingClientRect();
    const around = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const aimed = window.aimed = {hit: null};
    window.addEventListener('click', ({target}) => {
        aimed.hit = it.contains(target) || (around === target && target.contains(it)) || target.outerHTML.slice(0, 200);
    }, {capture: true, once: true});
}";

/// The program's name in Debian.
const PROGRAM: &str = "chromium";
/// Asks nobody anything, keeps nothing, and needs no kernel features: it sees nothing but pages of the tests.
const FLAGS: &str = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions \
    --disable-background-networking --disable-component-update --disable-sync --no-first-run --mute-audio \
    --no-default-browser-check --remote-debugging-pipe --window-size=1200,2400";

/// A browser; it ends with its test.
pub struct Chromium {
    process: Child,
    pipe: RefCell<Pipe>,
    _profile: tempfile::TempDir,
}

struct Pipe {
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
}

impl Chromium {
    /// Starts it; none if it is not installed, which is said.
    #[track_caller]
    pub fn start() -> Option<Chromium> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|dir| dir.join(PROGRAM).is_file()) {
            let reason = "chromium is not installed (Debian's package of that name)";
            assert!(!not_run::in_ci(), "{reason}");
            not_run::because(reason);
            return None;
        }
        let profile = tempfile::Builder::new().prefix("norma-chromium-").tempdir().unwrap();
        Some(Chromium::in_profile(profile))
    }

    fn in_profile(profile: tempfile::TempDir) -> Chromium {
        // It reads commands from descriptor 3 and answers on 4, each ended by a zero byte.
        let script = format!("exec {PROGRAM} {FLAGS} --user-data-dir=\"$0\" about:blank 3<&0 4>&1 0</dev/null 1>&2");
        let mut process = Command::new("sh")
            .args(["-c", &script])
            .arg(profile.path())
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_in(profile.path()))
            .process_group(0)
            .spawn()
            .unwrap();
        let (to, out) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (said, from) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(out).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { return };
                if said.send(message).is_err() {
                    return;
                }
            }
        });
        Chromium { process, pipe: RefCell::new(Pipe { to, from, last: 0 }), _profile: profile }
    }

    /// Asks for something, of a tab or of the browser itself.
    fn ask(&self, session: Option<&str>, method: &str, params: &Value) -> Value {
        let mut pipe = self.pipe.borrow_mut();
        pipe.last += 1;
        let id = pipe.last;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        pipe.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        pipe.to.flush().unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = pipe.from.recv_timeout(left).unwrap_or_else(|why| panic!("{method} is not answered: {why}"));
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Opens a tab at an address.
    pub fn open(&self, url: &str) -> Tab<'_> {
        let target = self.ask(None, "Target.createTarget", &json!({"url": "about:blank"}));
        let wish = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.ask(None, "Target.attachToTarget", &wish)["sessionId"].as_str().unwrap().to_owned();
        let tab = Tab { browser: self, session, target: target["targetId"].clone() };
        tab.go(url);
        tab
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Its own process group: everything that it started ends with it.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.process.wait();
    }
}

/// What it says of itself, for whoever looks why it does not start.
fn log_in(profile: &Path) -> Stdio {
    std::fs::File::create(profile.join("chromium.log")).map_or_else(|_| Stdio::null(), Stdio::from)
}

/// A page in the browser.
pub struct Tab<'b> {
    browser: &'b Chromium,
    session: String,
    target: Value,
}

impl Tab<'_> {
    fn ask(&self, method: &str, params: &Value) -> Value {
        self.browser.ask(Some(&self.session), method, params)
    }

    /// Goes to an address, as somebody who types it.
    pub fn go(&self, url: &str) {
        self.ask("Page.navigate", &json!({"url": url}));
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Loads the page again.
    pub fn reload(&self) {
        self.eval("window.isOld = true");
        self.ask("Page.reload", &json!({}));
        self.until("!window.isOld && document.readyState === 'complete'");
    }

    /// Closes it.
    pub fn close(self) {
        self.browser.ask(None, "Target.closeTarget", &json!({"targetId": self.target}));
    }

    /// The value of an expression in the page; what it promises is waited for.
    #[track_caller]
    pub fn eval(&self, expression: &str) -> Value {
        match self.try_eval(expression) {
            Ok(value) => value,
            Err(why) => panic!("{expression}: {why}"),
        }
    }

    /// The same, or what was thrown.
    pub fn try_eval(&self, expression: &str) -> Result<Value, String> {
        let wish = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", &wish);
        match &answer["exceptionDetails"] {
            Value::Null => Ok(answer["result"]["value"].clone()),
            thrown => Err(thrown["exception"]["description"].as_str().unwrap_or("thrown").to_owned()),
        }
    }

    /// Waits until an expression is true; what it waits for must come without further ado.
    #[track_caller]
    pub fn until(&self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        // A page that is being loaded has nothing of the one before, so what throws is asked again.
        while self.try_eval(expression) != Ok(Value::Bool(true)) {
            if Instant::now() > until {
                let shown =
                    "document.body.innerText + JSON.stringify(typeof page === 'undefined' ? {} : page, null, 1)";
                let shown = self.try_eval(shown).unwrap_or_default();
                panic!("{expression} does not hold:\n{}", shown.as_str().unwrap_or_default());
            }
            std::thread::sleep(POLL);
        }
    }

    /// The text of whatever a selector finds.
    #[track_caller]
    pub fn text(&self, selector: &str) -> String {
        let found = self.eval(&format!("document.querySelector({}).innerText", quoted(selector)));
        found.as_str().unwrap_or_default().to_owned()
    }

    /// How much a selector finds.
    #[track_caller]
    pub fn count(&self, selector: &str) -> u64 {
        self.eval(&format!("document.querySelectorAll({}).length", quoted(selector))).as_u64().unwrap_or_default()
    }

    /// Clicks on what a selector finds, once it is there.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        self.click_on(&found_by(selector));
    }

    /// Clicks on the element that an expression finds. Whoever sees that nothing was clicked looks where it is now and
    /// clicks again; what was clicked is never clicked twice.
    #[track_caller]
    pub fn click_on(&self, element: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let at = self.place(element);
            self.eval(&format!("({WATCH_CLICK})({element})"));
            self.mouse("mousePressed", &at);
            self.mouse("mouseReleased", &at);
            let Some(hit) = self.missed() else { return };
            assert!(Instant::now() < until, "it is never hit: {element}: {hit}");
        }
    }

    /// What was clicked in place of what was meant; none if the click has arrived there.
    fn missed(&self) -> Option<String> {
        let until = Instant::now() + ARRIVAL;
        loop {
            // A page that was left has nothing of what was watched in it: the click has arrived.
            let seen = self.try_eval("window.aimed ? window.aimed.hit : true").unwrap_or_default();
            if seen == Value::Bool(true) {
                return None;
            }
            if Instant::now() > until {
                return Some(seen.as_str().unwrap_or("nothing was clicked").to_owned());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Drags what one selector finds to what another one does.
    #[track_caller]
    pub fn drag(&self, from: &str, to: &str) {
        let at = self.place(&found_by(from));
        self.mouse("mousePressed", &at);
        let at = self.place(&found_by(to));
        self.mouse("mouseReleased", &at);
    }

    /// Types into a field, in place of what is there.
    #[track_caller]
    pub fn fill(&self, selector: &str, text: &str) {
        self.click(selector);
        let field = found_by(selector);
        self.until(&format!("document.activeElement === {field}"));
        self.eval(&format!("{field}.select()"));
        self.ask("Input.insertText", &json!({"text": text}));
    }

    /// Presses a key, such as `Enter`, `n` or `Shift+N`, where the focus is.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        let (held, key) = keys.rsplit_once('+').filter(|(held, _)| !held.is_empty()).unwrap_or(("", keys));
        let modifier = |name: &str| held.split('+').any(|it| it == name);
        let modifiers =
            i32::from(modifier("Alt")) | i32::from(modifier("Control")) << 1 | i32::from(modifier("Shift")) << 3;
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            "Delete" => 46,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => other.chars().next().map_or(0, |c| c.to_ascii_uppercase() as u32),
        };
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 && !modifier("Control") => key,
            _ => "",
        };
        let wish = |kind: &str, text: &str| json!({"type": kind, "key": key, "modifiers": modifiers, "windowsVirtualKeyCode": code, "text": text});
        self.ask("Input.dispatchKeyEvent", &wish("keyDown", text));
        self.ask("Input.dispatchKeyEvent", &wish("keyUp", ""));
    }

    /// Types where the focus is.
    pub fn write(&self, text: &str) {
        self.ask("Input.insertText", &json!({ "text": text }));
    }

    /// Has a field for files choose one.
    #[track_caller]
    pub fn choose(&self, selector: &str, file: &Path) {
        self.until(&format!("document.querySelector({}) !== null", quoted(selector)));
        let found = self
            .ask("Runtime.evaluate", &json!({"expression": format!("document.querySelector({})", quoted(selector))}));
        let wish = json!({"objectId": found["result"]["objectId"], "files": [file]});
        self.ask("DOM.setFileInputFiles", &wish);
    }

    /// Has every page that is opened from now on run a script before its own.
    pub fn before_each_page(&self, script: &str) {
        self.ask("Page.enable", &json!({}));
        self.ask("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    /// Has the page be seen on a screen of this size, by somebody who wants it dark or light.
    pub fn screen(&self, width: u32, height: u32, is_dark: bool) {
        let wish = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", &wish);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// What the screen shows, as WebP in base64: a third of what a PNG has.
    pub fn picture(&self) -> String {
        let answer = self.ask("Page.captureScreenshot", &json!({"format": "webp", "quality": 25}));
        answer["data"].as_str().unwrap_or_default().to_owned()
    }

    /// Moves the mouse onto the middle of an element that can be clicked; answers where that is.
    #[track_caller]
    fn place(&self, element: &str) -> Value {
        let at = self.at_rest(&format!("({MIDDLE})({element})"));
        self.mouse("mouseMoved", &at);
        at
    }

    /// Where something is once it does not move any more: a graph glides into its place, and whoever has a mouse waits for it.
    #[track_caller]
    fn at_rest(&self, expression: &str) -> Value {
        let (until, mut last, mut same) = (Instant::now() + PATIENCE, Value::Null, 0);
        loop {
            let at = self.try_eval(expression).unwrap_or_default();
            same = if at.is_object() && at == last { same + 1 } else { 0 };
            if same == AT_REST {
                return at;
            }
            if Instant::now() > until {
                let shown = self.try_eval("document.body.innerText").unwrap_or_default();
                panic!("it never comes to rest: {expression}: {at}\n{}", shown.as_str().unwrap_or_default());
            }
            last = at;
            std::thread::sleep(POLL);
        }
    }

    fn mouse(&self, kind: &str, at: &Value) {
        let buttons = i32::from(kind != "mouseReleased");
        let wish =
            json!({"type": kind, "x": at["x"], "y": at["y"], "button": "left", "buttons": buttons, "clickCount": 1});
        self.ask("Input.dispatchMouseEvent", &wish);
    }
}

/// The element that a selector finds, as an expression.
fn found_by(selector: &str) -> String {
    format!("document.querySelector({})", quoted(selector))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
