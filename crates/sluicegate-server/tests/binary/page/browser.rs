//! Chromium, driven by its DevTools protocol over a pipe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sluicegate_testkit::servers::find_tool;
use sluicegate_testkit::wait::until_seldom;
use tempfile::TempDir;

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A new browser with one open page. It is killed when dropped.
pub(super) struct Browser {
    child: Child,
    calls: ChildStdin,
    answers: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    /// Errors, exceptions and dialogs of the page.
    complaints: Vec<String>,
    /// The requests that may fail, as the ends of their addresses.
    may_fail: Vec<&'static str>,
    folder: TempDir,
}

impl Browser {
    /// Starts a browser whose window has this size.
    pub(super) fn start(width: u32, height: u32) -> Self {
        let program = find_tool("chromium").unwrap_or_else(|error| {
            panic!("the tests of the page need Chromium: install the package chromium, or run `cargo xtask setup`: {error}")
        });
        let folder = tempfile::tempdir().unwrap();
        // The protocol's pipe has the descriptors 3 and 4, which only a shell can give without unsafe code.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args([
            "--no-first-run",
            "--disable-background-networking",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        command.arg("about:blank");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let calls = child.stdin.take().unwrap();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let sent = serde_json::from_slice(&message).map(|value| sender.send(value));
                if !matches!(sent, Ok(Ok(()))) {
                    break;
                }
                message.clear();
            }
        });
        let (complaints, may_fail) = (Vec::new(), Vec::new());
        let mut browser =
            Self { child, calls, answers, last_id: 0, session: None, complaints, may_fail, folder };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let to = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", to);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Accessibility", "DOM"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(width, height);
        browser
    }

    /// Lets requests fail whose address has this part.
    pub(super) fn may_fail(&mut self, part: &'static str) {
        self.may_fail.push(part);
    }

    /// Calls a method of the protocol, and returns its result.
    #[expect(clippy::needless_pass_by_value, reason = "callers build the value in place")]
    #[track_caller]
    pub(super) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.calls.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.answers.recv_timeout(PATIENCE);
            let answer = answer.unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.hear(&answer);
        }
    }

    /// Takes an event.
    fn hear(&mut self, event: &Value) {
        let of = &event["params"];
        let complaint = match event["method"].as_str().unwrap_or_default() {
            "Log.entryAdded" if of["entry"]["level"] == "error" => {
                let url = of["entry"]["url"].as_str().unwrap_or_default();
                let is_request = of["entry"]["source"] == "network";
                let is_expected = is_request && self.may_fail.iter().any(|part| url.contains(part));
                (!is_expected).then(|| of["entry"].to_string())
            }
            "Runtime.exceptionThrown" => Some(of["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" => Some(of.to_string()),
            "Page.javascriptDialogOpening" => Some(format!("a dialog: {of}")),
            _ => None,
        };
        self.complaints.extend(complaint);
    }

    /// Opens an address.
    pub(super) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    pub(super) fn resize(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets what the operator prefers: `prefers-color-scheme`, for example.
    pub(super) fn prefer(&mut self, name: &str, value: &str) {
        let features = json!({"features": [{"name": name, "value": value}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Returns the value of an expression, after its promise was kept.
    #[track_caller]
    pub(super) fn eval(&mut self, expression: &str) -> Value {
        let of = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", of);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true. `what` says what for.
    #[track_caller]
    pub(super) fn wait(&mut self, what: &str, expression: &str) {
        until_seldom(what, || {
            if self.eval(&format!("Boolean({expression})")) == true {
                return Ok(());
            }
            Err(self.text("body"))
        });
    }

    /// Waits until an element's text has this part.
    #[track_caller]
    pub(super) fn wait_for(&mut self, selector: &str, part: &str) {
        let what = format!("{selector} has {part:?}");
        let (selector, part) = (json!(selector), json!(part));
        self.wait(
            &what,
            &format!("[...document.querySelectorAll({selector})].some(node => node.innerText.includes({part}))"),
        );
    }

    /// Returns the text that an element shows, or an empty one without the element.
    pub(super) fn text(&mut self, selector: &str) -> String {
        let of = format!("document.querySelector({})?.innerText ?? ''", json!(selector));
        self.eval(&of).as_str().unwrap_or_default().to_owned()
    }

    /// Clicks the button or link of this text in an element.
    #[track_caller]
    pub(super) fn click(&mut self, within: &str, text: &str) {
        let find = format!(
            "[...document.querySelectorAll({})].flatMap(node => [...node.querySelectorAll('button, a, summary')])\
             .find(node => node.innerText.trim().startsWith({}) && !node.closest('[hidden]'))",
            json!(within),
            json!(text)
        );
        self.wait(&format!("{text} in {within}"), &find);
        self.eval(&format!("{find}.click()"));
    }

    /// Writes into a field, as an operator does.
    #[track_caller]
    pub(super) fn fill(&mut self, selector: &str, text: &str) {
        let of = format!(
            "(() => {{ const field = document.querySelector({}); field.value = {}; \
             field.dispatchEvent(new Event('input', {{bubbles: true}})); }})()",
            json!(selector),
            json!(text)
        );
        self.eval(&of);
    }

    /// Writes into the field with this label.
    #[track_caller]
    pub(super) fn fill_field(&mut self, within: &str, label: &str, text: &str) {
        let mark = format!(
            "(() => {{ const of = [...document.querySelectorAll({})].find(label => label.querySelector('span')?.innerText === {}); \
             document.querySelector('[data-test]')?.removeAttribute('data-test'); \
             of.querySelector('input, select, textarea').setAttribute('data-test', ''); }})()",
            json!(format!("{within} label.field")),
            json!(label)
        );
        self.eval(&mark);
        self.fill("[data-test]", text);
    }

    /// Presses a key.
    pub(super) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            _ => panic!("no test presses {key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let of = json!({"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", of);
        }
    }

    /// Presses Tab until the focus is on an element whose name begins so.
    #[track_caller]
    pub(super) fn tab_to(&mut self, name: &str) {
        for _ in 0..200 {
            self.press("Tab");
            let focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText ?? ''";
            let focused = self.eval(focused);
            if focused.as_str().unwrap_or_default().trim().starts_with(name) {
                return;
            }
        }
        panic!("Tab doesn't reach {name}");
    }

    /// Moves the pointer.
    pub(super) fn point(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// Returns the roles and names that a screen reader gets.
    pub(super) fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != true);
        let text = |of: &Value| of["value"].as_str().unwrap_or_default().to_owned();
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Returns a picture of the window, in PNG.
    #[track_caller]
    pub(super) fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// Waits until the page has saved a file, and returns its name and text.
    pub(super) fn downloaded(&mut self, click: impl FnOnce(&mut Self)) -> (String, String) {
        let folder = self.folder.path().join("downloads");
        std::fs::create_dir_all(&folder).unwrap();
        let to = json!({"behavior": "allow", "downloadPath": folder});
        let session = self.session.take();
        self.call("Browser.setDownloadBehavior", to);
        self.session = session;
        click(self);
        until_seldom("the file", || {
            // Chromium renames the file when it is complete.
            let mut entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
            let done =
                entries.find(|entry| entry.path().extension().is_some_and(|end| end == "jsonl"));
            let done = done.ok_or("no file")?;
            let text = std::fs::read_to_string(done.path()).map_err(|_| "no text")?;
            Ok::<_, &str>((done.file_name().into_string().unwrap(), text))
        })
    }

    /// Checks that the page did nothing that it must not do.
    #[track_caller]
    pub(super) fn finish(mut self) {
        // Events that happened before this answer have arrived.
        self.eval("1");
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
