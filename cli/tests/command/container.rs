//! `zoolet container`: the contract of ZooKeeper's official image, without a container.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tokio::process::Command;
use zoolet::client::Client;

use crate::process::{Running, command, ended, within_limit};

/// The directories of an image, in a place that any user can reach: root's server becomes another's.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zoolet-{name}-{}", std::process::id()));
        for directory in ["conf", "data", "datalog", "logs"] {
            fs::create_dir_all(path.join(directory)).expect("it can be created");
        }
        // In the image it belongs to the user whom root's server becomes.
        let everyone = fs::Permissions::from_mode(0o777);
        fs::set_permissions(path.join("conf"), everyone).expect("it is this test's");
        Self(path)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&[&["container"], args].concat());
        for (name, directory) in [
            ("ZOO_CONF_DIR", "conf"),
            ("ZOO_DATA_DIR", "data"),
            ("ZOO_DATA_LOG_DIR", "datalog"),
            ("ZOO_LOG_DIR", "logs"),
        ] {
            command.env(name, self.0.join(directory));
        }
        command
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has one").port()
}

#[tokio::test]
async fn the_variables_of_the_official_image_configure_it() {
    let root = Root::new("variables");
    let port = free_port();
    let prepared = || {
        let mut command = root.command(&["zkServer.sh", "start-foreground"]);
        command.env("ZOO_SERVERS", format!("server.1=localhost:2888:3888;{port}"));
        command.env("ZOO_TICK_TIME", "1234").env("ZOO_MAX_CLIENT_CNXNS", "7");
        command.env("ZOO_4LW_COMMANDS_WHITELIST", "conf, ruok").env("ZOO_MY_ID", "3");
        command.env("ZOO_CFG_EXTRA", "maxSessionTimeout=98765 snapCount=50");
        command.env("JVMFLAGS", "-Xmx64m -Djute.maxbuffer=2000000");
        command.env("ZOO_ADMINSERVER_ENABLED", "false");
        command
    };
    let server = Running::spawn(prepared()).await;
    assert_eq!(server.address.to_string(), format!("0.0.0.0:{port}"));
    assert_eq!(server.ask("ruok").await, "imok");
    let conf = server.ask("conf").await;
    let dir = |name: &str| root.0.join(name).join("version-2").display().to_string();
    for line in [
        "tickTime=1234",
        "maxClientCnxns=7",
        "maxSessionTimeout=98765",
        &format!("dataDir={}", dir("data")),
        &format!("dataLogDir={}", dir("datalog")),
    ] {
        assert!(conf.lines().any(|found| found == line), "{line} is not in:\n{conf}");
    }
    let client = Client::connect(format!("127.0.0.1:{port}"));
    let client = within_limit(client).await.expect("it listens");
    within_limit(client.create("/kept").into_future()).await.expect("it serves");
    let (status, log) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{log}");

    assert_eq!(fs::read_to_string(root.0.join("data/myid")).expect("it was written"), "3\n");
    let written = fs::read_to_string(root.0.join("conf/zoo.cfg")).expect("it was written");
    assert!(written.contains("\ntickTime=1234\n"), "{written}");
    assert!(root.0.join("datalog/version-2").is_dir());

    // The file that is there counts from now on, and the data is there again.
    let mut again = prepared();
    again.env("ZOO_TICK_TIME", "999").env("ZOO_MY_ID", "9");
    let server = Running::spawn(again).await;
    assert!(server.ask("conf").await.contains("\ntickTime=1234\n"));
    let client = within_limit(Client::connect(format!("127.0.0.1:{port}"))).await;
    let found = client.expect("it listens").exists("/kept").into_future();
    assert!(within_limit(found).await.expect("it serves").is_some());

    let mut status = root.command(&["zkServer.sh", "status"]);
    status.env("ZOO_SERVERS", "server.1=ignored:2888:3888;1");
    let told = ended(status).await;
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "Mode: standalone\n"), "{told:?}");
    assert_eq!(server.end("TERM").await.0.code(), Some(0));
    let told = ended(root.command(&["zkServer.sh", "status"])).await;
    assert_eq!(told.code, Some(1), "{told:?}");
    assert_eq!(fs::read_to_string(root.0.join("data/myid")).expect("it is there"), "3\n");
}

#[tokio::test]
async fn a_file_of_the_users_counts() {
    let root = Root::new("file");
    let port = free_port();
    let data = root.0.join("data");
    let text = format!("dataDir={}\nclientPort={port}\ntickTime=1500\n", data.display());
    fs::write(root.0.join("conf/mine.cfg"), text).expect("it can be written");
    let mut command = root.command(&["bin/zkServer.sh", "start-foreground", "mine.cfg"]);
    command.env("ZOO_TICK_TIME", "999").env("JVMFLAGS", "-Dzookeeper.4lw.commands.whitelist=conf");
    let server = Running::spawn(command).await;
    assert!(server.ask("conf").await.contains("\ntickTime=1500\n"));
    assert_eq!(server.end("TERM").await.0.code(), Some(0));
    assert!(!root.0.join("conf/zoo.cfg").exists());
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_a_sentence() {
    let root = Root::new("refused");
    let mut ensemble = root.command(&["zkServer.sh", "start-foreground"]);
    ensemble.env("ZOO_SERVERS", "server.1=a:2888:3888;2181 server.2=b:2888:3888;2181");
    let told = ended(ensemble).await;
    assert_eq!(told.code, Some(2), "{told:?}");
    assert!(
        told.stderr.contains("ZOO_SERVERS names 2 servers, but zoolet is a single"),
        "{told:?}"
    );

    let mut wrong = root.command(&[]);
    wrong.env("ZOO_TICK_TIME", "soon");
    let told = ended(wrong).await;
    assert_eq!(told.code, Some(2), "{told:?}");
    assert!(told.stderr.contains("tickTime must be a whole number"), "{told:?}");
    assert!(!root.0.join("conf/zoo.cfg").exists(), "nothing is left that would count next time");

    let told = ended(root.command(&["zkServer.sh", "start"])).await;
    assert_eq!(told.code, Some(2), "{told:?}");
    assert!(told.stderr.contains("start-foreground"), "{told:?}");
    let told = ended(root.command(&["bash"])).await;
    assert_eq!(told.code, Some(2), "{told:?}");
    assert!(told.stderr.contains("unrecognized subcommand 'bash'"), "{told:?}");

    let mut file = root.command(&[]);
    file.env("ZOO_DATA_DIR", "/dev/null/data").env("ZOO_SERVERS", "server.1=a:1:2;0");
    let told = ended(file).await;
    assert_eq!(told.code, Some(1), "{told:?}");
}

#[tokio::test]
async fn the_other_commands_are_reached_through_it() {
    let root = Root::new("others");
    for args in [&["zoolet", "--version"][..], &["zkServer.sh", "version"]] {
        let told = ended(root.command(args)).await;
        assert_eq!(told.code, Some(0), "{told:?}");
        assert_eq!(told.stdout, concat!("zoolet ", env!("CARGO_PKG_VERSION"), "\n"), "{args:?}");
    }
    let told = ended(root.command(&["health", "--help"])).await;
    assert!(told.stdout.contains("zoolet health"), "{told:?}");
}
