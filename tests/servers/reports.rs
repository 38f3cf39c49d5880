//! Tests of four-letter words whose answers are longer than one slice of the state.

use std::fmt::Write as _;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet::protocol::{ConnectRequest, CreateFlags};
use zoolet::server::{Config, FourLetterWhitelist};
use zoolet_test_support::{Tcp, create, exists_and_watch, listening_server};

/// More than two slices.
const MANY: usize = 2_500;

async fn ask(address: SocketAddr, word: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(word.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answer
}

#[tokio::test]
async fn a_long_report_names_each_watch_and_each_ephemeral_once_and_in_order() {
    let config = Config { four_letter_words: FourLetterWhitelist::all(), ..Config::default() };
    let (_server, address) = listening_server(config).await;
    let (mut first, welcome) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    let (mut second, also) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    let path = |number: usize| format!("/znode-{number:05}");
    for number in 0..MANY {
        first.call(&create(&path(number), CreateFlags::EPHEMERAL)).await;
        first.call(&exists_and_watch(&path(number))).await;
    }
    second.call(&exists_and_watch(&path(7))).await;

    let (first, second) = (welcome.session, also.session);
    let summary = format!("2 connections watching {MANY} paths\nTotal watches:{}\n", MANY + 1);
    assert_eq!(ask(address, "wchs").await, summary);

    let (mut by_path, mut by_session) = (String::new(), format!("{first}\n"));
    for number in 0..MANY {
        let path = path(number);
        writeln!(by_path, "{path}\n\t{first}").unwrap();
        writeln!(by_session, "\t{path}").unwrap();
        if number == 7 {
            writeln!(by_path, "\t{second}").unwrap();
        }
    }
    assert_eq!(ask(address, "wchp").await, format!("{by_path}\n"));
    let all = format!("{by_session}{second}\n\t{}\n\n", path(7));
    assert_eq!(ask(address, "wchc").await, all);

    // A session and its ephemerals have the same form but for a colon.
    let owned = by_session.replacen('\n', ":\n", 1);
    let ephemerals = format!("Sessions with Ephemerals (1):\n{owned}Connections dump:\n");
    let dump = ask(address, "dump").await;
    assert!(dump.contains(&ephemerals), "{dump}");
}
