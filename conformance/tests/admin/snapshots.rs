//! Snapshots over HTTP: taken, restored, and refused.

use std::time::Duration;

use zoolet_client::{Client, CreateMode};
use zoolet_server::admin::AdminConfig;
use zoolet_server::{AuditLog, Config, Server};

use super::http::{self, Answer};
use super::{Administered, Outcome};

const ROOT: &str = "Authorization: digest root:pw\r\n";

async fn snapshot(ours: &Administered) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    http::get(ours.admin, "/commands/snapshot", ROOT).await
}

async fn restore(
    ours: &Administered,
    snapshot: &[u8],
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    http::request(ours.admin, "POST", "/commands/restore", ROOT, snapshot).await
}

/// A server with two znodes and a session, its snapshot, and a change after that.
async fn changed(
    ours: &Administered,
) -> Result<(Client, Vec<u8>), Box<dyn std::error::Error + Send + Sync>> {
    let client = Client::builder().connect(ours.address().as_str()).await?;
    client.create("/kept").data("old").await?;
    client.create("/e").mode(CreateMode::Ephemeral).await?;
    let taken = snapshot(ours).await?;
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert_eq!(taken.header("content-type"), "application/octet-stream");
    assert_eq!(taken.header("snapshot_size"), taken.body.len().to_string());
    assert_eq!(taken.header("last_zxid"), "0x3");
    client.set("/kept", "new").await?;
    client.create("/later").await?;
    Ok((client, taken.body))
}

/// In memory and with a data directory: what was taken comes back, its sessions have ended, and the
/// zxid does not go back.
#[tokio::test]
async fn what_was_taken_comes_back() -> Outcome {
    let directory = tempfile::tempdir()?;
    for storage in [None, Some(directory.path())] {
        let ours = Administered::start(storage, |_| {}).await?;
        let (client, taken) = changed(&ours).await?;
        let session = client.session_id();
        let before = client.exists("/later").await?.expect("it was created").czxid;
        let restored = restore(&ours, &taken).await?;
        assert_eq!(restored.status, 200, "{}", restored.text());
        // Its client begins another one.
        while client.get("/kept").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_ne!(client.session_id(), session, "it has ended");
        let other = Client::connect(ours.address().as_str()).await?;
        assert_eq!(other.get("/kept").await?.0, "old");
        assert_eq!(other.exists("/later").await?, None);
        assert_eq!(other.exists("/e").await?, None, "its session has ended");
        other.create("/new").await?;
        let after = other.exists("/new").await?.expect("it was created").czxid;
        assert!(after > before, "{after} follows {before}");
        ours.server.check()?;
        let _ = other.close().await;
        ours.server.shutdown().await;
        let Some(storage) = storage else { continue };
        let again = Administered::start(Some(storage), |_| {}).await?;
        let client = Client::connect(again.address().as_str()).await?;
        assert_eq!(client.get("/kept").await?.0, "old", "it is durable");
        assert_eq!(client.exists("/later").await?, None);
        assert!(client.exists("/new").await?.is_some(), "so is what came after it");
        let _ = client.close().await;
        again.server.shutdown().await;
    }
    Ok(())
}

