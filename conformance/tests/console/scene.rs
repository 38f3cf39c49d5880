//! A server with a console, and clients that lock, wait, watch and write on it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use zoolet_client::{Client, CreateMode, Parents};
use zoolet_conformance::process::zoolet_binary;
use zoolet_protocol::WatchMode;
use zoolet_recipes::{
    InterProcessLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2,
    LeaderLatch,
};

use crate::Outcome;

/// Longer than any test takes.
const SESSION_TIMEOUT: Duration = Duration::from_secs(120);

/// The pause between two questions whether something is so.
const PAUSE: Duration = Duration::from_millis(5);

/// A program that ends when its input does.
pub(crate) struct Program {
    child: Child,
    /// The first line that it has printed.
    line: String,
}

impl Program {
    fn start(arguments: &[&str]) -> Outcome<Self> {
        let mut command = Command::new(zoolet_binary()?);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::inherit()).spawn()?;
        let stdout = child.stdout.take().ok_or("its output is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(Self { child, line })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server and its console.
pub(crate) struct Scene {
    pub(crate) runtime: Runtime,
    /// What clients connect to.
    pub(crate) address: String,
    /// Where the console is, without a slash at the end.
    pub(crate) origin: String,
    _server: Program,
}

impl Scene {
    pub(crate) fn start() -> Outcome<Self> {
        let server = Program::start(&[
            "serve",
            "--listen=127.0.0.1:0",
            "--console=127.0.0.1:0",
            "--ready-json",
            "--exit-with-stdin",
            "--log-level=error",
            "--max-client-cnxns=0",
            "--max-session-timeout=300000",
        ])?;
        let ready: Value = serde_json::from_str(&server.line)?;
        let text = |name: &str| ready[name].as_str().ok_or_else(|| server.line.clone());
        let address = text("address")?.to_owned();
        let origin = text("console")?.trim_end_matches('/').to_owned();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Self { runtime, address, origin, _server: server })
    }

    /// The console in a process of its own, which asks the server as any other client may.
    pub(crate) fn separate_console(&self) -> Outcome<(Program, String)> {
        let console = Program::start(&["console", &self.address, "--listen=127.0.0.1:0"])?;
        let (_, url) = console.line.trim().rsplit_once(" on ").ok_or(console.line.as_str())?;
        let origin = url.trim_end_matches('/').to_owned();
        Ok((console, origin))
    }

    pub(crate) async fn client(&self) -> Outcome<Client> {
        let builder = Client::builder().session_timeout(SESSION_TIMEOUT);
        Ok(builder.connect(self.address.as_str()).await?)
    }

    /// Fills the server with what a small shop has, a deadlock included.
    pub(crate) fn with_a_shop(&self) -> Outcome<Shop> {
        self.runtime.block_on(Shop::open(self))
    }
}

/// What holds locks and watches. They end when it is dropped.
#[derive(Default)]
pub(crate) struct Shop {
    kept: Vec<Box<dyn Send>>,
    /// Those that wait.
    tasks: tokio::task::JoinSet<()>,
}

/// How many wait for the mutex.
pub(crate) const WAITERS: usize = 6;

/// How many watch the feature.
pub(crate) const WATCHERS: usize = 12;

/// The text of a znode with JSON.
pub(crate) const FEATURE: &str = r#"{"checkout":"new","share":0.25}"#;

impl Shop {
    async fn open(scene: &Scene) -> Outcome<Self> {
        let mut shop = Self::default();
        let keeper = scene.client().await?;
        shop.mutex(scene, &keeper).await?;
        shop.read_write(scene, &keeper).await?;
        shop.deadlock(scene, &keeper).await?;
        shop.others(scene).await?;
        for (path, data) in [
            ("/shop/features/checkout", FEATURE.as_bytes()),
            ("/shop/features/search", b"plain"),
            ("/shop/features/logo", b"\x89PNG\r\n\x1a\n\x00\x00\xff"),
            ("/shop/features/empty", b""),
        ] {
            keeper.create(path).data(data.to_vec()).parents(Parents::Persistent).await?;
        }
        for _ in 0..WATCHERS {
            let watcher = scene.client().await?;
            shop.keep(watcher.get("/shop/features/checkout").and_watch().await?);
            shop.keep(watcher.watch("/shop/features", WatchMode::PERSISTENT).await?);
            shop.keep(watcher);
        }
        shop.tasks.spawn(customers(keeper));
        Ok(shop)
    }

    pub(crate) fn keep(&mut self, kept: impl Send + 'static) {
        self.kept.push(Box::new(kept));
    }

    /// Lets somebody wait for a lock, and returns when there are `places` in its queue.
    async fn waits(
        &mut self,
        keeper: &Client,
        (path, places): (&str, usize),
        lock: impl InterProcessLock + 'static,
    ) -> Outcome<()> {
        self.tasks.spawn(async move {
            // Until the end, or until the shop closes.
            if let Ok(guard) = lock.acquire().await {
                std::future::pending::<()>().await;
                drop(guard);
            }
        });
        until_places(keeper, path, places).await
    }

