//! Runs the commands of `docs/migration.md`: from Apache ZooKeeper to zoolet and back on one data
//! directory, and from zoolet to an Apache ensemble of three. A client stays connected all the time.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use zoolet_client::{Client, CreateMode};
use zoolet_conformance::apache::{Apache, Timing};
use zoolet_conformance::peers::conformance_folder;

use super::{Outcome, path_with_zoolet};

/// The blocks of the page that are run, in their order. A block that is missing fails the test.
const BLOCKS: [&str; 8] = [
    "stop apache",
    "start zoolet",
    "stop zoolet",
    "start apache",
    "three copies",
    "lines of zoo.cfg",
    "use the ensemble",
    "copy znodes",
];

pub(crate) fn there_and_back() -> Outcome<()> {
    let migration = Migration::new()?;
    migration.shell("systemctl start zookeeper")?;
    let keeper = Keeper::start(&migration.server)?;
    migration.run("stop apache")?;
    assert!(migration.directory.path().join("data.before-zoolet/version-2").is_dir());
    migration.run("start zoolet")?;
    keeper.check("zoolet")?;
    migration.run("stop zoolet")?;
    migration.run("start apache")?;
    keeper.check("apache")?;
    // The way back to the moment of the copy.
    migration.shell("systemctl stop zookeeper && zoolet data check \"$DATA.before-zoolet\"")
}

pub(crate) fn to_an_ensemble() -> Outcome<()> {
    let migration = Migration::new()?;
    migration.shell("systemctl start zoolet")?;
    let keeper = Keeper::start(&migration.server)?;
    keeper.check("zoolet")?;
    let before = keeper.znodes(&migration.server)?;
    migration.run("three copies")?;

    let members = migration.start_ensemble()?;
    let addresses: Vec<_> = members.iter().map(|member| member.address().to_string()).collect();
    migration.run_with("use the ensemble", &[("MEMBERS", &addresses.join(","))])?;
    for address in &addresses {
        let found = keeper.znodes(address)?;
        assert_eq!(found, before, "{address} has other znodes");
    }
    let client = keeper.connect(&addresses.join(","))?;
    keeper.runtime.block_on(client.create("/written-by-the-ensemble").into_future())?;
    drop(members);

    migration.run_with("copy znodes", &[("OTHER", "other")])?;
    let other = migration.directory.path().join("other");
    migration.shell(&format!("zoolet data check {}", other.display()))?;
    let exported = fs::read_to_string(migration.directory.path().join("znodes.jsonl"))?;
    assert!(exported.contains("\"/kept/znode\""), "{exported}");
    Ok(())
}

/// Two servers' common directory, and the commands of the page.
struct Migration {
    directory: TempDir,
    server: String,
    blocks: BTreeMap<&'static str, String>,
}

impl Migration {
    fn new() -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("data");
        fs::create_dir(&data)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let zoo_cfg = format!(
            "tickTime=2000\ndataDir={}\nclientPortAddress=127.0.0.1\nclientPort={port}\n",
            data.display()
        );
        fs::write(directory.path().join("zoo.cfg"), zoo_cfg)?;
        let page = fs::read_to_string(conformance_folder().join("../docs/migration.md"))?;
        let server = format!("127.0.0.1:{port}");
        Ok(Self { directory, server, blocks: blocks(&page)? })
    }

    /// Runs a block of the page.
    fn run(&self, block: &str) -> Outcome<()> {
        self.run_with(block, &[])
    }

    fn run_with(&self, block: &str, variables: &[(&str, &str)]) -> Outcome<()> {
        let commands = self.blocks.get(block).ok_or("the page has no such block")?;
        println!("{block}:\n{commands}");
        self.shell_with(commands, variables)
    }

    fn shell(&self, commands: &str) -> Outcome<()> {
        self.shell_with(commands, &[])
    }

    fn shell_with(&self, commands: &str, variables: &[(&str, &str)]) -> Outcome<()> {
        let here = self.directory.path();
        let status = Command::new("bash")
            .args(["-euo", "pipefail", "-c", commands])
            .current_dir(here)
            .env("PATH", path()?)
            .env("RUN", here)
            .env("DATA", here.join("data"))
            .env("CONFIG", here.join("zoo.cfg"))
            .env("SERVER", &self.server)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .status()?;
        if status.success() { Ok(()) } else { Err(format!("{status}: {commands}").into()) }
    }

    /// Starts a member on each copy, with the page's lines for `zoo.cfg`.
    fn start_ensemble(&self) -> Outcome<Vec<Apache>> {
        let mut lines = self.blocks["lines of zoo.cfg"].clone();
        let mut listeners = Vec::new();
        let mut port = || -> Outcome<u16> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            listeners.push(listener);
            Ok(port)
        };
        for n in 1..=3 {
            // The three machines are this one, so they cannot have the same ports.
            let (written, here) = (format!("zk{n}:2888:3888"), (port()?, port()?));
            assert!(lines.contains(&written), "{written} is not in:\n{lines}");
            lines = lines.replace(&written, &format!("127.0.0.1:{}:{}", here.0, here.1));
        }
        let client_ports = [port()?, port()?, port()?];
        drop(listeners);
        (1..=3)
            .zip(client_ports)
            .map(|(n, port)| {
                let data = self.directory.path().join(format!("ensemble/{n}"));
                Ok(Apache::start_member(port, Timing::USUAL, &data, &lines, &[])?)
            })
            .collect()
    }
}

