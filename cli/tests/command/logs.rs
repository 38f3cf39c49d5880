//! What the server logs: as text or JSON, at the levels that were asked for, and without secrets.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zoolet_client::sasl::{DigestMd5, Password};
use zoolet_client::{Client, Error};
use zoolet_protocol::{Acl, Id, Permissions};

use crate::process::{Running, directory, file, run, within_limit};

const PASSWORDS: [&str; 5] = [
    "password-of-sasl",
    "wrong-password-of-sasl",
    "password-of-digest",
    "wrong-password-of-super",
    "password-of-super",
];

const JAAS: &str = "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  \
                    user_ann=\"password-of-sasl\";\n};\n";

/// The user `super` with the last of the passwords.
const SUPER_HASH: &str = "6g0imBHdXQ7EXg9P4y0HMIEYpIE=";

/// The hash in an access control list.
const ACL_HASH: &str = "aGFzaCBvZiBzb21lYm9keSBl";

async fn connect(server: &Running) -> Result<Client, Error> {
    Client::connect(server.address.to_string().as_str()).await
}

/// Authenticates in every way, rightly and wrongly, and sets an access control list.
async fn authenticate(server: &Running) -> Result<(), Error> {
    let client = connect(server).await?;
    client.authenticate("digest", "bob:password-of-digest").await?;
    client.authenticate("digest", "super:wrong-password-of-super").await?;
    client.authenticate("digest", "super:password-of-super").await?;
    client.create("/secret").data("data-of-znode").await?;
    let id = Id::new("digest", format!("ann:{ACL_HASH}"));
    client.set_acl("/secret", vec![Acl { permissions: Permissions::ALL, id }]).await?;
    client.close().await?;
    for password in ["password-of-sasl", "wrong-password-of-sasl"] {
        let mechanism = DigestMd5::new("ann", Password::from(password));
        let address = server.address.to_string();
        let connected = Client::builder()
            .connection_timeout(Duration::from_secs(5))
            .sasl(mechanism)
            .connect(address.as_str())
            .await;
        assert_eq!(connected.is_ok(), password == "password-of-sasl");
    }
    Ok(())
}

#[tokio::test]
async fn no_password_no_hash_and_no_data_are_logged_at_any_level() {
    let jaas = file("logs-jaas.conf", JAAS);
    let audit = directory("logs-audit").join("audit.log");
    let (jaas, audit_log) = (jaas.to_str().unwrap(), audit.to_str().unwrap());
    let super_digest = format!("super:{SUPER_HASH}");
    let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--log-level", "trace"];
    args.extend(["--jaas-config", jaas, "--auth-provider", "sasl", "--audit-log", audit_log]);
    args.extend(["--super-digest", &super_digest, "--log-format", "json"]);
    let server = Running::start(&args).await;
    within_limit(authenticate(&server)).await.expect("the server lets them in");
    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("authentication failed"), "{stderr}");
    let audit = std::fs::read_to_string(audit).expect("there is an audit log");
    assert!(audit.contains("operation=setAcl"), "{audit}");
    assert!(audit.contains("operation=serverStop\tresult=invoked"), "{audit}");
    for secret in PASSWORDS.iter().chain(&[SUPER_HASH, ACL_HASH, "data-of-znode"]) {
        assert!(!stderr.contains(secret), "{secret} is in the log:\n{stderr}");
        assert!(!audit.contains(secret), "{secret} is in the audit log:\n{audit}");
    }
}

