//! How long a client that only pings waits while other clients send expensive requests, and whether its
//! session survives.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench fairness                              # each attack for some seconds
//! cargo bench -p zoolet-benches --bench fairness -- --seconds 60 getChildren  # those whose names contain the word
//! cargo bench -p zoolet-benches --bench fairness -- --address 127.0.0.1:2181  # at another server
//! ```
//!
//! Server, attackers and victims share the machine. A server of another make must listen without a limit
//! of connections (`maxClientCnxns=0`) and answer all four-letter words (`4lw.commands.whitelist=*`).
//! Under `cargo test` everything runs once and small.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod attacks;
mod victim;
mod wire;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use attacks::{ATTACKS, Attack, Kind};
use tokio::runtime::Runtime;
use victim::Victims;
use wire::Wire;
use zoolet::server::{Config, FourLetterWhitelist, Server};
use zoolet_benches::tell;

/// The clients that ping as the Java client does.
const LIKE_JAVA: usize = 4;

/// The sizes of what is prepared, and how long each attack lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) znodes: usize,
    pub(crate) watches: usize,
    pub(crate) ephemerals: usize,
    each: Duration,
}

/// The options of the command line.
struct Options {
    sizes: Sizes,
    address: Option<SocketAddr>,
    /// Only attacks whose names contain one of these run.
    words: Vec<String>,
}

fn main() -> io::Result<()> {
    // Many attackers have a socket each.
    let _ = zoolet_server::raise_descriptor_limit();
    let options = options(std::env::args().skip(1))?;
    let runtime = Runtime::new()?;
    let server = match options.address {
        Some(_) => None,
        None => Some(runtime.block_on(serve())),
    };
    let own = server.as_ref().and_then(Server::local_addr);
    let address = options.address.or(own).ok_or_else(|| io::Error::other("no server"))?;
    let is_wanted = |attack: &&Attack| {
        options.words.is_empty() || options.words.iter().any(|word| attack.name.contains(word))
    };
    let wanted: Vec<_> = ATTACKS.iter().filter(is_wanted).collect();
    let _stays = with_pings(attacks::prepare(address, &options.sizes)?);
    let mut occupied = None;
    for attack in wanted {
        if occupied.is_none() && matches!(attack.kind, Kind::Word { is_watched: true, .. }) {
            let wires = attacks::occupy(address, &options.sizes)?;
            occupied = Some(wires.into_iter().map(with_pings).collect::<Vec<_>>());
        }
        measure(attack, address, &options.sizes)?;
    }
    drop(occupied);
    if let Some(server) = server {
        runtime.block_on(server.shutdown());
    }
    Ok(())
}

fn options(mut arguments: impl Iterator<Item = String>) -> io::Result<Options> {
    let is_measured = zoolet_benches::is_measured();
    let sizes = if is_measured {
        let each = Duration::from_secs(10);
        Sizes { znodes: 300_000, watches: 504_000, ephemerals: 200_000, each }
    } else {
        let each = Duration::from_millis(50);
        Sizes { znodes: 500, watches: 100, ephemerals: 100, each }
    };
    let mut options = Options { sizes, address: None, words: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| io::Error::other("a value is missing"));
        match argument.as_str() {
            "--address" => options.address = Some(value()?.parse().map_err(io::Error::other)?),
            "--seconds" => {
                let seconds = value()?.parse().map_err(io::Error::other)?;
                options.sizes.each = Duration::from_secs(seconds);
            }
            option if option.starts_with("--") => {}
            word => options.words.push(word.to_owned()),
        }
    }
    Ok(options)
}

async fn serve() -> Server {
    let config = Config {
        max_client_connections: 0,
        four_letter_words: FourLetterWhitelist::all(),
        ..Config::default()
    };
    let server = Server::builder().config(config).listen(([127, 0, 0, 1], 0).into());
    server.start().await.expect("a free port")
}

/// Keeps a session alive on a thread of its own, until the process ends.
fn with_pings(mut wire: Wire) -> TcpStream {
    let handle = wire.handle().expect("the socket is open");
    std::thread::spawn(move || {
        let ping = victim::ping();
        while wire.send(&ping).and_then(|()| wire.receive()).is_ok() {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    handle
}

/// Runs an attack for its time, and prints what the victims noticed.
fn measure(attack: &Attack, address: SocketAddr, sizes: &Sizes) -> io::Result<()> {
    victim::wait_until_settled(address)?;
    let victims = Victims::start(address, LIKE_JAVA)?;
    let sockets = Mutex::new(Some(Vec::new()));
    let keep = |socket: TcpStream| match &mut *lock(&sockets) {
        Some(sockets) => sockets.push(socket),
        // The attack is over.
        None => drop(socket.shutdown(Shutdown::Both)),
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..attack.clients {
            let keep = &keep;
            // Every attack ends with an error, when its socket is shut down.
            scope.spawn(move || drop(attack.run(address, sizes, keep, client)));
        }
        std::thread::sleep(sizes.each);
        for socket in lock(&sockets).take().into_iter().flatten() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    });
    let mut noticed = victims.stop()?;
    let (pings, p99) = (noticed.pings.len(), noticed.p99());
    tell(&format!(
        "{}: a ping waited {:.0?} at most, p99 {p99:.1?} of {pings}; {} connections given up, \
         {} sessions expired in {:.0?}",
        attack.name,
        noticed.silence,
        noticed.given_up,
        noticed.expired,
        start.elapsed(),
    ));
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