/// A snapshot of another server: its sessions live here, and those that own nothing else end.
#[tokio::test]
async fn sessions_of_another_server_live_on() -> Outcome {
    let there = Administered::start(None, |_| {}).await?;
    // Servers that start in the same millisecond number their sessions alike.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let here = Administered::start(None, |_| {}).await?;
    let (_client, taken) = changed(&there).await?;
    let local = Client::connect(here.address().as_str()).await?;
    local.create("/local").await?;
    assert_eq!(restore(&here, &taken).await?.status, 200);
    assert_eq!(here.server.totals().sessions, 1, "the one in the snapshot");
    let other = Client::connect(here.address().as_str()).await?;
    assert_eq!(other.exists("/local").await?, None);
    assert!(other.exists("/e").await?.is_some(), "its session has its timeout");
    here.server.check()?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_whole_snapshot_changes_nothing() -> Outcome {
    let directory = tempfile::tempdir()?;
    let ours = Administered::start(Some(directory.path()), |_| {}).await?;
    let (client, taken) = changed(&ours).await?;
    let mut damaged = taken.clone();
    damaged[taken.len() / 2] ^= 1;
    let overlong = [&taken[..], b"x"].concat();
    let cases: [&[u8]; 6] =
        [b"", b"junk", &taken[..taken.len() - 1], &taken[..100], &damaged, &overlong];
    for case in cases {
        let refused = restore(&ours, case).await?;
        let text = refused.text();
        assert_eq!(refused.status, 500, "{text}");
        assert!(
            text.starts_with("{\n  \"command\" : \"restore\",\n  \"error\" : \"the snap"),
            "{text}"
        );
    }
    // A client that promises more than it sends.
    let head = format!(
        "POST /commands/restore HTTP/1.1\r\nHost: {}\r\n{ROOT}Content-Length: {}\r\n\r\n",
        ours.admin,
        taken.len() + 1
    );
    let mut stream = tokio::net::TcpStream::connect(ours.admin).await?;
    tokio::io::AsyncWriteExt::write_all(&mut stream, &[head.as_bytes(), &taken].concat()).await?;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(client.get("/kept").await?.0, "new");
    assert!(client.exists("/e").await?.is_some());
    let files = std::fs::read_dir(directory.path().join("version-2"))?;
    let names: Vec<_> =
        files.filter_map(|file| file.ok()?.file_name().into_string().ok()).collect();
    assert!(names.iter().all(|name| !name.starts_with("unfinished")), "{names:?}");
    Ok(())
}

#[tokio::test]
async fn only_those_with_all_permissions_may() -> Outcome {
    let ours = Administered::start(None, |_| {}).await?;
    let client = Client::connect(ours.address().as_str()).await?;
    client.authenticate("digest", "root:pw").await?;
    let own = zoolet_protocol::Acl {
        permissions: zoolet_protocol::Permissions::ALL,
        id: zoolet_protocol::Id::new("auth", ""),
    };
    client.set_acl("/", vec![own]).await?;
    let ask = async |headers: &str| http::get(ours.admin, "/commands/snapshot", headers).await;
    assert_eq!(ask(ROOT).await?.status, 200);
    for (headers, status, reason) in [
        ("", 401, "Auth info is missing for the command"),
        ("Authorization: digest root:other\r\n", 403, "Not authorized"),
        ("Authorization: ip\r\n", 403, "Not authorized"),
        ("Authorization: basic cm9vdDpwdw==\r\n", 401, "Not authenticated"),
        ("Authorization: digest root:other\r\nAuthorization: digest root:pw\r\n", 403, "Not auth"),
        ("Authorization: digest \u{e9}:pw\r\n", 401, "Not authenticated"),
    ] {
        let refused = ask(headers).await?;
        assert_eq!(refused.status, status, "{headers}: {}", refused.text());
        assert!(refused.text().contains(reason), "{}", refused.text());
        let path = "/commands/restore";
        let restore = http::request(ours.admin, "POST", path, headers, b"junk").await?;
        assert_eq!(restore.status, status, "{headers}");
        let path = "/commands/shed_connections";
        let shed =
            http::request(ours.admin, "POST", path, headers, b"{\"percentage\": 100}").await?;
        assert_eq!(shed.status, status, "{headers}");
    }
    assert_eq!(ours.server.totals().sessions, 1, "nobody was turned away");
    Ok(())
}

/// Only with the setting, and only the first address counts.
#[tokio::test]
async fn a_proxy_may_tell_who_asks() -> Outcome {
    for (trusts, status) in [(false, 403), (true, 200)] {
        let ours = Administered::start(None, |it| it.trust_forwarded_for = trusts).await?;
        let client = Client::connect(ours.address().as_str()).await?;
        let of = |id| zoolet_protocol::Acl {
            permissions: zoolet_protocol::Permissions::ALL,
            id: zoolet_protocol::Id::new("ip", id),
        };
        client.set_acl("/", vec![of("10.1.2.3")]).await?;
        for (forwarded, status) in [
            ("10.1.2.3, 127.0.0.1", status),
            ("127.0.0.1, 10.1.2.3", 403),
            ("nobody", if trusts { 401 } else { 403 }),
        ] {
            let headers = format!("Authorization: ip\r\nX-Forwarded-For: {forwarded}\r\n");
            let answer = http::get(ours.admin, "/commands/snapshot", &headers).await?;
            assert_eq!(answer.status, status, "{forwarded}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn calls_are_limited_and_can_be_turned_off() -> Outcome {
    let limited = Administered::start(None, |config| {
        config.rate_limiter_interval = Duration::from_secs(3_600);
    })
    .await?;
    let a_thousandth = "snapshot is allowed once in 3.6 s";
    for (statuses, is_restore) in [([200, 429], false), ([500, 429], true)] {
        for status in statuses {
            let answer = match is_restore {
                true => restore(&limited, b"junk").await?,
                false => snapshot(&limited).await?,
            };
            assert_eq!(answer.status, status, "{}", answer.text());
            let told = if is_restore { "restore is allowed once in 3600 s" } else { a_thousandth };
            let reason = format!("{told} (admin.rateLimiterIntervalInMS)");
            assert_eq!(answer.text().contains(&reason), status == 429, "{}", answer.text());
        }
    }
    let off = Administered::start(None, |config| {
        config.snapshot_enabled = false;
        config.restore_enabled = false;
    })
    .await?;
    for (name, answer) in
        [("snapshot", snapshot(&off).await?), ("restore", restore(&off, b"junk").await?)]
    {
        assert_eq!(answer.status, 503, "{}", answer.text());
        let reason = format!("\"error\" : \"{name} is off (admin.{name}.enabled=false)\"");
        assert!(answer.text().contains(&reason), "{}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn connections_are_shed() -> Outcome {
    let ours = Administered::start(None, |_| {}).await?;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(Client::connect(ours.address().as_str()).await?);
    }
    let shed = async |body: &str| {
        let path = "/commands/shed";
        http::request(ours.admin, "POST", path, ROOT, body.as_bytes()).await
    };
    for (body, reason) in [
        ("", "Invalid JSON or failed to read request body: "),
        ("{", "Invalid JSON"),
        ("{}", "Missing required field: percentage"),
        ("[1]", "Missing required field: percentage"),
        ("{\"percentage\": 101}", "Percentage must be between 0 and 100"),
        ("{\"percentage\": -1}", "Percentage must be between 0 and 100"),
        ("{\"percentage\": \"5\"}", "Percentage must be between 0 and 100"),
    ] {
        let refused = shed(body).await?;
        assert_eq!(refused.status, 400, "{}", refused.text());
        let begin = format!("{{\n  \"error\" : \"{reason}");
        assert!(refused.text().starts_with(&begin), "{}", refused.text());
    }
    let all = shed("{\"percentage\": 100}").await?.text();
    let expected = "{\n  \"connections_shed\" : 20,\n  \"percentage_requested\" : 100,\n  \
                    \"command\" : \"shed_connections\",\n  \"error\" : null\n}";
    assert_eq!(all, expected);
    for client in &clients {
        // The session lives on over another connection.
        while client.exists("/").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(ours.server.totals().sessions, 20);
    assert!(shed("{\"percentage\": 0}").await?.text().contains("\"connections_shed\" : 0,"));
    Ok(())
}

/// Snapshots on request count among those that are kept, as with ZooKeeper's purge, and in the metrics.
#[tokio::test]
async fn snapshots_on_request_are_counted_and_purged() -> Outcome {
    let directory = tempfile::tempdir()?;
    let ours = Administered::start(Some(directory.path()), |_| {}).await?;
    let client = Client::connect(ours.address().as_str()).await?;
    for number in 0..5 {
        client.create(&format!("/{number}")).await?;
        assert_eq!(snapshot(&ours).await?.status, 200);
    }
    let files = std::fs::read_dir(directory.path().join("version-2"))?;
    let names = files.map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect::<std::io::Result<_>>()?;
    let kept = names.iter().filter(|name| name.starts_with("snapshot.")).count();
    assert_eq!(kept, 3, "{names:?}");
    // One is of the start.
    let monitor = http::get(ours.admin, "/commands/monitor", "").await?.text();
    assert!(monitor.contains("\"cnt_snapshottime\" : 6,"), "{monitor}");
    Ok(())
}

/// The audit log names who has replaced everything, or wanted to.
#[tokio::test]
async fn a_restore_is_in_the_audit_log() -> Outcome {
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("audit.log");
    let audit = Some(AuditLog::File(log.clone()));
    let server = Server::builder().config(Config { audit, ..Config::default() }).start().await?;
    let listen = ([127, 0, 0, 1], 0).into();
    let interval = Duration::ZERO;
    let config = AdminConfig { listen, rate_limiter_interval: interval, ..AdminConfig::default() };
    let admin = server.start_admin(config).await?;
    let taken = http::get(admin, "/commands/snapshot", ROOT).await?;
    for (body, status) in [(&b"junk"[..], 500), (&taken.body, 200)] {
        let answer = http::request(admin, "POST", "/commands/restore", ROOT, body).await?;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    server.restore(std::io::Cursor::new(taken.body)).await?;
    server.shutdown().await;
    let text = std::fs::read_to_string(log)?;
    let lines: Vec<_> = text.lines().filter(|line| line.contains("operation=restore")).collect();
    let end =
        |result| format!("user=root\tip=127.0.0.1\toperation=restore\tznode=/\tresult={result}");
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains(" ERROR ") && lines[0].ends_with(&end("failure")), "{text}");
    assert!(lines[1].ends_with(&end("success")), "{text}");
    assert!(!lines[2].contains("ip=") && lines[2].ends_with("\tresult=success"), "{text}");
    Ok(())
}
