//! Curator's `CuratorCache` beside ours, after a znode was deleted and created again while both had
//! no connection.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::sync::mpsc;
use zoolet_client::Parents;
use zoolet_conformance::peers;
use zoolet_recipes::CuratorCache;

use super::Outcome;
use super::scene::{Scene, soon};

/// A process with Curator's cache.
struct Curators {
    process: Child,
    input: ChildStdin,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Curators {
    fn start(address: &str, path: &str) -> Result<Self, Failed> {
        let mut run = Command::new(peers::conformance_folder().join("foreign/curator/run"));
        run.args(["CacheShell", address, path]);
        let mut process = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = process.stdin.take().ok_or("it has an input")?;
        let output = process.stdout.take().ok_or("it has an output")?;
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok())
        });
        Ok(Self { process, input, lines })
    }

    /// Waits until it says this.
    async fn says(&mut self, text: &str) -> Result<String, Failed> {
        loop {
            let line = soon(self.lines.recv()).await?.ok_or("Curator has ended")?;
            if line.starts_with(text) {
                return Ok(line);
            }
        }
    }

    /// The znodes that it has.
    async fn znodes(&mut self) -> Result<String, Failed> {
        self.input.write_all(b"\n")?;
        self.says("has ").await
    }
}

impl Drop for Curators {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

pub(crate) async fn curators_cache_goes_stale_where_ours_does_not(scene: Arc<Scene>) -> Outcome {
    let root = scene.path("cache");
    let other = scene.client().await?;
    let ((client, way), curators_way) = (scene.client_behind_proxy().await?, scene.proxy().await?);
    other.create(&root).data("old").parents(Parents::Persistent).await?;
    other.create(&format!("{root}/x")).await?;
    let ours = CuratorCache::builder(&client, &root).start()?;
    let mut curators = Curators::start(&curators_way.address().to_string(), &root)?;
    curators.says("initialized").await?;
    soon(ours.initialized()).await??;
    for way in [&way, &curators_way] {
        way.refuse(true);
        way.cut();
    }
    other.delete(&format!("{root}/x")).await?;
    other.delete(&root).await?;
    other.create(&root).data("new").await?;
    // Its version and its cversion are now those of the deleted znode.
    other.create(&format!("{root}/y")).await?;
    for way in [&way, &curators_way] {
        way.refuse(false);
    }
    curators.says("reconnected").await?;
    // A later change does not help either.
    other.set(&root, "newer").await?;
    let stale = format!("has {{{root}=newer}}");
    while curators.znodes().await? != stale {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    other.set(&root, "newest").await?;
    while curators.znodes().await? != format!("has {{{root}=newest}}") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    soon(ours.catch_up()).await??;
    assert_eq!(ours.get(&root).map(|it| it.data), Some("newest".into()));
    assert_eq!(ours.children(&root), ["y"]);
    drop((ours, curators));
    // Curator's session has not ended, and its watch is there as long as its connection.
    curators_way.cut();
    scene.assert_clean().await
}
