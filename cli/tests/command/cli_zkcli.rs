//! The commands that `zoolet cli` has from `zkCli.sh`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use zoolet::protocol::{Acl, Id, Permissions};
use zoolet::server::{Config, FourLetterWhitelist, Server, Settings};

use crate::process::{command, ended};
use crate::stage::{Stage, masked, run};

#[tokio::test]
async fn quotas_are_set_listed_and_deleted() {
    let stage = Stage::new().await;
    let ended = stage
        .script(
            "create -p /app/one 12345\n\
             listquota /app\n\
             setquota -n 60 /app\n\
             setquota -B 1000 /app\n\
             listquota /app\n\
             create /app/two 678\n\
             listquota /app\n\
             setquota -n 1 /app\n\
             delquota -n /app\n\
             listquota /app\n\
             setquota -n 5 /app/one\n\
             setquota -n 5 /nothing\n\
             setquota -n 5 /zookeeper/quota/app\n\
             delquota /app\n\
             delquota /app\n\
             setquota -b 3 /app/one\n\
             setquota -n 5 /app\n",
        )
        .await;
    let expected = "\
Created /app/one
Output quota for /app count=60,bytes=-1=;byteHardLimit=1000;countHardLimit=-1
Output stat for /app count=2,bytes=5
Created /app/two
Output quota for /app count=60,bytes=-1=;byteHardLimit=1000;countHardLimit=-1
Output stat for /app count=3,bytes=8
[Warning]: the count quota you create is less than the existing count:3
Output quota for /app count=-1,bytes=-1=;byteHardLimit=1000;countHardLimit=-1
Output stat for /app count=3,bytes=8
[Warning]: the bytes quota you create is less than the existing bytes:5
";
    assert_eq!(ended.stdout, expected, "{}", ended.stderr);
    let expected = "\
error in line 2: quota for /app does not exist.
error in line 11: /app/one has a parent /app which has a quota
error in line 12: Node does not exist: /nothing; `ls` shows what there is, `create` makes one
error in line 13: cannot set a quota under the path: /zookeeper/quota
error in line 15: Quota does not exist for /app
error in line 17: /app has a child /app/one which has a quota
";
    assert_eq!(ended.stderr, expected);
    let left = stage.client.children("/zookeeper/quota/app").await.unwrap();
    assert_eq!(left.iter().collect::<Vec<_>>(), ["one"]);
    let ended = stage.script("delquota /app/one\nls /zookeeper/quota\n").await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("[]\n", Some(0)), "{}", ended.stderr);
}

#[tokio::test]
async fn a_quota_below_a_chroot_is_where_the_server_looks_for_it() {
    let settings = Settings { enforce_quota: true, ..Settings::default() };
    let config = Config { settings, ..Config::default() };
    let stage = Stage::with(Server::builder().config(config)).await;
    stage.client.create("/app").await.unwrap();
    let below = format!("{}/app", stage.address);
    let script = "create /x\nsetquota -N 2 /x\ncreate /x/1\ncreate /x/2\nlistquota /x\n";
    let ended = run(&below, &[], script).await;
    let expected = "Created /x\nCreated /x/1\n\
                    Output quota for /x count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2\n\
                    Output stat for /x count=2,bytes=0\n";
    assert_eq!(ended.stdout, expected);
    assert!(ended.stderr.starts_with("error in line 4: Quota has exceeded : /x/2; "), "{ended:?}");
    let limits = stage.client.exists("/zookeeper/quota/app/x/zookeeper_limits").await.unwrap();
    assert!(limits.is_some());
}

