//! `zoolet doctor`, on servers with planted situations.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use zoolet::client::Client;
use zoolet::protocol::{Acl, CreateMode, Permissions, SessionId};
use zoolet::recipes::InterProcessMutex;
use zoolet_testkit::{TestEnsemble, TestServer};

#[cfg(target_os = "linux")]
use crate::process::ended_without_room;
use crate::process::{Ended, Running, command, directory, ended, file, run, within_limit};

/// How long ago the znodes of a test were created, by their server.
const AGO_MS: i64 = 300_000;

/// A name of Curator's mutex.
fn curator(number: i64) -> String {
    format!("_c_0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1f-lock-{number:010}")
}

/// A name of kazoo's lock.
fn kazoo(number: i64) -> String {
    format!("00112233445566778899aabbccddeeff__lock__{number:010}")
}

/// A server to which a command can connect.
struct Scene {
    server: TestServer,
    clients: Vec<Client>,
    address: String,
}

impl Scene {
    async fn new(clients: usize) -> Self {
        let server = TestServer::builder().tcp().start().await.unwrap();
        let address = server.address().unwrap().to_string();
        let mut scene = Self { server, clients: Vec::new(), address };
        for _ in 0..clients {
            // By TCP, so that the clients have addresses.
            scene.clients.push(Client::connect(scene.address.as_str()).await.unwrap());
        }
        scene
    }

    fn session(&self, client: usize) -> SessionId {
        self.clients[client].session_id()
    }

    /// Creates ephemerals, each of a client, and their directory.
    async fn directory(&self, path: &str, places: &[(usize, String)]) {
        self.server.skew_wall_time(-AGO_MS).unwrap();
        self.clients[0].create(path).await.unwrap();
        for (client, name) in places {
            let create = self.clients[*client].create(&format!("{path}/{name}"));
            create.mode(CreateMode::Ephemeral).await.unwrap();
        }
        self.server.skew_wall_time(0).unwrap();
    }

    async fn deadlock(&self) {
        self.directory("/a", &[(0, curator(0)), (2, curator(1))]).await;
        self.directory("/b", &[(1, curator(0)), (0, curator(1))]).await;
        self.directory("/c", &[(2, kazoo(0)), (1, kazoo(1))]).await;
    }

    async fn doctor(&self, args: &[&str]) -> Ended {
        run(&[&["doctor", &self.address], args].concat()).await
    }

    /// The report as JSON, and the exit status.
    async fn report(&self) -> (Value, Option<i32>) {
        let ended = self.doctor(&["--json"]).await;
        assert_eq!(ended.stderr, "");
        (serde_json::from_str(&ended.stdout).unwrap(), ended.code)
    }

    /// The findings above notices, as kinds with their severities.
    async fn findings(&self) -> Vec<String> {
        let (report, _) = self.report().await;
        told(&report)
    }

    /// A text with the names of this scene in place of what is another each time.
    fn masked(&self, text: &str) -> String {
        let mut text = text.replace(&self.address, "SERVER");
        for (index, client) in self.clients.iter().enumerate() {
            text = text.replace(&client.session_id().to_string(), &format!("S{index}"));
        }
        // Clients have any port.
        let mut parts = text.split("127.0.0.1:");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            text + "CLIENT" + part.trim_start_matches(|c: char| c.is_ascii_digit())
        })
    }
}

fn told(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let above = findings.filter(|finding| finding["severity"] != "notice");
    let text = |finding: &Value| {
        let (severity, kind) = (finding["severity"].as_str(), finding["kind"].as_str());
        format!("{} {}", severity.unwrap(), kind.unwrap())
    };
    above.map(text).collect()
}

#[tokio::test]
async fn a_deadlock_of_three_sessions_over_three_paths_is_told_with_its_names() {
    let scene = Scene::new(3).await;
    scene.deadlock().await;
    let ended = scene.doctor(&[]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(3), ""));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/doctor-deadlock.txt");
    let text = scene.masked(&ended.stdout);
    if std::env::var_os("ZOOLET_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap());
}

