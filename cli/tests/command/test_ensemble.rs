//! `zoolet serve --servers`: an ensemble for tests, and its faults over HTTP.

use std::net::SocketAddr;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use zoolet::client::Client;
use zoolet::protocol::CreateMode;

use crate::process::{command, run, within_limit};
use crate::test_control::{ask, send};

/// An ensemble that runs. It ends when it is dropped.
struct Ensemble {
    child: Child,
    servers: Vec<String>,
    all: String,
    control: SocketAddr,
}

impl Ensemble {
    /// Starts one of three servers, whose elections do not take long.
    async fn start() -> Self {
        let mut command = command(&[
            "serve",
            "--servers",
            "3",
            "--test-control",
            "127.0.0.1:0",
            "--tick-time",
            "100",
            "--ready-json",
            "--exit-with-stdin",
        ]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the command can be started");
        let stdout = child.stdout.take().expect("it is piped");
        let line = within_limit(BufReader::new(stdout).lines().next_line()).await;
        let line = line.expect("stdout can be read").expect("it prints a line");
        let ready: Value = serde_json::from_str(&line).expect("of JSON");
        let all = ready["address"].as_str().expect("it listens").to_owned();
        let control = ready["test_control"].as_str().and_then(|url| url.strip_prefix("http://"));
        let control = control.expect("it is a URL").parse().expect("of an address");
        let servers: Vec<_> = all.split(',').map(str::to_owned).collect();
        assert_eq!(servers.len(), 3, "{line}");
        Self { child, servers, all, control }
    }

    async fn ask(&self, what: &str, body: Value) -> Value {
        let (status, answer) = ask(self.control, what, body).await;
        assert_eq!(status, 200, "{what}: {answer}");
        answer
    }

    /// A client of one server.
    async fn client_of(&self, server: usize) -> Client {
        within_limit(Client::connect(self.servers[server].as_str())).await.expect("it listens")
    }

    async fn serving(&self) -> Value {
        self.ask("GET /v1/servers?until=serving", Value::Null).await
    }

    async fn caught_up(&self) {
        self.ask("GET /v1/servers?until=caught_up", Value::Null).await;
    }
}

async fn has(client: &Client, path: &str) -> bool {
    within_limit(async { client.exists(path).await }).await.expect("it is served").is_some()
}

#[tokio::test]
async fn a_follower_shows_the_past_until_it_is_released() {
    let ensemble = Ensemble::start().await;
    let shown = ensemble.serving().await;
    assert_eq!((&shown["leader"], &shown["epoch"]), (&json!(0), &json!(1)));
    let addresses: Vec<_> = shown["servers"].as_array().unwrap().iter().collect();
    assert!(addresses.iter().zip(&ensemble.servers).all(|(server, at)| server["address"] == *at));
    let (writer, reader) = (ensemble.client_of(0).await, ensemble.client_of(1).await);
    ensemble.caught_up().await;
    for lag in
        [json!({ "hold": true }), json!({ "by_ms": 600_000 }), json!({ "by_transactions": 1 })]
    {
        ensemble.ask("POST /v1/servers/1/lag", lag.clone()).await;
        within_limit(async { writer.create("/a").await }).await.unwrap();
        assert!(!has(&reader, "/a").await, "{lag}");
        let behind = ensemble.ask("GET /v1/servers", Value::Null).await;
        assert_eq!(behind["servers"][1]["behind"], 1, "{behind}");
        let (status, late) =
            ask(ensemble.control, "GET /v1/servers?until=caught_up&within_ms=1", Value::Null).await;
        assert_eq!(status, 408, "{late}");
        ensemble.ask("DELETE /v1/servers/1/lag", Value::Null).await;
        assert!(has(&reader, "/a").await, "{lag}");
        within_limit(async { writer.delete("/a").await }).await.unwrap();
        ensemble.caught_up().await;
    }
}

#[tokio::test]
async fn a_server_that_is_cut_off_knows_nothing_of_what_the_others_do() {
    let ensemble = Ensemble::start().await;
    let (old, other) = (ensemble.client_of(0).await, ensemble.client_of(1).await);
    // It would notice after six ticks.
    ensemble.ask("POST /v1/servers/leader/cut_off", Value::Null).await;
    let shown = ensemble.serving().await;
    assert_ne!(shown["leader"], 0);
    within_limit(async { other.create("/new").await }).await.unwrap();
    ensemble.ask("POST /v1/servers/0/rejoin", Value::Null).await;
    ensemble.caught_up().await;
    assert!(has(&old, "/new").await);

    // A partition in which nobody has a majority.
    let none = json!({ "groups": [[0], [1]] });
    ensemble.ask("POST /v1/partition", none).await;
    let (status, _) =
        ask(ensemble.control, "GET /v1/servers?until=serving&within_ms=1", Value::Null).await;
    assert_eq!(status, 408);
    ensemble.ask("DELETE /v1/partition", Value::Null).await;
    ensemble.serving().await;
}

#[tokio::test]
async fn a_lost_leader_is_replaced_and_a_test_elects_another() {
    let ensemble = Ensemble::start().await;
    let client = within_limit(Client::connect(ensemble.all.as_str())).await.unwrap();
    let session = client.session_id();
    let stopped = ensemble.ask("POST /v1/servers/leader/stop", Value::Null).await;
    assert_eq!((&stopped["server"], &stopped["role"]), (&json!(0), &json!("stopped")));
    let shown = ensemble.serving().await;
    assert!(shown["leader"] != 0 && shown["epoch"] == 2, "{shown}");
    within_limit(async { client.create("/after").await }).await.unwrap();
    assert_eq!(client.session_id(), session, "it has outlived its server");
    ensemble.ask("POST /v1/servers/0/start", Value::Null).await;
    let elected = ensemble.ask("POST /v1/servers/0/elect", Value::Null).await;
    assert_eq!(elected["role"], "leader");
    ensemble.ask("POST /v1/servers/1/stop", Value::Null).await;
    ensemble.ask("POST /v1/servers/2/stop", Value::Null).await;
    let (status, refused) = ask(ensemble.control, "POST /v1/servers/0/elect", Value::Null).await;
    assert!(
        status == 409 && refused["error"].as_str().unwrap().contains("no majority"),
        "{refused}"
    );
    ensemble.ask("DELETE /v1/faults", Value::Null).await;
    ensemble.serving().await;
    ensemble.ask("POST /v1/restart", json!({})).await;
    assert!(has(&ensemble.client_of(1).await, "/after").await, "an ensemble keeps its data");
}

#[tokio::test]
async fn faults_concern_a_server_a_client_wherever_it_is_or_all() {
    let ensemble = Ensemble::start().await;
    let (one, two) = (ensemble.client_of(1).await, ensemble.client_of(2).await);
    ensemble.caught_up().await;
    let creates = json!({ "kind": "creates" });
    let fail = |target: Value| {
        let mut fault = json!({ "fault": "fail", "requests": creates, "error": "QuotaExceeded" });
        fault.as_object_mut().unwrap().extend(target.as_object().unwrap().clone());
        fault
    };
    let creates = |client: Client| async move {
        within_limit(async {
            client.create("/q/").mode(CreateMode::PersistentSequential).await.is_ok()
        })
        .await
    };
    within_limit(async { one.create("/q").await }).await.unwrap();
    ensemble.caught_up().await;
    for (target, expected, hits) in [
        (json!({ "server": 1 }), [false, true], 1),
        (json!({ "session": two.session_id().to_string() }), [true, false], 1),
        (json!({}), [false, false], 2),
    ] {
        let set = ensemble.ask("POST /v1/faults", fail(target.clone())).await;
        assert_eq!([creates(one.clone()).await, creates(two.clone()).await], expected, "{target}");
        let fault = format!("/v1/faults/{}", set["id"]);
        let hit = ensemble.ask(&format!("GET {fault}?hits={hits}"), Value::Null).await;
        assert_eq!(hit["hits"], hits, "{target}");
        ensemble.ask(&format!("DELETE {fault}"), Value::Null).await;
        assert_eq!([creates(one.clone()).await, creates(two.clone()).await], [true, true]);
    }
    let connections = ensemble.ask("GET /v1/connections", Value::Null).await;
    let servers: Vec<_> =
        connections.as_array().unwrap().iter().map(|connection| &connection["server"]).collect();
    assert_eq!(servers, [1, 2]);
    let cut = json!({ "connection": connections[1]["id"] });
    assert_eq!(ensemble.ask("POST /v1/cut", cut).await, json!({ "cut": 1 }));
    let session = json!({ "session": one.session_id().to_string() });
    assert_eq!(ensemble.ask("POST /v1/expire", session).await, json!({ "expired": 1 }));
    // The session of the other client, and a new one of the first if it is back by now.
    let expired = ensemble.ask("POST /v1/expire", json!({})).await;
    assert!(expired["expired"].as_u64().is_some_and(|all| all >= 1), "{expired}");
}

#[tokio::test]
async fn a_reset_leaves_a_new_ensemble_at_the_same_ports() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client_of(1).await;
    let session = client.session_id();
    within_limit(async { client.create("/gone").await }).await.unwrap();
    ensemble.ask("POST /v1/servers/0/stop", Value::Null).await;
    ensemble.ask("POST /v1/servers/2/cut_off", Value::Null).await;
    ensemble.ask("POST /v1/faults", json!({ "fault": "freeze", "server": 1 })).await;
    assert_eq!(ensemble.ask("POST /v1/reset", Value::Null).await, json!({ "reset": true }));
    let shown = ensemble.ask("GET /v1/servers", Value::Null).await;
    assert!(shown["leader"] == 0 && shown["serving"] == true, "{shown}");
    let mut states = client.state();
    while client.session_id() == session {
        within_limit(states.changed()).await.unwrap();
    }
    for server in 0..3 {
        let client = ensemble.client_of(server).await;
        let left = within_limit(async { client.children("/").await }).await.unwrap();
        assert!(left.iter().eq(["zookeeper"]), "{left:?}");
        within_limit(async { client.create("/new-").mode(CreateMode::EphemeralSequential).await })
            .await
            .unwrap();
        // The next one is to find nothing of it.
        within_limit(async { client.close().await }).await.unwrap();
    }
}

