//! The command `zoolet serve`, as a shell or a service manager runs it.

use std::net::TcpListener;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet::client::Client;
use zoolet::protocol::ConnectRequest;

use crate::process::{Running, directory, file, run, within_limit};
use zoolet_test_support::Tcp;

#[tokio::test]
async fn serve_prints_where_it_listens_and_how_to_connect() {
    let mut server = Running::start(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_ne!(server.address.port(), 0);
    let mut rest = String::new();
    while !rest.contains("Ctrl-C") {
        rest += &server.next_stdout_line().await.expect("there is a line about Ctrl-C");
        rest.push('\n');
    }
    assert!(rest.contains(&format!("zkCli.sh -server {}\n", server.address)), "{rest}");
    assert!(rest.contains("in memory"), "{rest}");

    let srvr = server.ask("srvr").await;
    assert!(srvr.contains("Mode: standalone\n"), "{srvr}");
    let ruok = server.ask("ruok").await;
    assert_eq!(ruok, "ruok is not executed because it is not in the whitelist.\n");

    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("SIGTERM received"), "{stderr}");
    assert!(!stderr.contains('\u{1b}'), "no colour for a file: {stderr}");
}

#[tokio::test]
async fn an_interrupt_stops_the_server() {
    let server = Running::start(&["--listen", "localhost:0", "--log-level", "off"]).await;
    assert!(server.address.ip().is_loopback());
    let (status, stderr) = server.end("INT").await;
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn clients_are_disconnected_when_the_server_stops() {
    let server = Running::start(&["--listen", "127.0.0.1:0"]).await;
    let (mut client, response) =
        within_limit(Tcp::connect(server.address, ConnectRequest::new(10_000))).await;
    assert_ne!(response.session.0, 0);
    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(within_limit(client.receive()).await.is_none());
}

#[tokio::test]
async fn file_descriptors_are_reserved_for_logs_and_snapshots() {
    let data_dir = directory("few-descriptors");
    let data_dir = data_dir.to_str().expect("the path is UTF-8");
    let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir];
    args.extend(["--snap-count", "5", "--max-client-cnxns", "0"]);
    let server = Running::start_with_descriptors(64, &args).await;
    let address = server.address.to_string();
    let client = within_limit(Client::connect(address.as_str())).await.expect("it listens");

    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(within_limit(TcpStream::connect(server.address)).await.expect("it listens"));
    }
    // Each fifth change begins a log and a snapshot.
    for n in 0..50 {
        let create = client.create(&format!("/{n}"));
        within_limit(create.into_future()).await.expect("the server goes on");
    }
    idle.clear();
    let other = within_limit(Client::connect(address.as_str())).await.expect("it accepts again");
    assert_eq!(
        within_limit(other.children("/").into_future()).await.expect("it answers").len(),
        51
    );
    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("the last file descriptors are kept for files"), "{stderr}");
}

#[tokio::test]
async fn options_reach_the_server() {
    let server = Running::start(&[
        "--listen",
        "127.0.0.1:0",
        "--tick-time",
        "1234",
        "--max-session-timeout",
        "98765",
        "--max-client-cnxns=7",
        "--4lw-commands-whitelist",
        "conf,ruok",
    ])
    .await;
    assert_eq!(server.ask("ruok").await, "imok");
    let conf = server.ask("conf").await;
    for line in [
        "tickTime=1234",
        "minSessionTimeout=2468",
        "maxSessionTimeout=98765",
        "maxClientCnxns=7",
        &format!("clientPort={}", server.address.port()),
    ] {
        assert!(conf.lines().any(|found| found == line), "{line} is not in:\n{conf}");
    }
    assert_eq!(server.end("TERM").await.0.code(), Some(0));
}