#[tokio::test]
async fn a_deadlock_is_in_the_json_and_on_the_page() {
    let scene = Scene::new(3).await;
    scene.deadlock().await;
    let page = directory("doctor").join("locks.html");
    let ended = scene.doctor(&["--json", "--html", page.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(3));
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["worst"], "critical");
    assert_eq!(told(&report), ["critical deadlock"]);
    assert_eq!(report["findings"][0]["paths"].as_array().unwrap().len(), 3);
    let locks = report["locks"].as_array().unwrap();
    assert_eq!(locks[0]["path"], "/a");
    assert_eq!(locks[0]["contenders"][0]["state"], "holds");
    assert_eq!(locks[0]["contenders"][1]["session"], scene.session(2).to_string());
    assert!(locks[0]["contenders"][0]["client"].as_str().unwrap().starts_with("127.0.0.1:"));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("deadlock") && page.contains(&scene.session(1).to_string()), "{page}");
    assert!(!page.contains("<script") && !page.contains("http"), "it needs no network: {page}");
}

#[tokio::test]
async fn who_only_waits_for_one_another_in_a_chain_is_no_deadlock() {
    let scene = Scene::new(3).await;
    scene.directory("/a", &[(0, curator(0)), (1, curator(1))]).await;
    scene.directory("/b", &[(1, curator(0)), (2, curator(1))]).await;
    assert!(scene.findings().await.is_empty());
}

#[tokio::test]
async fn kazoos_stock_lock_beside_curators_is_found_unless_it_watches_it() {
    let scene = Scene::new(2).await;
    scene.directory("/mixed", &[(0, curator(0)), (1, kazoo(1))]).await;
    assert_eq!(scene.findings().await, ["critical mixed-libraries"]);
    // As with extra_lock_patterns. Curator's does not wait for kazoo's all the same.
    let path = format!("/mixed/{}", curator(0));
    let _watch = scene.clients[1].get(&path).and_watch().await.unwrap();
    let (report, code) = scene.report().await;
    assert_eq!(
        (told(&report), code),
        (vec!["warning mixed-libraries".to_owned()], Some(1)),
        "only one holds"
    );
    let details = report["findings"][0]["details"].as_array().unwrap();
    let is_of_kazoo = |detail: &&Value| detail.as_str().unwrap().starts_with("..__lock__");
    assert!(!details.iter().any(|detail| is_of_kazoo(&detail)), "{details:?}");
}

#[tokio::test]
async fn many_watchers_of_one_place_are_a_herd() {
    let scene = Scene::new(25).await;
    let places: Vec<_> = (0..25).map(|client| (client, curator(client as i64))).collect();
    scene.directory("/herd", &places).await;
    let path = format!("/herd/{}", curator(0));
    let mut watches = Vec::new();
    for client in &scene.clients[1..] {
        watches.push(client.get(&path).and_watch().await.unwrap().watcher);
    }
    assert_eq!(scene.findings().await, ["warning herd"]);
}

#[tokio::test]
async fn many_who_watch_no_place_are_a_herd() {
    let scene = Scene::new(25).await;
    let places: Vec<_> = (0..25).map(|client| (client, curator(client as i64))).collect();
    scene.directory("/herd", &places).await;
    assert_eq!(scene.findings().await, ["warning herd"]);
}

#[tokio::test]
async fn numbers_near_their_end_and_after_it_are_found() {
    let scene = Scene::new(2).await;
    scene.directory("/near", &[(0, curator(2_147_000_000))]).await;
    let (report, code) = scene.report().await;
    assert_eq!((told(&report), code), (vec!["warning numbers-run-out".to_owned()], Some(1)));
    scene.directory("/after", &[(0, curator(2_147_483_647)), (1, curator(-2_147_483_648))]).await;
    let expected = ["critical numbers-run-out", "warning numbers-run-out"];
    assert_eq!(scene.findings().await, expected);
}

#[tokio::test]
async fn a_negative_number_in_a_name_by_hand_is_none_of_the_server() {
    let scene = Scene::new(1).await;
    scene.directory("/by-hand", &[(0, "lock--000000005".to_owned()), (0, curator(1))]).await;
    assert!(scene.findings().await.is_empty());
}

#[tokio::test]
async fn a_name_before_all_places_blocks_them() {
    let scene = Scene::new(1).await;
    scene.directory("/blocked", &[(0, curator(3))]).await;
    scene.clients[0].create("/blocked/zzz").await.unwrap();
    assert!(scene.findings().await.is_empty());
    scene.clients[0].create("/blocked/0").await.unwrap();
    assert_eq!(scene.findings().await, ["critical blocked-by-other-name"]);
}

