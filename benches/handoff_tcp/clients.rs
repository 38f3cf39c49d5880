//! Clients of zoolet, each on a thread with a runtime of its own.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use zoolet::client::Client;
use zoolet::protocol::{CreateMode, ErrorCode, Expect};
use zoolet::recipes::{Guard, InterProcessMutex};
use zoolet_benches::contest::PATH;
use zoolet_benches::runtime;

use crate::rhythm::{self, Contender};

/// A znode that is not that of a lock.
const ZNODE: &str = "/znode";

/// The times of requests, each after a pause.
pub(crate) fn requests(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    on_a_task(async move {
        let client = connect(address).await?;
        let mut times = Vec::with_capacity(steps);
        for _ in 0..steps {
            tokio::time::sleep(pause).await;
            let start = Instant::now();
            client.exists("/").await.map_err(io::Error::other)?;
            times.push(start.elapsed());
        }
        close(client).await?;
        Ok(times)
    })
}

/// The times of multis that set and delete a znode, as the release of a lock does, each after a pause and
/// until its reply.
pub(crate) fn multis(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    on_a_task(async move {
        let client = connect(address).await?;
        let mut times = Vec::with_capacity(steps);
        for _ in 0..steps {
            let create = client.create(ZNODE).mode(CreateMode::Ephemeral);
            create.await.map_err(io::Error::other)?;
            tokio::time::sleep(pause).await;
            let start = Instant::now();
            let multi = client.transaction().set(ZNODE, "", Expect::Any).delete(ZNODE, Expect::Any);
            multi.commit().await.map_err(io::Error::other)?;
            times.push(start.elapsed());
        }
        close(client).await?;
        Ok(times)
    })
}

/// The times of events: from the set of a znode's data, after a pause, until another client knows of it. The two
/// tell each other nothing else: a thread that is told by another one may change its processor.
pub(crate) fn events(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    let watcher = thread::spawn(move || on_a_task(watch(address, steps)));
    let begun = on_a_task(async move {
        let client = connect(address).await?;
        client.create(ZNODE).mode(CreateMode::Ephemeral).await.map_err(io::Error::other)?;
        // The watcher finds the znode within some milliseconds.
        tokio::time::sleep(10 * pause).await;
        let mut begun = Vec::with_capacity(steps);
        for _ in 0..steps {
            tokio::time::sleep(pause).await;
            begun.push(Instant::now());
            client.set(ZNODE, "").await.map_err(io::Error::other)?;
        }
        tokio::time::sleep(pause).await;
        close(client).await?;
        Ok(begun)
    })?;
    let known = watcher.join().map_err(|_| io::Error::other("the watcher has panicked"))??;
    let time_of = |(version, known): (usize, Instant)| Some(known - *begun.get(version - 1)?);
    Ok(known.into_iter().filter_map(time_of).collect())
}

/// Watches the znode of [`events`] until it is deleted. Returns when it knew of which version of the data, but
/// for those that came before it watched again.
async fn watch(address: SocketAddr, steps: usize) -> io::Result<Vec<(usize, Instant)>> {
    let client = connect(address).await?;
    let mut known = Vec::with_capacity(steps);
    while client.exists(ZNODE).await.map_err(io::Error::other)?.is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut watched = client.get(ZNODE).and_watch().await.map_err(io::Error::other)?;
    loop {
        let before = watched.found.1.version;
        watched.watcher.await.map_err(io::Error::other)?;
        let now = Instant::now();
        watched = match client.get(ZNODE).and_watch().await {
            Ok(watched) => watched,
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => break,
            Err(error) => return Err(io::Error::other(error)),
        };
        let version = watched.found.1.version;
        if version == before + 1 {
            known.extend(usize::try_from(version).map(|version| (version, now)));
        }
    }
    close(client).await?;
    Ok(known)
}

/// The times of hand-overs of a mutex between two contenders.
pub(crate) fn hand_overs(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    rhythm::hand_overs::<MutexContender>(address, pause, steps)
}

/// A client that contends for a mutex.
struct MutexContender {
    client: Client,
    mutex: InterProcessMutex,
    guard: Option<Guard>,
}

impl Contender for MutexContender {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let client = connect(address).await?;
        let mutex = InterProcessMutex::new(&client, PATH).map_err(io::Error::other)?;
        Ok(Self { client, mutex, guard: None })
    }

    async fn acquire(&mut self) -> io::Result<()> {
        self.guard = Some(self.mutex.acquire().await.map_err(io::Error::other)?);
        Ok(())
    }

    async fn release(&mut self) -> io::Result<()> {
        match self.guard.take() {
            Some(guard) => guard.release().await.map_err(io::Error::other),
            None => Ok(()),
        }
    }

    async fn close(self) -> io::Result<()> {
        close(self.client).await
    }
}

/// Runs a task on this thread, as a program does: what a runtime blocks on is polled later than a task.
pub(crate) fn on_a_task<T: Send + 'static>(
    task: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    runtime().block_on(async { tokio::spawn(task).await? })
}

async fn connect(address: SocketAddr) -> io::Result<Client> {
    Client::connect(address.to_string().as_str()).await.map_err(io::Error::other)
}

async fn close(client: Client) -> io::Result<()> {
    client.close().await.map_err(io::Error::other)
}
