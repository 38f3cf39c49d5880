//! What is wrong with a page, whichever it is: what the browser complains of, whom it asks, what does not fit
//! the window, and what a screen reader could not name.

use serde_json::{Value, json};

use crate::Outcome;
use crate::browser::Browser;

/// Roles of what a person can use. Each must have a name.
const USED: [&str; 14] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "checkbox",
    "radio",
    "combobox",
    "listbox",
    "tab",
    "tabpanel",
    "slider",
    "switch",
    "image",
    "dialog",
];

/// What the browser has complained of since the last call, and whom else than `origin` it has asked.
pub(crate) fn complaints(browser: &mut Browser, origin: &str) -> Vec<String> {
    let events = browser.take_events(&[
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
        "Log.entryAdded",
        "Network.requestWillBeSent",
        "Network.webSocketCreated",
    ]);
    events.iter().filter_map(|event| complaint(event, origin)).collect()
}

fn complaint(event: &Value, origin: &str) -> Option<String> {
    let told = &event["params"];
    match event["method"].as_str().unwrap_or_default() {
        "Runtime.consoleAPICalled" => {
            let is_wrong = ["error", "warning", "assert"].iter().any(|kind| told["type"] == *kind);
            is_wrong.then(|| format!("console: {}", told["args"]))
        }
        "Runtime.exceptionThrown" => Some(format!("exception: {}", told["exceptionDetails"])),
        "Log.entryAdded" => {
            let level = told["entry"]["level"].as_str().unwrap_or_default();
            ["error", "warning"].contains(&level).then(|| format!("log: {}", told["entry"]))
        }
        "Network.requestWillBeSent" => {
            let url = told["request"]["url"].as_str().unwrap_or_default();
            let is_own = url.strip_prefix(origin).is_some_and(|rest| rest.starts_with('/'));
            (!is_own).then(|| format!("request to {url}"))
        }
        _ => Some(format!("request to {}", told["url"])),
    }
}

/// By how many pixels the page is wider than the window.
pub(crate) fn overflow(browser: &mut Browser) -> Outcome<i64> {
    let width = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth";
    Ok(browser.value(width)?.as_i64().ok_or("a width is a number")?)
}

/// What a person can use and a screen reader cannot name.
pub(crate) fn unnamed(browser: &mut Browser) -> Outcome<Vec<String>> {
    let tree = browser.call("Accessibility.getFullAXTree", &json!({}))?;
    let nodes = tree["nodes"].as_array().ok_or("a tree has nodes")?;
    let is_unnamed = |node: &&Value| {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let name = node["name"]["value"].as_str().unwrap_or_default();
        node["ignored"] != true && USED.contains(&role) && name.trim().is_empty()
    };
    Ok(nodes.iter().filter(is_unnamed).map(|node| node["role"]["value"].to_string()).collect())
}

/// Fails unless nothing is wrong. `about` says where, and how.
pub(crate) fn nothing_is_wrong(browser: &mut Browser, origin: &str, about: &str) -> Outcome<()> {
    let mut wrong: Vec<_> =
        unnamed(browser)?.iter().map(|role| format!("a {role} without a name")).collect();
    match overflow(browser)? {
        0 => {}
        pixels => wrong.push(format!("{pixels} pixels wider than the window")),
    }
    // What the page itself has done was told before these answers.
    wrong.extend(complaints(browser, origin));
    if wrong.is_empty() { Ok(()) } else { Err(format!("{about}: {}", wrong.join("\n")).into()) }
}

/// A page with one of each defect, with what is told of it.
const DEFECTS: [(&str, &str); 8] = [
    ("<script>console.error('one')</script>", "console: "),
    ("<script>console.warn('one')</script>", "console: "),
    ("<script>throw new Error('one')</script>", "exception: "),
    ("<script>Promise.reject(new Error('one'))</script>", "exception: "),
    ("<img alt='one' src='http://127.0.0.1:9/elsewhere.png'>", "request to http://127.0.0.1:9/"),
    ("<div style='width: 401px; height: 1px'></div>", "1 pixels wider"),
    ("<button></button>", "\"button\" without a name"),
    ("<input>", "\"textbox\" without a name"),
];

/// The checks can fail: each finds the defect that it is for, and a page without one has none.
pub(crate) fn find_defects() -> Outcome<()> {
    let mut browser = Browser::start()?;
    browser.looks((400, 800), crate::browser::Scheme::Light)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("page.html");
    let origin = "file://";
    let url = format!("{origin}{}", file.display());
    let mut opened = |content: &str| -> Outcome<String> {
        let page = format!("<!doctype html><title>x</title><body style='margin: 0'>{content}");
        std::fs::write(&file, page)?;
        browser.open(&url)?;
        match nothing_is_wrong(&mut browser, origin, "page") {
            Ok(()) => Ok(String::new()),
            Err(wrong) => Ok(wrong.to_string()),
        }
    };
    assert_eq!(opened("<button>one</button>")?, "");
    for (content, told) in DEFECTS {
        let wrong = opened(content)?;
        assert!(wrong.contains(told), "{content}: {wrong}");
    }
    Ok(())
}
