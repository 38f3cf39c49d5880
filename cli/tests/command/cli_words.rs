//! Four-letter words through `zoolet cli`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use zoolet::server::{Config, Server};

use crate::process::{Ended, Running, command, directory, ended, file, within_limit};
use crate::stage::{Stage, run};

/// A server that answers all words.
async fn stage() -> Stage {
    let config = Config { four_letter_words: "*".parse().unwrap(), ..Config::default() };
    Stage::with(Server::builder().config(config)).await
}

async fn ask(arguments: &[&str]) -> Ended {
    ended(command(&[&["cli"], arguments].concat())).await
}

/// A server that reads a word and then does as it is told.
async fn answering(answer: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut word = [0; 4];
                let _ = stream.read_exact(&mut word).await;
                match answer {
                    Some(answer) => drop(stream.write_all(answer.as_bytes()).await),
                    None => std::future::pending().await,
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn every_word_is_answered_as_a_socket_is_without_a_session() {
    let stage = stage().await;
    let sessions = stage.server.totals().sessions;
    for (word, part) in [
        ("conf", "clientPort="),
        ("cons", "queued=0"),
        ("crst", "Connection stats reset."),
        ("dirs", "datadir_size: "),
        ("dump", "Sessions with Ephemerals"),
        ("envi", "Environment:\n"),
        ("gtmk", "306\n"),
        ("hash", ""),
        ("isro", "rw\n"),
        ("mntr", "zk_version\t"),
        ("ruok", "imok\n"),
        ("srst", "Server stats reset."),
        ("srvr", "Mode: standalone"),
        ("stat", "Clients:\n"),
        ("wchc", ""),
        ("wchp", ""),
        ("wchs", "Total watches:"),
    ] {
        let ended = ask(&[&stage.address, word]).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{word}");
        assert!(ended.stdout.contains(part), "{word}: {}", ended.stdout);
    }
    let ended = ask(&[&stage.address, "stmk", "0x132"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "306\n"));
    assert_eq!(stage.server.totals().sessions, sessions);
    let script = "srvr\nruok\nstat\nclose\nisro\n";
    let ended = run(&stage.address, &[], script).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.ends_with("rw\n") && ended.stdout.contains("imok\n"), "{ended:?}");
}

#[tokio::test]
async fn words_have_values_in_json() {
    let stage = stage().await;
    let ask = async |word| {
        let ended = ask(&["--json", &stage.address, word]).await;
        assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 1), "{ended:?}");
        serde_json::from_str::<Value>(&ended.stdout).unwrap()
    };
    let mntr = ask("mntr").await;
    assert_eq!(mntr["command"], "mntr");
    assert_eq!(mntr["server"], stage.address.as_str());
    assert!(mntr["text"].as_str().unwrap().contains("zk_znode_count\t"));
    assert!(mntr["values"]["zk_znode_count"].as_i64().unwrap() > 0, "{mntr}");
    assert!(mntr["values"]["zk_avg_latency"].is_number(), "{mntr}");
    assert!(ask("conf").await["values"]["tickTime"].is_i64());
    assert!(ask("envi").await["values"]["os.name"].is_string());
    let srvr = ask("srvr").await;
    assert_eq!(srvr["values"]["mode"], "standalone");
    assert!(srvr["values"]["latency_max"].is_number() && srvr["values"]["node_count"].is_i64());
    assert_eq!(ask("isro").await["values"]["read_only"], false);
    assert!(ask("dirs").await["values"]["logdir_size"].is_i64());
    assert_eq!(ask("wchs").await["values"]["watches"], 0);
    assert_eq!(ask("ruok").await["values"]["ok"], true);
    let stat = ask("stat").await;
    let clients = stat["values"]["clients"].as_array().unwrap();
    assert!(clients.iter().all(|client| client["address"].is_string()), "{stat}");
    let cons = ask("cons").await;
    let sids = cons["values"]["connections"].as_array().unwrap().iter().map(|it| &it["sid"]);
    let session = stage.client.session_id().to_string();
    assert!(sids.into_iter().any(|sid| sid == &session), "{session}: {cons}");
}

