//! Every command after the same requests, byte for byte beside 3.9.5.
//!
//! `conformance/admin/commands.txt` was recorded from Apache ZooKeeper 3.9.5. To record it again, or to
//! compare with a live server, start one with `admin.enableServer=true` and
//! `admin.rateLimiterIntervalInMS=0` on an empty data directory, and set
//! `ZOOLET_ZOOKEEPER_3_9=HOST:CLIENTPORT,HOST:ADMINPORT`. `ZOOLET_RECORD=1` then writes the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_client::{Client, CreateMode};
use zoolet_conformance::peers::conformance_folder;
use zoolet_server::admin::MetricsConfig;
use zoolet_server::limits::REPORTS_AT_ONCE;

use super::http::{self, Answer};
use super::masking::masked;
use super::{Administered, Outcome};

/// The paths that are asked for, in this order.
const PATHS: &str = "
    configuration conf config connections cons hash dirs dump environment env envi
    get_trace_mask gtmk initial_configuration icfg is_read_only isro last_snapshot lsnp leader lead
    observer_connection_stat_reset orst ruok server_stats srvr stats stat observers obsr voting_view
    watches wchc watches_by_path wchp watch_summary wchs zabstate
    set_trace_mask stmk stmk?traceMask= stmk?traceMask=x stmk?traceMask=1.5 stmk?other=1
    stmk?traceMask=-1 set_trace_mask?traceMask=9223372036854775808 set_trace_mask?traceMask=4&traceMask=x
    get_trace_mask
    nosuch RUOK foo/bar %22%5C%09%C3%A9
    snapshot snap connection_stat_reset crst cons stat_reset srst srvr";

/// The commands that need authorization, with the header that they get.
const AUTHORIZED: &[(&str, &str)] = &[
    ("snapshot?streaming=false", "digest root:pw"),
    ("snapshot?streaming=no", "digest root:pw"),
    ("snap?streaming=false", "ip"),
    ("snap?streaming=false", "ip 10.0.0.1"),
    ("snapshot", "digest"),
    ("snapshot", "digest a b"),
    ("snapshot", "nosuch a:b"),
    ("snapshot", "world anyone"),
];

#[tokio::test]
async fn every_command_answers_as_zookeeper_does() -> Outcome {
    let recorded = std::fs::read_to_string(recording())?;
    let directory = tempfile::tempdir()?;
    let ours = Administered::start(Some(directory.path()), |config| {
        config.initial_configuration = Some("dataDir=/x\n".to_owned());
    })
    .await?;
    let trace = trace(&ours.address(), ours.admin).await?;
    ours.server.shutdown().await;
    assert!(trace == recorded, "{}", difference(&recorded, &trace));
    Ok(())
}

#[tokio::test]
async fn the_recording_is_what_a_live_zookeeper_answers() -> Outcome {
    // This repeats or makes the recording; the test above is the one that always runs.
    let Ok(live) = std::env::var("ZOOLET_ZOOKEEPER_3_9") else { return Ok(()) };
    let (clients, admin) = live.split_once(',').ok_or("give two addresses with a comma")?;
    let trace = trace(clients, admin.parse()?).await?;
    if std::env::var("ZOOLET_RECORD").is_ok() {
        std::fs::write(recording(), trace)?;
        return Ok(());
    }
    // The order of the methods of a Java class may differ from run to run.
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(|line| line.trim_end_matches(',')).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let recorded = std::fs::read_to_string(recording())?;
    assert!(sorted(&trace) == sorted(&recorded), "{}", difference(&recorded, &trace));
    Ok(())
}

fn recording() -> PathBuf {
    conformance_folder().join("admin/commands.txt")
}

/// What a fresh server answers after some requests of a client.
async fn trace(
    clients: &str,
    admin: SocketAddr,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let client = Client::connect(clients).await?;
    client.create("/a").data("one").await?;
    client.create("/e").mode(CreateMode::Ephemeral).await?;
    let _data = client.get("/a").and_watch().await?;
    let _missing = client.exists("/missing").and_watch().await?;
    let _children = client.children("/").and_watch().await?;
    let mut trace = String::new();
    for path in PATHS.split_whitespace() {
        let answer = http::get(admin, &format!("/commands/{path}"), "").await?;
        write(&mut trace, path, "", &answer);
    }
    for (path, authorization) in AUTHORIZED {
        let header = format!("Authorization: {authorization}\r\n");
        let answer = http::get(admin, &format!("/commands/{path}"), &header).await?;
        write(&mut trace, path, authorization, &answer);
    }
    let _ = client.close().await;
    Ok(trace)
}

fn write(trace: &mut String, path: &str, authorization: &str, answer: &Answer) {
    let command = path.split('?').next().unwrap_or_default();
    let mut head = format!("GET /commands/{path} {authorization}");
    head.truncate(head.trim_end().len());
    let mut told = format!("{} {}", answer.status, answer.header("content-type"));
    for name in ["last_zxid", "snapshot_size"] {
        if !answer.header(name).is_empty() {
            told += &format!(" {name}");
        }
    }
    *trace += &format!("> {head}\n{told}\n{}\n\n", masked(command, &answer.text()));
}

