//! Every view with data, in every size and colour scheme, and what it says without data.

use std::path::PathBuf;

use serde_json::json;

use crate::Outcome;
use crate::browser::{Browser, Scheme};
use crate::checks::{complaints, nothing_is_wrong};
use crate::scene::{CARTS, FEATURE, HOSTILE, HOSTILE_PATH, Scene, WAITERS, WATCHERS};

/// A telephone, and a screen.
const SIZES: [(u32, u32); 2] = [(400, 860), (1400, 900)];

/// The picture of the README, and how long its file may be.
const PICTURE: (u32, u32) = (1000, 720);
const PICTURE_BYTES_MAX: u64 = 150_000;

/// A view: its name, its address behind the `#`, and what is true when it shows what the server has.
struct View {
    name: &'static str,
    address: &'static str,
    shows: fn() -> String,
}

const VIEWS: [View; 7] = [
    View {
        name: "locks",
        address: "locks",
        shows: || {
            let cycle = "document.querySelector('.cycle') && document.querySelector('.in-cycle')";
            let wait = format!("document.querySelectorAll('.place.waits').length >= {WAITERS} + 4");
            format!("{cycle} && {wait} && {}", has_text("/shop/stock/4711"))
        },
    },
    View {
        name: "sessions",
        address: "sessions",
        shows: || format!("{} && {}", has_rows(WAITERS + WATCHERS), has_text("/shop/catalogue")),
    },
    View {
        name: "watches",
        address: "watches",
        shows: || format!("{} && {}", has_rows(1), has_text("/shop/features/checkout")),
    },
    View {
        name: "tree",
        address: "tree:%2Fshop%2Ffeatures%2Fcheckout",
        shows: || format!("{} && {}", has_text(FEATURE), has_text("version of the data")),
    },
    View {
        name: "charts",
        address: "charts",
        // A line has two points when there were two looks.
        shows: || "document.querySelectorAll('figure path[d*=L]').length >= 7".to_owned(),
    },
    View {
        name: "findings",
        address: "findings",
        shows: || "document.querySelector('.finding.critical')".to_owned(),
    },
    View {
        name: "events",
        address: "events",
        shows: || {
            let made = format!("{} && {}", has_text("+ created"), has_text("− deleted"));
            format!("{made} && {}", has_text(CARTS))
        },
    },
];

/// Whether the view has a text.
fn has_text(text: &str) -> String {
    format!("document.querySelector('#view').innerText.includes({})", json!(text))
}

/// Whether the view has so many rows of a table.
fn has_rows(count: usize) -> String {
    format!("document.querySelectorAll('#view tbody tr').length >= {count}")
}

/// Where pictures of the views are left for people to look at.
fn pictures() -> Outcome<PathBuf> {
    let folder = std::env::var_os("ZOOLET_CONSOLE_PICTURES").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console"));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Every view shows its data. The browser complains of nothing, asks nobody else, and shows it without a
/// bar to scroll sideways; a screen reader can name all that can be used.
pub(crate) fn show_their_data() -> Outcome<()> {
    let scene = Scene::start()?;
    let mut shop = scene.with_a_shop()?;
    scene.with_hostility(&mut shop)?;
    let folder = pictures()?;
    for scheme in [Scheme::Light, Scheme::Dark] {
        let mut browser = Browser::start()?;
        for size in SIZES {
            browser.looks(size, scheme)?;
            browser.open(&format!("{}/", scene.origin))?;
            for view in &VIEWS {
                browser.go(view.address)?;
                browser.until(&(view.shows)())?;
                let about = format!("{}-{}-{}", view.name, size.0, scheme.name());
                nothing_is_wrong(&mut browser, &scene.origin, &about)?;
                browser.picture(&folder.join(about).with_extension("png"))?;
            }
        }
    }
    Ok(())
}

/// The views of what holds, waits and watches, which first know something and then no more, as after a time in which
/// nobody has looked: how many rows each has left.
const FORGOTTEN: &str = r#"(async () => {
  const page = { live: { state: null }, go() {} };
  const at = 8.64e15 + 1;
  const place = { znode: "lock-0", role: "waits", kind: "lock", ctime_ms: at, held_since_ms: null, behind: null };
  const lock = { path: "/a", recipe: "mutex", places: [place], places_total: 1, waiting: 1 };
  const step = { path: "/a", waiter: "0x1", holder: "0x2" };
  const session = { timeout_ms: null, ephemerals: 1, watches: 1, holds: [], waits: [] };
  const full = {
    looked_ms: 1, totals: { locks: 1, sessions: 1, znodes: 1 }, cycles: [[step]], not_seen: [],
    locks: { "/a": lock }, sessions: { "0x1": session },
    watches: { paths: 1, watches: 1, fan_out: [{ from: 1, to: 1, paths: 1 }], most: [{ path: "/a", watchers: 1, sessions: [] }] },
  };
  const empty = { locks: {}, sessions: {} };
  const rows = [];
  for (const name of ["Locks", "Sessions", "Watches"]) {
    const module = await import(`/${name.toLowerCase()}.js`);
    const view = new module[name](page);
    for (const state of [full, empty]) {
      page.live.state = state;
      view.show(state, null);
      rows.push(view.root.querySelectorAll("section.lock, .cycle, tbody tr, .fan li").length);
    }
  }
  return rows.join(" ");
})()"#;

