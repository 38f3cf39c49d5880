//! Clients that only ping, and what they notice of the attack.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use zoolet::protocol::{Request, SessionRequest, Xid, encode_request};

use super::wire::{SESSION_TIMEOUT_MS, Wire};

/// The timing of the Java client: it gives a connection up after two thirds of the session timeout without
/// an answer, and pings after half of that.
const READ_TIMEOUT: Duration = Duration::from_millis(SESSION_TIMEOUT_MS as u64 * 2 / 3);
const PING_INTERVAL: Duration = Duration::from_millis(READ_TIMEOUT.as_millis() as u64 / 2);

/// The probe pings far more often, to measure the distribution.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// How long the probe waits for an answer before it gives up.
const PROBE_PATIENCE: Duration = Duration::from_secs(60);

/// How long a server may take to carry out what the attack before has left.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);

/// A server has settled when it opens a session and answers a ping within this time.
const SETTLED: Duration = Duration::from_millis(100);

/// What the victims noticed.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// How long each answer to the probe took.
    pub(crate) pings: Vec<Duration>,
    /// The longest time that a client had to wait for an answer.
    pub(crate) silence: Duration,
    /// The sessions that ended though their clients pinged as the Java client does.
    pub(crate) expired: usize,
    /// The connections that such clients gave up without an answer.
    pub(crate) given_up: usize,
}

impl Noticed {
    /// The time within which 99 of 100 pings are answered.
    pub(crate) fn p99(&mut self) -> Duration {
        self.pings.sort_unstable();
        let last = self.pings.len().saturating_sub(1);
        self.pings.get((self.pings.len() * 99 / 100).min(last)).copied().unwrap_or_default()
    }

    fn waited(&mut self, waited: Duration) {
        self.silence = self.silence.max(waited);
    }
}

/// Pings until it is told to stop.
pub(crate) struct Victims {
    stop: Arc<AtomicBool>,
    noticed: Arc<Mutex<Noticed>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Victims {
    /// Starts this many clients with the timing of the Java client, and the probe.
    pub(crate) fn start(address: SocketAddr, like_java: usize) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let noticed = Arc::<Mutex<Noticed>>::default();
        let mut threads = Vec::new();
        for victim in 0..=like_java {
            // Each client has its session before the attack begins.
            let wire = Wire::connect(address)?;
            let (stop, noticed) = (Arc::clone(&stop), Arc::clone(&noticed));
            threads.push(std::thread::spawn(move || match victim {
                0 => probe(address, wire, &stop, &noticed),
                _ => ping_like_java(address, wire, &stop, &noticed),
            }));
        }
        Ok(Self { stop, noticed, threads })
    }

    /// Stops the clients, after each has received its answer.
    pub(crate) fn stop(self) -> io::Result<Noticed> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| io::Error::other("a victim panics"))??;
        }
        Ok(std::mem::take(&mut self.noticed.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Waits until the server has carried out what the attack before has left: some servers handle the
/// requests of connections that are gone.
pub(crate) fn wait_until_settled(address: SocketAddr) -> io::Result<()> {
    let start = Instant::now();
    while start.elapsed() < SETTLE_TIMEOUT {
        let begin = Instant::now();
        let answered = Wire::connect(address).and_then(|mut wire| {
            wire.set_patience(SETTLED)?;
            wire.send(&ping())?;
            wire.receive()
        });
        if answered.is_ok() && begin.elapsed() < SETTLED {
            return Ok(());
        }
        std::thread::sleep(SETTLED);
    }
    Err(io::Error::other(format!("the server is busy for {SETTLE_TIMEOUT:?} after an attack")))
}

pub(crate) fn ping() -> bytes::Bytes {
    encode_request(Xid::PING, &Request::Session(SessionRequest::Ping))
}

fn note(noticed: &Mutex<Noticed>, note: impl FnOnce(&mut Noticed)) {
    note(&mut noticed.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Sends one ping after the other. A connection that the server closes counts as given up, and the
/// probe opens a new session.
fn probe(
    address: SocketAddr,
    mut wire: Wire,
    stop: &AtomicBool,
    noticed: &Mutex<Noticed>,
) -> io::Result<()> {
    wire.set_patience(PROBE_PATIENCE)?;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let answered = wire.send(&ping()).and_then(|()| wire.receive());
        let waited = start.elapsed();
        note(noticed, |noticed| {
            noticed.pings.push(waited);
            noticed.waited(waited);
            noticed.given_up += usize::from(answered.is_err());
        });
        if answered.is_err() {
            let Some(connected) = connect_anew(address, stop) else { break };
            wire = connected;
            wire.set_patience(PROBE_PATIENCE)?;
        }
        std::thread::sleep(PROBE_INTERVAL.saturating_sub(waited));
    }
    Ok(())
}

fn ping_like_java(
    address: SocketAddr,
    mut wire: Wire,
    stop: &AtomicBool,
    noticed: &Mutex<Noticed>,
) -> io::Result<()> {
    wire.set_patience(READ_TIMEOUT - PING_INTERVAL)?;
    let mut silent_since = None;
    while !stop.load(Ordering::Relaxed) {
        let start = *silent_since.get_or_insert_with(Instant::now);
        if wire.send(&ping()).and_then(|()| wire.receive()).is_ok() {
            let waited = start.elapsed();
            note(noticed, |noticed| noticed.waited(waited));
            silent_since = None;
            pause(PING_INTERVAL, stop);
            continue;
        }
        note(noticed, |noticed| noticed.given_up += 1);
        let Ok(resumed) = Wire::resume(address, &wire.welcome) else { continue };
        let waited = start.elapsed();
        wire = resumed;
        wire.set_patience(READ_TIMEOUT - PING_INTERVAL)?;
        if wire.welcome.is_refused() {
            note(noticed, |noticed| {
                noticed.expired += 1;
                noticed.waited(waited);
            });
            let Some(connected) = connect_anew(address, stop) else { break };
            wire = connected;
            wire.set_patience(READ_TIMEOUT - PING_INTERVAL)?;
            silent_since = None;
        }
    }
    Ok(())
}

/// Opens a new session, or returns `None` when the victims are stopped. A server that has too much to
/// do may close connections before it answers a handshake, so this tries again.
fn connect_anew(address: SocketAddr, stop: &AtomicBool) -> Option<Wire> {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(wire) = Wire::connect(address) {
            return Some(wire);
        }
        std::thread::sleep(PROBE_INTERVAL);
    }
    None
}

/// Waits, but not after the victims were told to stop.
fn pause(duration: Duration, stop: &AtomicBool) {
    let start = Instant::now();
    while start.elapsed() < duration && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PROBE_INTERVAL);
    }
}
