//! A page that shows very much stays fluid.
//!
//! What counts is the CPU time of the page's main thread for each frame: of the frame itself, with style,
//! layout and paint, and of what came before it since the last one, such as the message with the changes. A
//! machine with other work makes frames late, and this time only a little longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use zoolet_client::{Client, CreateMode, Parents};

use crate::Outcome;
use crate::browser::{Browser, Scheme};
use crate::hand_over::{Place, enter};
use crate::scene::Scene;

const WAITERS: usize = 10_000;
const ZNODES: usize = 100_000;

const QUEUE: &str = "/locks/stock";
const DIRECTORY: &str = "/many";

/// How many sessions are opened at the same time.
const TOGETHER: usize = 64;

/// How many znodes a transaction creates.
const BATCH: usize = 1_000;

/// The pause between two hand-overs.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(20);

/// How often a view that was not fluid is looked at again.
const LOOKS_AGAIN: usize = 2;

/// How long a view is looked at.
const WATCHED_MS: u32 = 2_500;

/// How long a view may take to change. A server with so much is looked at less often.
const CHANGED_WITHIN_MS: u32 = 30_000;

/// How many children come with each page of a directory, and how many pages are shown.
const CHILDREN_PAGE: usize = 500;
const PAGES: usize = 10;

/// How long a page of a directory is looked at.
const PAGE_MS: u32 = 400;

/// The longest frame, but for one of a view: collecting garbage may be in it. The longest that were measured
/// have about 35 ms, on a machine on which a frame of known work takes `KNOWN_WORK_MS`. Where that takes longer,
/// a frame may take longer as well.
const FRAME_MS: f64 = 50.0;
const KNOWN_WORK_MS: f64 = 36.0;

/// The known work of a frame: so many new lines of text are laid out. And in how many frames.
const KNOWN_LINES: usize = 2_000;
const KNOWN_FRAMES: usize = 6;

/// The queue has 10,000 places, each with a session of its own, and is handed over 50 times a second.
pub(crate) fn with_many_waiters() -> Outcome<()> {
    let scene = Arc::new(Scene::start()?);
    let places = scene.runtime.block_on(crowd(&scene, WAITERS))?;
    let changes = Changes::begin(&scene, places)?;
    let mut browser = Browser::start()?;
    browser.looks((1400, 900), Scheme::Light)?;
    browser.open(&format!("{}/#locks", scene.origin))?;
    browser.until("document.querySelector('.place.holds')")?;
    let waits = "Number(document.querySelector('#tab-locks .badge').textContent.replace(',', ''))";
    browser.until(&format!("{waits} > {}", WAITERS * 8 / 10))?;
    for (view, updates_min) in [
        ("locks", 3),
        ("sessions", 3),
        ("watches", 1),
        ("charts", 2),
        ("events", 3),
        ("findings", 0),
    ] {
        let open = format!("location.hash = '#{view}'");
        looks_fluid(view, || {
            let seen = Seen::look(&mut browser, &open, (WATCHED_MS, updates_min))?;
            // The next look opens its view, be it the same.
            browser.go("tree")?;
            Ok(seen)
        })?;
    }
    changes.end(&scene)
}

/// The directory has 100,000 znodes, of which 5,000 are shown, and grows and shrinks 50 times a second.
pub(crate) fn with_many_znodes() -> Outcome<()> {
    let scene = Arc::new(Scene::start()?);
    let places = scene.runtime.block_on(crowd(&scene, WAITERS / 10))?;
    let administrator = scene.runtime.block_on(scene.client())?;
    scene.runtime.block_on(fill(&administrator))?;
    let changes = Changes::begin(&scene, places)?;
    let mut browser = Browser::start()?;
    browser.looks((1400, 900), Scheme::Light)?;
    looks_fluid("tree", || {
        browser.open("about:blank")?;
        browser.open(&format!("{}/#tree:{DIRECTORY}", scene.origin))?;
        let children = "document.querySelectorAll('.children li').length";
        browser.until(&format!("{children} === {CHILDREN_PAGE}"))?;
        let mut seen = Seen::default();
        for pages in 2..=PAGES {
            let more = "document.querySelector('.children-pane > button').click()";
            seen.add(Seen::look(&mut browser, more, (PAGE_MS, 1))?);
            browser.until(&format!("{children} === {}", pages * CHILDREN_PAGE))?;
        }
        Ok(seen)
    })?;
    changes.end(&scene)
}

/// Fails if frames of a view take too long. Other work of the machine may be the cause once: then the view is fluid
/// at all of the next looks.
fn looks_fluid(view: &str, mut look: impl FnMut() -> Outcome<Seen>) -> Outcome<()> {
    let Some(fault) = look()?.fault(view) else { return Ok(()) };
    for _ in 0..LOOKS_AGAIN {
        if let Some(again) = look()?.fault(view) {
            return Err(format!("{fault}; again: {again}").into());
        }
    }
    Ok(())
}

