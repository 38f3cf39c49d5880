//! Connections in process that are cut, and whose frames are late or never arrive, in both directions.
//!
//! What arrives, and what the server sends, passes the oracle. The order of frames of one direction is
//! kept, as TCP keeps it.

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

/// All connections to a server that comes and goes.
#[derive(Clone)]
pub(crate) struct Network(Arc<NetworkState>);

struct NetworkState {
    oracle: Arc<Oracle>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Nothing while there is no server.
    server: Option<Arc<dyn Dial>>,
    last_connection: ConnectionId,
    links: Vec<Weak<Link>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[allow(clippy::disallowed_methods, reason = "the time of the run is tokio's")]
fn now() -> Instant {
    Instant::now()
}

/// How things stand between one client and the server.
#[derive(Debug)]
struct Weather {
    rng: Rng,
    /// Frames are late by up to as many milliseconds.
    delay_ms_max: u64,
    /// Nothing arrives before.
    held_until: Option<Instant>,
    /// No connection is made before.
    refused_until: Option<Instant>,
    /// After how many more requests the connection is lost, with their answers.
    cut_after: Option<u64>,
}

/// A client's way to the server.
#[derive(Clone)]
pub(crate) struct Way {
    network: Network,
    weather: Arc<Mutex<Weather>>,
}

impl Network {
    pub(crate) fn new(oracle: Arc<Oracle>) -> Self {
        Self(Arc::new(NetworkState { oracle, inner: Mutex::default() }))
    }

    /// The way of one more client, in fair weather.
    pub(crate) fn way(&self, seed: u64) -> Way {
        let weather = Weather {
            rng: Rng::with_seed(seed),
            delay_ms_max: 0,
            held_until: None,
            refused_until: None,
            cut_after: None,
        };
        Way { network: self.clone(), weather: Arc::new(Mutex::new(weather)) }
    }

    /// Clients may connect to a server, or to none.
    pub(crate) fn serve(&self, server: Option<Arc<dyn Dial>>) {
        lock(&self.0.inner).server = server;
    }

    fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.0.inner).links.iter().filter_map(Weak::upgrade).collect()
    }

    /// The server is gone, and with it all connections and what was under way.
    pub(crate) fn lose_server(&self) {
        self.serve(None);
        for link in self.links() {
            link.lose_server_side();
            link.lose_client_side();
        }
    }

    /// Everything that the server has sent is looked at.
    pub(crate) fn drain(&self) {
        for link in self.links() {
            link.wake();
        }
    }

    /// Lets one frame that is under way arrive at once: what another thread might do just now.
    pub(crate) fn let_one_arrive(&self) {
        for link in self.links() {
            if link.deliver_first() {
                return;
            }
        }
    }
}

impl Way {
    fn weather(&self) -> MutexGuard<'_, Weather> {
        lock(&self.weather)
    }

    pub(crate) fn delay(&self, ms_max: u64) {
        self.weather().delay_ms_max = ms_max;
    }

    pub(crate) fn hold(&self, time: Duration) {
        self.weather().held_until = Some(now() + time);
    }

    pub(crate) fn refuse(&self, time: Duration) {
        self.weather().refused_until = Some(now() + time);
    }

    pub(crate) fn cut_after(&self, requests: u64) {
        self.weather().cut_after = Some(requests);
    }

    /// Cuts the connection. If the server does not notice for a time, what is under way still arrives
    /// there.
    pub(crate) fn cut(&self, noticed_after: Duration) {
        for link in self.network.links() {
            if Arc::ptr_eq(&link.way.weather, &self.weather) {
                link.lose_client_side();
                link.lose_server_side_after(noticed_after);
            }
        }
    }

    /// From now on all is well.
    pub(crate) fn clear(&self) {
        let mut weather = self.weather();
        weather.delay_ms_max = 0;
        (weather.held_until, weather.refused_until, weather.cut_after) = (None, None, None);
        drop(weather);
        for link in self.network.links() {
            link.changed.notify_one();
        }
    }

    fn connect(&self) -> std::io::Result<Box<dyn Transport>> {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let server = lock(&self.network.0.inner).server.clone().ok_or_else(refused)?;
        if self.weather().refused_until.is_some_and(|until| now() < until) {
            return Err(refused());
        }
        // In process a dial is done at once.
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(inner) = server.dial().as_mut().poll(&mut context) else {
            return Err(refused());
        };
        let inner: Arc<dyn Transport> = inner?.into();
        let is_single_node = inner.is_single_node();
        let mut network = lock(&self.network.0.inner);
        network.last_connection += 1;
        let id = network.last_connection;
        let link = Arc::new(Link {
            id,
            is_single_node,
            way: self.clone(),
            state: Mutex::new(LinkState { inner: Some(inner), ..LinkState::default() }),
            changed: Notify::new(),
            is_busy: AtomicBool::new(false),
        });
        network.links.retain(|link| link.strong_count() > 0);
        network.links.push(Arc::downgrade(&link));
        drop(network);
        link.oracle().opened(id);
        tokio::spawn(carry(Arc::clone(&link)));
        Ok(Box::new(ClientSide(link)))
    }
}