pub(crate) fn forget_what_was() -> Outcome<()> {
    let scene = Scene::start()?;
    let mut browser = Browser::start()?;
    browser.open(&format!("{}/", scene.origin))?;
    let rows = browser.value(FORGOTTEN)?;
    assert_eq!(rows, "2 0 1 0 2 0");
    Ok(())
}

/// The picture of the README: the Locks view of a shop, light and dark.
pub(crate) fn take_the_picture_of_the_readme() -> Outcome<()> {
    let scene = Scene::start()?;
    let _shop = scene.with_a_shop()?;
    let mut browser = Browser::start()?;
    browser.open(&format!("{}/", scene.origin))?;
    let [locks, ..] = &VIEWS;
    browser.until(&format!("{} && {}", (locks.shows)(), has_text("waits for 3 s")))?;
    for scheme in [Scheme::Light, Scheme::Dark] {
        browser.looks(PICTURE, scheme)?;
        let file = pictures()?.join(format!("console-{}.png", scheme.name()));
        browser.picture(&file)?;
        let bytes = std::fs::metadata(&file)?.len();
        assert!(bytes < PICTURE_BYTES_MAX, "{}: {bytes} bytes", file.display());
    }
    Ok(())
}

/// Names and data are text: no element comes of them, no script runs, and what cannot be seen is written
/// out.
pub(crate) fn show_hostile_names_as_text() -> Outcome<()> {
    let scene = Scene::start()?;
    let mut shop = scene.with_a_shop()?;
    scene.with_hostility(&mut shop)?;
    let mut browser = Browser::start()?;
    browser.looks(SIZES[1], Scheme::Light)?;
    browser.open(&format!("{}/#locks", scene.origin))?;
    for view in ["locks", "sessions", "watches", "findings"] {
        browser.go(view)?;
        for (name, _) in HOSTILE {
            browser.until(&has_text(&written_out(name)))?;
        }
        is_harmless(&mut browser, view)?;
    }
    // Data, and names in the list of children and in the path.
    for (name, data) in HOSTILE {
        let path = format!("{HOSTILE_PATH}/{name}");
        browser.go(&format!("tree:{}", encoded(&path)))?;
        browser.until(&has_text(&written_out(data)))?;
        browser.until(&has_text(&written_out(name)))?;
        is_harmless(&mut browser, name)?;
    }
    browser.go(&format!("tree:{}", encoded(HOSTILE_PATH)))?;
    for (name, _) in HOSTILE {
        browser.until(&has_text(&written_out(name)))?;
    }
    is_harmless(&mut browser, HOSTILE_PATH)?;
    let wrong = complaints(&mut browser, &scene.origin);
    assert!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}