impl Drop for Migration {
    /// Stops what a failed test has left.
    fn drop(&mut self) {
        for unit in ["zookeeper", "zoolet"] {
            if self.directory.path().join(format!("{unit}.pid")).exists() {
                let _ = self.shell(&format!("systemctl stop {unit}"));
            }
        }
    }
}

/// The stand-ins first, then the command under test.
fn path() -> Outcome<String> {
    let stand_ins: PathBuf = conformance_folder().join("migration");
    Ok(format!("{}:{}", stand_ins.display(), path_with_zoolet()?))
}

/// The fenced blocks of the page that follow a line `<!-- test: NAME -->`.
fn blocks(page: &str) -> Outcome<BTreeMap<&'static str, String>> {
    let mut names = Vec::new();
    let mut blocks = BTreeMap::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(name) = name else { continue };
        let known = BLOCKS.into_iter().find(|known| *known == name);
        let name = known.ok_or_else(|| format!("no test runs the block {name:?}"))?;
        if !lines.next().is_some_and(|fence| fence.starts_with("```")) {
            return Err(format!("no block follows {line:?}").into());
        }
        let text: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        names.push(name);
        blocks.insert(name, text.join("\n"));
    }
    if names == BLOCKS { Ok(blocks) } else { Err(format!("the page has {names:?}").into()) }
}

/// A client that stays connected, and its znodes.
struct Keeper {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Keeper {
    /// Connects, and creates a znode of each kind.
    fn start(server: &str) -> Outcome<Self> {
        let runtime = tokio::runtime::Runtime::new()?;
        let client = runtime.block_on(async {
            let builder = Client::builder().session_timeout(Duration::from_secs(40));
            let client = builder.connect(server).await?;
            client.create("/kept").data("begin").await?;
            client.create("/kept/znode").data("its data").await?;
            client.create("/kept/mine").mode(CreateMode::Ephemeral).await?;
            client.create("/kept/n-").mode(CreateMode::PersistentSequential).await?;
            client.create("/box").mode(CreateMode::Container).await?;
            client.create("/box/content").await?;
            Outcome::Ok(client)
        })?;
        Ok(Self { runtime, client })
    }

    /// Checks that the session with its ephemeral lives on, and that the server serves writes.
    fn check(&self, server: &str) -> Outcome<()> {
        self.runtime.block_on(async {
            self.client.set("/kept", server.to_owned()).await?;
            let mine = self.client.exists("/kept/mine").await?.ok_or("the ephemeral is gone")?;
            assert_eq!(mine.ephemeral_owner, self.client.session_id(), "on {server}");
            self.client.create("/kept/n-").mode(CreateMode::PersistentSequential).await?;
            let (data, _) = self.client.get("/kept/znode").await?;
            assert_eq!(data, Bytes::from("its data"));
            Ok(())
        })
    }

    fn connect(&self, server: &str) -> Outcome<Client> {
        Ok(self.runtime.block_on(Client::connect(server))?)
    }

    /// The znodes of a server with their data and zxids, by path.
    fn znodes(&self, server: &str) -> Outcome<BTreeMap<String, (Bytes, i64)>> {
        let client = self.connect(server)?;
        self.runtime.block_on(async {
            let mut found = BTreeMap::new();
            let mut unread = vec!["/".to_owned()];
            while let Some(path) = unread.pop() {
                let (data, stat) = client.get(&path).await?;
                for child in client.children(&path).await?.iter() {
                    let parent = if path == "/" { "" } else { path.as_str() };
                    unread.push(format!("{parent}/{child}"));
                }
                // What an ensemble keeps about itself is new.
                if !path.starts_with("/zookeeper") {
                    found.insert(path, (data, stat.mzxid.0));
                }
            }
            Ok(found)
        })
    }
}
