//! Connections in process that are cut, and whose frames are delayed or lost, in both directions.
//!
//! Each frame that arrives and each one that the server sends passes the oracle. The frames of one
//! direction keep their order, as over TCP.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tokio::sync::Notify;
use tokio::time::Instant;
use zoolet_protocol::{Dial, Dialing, Disconnected, Transport};

use super::model::ConnectionId;
use super::oracle::Oracle;

/// All connections to a server that stops and starts.
#[derive(Clone)]
pub(crate) struct Network(Arc<NetworkState>);

struct NetworkState {
    oracle: Arc<Oracle>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// `None` while no server runs.
    server: Option<Arc<dyn Dial>>,
    last_connection: ConnectionId,
    connections: Vec<Weak<Connection>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[allow(clippy::disallowed_methods, reason = "the time of the run is tokio's")]
fn now() -> Instant {
    Instant::now()
}

/// The faults between one client and the server.
#[derive(Debug)]
struct Faults {
    rng: Rng,
    /// Frames are delayed by up to this many milliseconds.
    delay_ms_max: u64,
    /// No frame arrives before this time.
    held_until: Option<Instant>,
    /// No connection succeeds before this time.
    refused_until: Option<Instant>,
    /// After how many more requests the connection is lost, with their replies.
    cut_after: Option<u64>,
}

/// The link of one client to the server.
#[derive(Clone)]
pub(crate) struct Link {
    network: Network,
    faults: Arc<Mutex<Faults>>,
}

impl Network {
    pub(crate) fn new(oracle: Arc<Oracle>) -> Self {
        Self(Arc::new(NetworkState { oracle, inner: Mutex::default() }))
    }

    /// Creates the link of one more client, without faults.
    pub(crate) fn link(&self, seed: u64) -> Link {
        let faults = Faults {
            rng: Rng::with_seed(seed),
            delay_ms_max: 0,
            held_until: None,
            refused_until: None,
            cut_after: None,
        };
        Link { network: self.clone(), faults: Arc::new(Mutex::new(faults)) }
    }

    /// Lets clients connect to a server, or to none.
    pub(crate) fn serve(&self, server: Option<Arc<dyn Dial>>) {
        lock(&self.0.inner).server = server;
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        lock(&self.0.inner).connections.iter().filter_map(Weak::upgrade).collect()
    }

    /// The server is gone, and with it all connections and all frames in flight.
    pub(crate) fn lose_server(&self) {
        self.serve(None);
        for connection in self.connections() {
            connection.lose_server_side();
            connection.lose_client_side();
        }
    }

    /// Passes everything that the server has sent to the oracle.
    pub(crate) fn drain(&self) {
        for connection in self.connections() {
            connection.wake();
        }
    }

    /// Delivers one frame in flight at once, as another thread might do at this moment.
    pub(crate) fn let_one_arrive(&self) {
        for connection in self.connections() {
            if connection.deliver_first() {
                return;
            }
        }
    }
}

impl Link {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }

    pub(crate) fn delay(&self, ms_max: u64) {
        self.faults().delay_ms_max = ms_max;
    }

    pub(crate) fn hold(&self, time: Duration) {
        self.faults().held_until = Some(now() + time);
    }

    pub(crate) fn refuse(&self, time: Duration) {
        self.faults().refused_until = Some(now() + time);
    }

    pub(crate) fn cut_after(&self, requests: u64) {
        self.faults().cut_after = Some(requests);
    }

    /// Cuts the connection. Until the server notices, frames in flight still arrive there.
    /// there.
    pub(crate) fn cut(&self, noticed_after: Duration) {
        for connection in self.network.connections() {
            if Arc::ptr_eq(&connection.link.faults, &self.faults) {
                connection.lose_client_side();
                connection.lose_server_side_after(noticed_after);
            }
        }
    }

    /// Ends all faults of this link.
    pub(crate) fn clear(&self) {
        let mut faults = self.faults();
        faults.delay_ms_max = 0;
        (faults.held_until, faults.refused_until, faults.cut_after) = (None, None, None);
        drop(faults);
        for connection in self.network.connections() {
            connection.changed.notify_one();
        }
    }

