//! The command `zoolet sweep`: which faults break a command, how that is reported, and that a fault
//! can be repeated by its id.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;

use crate::process::{Ended, command, directory, ended, file, send, within_limit};

/// A script that uses the client of this command.
fn script(text: &str) -> Vec<String> {
    let zoolet = format!("z() {{ '{}' cli \"$@\"; }}\n{text}", env!("CARGO_BIN_EXE_zoolet"));
    ["--", "sh", "-c", &zoolet].map(str::to_owned).to_vec()
}

fn sweep_command(options: &[&str], script: &[String]) -> tokio::process::Command {
    let mut words = vec!["sweep"];
    words.extend(options);
    words.extend(script.iter().map(String::as_str));
    let mut command = command(&words);
    command.env_remove("ZOOLET_SERVER");
    command
}

async fn sweep(options: &[&str], script: &[String]) -> Ended {
    ended(sweep_command(options, script)).await
}

/// Makes a sweep, and returns its JSON with the exit status.
async fn swept(name: &str, options: &[&str], script: &[String]) -> (Option<i32>, Value) {
    let path = directory(name).join("report.json");
    let path = path.to_str().unwrap();
    let ended = sweep(&[&["--json", path], options].concat(), script).await;
    let text = fs::read_to_string(path).unwrap_or_else(|_| panic!("{ended:?}"));
    (ended.code, serde_json::from_str(&text).unwrap())
}

