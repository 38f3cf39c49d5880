//! Clients of zoolet, each on a thread with a runtime of its own.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use zoolet::client::Client;
use zoolet::protocol::{CreateMode, ErrorCode, Expect};
use zoolet::recipes::InterProcessMutex;
use zoolet_benches::contest::PATH;
use zoolet_benches::runtime;

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

/// One that a contender held the lock.
#[derive(Debug, Clone, Copy)]
struct Held {
    contender: usize,
    /// Before it entered the line.
    entered: Instant,
    /// When it knew that it has the lock.
    begin: Instant,
    /// When it began to release it.
    end: Instant,
}

/// The times of hand-overs between two contenders, from the beginning of the release until the next knows
/// that it has the lock.
pub(crate) fn hand_overs(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    let contend =
        |contender| thread::spawn(move || on_a_task(contend(contender, address, pause, steps / 2)));
    let mut all = Vec::new();
    for thread in [0, 1].map(contend) {
        all.extend(thread.join().map_err(|_| io::Error::other("a contender has panicked"))??);
    }
    all.sort_unstable_by_key(|held| held.begin);
    // Only if the next has waited for a pause by then, as it mostly has, was it asleep.
    let is_handed_over = |pair: &&[Held]| {
        pair[0].contender != pair[1].contender && pair[1].entered + pause < pair[0].end
    };
    let pairs = all.windows(2).filter(is_handed_over);
    Ok(pairs.map(|pair| pair[1].begin - pair[0].end).collect())
}

/// Enters the line a quarter of a pause after it released the lock, and holds the lock so long that the
/// other one has waited for a pause by then.
async fn contend(
    contender: usize,
    address: SocketAddr,
    pause: Duration,
    times: usize,
) -> io::Result<Vec<Held>> {
    let client = connect(address).await?;
    let mutex = InterProcessMutex::new(&client, PATH).map_err(io::Error::other)?;
    let mut all = Vec::with_capacity(times);
    for _ in 0..=times {
        let entered = Instant::now();
        let guard = mutex.acquire().await.map_err(io::Error::other)?;
        let begin = Instant::now();
        tokio::time::sleep(pause + pause / 2).await;
        let end = Instant::now();
        guard.release().await.map_err(io::Error::other)?;
        all.push(Held { contender, entered, begin, end });
        tokio::time::sleep(pause / 4).await;
    }
    close(client).await?;
    Ok(all)
}

/// Runs a task on this thread, as a program does: what a runtime blocks on is polled later than a task.
fn on_a_task<T: Send + 'static>(
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
