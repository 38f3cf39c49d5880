//! A proxy between clients and a server. It counts what it passes on, and can cut, hold and lose
//! messages as a network can.

#![expect(clippy::disallowed_types, reason = "real time passes here, and no run repeats")]

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::{FrameCodec, Incoming, OpCode, Xid, decode_incoming, decode_request};

/// A proxy in front of a server.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// The server for new connections.
    server: Mutex<SocketAddr>,
    /// The number of connections to it.
    connections: AtomicUsize,
    is_refusing: AtomicBool,
    /// Whether replies and events are lost.
    is_deaf: AtomicBool,
    /// Whether replies and events are held back.
    is_holding: watch::Sender<bool>,
    /// The milliseconds by which each direction is delayed.
    delay_ms: AtomicU64,
    /// How many times all connections were cut.
    cuts: watch::Sender<usize>,
    armed_cut: Mutex<Option<ArmedCut>>,
    counts: Mutex<Counts>,
}

/// A cut that happens when a client acts on an event.
#[derive(Debug)]
struct ArmedCut {
    was_event_heard: bool,
    /// The number of requests that pass between the event and the cut.
    passes: usize,
    /// The server for connections after the cut.
    server: SocketAddr,
}

/// What the proxy has passed on, without handshakes and pings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of requests for each operation.
    pub requests: BTreeMap<OpCode, usize>,
    /// The number of flights: consecutive requests without a reply between them.
    pub flights: usize,
    /// The number of events.
    pub events: usize,
    /// The number of replies.
    pub replies: usize,
    /// Whether a request was sent after the last reply.
    is_in_flight: bool,
}

impl Counts {
    /// The number of all requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.values().sum()
    }
}

/// The direction of a frame.
#[derive(Debug, Clone, Copy)]
enum Direction {
    ToServer,
    ToClient,
}

impl Proxy {
    /// Starts a proxy in front of the server at this address.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server: Mutex::new(server),
            connections: AtomicUsize::new(0),
            is_refusing: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            is_holding: watch::Sender::new(false),
            delay_ms: AtomicU64::new(0),
            cuts: watch::Sender::new(0),
            armed_cut: Mutex::default(),
            counts: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _accepting: AbortOnDropHandle::new(accepting) })
    }

    /// The address for clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections. When this returns, nothing passes over them any more. New connections
    /// work, unless they are refused.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Arms a cut. The next event and `passes` requests after it pass; the request after those is
    /// lost, all connections are cut, and new ones lead to another server.
    pub fn cut_after_event(&self, passes: usize, server: SocketAddr) {
        let armed_cut = ArmedCut { was_event_heard: false, passes, server };
        *self.shared.armed_cut() = Some(armed_cut);
    }

    /// Whether the armed cut has happened and a client has connected to the other server.
    #[must_use]
    pub fn was_cut_after_event(&self) -> bool {
        self.shared.armed_cut().is_none() && self.shared.connections.load(Ordering::SeqCst) > 0
    }

    /// Holds replies and events back, or passes them on. Requests reach the server.
    pub fn hold_answers(&self, hold: bool) {
        self.shared.is_holding.send_replace(hold);
    }

    /// Delays both directions from now on, so that a round trip takes twice as long.
    pub fn delay(&self, delay: Duration) {
        let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.shared.delay_ms.store(ms, Ordering::SeqCst);
    }

    /// Refuses new connections, or accepts them again.
    pub fn refuse(&self, refuse: bool) {
        self.shared.is_refusing.store(refuse, Ordering::SeqCst);
    }

    /// Loses replies and events until the next cut. Requests reach the server.
    pub fn deafen(&self) {
        self.shared.is_deaf.store(true, Ordering::SeqCst);
    }

    /// What was passed on since the last reset.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts().clone()
    }

    /// Resets the counts.
    pub fn reset_counts(&self) {
        *self.shared.counts() = Counts::default();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_refusing.store(true, Ordering::SeqCst);
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        // This comes before the check of `is_refusing`, so that no connection survives a refusal
        // and the cut after it.
        let cuts = shared.cuts.subscribe();
        let cuts_before = *cuts.borrow();
        if !shared.is_refusing.load(Ordering::SeqCst) {
            tokio::spawn(serve(client, Arc::clone(&shared), cuts, cuts_before));
        }
    }
}

