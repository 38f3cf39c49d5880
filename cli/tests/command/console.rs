//! `zoolet console`, beside a server in this process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use zoolet::client::Client;
use zoolet::protocol::{Acl, CreateMode, OpCode};
use zoolet::recipes::InterProcessMutex;
use zoolet_testkit::TestServer;

use crate::process::{Running, command, directory, file, run, within_limit};

/// The limit of pages that are open at a time.
const VIEWERS_MAX: usize = 16;

/// A server, and a console of it.
pub(crate) struct Scene {
    pub(crate) server: TestServer,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    _console: Console,
}

/// A console that runs.
pub(crate) struct Console {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Console {
    /// With these servers and options.
    pub(crate) async fn start(args: &[&str]) -> Self {
        Self::at("127.0.0.1:0", args).await
    }

    /// With the page at another address.
    async fn at(listen: &str, args: &[&str]) -> Self {
        let fixed = ["console", "--listen", listen];
        let mut child = command(&[&fixed, args].concat()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within_limit(stdout.next_line()).await.unwrap().unwrap();
        let (_, url) = line.split_once(" on http://").unwrap();
        let address = url.trim_end_matches('/').parse().unwrap();
        Self { child, address }
    }
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Scene {
    pub(crate) async fn new(options: &[&str]) -> Self {
        Self::at("127.0.0.1:0", options).await
    }

    /// With the console at another address.
    pub(crate) async fn at(listen: &str, options: &[&str]) -> Self {
        let server = TestServer::builder().tcp().start().await.unwrap();
        let client = server.connect().await.unwrap();
        let servers = server.address().unwrap().to_string();
        let is_slow = options.contains(&"--interval");
        let often = if is_slow { &[][..] } else { &["--interval", "100ms"] };
        let console = Console::at(listen, &[&[servers.as_str()], often, options].concat()).await;
        Self { server, client, address: console.address, _console: console }
    }

    pub(crate) async fn send(&self, head: &str, body: &str) -> Answer {
        send(self.address, head, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_with(path, "").await
    }

    /// With more lines in the head.
    pub(crate) async fn get_with(&self, path: &str, lines: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost{lines}"), "").await
    }

    pub(crate) async fn login(&self, body: &str) -> Answer {
        let head = "POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
        self.send(head, body).await
    }

    pub(crate) async fn znode(&self, path: &str) -> Answer {
        self.get(&format!("/v1/znode?path={}", encoded(path))).await
    }

    pub(crate) async fn children(&self, path: &str, after: Option<&str>) -> Value {
        let after = after.map_or_else(String::new, |after| format!("&after={}", encoded(after)));
        let answer = self.get(&format!("/v1/children?path={}{after}", encoded(path))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    pub(crate) async fn view(&self) -> View {
        View::open(self.address).await
    }

    /// Waits until only the client of the test is connected.
    pub(crate) async fn is_left_alone(&self) {
        within_limit(async {
            while self.server.connections().unwrap().len() > 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

/// What is answered to a request.
pub(crate) async fn send(address: SocketAddr, head: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!("{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    within_limit(stream.write_all(request.as_bytes())).await.unwrap();
    let mut answer = Vec::new();
    within_limit(stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// For a query.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Somebody who looks.
pub(crate) struct View {
    pub(crate) stream: BufReader<TcpStream>,
    /// The whole state, as the messages so far make it.
    state: Value,
}

impl View {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::open_with(address, "").await
    }

    /// With more lines in the head.
    pub(crate) async fn open_with(address: SocketAddr, lines: &str) -> Self {
        Self::of(address, "/v1/events", lines).await
    }

    /// Of the stream at this path, with more lines in the head.
    pub(crate) async fn of(address: SocketAddr, path: &str, lines: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost{lines}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream: BufReader::new(stream), state: Value::Null }
    }

    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        let bytes = within_limit(self.stream.read_line(&mut line)).await.unwrap();
        assert_ne!(bytes, 0, "the console has closed the connection");
        line.trim_end().to_owned()
    }

    /// The next message: its name and its value.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let line = self.line().await;
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).unwrap());
            }
        }
    }

    /// Reads until the whole state is one that is wanted.
    pub(crate) async fn until(&mut self, mut is_wanted: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let (name, value) = self.next().await;
            match name.as_str() {
                "snapshot" => self.state = value,
                _ => apply(&mut self.state, value),
            }
            if is_wanted(&self.state) {
                return self.state.clone();
            }
        }
    }
}

/// Changes a state as the page does.
fn apply(state: &mut Value, changes: Value) {
    let Value::Object(changes) = changes else { panic!("{changes}") };
    for (name, change) in changes {
        if !["locks", "sessions"].contains(&name.as_str()) {
            state[name] = change;
            continue;
        }
        let entries = state[&name].as_object_mut().unwrap();
        for key in change["gone"].as_array().unwrap() {
            entries.remove(key.as_str().unwrap());
        }
        entries.extend(change["put"].as_object().unwrap().clone());
    }
}

/// The session of the first place of a lock.
fn holder<'a>(state: &'a Value, path: &str) -> Option<&'a str> {
    let locks = state["locks"].as_object()?;
    let lock = locks.values().find(|lock| lock["path"] == path)?;
    let first = &lock["places"][0];
    assert!(first["held_since_ms"].is_i64(), "who is in front holds: {lock}");
    first["session"].as_str()
}

#[tokio::test]
async fn the_page_and_its_files_load_nothing_from_elsewhere() {
    let scene = Scene::new(&[]).await;
    let page = scene.get("/").await;
    assert_eq!(page.status, 200);
    for inline in ["<style", " style=", " onclick=", "<script>", "http://", "https://"] {
        assert!(!page.body.contains(inline), "{inline}");
    }
    // What is named in quotes and begins with a slash, in the page and in what it names.
    let mut ahead = vec!["/".to_owned()];
    let mut seen: Vec<String> = Vec::new();
    while let Some(path) = ahead.pop() {
        let file = scene.get(&path).await;
        assert_eq!(file.status, 200, "{path}");
        assert!(file.head.contains("content-security-policy: default-src 'self';"), "{path}");
        assert!(file.head.contains("x-frame-options: deny"), "{path}");
        assert!(file.head.contains("x-content-type-options: nosniff"), "{path}");
        for danger in ["innerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!file.body.contains(danger), "{danger} in {path}");
        }
        let quoted = file.body.split('"').filter(|text| {
            text.starts_with('/') && [".js", ".css", ".svg"].iter().any(|end| text.ends_with(end))
        });
        let new = quoted.filter(|text| !seen.iter().any(|known| known == text));
        ahead.extend(new.map(str::to_owned).collect::<Vec<_>>());
        seen.push(path);
    }
    assert!(seen.iter().any(|path| path == "/dom.js"), "{seen:?}");
    assert_eq!(scene.server.connections().unwrap().len(), 1, "no session for a page");
}

#[tokio::test]
async fn pages_of_others_are_refused() {
    let scene = Scene::new(&[]).await;
    let status = async |head: &str| scene.send(head, "{}").await.status;
    assert_eq!(status("GET / HTTP/1.1\r\nHost: example.org").await, 403);
    assert_eq!(status("GET /v1/console HTTP/1.1\r\nHost: ops.example.org").await, 403);
    let foreign = "GET /v1/console HTTP/1.1\r\nHost: localhost\r\nOrigin: http://example.org";
    assert_eq!(status(foreign).await, 403);
    let post = "POST /v1/login HTTP/1.1\r\nHost: localhost";
    assert_eq!(status(post).await, 415, "a form sends no JSON");
    assert_eq!(status("GET /v1/console HTTP/1.1\r\nHost: localhost").await, 200);
    assert_eq!(status("GET /nothing HTTP/1.1\r\nHost: localhost").await, 404);
}

#[tokio::test]
async fn other_machines_need_a_token_which_the_start_demands() {
    let refused = run(&["console", "127.0.0.1:1", "--listen", "0.0.0.0:0"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--token-file"), "{}", refused.stderr);
    let short = file("console-short-token", "short\n");
    let args = ["console", "--listen", "0.0.0.0:0", "--token-file", short.to_str().unwrap()];
    let refused = run(&args).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("16 characters"), "{}", refused.stderr);
}

#[tokio::test]
async fn with_a_token_nothing_is_told_without_it() {
    let token = file("console-token", "correct horse battery staple\nmore\n");
    let scene = Scene::new(&["--token-file", token.to_str().unwrap()]).await;
    for path in ["/v1/events", "/v1/console", "/v1/znode?path=/", "/v1/children?path=/"] {
        assert_eq!(scene.get(path).await.status, 401, "{path}");
    }
    assert_eq!(scene.login(r#"{"token": "wrong"}"#).await.status, 401);
    let let_in = scene.login(r#"{"token": "correct horse battery staple"}"#).await;
    assert_eq!(let_in.status, 200, "{let_in:?}");
    let cookie = let_in.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    assert!(!cookie.contains("horse"), "the cookie is not the token");
    let pair = cookie.split(';').next().unwrap();
    let with_cookie = scene.get_with("/v1/znode?path=/", &format!("\r\nCookie: {pair}")).await;
    assert_eq!(with_cookie.status, 200);
    let bearer = "\r\nAuthorization: Bearer correct horse battery staple";
    assert_eq!(scene.get_with("/v1/znode?path=/", bearer).await.status, 200);
}

#[tokio::test]
async fn what_its_identity_may_not_read_is_told_and_not_shown() {
    let scene = Scene::new(&[]).await;
    let secret = scene.client.create("/secret").data("the secret");
    secret.acl(vec![Acl::digest("kim", "pw")]).await.unwrap();
    let znode = scene.znode("/secret").await;
    assert!(!znode.body.contains("the secret"), "{znode:?}");
    let value = znode.json();
    assert!(value["unreadable"].as_str().unwrap().contains("--auth-file"), "{value}");
    assert_eq!((&value["data"], &value["stat"]), (&Value::Null, &Value::Null));
    let children = scene.get("/v1/children?path=/secret").await;
    assert_eq!(children.status, 403, "{children:?}");

    let identity = file("console.identity", "digest kim:pw\n");
    let with = Scene::new(&["--auth-file", identity.to_str().unwrap()]).await;
    let secret = with.client.create("/secret").data("the secret");
    secret.acl(vec![Acl::digest("kim", "pw")]).await.unwrap();
    assert_eq!(with.znode("/secret").await.json()["data"]["text"], "the secret");
    assert_eq!(with.children("/secret", None).await["total"], 0);
}

#[tokio::test]
async fn hostile_names_and_data_come_as_they_are_and_are_cut() {
    let scene = Scene::new(&[]).await;
    let client = &scene.client;
    let name = "<img src=x onerror=alert(1)>&\"'\u{202e}";
    client.create(&format!("/{name}")).data("</script><script>\0\u{1b}[2J").await.unwrap();
    client.create("/binary").data(vec![0xff, 0x00, 0xfe]).await.unwrap();
    client.create("/long").data(vec![b'x'; 1_000_000]).await.unwrap();
    let children = scene.children("/", None).await;
    let names = children["children"].as_array().unwrap();
    assert!(names.iter().any(|child| child["name"] == name), "{children}");
    let answer = scene.znode(&format!("/{name}")).await;
    // A browser that is sent here by a link shows JSON, whatever is in it.
    assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
    assert_eq!(answer.json()["data"]["text"], "</script><script>\0\u{1b}[2J");
    let binary = &scene.znode("/binary").await.json()["data"];
    assert_eq!((&binary["text"], &binary["base64"]), (&Value::Null, &json!("/wD+")));
    let long = &scene.znode("/long").await.json()["data"];
    assert_eq!((&long["bytes"], &long["bytes_shown"]), (&json!(1_000_000), &json!(65_536)));
    for path in ["", "no/slash", "/a//b", "/\u{1}"] {
        assert_eq!(scene.znode(path).await.status, 422, "{path:?}");
    }
    assert_eq!(scene.znode("/nothing").await.status, 404);
}

#[tokio::test]
async fn a_hundred_thousand_children_come_in_pages_from_one_list() {
    let scene = Scene::new(&[]).await;
    scene.client.create("/many").await.unwrap();
    let mut sent = Vec::new();
    for number in 0..100_000 {
        sent.push(scene.client.create(&format!("/many/{number:06}")).send());
    }
    for created in sent {
        created.await.unwrap();
    }
    let first = scene.children("/many", None).await;
    assert_eq!((&first["total"], &first["next"]), (&json!(100_000), &json!("000499")));
    let lists = || scene.server.totals();
    let before = lists();
    let second = scene.children("/many", Some("000499")).await;
    assert_eq!(second["children"][0]["name"], "000500");
    let last = scene.children("/many", Some("099998")).await;
    let last_names = last["children"].as_array().unwrap();
    assert_eq!((last_names.len(), &last["next"]), (1, &Value::Null));
    let read = |stats: &zoolet_testkit::SessionStats| stats.requests.of(OpCode::GET_CHILDREN2);
    assert_eq!(read(&lists()), read(&before), "the list is kept");
}

#[tokio::test]
async fn more_children_than_the_limit_are_told_and_not_listed() {
    let scene = Scene::new(&["--max-children", "2"]).await;
    for name in ["a", "b", "c"] {
        scene.client.create(&format!("/{name}")).await.unwrap();
    }
    let answer = scene.get("/v1/children?path=/").await;
    assert_eq!(answer.status, 422);
    assert!(answer.body.contains("--max-children"), "{answer:?}");
}

#[tokio::test]
async fn a_lock_that_passes_on_is_seen_as_a_change() {
    let scene = Scene::new(&[]).await;
    let other = scene.server.connect().await.unwrap();
    let (first, second) = (scene.client.session_id(), other.session_id());
    let guard = InterProcessMutex::new(&scene.client, "/lock").unwrap().acquire().await.unwrap();
    let mut view = scene.view().await;
    let mutex = InterProcessMutex::new(&other, "/lock").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    let state = view
        .until(|state| {
            let is_held = holder(state, "/lock") == Some(first.to_string().as_str());
            is_held && state["totals"]["wait"] == 1
        })
        .await;
    let session = &state["sessions"][first.to_string()];
    assert_eq!(session["holds"], json!(["/lock"]), "{state}");
    guard.release().await.unwrap();
    let guard = within_limit(waiting).await.unwrap();
    let second = second.to_string();
    let state = view.until(|state| holder(state, "/lock") == Some(second.as_str())).await;
    let locks = state["locks"].as_object().unwrap();
    let lock = locks.values().find(|lock| lock["path"] == "/lock").unwrap();
    assert_eq!(lock["places"][0]["saw_it_begin"], true, "{lock}");
    assert!(state["totals"]["hand_overs"].as_u64().unwrap() >= 1, "{state}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn queues_are_looked_at_more_often_than_the_rest() {
    // Every ten seconds, and the queues ten times as often.
    let scene = Scene::new(&["--interval", "10s"]).await;
    let id = scene.client.session_id().to_string();
    let mutex = InterProcessMutex::new(&scene.client, "/lock").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let mut view = scene.view().await;
    let first = view.until(|state| holder(state, "/lock") == Some(id.as_str())).await;
    guard.release().await.unwrap();
    let empty = view.until(|state| state["locks"].as_object().unwrap().is_empty()).await;
    // The directory is known, though nobody stood there.
    let _guard = mutex.acquire().await.unwrap();
    let second = view.until(|state| holder(state, "/lock") == Some(id.as_str())).await;
    assert_eq!(
        (&first["looked_ms"], &empty["looked_ms"]),
        (&second["looked_ms"], &second["looked_ms"])
    );
    assert_eq!(second["totals"]["hand_overs"], 1, "{second}");
    // A new directory of a small tree is no matter of the slow look's pause either.
    let _other = InterProcessMutex::new(&scene.client, "/other").unwrap().acquire().await.unwrap();
    let third = view.until(|state| holder(state, "/other") == Some(id.as_str())).await;
    let time = |state: &Value| state["time_ms"].as_i64().unwrap();
    let took_ms = time(&third) - time(&second);
    assert!(took_ms < 9_000, "{took_ms}");
}

#[tokio::test]
async fn a_deadlock_is_marked_on_the_places_that_are_in_it() {
    let scene = Scene::new(&[]).await;
    let other = scene.server.connect().await.unwrap();
    let name = |number: u32| format!("_c_0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1f-lock-{number:010}");
    for (path, clients) in [("/a", [&scene.client, &other]), ("/b", [&other, &scene.client])] {
        scene.client.create(path).await.unwrap();
        for (number, client) in clients.into_iter().enumerate() {
            let create = client.create(&format!("{path}/{}", name(number as u32)));
            create.mode(CreateMode::Ephemeral).await.unwrap();
        }
    }
    let mut view = scene.view().await;
    let has_cycle = |state: &Value| state["cycles"].as_array().is_some_and(|all| all.len() == 1);
    let state = view.until(has_cycle).await;
    assert_eq!(state["cycles"][0].as_array().unwrap().len(), 2);
    for lock in state["locks"].as_object().unwrap().values() {
        for place in lock["places"].as_array().unwrap() {
            assert_eq!(place["in_cycle"], true, "{lock}");
        }
    }
    assert!(state["findings"].as_array().unwrap().iter().any(|it| it["kind"] == "deadlock"));
}

#[tokio::test]
async fn when_nobody_looks_there_is_no_session() {
    let scene = Scene::new(&[]).await;
    scene.is_left_alone().await;
    assert_eq!(scene.get("/").await.status, 200);
    assert_eq!(scene.server.connections().unwrap().len(), 1);
    let mut view = scene.view().await;
    view.until(|state| state["totals"]["znodes"].is_u64()).await;
    assert_eq!(scene.server.connections().unwrap().len(), 2);
    assert_eq!(scene.znode("/").await.status, 200);
    assert_eq!(scene.server.connections().unwrap().len(), 2, "both use one session");
    drop(view);
    scene.is_left_alone().await;
    assert_eq!(scene.server.observer().watch_graph().most_watched(), None);
    assert_eq!(scene.znode("/").await.status, 200);
    scene.is_left_alone().await;
    // What was seen then is not shown as what is.
    let (name, state) = scene.view().await.next().await;
    assert_eq!((name.as_str(), &state["totals"]["znodes"]), ("snapshot", &Value::Null));
}

#[tokio::test]
async fn one_viewer_too_many_is_told_so() {
    let scene = Scene::new(&[]).await;
    let mut views = Vec::new();
    for _ in 0..VIEWERS_MAX {
        let mut view = scene.view().await;
        view.next().await;
        views.push(view);
    }
    let refused = scene.get("/v1/events").await;
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("close one of them"), "{refused:?}");
    // A browser tells the page nothing about a stream that was refused.
    let about = scene.get("/v1/console").await.json();
    assert!(about["no_view"].as_str().unwrap().contains("close one of them"), "{about}");
    views.pop();
    within_limit(async {
        loop {
            let mut view = scene.view().await;
            if !view.line().await.contains("503") {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn servers_that_cannot_be_reached_are_told_on_the_page() {
    let scene = Scene::new(&["--connect-timeout", "500ms"]).await;
    scene.server.stop().await;
    let mut view = scene.view().await;
    let state = view.until(|state| state["trouble"].is_string()).await;
    assert!(state["trouble"].as_str().unwrap().contains("cannot be read"), "{state}");
    assert_eq!(scene.znode("/").await.status, 502);
}

/// A server with a console in its process.
pub(crate) struct Served {
    pub(crate) server: Running,
    pub(crate) console: SocketAddr,
    /// The test control.
    control: Option<SocketAddr>,
}

impl Served {
    pub(crate) async fn start(options: &[&str]) -> Self {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"];
        let mut server = Running::start(&[&fixed, options].concat()).await;
        let mut control = None;
        loop {
            let line = server.next_stdout_line().await.unwrap();
            if let Some(address) = line.strip_prefix("test control on http://") {
                control = Some(address.parse().unwrap());
            } else if let Some(url) = line.strip_prefix("console on http://") {
                let console = url.trim_end_matches('/').parse().unwrap();
                return Self { server, console, control };
            }
        }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.server.reachable().to_string()).await.unwrap()
    }
}

#[tokio::test]
async fn the_console_of_a_server_knows_its_sessions_without_four_letter_words() {
    let served = Served::start(&["--4lw-commands-whitelist", "srvr"]).await;
    let client = served.connect().await;
    let guard = InterProcessMutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let id = client.session_id().to_string();
    let mut view = View::open(served.console).await;
    let state = view.until(|state| holder(state, "/lock") == Some(id.as_str())).await;
    assert_eq!(state["not_seen"], json!([]));
    let session = &state["sessions"][&id];
    assert!(session["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{session}");
    assert_eq!(session["ephemerals"], 1, "{session}");
    guard.release().await.unwrap();
    client.close().await.unwrap();
    let (status, stderr) = served.server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "an open page does not keep it: {stderr}");
}

#[tokio::test]
async fn the_console_of_a_server_goes_on_after_a_restart() {
    let data = directory("console-restart");
    let options = ["--test-control", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
    let served = Served::start(&options).await;
    let client = served.connect().await;
    let mut view = View::open(served.console).await;
    view.until(|state| state["totals"]["znodes"].is_u64()).await;
    let head = "POST /v1/restart HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    let restarted = send(served.control.unwrap(), head, "{}").await;
    assert_eq!(restarted.status, 200, "{restarted:?}");
    client.create("/after").await.unwrap();
    let _guard = InterProcessMutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let id = client.session_id().to_string();
    let state = view.until(|state| holder(state, "/lock") == Some(id.as_str())).await;
    assert!(!state["trouble"].is_string(), "{state}");
}

#[tokio::test]
async fn the_console_of_a_server_needs_a_token_for_other_machines_too() {
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--console", "0.0.0.0:0"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--console-token-file"), "{}", refused.stderr);
}

#[tokio::test]
async fn watches_are_told_by_their_paths_and_metrics_for_charts() {
    let served = Served::start(&[]).await;
    let client = served.connect().await;
    let other = served.connect().await;
    client.create("/watched").await.unwrap();
    let _first = client.get("/watched").and_watch().await.unwrap().watcher;
    let _second = other.get("/watched").and_watch().await.unwrap().watcher;
    let _alone = other.get("/").and_watch().await.unwrap().watcher;
    let mut view = View::open(served.console).await;
    let state = view.until(|state| state["watches"]["watches"] == 3).await;
    let watches = &state["watches"];
    assert_eq!((&watches["paths"], &watches["is_whole"]), (&json!(2), &json!(true)));
    assert_eq!(watches["most"][0]["path"], "/watched");
    assert_eq!(watches["most"][0]["watchers"], 2);
    assert_eq!(watches["fan_out"][0], json!({ "from": 1, "to": 1, "paths": 1 }));
    let received = |state: &Value| state["metrics"]["packets_received"].as_f64();
    let before = received(&state).unwrap();
    client.get("/watched").await.unwrap();
    view.until(|state| received(state).is_some_and(|now| now > before)).await;
    // From outside, the server tells them by mntr.
    let scene = Scene::new(&[]).await;
    scene.view().await.until(|state| received(state).is_some()).await;
}

#[tokio::test]
async fn viewers_act_on_sessions_only_where_the_test_control_and_the_options_allow_it() {
    let options = ["--test-control", "127.0.0.1:0", "--console-write"];
    let served = Served::start(&options).await;
    let client = served.connect().await;
    let body = json!({ "session": client.session_id().to_string() }).to_string();
    let head = |action: &str| {
        let head = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
        format!("POST /v1/sessions/{action} {head}")
    };
    let act = async |action: &str, body: &str| send(served.console, &head(action), body).await;
    let mut view = View::open(served.console).await;
    let id = client.session_id().to_string();
    view.until(|state| state["can_act"] == true && state["sessions"].get(&id).is_some()).await;
    for action in ["cut", "freeze", "thaw", "expire"] {
        let done = act(action, &body).await;
        assert_eq!(done.status, 200, "{action}: {done:?}");
    }
    view.until(|state| state["sessions"].get(&id).is_none()).await;
    assert_eq!(act("expire", &body).await.status, 404, "it is gone");
    assert_eq!(act("crash", &body).await.status, 404);
    for session in ["7", "0x+5"] {
        let body = json!({ "session": session }).to_string();
        assert_eq!(act("cut", &body).await.status, 422, "{session}");
    }
    let foreign = format!("{}\r\nOrigin: http://example.org", head("cut"));
    assert_eq!(send(served.console, &foreign, &body).await.status, 403);
    let form = "POST /v1/sessions/cut HTTP/1.1\r\nHost: localhost";
    assert_eq!(send(served.console, form, &body).await.status, 415);

    let read_only = Served::start(&["--test-control", "127.0.0.1:0"]).await;
    let refused = send(read_only.console, &head("cut"), &body).await;
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("--console-write"), "{refused:?}");
    let alone =
        run(&["serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--console-write"]);
    let alone = alone.await;
    assert_eq!(alone.code, Some(2));
    assert!(alone.stderr.contains("--test-control"), "{}", alone.stderr);
}