/// What happens on the server while somebody looks.
struct Changes {
    is_over: Arc<AtomicBool>,
    task: JoinHandle<Outcome<usize>>,
}

impl Changes {
    /// Hands the lock over, and adds to the directory and takes away from it.
    fn begin(scene: &Scene, places: Vec<Place>) -> Outcome<Self> {
        let client = scene.runtime.block_on(scene.client())?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let task = scene.runtime.spawn(async move {
            let mut hand_overs = 0;
            let mut places = places.iter();
            while !over.load(Ordering::Relaxed) {
                // The directory changes on when the queue is empty.
                if let Some(place) = places.next() {
                    client.delete(&place.path).await?;
                    hand_overs += 1;
                }
                let extra = format!("{DIRECTORY}/extra");
                client.create(&extra).parents(Parents::Persistent).await?;
                client.delete(&extra).await?;
                tokio::time::sleep(HAND_OVER_PAUSE).await;
            }
            Ok(hand_overs)
        });
        Ok(Self { is_over, task })
    }

    fn end(self, scene: &Scene) -> Outcome<()> {
        self.is_over.store(true, Ordering::Relaxed);
        let hand_overs = scene.runtime.block_on(self.task)??;
        println!("{hand_overs} hand-overs meanwhile");
        Ok(())
    }
}

/// A queue, in its order.
async fn crowd(scene: &Arc<Scene>, count: usize) -> Outcome<Vec<Place>> {
    let mut places = Vec::new();
    let mut entering = JoinSet::new();
    let mut left = count;
    while places.len() < count {
        while left > 0 && entering.len() < TOGETHER {
            let scene = Arc::clone(scene);
            entering.spawn(async move { enter(scene.client().await?, QUEUE).await });
            left -= 1;
        }
        places.push(entering.join_next().await.ok_or("somebody enters")???);
    }
    places.sort_by_key(|place| place.path.rsplit('-').next().map(str::to_owned));
    Ok(places)
}

async fn fill(client: &Client) -> Outcome<()> {
    client.create(DIRECTORY).parents(Parents::Persistent).await?;
    for first in (0..ZNODES).step_by(BATCH) {
        let mut transaction = client.transaction();
        for number in first..first + BATCH {
            let path = format!("{DIRECTORY}/item-{number:06}");
            transaction = transaction.create(&path, "", CreateMode::Persistent);
        }
        transaction.commit().await?;
    }
    Ok(())
}

/// What was seen of a view.
#[derive(Default)]
struct Seen {
    /// The CPU times of its frames, in milliseconds.
    cpu_ms: Vec<f64>,
    /// The times from frame to frame.
    intervals_ms: Vec<f64>,
    changes: u64,
    /// The CPU times of frames with known work, before and after it was seen, in milliseconds.
    known_work_ms: Vec<f64>,
}

impl Seen {
    /// Does something, and looks at the view for some time and until it has changed so often.
    fn look(browser: &mut Browser, act: &str, (time_ms, changes): (u32, u64)) -> Outcome<Self> {
        let before = known_work_ms(browser)?;
        let (seen, cpu_ms) = trace(browser, &watch(act, time_ms, changes))?;
        let after = known_work_ms(browser)?;
        let intervals = seen["intervals"].as_array().ok_or("there are frames")?;
        let seen_changes = seen["changes"].as_u64().unwrap_or_default();
        assert!(seen_changes >= changes, "after {act} there were {seen_changes} changes");
        Ok(Self {
            cpu_ms,
            intervals_ms: intervals.iter().filter_map(Value::as_f64).collect(),
            changes: seen_changes,
            known_work_ms: [before, after].concat(),
        })
    }

    fn add(&mut self, more: Self) {
        self.cpu_ms.extend(more.cpu_ms);
        self.intervals_ms.extend(more.intervals_ms);
        self.changes += more.changes;
        self.known_work_ms.extend(more.known_work_ms);
    }

    /// What is wrong if frames take too long.
    fn fault(mut self, view: &str) -> Option<String> {
        let cpu = Spread::of(&mut self.cpu_ms);
        let interval = Spread::of(&mut self.intervals_ms);
        let known_work = Spread::of(&mut self.known_work_ms);
        let limit_ms = FRAME_MS * (known_work.median / KNOWN_WORK_MS).max(1.0);
        let (frames, changes) = (self.cpu_ms.len(), self.changes);
        println!(
            "{view}: {frames} frames with {changes} changes; CPU of a frame {cpu}; from frame to \
             frame {interval}; CPU of a frame with known work {known_work}"
        );
        let is_fluid = cpu.worst_but_one < limit_ms;
        (!is_fluid).then(|| {
            format!("{view}: the CPU time of a frame is {cpu}, and may be {limit_ms:.1} ms")
        })
    }
}

