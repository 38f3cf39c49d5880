//! Two contenders that hand a lock to each other, each on a thread with a runtime of its own.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::clients::on_a_task;

/// One of the two.
pub(crate) trait Contender: Sized + Send + 'static {
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self>> + Send;
    fn acquire(&mut self) -> impl Future<Output = io::Result<()>> + Send;
    fn release(&mut self) -> impl Future<Output = io::Result<()>> + Send;
    fn close(self) -> impl Future<Output = io::Result<()>> + Send;
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
pub(crate) fn hand_overs<C: Contender>(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    let contend = |contender| {
        thread::spawn(move || on_a_task(contend::<C>(contender, address, pause, steps / 2)))
    };
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
async fn contend<C: Contender>(
    contender: usize,
    address: SocketAddr,
    pause: Duration,
    times: usize,
) -> io::Result<Vec<Held>> {
    let mut lock = C::connect(address).await?;
    let mut all = Vec::with_capacity(times);
    for _ in 0..=times {
        let entered = Instant::now();
        lock.acquire().await?;
        let begin = Instant::now();
        tokio::time::sleep(pause + pause / 2).await;
        let end = Instant::now();
        lock.release().await?;
        all.push(Held { contender, entered, begin, end });
        tokio::time::sleep(pause / 4).await;
    }
    lock.close().await?;
    Ok(all)
}
