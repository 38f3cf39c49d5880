//! `zoolet cli --json`: one value for each command, as docs/cli.md describes them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde_json::{Value, json};
use zoolet::recipes::InterProcessMutex;

use crate::stage::{Stage, run};

fn values(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The values that a script prints, and the errors.
async fn both(stage: &Stage, script: &str) -> (Vec<Value>, Vec<Value>) {
    let ended = run(&stage.address, &["--json"], script).await;
    (values(&ended.stdout), values(&ended.stderr))
}

/// A value without its Stat, which must have all fields.
fn without_stat(mut value: Value) -> Value {
    if let Some(stat) = value.as_object_mut().unwrap().remove("stat") {
        let fields: Vec<_> = stat.as_object().unwrap().keys().cloned().collect();
        let expected = [
            "aversion",
            "ctime",
            "ctime_ms",
            "cversion",
            "czxid",
            "data_length",
            "ephemeral_owner",
            "mtime",
            "mtime_ms",
            "mzxid",
            "num_children",
            "pzxid",
            "version",
        ];
        assert_eq!(fields, expected);
        for zxid in ["czxid", "mzxid", "pzxid", "ephemeral_owner"] {
            assert!(stat[zxid].as_str().unwrap().starts_with("0x"), "{stat}");
        }
        for time in ["ctime", "mtime"] {
            let text: jiff::Timestamp = stat[time].as_str().unwrap().parse().unwrap();
            assert_eq!(json!(text.as_millisecond()), stat[format!("{time}_ms")], "{stat}");
        }
    }
    value
}

#[tokio::test]
async fn every_command_has_one_value() {
    let stage = Stage::new().await;
    let script = "create /a 'two words'\n\
                  create -e /a/e\n\
                  ls /a\n\
                  ls -R /a\n\
                  get /a\n\
                  set -b /a /wA=\n\
                  get /a\n\
                  stat /a\n\
                  getAcl /a\n\
                  setAcl /a world:anyone:cdrwa\n\
                  setAcl -R /a world:anyone:cdrwa\n\
                  getEphemerals\n\
                  getAllChildrenNumber /a\n\
                  setquota -n 5 /a\n\
                  listquota /a\n\
                  delquota /a\n\
                  multi 'create /m' 'set /m x' 'check /m' 'delete /m'\n\
                  sync /\n\
                  whoami\n\
                  addauth digest ann:secret\n\
                  addWatch /a\n\
                  set /a x\n\
                  removewatches /a\n\
                  printwatches off\n\
                  config\n\
                  version\n\
                  history\n\
                  deleteall /a\n\
                  locks /\n\
                  close\n\
                  connect\n";
    let (printed, errors) = both(&stage, script).await;
    assert_eq!(errors, Vec::<Value>::new());
    let printed: Vec<_> = printed.into_iter().map(without_stat).collect();
    let znodes = |value: &Value| -> Vec<Value> {
        value["znodes"].as_array().unwrap().iter().cloned().map(without_stat).collect()
    };
    assert_eq!(znodes(&printed[3]), [json!({ "path": "/a" }), json!({ "path": "/a/e" })]);
    let no_limit = |count| {
        json!({ "count": count, "bytes": -1, "countHardLimit": -1,
        "byteHardLimit": -1 })
    };
    let used = json!({ "count": 2, "bytes": 2 });
    let expected = [
        json!({ "command": "create", "path": "/a" }),
        json!({ "command": "create", "path": "/a/e" }),
        json!({ "command": "ls", "path": "/a", "children": ["e"] }),
        json!({ "command": "ls", "path": "/a", "unreadable": [] }),
        json!({ "command": "get", "path": "/a", "data": "two words" }),
        json!({ "command": "set", "path": "/a" }),
        json!({ "command": "get", "path": "/a", "data_base64": "/wA=" }),
        json!({ "command": "stat", "path": "/a" }),
        json!({ "command": "getAcl", "path": "/a", "acl": ["world:anyone:cdrwa"] }),
        json!({ "command": "setAcl", "path": "/a" }),
        json!({ "command": "setAcl", "path": "/a", "number": 2 }),
        json!({ "command": "getEphemerals", "path": "/", "ephemerals": ["/a/e"] }),
        json!({ "command": "getAllChildrenNumber", "path": "/a", "number": 1 }),
        json!({ "command": "setquota", "path": "/a", "limits": no_limit(5), "used": used }),
        json!({ "command": "listquota", "path": "/a", "limits": no_limit(5), "used": used }),
        json!({ "command": "delquota", "path": "/a" }),
        json!({ "command": "multi", "results": [{ "operation": "create", "path": "/m" },
            { "operation": "set" }, { "operation": "check" }, { "operation": "delete" }] }),
        json!({ "command": "sync", "path": "/" }),
        json!({ "command": "whoami", "identities": [{ "scheme": "ip", "user": "127.0.0.1" }] }),
        json!({ "command": "addauth", "scheme": "digest" }),
        json!({ "command": "addWatch", "path": "/a" }),
        json!({ "command": "set", "path": "/a" }),
        json!({ "event": "NodeDataChanged", "path": "/a" }),
        json!({ "event": "PersistentWatchRemoved", "path": "/a" }),
        json!({ "command": "removewatches", "path": "/a", "removed": 1 }),
        json!({ "command": "printwatches", "is_on": false }),
        json!({ "command": "config", "config": "", "servers": [], "version": null }),
        json!({ "command": "version", "version": env!("CARGO_PKG_VERSION") }),
    ];
    for (value, expected) in printed.iter().zip(&expected) {
        let mut value = value.clone();
        if value["event"] == "NodeDataChanged" {
            assert!(value["zxid"].as_str().unwrap().starts_with("0x"), "{value}");
            value.as_object_mut().unwrap().remove("zxid");
        }
        if value["command"] == "ls" {
            value.as_object_mut().unwrap().remove("znodes");
        }
        if let Some(Value::Array(results)) = value.get_mut("results") {
            *results = results.iter().cloned().map(without_stat).collect();
        }
        assert_eq!(&value, expected);
    }
    let rest = &printed[expected.len()..];
    assert_eq!(rest[0]["command"], "history");
    assert_eq!(rest[0]["lines"][3], json!({ "number": 19, "line": "addauth ..." }), "{rest:?}");
    assert_eq!(rest[1], json!({ "command": "deleteall", "path": "/a" }));
    assert_eq!(rest[2], json!({ "command": "locks", "path": "/", "recipes": [] }));
    assert_eq!(rest[3], json!({ "command": "close" }));
    assert_eq!(rest[4]["server"], stage.address.as_str());
    assert!(rest[4]["session"].as_str().unwrap().starts_with("0x"), "{rest:?}");
    assert_eq!(rest.len(), 5);
}

#[tokio::test]
async fn a_failure_has_the_code_of_zookeeper() {
    let stage = Stage::new().await;
    let script = "get /nothing\n\
                  create /a/b\n\
                  create /a\n\
                  create /a\n\
                  multi 'create /m' 'set -v 7 /a x'\n\
                  gte /a\n\
                  removewatches /a\n\
                  listquota /a\n\
                  mntr\n\
                  close\n\
                  ls /\n";
    let (printed, errors) = both(&stage, script).await;
    assert_eq!(printed.len(), 2, "{printed:?}");
    let errors: Vec<_> = errors.into_iter().map(|value| value["error"].clone()).collect();
    let of = |index: usize, key: &str| errors[index][key].clone();
    let codes: Vec<_> = (0..errors.len()).map(|index| of(index, "code")).collect();
    let expected = [
        "NoNode",
        "NoNode",
        "NodeExists",
        "BadVersion",
        "Usage",
        "NoWatcher",
        "NoQuota",
        "NotWhitelisted",
        "NotConnected",
    ];
    assert_eq!(codes, expected);
    assert_eq!(of(0, "operation"), "getData");
    assert_eq!(
        (of(0, "path"), of(0, "number"), of(0, "line")),
        (json!("/nothing"), json!(-101), json!(1))
    );
    assert!(of(1, "message").as_str().unwrap().contains("its parent /a is missing"));
    assert_eq!((of(3, "index"), of(3, "path")), (json!(1), json!("/a")));
    assert_eq!(of(8, "line"), 11);
}

#[tokio::test]
async fn holders_of_locks_are_listed() {
    let stage = Stage::new().await;
    let mutex = InterProcessMutex::new(&stage.client, "/mutex").unwrap();
    let _held = mutex.with_data("here:1 backup").acquire().await.unwrap();
    let ended = run(&stage.address, &["--json", "locks", "/mutex"], "").await;
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    let contender = &value["recipes"][0]["contenders"][0];
    assert_eq!(value["recipes"][0]["recipe"], "mutex");
    assert_eq!(
        (&contender["state"], &contender["data"]),
        (&json!("holds"), &json!("here:1 backup"))
    );
    assert_eq!(contender["session"], stage.client.session_id().to_string());
    assert!(contender["ctime_ms"].is_i64() && contender["ctime"].is_string(), "{contender}");
}

#[tokio::test]
async fn changes_help_and_a_missing_server_are_values_too() {
    let stage = Stage::new().await;
    let script = "create /a\nwatch -n 0 /a\nhelp ls\n";
    let (printed, errors) = both(&stage, script).await;
    assert_eq!(printed[1], json!({ "command": "watch", "path": "/a" }));
    assert!(printed[2]["text"].as_str().unwrap().contains("--recursive"));
    assert_eq!((printed.len(), errors.len()), (3, 0));
    stage.server.shutdown().await;
    let arguments = ["--json", "--connect-timeout", "1500ms", "ls", "/"];
    let ended = run(&stage.address, &arguments, "").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), ""));
    let lines = values(&ended.stderr);
    assert!(lines[0]["notice"].as_str().unwrap().contains("Connection refused"), "{lines:?}");
    assert_eq!(lines[1]["error"]["code"], "Unreachable");
}
