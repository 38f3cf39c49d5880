//! A browser, driven by the DevTools protocol over a pipe: one JSON message after the other, each with a NUL
//! behind it. Dropping it ends the browser.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};
use zoolet_conformance::peers::CHROMIUM;

use crate::Outcome;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a browser is started until one answers: on a busy machine some end at once.
const STARTS_MAX: usize = 3;

/// How long a page may take until it shows what it must show.
const SHOWN_WITHIN_MS: u32 = 30_000;

/// The file of the profile to which it prints errors.
const COMPLAINTS: &str = "zoolet-stderr";

/// A browser with one page.
pub(crate) struct Browser {
    process: Child,
    /// The browser ends when this is closed.
    requests: Option<ChildStdin>,
    messages: Receiver<Value>,
    last_id: u64,
    /// The session of the protocol, once there is a page.
    session: Option<String>,
    events: Vec<Value>,
    /// Its files, with nothing of an earlier one.
    profile: tempfile::TempDir,
}

/// A colour scheme of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

impl Browser {
    /// Starts a browser with an empty page.
    pub(crate) fn start() -> Outcome<Self> {
        let mut starts = 1..STARTS_MAX;
        loop {
            let mut browser = Self::spawn()?;
            match browser.attach() {
                Ok(()) => return Ok(browser),
                Err(error) if starts.next().is_some() => println!("{error}; once again"),
                Err(error) => {
                    let complaints = std::fs::read_to_string(browser.complaints())?;
                    return Err(format!("{error}\n{complaints}").into());
                }
            }
        }
    }

    fn spawn() -> Outcome<Self> {
        let profile = tempfile::tempdir()?;
        let mut command = Command::new("sh");
        // The browser reads file 3 and writes file 4.
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null", CHROMIUM]);
        // The sandbox does not work for root, and the page is ours.
        command.args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.arg("--remote-debugging-pipe");
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let complaints = File::create(profile.path().join(COMPLAINTS))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(complaints);
        let mut process = command.spawn()?;
        let requests = process.stdin.take();
        let stdout = process.stdout.take().ok_or("its messages are piped")?;
        Ok(Self {
            process,
            requests,
            messages: received(stdout),
            last_id: 0,
            session: None,
            events: Vec::new(),
            profile,
        })
    }

    /// Opens the page and listens to it.
    fn attach(&mut self) -> Outcome<()> {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", &attach)?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(())
    }

    /// What the browser has printed as errors.
    fn complaints(&self) -> PathBuf {
        self.profile.path().join(COMPLAINTS)
    }

    /// Sends a command, and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Outcome<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let requests = self.requests.as_mut().ok_or("the browser has ended")?;
        write!(requests, "{message}\0")?;
        requests.flush()?;
        loop {
            let message = self.message(method)?;
            if message["id"] != id {
                self.events.push(message);
            } else if message["error"].is_null() {
                return Ok(message["result"].clone());
            } else {
                return Err(format!("{method}: {}", message["error"]).into());
            }
        }
    }

    /// Waits for an event.
    pub(crate) fn event(&mut self, method: &str) -> Outcome<Value> {
        let is_it = |event: &Value| event["method"] == method;
        let since = Instant::now();
        while !self.events.iter().any(is_it) {
            let message = self.message(method)?;
            self.events.push(message);
            if since.elapsed() > PATIENCE {
                return Err(format!("{method} does not come").into());
            }
        }
        let at = self.events.iter().position(is_it).ok_or("it has come")?;
        Ok(self.events.remove(at)["params"].take())
    }

    fn message(&self, awaited: &str) -> Outcome<Value> {
        self.messages.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("{awaited}: the browser does not answer").into(),
            RecvTimeoutError::Disconnected => format!("{awaited}: the browser has ended").into(),
        })
    }

    /// The events with these names that have come, and are taken out.
    pub(crate) fn take_events(&mut self, methods: &[&str]) -> Vec<Value> {
        let events = std::mem::take(&mut self.events);
        let is_it = |event: &Value| methods.iter().any(|method| event["method"] == *method);
        let (taken, left) = events.into_iter().partition(is_it);
        self.events = left;
        taken
    }

    /// The size of the window in CSS pixels, and the colours of the system.
    pub(crate) fn looks(&mut self, (width, height): (u32, u32), scheme: Scheme) -> Outcome<()> {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme.name() });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }))?;
        Ok(())
    }

    /// Loads a page.
    pub(crate) fn open(&mut self, url: &str) -> Outcome<()> {
        self.take_events(&["Page.loadEventFired"]);
        let opened = self.call("Page.navigate", &json!({ "url": url }))?;
        match opened["errorText"].as_str() {
            Some(error) => Err(format!("{url}: {error}").into()),
            None => self.event("Page.loadEventFired").map(drop),
        }
    }

    /// Goes to another place of the page, as a link would: what is behind the `#` of its address.
    pub(crate) fn go(&mut self, place: &str) -> Outcome<()> {
        self.value(&format!("void (location.hash = {})", json!(format!("#{place}")))).map(drop)
    }

    /// The value of an expression of JavaScript; of a promise, what it promises.
    pub(crate) fn value(&mut self, expression: &str) -> Outcome<Value> {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &parameters)?;
        let details = &answer["exceptionDetails"];
        if details.is_null() {
            return Ok(answer["result"]["value"].clone());
        }
        let thrown = details["exception"]["description"].as_str();
        Err(format!("{expression}: {}", thrown.unwrap_or_default()).into())
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, condition: &str) -> Outcome<()> {
        let waiting = format!(
            "new Promise((seen) => {{
                const from = performance.now();
                const look = () => {{
                    if ({condition}) seen(true);
                    else if (performance.now() - from > {SHOWN_WITHIN_MS}) seen(false);
                    else setTimeout(look, 10);
                }};
                look();
            }})"
        );
        if self.value(&waiting)? == json!(true) {
            return Ok(());
        }
        let text = self.value("document.body.innerText.slice(0, 4000)")?;
        let text = text.as_str().unwrap_or_default();
        Err(format!("{condition} is not so on the page\n{text}").into())
    }

    /// Presses a key that has a text.
    pub(crate) fn press(&mut self, key: &str) -> Outcome<()> {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { key } else { "" };
            self.call(
                "Input.dispatchKeyEvent",
                &json!({ "type": kind, "key": key, "text": text }),
            )?;
        }
        Ok(())
    }

    /// Presses Escape.
    pub(crate) fn escape(&mut self) -> Outcome<()> {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({ "type": kind, "key": "Escape", "code": "Escape",
                "windowsVirtualKeyCode": 27 });
            self.call("Input.dispatchKeyEvent", &key)?;
        }
        Ok(())
    }

    /// Writes what the window shows to a file.
    pub(crate) fn picture(&mut self, file: &Path) -> Outcome<()> {
        let answer = self.call("Page.captureScreenshot", &json!({ "format": "png" }))?;
        let text = answer["data"].as_str().ok_or("a picture has data")?;
        std::fs::write(file, base64::engine::general_purpose::STANDARD.decode(text)?)?;
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The program may be a script, so a signal would reach only that.
        drop(self.requests.take());
        let _ = self.process.wait();
    }
}

/// What the browser sends.
fn received(stdout: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || -> io::Result<()> {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut bytes = Vec::new();
            stdout.read_until(0, &mut bytes)?;
            if bytes.pop().is_none() {
                return Ok(());
            }
            let message = serde_json::from_slice(&bytes)?;
            if sender.send(message).is_err() {
                return Ok(());
            }
        }
    });
    receiver
}