#[tokio::test]
async fn watches_are_added_removed_and_silenced() {
    let stage = Stage::new().await;
    let ended = stage
        .script(
            "create /a\n\
             addWatch /a\n\
             create /a/b\n\
             set /a/b x\n\
             removewatches /a -c\n\
             removewatches /a -r\n\
             set /a/b y\n\
             addWatch -m PERSISTENT /a\n\
             create /a/c\n\
             create /a/d\n\
             get -w /a\n\
             removewatches /a\n\
             removewatches /a\n\
             printwatches\n\
             printwatches off\n\
             get -w /a\n\
             set /a x\n\
             printwatches on\n\
             ls -w /a\n\
             create /a/e\n",
        )
        .await;
    let expected = "\
Created /a
Created /a/b
event: NodeCreated /a/b
event: NodeDataChanged /a/b
event: PersistentWatchRemoved /a
Created /a/c
event: NodeChildrenChanged /a
Created /a/d
event: NodeChildrenChanged /a

event: PersistentWatchRemoved /a
event: DataWatchRemoved /a
printwatches is on

[b, c, d]
Created /a/e
event: NodeChildrenChanged /a
";
    assert_eq!(ended.stdout, expected, "{}", ended.stderr);
    let expected = "\
error in line 5: No such watcher for /a; this shell has no watch for children there
error in line 13: No such watcher for /a; this shell has no watch there
";
    assert_eq!(ended.stderr, expected);
}

#[tokio::test]
async fn a_session_is_closed_and_another_is_opened() {
    let stage = Stage::new().await;
    let other = Stage::new().await;
    other.client.create("/there").await.unwrap();
    let script = format!(
        "create -e /mine\n\
         getEphemerals\n\
         close\n\
         ls /\n\
         version\n\
         connect\n\
         ls /\n\
         getEphemerals /\n\
         connect {}\n\
         ls /\n\
         getAllChildrenNumber /\n\
         connect not:a:port\n",
        other.address
    );
    let ended = stage.script(&script).await;
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "Created /mine\n[/mine]\nzoolet CLI version: {version}\n[zookeeper]\n[]\n\
         [there, zookeeper]\n4\n"
    );
    assert_eq!(ended.stdout, expected);
    let expected = "error in line 4: Not connected; `connect` opens a session\n";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
    assert!(ended.stderr.contains("error in line 12: \"not:a:port\""), "{}", ended.stderr);
}

#[tokio::test]
async fn commands_are_numbered_and_done_again_and_passwords_are_not_shown() {
    let stage = Stage::new().await;
    let script = "create -s /n- x\naddauth digest ann:secret\nredo 0\nredo 2\nredo 9\nhistory\n\
                  redo 5\n";
    let ended = stage.script(script).await;
    let expected = "\
Created /n-0000000000
Created /n-0000000001
Created /n-0000000002
0 - create -s /n- x
1 - addauth ...
2 - create -s /n- x
3 - create -s /n- x
4 - redo 9
5 - history
0 - create -s /n- x
1 - addauth ...
2 - create -s /n- x
3 - create -s /n- x
4 - redo 9
5 - history
6 - history
";
    assert_eq!(ended.stdout, expected, "{}", ended.stderr);
    let expected = "error in line 5: Command index out of range; `history` lists the commands\n";
    assert_eq!(ended.stderr, expected);
}

#[tokio::test]
async fn data_is_given_and_printed_in_base64_and_as_a_hex_dump() {
    let stage = Stage::new().await;
    let script = "create /a\nset -b /a aGn/AA==\nget -b /a\nget -b -x /a\nset -b /a x\n";
    let ended = stage.script(script).await;
    let expected = "\
Created /a
aGn/AA==
         +-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 68 69 ff 00                                     |hi..            |
+--------+-------------------------------------------------+----------------+
";
    assert_eq!(ended.stdout, expected);
    assert!(ended.stderr.contains("error in line 5: \"x\" is not base64"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_tree_is_listed_past_what_may_not_be_read() {
    let stage = Stage::new().await;
    for path in ["/a", "/a/closed", "/a/closed/below", "/a/open", "/a/open/below"] {
        stage.client.create(path).await.unwrap();
    }
    let nobody = Acl::new(Permissions::ALL, Id::new("ip", "10.0.0.1"));
    stage.client.set_acl("/a/closed", vec![nobody.clone()]).await.unwrap();
    let ended = stage.run(&["ls", "-R", "/a"]).await;
    assert_eq!(ended.stdout, "/a\n/a/closed\n/a/open\n/a/open/below\n");
    let expected = "error: /a/closed may not be read, so what is below is left out; `addauth` says \
                    who you are\n";
    assert_eq!((ended.stderr.as_str(), ended.code), (expected, Some(1)));
    stage.client.set_acl("/a", vec![nobody]).await.unwrap();
    let ended = stage.run(&["ls", "-R", "/a"]).await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("", Some(1)));
    assert!(ended.stderr.starts_with("error: Insufficient permission : /a; "), "{ended:?}");
}

#[tokio::test]
async fn a_tree_is_listed_with_stats_and_watches() {
    let stage = Stage::new().await;
    let script = "create -p /a/b\nls -R -s -w /a\ncreate /a/b/c\ndeleteall -b 1 /a\n";
    let ended = stage.script(script).await;
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("cZxid = 0x")).count(), 2);
    assert_eq!((lines[1], lines[13]), ("/a", "/a/b"));
    let rest = "Created /a/b/c\nevent: NodeChildrenChanged /a/b\nevent: NodeChildrenChanged /a\n";
    assert!(ended.stdout.ends_with(rest), "{}", ended.stdout);
}