#[tokio::test]
async fn nonsense_is_named_and_the_ensemble_ends_with_standard_input() {
    let mut ensemble = Ensemble::start().await;
    for (what, body, expected, word) in [
        ("POST /v1/servers/3/stop", Value::Null, 404, "from 0 on"),
        ("POST /v1/servers/-1/stop", Value::Null, 404, "no server \"-1\" among 3"),
        ("POST /v1/servers/1/lag", json!({}), 422, "give one of by_ms"),
        ("POST /v1/servers/1/lag", json!({ "hold": false }), 422, "DELETE ends the lag"),
        ("POST /v1/servers/1/lag", json!({ "by_ms": 1, "hold": true }), 422, "give one of by_ms"),
        ("POST /v1/servers/1/lag", json!({ "by_ms": -1 }), 422, "invalid value: integer `-1`"),
        ("POST /v1/servers/1/lag", json!({ "ms": 1 }), 422, "unknown field `ms`"),
        ("POST /v1/partition", json!({ "groups": [[9]] }), 404, "no server \"9\" among 3"),
        ("POST /v1/cut", json!({ "server": 1, "connection": 1 }), 422, "not both"),
        ("POST /v1/cut", json!({ "server": u64::MAX }), 404, "among 3"),
        ("GET /v1/servers?until=dawn", Value::Null, 400, "unknown variant `dawn`"),
    ] {
        let (status, answer) = ask(ensemble.control, what, body).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(status == expected && error.contains(word), "{what}: {status} {answer}");
    }
    // No schema can tell that the groups overlap.
    let head =
        "POST /v1/partition HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let (status, answer) = send(ensemble.control, head, r#"{"groups":[[0],[0,1]]}"#).await;
    assert_eq!((status, &answer["error"]), (422, &json!("server 0 is in two groups")));

    drop(ensemble.child.stdin.take());
    let status = within_limit(ensemble.child.wait()).await.expect("it can be waited for");
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn options_that_an_ensemble_does_not_have_are_refused() {
    let control = ["--servers", "3", "--test-control", "127.0.0.1:0"];
    for (options, word) in [
        (vec!["--listen", "127.0.0.1:0"], "--listen has no effect with --servers"),
        (vec!["--data-dir", "/nowhere"], "--data-dir has no effect with --servers"),
        (vec!["--config", "/nowhere"], "--config has no effect with --servers"),
        (vec!["--admin", "127.0.0.1:0"], "--admin has no effect with --servers"),
    ] {
        let ended = run(&[&["serve"][..], &control, &options].concat()).await;
        assert_eq!(ended.code, Some(2), "{options:?}: {ended:?}");
        assert!(ended.stderr.contains(word), "{options:?}: {ended:?}");
    }
    for count in ["0", "16", "-1"] {
        let ended = run(&["serve", "--servers", count, "--test-control", "127.0.0.1:0"]).await;
        assert!(ended.code == Some(2) && ended.stderr.contains("from 1 to 15"), "{ended:?}");
    }
    let ended = run(&["serve", "--servers", "3"]).await;
    assert!(ended.code == Some(2) && ended.stderr.contains("--test-control"), "{ended:?}");
}
