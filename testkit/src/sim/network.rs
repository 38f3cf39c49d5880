//! The network of a simulation: connections in process that are cut, and whose frames are delayed,
//! held back or lost, in both directions.
//!
//! A [`Tap`] sees each frame that arrives and each one that the server sends. The frames of one
//! direction keep their order, as over TCP.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use zoolet_protocol::{Dial, Dialing, Transport};

use super::connection::{ClientSide, Connection};
use super::link_faults::{LinkFaults, LinkState};
use super::tap::{ConnectionNumber, Tap};

/// All connections to a server that stops and starts. Clones share them.
#[derive(Clone)]
pub struct Network(Arc<NetworkState>);

struct NetworkState {
    tap: Arc<dyn Tap>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// `None` while no server runs.
    server: Option<Arc<dyn Dial>>,
    last_connection: ConnectionNumber,
    connections: Vec<Weak<Connection>>,
}

/// The link of one client to the server. Clones share it.
#[derive(Clone)]
pub struct Link {
    network: Network,
    state: LinkState,
}

impl Network {
    /// A network without a server.
    pub fn new(tap: Arc<dyn Tap>) -> Self {
        Self(Arc::new(NetworkState { tap, inner: Mutex::default() }))
    }

    /// Creates one more link, without faults. `number` is its name for the tap. Each frame takes at
    /// least `latency_ms`, and up to a millisecond more; with 0 the server handles it in the sender's
    /// call.
    #[must_use]
    pub fn link(&self, number: usize, seed: u64, latency_ms: u64) -> Link {
        let faults = LinkFaults::none(seed, latency_ms);
        Link { network: self.clone(), state: LinkState::new(number, faults) }
    }

    /// Lets clients connect to a server, or to none.
    pub fn serve(&self, server: Option<Arc<dyn Dial>>) {
        self.0.inner.lock().server = server;
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        self.0.inner.lock().connections.iter().filter_map(Weak::upgrade).collect()
    }

    /// The server is gone, and with it all connections and all frames in flight.
    pub fn lose_server(&self) {
        self.serve(None);
        for connection in self.connections() {
            connection.lose_server_side();
            connection.lose_client_side();
        }
    }

    fn end(&self) {
        self.serve(None);
        for connection in self.connections() {
            connection.end();
        }
    }

    /// Passes everything that the server has sent to the tap.
    pub fn drain(&self) {
        for connection in self.connections() {
            connection.wake();
        }
    }

    /// Delivers one frame in flight at once, as another thread might do at this moment.
    pub fn let_one_arrive(&self) {
        for connection in self.connections() {
            if connection.deliver_first() {
                return;
            }
        }
    }
}

