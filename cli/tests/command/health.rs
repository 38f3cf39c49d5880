//! `zoolet health`: what a probe or a script is told.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

#[cfg(target_os = "linux")]
use crate::process::ended_without_room;
use crate::process::{Running, command, directory, ended, run};
use crate::test_control::ask;

#[tokio::test]
async fn a_server_that_serves() {
    let server = Running::start(&["serve", "--listen", "127.0.0.1:0"]).await;
    let address = server.address.to_string();
    let healthy = run(&["health", &address]).await;
    assert_eq!((healthy.code, healthy.stderr.as_str()), (Some(0), ""), "{healthy:?}");
    let expected = format!("{address} serves: mode standalone, version ");
    assert!(healthy.stdout.starts_with(&expected), "{healthy:?}");
    assert_eq!(healthy.stdout.lines().count(), 1, "{healthy:?}");

    let mut by_variable = command(&["health", "--quiet"]);
    by_variable.env("ZOOLET_SERVER", format!("{address}/app"));
    let healthy = ended(by_variable).await;
    assert_eq!((healthy.code, healthy.stdout.as_str()), (Some(0), ""), "{healthy:?}");
}

#[tokio::test]
async fn each_failure_has_a_status_of_its_own() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let refused = free.local_addr().expect("it has one").to_string();
    drop(free);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let silent = (silent.local_addr().expect("it has one").to_string(), silent);
    let cases: [(&[&str], i32, &str); 5] = [
        (&[&refused], 3, "cannot be reached: "),
        (&["no.such.host.invalid"], 3, "cannot be reached: "),
        (&[&silent.0, "--timeout", "100ms"], 4, "does not answer: nothing came within 100ms"),
        (&["127.0.0.1:port"], 2, ""),
        (&["--timeout", "never"], 2, ""),
    ];
    for (args, code, expected) in cases {
        let args = [&["health"], args].concat();
        let told = run(&args).await;
        assert_eq!(told.code, Some(code), "{args:?}: {told:?}");
        assert!(told.stdout.contains(expected), "{args:?}: {told:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_status_is_the_same_if_the_answer_cannot_be_printed() {
    let server = Running::start(&["serve", "--listen", "127.0.0.1:0"]).await;
    let told = ended_without_room(command(&["health", &server.address.to_string()])).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stderr.contains("stdout cannot be written"), "{told:?}");
}

#[tokio::test]
async fn a_server_that_hangs_does_not_answer() {
    let args = ["serve", "--listen", "127.0.0.1:0", "--test-control", "127.0.0.1:0"];
    let mut server = Running::start(&args).await;
    let line = server.next_stdout_line().await.expect("the second line says where");
    let control = line.strip_prefix("test control on http://").expect("it is a URL");
    let control = control.parse().expect("it is an address");
    assert_eq!(ask(control, "POST /v1/faults", json!({ "fault": "freeze" })).await.0, 200);
    let hung = run(&["health", &server.address.to_string(), "--timeout", "300ms"]).await;
    assert_eq!(hung.code, Some(4), "{hung:?}");
    let fault = json!({ "fault": "refuse" });
    assert_eq!(ask(control, "DELETE /v1/faults", serde_json::Value::Null).await.0, 200);
    assert_eq!(ask(control, "POST /v1/faults", fault).await.0, 200);
    let refusing = run(&["health", &server.address.to_string()]).await;
    assert_eq!(refusing.code, Some(1), "{refusing:?}");
    assert!(refusing.stdout.contains("does not serve: "), "{refusing:?}");
}

#[tokio::test]
async fn it_waits_for_a_server_that_starts_later() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = free.local_addr().expect("it has one").to_string();
    drop(free);
    let over = run(&["health", &address, "--wait", "200ms"]).await;
    assert_eq!(over.code, Some(3), "{over:?}");
    let both = format!("{address},{address}");
    let waiting = tokio::spawn(ended(command(&["health", &both, "--wait", "60s"])));
    // So that it is refused at least once.
    let _ = tokio::time::timeout(Duration::from_millis(300), std::future::pending::<()>()).await;
    assert!(!waiting.is_finished());
    let server = Running::start(&["serve", "--listen", &address]).await;
    let healthy = waiting.await.expect("it does not panic");
    assert_eq!(healthy.code, Some(0), "{healthy:?}");
    assert_eq!(healthy.stdout.lines().count(), 2, "{healthy:?}");
    drop(server);
}