#[tokio::test]
async fn json_has_session_address_and_cause_as_fields() {
    let levels = "zoolet_server::engine=debug,zoolet_server::transport=off,warn";
    let args = ["--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", levels];
    let server = Running::start(&args).await;
    let client = within_limit(connect(&server)).await.expect("it connects");
    let session = client.session_id();
    let refused = within_limit(client.authenticate("nosuch", "x")).await;
    assert!(refused.is_err());
    let (_, stderr) = server.end("TERM").await;
    let lines: Vec<serde_json::Value> = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let line = |message: &str| {
        let found = lines.iter().find(|line| line["message"] == message);
        found.unwrap_or_else(|| panic!("no {message:?} in {stderr}"))
    };
    let failed = line("authentication failed");
    assert_eq!(failed["session"], session.to_string());
    assert!(failed["address"].as_str().is_some_and(|text| text.starts_with("127.0.0.1:")));
    assert!(failed["cause"].is_string(), "{failed}");
    assert_eq!(failed["level"], "WARN");
    assert_eq!(line("connection closed")["session"], session.to_string());
    let targets: Vec<_> = lines.iter().filter_map(|line| line["target"].as_str()).collect();
    assert!(targets.iter().all(|target| !target.starts_with("zoolet_server::transport")));
}

/// Clients that fail to authenticate again and again do not fill the log.
#[tokio::test]
async fn one_warning_a_second_tells_of_failed_authentication() {
    let server = Running::start(&["--listen", "127.0.0.1:0"]).await;
    #[expect(clippy::disallowed_methods, reason = "the server's log goes by real time")]
    let began = std::time::Instant::now();
    for _ in 0..40 {
        let client = within_limit(connect(&server)).await.expect("it connects");
        assert!(within_limit(client.authenticate("nosuch", "x")).await.is_err());
    }
    let seconds_max = began.elapsed().as_secs() as usize + 1;
    let (_, stderr) = server.end("TERM").await;
    let warnings = stderr.lines().filter(|line| line.contains("authentication failed")).count();
    assert!((1..=seconds_max).contains(&warnings), "{warnings} in {seconds_max} s: {stderr}");
}

#[tokio::test]
async fn levels_that_are_none_are_refused() {
    let ended = run(&["serve", "--log-level", "zoolet_server=loud"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("zoolet_server::transport=debug,info"), "{ended:?}");
}

#[tokio::test]
async fn a_port_for_metrics_that_is_taken_is_named_with_the_cure() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it listens").to_string();
    let ended = run(&["serve", "--listen", "127.0.0.1:0", "--metrics", &address]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains(&format!("cannot listen on {address}")), "{ended:?}");
    assert!(ended.stderr.contains("--metrics HOST:PORT"), "{ended:?}");
}

#[tokio::test]
async fn an_audit_log_that_cannot_be_written_is_named() {
    let args = ["serve", "--listen", "127.0.0.1:0", "--audit-log", "/dev/null/audit.log"];
    let ended = run(&args).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("/dev/null/audit.log"), "{ended:?}");
}

/// Nor do those that speak another protocol, or send more than they may.
#[tokio::test]
async fn one_warning_a_second_tells_of_what_is_no_frame() {
    for (options, first, told) in [
        (&[][..], &b"GET / HTTP/1.1"[..], "raise jute.maxbuffer"),
        (
            &["--large-request-max-bytes", "1", "--large-request-threshold", "1"],
            &[0, 0, 1, 0][..],
            "large",
        ),
    ] {
        let args = [&["--listen", "127.0.0.1:0", "--max-client-cnxns", "0"], options].concat();
        let server = Running::start(&args).await;
        #[expect(clippy::disallowed_methods, reason = "the server's log goes by real time")]
        let began = std::time::Instant::now();
        for _ in 0..40 {
            let mut stream =
                tokio::net::TcpStream::connect(server.address).await.expect("it listens");
            stream.write_all(first).await.expect("it is open");
            let _ = within_limit(stream.read(&mut [0])).await;
        }
        let seconds_max = began.elapsed().as_secs() as usize + 1;
        let (_, stderr) = server.end("TERM").await;
        let warnings = stderr.lines().filter(|line| line.contains("connection closed")).count();
        assert!((1..=seconds_max).contains(&warnings), "{warnings} in {seconds_max} s: {stderr}");
        assert!(stderr.contains(told), "{stderr}");
    }
}
