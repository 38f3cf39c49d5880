//! The commands `zoolet bench` and `zoolet demo`: what they count, what they refuse, and that they
//! leave nothing behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use zoolet::client::Client;

use crate::process::{Ended, Running, command, directory, ended, file, run, send, within_limit};

/// Runs a bench that is to succeed, and returns its JSON.
async fn measured(args: &[&str]) -> Value {
    let ended = run(&[&["bench"], args, &["--json"]].concat()).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The result with these labels.
fn result<'a>(json: &'a Value, labels: &[(&str, Value)]) -> &'a Value {
    let is_it = |result: &&Value| labels.iter().all(|(name, label)| result[*name] == *label);
    json["results"].as_array().unwrap().iter().find(is_it).unwrap()
}

fn number(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {result}"))
}

/// The names of all znodes that are not there by themselves.
async fn znodes(server: &Running) -> Vec<String> {
    let client = Client::connect(server.reachable().to_string().as_str()).await.unwrap();
    let names = client.children("/").await.unwrap();
    names.iter().filter(|name| *name != "zookeeper").map(str::to_owned).collect()
}

async fn server() -> Running {
    Running::start(&["serve", "--listen", "127.0.0.1:0"]).await
}

/// Waits until the server has received so many requests.
async fn requests_have_come(server: &Running, count: u64) {
    let received = |srvr: String| -> Option<u64> {
        srvr.lines().find_map(|line| line.strip_prefix("Received: ")?.parse().ok())
    };
    within_limit(async {
        while received(server.ask("srvr").await).unwrap() < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

fn assert_wrong(ended: &Ended, code: i32, hints: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    for hint in hints {
        assert!(ended.stderr.contains(hint), "{hint} is not in {}", ended.stderr);
    }
}

#[tokio::test]
async fn tls_and_users_of_sasl_are_measured_too() {
    let few = ["sessions", "--sessions", "4", "--rounds", "1"];
    let json = measured(&[&few[..], &["--tls", "--server", "embedded"]].concat()).await;
    assert!(!json["results"].as_array().unwrap().is_empty(), "{json}");

    let users = "Server { org.apache.zookeeper.server.auth.DigestLoginModule required \
                 user_ann=\"secret\"; };";
    let jaas = file("bench-jaas.conf", users);
    let text = format!(
        "clientPort=0\nclientPortAddress=127.0.0.1\nzoolet.jaas.config={}\n\
         authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
         sessionRequireClientSASLAuth=true\n",
        jaas.display()
    );
    let config = file("bench-sasl.cfg", &text);
    let server = Running::start(&["serve", "--config", config.to_str().unwrap()]).await;
    let address = server.address.to_string();
    let args = [&["bench"], &few[..], &["--server", &address, "--json"]].concat();
    for (password, expected) in [(Some("secret"), 0), (Some("wrong"), 77), (None, 2)] {
        let mut bench = command(&[&args[..], &["--sasl-user", "ann"]].concat());
        bench.envs(password.map(|password| ("ZOOLET_SASL_PASSWORD", password)));
        let ended = ended(bench).await;
        assert_eq!(ended.code, Some(expected), "{password:?}: {ended:?}");
    }
    for (options, hint) in [
        (&["--sasl-user", "ann", "--sasl-password-file", config.to_str().unwrap()][..], "no users"),
        (&["--tls", "--in-process"], "reached by calls"),
    ] {
        assert_wrong(&run(&[&["bench"], &few[..], options].concat()).await, 2, &[hint]);
    }
}

#[tokio::test]
async fn herd_locks_cost_more_with_more_waiters_and_the_mutex_does_not() {
    let page = file("herd.html", "");
    let page = page.to_str().unwrap();
    let args = ["herd", "--waiters", "2,12", "--hand-overs", "10", "--rounds", "2"];
    let json = measured(&[&args[..], &["--report", page]].concat()).await;
    assert_eq!((&json["bench"], &json["rounds"]), (&"herd".into(), &2.into()));
    for waiters in [2, 12] {
        let of = |kind: &str| {
            let result = result(&json, &[("lock", kind.into()), ("waiters", waiters.into())]);
            assert_eq!(result["rounds"].as_array().unwrap().len(), 2);
            assert!(number(result, "latency_p50_us") > 0.0);
            assert!(number(result, "latency_max_us") >= number(result, "latency_p99_us"));
            (number(result, "requests_each"), number(result, "events_each"))
        };
        let (requests, events) = of("predecessor");
        assert!(requests <= 4.5 && events <= 3.5, "{requests} requests, {events} events");
        for kind in ["exists-herd", "children-herd"] {
            let (requests, events) = of(kind);
            let least = f64::from(waiters);
            assert!(requests > least && events >= least - 0.5, "{kind}: {requests}, {events}");
        }
    }
    assert_is_whole(&std::fs::read_to_string(page).unwrap());
}

/// A page that shows everything without a network.
fn assert_needs_nothing(page: &str) {
    for foreign in ["http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link"]
    {
        assert!(!page.contains(foreign), "{foreign} is in the page");
    }
}

/// A page of the herd that has its parts, and needs nothing.
fn assert_is_whole(page: &str) {
    assert_needs_nothing(page);
    for part in ["<svg", "<polyline", "<title>", "With 12 waiting", "zoolet bench herd", "<table>"]
    {
        assert!(page.contains(part), "{part} is not in the page");
    }
}

#[tokio::test]
async fn servers_take_turns_under_their_names_and_no_znode_is_left() {
    let server = server().await;
    let address = format!("theirs={}", server.reachable());
    let args = ["herd", "--waiters", "3", "--hand-overs", "10", "--rounds", "1", "--lock"];
    let servers = ["predecessor", "--server", &address, "--server", "ours=in-process"];
    let pid = server.pid().to_string();
    let json = measured(&[&args[..], &servers, &["--pid", &pid]].concat()).await;
    assert_eq!(json["servers"][0]["version"], format!("zoolet {}", env!("CARGO_PKG_VERSION")));
    assert!(json["servers"][1]["address"].is_null(), "a server in process listens nowhere");
    let theirs = result(&json, &[("server", "theirs".into())]);
    let ours = result(&json, &[("server", "ours".into())]);
    assert_eq!(theirs["requests_each"], ours["requests_each"]);
    if cfg!(target_os = "linux") {
        assert!(number(theirs, "server_cpu_us_each") > 0.0);
    }
    assert!(ours["server_cpu_us_each"].is_null(), "it is on the threads of the clients");
    assert_eq!(znodes(&server).await, Vec::<String>::new());
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_leaves_no_znode() {
    let server = server().await;
    let address = server.reachable().to_string();
    let args = ["bench", "herd", "--server", &address, "--path", "/bench", "--waiters", "5"];
    let args = [&args[..], &["--hand-overs", "100000", "--time-limit", "1h"]].concat();
    let mut command = command(&args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let client = Client::connect(address.as_str()).await.unwrap();
    within_limit(async {
        while client.children("/bench").await.map_or(0, |names| names.len()) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    send("INT", child.id().unwrap()).await;
    assert_eq!(within_limit(child.wait()).await.unwrap().code(), Some(130));
    assert_eq!(znodes(&server).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_interrupted_bench_reports_what_it_has_measured() {
    let page = directory("interrupted-bench").join("page.html");
    let page = page.to_str().unwrap();
    let server = server().await;
    let at = server.reachable().to_string();
    let args = ["bench", "herd", "--waiters", "1,5", "--hand-overs", "20", "--rounds", "100000"];
    let args = [&args[..], &["--server", &at, "--json", "--report", page]].concat();
    let child = command(&args).spawn().unwrap();
    // Far more requests than a round of a lock takes.
    requests_have_come(&server, 2_000).await;
    send("INT", child.id().unwrap()).await;
    let output = within_limit(child.wait_with_output()).await.unwrap();
    assert_eq!(output.status.code(), Some(130));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = json["results"].as_array().unwrap();
    assert!(results.iter().any(|result| !result["rounds"].as_array().unwrap().is_empty()));
    let notes = json["notes"].to_string();
    assert!(notes.contains("Ended early (interrupted)"), "{notes}");
    let page = std::fs::read_to_string(page).unwrap();
    assert_needs_nothing(&page);
    assert!(page.contains("Ended early") && page.contains("<table>"), "{page}");
    assert_eq!(znodes(&server).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_unwritable_page_is_an_error_before_the_measurement() {
    let page = directory("no-such-page").join("missing/page.html");
    let args = ["bench", "herd", "--hand-overs", "1000000000", "--report", page.to_str().unwrap()];
    assert_wrong(&run(&args).await, 1, &["missing/page.html", "cannot be written"]);
}

#[tokio::test]
async fn locks_are_measured_uncontended_and_contended() {
    let args = ["lock", "--clients", "1,3", "--duration", "200ms", "--warm-up", "50ms"];
    let json = measured(&[&args[..], &["--rounds", "1"]].concat()).await;
    let labels = |path: &str, clients: i64, lock: &str| {
        [("path", path.into()), ("clients", clients.into()), ("lock", lock.into())]
    };
    for lock in ["exists-herd", "children-herd", "predecessor"] {
        let alone = result(&json, &labels("own", 1, lock));
        assert!(number(alone, "per_second") > 0.0);
        assert!(number(alone, "requests_each") < 4.0);
        assert_eq!(number(alone, "events_each"), 0.0, "nobody waits");
        assert!(number(result(&json, &labels("one", 3, lock)), "events_each") > 0.0);
    }
}

#[tokio::test]
async fn a_load_has_the_mixture_of_its_file_and_options_override_it() {
    let text = "sessions = 2\ndepth = 2\nduration = \"200ms\"\nwarm-up = 0\nznodes = 10\n\
                [mix]\nget = 5\ncreate = 1\n";
    let config = file("load.toml", text);
    let args = ["load", "--config", config.to_str().unwrap(), "--rounds", "1"];
    let of = |json: &Value, operation: &str| {
        let results = json["results"].as_array().unwrap();
        results.iter().any(|result| result["operation"] == operation)
    };
    let json = measured(&args).await;
    assert!(number(result(&json, &[("operation", "all".into())]), "per_second") > 0.0);
    assert!(of(&json, "get") && of(&json, "create") && !of(&json, "set"));
    let mix = "set=1,exists=1,children=1,create=1,delete=1";
    let page = file("load.html", "");
    let page = page.to_str().unwrap();
    let json = measured(&[&args[..], &["--mix", mix, "--report", page]].concat()).await;
    assert!(!of(&json, "get"));
    let page = std::fs::read_to_string(page).unwrap();
    assert_needs_nothing(&page);
    // A bar for each and for all together, and a line for each.
    assert_eq!(page.matches("class=\"bar ").count(), 6, "{page}");
    assert_eq!(page.matches("<polyline").count(), 5, "{page}");
    for quantile in ["p50", "p90", "p99", "p99.9", "max"] {
        assert!(page.contains(&format!(">{quantile}</text>")), "{quantile} is not in the plot");
    }
    for operation in ["set", "exists", "children", "create", "delete"] {
        assert!(of(&json, operation), "{operation}");
    }
}

#[tokio::test]
async fn an_error_in_a_load_file_names_the_line() {
    for (name, text, hints) in [
        ("key", "sessions = 2\nduratoin = \"1s\"\n", ["line 2", "duratoin", "`duration`"]),
        ("value", "\n\nsessions = 0\n", ["line 3", "sessions", "from 1"]),
        ("mix", "[mix]\ngett = 1\n", ["line 1", "gett", "did you mean get?"]),
        ("time", "duration = \"soon\"\n", ["line 1", "duration", "10s"]),
        ("toml", "sessions = 2\nwhat\n", ["line 2", "what", "TOML"]),
    ] {
        let config = file(&format!("nonsense-{name}.toml"), text);
        let ended = run(&["bench", "load", "--config", config.to_str().unwrap()]).await;
        assert_wrong(&ended, 2, &hints);
        assert_wrong(&ended, 2, &[config.to_str().unwrap()]);
    }
}

#[tokio::test]
async fn all_watchers_receive_events_and_sessions_are_counted() {
    let args = ["watch-fanout", "--watchers", "1,20", "--changes", "3", "--rounds", "1"];
    let json = measured(&args).await;
    for watchers in [1, 20] {
        let result = result(&json, &[("watchers", watchers.into())]);
        let (last, p50) = (number(result, "last_event_us"), number(result, "latency_p50_us"));
        assert!(0.0 < p50 && p50 <= last * 3.5, "{p50} {last}");
    }
    let json =
        measured(&["sessions", "--sessions", "10", "--idle", "100ms", "--rounds", "1"]).await;
    let result = result(&json, &[("sessions", 10.into())]);
    assert!(number(result, "per_second") > 0.0);
    assert!(number(result, "pings_per_second") < 100.0);
}

#[tokio::test]
async fn a_misspelt_or_missing_argument_gets_a_hint() {
    for (args, code, hints) in [
        (&["herd", "--waitrs", "1"][..], 2, &["similar argument", "--waiters"][..]),
        (&["herd", "--lock", "predecesor"], 2, &["similar value", "predecessor"]),
        (&["herd", "--waiters", "0"], 2, &["from 1"]),
        (&["hred"], 2, &["similar subcommand", "herd"]),
        (&["load", "--mix", "gett=1"], 2, &["did you mean get?"]),
        (
            &["herd", "--server", "embedded", "--pid", "1", "--pid", "2"],
            2,
            &["2 --pid for 1 --server"],
        ),
        (&["herd", "--pid", "1"], 2, &["--pid 1 has no effect without --server"]),
        (&["herd", "--server", "embedded", "--server", "embedded"], 2, &["other=embedded"]),
        (&["load", "--depth", "2147483647"], 2, &["more than 1000000", "--depth"]),
        (&["herd", "--path", "/"], 2, &["/bench"]),
        (&["herd", "--path", "/a/b"], 2, &["the znode above /a/b"]),
        (&["herd", "--server", "a b:x"], 2, &["the port is not a number"]),
    ] {
        assert_wrong(&run(&[&["bench"], args].concat()).await, code, hints);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_is_not_there_is_an_error_and_not_a_dash() {
    // More than the system gives to any process.
    let args = ["bench", "herd", "--server", "127.0.0.1:1", "--pid", "4194305"];
    assert_wrong(&run(&args).await, 2, &["no process 4194305"]);
}

#[tokio::test]
async fn a_server_that_takes_no_more_connections_is_told_from_one_that_is_not_there() {
    let few = ["serve", "--listen", "127.0.0.1:0", "--max-client-cnxns", "5"];
    let server = Running::start(&few).await;
    let address = server.reachable().to_string();
    let args = ["bench", "herd", "--server", &address, "--waiters", "1,20", "--rounds", "1"];
    let ended = run(&[&args[..], &["--hand-overs", "1", "--lock", "predecessor"]].concat()).await;
    assert_wrong(&ended, 70, &["takes no more connections", "--max-client-cnxns 0"]);
    // What was measured before is told.
    assert!(ended.stdout.contains("Ended early"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("is one running there"), "{}", ended.stderr);
    // What to do is told once.
    assert!(!ended.stdout.contains("--max-client-cnxns"), "{}", ended.stdout);
}

#[cfg(unix)]
#[tokio::test]
async fn a_bench_ends_when_its_server_has_gone() {
    let server = server().await;
    let address = server.reachable().to_string();
    let args = ["bench", "load", "--server", &address, "--duration", "1h", "--warm-up", "0"];
    let child = command(&[&args[..], &["--sessions", "2"]].concat()).spawn().unwrap();
    // More than all sessions send before they are measured.
    requests_have_come(&server, 2_000).await;
    server.end("KILL").await;
    let output = within_limit(child.wait_with_output()).await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{stderr}");
    // The connection before the next request was sent, or before the reply came, or the session.
    assert!(stderr.contains(" the server was lost: "), "{stderr}");
}

#[tokio::test]
async fn a_lock_that_is_named_twice_is_measured_once() {
    let args = ["herd", "--waiters", "1,1", "--hand-overs", "1", "--rounds", "1", "--lock"];
    let json = measured(&[&args[..], &["predecessor,predecessor", "--in-process"]].concat()).await;
    assert_eq!(json["results"].as_array().unwrap().len(), 1, "{json}");
}

#[tokio::test]
async fn existing_znodes_are_not_touched() {
    let server = server().await;
    let address = server.reachable().to_string();
    let client = Client::connect(address.as_str()).await.unwrap();
    client.create("/mine").data("mine").await.unwrap();
    let ended = run(&["bench", "herd", "--server", &address, "--path", "/mine"]).await;
    assert_wrong(&ended, 2, &["/mine is there already"]);
    assert_eq!(znodes(&server).await, ["mine"]);
}

#[tokio::test]
async fn a_sale_oversells_only_without_a_lock() {
    let ended = run(&["demo", "--buyers", "40", "--items", "5", "--json"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    let sale = |lock: &str| {
        let sales = json["sales"].as_array().unwrap();
        sales.iter().find(|sale| sale["lock"] == lock).unwrap()
    };
    assert!(number(sale("no-lock"), "oversold") > 0.0);
    for lock in ["herd", "predecessor"] {
        let sale = sale(lock);
        assert_eq!((&sale["sold"], &sale["oversold"]), (&5.into(), &0.into()), "{sale}");
        assert_eq!((&sale["served"], &sale["is_complete"]), (&40.into(), &true.into()));
    }
    assert!(number(sale("herd"), "events") > 2.0 * number(sale("predecessor"), "events"));
}

#[tokio::test]
async fn a_sale_prints_its_conclusions_and_leaves_no_znode() {
    let server = server().await;
    let address = server.reachable().to_string();
    let ended = run(&["demo", "--server", &address, "--buyers", "20", "--items", "2"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for part in ["oversold", "with InterProcessMutex", "Both locks sell what there is"] {
        assert!(ended.stdout.contains(part), "{part} is not in {}", ended.stdout);
    }
    assert_eq!(znodes(&server).await, Vec::<String>::new());
    let ended = run(&["demo", "--buyers", "5", "--items", "10"]).await;
    assert!(ended.stdout.contains("There was enough for all"), "{}", ended.stdout);
}