#[tokio::test]
async fn a_word_that_is_not_whitelisted_names_the_cure() {
    let stage = Stage::new().await;
    let ended = ask(&[&stage.address, "mntr"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    let expected = format!(
        "error: mntr is not executed because it is not in the whitelist of {}; add it there to \
         4lw.commands.whitelist in zoo.cfg, or to --4lw-commands-whitelist of `zoolet serve`\n",
        stage.address
    );
    assert_eq!(ended.stderr, expected);
    let ended = ask(&["--json", &stage.address, "mntr"]).await;
    let error: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(error["error"]["code"], "NotWhitelisted");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
}

#[tokio::test]
async fn who_does_not_answer_is_told_with_the_reason() {
    let refused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = refused.to_string();
    let ended = ask(&[&refused, "ruok"]).await;
    assert_eq!(ended.code, Some(69));
    assert!(ended.stderr.contains("Connection refused"), "{ended:?}");
    let silent = answering(None).await.to_string();
    let ended = ask(&["--connect-timeout", "200ms", &silent, "ruok"]).await;
    assert_eq!(ended.code, Some(69));
    assert!(ended.stderr.contains("has not answered ruok within 200ms"), "{ended:?}");
    let rude = answering(Some("")).await.to_string();
    let ended = ask(&[&rude, "srvr"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("is it a ZooKeeper server?"), "{ended:?}");
    let ill = answering(Some("This ZooKeeper instance is not currently serving requests\n")).await;
    let ended = ask(&[&ill.to_string(), "srvr"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("does not serve requests"), "{ended:?}");
    let sick = answering(Some("no")).await.to_string();
    let ended = ask(&[&sick, "ruok"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
}

#[tokio::test]
async fn a_long_answer_is_printed_as_it_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all("a line\n".repeat(100).as_bytes()).await.unwrap();
        // The end never comes.
        std::future::pending::<()>().await;
    });
    let mut child = command(&["cli", &address, "wchp"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..100 {
        let line = within_limit(lines.next_line()).await.unwrap();
        assert_eq!(line.as_deref(), Some("a line"));
    }
    child.kill().await.unwrap();
}

#[tokio::test]
async fn words_and_commands_go_by_tls() {
    let folder = directory("cli-tls").join("certificates");
    let folder = folder.to_str().unwrap();
    let made = ended(command(&["certs", folder])).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let config = file(
        "cli-tls.cfg",
        format!(
            "clientPort=0\nclientPortAddress=127.0.0.1\nsecureClientPort=0\n\
             ssl.keyStore.location={folder}/server.pem\nssl.clientAuth=none\n\
             4lw.commands.whitelist=*\n"
        ),
    );
    let mut server = Running::start(&["serve", "--config", config.to_str().unwrap()]).await;
    let line = server.next_stdout_line().await.unwrap();
    let port = line.strip_suffix(" for TLS").and_then(|line| line.rsplit(':').next()).unwrap();
    let address = format!("localhost:{port}");
    let authority = format!("{folder}/ca.pem");
    for (word, answer) in [("ruok", "imok\n"), ("isro", "rw\n")] {
        let ended = ask(&[&address, "--tls-ca", &authority, word]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), answer), "{ended:?}");
    }
    let ended = ask(&[&address, "--tls-ca", &authority, "ls", "/"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "[zookeeper]\n"), "{ended:?}");
    let plain = ask(&["--connect-timeout", "2s", &address, "ruok"]).await;
    assert_eq!(plain.code, Some(69), "{plain:?}");
    assert!(plain.stderr.contains("the server speaks TLS on this port"), "{plain:?}");
}

#[tokio::test]
async fn each_server_is_asked_whatever_the_others_answer() {
    let (one, two) = (stage().await, Stage::new().await);
    let both = format!("{},{}", two.address, one.address);
    let ended = ask(&[&both, "ruok"]).await;
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stdout, format!("{}:\n{}:\nimok\n", two.address, one.address));
    assert!(ended.stderr.contains(&format!("whitelist of {}", two.address)), "{ended:?}");
    let ended = ask(&["--json", &both, "srvr"]).await;
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 2), "{ended:?}");
}
