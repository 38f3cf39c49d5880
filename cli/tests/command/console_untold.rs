//! `zoolet console`: what is not shown, because it is not told or too much, is told as that.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde_json::{Value, json};
use zoolet::protocol::CreateMode;
use zoolet::recipes::InterProcessMutex;
use zoolet_testkit::TestServer;

use crate::console::{Console, Scene, View};

#[tokio::test]
async fn what_a_server_does_not_tell_of_sessions_is_not_told_as_zero() {
    let quiet = |config: &mut zoolet::server::Config| {
        config.four_letter_words = "srvr".parse().unwrap();
    };
    let server = TestServer::builder().tcp().configure(quiet).start().await.unwrap();
    let client = server.connect().await.unwrap();
    let mutex = InterProcessMutex::new(&client, "/lock").unwrap();
    let _guard = mutex.acquire().await.unwrap();
    let address = server.address().unwrap().to_string();
    let console = Console::start(&[&address, "--interval", "100ms"]).await;
    let mut view = View::open(console.address).await;
    let id = client.session_id().to_string();
    let state = view.until(|state| state["sessions"][&id].is_object()).await;
    let session = &state["sessions"][&id];
    assert_eq!(session["holds"], json!(["/lock"]));
    assert_eq!((&session["ephemerals"], &session["watches"]), (&Value::Null, &Value::Null));
    // Where it tells them, none is zero.
    let scene = Scene::new(&[]).await;
    scene.client.create("/own").mode(CreateMode::Ephemeral).await.unwrap();
    let id = scene.client.session_id().to_string();
    let state = scene.view().await.until(|state| state["sessions"][&id].is_object()).await;
    let session = &state["sessions"][&id];
    assert_eq!((&session["ephemerals"], &session["watches"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn a_long_directory_hides_no_lock_and_is_told_as_left_out() {
    let scene = Scene::new(&["--max-znodes", "500"]).await;
    let client = &scene.client;
    for path in ["/a", "/long", "/z"] {
        client.create(path).await.unwrap();
    }
    let sent: Vec<_> =
        (0..2_000).map(|number| client.create(&format!("/long/{number:04}")).send()).collect();
    for created in sent {
        created.await.unwrap();
    }
    for path in ["/a/lock-", "/z/lock-"] {
        client.create(path).mode(CreateMode::EphemeralSequential).await.unwrap();
    }
    let state = scene.view().await.until(|state| state["totals"]["locks"] == 2).await;
    let totals = &state["totals"];
    assert_eq!(totals["is_cut"], true);
    let left_out = totals["left_out"].as_str().unwrap();
    assert!(left_out.ends_with(" children of /long"), "{left_out}");
}

#[tokio::test]
async fn a_path_that_is_not_there_is_told_by_its_name() {
    let scene = Scene::new(&["/nowhere"]).await;
    let state = scene.view().await.until(|state| state["trouble"].is_string()).await;
    let trouble = state["trouble"].as_str().unwrap();
    assert!(trouble.starts_with("there is no znode /nowhere: "), "{trouble}");
}

#[tokio::test]
async fn the_session_has_the_timeout_of_the_options() {
    let scene = Scene::new(&["--session-timeout", "12s"]).await;
    let has = |state: &Value| {
        let mut sessions = state["sessions"].as_object().into_iter().flat_map(|all| all.values());
        sessions.any(|session| session["timeout_ms"] == 12_000)
    };
    scene.view().await.until(has).await;
}