#[tokio::test]
async fn an_acl_is_set_on_a_tree() {
    let stage = Stage::new().await;
    let script = "create -p /a/b/c\nsetAcl -R /a world:anyone:cdra\ngetAcl /a/b/c\nset /a/b x\n\
                  setAcl -s /a world:anyone:ra\nsetAcl -R -v 1 /a world:anyone:ra\n\
                  getAcl /a/b\ngetAcl -s /a\n";
    let ended = stage.script(script).await;
    let stdout = masked(&ended.stdout);
    assert!(stdout.starts_with("Created /a/b/c\nworld:anyone:dcra\n".replace("dc", "cd").as_str()));
    assert!(stdout.contains("aclVersion = 2\n"), "{stdout}");
    assert!(stdout.contains("\nworld:anyone:ra\nworld:anyone:ra\ncZxid"), "{stdout}");
    assert!(ended.stderr.contains("error in line 4: Insufficient permission : /a/b"));
    let kept = "error in line 6: the access control list of /a is as it was: version No is not \
                valid : /a; ";
    assert!(ended.stderr.contains(kept), "{}", ended.stderr);
}

#[tokio::test]
async fn configurations_are_asked_for() {
    let stage = Stage::new().await;
    let ended = stage.script("config\nconfig -c\nconfig -s\nreconfig -remove 1\n").await;
    let stdout = masked(&ended.stdout);
    assert!(stdout.starts_with("\n \n\ncZxid = 0x0\n"), "{stdout}");
    assert!(stdout.contains("aclVersion = -1\n"), "{stdout}");
    assert!(ended.stderr.starts_with("error in line 4: Reconfig is disabled; "), "{ended:?}");
}

#[tokio::test]
async fn credentials_are_needed_and_a_password_is_no_hash() {
    let stage = Stage::new().await;
    let ended = stage.run(&["addauth", "digest"]).await;
    assert_eq!(ended.code, Some(1));
    let expected = "error: addauth digest needs USER:PASSWORD: addauth digest ann:PASSWORD\n";
    assert_eq!(ended.stderr, expected);
    let ended = stage.run(&["create", "/a", "x", "digest:ann:secret:cdrwa"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Created /a\n"));
    assert!(ended.stderr.starts_with("warning: after digest:ann: stands no hash"), "{ended:?}");
    assert!(!ended.stderr.contains("secret"), "{ended:?}");
}

#[tokio::test]
async fn servers_and_options_stand_as_zkcli_has_them() {
    let config = Config { four_letter_words: FourLetterWhitelist::default(), ..Config::default() };
    let stage = Stage::with(Server::builder().config(config)).await;
    let address = stage.address.as_str();
    for arguments in [
        vec!["cli", "-server", address, "-timeout", "5000", "ls", "/"],
        vec!["cli", "-timeout", "5000", "-r", "-waitforconnection", "-server", address, "ls", "/"],
        vec!["cli", address, "ls", "/"],
        vec!["cli", address, "--stop-on-error", "ls", "/"],
    ] {
        let ended = ended(command(&arguments)).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "[zookeeper]\n"), "{ended:?}");
    }
    let bad = ended(command(&["cli", "zk1:port", "ls", "/"])).await;
    assert_eq!(bad.code, Some(2));
    assert!(bad.stderr.contains("the port is not a number up to 65535"), "{bad:?}");
}