impl Dial for Way {
    fn dial(&self) -> Dialing {
        let way = self.clone();
        Box::pin(async move {
            let late_ms = {
                let mut weather = way.weather();
                let delay_ms_max = weather.delay_ms_max;
                weather.rng.u64(..=delay_ms_max)
            };
            if late_ms > 0 {
                tokio::time::sleep(Duration::from_millis(late_ms)).await;
            }
            way.connect()
        })
    }

    fn servers(&self) -> usize {
        lock(&self.network.0.inner).server.as_ref().map_or(1, |server| server.servers())
    }
}

/// One connection.
struct Link {
    id: ConnectionId,
    is_single_node: bool,
    way: Way,
    state: Mutex<LinkState>,
    changed: Notify,
    /// Whether the server is handling a frame of it.
    is_busy: AtomicBool,
}

#[derive(Default)]
struct LinkState {
    /// The server's side, until it notices that the connection is gone.
    inner: Option<Arc<dyn Transport>>,
    is_client_gone: bool,
    is_server_done: bool,
    to_server: VecDeque<(Instant, Bytes)>,
    to_client: VecDeque<(Instant, Bytes)>,
    receiver: Option<Waker>,
}

impl Link {
    fn oracle(&self) -> &Arc<Oracle> {
        &self.way.network.0.oracle
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        lock(&self.state)
    }

    /// When a frame that sets out now arrives, behind those that are under way.
    fn arrival(&self, under_way: &VecDeque<(Instant, Bytes)>) -> Instant {
        let now = now();
        let mut weather = self.way.weather();
        let delay_ms_max = weather.delay_ms_max;
        let late = Duration::from_millis(weather.rng.u64(..=delay_ms_max));
        under_way.back().map_or(now + late, |(last, _)| *last.max(&(now + late)))
    }

    fn is_held(&self) -> bool {
        self.way.weather().held_until.is_some_and(|until| until > now())
    }

    /// When the first frame of a queue arrives: not before it is held no more.
    fn due(&self, under_way: &VecDeque<(Instant, Bytes)>) -> Option<Instant> {
        let (due, _) = under_way.front()?;
        let held_until = self.way.weather().held_until;
        Some(held_until.map_or(*due, |until| until.max(*due)))
    }

    /// Hands a frame to the server.
    fn deliver(&self, frame: Bytes) {
        let Some(inner) = self.state().inner.clone() else { return };
        self.is_busy.store(true, Ordering::Relaxed);
        let was_open = self.oracle().look(|model| model.is_open(self.id));
        self.oracle().request(self.id, &frame);
        let was_taken = inner.send(frame).is_ok();
        self.is_busy.store(false, Ordering::Relaxed);
        self.oracle().handled(self.id, was_taken, was_open);
    }

    /// Hands the first frame under way to the server, if there is one.
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

    /// Hands over what has arrived, and tells when more will.
    fn carry_on(&self) -> Option<Instant> {
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

    /// The client is told that the connection is gone.
    fn lose_client_side(&self) {
        let mut state = self.state();
        state.is_client_gone = true;
        state.to_client.clear();
        drop(state);
        self.wake();
    }

    /// The server notices that the connection is gone.
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

    /// Whether the connection is to be lost now that a request was sent.
    fn is_cut_now(&self) -> bool {
        let mut weather = self.way.weather();
        match &mut weather.cut_after {
            Some(0) => {
                weather.cut_after = None;
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
        // A frame that was late is handled without the client's lock, and may wake the client.
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
            // It has arrived or will, and the answer does not.
            self.state().is_client_gone = true;
        }
        Ok(())
    }

    /// Takes what the server has sent. Whoever waits is woken when there is more.
    fn drain(&self, context: &mut Context<'_>) {
        loop {
            let Some(inner) = self.state().inner.clone() else { return };
            match inner.poll_receive(context) {
                Poll::Pending => {
                    // While a request is handled its answer is still to come.
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

/// Carries late frames until the server's side is gone.
async fn carry(link: Arc<Link>) {
    while link.state().inner.is_some() {
        let next = link.carry_on();
        let late = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = link.changed.notified() => {}
            () = late => {}
        }
    }
}

/// What the client has of a connection.
struct ClientSide(Arc<Link>);

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
        // What is under way arrives before the end of the connection does.
        let last = self.0.state().to_server.back().map(|(last, _)| *last);
        match last {
            Some(last) => {
                let link = Arc::clone(&self.0);
                let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
                runtime.spawn(async move {
                    tokio::time::sleep_until(last).await;
                    link.lose_server_side();
                });
            }
            None => self.0.lose_server_side(),
        }
    }
}