/// The outcomes by kind and operation.
fn outcomes(report: &Value) -> BTreeMap<(String, String), String> {
    let runs = report["runs"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    runs.map(|run| ((text(&run["kind"]), text(&run["point"]["operation"])), text(&run["outcome"])))
        .collect()
}

/// The id of the first run with this outcome.
fn id_of(report: &Value, outcome: &str) -> String {
    let mut runs = report["runs"].as_array().unwrap().iter();
    let run = runs.find(|run| run["outcome"] == outcome).unwrap();
    run["id"].as_str().unwrap().to_owned()
}

/// It tries again after an error, without a look at what the first attempt did.
const NAIVE_RETRY: &str = "z create /naive x || z create /naive x";

#[tokio::test]
async fn the_fault_that_breaks_a_command_is_found_and_can_be_repeated() {
    let naive = script(NAIVE_RETRY);
    let (code, report) = swept("sweep-naive", &["--only", "request-lost,reply-lost"], &naive).await;
    assert_eq!(code, Some(1), "{report}");
    let outcomes = outcomes(&report);
    let create = |kind: &str| &outcomes[&(kind.to_owned(), "create2".to_owned())];
    assert_eq!(create("reply-lost"), "broke");
    assert_eq!(create("request-lost"), "passed");
    let (broke, passed) = (id_of(&report, "broke"), id_of(&report, "passed"));

    let again = sweep(&["--replay", &broke], &naive).await;
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("closed before the reply"), "{again:?}");
    assert!(again.stderr.contains("the fault broke the command: exit status"), "{again:?}");
    assert!(again.stderr.contains("/naive"), "the output of the command is shown: {again:?}");
    let again = sweep(&["--replay", &passed], &naive).await;
    assert_eq!(again.code, Some(0), "{again:?}");

    let careful = script("z create /naive x || z get /naive || z create /naive x");
    let ended = sweep(&["--only", "request-lost,reply-lost"], &careful).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn the_text_is_short_and_has_what_a_person_needs() {
    let ended =
        sweep(&["--only", "reply-lost,delay", "--delay", "10ms"], &script(NAIVE_RETRY)).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.starts_with("first run: passed in "), "{ended:?}");
    for part in [
        "1 broke the command",
        "by 1 fault:\n  reply-lost    1st create2 /naive of session 1   [reply-lost-",
        "\n  | ",
        "Again, with the whole output:\n    zoolet sweep --replay reply-lost-",
        // Without it, a replayed delay would be another one.
        " --delay 0.01 -- sh -c ",
    ] {
        assert!(ended.stdout.contains(part), "{part} is not in {}", ended.stdout);
    }
    assert!(ended.stdout.lines().count() < 20, "{}", ended.stdout);
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_all_its_processes() {
    let place = directory("sweep-hang");
    let pids = place.join("pids");
    let text = format!(
        "z create /hang x || {{ echo $$ >> '{0}'; sh -c 'echo $$ >> {0}; exec sleep 600' & wait; }}",
        pids.display()
    );
    let options = ["--only", "reply-lost", "--path", "/hang", "--timeout", "4s"];
    let (code, report) = swept("sweep-hang-report", &options, &script(&text)).await;
    assert_eq!(code, Some(1), "{report}");
    let run = &report["runs"][0];
    assert_eq!((&run["hung"], &run["outcome"]), (&Value::Bool(true), &"broke".into()), "{run}");
    assert!(run["exit_status"].is_null() && run["signal"].is_null(), "{run}");
    assert_all_gone(&pids).await;
}

/// Waits until no process of a file lives.
async fn assert_all_gone(pids: &Path) {
    let text = fs::read_to_string(pids).unwrap();
    assert!(text.lines().count() >= 2, "{text}");
    within_limit(async {
        for pid in text.lines() {
            // A zombie has no command line.
            while fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_that_does_not_come_again_is_not_reached() {
    let place = directory("sweep-missing");
    let mark = place.join("mark");
    let text =
        format!("[ -e '{0}' ] || z create /once; touch '{0}'; z create /each", mark.display());
    let options = ["--only", "delay", "--delay", "1ms"];
    let (code, report) = swept("sweep-missing-report", &options, &script(&text)).await;
    assert_eq!(code, Some(0), "{report}");
    let of_path = |path: &str| {
        let mut runs = report["runs"].as_array().unwrap().iter();
        runs.find(|run| run["point"]["path"] == path).unwrap()["outcome"].clone()
    };
    assert_eq!(of_path("/once"), "not reached");
    // It is sent by the first session now, and no longer by the second one.
    assert_eq!(of_path("/each"), "not reached");
    assert_eq!(
        (&report["faults"]["not_reached"], &report["faults"]["passed"]),
        (&3.into(), &1.into())
    );

    let text = format!("[ -e '{0}' ] || z create /once; touch '{0}'", mark.display());
    fs::remove_file(&mark).unwrap();
    let ended = sweep(&["--only", "request-lost"], &script(&text)).await;
    assert_eq!(ended.code, Some(4), "nothing is known of any fault: {ended:?}");

    let text = format!("[ -e '{0}' ] && exit 7; touch '{0}'; z create /once", mark.display());
    fs::remove_file(&mark).unwrap();
    let (code, report) = swept("sweep-flaky-report", &options, &script(&text)).await;
    assert_eq!(code, Some(3), "{report}");
    assert_eq!(report["faults"]["failed_by_itself"], report["faults"]["run"]);
    assert_eq!(report["runs"][0]["exit_status"], 7);
}

#[tokio::test]
async fn generated_names_and_numbers_are_found_again() {
    let text = "id=$(cat /proc/sys/kernel/random/uuid)\n\
                z create /a-$id && z create --sequential /a-$id/n- && z create /p-$((100000 + $$))";
    let options = ["--only", "delay", "--delay", "1ms"];
    let (code, report) = swept("sweep-names", &options, &script(text)).await;
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["faults"]["passed"], report["faults"]["planned"], "{report}");
    let points = report["first_run"]["points"].as_array().unwrap().iter();
    let paths = points.map(|point| point["path"].as_str().unwrap());
    let paths: Vec<_> = paths.filter(|path| !path.is_empty()).collect();
    assert!(paths.contains(&"/a-{guid}") && paths.contains(&"/p-{number}"), "{paths:?}");
}

#[tokio::test]
async fn the_files_can_be_read_and_agree() {
    let place = directory("sweep-files");
    let [junit, json, html] = ["r.xml", "r.json", "r.html"].map(|name| place.join(name));
    let text = format!("printf 'odd \\033[31m\\001 <&>\\n' >&2; {NAIVE_RETRY}");
    let options = [
        ["--junit", junit.to_str().unwrap()],
        ["--json", json.to_str().unwrap()],
        ["--html", html.to_str().unwrap()],
        ["--only", "request-lost,reply-lost"],
    ];
    let ended = sweep(options.as_flattened(), &script(&text)).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let names: Vec<_> = report.as_object().unwrap().keys().map(String::as_str).collect();
    let expected =
        ["command", "faults", "first_run", "format", "runs", "seconds", "stopped_by", "zoolet"];
    assert_eq!(names, expected);
    let broke = &report["runs"].as_array().unwrap().iter().find(|run| run["outcome"] == "broke");
    let failure = &broke.unwrap()["failure"];
    let marked: Vec<_> = failure["requests"].as_array().unwrap().iter().collect();
    assert_eq!(marked.iter().filter(|request| request["fault"] == true).count(), 1);
    assert!(failure["output"][0] == "odd  <&>", "{failure}");

    let (tests, failures) = junit_counts(&fs::read_to_string(junit).unwrap());
    assert_eq!(report["faults"]["run"], tests);
    assert_eq!(report["faults"]["broke"], failures);
    let page = fs::read_to_string(html).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("<script"), "{page}");
    assert!(page.contains(&id_of(&report, "broke")), "{page}");
}

/// The numbers of test cases and failures in a file of JUnit's XML.
fn junit_counts(text: &str) -> (usize, usize) {
    let mut reader = Reader::from_str(text);
    let (mut cases, mut failures) = (0, 0);
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == b"testcase" => {
                cases += 1
            }
            Event::Start(tag) if tag.name().as_ref() == b"failure" => failures += 1,
            Event::Text(text) => {
                let text = text.decode().unwrap();
                let is_allowed = |c: char| c == '\n' || c == '\t' || !c.is_control();
                assert!(text.chars().all(is_allowed), "{text:?}");
            }
            Event::Eof => return (cases, failures),
            _ => {}
        }
    }
}

#[tokio::test]
async fn what_was_found_is_told_when_a_run_cannot_be_made() {
    let place = directory("sweep-stop");
    let path = place.join("test.sh");
    let zoolet = env!("CARGO_BIN_EXE_zoolet");
    // The second run with a fault is its last.
    let text = format!(
        "#!/bin/sh\ncase $ZOOLET_SWEEP_FAULT in expire-*) rm \"$0\";; esac\n{zoolet} cli create /a\n"
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["--".to_owned(), path.to_str().unwrap().to_owned()];
    let junit = place.join("report.xml");
    let options = ["--only", "reply-lost,expire,expire-after", "--path", "/a", "--jobs", "1"];
    let options =
        [&options[..], &["--timeout", "30s", "--junit", junit.to_str().unwrap()]].concat();
    let (code, report) = swept("sweep-stop-report", &options, &words).await;
    assert_eq!(code, Some(127), "{report}");
    assert_eq!((&report["faults"]["planned"], &report["faults"]["run"]), (&3.into(), &2.into()));
    assert!(report["stopped_by"].as_str().unwrap().contains("no such command"), "{report}");
    assert_eq!(report["runs"][0]["outcome"], "broke");
    // A command that hangs does so within the same time only.
    let replay = report["runs"][0]["failure"]["replay"].as_str().unwrap();
    assert!(replay.contains(" --timeout 30 -- "), "{replay}");
    let junit = fs::read_to_string(junit).unwrap();
    assert!(junit.contains(r#"tests="3""#) && junit.contains(r#"errors="1""#), "{junit}");
    assert!(
        junit.contains("<error type=\"stopped\" message=\"stopped after 2 of 3 faults: "),
        "{junit}"
    );
}

/// The files that a sweep replaces.
struct Files {
    junit: PathBuf,
    json: PathBuf,
    html: PathBuf,
}

impl Files {
    fn of_an_earlier_sweep(name: &str) -> Self {
        let place = directory(name);
        let [junit, json, html] = ["r.xml", "r.json", "r.html"].map(|name| place.join(name));
        for path in [&junit, &json, &html] {
            fs::write(path, "an earlier sweep passed").unwrap();
        }
        Self { junit, json, html }
    }

    fn options(&self) -> Vec<&str> {
        let options = [("--junit", &self.junit), ("--json", &self.json), ("--html", &self.html)];
        options.iter().flat_map(|(option, path)| [*option, path.to_str().unwrap()]).collect()
    }

    /// Each says that the sweep was not made, and why.
    fn assert_all_say(&self, why: &str) {
        let junit = fs::read_to_string(&self.junit).unwrap();
        assert_eq!(junit_counts(&junit), (1, 0), "{junit}");
        assert!(junit.contains(r#"errors="1""#) && junit.contains(why), "{junit}");
        let report: Value = serde_json::from_slice(&fs::read(&self.json).unwrap()).unwrap();
        // Of a signal a program needs the name alone.
        let why_for_programs = why.strip_prefix("ended by ").unwrap_or(why);
        let stopped_by = report["stopped_by"].as_str().unwrap();
        assert!(stopped_by.contains(why_for_programs), "{report}");
        assert_eq!(stopped_by.contains("SIG"), stopped_by == "SIGINT", "{report}");
        assert_eq!((&report["first_run"], &report["faults"]["run"]), (&Value::Null, &0.into()));
        let page = fs::read_to_string(&self.html).unwrap();
        // There it is a sentence.
        let says = page.to_lowercase().contains(&why.to_lowercase());
        assert!(page.contains("No fault was injected.") && says, "{page}");
    }
}

#[tokio::test]
async fn the_files_of_an_earlier_sweep_are_replaced_also_if_there_are_no_faults() {
    let files = Files::of_an_earlier_sweep("sweep-not-made");
    for (text, options, code, why) in [
        (
            "echo it is broken; exit 3",
            vec![],
            3,
            "the command fails without any fault: exit status 3",
        ),
        ("sleep 60", vec!["--timeout", "200ms"], 3, "hung: it did not end within"),
        ("true", vec![], 3, "has sent no request"),
        ("z create /a", vec!["--path", "/b"], 2, "no request names /b"),
    ] {
        let ended = sweep(&[files.options(), options].concat(), &script(text)).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        files.assert_all_say(why);
    }
    let ended = sweep(&files.options(), &script("echo it is broken; exit 3")).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    for path in [&files.junit, &files.html] {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains("it is broken"), "the output of the command: {text}");
    }
    let options = [&["--replay", "expire-1"], &files.options()[..]].concat();
    let ended = sweep(&options, &script("true")).await;
    assert_eq!(ended.code, Some(2), "it would write no files: {ended:?}");
}

#[tokio::test]
async fn an_interrupt_of_the_first_run_is_told_in_the_files() {
    let files = Files::of_an_earlier_sweep("sweep-first-interrupt");
    let begun = directory("sweep-first-begun").join("begun");
    let text = format!("touch '{}'; sleep 600", begun.display());
    let mut command = sweep_command(&files.options(), &script(&text));
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    within_limit(async {
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    // As if it were killed now.
    files.assert_all_say("it was stopped before its end");
    send("INT", child.id().unwrap()).await;
    let status = within_limit(child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(130));
    files.assert_all_say("ended by SIGINT");
}

#[tokio::test]
async fn a_pipe_gets_one_report_and_nothing_else() {
    let naive = script(NAIVE_RETRY);
    let breaks = ["--only", "reply-lost", "--path", "/naive"];
    let pipes = directory("sweep-pipes").join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&pipes).status().unwrap();
    assert!(made.success());
    for name in ["-", "/dev/stdout"] {
        let ended = sweep(&[&["--json", name], &breaks[..]].concat(), &naive).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let report: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
        assert_eq!(report["faults"]["broke"], 1, "{report}");
        assert!(ended.stderr.contains("1 broke the command"), "the text is there: {ended:?}");

        let ended = sweep(&["--json", name], &script("echo it is broken; exit 3")).await;
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let report: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
        assert!(report["stopped_by"].as_str().unwrap().contains("fails without any fault"));
    }
    assert!(!Path::new("-").exists(), "it is no file");

    // A named pipe, which leaves stdout to the text.
    let read = tokio::task::spawn_blocking({
        let pipes = pipes.clone();
        move || fs::read_to_string(pipes).unwrap()
    });
    let ended = sweep(&[&["--json", pipes.to_str().unwrap()], &breaks[..]].concat(), &naive).await;
    assert!(ended.stdout.contains("1 broke the command"), "{ended:?}");
    let report: Value = serde_json::from_str(&within_limit(read).await.unwrap()).unwrap();
    assert_eq!(report["faults"]["broke"], 1, "{report}");

    let ended = sweep(&[&["--json", "-", "--junit", "-"], &breaks[..]].concat(), &naive).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("--junit and --json would both be written to stdout"));
}

#[tokio::test]
async fn much_output_is_kept_in_part() {
    let text = "head -c 20000000 /dev/zero | tr '\\0' 'x'; z create /a || { echo last; exit 1; }";
    let options = ["--only", "reply-lost", "--path", "/a"];
    let (code, report) = swept("sweep-output", &options, &script(text)).await;
    assert_eq!(code, Some(1), "{report}");
    let output = report["runs"][0]["failure"]["output"].as_array().unwrap();
    assert_eq!(output.last().unwrap(), "last");
    let bytes: usize = output.iter().map(|line| line.as_str().unwrap().len()).sum();
    assert!((1_000..=70_000).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn wrong_uses_are_told_with_their_cure() {
    let fails = || script("echo oops; exit 9");
    let creates = || script("z create /a");
    let orphan = file("sweep-orphan", "#!/no/such/interpreter\n");
    fs::set_permissions(&orphan, fs::Permissions::from_mode(0o755)).unwrap();
    for (options, script, code, hint) in [
        (
            vec![],
            vec!["no-such-command".to_owned()],
            127,
            "no-such-command: there is no such command",
        ),
        // Tests are run in the folder of the package.
        (vec![], vec!["Cargo.toml".to_owned()], 127, "the file of this name here is ./Cargo.toml"),
        (vec![], vec![orphan.to_str().unwrap().to_owned()], 126, "interpreter that its first line"),
        (vec![], vec!["/etc/passwd".to_owned()], 126, "/etc/passwd cannot be executed"),
        (vec![], fails(), 3, "oops\nerror: the command fails without any fault: exit status 9"),
        (vec![], vec!["true".to_owned()], 3, "ZOOLET_CONNECT_STRING"),
        (vec!["--path", "/b"], creates(), 2, "no request names /b; `--list` shows"),
        (vec!["--path", "b"], creates(), 2, "must be a path such as /locks"),
        (vec!["--only", "flood"], creates(), 2, "possible values: request-lost, reply-lost"),
        (vec!["--replay", "delay-0000000000"], creates(), 2, "has the fault delay-0000000000"),
        (vec!["--junit", "/no/such/folder/r.xml"], creates(), 73, "cannot be written"),
        (vec!["--sample", "0"], creates(), 2, "must be a whole number from 1"),
        (vec!["--timeout", "1ms"], script("sleep 9"), 3, "hung: it did not end within"),
    ] {
        let ended = sweep(&options, &script).await;
        assert_eq!(ended.code, Some(code), "{options:?}: {ended:?}");
        assert!(ended.stderr.contains(hint), "{hint} is not in {}", ended.stderr);
    }
}

#[tokio::test]
async fn requests_are_listed_and_a_seed_chooses_faults() {
    let both = script("z create /a && z get /a");
    let listed = sweep(&["--list"], &both).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let lines: Vec<Vec<_>> =
        listed.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let has = |session: &str, operation: &str, path: &str| {
        lines.iter().any(|line| line.len() > 4 && line[1..5] == [session, operation, "1", path])
    };
    assert!(has("1", "create2", "/a") && has("2", "getData", "/a"), "{}", listed.stdout);

    let sample = |seed: &'static str| {
        let (both, name) = (both.clone(), format!("sweep-sample-{seed}"));
        async move {
            let options = ["--sample", "3", "--seed", seed, "--delay", "1ms", "--freeze", "1ms"];
            let (_, report) = swept(&name, &options, &both).await;
            let runs = report["runs"].as_array().unwrap().iter();
            runs.map(|run| run["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        }
    };
    let first = sample("1").await;
    assert_eq!(first.len(), 3);
    assert_eq!(sample("1").await, first);
    assert_ne!(sample("2").await, first);
}

#[tokio::test]
async fn an_interrupt_prints_what_was_found_and_leaves_no_process() {
    let place = directory("sweep-interrupt");
    let pids = place.join("pids");
    // It breaks at once if a reply was lost, and waits for long with every other fault.
    let text = format!(
        "z create /a || exit 5; [ -n \"$ZOOLET_SWEEP_FAULT\" ] || exit 0\n\
         echo $$ >> '{0}'; sh -c 'echo $$ >> {0}; exec sleep 600'",
        pids.display()
    );
    let options = ["--only", "reply-lost,cut-after", "--path", "/a", "--jobs", "2"];
    let child = sweep_command(&options, &script(&text)).stdin(Stdio::null()).spawn().unwrap();
    within_limit(async {
        while fs::read_to_string(&pids).unwrap_or_default().lines().count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // The other run ends by itself meanwhile.
        tokio::time::sleep(Duration::from_secs(3)).await;
    })
    .await;
    send("INT", child.id().unwrap()).await;
    let output = within_limit(child.wait_with_output()).await.unwrap();
    let ended = Ended::new(output);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stdout.contains("stopped by SIGINT after 1 of 2 faults"), "{ended:?}");
    assert!(ended.stdout.contains("exit status 5, by 1 fault"), "{ended:?}");
    assert_all_gone(&pids).await;
}

#[tokio::test]
async fn a_client_comes_back_to_a_server_that_is_behind() {
    let commands = file("sweep-stale", "create /own x\nget /own\n");
    let text = format!("z < '{}'", commands.display());
    let options = ["--only", "reply-lost,stale", "--path", "/own"];
    let (code, report) = swept("sweep-stale-report", &options, &script(&text)).await;
    assert_eq!(code, Some(1), "{report}");
    let output = |kind: &str| {
        let mut runs = report["runs"].as_array().unwrap().iter();
        let run = runs.find(|run| run["kind"] == kind).unwrap();
        run["failure"]["output"][1].as_str().unwrap().to_owned()
    };
    assert_eq!(output("reply-lost"), "x", "the znode is there");
    assert!(output("stale").contains("Node does not exist: /own"), "{report}");

    let mut stale = report["runs"].as_array().unwrap().iter();
    let stale = stale.find(|run| run["kind"] == "stale").unwrap();
    let requests = stale["failure"]["requests"].as_array().unwrap().iter();
    let after: Vec<_> = requests.skip_while(|request| request["fault"] != true).collect();
    let has = |operation| after.iter().any(|request| request["operation"] == operation);
    assert!(has("getData"), "the requests to the server that is behind are shown: {stale}");

    // Programs that wait for a server ask for four-letter words.
    let text = "z create /a; z srvr >/dev/null";
    let (code, report) = swept("sweep-stale-word", &["--only", "stale"], &script(text)).await;
    assert_eq!(code, Some(0), "{report}");

    // A lock looks after its znode only when the server has caught up.
    let lock = ["--", env!("CARGO_BIN_EXE_zoolet"), "lock", "/lock", "--", "true"];
    let options = ["--only", "stale", "--stale", "300ms"];
    let (code, report) = swept("sweep-stale-lock", &options, &lock.map(str::to_owned)).await;
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["faults"]["passed"], report["faults"]["planned"], "{report}");
}

#[tokio::test]
async fn other_faults_end_sessions_and_stop_the_server_for_a_time() {
    // The second request of one session shows what has become of it.
    let commands = file("sweep-two-requests", "create --ephemeral /own\nget /own\n");
    let text = format!("z < '{}'", commands.display());
    let options = ["--only", "expire,expire-after,freeze,cut-after", "--freeze", "300ms"];
    let (code, report) = swept("sweep-kinds", &options, &script(&text)).await;
    assert_eq!(code, Some(1), "{report}");
    let outcomes = outcomes(&report);
    let of =
        |kind: &str, operation: &str| outcomes[&(kind.to_owned(), operation.to_owned())].as_str();
    assert_eq!(of("expire-after", "create2"), "broke", "the ephemeral is gone");
    assert_eq!(of("cut-after", "create2"), "passed", "the session lives on");
    assert_eq!(of("freeze", "create2"), "passed");
    let frozen = report["runs"].as_array().unwrap().iter();
    let mut frozen = frozen.filter(|run| run["kind"] == "freeze");
    assert!(frozen.all(|run| run["seconds"].as_f64().unwrap() >= 0.3), "{report}");
}