/// The first lines that differ.
fn difference(expected: &str, got: &str) -> String {
    let lines = expected.lines().zip(got.lines()).enumerate();
    let first = lines.into_iter().find(|(_, (expected, got))| expected != got);
    first.map_or_else(
        || "one is longer".to_owned(),
        |(number, (expected, got))| format!("line {}: expected {expected}, got {got}", number + 1),
    )
}

#[tokio::test]
async fn the_index_lists_all_commands() -> Outcome {
    let ours = Administered::start(None, |_| {}).await?;
    let lines = |names: &str| -> String {
        let link = |name| format!("<a href=\"/commands/{name}\">{name}</a>\n<br/>\n");
        names.split_whitespace().map(link).collect()
    };
    // As 3.9.5 prints them, and `shed_connections`, which comes with 3.10.
    let expected = lines(
        "configuration connection_stat_reset connections dirs dump environment get_trace_mask hash
         initial_configuration is_read_only last_snapshot leader monitor
         observer_connection_stat_reset observers restore ruok server_stats set_trace_mask
         shed_connections snapshot stat_reset stats system_properties voting_view watch_summary
         watches watches_by_path zabstate",
    );
    for path in ["/commands", "/commands/"] {
        let answer = http::get(ours.admin, path, "").await?;
        assert_eq!((answer.status, answer.text()), (200, expected.clone()), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn the_monitor_shows_what_the_word_mntr_shows() -> Outcome {
    let ours = Administered::start(None, |_| {}).await?;
    let answer = http::get(ours.admin, "/commands/mntr", "").await?;
    let text = answer.text();
    for expected in [
        "{\n  \"version\" : \"3.9",
        "\n  \"server_state\" : \"standalone\",\n",
        "\n  \"znode_count\" : 5,\n",
        "\n  \"avg_latency\" : 0.0,\n",
        "\n  \"command\" : \"monitor\",\n  \"error\" : null\n}",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    Ok(())
}

/// Those who do not read their listings hold all places for listings.
#[tokio::test]
async fn metrics_are_shown_while_others_read_listings_slowly() -> Outcome {
    let ours = Administered::start(None, |_| {}).await?;
    let listen = ([127, 0, 0, 1], 0).into();
    let page = MetricsConfig { listen, ..MetricsConfig::default() };
    let page = ours.server.start_metrics(page).await?;
    let client = Client::connect(ours.address()).await?;
    // More than the buffers of a socket take.
    let mut watches = Vec::new();
    for index in 0..48 {
        let path = format!("/{}{index}", "x".repeat(500_000));
        watches.push(client.exists(&path).and_watch().await?);
    }
    let mut slow = Vec::new();
    for _ in 0..REPORTS_AT_ONCE {
        let mut reader = TcpStream::connect(ours.admin).await?;
        let head =
            format!("GET /commands/watches_by_path HTTP/1.1\r\nHost: {}\r\n\r\n", ours.admin);
        reader.write_all(head.as_bytes()).await?;
        // The report is being made.
        reader.read_u8().await?;
        slow.push(reader);
    }
    for (address, path) in [(ours.admin, "/commands/monitor"), (page, "/metrics")] {
        let answer = tokio::time::timeout(Duration::from_secs(20), http::get(address, path, ""));
        let answer = answer.await.map_err(|_| format!("{path} is not answered"))??;
        assert!(answer.status == 200 && answer.text().contains("watch_count"), "{path}");
    }
    Ok(())
}

/// A link leads to a report from anywhere, and resets nothing.
#[tokio::test]
async fn a_page_of_another_site_changes_nothing() -> Outcome {
    let ours = Administered::start(None, |_| {}).await?;
    let changing = ["stat_reset", "srst", "connection_stat_reset", "set_trace_mask?traceMask=1"];
    for site in ["cross-site", "same-site", "same-origin", "none", "none\r\nSec-Fetch-Site: x"] {
        let headers = format!("Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: {site}\r\n");
        let ask = async |command: &str| {
            http::get(ours.admin, &format!("/commands/{command}"), &headers).await
        };
        assert_eq!(ask("server_stats").await?.status, 200, "{site}");
        let expected = if ["same-origin", "none"].contains(&site) { 200 } else { 403 };
        for command in changing {
            assert_eq!(ask(command).await?.status, expected, "{command} {site}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn properties_are_shown_in_order() -> Outcome {
    let ours = Administered::start(None, |config| {
        config.properties.insert("zookeeper.snapCount".to_owned(), "7".to_owned());
    })
    .await?;
    let text = http::get(ours.admin, "/commands/sysp", "").await?.text();
    let names: Vec<_> =
        text.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect();
    let (frame, names) = (&names[names.len() - 2..], &names[..names.len() - 2]);
    assert_eq!(frame, ["command", "error"]);
    assert!(names.is_sorted() && names.contains(&"java.version"), "{names:?}");
    assert!(text.contains("\n  \"zookeeper.snapCount\" : \"7\""), "{text}");
    Ok(())
}
