//! One connection of a simulated network.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use zoolet_protocol::{Disconnected, Transport};

use super::link_faults::{Frame, LinkState};
use super::tap::{ConnectionNumber, Tap};
use crate::clock::now;

/// One connection: frames in flight between a client and the server.
pub(super) struct Connection {
    number: ConnectionNumber,
    is_single_node: bool,
    tap: Arc<dyn Tap>,
    pub(super) link: LinkState,
    state: Mutex<State>,
    /// Notified when a frame is in flight, or when one may arrive sooner.
    pub(super) changed: Notify,
    /// Whether the server is handling one of its frames.
    is_busy: AtomicBool,
}

/// The frames of one direction that have not arrived.
struct InFlight {
    frames: VecDeque<(Instant, Bytes)>,
    /// How late each frame is.
    chance: Rng,
    /// What the next frame belongs to: the first one opens the session.
    next: Frame,
}

struct State {
    /// The server's side, until the server notices that the connection is closed.
    inner: Option<Arc<dyn Transport>>,
    is_client_gone: bool,
    is_server_done: bool,
    to_server: InFlight,
    to_client: InFlight,
    receiver: Option<Waker>,
}

impl InFlight {
    fn new(chance: Rng) -> Self {
        Self { frames: VecDeque::new(), chance, next: Frame::OfHandshake }
    }
}

impl Connection {
    pub(super) fn open(
        number: ConnectionNumber,
        tap: Arc<dyn Tap>,
        link: LinkState,
        inner: Arc<dyn Transport>,
        mut chance: Rng,
    ) -> Arc<Self> {
        let is_single_node = inner.is_single_node();
        let state = State {
            inner: Some(inner),
            is_client_gone: false,
            is_server_done: false,
            to_server: InFlight::new(chance.fork()),
            to_client: InFlight::new(chance),
            receiver: None,
        };
        Arc::new(Self {
            number,
            is_single_node,
            tap,
            link,
            state: Mutex::new(state),
            changed: Notify::new(),
            is_busy: AtomicBool::new(false),
        })
    }

    fn tap(&self) -> &dyn Tap {
        &*self.tap
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// When a frame that is sent now arrives: behind those in flight.
    fn arrival(&self, in_flight: &mut InFlight) -> Instant {
        let frame = std::mem::replace(&mut in_flight.next, Frame::OfSession);
        let late_ms = self.link.faults().drawn_ms(&mut in_flight.chance, frame);
        let arrival = now() + Duration::from_millis(late_ms);
        in_flight.frames.back().map_or(arrival, |(last, _)| *last.max(&arrival))
    }

    /// When the first frame to the server arrives.
    fn request_due(&self, state: &State) -> Option<Instant> {
        let (due, _) = state.to_server.frames.front()?;
        Some(self.link.faults().request_due(*due))
    }

    /// When the first frame to the client arrives.
    fn reply_due(&self, state: &State) -> Option<Instant> {
        let (due, _) = state.to_client.frames.front()?;
        Some(self.link.faults().reply_due(*due))
    }

    /// Passes a frame to the server.
    fn deliver(&self, frame: Bytes) {
        let Some(inner) = self.state().inner.clone() else { return };
        self.is_busy.store(true, Ordering::Relaxed);
        self.tap().arrived(self.number, &frame, &mut || {
            let was_taken = inner.send(frame.clone()).is_ok();
            self.is_busy.store(false, Ordering::Relaxed);
            was_taken
        });
    }

    /// Passes the first frame in flight to the server, if there is one.
    pub(super) fn deliver_first(&self) -> bool {
        if self.is_busy.load(Ordering::Relaxed) {
            return false;
        }
        let first = self.state().to_server.frames.pop_front();
        let Some((_, frame)) = first else { return false };
        self.deliver(frame);
        self.wake();
        true
    }

    /// Delivers the frames that are due, and returns when the next one is.
    fn deliver_due(&self) -> Option<Instant> {
        loop {
            let mut state = self.state();
            let due = self.request_due(&state);
            if due.is_none_or(|due| due > now()) {
                let next = self.reply_due(&state);
                if next.is_some_and(|next| next <= now()) {
                    let receiver = state.receiver.take();
                    drop(state);
                    receiver.inspect(Waker::wake_by_ref);
                    return due;
                }
                return due.into_iter().chain(next).min();
            }
            let frame = state.to_server.frames.pop_front();
            drop(state);
            if let Some((_, frame)) = frame {
                self.deliver(frame);
            }
            self.wake();
        }
    }

    /// Delivers delayed frames until the server's side is closed.
    pub(super) async fn deliver_until_closed(self: Arc<Self>) {
        while self.state().inner.is_some() {
            let next = self.deliver_due();
            let late = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = late => {}
            }
        }
    }

