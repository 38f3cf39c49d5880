//! Bare sockets: a byte of the holder wakes the server, and a byte of the server wakes the next.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use zoolet_benches::runtime;

/// The times from the write of the holder until the next has read.
pub(crate) fn relayed(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    let mut holder = TcpStream::connect(address)?;
    let mut next = TcpStream::connect(address)?;
    holder.set_nodelay(true)?;
    let woken = thread::spawn(move || {
        let mut woken = Vec::with_capacity(steps);
        for _ in 0..steps {
            next.read_exact(&mut [0])?;
            woken.push(Instant::now());
        }
        io::Result::Ok(woken)
    });
    let mut begun = Vec::with_capacity(steps);
    for _ in 0..steps {
        thread::sleep(pause);
        begun.push(Instant::now());
        holder.write_all(&[1])?;
        holder.read_exact(&mut [0])?;
    }
    between(begun, woken)
}

/// The same with tokio, as the clients have it.
pub(crate) fn relayed_on_tokio(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    let holder = TcpStream::connect(address)?;
    let next = TcpStream::connect(address)?;
    holder.set_nodelay(true)?;
    let woken = thread::spawn(move || {
        runtime().block_on(async move {
            next.set_nonblocking(true)?;
            let mut next = tokio::net::TcpStream::from_std(next)?;
            let mut woken = Vec::with_capacity(steps);
            for _ in 0..steps {
                next.read_exact(&mut [0]).await?;
                woken.push(Instant::now());
            }
            io::Result::Ok(woken)
        })
    });
    let begun = runtime().block_on(async {
        holder.set_nonblocking(true)?;
        let mut holder = tokio::net::TcpStream::from_std(holder)?;
        let mut begun = Vec::with_capacity(steps);
        for _ in 0..steps {
            tokio::time::sleep(pause).await;
            begun.push(Instant::now());
            holder.write_all(&[1]).await?;
            holder.read_exact(&mut [0]).await?;
        }
        io::Result::Ok(begun)
    })?;
    between(begun, woken)
}

/// The times from the write of a client until it has read the byte itself, on a second connection. So the
/// server and one client wake, as for a request, where [`relayed`] wakes another client too.
pub(crate) fn answered(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    let mut sender = TcpStream::connect(address)?;
    let mut receiver = TcpStream::connect(address)?;
    sender.set_nodelay(true)?;
    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps {
        thread::sleep(pause);
        let start = Instant::now();
        sender.write_all(&[1])?;
        receiver.read_exact(&mut [0])?;
        times.push(start.elapsed());
        sender.read_exact(&mut [0])?;
    }
    Ok(times)
}

/// The same with tokio, as the clients have it.
pub(crate) fn answered_on_tokio(
    address: SocketAddr,
    pause: Duration,
    steps: usize,
) -> io::Result<Vec<Duration>> {
    runtime().block_on(async {
        let mut sender = tokio::net::TcpStream::connect(address).await?;
        let mut receiver = tokio::net::TcpStream::connect(address).await?;
        sender.set_nodelay(true)?;
        let mut times = Vec::with_capacity(steps);
        for _ in 0..steps {
            tokio::time::sleep(pause).await;
            let start = Instant::now();
            sender.write_all(&[1]).await?;
            receiver.read_exact(&mut [0]).await?;
            times.push(start.elapsed());
            sender.read_exact(&mut [0]).await?;
        }
        Ok(times)
    })
}

fn between(
    begun: Vec<Instant>,
    woken: thread::JoinHandle<io::Result<Vec<Instant>>>,
) -> io::Result<Vec<Duration>> {
    let woken = woken.join().map_err(|_| io::Error::other("the next in line has panicked"))??;
    Ok(begun.into_iter().zip(woken).map(|(begun, woken)| woken - begun).collect())
}
