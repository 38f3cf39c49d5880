//! The rhythm in which all is measured: two contenders hand a lock to each other. While one holds the lock the other
//! waits, and both sleep.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use zoolet_benches::runtime;

/// One of the two.
pub(crate) trait Contender: Sized + Send + 'static {
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self>> + Send;
    fn acquire(&mut self) -> impl Future<Output = io::Result<()>> + Send;
    fn release(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Asks the server for something that is answered to this client and wakes no other one.
    fn request(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    fn close(self) -> impl Future<Output = io::Result<()>> + Send {
        async { Ok(()) }
    }
}

/// Where the two are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Each on a thread of its own, as in two processes.
    Apart,
    /// On one runtime, as in one process. They must not block its threads.
    Together,
}

/// What is measured of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// From the beginning of the release until the other one knows that it has the lock.
    HandOver,
    /// A request of the holder, until it has the answer.
    Request,
}

/// One time that a contender held the lock.
#[derive(Debug, Clone, Copy)]
struct Held {
    contender: usize,
    /// Before it entered the line.
    entered: Instant,
    /// When it knew that it has the lock.
    begin: Instant,
    /// When its request began, and how long it took, if there was one.
    request: Option<(Instant, Duration)>,
    /// When it began to release the lock.
    end: Instant,
}

/// The times of as many steps, but for those where the next one had not waited for a pause.
pub(crate) fn times<C: Contender>(
    step: Step,
    placement: Placement,
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    let (results, received) = mpsc::channel();
    let contend = |contender| contend::<C>(contender, step, address, pause, steps / 2);
    let shared = match placement {
        Placement::Apart => None,
        Placement::Together => Some(Builder::new_multi_thread().enable_all().build()?),
    };
    for contender in [0, 1] {
        let (task, results) = (contend(contender), results.clone());
        // What a runtime blocks on is polled later than a task. A panic of the task is an error here.
        let result = async { tokio::spawn(task).await? };
        match &shared {
            None => drop(thread::spawn(move || results.send(runtime().block_on(result)).ok())),
            Some(shared) => drop(shared.spawn(async move { results.send(result.await).ok() })),
        }
    }
    let mut all = Vec::new();
    // Where one fails, the other waits for its turn, and is not waited for.
    for result in received.into_iter().take(2) {
        all.extend(result?);
    }
    all.sort_unstable_by_key(|held| held.begin);
    let step = |pair: &[Held]| {
        let [held, next] = pair else { return None };
        let (begin, time) = match step {
            Step::HandOver => (held.end, next.begin - held.end),
            Step::Request => held.request?,
        };
        let is_in_rhythm = held.contender != next.contender && next.entered + pause < begin;
        is_in_rhythm.then_some(time)
    };
    Ok(all.windows(2).filter_map(step).collect())
}

/// Enters the line half a pause after it released the lock, and holds the lock for two pauses, and a third one after a
/// request: so the other one has waited for a pause by then, also where a timer of whole milliseconds rounds up.
async fn contend<C: Contender>(
    contender: usize,
    step: Step,
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
        tokio::time::sleep(pause * 2).await;
        let mut request = None;
        if step == Step::Request {
            let start = Instant::now();
            lock.request().await?;
            request = Some((start, start.elapsed()));
            tokio::time::sleep(pause).await;
        }
        let end = Instant::now();
        lock.release().await?;
        all.push(Held { contender, entered, begin, request, end });
        tokio::time::sleep(pause / 2).await;
    }
    lock.close().await?;
    Ok(all)
}