#[tokio::test]
async fn a_server_is_asked_by_tls() {
    let certs = directory("health-certs");
    let made = run(&["certs", certs.to_str().expect("the path is UTF-8")]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let path = |name: &str| certs.join(name).to_str().expect("the path is UTF-8").to_owned();
    let (server, ca, client) = (path("server.pem"), path("ca.pem"), path("client.pem"));
    let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--secure-client-port", "0"];
    args.extend(["--secure-client-port-address", "127.0.0.1"]);
    args.extend(["--ssl-key-store-location", &server, "--ssl-trust-store-location", &ca]);
    let mut server = Running::start(&args).await;
    let line = server.next_stdout_line().await.expect("the second line says where");
    let line = line.strip_prefix("listening on ").and_then(|rest| rest.strip_suffix(" for TLS"));
    let secure = line.expect("it listens for TLS").to_owned();

    let told = run(&["health", &secure, "--tls-ca", &ca, "--tls-cert", &client]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stdout.contains("serves: mode standalone"), "{told:?}");
    // The server asks for a certificate, unless told otherwise.
    let told = run(&["health", &secure, "--tls-ca", &ca]).await;
    assert_eq!(told.code, Some(5), "{told:?}");
    let told = run(&["health", &server.address.to_string(), "--tls-ca", &ca]).await;
    assert_eq!(told.code, Some(5), "{told:?}");
    assert!(told.stdout.contains("the server does not speak TLS on this port"), "{told:?}");
    let told = run(&["health", &secure, "--tls-ca", "/no/such/ca.pem"]).await;
    assert_eq!((told.code, told.stdout.as_str()), (Some(2), ""), "{told:?}");
    assert!(told.stderr.contains("/no/such/ca.pem"), "{told:?}");
    let told = run(&["health", &secure, "--timeout", "6s"]).await;
    assert_eq!(told.code, Some(5), "{told:?}");
    assert!(told.stdout.contains("the server speaks TLS on this port"), "{told:?}");
}

#[tokio::test]
async fn whoever_is_refused_by_the_limit_of_connections_is_told_of_the_limit() {
    // The connection without a session that is taken lasts longer than the commands.
    let few = ["serve", "--listen", "127.0.0.1:0", "--max-client-cnxns", "1"];
    let patient = ["--nio-sessionless-cnxn-timeout", "600000"];
    let server = Running::start(&[&few[..], &patient].concat()).await;
    let taken = std::net::TcpStream::connect(server.address).expect("the first is taken");
    let address = &server.address.to_string();
    let commands: [&[&str]; 4] = [
        &["health", address],
        &["cli", "--server", address, "--connect-timeout", "3s", "ls", "/"],
        &["cli", "--server", address, "srvr"],
        &["lock", "--server", address, "--wait", "3s", "/locks/a", "true"],
    ];
    for args in commands {
        let refused = run(args).await;
        assert_ne!(refused.code, Some(0), "{args:?}: {refused:?}");
        let told = refused.stdout + &refused.stderr;
        assert!(told.contains("that its maxClientCnxns allows"), "{args:?}: {told}");
    }
    drop(taken);
}

#[tokio::test]
async fn the_report_of_a_doctor_who_takes_the_last_connection_names_the_limit() {
    let few = ["serve", "--listen", "127.0.0.1:0", "--max-client-cnxns", "1"];
    let server = Running::start(&few).await;
    let report = run(&["doctor", &server.address.to_string()]).await;
    assert!(report.stdout.contains("warning: silent-server"), "{report:?}");
    assert!(report.stdout.contains("that its maxClientCnxns allows"), "{report:?}");
}
