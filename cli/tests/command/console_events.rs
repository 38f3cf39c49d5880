//! What happens to znodes, as `zoolet console` tells it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use zoolet::protocol::{ErrorCode, OpCode};
use zoolet_testkit::RequestFilter;

use crate::console::{Scene, Served, View};
use crate::process::within_limit;

/// Somebody who reads what happens to znodes.
struct FeedView {
    view: View,
    /// What has come and was not looked at: what happened, and where.
    events: VecDeque<Value>,
    status: String,
}

impl FeedView {
    /// Waits until it is told what comes of the watch.
    async fn open(address: SocketAddr, query: &str) -> Self {
        let view = View::of(address, &format!("/v1/feed{query}"), "").await;
        let mut feed = Self { view, events: VecDeque::new(), status: "opening".to_owned() };
        while feed.status == "opening" {
            feed.take().await;
        }
        feed
    }

    async fn take(&mut self) -> Value {
        let (name, message) = self.view.next().await;
        assert_eq!(name, "feed");
        self.status = message["status"].as_str().unwrap().to_owned();
        self.events.extend(message["events"].as_array().unwrap().iter().cloned());
        message
    }

    /// The next event: what happened, and where.
    async fn next(&mut self) -> (String, String) {
        while self.events.is_empty() {
            self.take().await;
        }
        let event = self.events.pop_front().unwrap();
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        (text("what"), text("path"))
    }
}

fn event(what: &str, path: &str) -> (String, String) {
    (what.to_owned(), path.to_owned())
}

#[tokio::test]
async fn what_happens_is_told_while_somebody_reads_it_and_no_watch_is_left() {
    let scene = Scene::new(&[]).await;
    let watches = || scene.server.observer().watch_graph().most_watched().is_some();
    let mut view = scene.view().await;
    view.until(|state| state["totals"]["znodes"].is_u64()).await;
    assert!(!watches(), "the other views set none");
    let mut feed = FeedView::open(scene.address, "").await;
    assert_eq!(feed.next().await, event("began", ""));
    assert!(watches());
    assert_eq!(scene.server.connections().unwrap().len(), 2, "all share one session");
    let client = &scene.client;
    client.create("/a").await.unwrap();
    client.set("/a", "x").await.unwrap();
    client.create("/a/lock-0000000001").await.unwrap();
    client.delete("/a/lock-0000000001").await.unwrap();
    assert_eq!(feed.next().await, event("created", "/a"));
    assert_eq!(feed.next().await, event("changed", "/a"));
    let place = "/a/lock-0000000001";
    assert_eq!(feed.next().await, event("created", place));
    assert_eq!(feed.next().await, event("deleted", place));
    drop(feed);
    within_limit(async {
        while watches() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(scene.server.connections().unwrap().len(), 2, "somebody looks at other views");
}

#[tokio::test]
async fn events_can_be_filtered_by_path_and_kind() {
    let scene = Scene::new(&[]).await;
    let mut feed = FeedView::open(scene.address, "?filter=%2FLocks&kinds=created,deleted").await;
    assert_eq!(feed.next().await, event("began", ""));
    scene.client.create("/other").await.unwrap();
    scene.client.create("/locks").await.unwrap();
    scene.client.set("/locks", "x").await.unwrap();
    scene.client.delete("/locks").await.unwrap();
    assert_eq!(feed.next().await, event("created", "/locks"));
    assert_eq!(feed.next().await, event("deleted", "/locks"));
    assert_eq!(scene.get("/v1/feed?fliter=x").await.status, 400);
}

#[tokio::test]
async fn a_lost_connection_is_a_gap_in_what_is_told() {
    let scene = Scene::new(&[]).await;
    let mut feed = FeedView::open(scene.address, "").await;
    assert_eq!(feed.next().await, event("began", ""));
    let own = scene.client.session_id();
    let sessions = scene.server.connections().unwrap();
    let mut ids = sessions.iter().map(|it| it.session);
    let of_console = ids.find(|id| *id != own).unwrap();
    scene.server.session(of_console).cut().unwrap();
    assert_eq!(feed.next().await, event("lost", ""));
    assert_eq!(feed.next().await, event("began", ""));
    scene.client.create("/after").await.unwrap();
    assert_eq!(feed.next().await, event("created", "/after"));
    // The same if its session expires: the watch is set by the next one.
    scene.server.session(of_console).expire().unwrap();
    assert_eq!(feed.next().await, event("lost", ""));
    assert_eq!(feed.next().await, event("began", ""));
}

#[tokio::test]
async fn a_server_that_has_no_such_watch_is_told_and_not_asked_again() {
    let scene = Scene::new(&[]).await;
    let unknown = RequestFilter::all().of(&[OpCode::ADD_WATCH]);
    let refused = scene.server.everyone().fail(unknown, ErrorCode::UNIMPLEMENTED).unwrap();
    let feed = FeedView::open(scene.address, "").await;
    assert_eq!(feed.status, "unsupported");
    scene.view().await.until(|state| state["totals"]["znodes"].is_u64()).await;
    assert_eq!(refused.hits(), 1);
}

#[tokio::test]
async fn the_console_of_a_server_tells_what_happens_there() {
    let served = Served::start(&[]).await;
    let client = served.connect().await;
    let mut feed = FeedView::open(served.console, "").await;
    assert_eq!(feed.next().await, event("began", ""));
    let created = client.create("/a").await.unwrap();
    assert_eq!(feed.next().await, event("created", "/a"));
    drop(created);
}