impl Link {
    fn faults(&self) -> MutexGuard<'_, LinkFaults> {
        self.state.faults()
    }

    fn connections(&self) -> impl Iterator<Item = Arc<Connection>> {
        let all = self.network.connections().into_iter();
        all.filter(|connection| connection.link.is_same(&self.state))
    }

    /// Delays each frame by up to this many milliseconds from now on.
    pub fn delay(&self, ms_max: u64) {
        self.faults().delay(ms_max);
    }

    /// Delays each frame of a session by up to this many milliseconds from now on, and no new connection.
    pub(super) fn be_late(&self, ms_max: u64) {
        self.faults().be_late(ms_max);
    }

    /// Delays each frame by up to this many milliseconds for a time. Of several such delays, the
    /// greatest counts.
    pub(super) fn delay_for(&self, ms_max: u64, time: Duration) {
        self.faults().delay_for(ms_max, time);
    }

    /// Holds back all frames for a time, in both directions.
    pub fn hold(&self, time: Duration) {
        let mut faults = self.faults();
        faults.hold_requests(time);
        faults.hold_replies(time);
    }

    /// Holds back all frames to the client for a time.
    pub fn hold_replies(&self, time: Duration) {
        self.faults().hold_replies(time);
    }

    /// Refuses connections for a time.
    pub fn refuse(&self, time: Duration) {
        self.faults().refuse(time);
    }

    /// The run is over: no connection of any link keeps a client or a server.
    pub(super) fn end_network(&self) {
        self.network.end();
    }

    /// Cuts the connection when this many more requests were sent. The last of them arrives, and its
    /// reply does not.
    pub fn cut_after(&self, requests: u64) {
        self.faults().cut_after(requests);
    }

    /// Cuts the connection. Until the server notices, frames in flight still arrive there.
    pub fn cut(&self, noticed_after: Duration) {
        for connection in self.connections() {
            connection.lose_client_side();
            connection.lose_server_side_after(noticed_after);
        }
    }

    /// The machine stands still: it receives nothing until [`Link::resume`].
    pub(super) fn pause(&self) {
        self.faults().is_paused = true;
    }

    pub(super) fn resume(&self) {
        self.faults().is_paused = false;
        self.connections().for_each(|connection| connection.wake());
    }

    /// The machine has crashed. What it has sent still arrives; the server notices the end of the
    /// connections after a while, if at all.
    pub(super) fn end(&self, noticed_after: Option<Duration>) {
        self.state.end();
        for connection in self.connections() {
            connection.lose_client_side();
            match noticed_after {
                None => {}
                Some(Duration::ZERO) => {
                    tokio::spawn(connection.lose_server_side_in_turn());
                }
                Some(after) => connection.lose_server_side_after(after),
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// The link of the same machine after it was started again.
    pub(super) fn successor(&self) -> Self {
        Self { network: self.network.clone(), state: self.state.successor() }
    }

    /// Ends all faults of this link.
    pub fn clear(&self) {
        self.faults().clear();
        self.connections().for_each(|connection| connection.changed.notify_one());
    }

    fn connect(&self) -> std::io::Result<Box<dyn Transport>> {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let server = self.network.0.inner.lock().server.clone().ok_or_else(refused)?;
        if self.is_over() || self.faults().are_connections_refused() {
            return Err(refused());
        }
        // In process a dial completes at once.
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(inner) = server.dial().as_mut().poll(&mut context) else {
            return Err(refused());
        };
        let inner: Arc<dyn Transport> = inner?.into();
        let mut network = self.network.0.inner.lock();
        network.last_connection += 1;
        let number = network.last_connection;
        let chance = self.faults().next_connection();
        let tap = Arc::clone(&self.network.0.tap);
        let connection = Connection::open(number, tap, self.state.clone(), inner, chance);
        network.connections.retain(|connection| connection.strong_count() > 0);
        network.connections.push(Arc::downgrade(&connection));
        drop(network);
        self.network.0.tap.opened(number, self.state.number);
        tokio::spawn(Arc::clone(&connection).deliver_until_closed());
        Ok(Box::new(ClientSide(connection)))
    }
}

impl Dial for Link {
    fn dial(&self) -> Dialing {
        let link = self.clone();
        Box::pin(async move {
            let late_ms = link.faults().dial_ms();
            if late_ms > 0 {
                tokio::time::sleep(Duration::from_millis(late_ms)).await;
            }
            link.connect()
        })
    }

    fn servers(&self) -> usize {
        self.network.0.inner.lock().server.as_ref().map_or(1, |server| server.servers())
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn is_gone(&self) -> bool {
        self.is_over()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zoolet_protocol::Disconnected;

    use super::super::link_faults::JITTER_MS;
    use super::*;
    use crate::clock::now;

    #[derive(Clone, Default)]
    struct Arrivals(Arc<Mutex<Vec<Bytes>>>);

    impl Tap for Arrivals {
        fn opened(&self, _connection: ConnectionNumber, _link: usize) {}

        fn closed(&self, _connection: ConnectionNumber) {}

        fn arrived(&self, _: ConnectionNumber, frame: &Bytes, handle: &mut dyn FnMut() -> bool) {
            self.0.lock().push(frame.clone());
            handle();
        }

        fn sent(&self, _connection: ConnectionNumber, _frame: &Bytes) {}
    }

    /// A server that never answers.
    struct Mute;

    impl Transport for Mute {
        fn is_local(&self) -> bool {
            true
        }

        fn send(&self, _frame: Bytes) -> Result<(), Disconnected> {
            Ok(())
        }

        fn flush(&self) -> Result<(), Disconnected> {
            Ok(())
        }

        fn poll_receive(&self, _context: &mut Context<'_>) -> Poll<Option<Bytes>> {
            Poll::Pending
        }
    }

    impl Dial for Mute {
        fn dial(&self) -> Dialing {
            Box::pin(async { Ok(Box::new(Self) as Box<dyn Transport>) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_arrives_before_its_connection_ends_also_if_it_is_held_back() {
        let arrivals = Arrivals::default();
        let network = Network::new(Arc::new(arrivals.clone()));
        network.serve(Some(Arc::new(Mute)));
        let link = network.link(0, 1, 1);
        let client = link.dial().await.expect("it serves");
        link.hold(Duration::from_secs(2));
        client.send(Bytes::from_static(b"request")).expect("it is connected");
        drop(client);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(arrivals.0.lock().is_empty(), "it is held back");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(*arrivals.0.lock(), [&b"request"[..]]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_lost_connection_cannot_send_does_not_count_for_a_cut() {
        let network = Network::new(Arc::new(Arrivals::default()));
        network.serve(Some(Arc::new(Mute)));
        let link = network.link(0, 1, 1);
        let client = link.dial().await.expect("it serves");
        link.cut(Duration::ZERO);
        link.cut_after(0);
        client.send(Bytes::from_static(b"lost")).expect_err("it is cut already");
        let client = link.dial().await.expect("it serves");
        let mut context = Context::from_waker(Waker::noop());
        assert!(client.poll_receive(&mut context).is_pending());
        client.send(Bytes::from_static(b"request")).expect("it is connected");
        assert_eq!(
            client.poll_receive(&mut context),
            Poll::Ready(None),
            "it is cut after this one"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_two_lost_replies_cuts_a_connection() {
        let network = Network::new(Arc::new(Arrivals::default()));
        network.serve(Some(Arc::new(Mute)));
        let link = network.link(0, 1, 1);
        link.cut_after(0);
        link.cut_after(2);
        let mut lost = Vec::new();
        let mut client = link.dial().await.expect("it serves");
        for number in 1..=5 {
            client.send(Bytes::from_static(b"request")).expect("it is connected");
            let mut context = Context::from_waker(Waker::noop());
            if client.poll_receive(&mut context) == Poll::Ready(None) {
                lost.push(number);
                client = link.dial().await.expect("it serves");
            }
        }
        assert_eq!(lost, [1, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_does_not_shorten_another() {
        let network = Network::new(Arc::new(Arrivals::default()));
        let link = network.link(0, 1, 1);
        let latest = || (0..1_000).map(|_| link.faults().dial_ms()).max();
        assert_eq!(latest(), Some(1 + JITTER_MS), "without faults");
        link.delay_for(300, Duration::from_secs(2));
        link.delay_for(30, Duration::from_secs(1));
        assert!(latest() > Some(200), "the greater delay counts");
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(latest() > Some(200), "the shorter one has ended, and this one has not");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(latest(), Some(1 + JITTER_MS));

        link.hold(Duration::from_secs(5));
        link.hold_replies(Duration::from_secs(1));
        let due = link.faults().reply_due(now());
        assert_eq!(due, now() + Duration::from_secs(5));
        link.clear();
        assert_eq!(link.faults().reply_due(now()), now());
        let calls = network.link(1, 1, 0);
        assert!((0..100).all(|_| calls.faults().dial_ms() == 0), "the server is called directly");
    }
}
