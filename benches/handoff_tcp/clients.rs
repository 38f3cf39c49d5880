//! Clients of zoolet, each on a thread with a runtime of its own.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use zoolet::client::Client;
use zoolet::recipes::InterProcessMutex;
use zoolet_benches::contest::PATH;
use zoolet_benches::runtime;

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
