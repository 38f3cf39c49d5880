//! Looks at the servers while somebody looks at the page, and at no other time.
//!
//! Two loops share what is known. The quick one looks for changes in the directories of locks, often while
//! that is cheap. The slow one reads the tree, and asks for sessions and metrics.

use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use zoolet_client::recipe::now;
use zoolet_protocol::ErrorCode;

use super::limits::{
    LINGER, LOOK_PAUSE_FACTOR, NEWS_PAUSE, NEWS_PAUSE_FACTOR, QUICK_PAUSE, RETRY_PAUSES,
    WHOLE_TREE_PAUSE,
};
use super::look::Looks;
use super::model::Model;
use super::source::Failure;
use super::{Shared, feed, pulse, quick};
use crate::doctor::scan::Scan;

/// Runs until the console ends.
pub(super) async fn run(shared: &Shared) {
    let hub = &shared.hub;
    let fresh = || Looks::new(&shared.path, shared.scan);
    let looks = Mutex::new(fresh());
    let mut arrivals = 0;
    loop {
        if tokio::time::timeout(WHOLE_TREE_PAUSE, hub.somebody_looks(arrivals)).await.is_err() {
            // What was known is too old to be of use.
            *looks.lock() = fresh();
            hub.somebody_looks(arrivals).await;
        }
        shared.has_quick.store(true, Relaxed);
        tokio::select! {
            never = look_slowly(shared, &looks) => match never {},
            never = look_quickly(shared, &looks) => match never {},
            never = pulse::run(shared, &looks) => match never {},
            never = feed::run(shared) => match never {},
            () = left_alone(shared) => {}
        }
        // The next viewer must not take what is known now for the state then.
        hub.publish(Model::default());
        if !looks.lock().pause() {
            *looks.lock() = fresh();
        }
        // Somebody who comes while it is closed, and goes again, may open the next session.
        arrivals = hub.arrivals();
        shared.link.close().await;
    }
}

/// Waits until nobody has looked for some time.
async fn left_alone(shared: &Shared) {
    loop {
        shared.hub.nobody_looks().await;
        sleep(LINGER).await;
        if shared.hub.is_left_alone() {
            return;
        }
    }
}

/// Looks again and again at what has changed in the directories of locks.
async fn look_quickly(shared: &Shared, looks: &Mutex<Looks>) -> Infallible {
    let (retry, _) = RETRY_PAUSES;
    loop {
        shared.hub.viewer_looks().await;
        let has_tree = looks.lock().has_tree();
        if !has_tree {
            sleep(QUICK_PAUSE).await;
            continue;
        }
        let began = now();
        let pause = match look_once(shared, looks).await {
            Ok(requests) => {
                let of_rate = Duration::from_secs(1) * requests / shared.scan.rate.max(1);
                ((now() - began) * LOOK_PAUSE_FACTOR).max(of_rate)
            }
            // A server before 3.6: the slow look has to do.
            Err(Failure::Client(error)) if error.is(ErrorCode::UNIMPLEMENTED) => {
                shared.has_quick.store(false, Relaxed);
                std::future::pending().await
            }
            // The slow look tells why.
            Err(_) => retry,
        };
        sleep(pause.max(QUICK_PAUSE).max(shared.interval / 10)).await;
    }
}

/// Returns how many requests it took.
async fn look_once(shared: &Shared, looks: &Mutex<Looks>) -> Result<u32, Failure> {
    let client = shared.link.client().await?;
    let (changes, requests) = quick::look(looks, &client).await?;
    if requests > 0 {
        shared.pulse.answered();
    }
    let mut looks = looks.lock();
    if looks.take_quick(changes) {
        shared.hub.publish(with_names(shared, looks.model()));
    }
    Ok(requests)
}

/// Looks again and again at the tree, if it is its time, and at sessions and metrics.
async fn look_slowly(shared: &Shared, looks: &Mutex<Looks>) -> Infallible {
    let (first, longest) = RETRY_PAUSES;
    let mut retry = first;
    loop {
        shared.hub.viewer_looks().await;
        let began = now();
        match look_whole(shared, looks).await {
            Ok(()) => {
                let model = {
                    let mut looks = looks.lock();
                    looks.set_trouble(None);
                    looks.model()
                };
                shared.hub.publish(with_names(shared, model));
                retry = first;
                let took = now() - began;
                let pause = shared.interval.max(took * LOOK_PAUSE_FACTOR);
                let at_news = now() + NEWS_PAUSE.max(took * NEWS_PAUSE_FACTOR);
                tokio::select! {
                    () = sleep(pause) => {}
                    () = news(looks, at_news) => {}
                }
            }
            Err(failure) => {
                tracing::warn!("{}: {failure}", shared.link.source.name());
                let wait = {
                    let mut looks = looks.lock();
                    looks.set_trouble(Some(failure.to_string()));
                    publish_again(shared, &looks);
                    looks.wait_for_tree()
                };
                sleep(retry.max(wait)).await;
                retry = (retry * 2).min(longest);
            }
        }
    }
}

/// Waits until something has come or gone outside of the known locks, and until this moment.
async fn news(looks: &Mutex<Looks>, from: Instant) {
    sleep_until(from).await;
    while !looks.lock().has_news() {
        sleep(QUICK_PAUSE).await;
    }
}

async fn look_whole(shared: &Shared, looks: &Mutex<Looks>) -> Result<(), Failure> {
    let client = shared.link.client().await?;
    let mut tree = None;
    let (is_due, directories) = {
        let looks = looks.lock();
        (looks.is_whole_due(), looks.directories())
    };
    if is_due {
        let began = now();
        match Scan::new(&client, shared.scan).tree(&shared.path).await {
            Ok(survey) => tree = Some((survey, now() - began)),
            Err(error) => {
                looks.lock().failed(now() - began);
                return Err(match error {
                    error if error.is(ErrorCode::NO_NODE) => {
                        Failure::NoPath(shared.link.source.whole_path(&shared.path))
                    }
                    error => error.into(),
                });
            }
        }
    }
    if !is_due && !shared.has_quick.load(Relaxed) {
        let directories = Scan::new(&client, shared.scan).directories(directories).await?;
        looks.lock().take_directories(directories);
    }
    let sessions = shared.link.source.sessions(&client).await?;
    let metrics = shared.link.source.metrics().await;
    looks.lock().take_slow(tree, sessions, client.session_id(), metrics);
    Ok(())
}

/// Tells what has changed beside what was seen last, which stays in sight.
pub(super) fn publish_again(shared: &Shared, looks: &Looks) {
    let model =
        if looks.has_tree() { looks.model() } else { looks.with_trouble(shared.hub.model()) };
    let now_ms = jiff::Timestamp::now().as_millisecond();
    shared.hub.publish(with_names(shared, model.with("time_ms", now_ms)));
}

fn with_names(shared: &Shared, model: Model) -> Model {
    let model = match shared.pulse.silence() {
        Some(answered_ms) => model.with("silent", json!({ "answered_ms": answered_ms })),
        None => model.without("silent"),
    };
    let interval_ms = u64::try_from(shared.interval.as_millis()).unwrap_or(u64::MAX);
    model
        .with("server", shared.link.source.name())
        .with("zoolet", env!("CARGO_PKG_VERSION"))
        .with("interval_ms", interval_ms)
        .with("can_act", shared.faults.is_some())
}

/// The shortest interval that makes sense: viewers are told no more than ten times a second.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(100);
