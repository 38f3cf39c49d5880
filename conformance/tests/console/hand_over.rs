//! How long after a change a page shows it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use zoolet_client::{Client, CreateMode, Parents};

use crate::Outcome;
use crate::browser::{Browser, Scheme};
use crate::scene::Scene;

/// How many hand-overs are measured.
const HAND_OVERS: usize = 15;

/// The pause before each, so that they meet the looks of the console at different moments.
const PAUSES_MS: std::ops::Range<u64> = 200..900;

/// How soon half of them are seen.
const SEEN_WITHIN_MS: f64 = 200.0;

const PATH: &str = "/locks/stock";

/// A place in a queue, with a session of its own.
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) client: Client,
}

/// Enters the queue of a mutex.
pub(crate) async fn enter(client: Client, path: &str) -> Outcome<Place> {
    let create = client.create(&format!("{path}/lock-")).protected().parents(Parents::Persistent);
    let created = create.mode(CreateMode::EphemeralSequential).await?;
    Ok(Place { path: created.path, client })
}

/// Records each holder that the page shows, with the time of the frame that shows it.
const RECORD: &str = "(() => {
    window.holders = [];
    let last = null;
    const look = () => {
        const holder = document.querySelector('.place.holds .link')?.textContent;
        if (!holder || holder === last) return;
        last = holder;
        requestAnimationFrame(() => window.holders.push([holder, Date.now()]));
    };
    const all = { subtree: true, childList: true, characterData: true, attributes: true };
    new MutationObserver(look).observe(document.querySelector('#view'), all);
    look();
})()";

/// From the reply to the deletion of the holder's znode until the page shows the next holder.
pub(crate) fn is_seen_soon() -> Outcome<()> {
    let scene = Scene::start()?;
    let places = scene.runtime.block_on(async {
        let mut places = Vec::new();
        for _ in 0..=HAND_OVERS {
            places.push(enter(scene.client().await?, PATH).await?);
        }
        Outcome::Ok(places)
    })?;
    let administrator = scene.runtime.block_on(scene.client())?;
    let mut browser = Browser::start()?;
    browser.looks((1400, 900), Scheme::Light)?;
    browser.open(&format!("{}/#locks", scene.origin))?;
    browser.until("document.querySelector('.place.holds')")?;
    browser.value(RECORD)?;
    let mut latencies_ms = Vec::new();
    for pair in places.windows(2) {
        let [holder, next] = pair else { return Err("a pair has two places".into()) };
        let pause = fastrand::u64(PAUSES_MS);
        browser.value(&format!("new Promise((done) => setTimeout(done, {pause}))"))?;
        scene.runtime.block_on(async { administrator.delete(&holder.path).await })?;
        let replied_ms = now_ms()?;
        let next = next.client.session_id().to_string();
        let of_next = format!("window.holders.find(([holder]) => holder === {})", json!(next));
        browser.until(&of_next)?;
        let seen_ms = browser.value(&format!("{of_next}[1]"))?;
        latencies_ms.push(seen_ms.as_f64().ok_or("a time is a number")? - replied_ms);
    }
    latencies_ms.sort_by(f64::total_cmp);
    let median = latencies_ms[latencies_ms.len() / 2];
    let shown: Vec<_> = latencies_ms.iter().map(|ms| format!("{ms:.0}")).collect();
    println!("a hand-over is seen after {} ms, half of them by {median:.0}", shown.join(", "));
    assert!(median < SEEN_WITHIN_MS, "half of them are seen by {median:.0} ms");
    Ok(())
}

/// The time of the system, which the browser reads too.
fn now_ms() -> Outcome<f64> {
    let now: Duration = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(now.as_secs_f64() * 1e3)
}