    async fn mutex(&mut self, scene: &Scene, keeper: &Client) -> Outcome<()> {
        let path = "/shop/stock/4711";
        for number in 0..=WAITERS {
            let client = scene.client().await?;
            let lock = InterProcessMutex::new(&client, path)?;
            self.waits(keeper, (path, number + 1), lock).await?;
            self.keep(client);
        }
        Ok(())
    }

    async fn read_write(&mut self, scene: &Scene, keeper: &Client) -> Outcome<()> {
        for (number, reads) in [true, true, false, true].into_iter().enumerate() {
            let client = scene.client().await?;
            let path = "/shop/catalogue";
            let lock = InterProcessReadWriteLock::new(&client, path)?;
            match reads {
                true => self.waits(keeper, (path, number + 1), lock.read_lock()).await?,
                false => self.waits(keeper, (path, number + 1), lock.write_lock()).await?,
            }
            self.keep(client);
        }
        Ok(())
    }

    /// Each has one lock and waits for the other's.
    async fn deadlock(&mut self, scene: &Scene, keeper: &Client) -> Outcome<()> {
        let paths = ["/shop/orders/17", "/shop/customers/42"];
        let clients = [scene.client().await?, scene.client().await?];
        for (client, path) in clients.iter().zip(paths) {
            self.waits(keeper, (path, 1), InterProcessMutex::new(client, path)?).await?;
        }
        for (client, path) in clients.iter().zip(paths.into_iter().rev()) {
            self.waits(keeper, (path, 2), InterProcessMutex::new(client, path)?).await?;
        }
        self.keep(clients);
        Ok(())
    }

    async fn others(&mut self, scene: &Scene) -> Outcome<()> {
        for number in 0..3 {
            let client = scene.client().await?;
            if number < 2 {
                let semaphore = InterProcessSemaphoreV2::new(&client, "/shop/printers", 2)?;
                self.keep(semaphore.acquire(1).await?);
            }
            let latch = LeaderLatch::start(&client, "/shop/nightly", &format!("job-{number}"))?;
            if number == 0 {
                latch.await_leadership().await?;
            }
            self.keep(latch);
            self.keep(client);
        }
        Ok(())
    }
}

/// Where carts come and go.
pub(crate) const CARTS: &str = "/shop/carts";

/// The pause between two customers.
const CUSTOMER_PAUSE: Duration = Duration::from_millis(50);

/// Customers come, fill a cart and leave, until the shop closes.
async fn customers(client: Client) {
    for number in 0.. {
        let path = format!("{CARTS}/{number}");
        let create = client.create(&path).data("empty").parents(Parents::Persistent);
        let created = create.await;
        tokio::time::sleep(CUSTOMER_PAUSE).await;
        if created.is_err() || client.set(&path, "full").await.is_err() {
            return;
        }
        tokio::time::sleep(CUSTOMER_PAUSE).await;
        if client.delete(&path).await.is_err() {
            return;
        }
    }
}

/// Waits until a queue has so many places.
async fn until_places(client: &Client, path: &str, places: usize) -> Outcome<()> {
    loop {
        match client.exists(path).await? {
            Some(stat) if stat.num_children as usize >= places => return Ok(()),
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Names and data that would do harm if they were taken for markup, or could deceive who reads them.
pub(crate) const HOSTILE: [(&str, &str); 6] = [
    ("<img src=x onerror=\"window.harmed=1\">", "<script>window.harmed=2</script>"),
    ("<script>window.harmed=3<", "'\"><svg onload=window.harmed=4>"),
    ("\u{202e}gpj.tset", "\u{202e}}gnihton{\u{2066}"),
    ("a\"onmouseover=\"window.harmed=5\" b='", "${window.harmed=6}`\\u0000"),
    ("javascript:window.harmed=7", "javascript:window.harmed=8"),
    ("&lt;b&gt;&#x202e;", "&lt;script&gt;"),
];

/// The directory of what is hostile.
pub(crate) const HOSTILE_PATH: &str = "/hostile";

impl Scene {
    /// Adds hostile names: znodes, locks of which one is waited for, and a path that is watched.
    pub(crate) fn with_hostility(&self, shop: &mut Shop) -> Outcome<()> {
        self.runtime.block_on(async {
            let (owner, waiter) = (self.client().await?, self.client().await?);
            for (name, data) in HOSTILE {
                let path = format!("{HOSTILE_PATH}/{name}");
                let created = owner.create(&path).data(data).parents(Parents::Persistent).await?;
                assert_eq!(created.path, path);
                shop.keep(owner.get(&path).and_watch().await?);
                for client in [&owner, &waiter] {
                    let place = format!("{path}/_c_{name}-lock-");
                    let mode = CreateMode::EphemeralSequential;
                    client.create(&place).data(data).mode(mode).await?;
                }
            }
            shop.keep((owner, waiter));
            Ok(())
        })
    }
}
