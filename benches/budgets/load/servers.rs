//! The floors: servers that do nothing but system calls.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::sync::mpsc;
use std::thread;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use zoolet_benches::process::until_stdin_ends;
use zoolet_benches::sessions::ANSWER_BYTES;

/// The bytes of an event for a znode with a path of seven characters.
pub(crate) const EVENT_BYTES: usize = 4 + 16 + 8 + 4 + 7;

/// Answers each read with as many bytes as a `getData` is answered with, on the runtime that `zoolet
/// serve` has, until stdin ends.
pub(crate) fn echo() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on {}", listener.local_addr()?);
        let end = tokio::spawn(until_stdin_ends());
        tokio::select! {
            ended = end => ended?,
            accepted = accept(listener) => accepted,
        }
    })
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(answer(socket));
    }
}

async fn answer(mut socket: TcpStream) {
    let mut buffer = [0; 4_096];
    while let Ok(1..) = socket.read(&mut buffer).await {
        if socket.write_all(&[0; ANSWER_BYTES]).await.is_err() {
            return;
        }
    }
}

/// Writes an event to all other connections, from two threads, and then an answer to the first one,
/// whenever something comes from the first one. It serves one group of connections after the other: a
/// group is the first one, which tells how many others there are, and these. Ends when stdin ends.
pub(crate) fn fan_out() -> io::Result<()> {
    let listener = StdListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    thread::spawn(move || {
        loop {
            if let Err(error) = serve_group(&listener) {
                eprintln!("the floor of the fan-out: {error}");
                return;
            }
        }
    });
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map(|_| ())
}

fn serve_group(listener: &StdListener) -> io::Result<()> {
    let (mut first, _) = listener.accept()?;
    first.set_nodelay(true)?;
    let mut count = [0; 4];
    first.read_exact(&mut count)?;
    let mut others = Vec::new();
    for _ in 0..u32::from_be_bytes(count) {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        others.push(socket);
    }
    let half = others.len() / 2;
    let (one, other) = others.split_at_mut(half);
    let (go, told) = mpsc::channel();
    let (done, awaited) = mpsc::channel();
    thread::scope(|scope| {
        // It stays, since the CPU time of a thread that has ended is not seen.
        scope.spawn(move || told.into_iter().try_for_each(|()| done.send(write_events(other))));
        // Moved, so that the thread ends when this does.
        let go = go;
        let mut change = [0; 1_024];
        while first.read(&mut change)? > 0 {
            go.send(()).map_err(io::Error::other)?;
            write_events(one)?;
            awaited.recv().map_err(io::Error::other)??;
            first.write_all(&[0; ANSWER_BYTES])?;
        }
        Ok(())
    })
}

fn write_events(sockets: &mut [StdStream]) -> io::Result<()> {
    sockets.iter_mut().try_for_each(|socket| socket.write_all(&[0; EVENT_BYTES]))
}