    fn connect(&self) -> std::io::Result<Box<dyn Transport>> {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let server = lock(&self.network.0.inner).server.clone().ok_or_else(refused)?;
        if self.faults().refused_until.is_some_and(|until| now() < until) {
            return Err(refused());
        }
        // In process a dial completes at once.
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(inner) = server.dial().as_mut().poll(&mut context) else {
            return Err(refused());
        };
        let inner: Arc<dyn Transport> = inner?.into();
        let is_single_node = inner.is_single_node();
        let mut network = lock(&self.network.0.inner);
        network.last_connection += 1;
        let id = network.last_connection;
        let connection = Arc::new(Connection {
            id,
            is_single_node,
            link: self.clone(),
            state: Mutex::new(LinkState { inner: Some(inner), ..LinkState::default() }),
            changed: Notify::new(),
            is_busy: AtomicBool::new(false),
        });
        network.connections.retain(|connection| connection.strong_count() > 0);
        network.connections.push(Arc::downgrade(&connection));
        drop(network);
        connection.oracle().opened(id);
        tokio::spawn(deliver_until_closed(Arc::clone(&connection)));
        Ok(Box::new(ClientSide(connection)))
    }
}

impl Dial for Link {
    fn dial(&self) -> Dialing {
        let link = self.clone();
        Box::pin(async move {
            let late_ms = {
                let mut faults = link.faults();
                let delay_ms_max = faults.delay_ms_max;
                faults.rng.u64(..=delay_ms_max)
            };
            if late_ms > 0 {
                tokio::time::sleep(Duration::from_millis(late_ms)).await;
            }
            link.connect()
        })
    }

    fn servers(&self) -> usize {
        lock(&self.network.0.inner).server.as_ref().map_or(1, |server| server.servers())
    }
}

/// One connection.
struct Connection {
    id: ConnectionId,
    is_single_node: bool,
    link: Link,
    state: Mutex<LinkState>,
    changed: Notify,
    /// Whether the server is handling one of its frames.
    is_busy: AtomicBool,
}

#[derive(Default)]
struct LinkState {
    /// The server's side, until it notices that the connection is closed.
    inner: Option<Arc<dyn Transport>>,
    is_client_gone: bool,
    is_server_done: bool,
    to_server: VecDeque<(Instant, Bytes)>,
    to_client: VecDeque<(Instant, Bytes)>,
    receiver: Option<Waker>,
}

impl Connection {
    fn oracle(&self) -> &Arc<Oracle> {
        &self.link.network.0.oracle
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        lock(&self.state)
    }

    /// When a frame that is sent now arrives: behind those in flight.
    fn arrival(&self, in_flight: &VecDeque<(Instant, Bytes)>) -> Instant {
        let now = now();
        let mut faults = self.link.faults();
        let delay_ms_max = faults.delay_ms_max;
        let late = Duration::from_millis(faults.rng.u64(..=delay_ms_max));
        in_flight.back().map_or(now + late, |(last, _)| *last.max(&(now + late)))
    }

    fn is_held(&self) -> bool {
        self.link.faults().held_until.is_some_and(|until| until > now())
    }

    /// When the first frame of a queue arrives: not before the link stops holding frames.
    fn due(&self, in_flight: &VecDeque<(Instant, Bytes)>) -> Option<Instant> {
        let (due, _) = in_flight.front()?;
        let held_until = self.link.faults().held_until;
        Some(held_until.map_or(*due, |until| until.max(*due)))
    }

    /// Passes a frame to the server.
    fn deliver(&self, frame: Bytes) {
        let Some(inner) = self.state().inner.clone() else { return };
        self.is_busy.store(true, Ordering::Relaxed);
        let was_open = self.oracle().look(|model| model.is_open(self.id));
        self.oracle().request(self.id, &frame);
        let was_taken = inner.send(frame).is_ok();
        self.is_busy.store(false, Ordering::Relaxed);
        self.oracle().handled(self.id, was_taken, was_open);
    }

    /// Passes the first frame in flight to the server, if there is one.
    fn deliver_first(&self) -> bool {
        if self.is_busy.load(Ordering::Relaxed) {
            return false;
        }
        let first = self.state().to_server.pop_front();
        let Some((_, frame)) = first else { return false };
        self.deliver(frame);
        self.wake();
        true
    }

    /// Delivers the frames that are due, and returns when the next one is.
    fn deliver_due(&self) -> Option<Instant> {
        loop {
            let mut state = self.state();
            let due = self.due(&state.to_server);
            if due.is_none_or(|due| due > now()) {
                let next = self.due(&state.to_client);
                if next.is_some_and(|next| next <= now()) {
                    let receiver = state.receiver.take();
                    drop(state);
                    receiver.inspect(Waker::wake_by_ref);
                    return due;
                }
                return due.into_iter().chain(next).min();
            }
            let frame = state.to_server.pop_front();
            drop(state);
            if let Some((_, frame)) = frame {
                self.deliver(frame);
            }
            self.wake();
        }
    }