#[tokio::test]
async fn the_server_runs_although_its_output_is_not_read() {
    let server = Running::start(&["--listen", "127.0.0.1:0", "--log-level", "trace"]).await;
    let server = server.deafen();
    let talk = async {
        let mut stream = TcpStream::connect(server.address).await?;
        stream.write_all(b"srvr").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    };
    let answer = within_limit(talk).await.expect("the server answers");
    assert!(answer.contains("Mode: standalone"), "{answer}");
    assert_eq!(server.end("TERM").await.code(), Some(0));
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port can be had");
    let address = other.local_addr().expect("it has an address").to_string();
    let ended = run(&["serve", "--listen", &address]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains(&format!("cannot listen on {address}")), "{ended:?}");
    assert!(ended.stderr.contains("choose another port with --listen"), "{ended:?}");
}

#[tokio::test]
async fn an_address_of_another_machine_is_refused() {
    // From the block that is reserved for documentation.
    let ended = run(&["serve", "--listen", "192.0.2.1:0"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("This machine has no such address"), "{ended:?}");
}

#[tokio::test]
async fn an_unusable_data_directory_is_an_error_with_a_cure() {
    let args = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "/dev/null/data"];
    let ended = run(&args).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stderr.contains("cannot create /dev/null/data/version-2: "), "{ended:?}");
    assert!(ended.stderr.contains("with --data-dir DIR"), "{ended:?}");
}

#[tokio::test]
async fn a_missing_data_directory_is_not_created_if_that_is_forbidden() {
    let data = directory("autocreate");
    let text = format!(
        "clientPort=0\ndataDir={0}\ndataLogDir={0}/log\nzookeeper.datadir.autocreate=false\n\
         zoolet.secretSessionPasswords=true\n",
        data.display()
    );
    let config = file("autocreate.cfg", text);
    let args = ["serve", "--config", config.to_str().unwrap()];
    for missing in ["version-2", "log/version-2"] {
        let ended = run(&args).await;
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let path = data.join(missing);
        let expected = format!("the directory {} is missing", path.display());
        assert!(ended.stderr.contains(&expected), "{ended:?}");
        assert!(!data.join("log/version-2").exists());
        std::fs::create_dir_all(path).unwrap();
    }
    let server = Running::start(&args).await;
    let (status, stderr) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
}

#[tokio::test]
async fn invalid_arguments_are_errors() {
    let cases: [(&[&str], &str); 15] = [
        (&["--lisen", "127.0.0.1:0"], "a similar argument exists: '--listen'"),
        (&["serve", "--tick-tme", "1"], "a similar argument exists: '--tick-time'"),
        (&["srve"], "a similar subcommand exists: 'serve'"),
        (&["--tick-time", "2s"], "must be a whole number from 1 to 2147483647"),
        (&["--tick-time", "0"], "must be a whole number from 1 to 2147483647"),
        (&["--tick-time", "-5"], "must be a whole number from 1 to 2147483647"),
        (&["--jute-maxbuffer", "-5"], "must be a whole number from"),
        (&["--listen", "2181"], "must be HOST:PORT"),
        (&["--listen", "::1:2181"], "must be HOST:PORT"),
        (&["--listen", "127.0.0.1:99999"], "a port up to 65535"),
        (&["--listen", "no.such.host.invalid:0"], "\"no.such.host.invalid\""),
        (&["--4lw-commands-whitelist", "ruokk"], "must name four-letter words"),
        (&["--min-session-timeout", "99999"], "(99999 ms) is above maxSessionTimeout (60000 ms)"),
        (&["--enforce-auth-enabled"], "enforce.auth.schemes names no scheme"),
        (&["--client-port", "0", "--listen", "127.0.0.1:0"], "cannot be used with"),
    ];
    for (args, expected) in cases {
        let ended = run(args).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{args:?}: {ended:?}");
    }
}

#[tokio::test]
async fn help_and_version() {
    for (args, expected) in [
        (["--help"].as_slice(), "Commands:\n  serve "),
        (&["serve", "--help"], "--listen <HOST:PORT>"),
        (&["help", "serve"], "--max-client-cnxns <COUNT>"),
        (&["--version"], concat!("zoolet ", env!("CARGO_PKG_VERSION"), "\n")),
    ] {
        let ended = run(args).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
        assert!(ended.stdout.contains(expected), "{args:?}: {ended:?}");
    }
}
