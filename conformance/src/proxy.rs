//! Between a client and a server: a proxy that counts what it passes on, and does to connections
//! what a network may do.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Where new connections lead to.
    server: Mutex<SocketAddr>,
    /// How many connections were made there.
    connections: AtomicUsize,
    is_refusing: AtomicBool,
    /// Answers and events are lost.
    is_deaf: AtomicBool,
    /// Answers and events wait.
    is_holding: watch::Sender<bool>,
    /// How often all connections were cut.
    cuts: watch::Sender<usize>,
    ambush: Mutex<Option<Ambush>>,
    counts: Mutex<Counts>,
}

/// A cut that waits for a client to act on an event.
#[derive(Debug)]
struct Ambush {
    was_event_heard: bool,
    /// How many requests pass between the event and the cut.
    passes: usize,
    /// Where the client is led to.
    server: SocketAddr,
}

/// What was passed on, handshakes and pings apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests by their operation.
    pub requests: BTreeMap<OpCode, usize>,
    /// How often requests were sent after an answer had come.
    pub flights: usize,
    /// Events.
    pub events: usize,
    /// Whether the next request is the first since an answer came.
    is_in_flight: bool,
}

impl Counts {
    /// How many requests there were.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.values().sum()
    }
}

/// What goes which way.
#[derive(Debug, Clone, Copy)]
enum Way {
    ToServer,
    ToClient,
}

impl Proxy {
    /// A proxy in front of the server at this address.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server: Mutex::new(server),
            connections: AtomicUsize::new(0),
            is_refusing: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            is_holding: watch::Sender::new(false),
            cuts: watch::Sender::new(0),
            ambush: Mutex::default(),
            counts: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _accepting: AbortOnDropHandle::new(accepting) })
    }

    /// Where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections: nothing passes any more when this returns. New ones are taken, unless
    /// they are refused, and hear everything.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Waits for the next event, lets that and `passes` requests after it pass, cuts all connections
    /// in place of one request more, and leads new ones to another server.
    pub fn cut_after_event(&self, passes: usize, server: SocketAddr) {
        let ambush = Ambush { was_event_heard: false, passes, server };
        *self.shared.ambush() = Some(ambush);
    }

    /// Whether such a cut was made, and a connection to the other server.
    #[must_use]
    pub fn was_ambush_sprung(&self) -> bool {
        self.shared.ambush().is_none() && self.shared.connections.load(Ordering::SeqCst) > 0
    }

    /// Whether answers and events wait here. Requests reach the server.
    pub fn hold_answers(&self, hold: bool) {
        self.shared.is_holding.send_replace(hold);
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, refuse: bool) {
        self.shared.is_refusing.store(refuse, Ordering::SeqCst);
    }

    /// From now until the next cut requests reach the server, and nothing reaches the client.
    pub fn deafen(&self) {
        self.shared.is_deaf.store(true, Ordering::SeqCst);
    }

    /// What was passed on since it was last forgotten.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts().clone()
    }

    /// Counts from nothing again.
    pub fn forget(&self) {
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
        // Before the look at the refusal: a connection may not slip through between a refusal and
        // the cut after it.
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
    // Fails for a socket that is closed already, which is noticed below.
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        _ = shared.pass_on(from_client, to_server, Way::ToServer, cuts_before) => {}
        _ = shared.pass_on(from_server, to_client, Way::ToClient, cuts_before) => {}
        _ = cuts.changed() => {}
    }
}

impl Shared {
    async fn pass_on(
        &self,
        mut source: OwnedReadHalf,
        mut sink: OwnedWriteHalf,
        way: Way,
        cuts_before: usize,
    ) -> io::Result<()> {
        let codec = FrameCodec::new(i32::MAX as usize);
        let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
        let mut is_handshake = true;
        let mut is_holding = self.is_holding.subscribe();
        while source.read_buf(&mut input).await? > 0 {
            while let Some(frame) = codec.next_frame(&mut input).map_err(io::Error::other)? {
                if !std::mem::take(&mut is_handshake) {
                    if self.springs_ambush(&frame, way) {
                        // What was sent before is no victim of it.
                        sink.write_all_buf(&mut output).await?;
                        self.cut();
                        return Ok(());
                    }
                    self.count(&frame, way);
                }
                FrameCodec::put(&frame, &mut output);
            }
            if matches!(way, Way::ToClient) {
                // The proxy lives as long as its connections.
                let _ = is_holding.wait_for(|is_holding| !is_holding).await;
            }
            // In this order: a cut ends the deafness after it has ended the connection.
            let is_lost = matches!(way, Way::ToClient) && self.is_deaf.load(Ordering::SeqCst);
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

    /// Whether all connections are to be cut in place of this frame.
    fn springs_ambush(&self, frame: &Bytes, way: Way) -> bool {
        let mut waiting = self.ambush();
        let Some(ambush) = &mut *waiting else { return false };
        match way {
            Way::ToClient => {
                let incoming = decode_incoming(frame);
                ambush.was_event_heard |= matches!(incoming, Ok(Incoming::Event { .. }));
                false
            }
            Way::ToServer if !ambush.was_event_heard || !is_counted_request(frame) => false,
            Way::ToServer if ambush.passes > 0 => {
                ambush.passes -= 1;
                false
            }
            Way::ToServer => {
                *self.server() = ambush.server;
                self.connections.store(0, Ordering::SeqCst);
                *waiting = None;
                true
            }
        }
    }

    fn ambush(&self) -> MutexGuard<'_, Option<Ambush>> {
        self.ambush.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self) -> MutexGuard<'_, SocketAddr> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, frame: &Bytes, way: Way) {
        match way {
            Way::ToServer => match decode_request(frame) {
                Ok((header, _)) if header.op != OpCode::PING => {
                    let mut counts = self.counts();
                    *counts.requests.entry(header.op).or_default() += 1;
                    counts.flights += usize::from(!counts.is_in_flight);
                    counts.is_in_flight = true;
                }
                _ => {}
            },
            Way::ToClient => match decode_incoming(frame) {
                Ok(Incoming::Event { .. }) => self.counts().events += 1,
                Ok(Incoming::Reply { header, .. }) if header.xid != Xid::PING => {
                    self.counts().is_in_flight = false;
                }
                _ => {}
            },
        }
    }
}

/// Whether a frame of a client is a request, and no ping.
fn is_counted_request(frame: &Bytes) -> bool {
    decode_request(frame).is_ok_and(|(header, _)| header.op != OpCode::PING)
}