    pub(super) fn wake(&self) {
        let receiver = self.state().receiver.clone();
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }

    /// Closes the connection at the client.
    pub(super) fn lose_client_side(&self) {
        let mut state = self.state();
        state.is_client_gone = true;
        state.to_client.frames.clear();
        drop(state);
        self.wake();
    }

    /// Closes the connection at the server.
    pub(super) fn lose_server_side(&self) {
        let mut state = self.state();
        state.to_server.frames.clear();
        let inner = state.inner.take();
        drop(state);
        if inner.is_some() {
            self.tap().closed(self.number);
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Closes the connection at the server when all frames in flight have arrived, also those that a
    /// fault holds back.
    pub(super) async fn lose_server_side_in_turn(self: Arc<Self>) {
        while self.state().inner.is_some() {
            self.deliver_due();
            let last = self.state().to_server.frames.back().map(|(last, _)| *last);
            let Some(last) = last else { break };
            let due = self.link.faults().request_due(last);
            tokio::time::sleep_until(due).await;
        }
        self.lose_server_side();
    }

    pub(super) fn lose_server_side_after(self: Arc<Self>, time: Duration) {
        if time.is_zero() {
            return self.lose_server_side();
        }
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            self.lose_server_side();
        });
    }

    /// The run is over: both sides are gone, and nobody is waited for.
    ///
    /// The waker of the receiver is the client itself, which has this connection. A client that is
    /// still connected, or whose `closeSession` is not answered, would keep it and the servers behind
    /// it for ever: no task runs any more that would answer.
    pub(super) fn end(&self) {
        // A machine that stands still would not learn it.
        self.link.faults().is_paused = false;
        let mut state = self.state();
        state.is_client_gone = true;
        state.to_server.frames.clear();
        state.to_client.frames.clear();
        let (inner, receiver) = (state.inner.take(), state.receiver.take());
        drop(state);
        drop(inner);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        let mut state = self.state();
        if state.is_client_gone || state.inner.is_none() {
            return Err(Disconnected);
        }
        // Only what is sent counts: a connection that is gone already cannot be cut.
        let is_cut = self.link.faults().is_cut_after_this();
        let arrival = self.arrival(&mut state.to_server);
        // The server handles a delayed frame without the client's lock, and may wake the client.
        let is_busy = self.is_busy.load(Ordering::Relaxed);
        let is_held = self.link.faults().are_requests_held();
        if state.to_server.frames.is_empty() && arrival <= now() && !is_held && !is_busy {
            drop(state);
            self.deliver(frame);
        } else {
            state.to_server.frames.push_back((arrival, frame));
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
                        self.tap().drained(self.number);
                    }
                    return;
                }
                Poll::Ready(None) => {
                    self.state().is_server_done = true;
                    return;
                }
                Poll::Ready(Some(frame)) => {
                    self.tap().sent(self.number, &frame);
                    let mut state = self.state();
                    if !state.is_client_gone {
                        let arrival = self.arrival(&mut state.to_client);
                        state.to_client.frames.push_back((arrival, frame));
                    }
                }
            }
        }
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.drain(context);
        let mut state = self.state();
        if self.link.faults().is_paused {
            state.receiver = Some(context.waker().clone());
            return Poll::Pending;
        }
        if state.is_client_gone {
            return Poll::Ready(None);
        }
        match self.reply_due(&state) {
            Some(due) if due <= now() => {
                let frame = state.to_client.frames.pop_front().map(|(_, frame)| frame);
                drop(state);
                if let Some(frame) = &frame {
                    self.tap().received(self.number, frame);
                }
                return Poll::Ready(frame);
            }
            None if state.is_server_done || state.inner.is_none() => return Poll::Ready(None),
            _ => {}
        }
        state.receiver = Some(context.waker().clone());
        if !state.to_client.frames.is_empty() {
            drop(state);
            self.changed.notify_one();
        }
        Poll::Pending
    }
}

/// The client's side of a connection.
pub(super) struct ClientSide(pub(super) Arc<Connection>);

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
        if self.0.link.is_over() {
            // A machine without power tells nobody.
            return;
        }
        // Frames in flight arrive before the end of the connection.
        let has_frames = !self.0.state().to_server.frames.is_empty();
        if has_frames {
            let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
            runtime.spawn(Arc::clone(&self.0).lose_server_side_in_turn());
        } else {
            self.0.lose_server_side();
        }
    }
}
