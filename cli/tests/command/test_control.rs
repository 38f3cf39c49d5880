//! The test control: faults over HTTP.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use zoolet::client::{Client, ConnectionState};

use crate::described;
use crate::process::{Running, command, run, within_limit};

/// A server with a test control, and where that is.
async fn start() -> (Running, SocketAddr) {
    let args = ["serve", "--listen", "127.0.0.1:0", "--test-control", "127.0.0.1:0"];
    let mut server = Running::start(&args).await;
    let line = server.next_stdout_line().await.expect("the second line says where");
    let control = line.strip_prefix("test control on http://").expect("it is a URL");
    (server, control.parse().expect("it is an address"))
}

/// Asks as a program does, with headers of one's own; the status and the body of the answer.
pub(crate) async fn send(control: SocketAddr, head: &str, body: &str) -> (u16, Value) {
    let talk = async {
        let mut stream = TcpStream::connect(control).await?;
        let length = body.len();
        let request = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    };
    let answer: String = within_limit(talk).await.expect("the control answers");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.expect("it is HTTP"), serde_json::from_str(body).unwrap_or(Value::Null))
}

pub(crate) async fn ask(control: SocketAddr, what: &str, body: Value) -> (u16, Value) {
    let head = format!(
        "{what} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\n",
        control.port()
    );
    let (status, answer) = send(control, &head, &body.to_string()).await;
    described::check(what, &body, status, &answer);
    (status, answer)
}

async fn connect(server: &Running) -> Client {
    within_limit(Client::connect(server.reachable().to_string().as_str()))
        .await
        .expect("it listens")
}

#[tokio::test]
async fn faults_are_set_take_effect_and_are_lifted() {
    let (server, control) = start().await;
    let client = connect(&server).await;
    let wish = json!({
        "fault": "fail",
        "session": client.session_id().to_string(),
        "requests": { "next": 1, "kind": "creates", "below": "/a" },
        "error": "QuotaExceeded",
    });
    let (status, set) = ask(control, "POST /v1/faults", wish.clone()).await;
    assert_eq!((status, &set["request"], &set["hits"]), (200, &wish, &json!(0)));
    let error = within_limit(async { client.create("/a/b").await }).await.unwrap_err();
    assert!(error.is(zoolet::protocol::ErrorCode::QUOTA_EXCEEDED), "{error}");

    let id = set["id"].as_u64().unwrap();
    let (status, hit) = ask(control, &format!("GET /v1/faults/{id}?hits=1"), Value::Null).await;
    assert_eq!((status, &hit["hits"]), (200, &json!(1)));
    let (status, late) =
        ask(control, &format!("GET /v1/faults/{id}?hits=2&within_ms=1"), Value::Null).await;
    assert_eq!(status, 408, "{late}");
    assert_eq!(ask(control, "GET /v1/faults", Value::Null).await.1.as_array().unwrap().len(), 1);
    assert_eq!(ask(control, &format!("DELETE /v1/faults/{id}"), Value::Null).await.0, 200);
    assert_eq!(ask(control, &format!("DELETE /v1/faults/{id}"), Value::Null).await.0, 404);
    let healed = ask(control, "DELETE /v1/faults", Value::Null).await;
    assert_eq!(healed, (200, json!({ "lifted": 0 })));
}

#[tokio::test]
async fn sessions_and_connections_end_and_time_passes() {
    let (server, control) = start().await;
    let client = connect(&server).await;
    let session = client.session_id();
    let (_, connections) = ask(control, "GET /v1/connections", Value::Null).await;
    assert_eq!(connections[0]["session"], json!(session.to_string()));
    let this = json!({ "connection": connections[0]["id"] });
    assert_eq!(ask(control, "POST /v1/cut", this).await, (200, json!({ "cut": 1 })));
    let mut states = client.state();
    let back = states.wait_for(|state| *state == Some(ConnectionState::Reconnected));
    within_limit(back).await.unwrap();
    assert_eq!(client.session_id(), session, "a session outlives its connection");

    let expired = ask(control, "POST /v1/expire", json!({ "session": session.to_string() })).await;
    assert_eq!(expired, (200, json!({ "expired": 1 })));
    while client.session_id() == session {
        within_limit(states.changed()).await.unwrap();
    }

    let (status, _) = ask(control, "POST /v1/faults", json!({ "fault": "refuse" })).await;
    assert_eq!(status, 200);
    let (status, time) = ask(control, "POST /v1/time", json!({ "advance_ms": 60_000 })).await;
    assert_eq!(status, 200, "{time}");
    let (status, error) =
        ask(control, "POST /v1/expire", json!({ "session": session.to_string() })).await;
    assert_eq!(status, 404);
    assert!(error["error"].as_str().unwrap().contains("no session"), "{error}");
}

