//! A server in this process, and `zoolet cli` that is connected to it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use zoolet::client::Client;
use zoolet::server::{Builder, Server};

use crate::process::{Ended, command, within_limit};

/// A server in this process, and a client of it.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) address: String,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(Server::builder()).await
    }

    /// With settings of its own.
    pub(crate) async fn with(builder: Builder) -> Self {
        let server = builder.listen(([127, 0, 0, 1], 0).into()).start().await.unwrap();
        let client = Client::connect(server.dialer()).await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        Self { server, client, address }
    }

    /// Runs one command.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        run(&self.address, args, "").await
    }

    /// Runs the commands of a script.
    pub(crate) async fn script(&self, text: &str) -> Ended {
        run(&self.address, &[], text).await
    }
}

pub(crate) fn cli(server: &str, args: &[&str]) -> Command {
    let mut command = command(&[&["cli"], args].concat());
    command.env("ZOOLET_SERVER", server).stdin(Stdio::piped());
    command
}

pub(crate) async fn run(server: &str, args: &[&str], input: &str) -> Ended {
    let mut child = cli(server, args).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = within_limit(async {
        // Who ends before it has read everything has no use for it.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        child.wait_with_output().await.unwrap()
    })
    .await;
    Ended::new(output)
}

/// A text without the times and sessions in it, which are others each time.
pub(crate) fn masked(text: &str) -> String {
    let mask = |word: &str| match word {
        time if time.len() == 24 && time.contains('T') && time.ends_with('Z') => "TIME".to_owned(),
        session if session.starts_with("0x") && session.len() > 10 => "SESSION".to_owned(),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(mask).collect::<Vec<_>>().join(" ");
    text.lines().map(|text| line(text) + "\n").collect()
}