/// Evaluates a promise, and gives its value and the CPU times of the frames meanwhile, in milliseconds.
fn trace(browser: &mut Browser, promise: &str) -> Outcome<(Value, Vec<f64>)> {
    let categories = ["devtools.timeline", "disabled-by-default-devtools.timeline"];
    let config = json!({ "includedCategories": categories });
    browser.call("Tracing.start", &json!({ "traceConfig": config }))?;
    let value = browser.value(promise)?;
    browser.call("Tracing.end", &json!({}))?;
    browser.event("Tracing.tracingComplete")?;
    let collected = browser.take_events(&["Tracing.dataCollected"]);
    let parts = collected.iter().map(|part| &part["params"]["value"]);
    let events: Vec<&Value> = parts.filter_map(Value::as_array).flatten().collect();
    Ok((value, cpu_of_frames(&events)))
}

/// The CPU times of frames with known work, in milliseconds: how quick browser and machine are now.
fn known_work_ms(browser: &mut Browser) -> Outcome<Vec<f64>> {
    let promise = format!(
        "new Promise((done) => {{
            const box = document.createElement('div');
            box.style.cssText = 'position: fixed; visibility: hidden';
            document.body.append(box);
            let frames = 0;
            const line = (_, number) => {{
                const line = document.createElement('p');
                line.textContent = `line ${{number}} of frame ${{frames}}`;
                return line;
            }};
            const frame = () => {{
                if (frames++ === {KNOWN_FRAMES}) {{
                    box.remove();
                    done(true);
                }} else {{
                    box.replaceChildren(...Array.from({{ length: {KNOWN_LINES} }}, line));
                    box.getBoundingClientRect();
                    requestAnimationFrame(frame);
                }}
            }};
            requestAnimationFrame(frame);
        }})"
    );
    let (_, mut cpu_ms) = trace(browser, &promise)?;
    // The last frame only takes the lines away.
    cpu_ms.pop();
    Ok(cpu_ms)
}

/// Acts, and watches frames and changes of the view.
fn watch(act: &str, time_ms: u32, changes: u64) -> String {
    format!(
        "new Promise((done) => {{
            let changes = 0;
            const observer = new MutationObserver(() => changes++);
            const view = document.querySelector('#view');
            observer.observe(view, {{ subtree: true, childList: true, characterData: true }});
            const times = [];
            const frame = (now) => {{
                times.push(now);
                if (times.length === 2) {{ {act}; }}
                const time = now - times[0];
                const lacks = changes < {changes} && time < {CHANGED_WITHIN_MS};
                if (time < {time_ms} || lacks) {{
                    requestAnimationFrame(frame);
                }} else {{
                    observer.disconnect();
                    const intervals = times.slice(1).map((time, index) => time - times[index]);
                    done({{ changes, intervals }});
                }}
            }};
            requestAnimationFrame(frame);
        }})"
    )
}

/// The CPU time of the page's main thread up to the end of each frame since the last one, in
/// milliseconds, from the events of a trace.
fn cpu_of_frames(events: &[&Value]) -> Vec<f64> {
    let time = |event: &Value| event["ts"].as_f64().unwrap_or_default();
    let frames: Vec<&&Value> =
        events.iter().filter(|event| event["name"] == "FireAnimationFrame").collect();
    let Some(first) = frames.first() else { return Vec::new() };
    let mut ends: Vec<f64> = frames.iter().map(|frame| time(frame)).collect();
    ends.sort_by(f64::total_cmp);
    let is_of_page = |event: &&&Value| event["pid"] == first["pid"] && event["tid"] == first["tid"];
    let mut cpu_ms = vec![0.0; ends.len()];
    for task in events.iter().filter(is_of_page).filter(|event| event["name"] == "RunTask") {
        // A frame's task begins before its event. What comes after the last frame belongs to none.
        let frame = ends.partition_point(|end| *end < time(task));
        if let Some(cpu_ms) = cpu_ms.get_mut(frame) {
            *cpu_ms += task["tdur"].as_f64().unwrap_or_default() / 1e3;
        }
    }
    // What was before the first frame belongs to what was before.
    cpu_ms.split_off(1)
}

/// How times are spread, in milliseconds.
struct Spread {
    median: f64,
    worst_but_one: f64,
    worst: f64,
}

impl Spread {
    fn of(times: &mut [f64]) -> Self {
        times.sort_by(f64::total_cmp);
        let from_end = |count: usize| {
            times.len().checked_sub(count).and_then(|at| times.get(at)).copied().unwrap_or_default()
        };
        Self { median: from_end(times.len() / 2), worst_but_one: from_end(2), worst: from_end(1) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { median, worst_but_one, worst } = self;
        write!(f, "{median:.1} ms (median), {worst_but_one:.1} and {worst:.1} ms (worst)")
    }
}