#[tokio::test]
async fn a_silent_holder_is_told_only_if_others_wait() {
    let scene = Scene::new(2).await;
    // `lresp=0`, which is also in the first millisecond of a server, means that there was no answer yet.
    scene.server.advance(Duration::from_secs(1)).unwrap();
    scene.directory("/silent", &[(0, curator(0))]).await;
    let _frozen = scene.server.session(scene.session(0)).freeze().unwrap();
    let timeout = scene.clients[0].session_timeout();
    scene.server.advance(timeout * 3 / 4).unwrap();
    assert!(scene.findings().await.is_empty());
    let place = format!("/silent/{}", curator(1));
    scene.clients[1].create(&place).mode(CreateMode::Ephemeral).await.unwrap();
    assert_eq!(scene.findings().await, ["warning silent-holder"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_report_that_cannot_be_written_is_an_error() {
    let scene = Scene::new(0).await;
    for args in [["--json", "--quiet"], ["--html", "/dev/full"]] {
        let doctor = command(&[&["doctor", &scene.address], &args[..]].concat());
        let told = ended_without_room(doctor).await;
        assert_eq!(told.code, Some(73), "{told:?}");
        assert!(told.stderr.contains("cannot be written: No space left"), "{told:?}");
    }
    let load = ["bench", "load", "--json", "--duration", "10ms", "--warm-up", "0ms"];
    let load = command(&[&load[..], &["--server", &scene.address]].concat());
    let told = ended_without_room(load).await;
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.stderr.contains("stdout cannot be written"), "{told:?}");
}

#[tokio::test]
async fn a_place_without_a_session_is_told_if_others_wait() {
    let scene = Scene::new(1).await;
    scene.directory("/persistent", &[(0, kazoo(1))]).await;
    scene.clients[0].create(&format!("/persistent/{}", kazoo(0))).await.unwrap();
    assert_eq!(scene.findings().await, ["warning holder-without-session"]);
}

#[tokio::test]
async fn long_data_and_directories_that_stay_empty_are_found() {
    let scene = Scene::new(1).await;
    let client = &scene.clients[0];
    client.create("/long").data(vec![0; 900_000]).await.unwrap();
    assert_eq!(scene.findings().await, ["warning long-data"]);
    // Older than the minute after which a leader deletes empty containers.
    scene.server.skew_wall_time(-4 * AGO_MS).unwrap();
    client.create("/pile").await.unwrap();
    let mut sent = Vec::new();
    for number in 0..1_000 {
        let path = format!("/pile/{number}");
        sent.push(client.create(&path).send());
        sent.push(client.create(&format!("{path}/lock")).send());
    }
    for created in sent {
        created.await.unwrap();
    }
    let deleted: Vec<_> =
        (0..1_000).map(|number| client.delete(&format!("/pile/{number}/lock")).send()).collect();
    for deleted in deleted {
        deleted.await.unwrap();
    }
    scene.server.skew_wall_time(0).unwrap();
    let (report, _) = scene.report().await;
    let findings = report["findings"].as_array().unwrap();
    let empty = findings.iter().find(|finding| finding["kind"] == "empty-directories").unwrap();
    assert_eq!((&empty["severity"], &empty["paths"][0]), (&"notice".into(), &"/pile".into()));
    assert!(empty["what"].as_str().unwrap().starts_with("1000 directories"), "{empty}");
}

#[tokio::test]
async fn a_directory_without_protection_beside_a_protected_one_is_found() {
    let scene = Scene::new(1).await;
    scene.directory("/open", &[(0, curator(0))]).await;
    assert!(scene.findings().await.is_empty());
    let acl = Acl::open().with_permissions(Permissions::READ | Permissions::CREATE);
    let client = &scene.clients[0];
    client.create("/closed").acl(vec![acl]).await.unwrap();
    client.create(&format!("/closed/{}", curator(0))).await.unwrap();
    let (report, _) = scene.report().await;
    assert_eq!(told(&report), ["warning open-to-all"]);
    assert_eq!(report["findings"][0]["paths"], serde_json::json!(["/open"]));
}

#[tokio::test]
async fn a_healthy_busy_server_has_no_finding() {
    let scene = Scene::new(8).await;
    let mut tasks = Vec::new();
    for client in &scene.clients {
        let mutex = InterProcessMutex::new(client, "/busy").unwrap();
        tasks.push(tokio::spawn(async move {
            // Until the test is over.
            for _ in 0..u64::MAX {
                let guard = mutex.acquire().await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for _ in 0..3 {
        let (report, code) = scene.report().await;
        assert_eq!((told(&report), code), (Vec::new(), Some(0)), "{report}");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn nothing_is_left_behind_and_few_requests_are_sent() {
    let scene = Scene::new(1).await;
    let client = &scene.clients[0];
    let sent: Vec<_> =
        (0..2_000).map(|number| client.create(&format!("/{number}")).send()).collect();
    for created in sent {
        created.await.unwrap();
    }
    let (_, before) = client.children_and_stat("/").await.unwrap();
    let (report, _) = scene.report().await;
    assert_eq!(report["znodes"], 2_001);
    assert!(report["requests"].as_u64().unwrap() < 30, "{}", report["requests"]);
    let (_, after) = client.children_and_stat("/").await.unwrap();
    assert_eq!(before, after);
    assert_eq!(scene.server.observer().watch_graph().most_watched(), None);
    // The server may not have noticed yet that the last connection is closed.
    within_limit(async {
        while scene.server.connections().unwrap().len() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn it_tells_what_it_was_refused_and_how_to_allow_it() {
    let server = TestServer::builder()
        .tcp()
        .configure(|config| config.four_letter_words = "srvr".parse().unwrap())
        .start()
        .await
        .unwrap();
    let address = server.address().unwrap().to_string();
    let ended = run(&["doctor", &address, "--quiet"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let refused = format!("  cons, dump, wchs of {address}: not in its whitelist; ");
    assert!(ended.stdout.contains(&refused), "{}", ended.stdout);
    assert!(ended.stdout.contains("4lw.commands.whitelist=srvr,cons,dump,wchs,wchp"), "{ended:?}");
}

#[tokio::test]
async fn the_admin_server_is_asked_for_what_the_words_refuse() {
    let lines = "clientPort=0\nadmin.enableServer=true\nadmin.serverPort=0\n";
    let config = file("doctor-admin.cfg", lines);
    let mut server = Running::start(&["serve", "--config", config.to_str().unwrap()]).await;
    let line = server.logged("admin server on ").await;
    let port = line.trim_end().rsplit(':').next().unwrap().to_owned();
    let address = server.reachable().to_string();
    let client = Client::connect(address.as_str()).await.unwrap();
    client.create("/lock").await.unwrap();
    let place = format!("/lock/{}", curator(0));
    client.create(&place).mode(CreateMode::Ephemeral).await.unwrap();
    let ended = run(&["doctor", &address, "--json", "--admin-port", &port]).await;
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["not_seen"], serde_json::json!([]));
    let holder = &report["locks"][0]["contenders"][0];
    assert_eq!(holder["session"], client.session_id().to_string());
    assert!(holder["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{holder}");
    // Nobody listens there.
    let ended = run(&["doctor", &address, "--quiet", "--admin-port", "1"]).await;
    assert!(ended.stdout.contains("127.0.0.1:1 cannot be reached"), "{}", ended.stdout);
    server.end("TERM").await;
}

#[tokio::test]
async fn an_admin_server_that_speaks_https_is_asked_by_https() {
    let folder = directory("doctor-https").join("certs");
    let made = run(&["certs", folder.to_str().unwrap()]).await;
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let lines = format!(
        "clientPort=0\nadmin.enableServer=true\nadmin.serverPort=0\nadmin.forceHttps=true\n\
         ssl.quorum.keyStore.location={0}/server.p12\nssl.quorum.keyStore.passwordPath={0}/password\n\
         ssl.quorum.trustStore.location={0}/truststore.p12\nssl.quorum.trustStore.passwordPath={0}/password\n",
        folder.display()
    );
    let config = file("doctor-https.cfg", lines);
    let mut server = Running::start(&["serve", "--config", config.to_str().unwrap()]).await;
    let line = server.logged("admin server on ").await;
    let port = line.trim_end().rsplit(':').next().unwrap().to_owned();
    let address = server.reachable().to_string();
    let args = ["doctor", &address, "--quiet", "--admin-port", &port];
    let by_https = |trusted: &str| {
        let mut command = command(&[&args[..], &["--admin-https"]].concat());
        command.env("SSL_CERT_FILE", folder.join(trusted));
        ended(command)
    };
    let seen = by_https("ca.pem").await;
    assert!(!seen.stdout.contains("not seen"), "{seen:?}");
    // By what is wrong, the report says what to do.
    let plain = run(&args).await;
    assert!(plain.stdout.contains("(--admin-https asks by HTTPS)"), "{plain:?}");
    let untrusted = by_https("client-ca.pem").await;
    assert!(untrusted.stdout.contains("cannot be asked by HTTPS: "), "{untrusted:?}");
    let alone = run(&["doctor", &address, "--admin-https"]).await;
    assert_eq!(alone.code, Some(2));
    assert!(alone.stderr.contains("--admin-port <PORT>"), "{}", alone.stderr);
    server.end("TERM").await;
}

#[tokio::test]
async fn locks_that_only_an_identity_may_read_are_seen_with_it() {
    let scene = Scene::new(1).await;
    let [owner] = &scene.clients[..] else { unreachable!("one client") };
    owner.authenticate("digest", "ann:word").await.unwrap();
    owner.create("/secret").acl(vec![Acl::creator_all()]).await.unwrap();
    let place = format!("/secret/{}", curator(0));
    owner.create(&place).mode(CreateMode::Ephemeral).acl(vec![Acl::creator_all()]).await.unwrap();
    let locks = |ended: Ended| -> Value {
        assert_eq!(ended.stderr, "");
        serde_json::from_str::<Value>(&ended.stdout).unwrap()["locks"].clone()
    };
    assert_eq!(locks(scene.doctor(&["--json"]).await), serde_json::json!([]));
    let identity = file("doctor.identity", "# who looks\ndigest ann:word\n");
    let identity = identity.to_str().unwrap();
    let seen = locks(scene.doctor(&["--json", "--auth-file", identity]).await);
    assert_eq!(seen[0]["contenders"][0]["session"], scene.session(0).to_string());
    let wrong = file("doctor-wrong.identity", "digest word\n");
    let refused = scene.doctor(&["--auth-file", wrong.to_str().unwrap()]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("digest USER:PASSWORD"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_holder_at_another_server_of_an_ensemble_is_not_silent() {
    let ensemble = TestEnsemble::builder().servers(3).tcp().start().await.unwrap();
    let holder = ensemble.connect_to(1).await.unwrap();
    let waiter = ensemble.connect_to(2).await.unwrap();
    holder.create("/lock").await.unwrap();
    for (client, number) in [(&holder, 0), (&waiter, 1)] {
        let path = format!("/lock/{}", curator(number));
        client.create(&path).mode(CreateMode::Ephemeral).await.unwrap();
    }
    ensemble.caught_up().await;
    let address = ensemble.server(0).address().unwrap().to_string();
    let ended = run(&["doctor", &address, "--json"]).await;
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(told(&report).is_empty(), "{report:#}");
    let gaps = report["not_seen"].as_array().unwrap();
    assert!(gaps.iter().any(|gap| gap["server"] == "the ensemble"), "{report:#}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_ends_the_look() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ended = run(&["doctor", &address, "--connect-timeout", "500ms"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""));
    assert!(ended.stderr.contains(&address), "{}", ended.stderr);
}

#[tokio::test]
async fn many_readers_that_wait_for_one_writer_are_no_herd() {
    let scene = Scene::new(25).await;
    let reader = |number| format!("_c_0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1f-__READ__{number:010}");
    let writer = "_c_0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1f-__WRIT__0000000000".to_owned();
    let readers = (1..25).map(|client| (client, reader(client)));
    let places: Vec<_> = std::iter::once((0, writer.clone())).chain(readers).collect();
    scene.directory("/both", &places).await;
    let path = format!("/both/{writer}");
    let mut watches = Vec::new();
    for client in &scene.clients[1..] {
        watches.push(client.get(&path).and_watch().await.unwrap().watcher);
    }
    assert!(scene.findings().await.is_empty());
}

#[tokio::test]
async fn what_cannot_be_read_has_a_status_of_its_own() {
    let scene = Scene::new(0).await;
    let ended = scene.doctor(&["/nowhere"]).await;
    assert_eq!(ended.code, Some(4));
    assert!(ended.stderr.contains("there is no znode /nowhere"), "{}", ended.stderr);
    let ended = run(&["doctor", &format!("{}/nowhere", scene.address)]).await;
    assert!(ended.stderr.contains("there is no znode /nowhere;"), "{}", ended.stderr);
    let ended = run(&["doctor", "127.0.0.1:1", "--connect-timeout", "500ms"]).await;
    assert_eq!(ended.code, Some(4));
    let ended = scene.doctor(&["no-path"]).await;
    assert_eq!(ended.code, Some(2));
}

#[tokio::test]
async fn hostile_names_do_not_reach_a_terminal_or_a_page_as_they_are() {
    let scene = Scene::new(1).await;
    let path = "/<b>\u{fff8}";
    // Names may not have control characters, so markup is what is left.
    scene.clients[0].create(path).await.unwrap_err();
    scene.directory("/<b>&x", &[(0, curator(2_147_483_000))]).await;
    // What reverses the order in which characters are shown.
    let reversed = format!("\u{202e}x-lock-{:010}", 2_147_483_001);
    scene.directory("/reversed", &[(0, reversed)]).await;
    let page = directory("doctor-hostile").join("page.html");
    let ended = scene.doctor(&["--html", page.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1));
    assert!(!ended.stdout.contains('\u{202e}'), "{}", ended.stdout);
    assert!(ended.stdout.contains("\\u{202e}x-lock-2147483001"), "{}", ended.stdout);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(!page.contains('\u{202e}'));
    assert!(page.contains("/&lt;b&gt;&amp;x") && !page.contains("/<b>"), "{page}");
}

#[tokio::test]
async fn it_looks_again_and_again_if_asked() {
    let scene = Scene::new(0).await;
    let args = ["doctor", &scene.address, "--json", "--watch", "50ms"];
    let mut child = command(&args).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let line = within_limit(lines.next_line()).await.unwrap().unwrap();
        let report: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(report["format"], 1);
    }
    child.start_kill().unwrap();
    tokio::time::timeout(Duration::from_secs(10), child.wait()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_a_warning_so_that_a_pipeline_learns_of_it() {
    let scene = Scene::new(1).await;
    let hung = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hung = hung.local_addr().map(|address| (hung, address.to_string())).unwrap();
    let hosts = format!("{},{}", scene.address, hung.1);
    let args = ["doctor", &hosts, "--json", "--connect-timeout", "2s"];
    let ended = run(&args).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(told(&report), ["warning silent-server"]);
    let what = report["findings"][0]["what"].as_str().unwrap();
    assert!(what.contains(&hung.1), "{what}");
    assert!(report["not_seen"].to_string().contains(&hung.1), "{report}");
    // As where the process is gone.
    let hosts = format!("{},127.0.0.1:1", scene.address);
    let ended = run(&["doctor", &hosts, "--quiet"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("the server 127.0.0.1:1 does not answer"), "{ended:?}");
}

/// A server that is in no quorum: it answers `srvr`, and closes all other connections.
async fn without_quorum() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut word = [0; 4];
            if stream.read_exact(&mut word).await.is_ok() && &word == b"srvr" {
                let text = b"This ZooKeeper instance is not currently serving requests\n";
                stream.write_all(text).await.unwrap();
            }
        }
    });
    address
}

/// A server that closes each connection when it has read its first bytes.
async fn closing() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // With unread bytes it would be a reset.
            let _ = stream.read(&mut [0; 4_096]).await;
        }
    });
    address
}

#[tokio::test]
async fn where_no_server_can_be_used_each_of_them_is_told_with_its_cause() {
    let (lonely, closing) = (without_quorum().await, closing().await);
    let hosts = format!("{lonely},{closing},127.0.0.1:1");
    let ended = run(&["doctor", &hosts, "--connect-timeout", "2s"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{ended:?}");
    for cause in [
        format!(
            "no server at {hosts} can be used: {lonely}: it does not serve: it is in no quorum"
        ),
        format!("; {closing}: it closed the connection without an answer; "),
        "; 127.0.0.1:1: Connection refused".to_owned(),
    ] {
        assert!(ended.stderr.contains(&cause), "{cause}: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("is it a ZooKeeper server"), "{}", ended.stderr);
}
