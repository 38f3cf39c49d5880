//! `zoolet certs`: what it prints can be copied.

use crate::process::{Running, directory, file, run};

#[tokio::test]
async fn server_and_client_are_set_up_as_it_prints() {
    let dir = directory("certs");
    let made = run(&["certs", &dir.display().to_string()]).await;
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""), "{made:?}");

    let after = |title: &str| {
        let (_, rest) = made.stdout.split_once(&format!("{title}:\n")).expect("it is printed");
        rest.split("\n\n").next().expect("a block is never nothing").to_owned()
    };
    // The port of the text may be in use here.
    let settings = after("The server, in zoo.cfg").replace("2281", "0");
    let config = file("certs-zoo.cfg", format!("{settings}\n"));
    let config = config.display().to_string();
    let mut server =
        Running::start(&["serve", "--config", &config, "--listen", "127.0.0.1:0"]).await;
    let line = server.next_stdout_line().await.expect("the second line tells of TLS");
    let port =
        line.trim_end_matches(" for TLS").rsplit(':').next().expect("it has a port").to_owned();

    let told = after("Clients of zoolet").replace("2281", &port);
    let args: Vec<_> = told.split_whitespace().skip(1).collect();
    let listed = run(&args).await;
    assert_eq!((listed.code, listed.stdout.as_str()), (Some(0), "[zookeeper]\n"), "{listed:?}");
    // Not without the certificates.
    let address = format!("localhost:{port}");
    for args in [["cli", "--server", &address, "ls", "/"], ["cli", "--tls", &address, "ls", "/"]] {
        assert_eq!(run(&args).await.code, Some(69), "{args:?}");
    }

    let again = run(&["certs", &dir.display().to_string()]).await;
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("is there already"), "{again:?}");
}
