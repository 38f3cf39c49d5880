//! Who gets into `zoolet console`, and whom hostile visitors do not keep out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::console::{Scene, View};
use crate::process::{file, run, within_limit};

const TOKEN: &str = "correct horse battery staple";
const RIGHT: &str = "\r\nAuthorization: Bearer correct horse battery staple";
const WRONG: &str = "\r\nAuthorization: Bearer incorrect horse";

/// More connections than a console has for strangers.
const MANY: usize = 200;

/// A console that needs the token.
async fn guarded(options: &[&str]) -> Scene {
    let token = file("console-access-token", format!("{TOKEN}\n"));
    Scene::new(&[&["--token-file", token.to_str().unwrap()], options].concat()).await
}

/// A connection on which a request was sent whose answer nobody waits for.
async fn sent(scene: &Scene, lines: &str) -> TcpStream {
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    let request = format!("GET /v1/console HTTP/1.1\r\nHost: localhost{lines}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn wrong_tokens_wait_for_each_other_in_every_way_and_right_ones_do_not_wait() {
    let scene = guarded(&[]).await;
    // The answer to a request of its own shows that the console has read what came before it.
    for _ in 0..4 {
        let hurried = sent(&scene, WRONG).await;
        assert_eq!(scene.get_with("/v1/console", RIGHT).await.status, 200);
        drop(hurried);
    }
    let wrong = scene.get_with("/v1/console", WRONG);
    tokio::pin!(wrong);
    let soon = tokio::time::timeout(Duration::from_secs(1), &mut wrong).await;
    assert!(soon.is_err(), "four others come first, half a second each: {soon:?}");
    assert_eq!(scene.login(&format!("{{\"token\": \"{TOKEN}\"}}")).await.status, 200);
    assert_eq!(scene.get_with("/v1/znode?path=/", RIGHT).await.status, 200);
    assert_eq!(scene.get("/v1/console").await.status, 401, "nothing was guessed");
    assert_eq!(wrong.await.status, 401);
}

#[tokio::test]
async fn strangers_keep_nobody_out() {
    let scene = guarded(&[]).await;
    let mut view = View::open_with(scene.address, RIGHT).await;
    let znodes = |state: &Value| state["totals"]["znodes"].as_u64();
    let state = view.until(|state| znodes(state).is_some()).await;
    let mut strangers = Vec::new();
    for number in 0..MANY {
        strangers.push(match number % 3 {
            0 => TcpStream::connect(scene.address).await.unwrap(),
            1 => sent(&scene, WRONG).await,
            _ => sent(&scene, "").await,
        });
    }
    assert_eq!(scene.get("/").await.status, 200);
    assert_eq!(scene.get_with("/v1/znode?path=/", RIGHT).await.status, 200);
    scene.client.create("/seen").await.unwrap();
    let _more = View::open_with(scene.address, RIGHT).await.next().await;
    view.until(|now| znodes(now) > znodes(&state)).await;
    drop(strangers);
}

#[tokio::test]
async fn a_page_of_another_site_does_not_make_the_console_look() {
    let scene = Scene::new(&[]).await;
    let status = async |path: &str, site: &str| {
        let lines = format!("\r\nSec-Fetch-Site: {site}\r\nSec-Fetch-Mode: navigate");
        scene.get_with(path, &lines).await.status
    };
    for site in ["cross-site", "same-site"] {
        for path in ["/v1/znode?path=/", "/v1/children?path=/", "/v1/events", "/v1/console"] {
            assert_eq!(status(path, site).await, 403, "{path} for {site}");
        }
        assert_eq!(status("/", site).await, 200, "a link");
    }
    assert_eq!(scene.server.connections().unwrap().len(), 1, "no session was opened");
    assert_eq!(status("/v1/console", "none").await, 200, "typed");
    assert_eq!(status("/v1/console", "same-origin").await, 200);
}

#[tokio::test]
async fn a_name_on_a_loopback_address_needs_a_token_and_then_lets_in() {
    let refused = run(&["console", "127.0.0.1:1", "--allow-host", "ops.example"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--token-file"), "{}", refused.stderr);
    let served = ["serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"];
    let refused = run(&[&served[..], &["--console-allow-host", "ops.example"]].concat()).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--console-token-file"), "{}", refused.stderr);

    let scene = guarded(&["--allow-host", "ops.example"]).await;
    let status = async |host: &str, lines: &str| {
        let head = format!("GET /v1/console HTTP/1.1\r\nHost: {host}{lines}");
        scene.send(&head, "").await.status
    };
    // As a proxy with TLS asks for a browser.
    let origin = format!("\r\nOrigin: https://ops.example{RIGHT}");
    assert_eq!(status("ops.example", &origin).await, 200);
    assert_eq!(status("ops.example", "").await, 401);
    assert_eq!(status("evil.example", RIGHT).await, 403, "a name that resolves here");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn any_loopback_address_can_be_listened_on() {
    let scene = Scene::at("127.0.0.2:0", &[]).await;
    let host = scene.address.to_string();
    let status = async |host: &str| {
        scene.send(&format!("GET /v1/console HTTP/1.1\r\nHost: {host}"), "").await.status
    };
    assert_eq!(status(&host).await, 200);
    assert_eq!(status("localhost").await, 200);
    assert_eq!(status("example.org").await, 403);
    assert_eq!(status("10.1.2.3").await, 403);
}

#[tokio::test]
async fn consoles_on_one_host_do_not_overwrite_their_cookies() {
    let (one, other) = (guarded(&[]).await, guarded(&[]).await);
    let mut pairs = Vec::new();
    for scene in [&one, &other] {
        let head = format!("POST /v1/login HTTP/1.1\r\nHost: {}", scene.address);
        let head = format!("{head}\r\nContent-Type: application/json");
        let let_in = scene.send(&head, &format!("{{\"token\": \"{TOKEN}\"}}")).await;
        let cookie =
            let_in.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        pairs.push(cookie.split(';').next().unwrap().to_owned());
    }
    let name = |pair: &str| pair.split('=').next().unwrap().to_owned();
    assert_ne!(name(&pairs[0]), name(&pairs[1]));
    for scene in [&one, &other] {
        let (host, cookies) = (scene.address, pairs.join("; "));
        let head = format!("GET /v1/console HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}");
        assert_eq!(within_limit(scene.send(&head, "")).await.status, 200);
    }
}
