//! The floor of a fan-out: a server that does nothing but system calls.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use zoolet_benches::sessions::ANSWER_BYTES;

/// The bytes of an event for a znode with a path of seven characters.
pub(crate) const EVENT_BYTES: usize = 4 + 16 + 8 + 4 + 7;

/// Writes an event to all other connections, from two threads, and then an answer to the first one,
/// whenever something comes from the first one. It serves one group of connections after the other: a
/// group is the first one, which tells how many others there are, and these. Ends when stdin ends.
pub(crate) fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
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

fn serve_group(listener: &TcpListener) -> io::Result<()> {
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

fn write_events(sockets: &mut [TcpStream]) -> io::Result<()> {
    sockets.iter_mut().try_for_each(|socket| socket.write_all(&[0; EVENT_BYTES]))
}