async fn serve(
    client: TcpStream,
    shared: Arc<Shared>,
    mut cuts: watch::Receiver<usize>,
    cuts_before: usize,
) {
    let address = *shared.server();
    let Ok(server) = TcpStream::connect(address).await else { return };
    shared.connections.fetch_add(1, Ordering::SeqCst);
    // This fails if a socket is closed already, which shows below.
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        _ = shared.pass_on(from_client, to_server, Direction::ToServer, cuts_before) => {}
        _ = shared.pass_on(from_server, to_client, Direction::ToClient, cuts_before) => {}
        _ = cuts.changed() => {}
    }
}

impl Shared {
    async fn pass_on(
        &self,
        mut source: OwnedReadHalf,
        mut sink: OwnedWriteHalf,
        direction: Direction,
        cuts_before: usize,
    ) -> io::Result<()> {
        let codec = FrameCodec::new(i32::MAX as usize);
        let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
        let mut is_handshake = true;
        let mut is_holding = self.is_holding.subscribe();
        while source.read_buf(&mut input).await? > 0 {
            while let Some(frame) = codec.next_frame(&mut input).map_err(io::Error::other)? {
                if !std::mem::take(&mut is_handshake) {
                    if self.cuts_here(&frame, direction) {
                        // Earlier frames still arrive.
                        sink.write_all_buf(&mut output).await?;
                        self.cut();
                        return Ok(());
                    }
                    self.count(&frame, direction);
                }
                FrameCodec::put(&frame, &mut output);
            }
            let delay = Duration::from_millis(self.delay_ms.load(Ordering::SeqCst));
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if matches!(direction, Direction::ToClient) {
                // This cannot fail: the proxy exists as long as its connections.
                let _ = is_holding.wait_for(|is_holding| !is_holding).await;
            }
            // The order matters: a cut first ends the connections and then stops the loss.
            let is_lost =
                matches!(direction, Direction::ToClient) && self.is_deaf.load(Ordering::SeqCst);
            if *self.cuts.borrow() != cuts_before {
                break;
            }
            if is_lost {
                output.clear();
            } else {
                sink.write_all_buf(&mut output).await?;
            }
        }
        Ok(())
    }

    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
        self.is_deaf.store(false, Ordering::SeqCst);
    }

    /// Whether the armed cut happens at this frame.
    fn cuts_here(&self, frame: &Bytes, direction: Direction) -> bool {
        let mut waiting = self.armed_cut();
        let Some(armed_cut) = &mut *waiting else { return false };
        match direction {
            Direction::ToClient => {
                let incoming = decode_incoming(frame);
                armed_cut.was_event_heard |= matches!(incoming, Ok(Incoming::Event { .. }));
                false
            }
            Direction::ToServer if !armed_cut.was_event_heard || !is_counted_request(frame) => {
                false
            }
            Direction::ToServer if armed_cut.passes > 0 => {
                armed_cut.passes -= 1;
                false
            }
            Direction::ToServer => {
                *self.server() = armed_cut.server;
                self.connections.store(0, Ordering::SeqCst);
                *waiting = None;
                true
            }
        }
    }

    fn armed_cut(&self) -> MutexGuard<'_, Option<ArmedCut>> {
        self.armed_cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self) -> MutexGuard<'_, SocketAddr> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, frame: &Bytes, direction: Direction) {
        match direction {
            Direction::ToServer => match decode_request(frame) {
                Ok((header, _)) if header.op != OpCode::PING => {
                    let mut counts = self.counts();
                    *counts.requests.entry(header.op).or_default() += 1;
                    counts.flights += usize::from(!counts.is_in_flight);
                    counts.is_in_flight = true;
                }
                _ => {}
            },
            Direction::ToClient => match decode_incoming(frame) {
                Ok(Incoming::Event { .. }) => self.counts().events += 1,
                Ok(Incoming::Reply { header, .. }) if header.xid != Xid::PING => {
                    let mut counts = self.counts();
                    counts.replies += 1;
                    counts.is_in_flight = false;
                }
                _ => {}
            },
        }
    }
}

/// Whether a frame of a client is a request other than a ping.
fn is_counted_request(frame: &Bytes) -> bool {
    decode_request(frame).is_ok_and(|(header, _)| header.op != OpCode::PING)
}