#[tokio::test]
async fn a_restart_keeps_the_port_and_the_faults() {
    let (server, control) = start().await;
    let client = connect(&server).await;
    within_limit(async { client.create("/gone").await }).await.unwrap();
    let fault = json!({ "fault": "delay", "delay_ms": 1 });
    assert_eq!(ask(control, "POST /v1/faults", fault).await.0, 200);
    let again = ask(control, "POST /v1/restart", json!({ "down_ms": 10 })).await;
    assert_eq!(again, (200, json!({ "restarted": true })));
    let client = connect(&server).await;
    let there = within_limit(async { client.exists("/gone").await }).await.unwrap();
    assert!(there.is_none(), "it was in memory only");
    assert_eq!(ask(control, "GET /v1/faults", Value::Null).await.1.as_array().unwrap().len(), 1);
    let (status, _) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_reset_leaves_a_new_server() {
    let (server, control) = start().await;
    let client = connect(&server).await;
    let session = client.session_id();
    within_limit(async { client.create("/gone").await }).await.unwrap();
    let fault = json!({ "fault": "delay", "delay_ms": 1 });
    assert_eq!(ask(control, "POST /v1/faults", fault).await.0, 200);
    let reset = ask(control, "POST /v1/reset", Value::Null).await;
    assert_eq!(reset, (200, json!({ "reset": true })));
    assert_eq!(ask(control, "GET /v1/faults", Value::Null).await, (200, json!([])));
    let mut states = client.state();
    while client.session_id() == session {
        within_limit(states.changed()).await.unwrap();
    }
    let client = connect(&server).await;
    let left = within_limit(async { client.children("/").await }).await.unwrap();
    assert!(left.iter().eq(["zookeeper"]), "{left:?}");
}

#[tokio::test]
async fn a_server_that_a_program_starts_is_ready_in_json_and_ends_with_standard_input() {
    let mut command = command(&[
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--test-control",
        "127.0.0.1:0",
        "--ready-json",
        "--exit-with-stdin",
    ]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the command can be started");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let line = within_limit(stdout.next_line()).await.expect("stdout can be read");
    let ready: Value = serde_json::from_str(&line.expect("it prints a line")).expect("of JSON");
    assert_eq!((&ready["ready"], &ready["secure_address"]), (&json!(true), &Value::Null));
    assert_eq!(ready["pid"], json!(child.id()));
    let control = ready["test_control"].as_str().and_then(|url| url.strip_prefix("http://"));
    let control = control.expect("it is a URL").parse().expect("of an address");
    let address = ready["address"].as_str().expect("it listens");
    assert!(address.starts_with("127.0.0.1:"), "clients can connect to {address}");
    let client = within_limit(Client::connect(address)).await.expect("it is ready");
    let (_, connections) = ask(control, "GET /v1/connections", Value::Null).await;
    assert_eq!(connections[0]["session"], json!(client.session_id().to_string()));

    drop(child.stdin.take());
    assert_eq!(within_limit(stdout.next_line()).await.expect("stdout can be read"), None);
    let ended = within_limit(child.wait_with_output()).await.expect("it can be waited for");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("standard input has ended, shutting down"), "{stderr}");
}

#[tokio::test]
async fn an_invalid_request_is_named_and_has_no_effect() {
    let (_server, control) = start().await;
    let (status, help) = ask(control, "GET /", Value::Null).await;
    assert_eq!((status, help["zoolet"].as_str()), (200, Some(env!("CARGO_PKG_VERSION"))));
    let description = help["description"].as_str().expect("its path");
    let (status, description) = ask(control, &format!("GET {description}"), Value::Null).await;
    assert_eq!((status, description["openapi"].as_str()), (200, Some("3.1.0")));
    let (routes, paths) = (help["routes"].as_object(), description["paths"].as_object());
    assert!(routes.unwrap().len() >= paths.unwrap().len() && paths.unwrap().len() == 17, "{help}");
    let cases = [
        ("GET /v1/fault", Value::Null, 404, "GET / tells what there is"),
        ("GET /v1/faults/x", Value::Null, 400, "a fault is named by its id"),
        ("DELETE /v1/faults/x", Value::Null, 400, "a fault is named by its id"),
        ("PUT /v1/faults", Value::Null, 405, "PUT is not for /v1/faults"),
        ("POST /v1/faults", json!({ "fault": "freze" }), 422, "unknown variant `freze`"),
        ("POST /v1/faults", json!({ "fault": "fail" }), 422, "needs \"error\""),
        ("POST /v1/faults", json!({ "fault": "hold", "session": "0x1" }), 404, "no session 0x1"),
        ("POST /v1/time", json!({ "advance_ms": -1 }), 422, "invalid value: integer `-1`"),
        ("POST /v1/cut", json!({ "sesion": "0x1" }), 422, "unknown field `sesion`"),
        ("POST /v1/cut", json!({ "session": 1, "connection": 1 }), 422, "not both"),
        ("POST /v1/faults", json!({ "fault": "hold", "frames": 1 }), 422, "not for this fault"),
        ("POST /v1/faults", json!({ "fault": "hold", "requests": {} }), 422, "not for this fault"),
        ("POST /faults", json!({ "fault": "hold" }), 404, "GET / tells what there is"),
        (
            "POST /v1/faults",
            json!({ "fault": "hold", "server": 1 }),
            404,
            "no server \"1\" among 1",
        ),
        ("GET /v1/servers", Value::Null, 409, "zoolet serve --servers 3 --test-control"),
        ("POST /v1/servers/1/cut_off", Value::Null, 409, "zoolet serve --servers 3"),
        ("POST /v1/partition", json!({ "groups": [[0]] }), 409, "zoolet serve --servers 3"),
    ];
    for (what, body, expected, word) in cases {
        let (status, answer) = ask(control, what, body).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(status == expected && error.contains(word), "{what}: {status} {answer}");
    }
    assert_eq!(ask(control, "GET /v1/faults", Value::Null).await, (200, json!([])));
}

#[tokio::test]
async fn requests_of_a_web_page_are_refused() {
    let (_server, control) = start().await;
    let form = "POST /v1/faults HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n";
    assert_eq!(send(control, form, r#"{"fault":"freeze"}"#).await.0, 415);
    let rebound =
        "POST /v1/faults HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n";
    assert_eq!(send(control, rebound, r#"{"fault":"freeze"}"#).await.0, 403);
    assert_eq!(ask(control, "GET /v1/faults", Value::Null).await, (200, json!([])));
}

#[tokio::test]
async fn test_control_listens_on_loopback_addresses_only() {
    let ended = run(&["serve", "--listen", "127.0.0.1:0", "--test-control", "0.0.0.0:0"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("it must be a loopback address"), "{ended:?}");
    let ended = run(&["serve", "--listen", "127.0.0.1:0", "--test-control", "8080"]).await;
    assert!(ended.stderr.contains("as 127.0.0.1:8080"), "{ended:?}");
    // Who sets no control has none.
    let mut server = Running::start(&["serve", "--listen", "127.0.0.1:0"]).await;
    let line = tokio::time::timeout(Duration::from_secs(60), server.next_stdout_line()).await;
    assert!(line.unwrap().unwrap().starts_with("zoolet "));
}

#[tokio::test]
async fn a_signal_ends_the_command_while_the_server_is_down_for_a_restart() {
    for signal in ["TERM", "INT"] {
        let (server, control) = start().await;
        let restart = tokio::spawn(async move {
            let mut stream = TcpStream::connect(control).await.expect("it listens");
            let body = r#"{"down_ms": 3600000}"#;
            let length = body.len();
            let head =
                "POST /v1/restart HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
            let request = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(request.as_bytes()).await.expect("it reads");
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        while within_limit(TcpStream::connect(server.address)).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let (status, stderr) = server.end(signal).await;
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert!(stderr.contains("received during a restart"), "{stderr}");
        within_limit(restart).await.expect("the connection ends with the command");
    }
}
