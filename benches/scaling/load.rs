//! The clients: threads with a runtime, some clients and many requests under way each.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zoolet::client::Client;
use zoolet_benches::requests::DATA;
use zoolet_benches::runtime;

/// The clients of a thread, and the tasks of a client, of which each has one request under way.
const CLIENTS: usize = 4;
const TASKS: usize = 16;
/// A mixture has one write in so many requests.
const WRITE_EVERY: u64 = 10;

/// What the clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All read one znode.
    ReadOne,
    /// Each client reads a znode of its own, below a parent of its own.
    ReadOwn,
    /// Each client writes its own znode.
    Write,
    /// Each client reads its own znode, and writes it now and then.
    Mixed,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::ReadOne, Self::ReadOwn, Self::Write, Self::Mixed];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ReadOne => "getData of one znode",
            Self::ReadOwn => "getData of own znodes",
            Self::Write => "setData of own znodes",
            Self::Mixed => "nine getData and one setData of own znodes",
        }
    }
}

/// Threads whose clients are connected.
pub(crate) struct Load(Vec<Thread>);

struct Thread {
    /// A time to run for; the thread ends when this is dropped.
    orders: Sender<Duration>,
    /// How many operations were carried out.
    results: Receiver<io::Result<u64>>,
    running: JoinHandle<io::Result<()>>,
}

/// Starts the threads and connects their clients.
pub(crate) fn open(address: SocketAddr, kind: Kind, threads: usize) -> io::Result<Load> {
    let load = Load((0..threads).map(|number| thread(address, kind, number)).collect());
    // The first result of a thread is that it is connected.
    load.results()?;
    Ok(load)
}

impl Load {
    /// Lets all clients ask for a time, and returns how many operations were carried out.
    pub(crate) fn run(&self, time: Duration) -> io::Result<u64> {
        for thread in &self.0 {
            thread.orders.send(time).map_err(io::Error::other)?;
        }
        self.results()
    }

    /// Ends the threads.
    pub(crate) fn end(self) -> io::Result<()> {
        for Thread { orders, running, .. } in self.0 {
            drop(orders);
            running.join().map_err(|_| io::Error::other("a thread of clients panicked"))??;
        }
        Ok(())
    }

    fn results(&self) -> io::Result<u64> {
        let each = self.0.iter();
        each.map(|thread| thread.results.recv().map_err(io::Error::other)?).sum()
    }
}

fn thread(address: SocketAddr, kind: Kind, number: usize) -> Thread {
    let ((orders, taken), (told, results)) = (channel::<Duration>(), channel());
    let running = std::thread::spawn(move || {
        let runtime = runtime();
        let clients = runtime.block_on(connect(address, number));
        let clients = match clients {
            Ok(clients) => clients,
            Err(error) => return told.send(Err(error)).map_err(io::Error::other),
        };
        told.send(Ok(0)).map_err(io::Error::other)?;
        for time in taken {
            let end = Instant::now() + time;
            let count = runtime.block_on(run(&clients, kind, end));
            told.send(count).map_err(io::Error::other)?;
        }
        Ok(())
    });
    Thread { orders, results, running }
}

/// The clients of a thread, each with the path of its znode.
async fn connect(address: SocketAddr, thread: usize) -> io::Result<Vec<(Client, String)>> {
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = Client::connect(address.to_string().as_str()).await;
        let client = client.map_err(io::Error::other)?;
        let parent = format!("/scaling-{thread}-{number}");
        let path = format!("{parent}/own");
        for path in ["/scaling", &parent, &path] {
            let create = client.create(path).data(DATA).or_set();
            create.await.map_err(io::Error::other)?;
        }
        clients.push((client, path));
    }
    Ok(clients)
}

async fn run(clients: &[(Client, String)], kind: Kind, end: Instant) -> io::Result<u64> {
    let mut running = JoinSet::new();
    for (client, path) in clients {
        for _ in 0..TASKS {
            let (client, path) = (client.clone(), path.clone());
            running.spawn(async move {
                let mut count = 0;
                while Instant::now() < end {
                    once(&client, kind, &path, count).await?;
                    count += 1;
                }
                io::Result::Ok(count)
            });
        }
    }
    let mut total = 0;
    while let Some(done) = running.join_next().await {
        total += done??;
    }
    Ok(total)
}

async fn once(client: &Client, kind: Kind, path: &str, count: u64) -> io::Result<()> {
    let done = match kind {
        Kind::ReadOne => client.get("/scaling").await.map(drop),
        Kind::Write => client.set(path, DATA).await.map(drop),
        Kind::Mixed if count.is_multiple_of(WRITE_EVERY) => client.set(path, DATA).await.map(drop),
        Kind::ReadOwn | Kind::Mixed => client.get(path).await.map(drop),
    };
    done.map_err(io::Error::other)
}