    fn wake(&self) {
        let receiver = self.state().receiver.clone();
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }

    /// Closes the connection at the client.
    fn lose_client_side(&self) {
        let mut state = self.state();
        state.is_client_gone = true;
        state.to_client.clear();
        drop(state);
        self.wake();
    }

    /// Closes the connection at the server.
    fn lose_server_side(&self) {
        let mut state = self.state();
        state.to_server.clear();
        let inner = state.inner.take();
        drop(state);
        if inner.is_some() {
            self.oracle().closed(self.id);
        }
        drop(inner);
        self.changed.notify_one();
    }

    fn lose_server_side_after(self: Arc<Self>, time: Duration) {
        if time.is_zero() {
            return self.lose_server_side();
        }
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            self.lose_server_side();
        });
    }

    /// Counts a sent request, and returns whether the connection is lost now.
    fn is_cut_now(&self) -> bool {
        let mut faults = self.link.faults();
        match &mut faults.cut_after {
            Some(0) => {
                faults.cut_after = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        let is_cut = self.is_cut_now();
        let mut state = self.state();
        if state.is_client_gone || state.inner.is_none() {
            return Err(Disconnected);
        }
        let arrival = self.arrival(&state.to_server);
        // The server handles a delayed frame without the client's lock, and may wake the client.
        let is_busy = self.is_busy.load(Ordering::Relaxed);
        if state.to_server.is_empty() && arrival <= now() && !self.is_held() && !is_busy {
            drop(state);
            self.deliver(frame);
        } else {
            state.to_server.push_back((arrival, frame));
            drop(state);
            self.changed.notify_one();
        }
        if is_cut {
            // The request has arrived or will arrive, and its reply will not.
            self.state().is_client_gone = true;
        }
        Ok(())
    }

    /// Takes what the server has sent, and wakes the receiver when there is more.
    fn drain(&self, context: &mut Context<'_>) {
        loop {
            let Some(inner) = self.state().inner.clone() else { return };
            match inner.poll_receive(context) {
                Poll::Pending => {
                    // The reply to the request being handled is still to come.
                    if !self.is_busy.load(Ordering::Relaxed) {
                        self.oracle().drained(self.id);
                    }
                    return;
                }
                Poll::Ready(None) => {
                    self.state().is_server_done = true;
                    return;
                }
                Poll::Ready(Some(frame)) => {
                    self.oracle().received(self.id, &frame);
                    let mut state = self.state();
                    if !state.is_client_gone {
                        let arrival = self.arrival(&state.to_client);
                        state.to_client.push_back((arrival, frame));
                    }
                }
            }
        }
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.drain(context);
        let mut state = self.state();
        if state.is_client_gone {
            return Poll::Ready(None);
        }
        match self.due(&state.to_client) {
            Some(due) if due <= now() => {
                return Poll::Ready(state.to_client.pop_front().map(|(_, frame)| frame));
            }
            None if state.is_server_done || state.inner.is_none() => return Poll::Ready(None),
            _ => {}
        }
        state.receiver = Some(context.waker().clone());
        if !state.to_client.is_empty() {
            drop(state);
            self.changed.notify_one();
        }
        Poll::Pending
    }
}

/// Delivers delayed frames until the server's side is closed.
async fn deliver_until_closed(connection: Arc<Connection>) {
    while connection.state().inner.is_some() {
        let next = connection.deliver_due();
        let late = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = connection.changed.notified() => {}
            () = late => {}
        }
    }
}

/// The client's side of a connection.
struct ClientSide(Arc<Connection>);

impl Transport for ClientSide {
    fn is_local(&self) -> bool {
        true
    }

    fn is_single_node(&self) -> bool {
        self.0.is_single_node
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        self.0.send(frame)
    }

    fn flush(&self) -> Result<(), Disconnected> {
        Ok(())
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_receive(context)
    }
}

impl Drop for ClientSide {
    fn drop(&mut self) {
        self.0.state().is_client_gone = true;
        // Frames in flight arrive before the end of the connection.
        let last = self.0.state().to_server.back().map(|(last, _)| *last);
        match last {
            Some(last) => {
                let connection = Arc::clone(&self.0);
                let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
                runtime.spawn(async move {
                    tokio::time::sleep_until(last).await;
                    connection.lose_server_side();
                });
            }
            None => self.0.lose_server_side(),
        }
    }
}