/// For an address.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// As the page shows it: with the signs that change the order of others written out.
fn written_out(text: &str) -> String {
    let shown = |sign: char| match sign {
        '\u{202e}' | '\u{2066}' => format!("\\u{{{:x}}}", u32::from(sign)),
        _ => sign.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Nothing of what a server has became an element, a script or an attribute that runs, or turns the text.
fn is_harmless(browser: &mut Browser, about: &str) -> Outcome<()> {
    let found = browser.value(
        "(() => {
            const found = [];
            if (window.harmed !== undefined) found.push(`a script has run: ${window.harmed}`);
            for (const one of document.querySelectorAll('img, iframe, object, embed, svg[onload]'))
                found.push(one.outerHTML);
            if (document.scripts.length !== 1) found.push('there are more scripts');
            for (const one of document.querySelectorAll('*'))
                for (const { name, value } of one.attributes)
                    if (name.startsWith('on') || /^javascript:/i.test(value)) found.push(one.outerHTML);
            const isTurned = (text) => /[\\u202a-\\u202e\\u2066-\\u2069]/.test(text);
            if (isTurned(document.documentElement.textContent)) found.push('text is turned');
            for (const one of document.querySelectorAll('[title], [aria-label]'))
                if (isTurned(one.title) || isTurned(one.ariaLabel ?? '')) found.push('a title is turned');
            return found;
        })()",
    )?;
    assert_eq!(found, json!([]), "{about}");
    Ok(())
}

/// A server that answers `srvr` only, as Apache ZooKeeper does unless its configuration says otherwise: the
/// page tells what it lacks and how to allow it, and every view is whole.
pub(crate) fn tell_what_is_missing() -> Outcome<()> {
    let scene = Scene::start()?;
    let _shop = scene.with_a_shop()?;
    let (_console, origin) = scene.separate_console()?;
    let folder = pictures()?;
    let mut browser = Browser::start()?;
    for size in SIZES {
        browser.looks(size, Scheme::Light)?;
        browser.open(&format!("{origin}/"))?;
        for (view, text) in [
            ("locks", "/shop/stock/4711"),
            ("sessions", "4lw.commands.whitelist"),
            ("watches", "Not all servers told theirs"),
            ("charts", "allow the word mntr"),
            ("findings", "deadlock"),
        ] {
            browser.go(view)?;
            browser.until(&has_text(text))?;
            let about = format!("srvr-only-{view}-{}", size.0);
            nothing_is_wrong(&mut browser, &origin, &about)?;
            browser.picture(&folder.join(about).with_extension("png"))?;
        }
    }
    Ok(())
}

/// The keys that `?` shows do what it says.
pub(crate) fn obey_the_keys() -> Outcome<()> {
    let scene = Scene::start()?;
    let _shop = scene.with_a_shop()?;
    let mut browser = Browser::start()?;
    browser.looks(SIZES[1], Scheme::Light)?;
    browser.open(&format!("{}/", scene.origin))?;
    let number_and_view = VIEWS.iter().enumerate().chain([(0, &VIEWS[0])]);
    for (number, view) in number_and_view {
        browser.press(&(number + 1).to_string())?;
        let selected = "[...document.querySelectorAll('[role=tab][aria-selected=true]')]";
        let is_it = format!("{selected}.map((tab) => tab.id).join() === 'tab-{}'", view.name);
        browser.until(&is_it)?;
    }
    browser.press("/")?;
    browser.until("document.activeElement.type === 'search'")?;
    for key in ["4", "7", "1", "1"] {
        browser.press(key)?;
    }
    // The port of a client may have these digits too.
    let shown = "[...document.querySelectorAll('section.lock')].map((lock) => lock.innerText)";
    browser.until(&format!("{shown}.some((text) => text.includes('/shop/stock/4711'))"))?;
    browser.until(&format!("{shown}.every((text) => text.includes('4711'))"))?;
    browser.until("document.querySelector('#tab-locks').ariaSelected === 'true'")?;
    browser.value("document.activeElement.blur()")?;
    browser.press("p")?;
    browser.until("document.querySelector('#pause').ariaPressed === 'true'")?;
    browser.press("p")?;
    browser.until("document.querySelector('#status').dataset.state === 'live'")?;
    browser.press("?")?;
    browser.until("document.querySelector('#help').open")?;
    nothing_is_wrong(&mut browser, &scene.origin, "the keys")?;
    browser.picture(&pictures()?.join("keys.png"))?;
    browser.escape()?;
    browser.until("!document.querySelector('#help').open")?;
    Ok(())
}
