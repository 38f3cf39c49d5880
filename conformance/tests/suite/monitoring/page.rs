//! The page for Prometheus.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use libtest_mimic::Failed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_server::{Config, Dialect, MetricsProvider};

use super::requests::{Ours, block_on, carry_out, mntr};

/// Sends a request without a body, and returns the whole answer.
pub(crate) async fn ask(page: SocketAddr, request: &str) -> Result<String, Failed> {
    let mut stream = TcpStream::connect(page).await?;
    let head = format!("{request} HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// What changes between two questions, or by them.
fn is_moving(name: &str) -> bool {
    let moving = [
        "uptime",
        "packets_",
        "bytes_received_count",
        "num_alive_connections",
        "connection_drop_count",
        "non_mtls_local_conn_count",
        "open_file_descriptor_count",
        "process_",
    ];
    moving.iter().any(|prefix| name.starts_with(prefix))
}

/// With the provider of Prometheus, `mntr` shows the samples of the page, number for number. With the
/// default provider it shows the same values under Java's names.
pub(crate) fn mntr_agrees() -> Result<(), Failed> {
    block_on(async {
        for dialect in [Dialect::V3_9, Dialect::V3_10] {
            let metrics_provider = MetricsProvider::Prometheus(dialect);
            let server = Ours::start(Config { metrics_provider, ..Config::default() }).await?;
            carry_out(server.address).await?;
            let words = mntr(server.address)?;
            let page = ask(server.page, "GET /metrics").await?;
            let samples = samples(&page);
            let mut compared = 0;
            for (key, value) in words.iter().skip(2).filter(|(key, _)| !is_moving(key)) {
                let value: f64 = value.parse()?;
                let sample = samples.get(key).ok_or_else(|| format!("no {key} on the page"))?;
                assert!(value == *sample || (value.is_nan() && sample.is_nan()), "{key}: {value}");
                compared += 1;
            }
            assert!(compared > 300, "{compared} samples");
        }
        let server = Ours::start(Config::default()).await?;
        carry_out(server.address).await?;
        let words: BTreeMap<_, _> = mntr(server.address)?.into_iter().collect();
        let page = ask(server.page, "GET /metrics").await?;
        for (key, value) in samples(&page) {
            if key.contains('{') || is_moving(&key) {
                continue;
            }
            let name =
                ["_count", "_sum"].iter().zip(["cnt_", "sum_"]).find_map(|(suffix, prefix)| {
                    let name = format!("{prefix}{}", key.strip_suffix(suffix)?);
                    words.contains_key(&name).then_some(name)
                });
            let name = name.unwrap_or(key);
            let word: f64 = words.get(&name).ok_or_else(|| format!("no {name}"))?.parse()?;
            assert!(word == value, "{name}: {word} and {value}");
        }
        Ok(())
    })
}

/// The samples of a page, with their labels as `mntr` writes them.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let (_, body) = page.split_once("\r\n\r\n").expect("a head");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.replace(",}", "}"), value.parse().ok()?))
    };
    lines.filter_map(sample).collect()
}

pub(crate) fn served() -> Result<(), Failed> {
    block_on(async {
        let server = Ours::start(Config::default()).await?;
        let answer = ask(server.page, "GET /metrics").await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let kind = "\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n";
        assert!(answer.contains(kind), "{answer}");
        assert!(answer.contains("\n# HELP znode_count znode_count\n# TYPE znode_count gauge\n"));
        assert!(answer.contains("\nreadlatency{quantile=\"0.99\",} NaN\n"), "{answer}");

        let request = "GET /metrics?name[]=znode_count&name%5B%5D=readlatency_sum";
        let answer = ask(server.page, request).await?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("a head")?;
        let expected = "# HELP znode_count znode_count\n# TYPE znode_count gauge\n\
                        znode_count 5.0\n# HELP readlatency readlatency\n\
                        # TYPE readlatency summary\nreadlatency_sum 0.0\n";
        assert_eq!(body, expected);

        for (request, status) in [
            ("POST /metrics", "200"),
            ("HEAD /metrics", "200"),
            ("TRACE /metrics", "403"),
            ("TRACE /other", "403"),
            ("DELETE /metrics", "405"),
            ("GET /", "404"),
            ("GET /metrics/../metrics", "404"),
        ] {
            let answer = ask(server.page, request).await?;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        }
        // A page in a browser that reaches this machine by a name of its own.
        let mut stream = TcpStream::connect(server.page).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n").await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        assert_ne!(&answer, b"HTTP/1.1 200");
        server.server.shutdown().await;
        Ok(())
    })
}
