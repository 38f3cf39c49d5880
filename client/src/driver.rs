//! Drives a session: a lock around the state machine, and one task.
//!
//! The caller of a request sends it on its own thread. Over a local transport the reply is there
//! when that returns, and no task is involved. An event is received on the thread that causes it
//! ([`Shared::receive`]), so that it wakes only the task that waits for it. The driver task ([`drive`])
//! dials, reads from sockets, and calls [`Session::handle_timeout`].
//!
//! Over a socket, when one read brought many replies, the requests that follow are held back until
//! each task that got a reply has run, and are then written with one system call: a system call
//! costs both sides more than a request does. The same when tasks have written several requests since
//! the driver task last had its turn: those that follow wait for its next turn, or until they are
//! [many](WAITING_MAX). What nobody awaits does not wait for it: see [`Shared::write_held_back`].
//!
//! Each `select!` polls in a fixed order (`biased`), here and in the recipes, and tasks that wait for
//! one change are woken in the order in which they began to wait ([`Publisher`]), so that a run in
//! process is repeatable.

mod task;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::task::{Context, Poll, Waker};

pub(crate) use self::task::drive;

use futures_task::{ArcWake, waker_ref};
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use zoolet_protocol::{Received, Transport, Xid};

use super::clock::{self, Instant, now};
use super::connecting::Failure;
use super::frames::Frames;
use super::proof::Servers;
use super::random::Random;
use super::session::{ConnectionFault, Session, Submission};
use super::state::ConnectionState;
use super::subscription::Publisher;
use super::task_gate::{TaskGate, gated};

/// A session and its connection, shared by the clones of a client and the driver task.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// A thread found the lock taken: its owner receives from the transport when it releases the
    /// lock.
    must_receive: AtomicBool,
    /// The most bytes of a request.
    pub(crate) jute_max_buffer: usize,
    /// How many connections the session has had, which it counts.
    connections: Arc<AtomicU64>,
    /// Wakes the driver task: the connection was lost, or the client was closed.
    changed: Notify,
    pub(crate) state: Publisher<Option<ConnectionState>>,
    /// Changes when the proof of the session changes other than by the passing of time.
    pub(crate) proof: Publisher<()>,
    /// Why the last attempt to connect failed.
    pub(crate) failure: Publisher<Option<Failure>>,
    pub(crate) random: Random,
    runtime: Handle,
    task_gate: Option<Arc<dyn TaskGate>>,
}

struct Inner {
    session: Session,
    /// When the driver task calls [`Session::handle_timeout`] next.
    due: Option<Instant>,
    transport: Option<Box<dyn Transport>>,
    /// Why the last transport was closed, if it knows.
    fault: Option<io::Error>,
    held_back: HeldBack,
    /// How many requests their callers have written since the driver task last had its turn.
    own_writes: usize,
    /// The driver task while it serves a connection.
    server: Option<Waker>,
    /// The driver task, where it is to be woken once the lock is released.
    woken: Option<Waker>,
    /// Those who wait for a [failure](Shared::failure) are to be woken then.
    has_failed: bool,
}

/// Whether requests are written by the driver task and not by their callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldBack {
    No,
    /// Until the tasks that were ready have run.
    UntilTasksRan,
    /// Those that tasks send, until the driver task has its turn, or until they are [`WAITING_MAX`].
    UntilTurn,
}

/// With this many replies in one read it pays to write the requests that follow together. With
/// fewer, each caller writes its own request at once.
const HOLD_BACK_FROM: usize = 4;

/// How many requests callers write themselves after each turn of the driver task. Those that follow wait
/// for its next turn. The replies of one read may cause as many.
const OWN_WRITES_MAX: usize = 4;

/// The most requests that wait for the next turn of the driver task. With one more their caller writes
/// them, so that a task that does not let others run holds back no more. This does not limit
/// [`HeldBack::UntilTasksRan`].
const WAITING_MAX: usize = 32;

/// A request as long as this is written at once, with those that wait: a system call costs little
/// beside it.
const WAITING_BYTES_MAX: usize = 1 << 10;

impl ArcWake for Shared {
    fn wake_by_ref(shared: &Arc<Self>) {
        shared.receive();
    }
}

impl Shared {
    pub(crate) fn new(
        session: Session,
        random: Random,
        runtime: Handle,
        task_gate: Option<Arc<dyn TaskGate>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            jute_max_buffer: session.jute_max_buffer(),
            connections: Arc::clone(session.connections()),
            inner: Mutex::new(Inner {
                session,
                due: None,
                transport: None,
                fault: None,
                held_back: HeldBack::No,
                own_writes: 0,
                server: None,
                woken: None,
                has_failed: false,
            }),
            must_receive: AtomicBool::new(false),
            changed: Notify::new(),
            state: Publisher::new(None),
            proof: Publisher::new(()),
            failure: Publisher::new(None),
            random,
            runtime,
            task_gate,
        })
    }

    /// Runs a task on the runtime that drives the client, whichever thread calls. What was sent before
    /// leaves first: the task may be there to wait for it in place of a caller who goes on.
    pub(crate) fn spawn<F>(self: &Arc<Self>, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.write_held_back();
        match &self.task_gate {
            None => self.runtime.spawn(task),
            Some(gate) => self.runtime.spawn(gated(Arc::clone(gate), task)),
        }
    }

    /// Acts on the session, and sends and receives what follows from it.
    pub(crate) fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut Session, Instant) -> T) -> T {
        let mut inner = self.inner.lock();
        let now = now();
        let result = act(&mut inner.session, now);
        self.settle(&mut inner, Some(now));
        self.unlock(inner);
        result
    }

    /// Sends a request. Returns whether it waits for the driver task.
    pub(crate) fn submit(self: &Arc<Self>, submission: Submission<'_>) -> bool {
        let mut inner = self.inner.lock();
        let now = now();
        inner.session.submit(submission, now);
        let is_left = inner.leaves_to_driver();
        if !is_left {
            self.settle(&mut inner, Some(now));
        }
        self.unlock(inner);
        is_left
    }

    /// Acts on the session where that sends nothing.
    pub(crate) fn update<T>(self: &Arc<Self>, act: impl FnOnce(&mut Session, Instant) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = act(&mut inner.session, now());
        // The task may be about to sleep for longer.
        if let Some(next) = inner.session.poll_timeout()
            && inner.due.is_none_or(|due| next < due)
        {
            self.changed.notify_one();
        }
        self.unlock(inner);
        result
    }

    /// Acts on the session without waking the driver: for what sends nothing, and where it does no
    /// harm that the driver wakes at the time that it chose before.
    pub(crate) fn alter<T>(self: &Arc<Self>, act: impl FnOnce(&mut Session) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = act(&mut inner.session);
        self.unlock(inner);
        result
    }

    /// How long the driver task may sleep.
    fn sleep_until(self: &Arc<Self>) -> Option<Instant> {
        let mut inner = self.inner.lock();
        inner.due = inner.session.poll_timeout();
        let due = inner.due;
        self.unlock(inner);
        due
    }

    /// Reads from the session.
    pub(crate) fn inspect<T>(self: &Arc<Self>, read: impl FnOnce(&Session) -> T) -> T {
        let inner = self.inner.lock();
        let result = read(&inner.session);
        // Nobody is to be told of anything.
        drop(inner);
        self.receive_what_was_left();
        result
    }

    /// Receives what the transport has. If another thread holds the lock, that thread does so when
    /// it releases the lock: two clients in one process may wake each other at the same time.
    fn receive(self: &Arc<Self>) {
        self.must_receive.store(true, Ordering::SeqCst);
        // Either the lock is free here, or its owner sees the flag when it releases the lock: the
        // two fences forbid that each reads before the other has written.
        fence(Ordering::SeqCst);
        while self.must_receive.load(Ordering::SeqCst) {
            let Some(mut inner) = self.inner.try_lock() else { return };
            self.must_receive.store(false, Ordering::SeqCst);
            self.settle(&mut inner, None);
            self.release(inner);
            fence(Ordering::SeqCst);
        }
    }

    /// Sends what the session has to send and, over a local transport, receives the replies. `now`, if
    /// the caller has just read the clock, is as in [`Inner::exchange`].
    fn settle(self: &Arc<Self>, inner: &mut Inner, now: Option<Instant>) {
        let is_local = inner.transport.as_ref().is_some_and(|transport| transport.is_local());
        let result = if is_local {
            inner.exchange(&mut Context::from_waker(&waker_ref(self)), now).map(|_received| ())
        } else if inner.held_back == HeldBack::UntilTasksRan {
            Ok(())
        } else {
            inner.transmit().map(|_has_sent| ())
        };
        // Over a local transport the replies came to this thread, and the task may sleep for longer.
        if inner.session.take_proof_answer()
            && inner
                .session
                .poll_timeout()
                .is_some_and(|next| inner.due.is_none_or(|due| next < due))
        {
            self.changed.notify_one();
        }
        self.end_if_gone(inner, result);
    }

    /// Drops the connection if it is lost or the client is closed.
    fn end_if_gone(&self, inner: &mut Inner, result: Result<(), Gone>) {
        if let Err(gone) = result {
            match gone {
                Gone::ConnectionFault(ConnectionFault::AuthFailed) => {
                    self.failure.replace(Some(Failure::auth_failed()));
                    inner.has_failed = true;
                }
                Gone::ConnectionFault(broken) => tracing::debug!("connection given up: {broken}"),
                Gone::Closed => tracing::debug!("connection closed by the server"),
            }
            inner.fault = inner.transport.take().and_then(|transport| transport.take_fault());
            inner.session.handle_disconnected();
            self.changed.notify_one();
        }
        if inner.session.is_closed() && inner.transport.take().is_some() {
            self.changed.notify_one();
        }
    }

    /// Releases the lock, wakes those who wait, and receives what another thread left to be
    /// received.
    fn unlock(self: &Arc<Self>, inner: MutexGuard<'_, Inner>) {
        self.release(inner);
        self.receive_what_was_left();
    }

    /// Receives what another thread left to be received while this one had the lock.
    fn receive_what_was_left(self: &Arc<Self>) {
        fence(Ordering::SeqCst);
        if self.must_receive.load(Ordering::SeqCst) {
            self.receive();
        }
    }

    fn release(&self, mut inner: MutexGuard<'_, Inner>) {
        let mut has_new_state = false;
        while let Some(state) = inner.session.poll_state() {
            // Under the lock, so that the states keep their order.
            self.state.replace(Some(state));
            has_new_state = true;
        }
        let has_new_proof = inner.session.take_proof_change();
        if has_new_proof {
            self.proof.replace(());
        }
        let (others, last) = inner.session.poll_wakers();
        let driver = inner.woken.take();
        let has_failed = std::mem::take(&mut inner.has_failed);
        drop(inner);
        // A waker may call the client.
        if has_failed {
            self.failure.wake();
        }
        if has_new_state {
            self.state.wake();
        }
        if has_new_proof {
            self.proof.wake();
        }
        others.into_iter().for_each(Waker::wake);
        if let Some(last) = last {
            last.wake();
        }
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    fn is_connected(self: &Arc<Self>) -> bool {
        let inner = self.inner.lock();
        let is_connected = inner.transport.is_some();
        self.unlock(inner);
        is_connected
    }

    fn attach(self: &Arc<Self>, transport: Box<dyn Transport>) {
        let mut inner = self.inner.lock();
        if inner.session.is_closed() {
            return;
        }
        let servers = match transport.is_single_node() {
            true => Servers::SingleNode,
            false => Servers::PerhapsEnsemble,
        };
        inner.transport = Some(transport);
        inner.fault = None;
        let now = now();
        inner.session.handle_connected(servers, now);
        self.settle(&mut inner, Some(now));
        self.unlock(inner);
    }

    /// How many connections the client has opened so far.
    pub(crate) fn connection_count(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// Drops the connection, to connect to a better server.
    fn disconnect(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.transport = None;
        inner.session.handle_disconnected();
        self.unlock(inner);
    }

    fn handle_timeout(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        let now = now();
        let result = inner.session.handle_timeout(now).map_err(Gone::ConnectionFault);
        match result {
            Ok(()) => self.settle(&mut inner, Some(now)),
            // There is no connection to drop.
            Err(_) if inner.transport.is_none() => {}
            gone => self.end_if_gone(&mut inner, gone),
        }
        self.unlock(inner);
    }

    /// Writes what waits for the driver task, on the thread of the caller: others may wait for what was
    /// sent, as for the release of a lock, while the runtime has no turn, and the client or its process
    /// may end before it has.
    pub(crate) fn write_held_back(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        let result = inner.transmit().map(|_has_sent| ());
        self.end_if_gone(&mut inner, result);
        self.unlock(inner);
    }

    /// Sends the requests that were held back.
    fn send_held_back(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        (inner.held_back, inner.own_writes) = (HeldBack::No, 0);
        self.settle(&mut inner, None);
        self.unlock(inner);
    }

    /// Receives from a socket. Ready when the connection is lost, when requests are held back from
    /// now on, or when the session has a deadline before `due`, as after a handshake that granted a
    /// shorter timeout than was asked for. Returns whether requests are held back.
    fn poll_exchange(
        self: &Arc<Self>,
        due: Option<Instant>,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        let mut inner = self.inner.lock();
        let result = match &inner.transport {
            None => {
                self.unlock(inner);
                return Poll::Ready(false);
            }
            // Over a local transport the thread that causes a frame receives it.
            Some(transport) if transport.is_local() => {
                self.unlock(inner);
                return Poll::Pending;
            }
            Some(_) => inner.exchange(context, None),
        };
        inner.acknowledge();
        let is_held_back = matches!(result, Ok(received) if received >= HOLD_BACK_FROM);
        inner.held_back = if is_held_back { HeldBack::UntilTasksRan } else { HeldBack::No };
        inner.own_writes = 0;
        if !inner.server.as_ref().is_some_and(|server| server.will_wake(context.waker())) {
            inner.server = Some(context.waker().clone());
        }
        self.end_if_gone(&mut inner, result.map(|_received| ()));
        let is_gone = inner.transport.is_none();
        let next = inner.session.poll_timeout();
        self.unlock(inner);
        let is_sooner = next.is_some_and(|next| due.is_none_or(|due| next < due));
        if is_gone || is_sooner || is_held_back { Poll::Ready(is_held_back) } else { Poll::Pending }
    }
}

/// Why a connection ended.
enum Gone {
    ConnectionFault(ConnectionFault),
    Closed,
}

impl Inner {
    /// Whether the request that was just submitted waits for the driver task.
    fn leaves_to_driver(&mut self) -> bool {
        let (Some(server), Some(last)) = (&self.server, self.session.last_to_transmit()) else {
            return false;
        };
        match self.held_back {
            HeldBack::UntilTasksRan => return true,
            HeldBack::No if self.own_writes < OWN_WRITES_MAX => {
                self.own_writes += 1;
                return false;
            }
            // Outside a task nothing tells when the driver task has its next turn.
            _ if tokio::task::try_id().is_none() => return false,
            _ if last.len() >= WAITING_BYTES_MAX => return false,
            HeldBack::UntilTurn => {}
            HeldBack::No => {
                self.woken = Some(server.clone());
                self.held_back = HeldBack::UntilTurn;
            }
        }
        self.session.transmits_waiting() < WAITING_MAX
    }

    /// Sends what the session has to send, and returns whether that was anything.
    fn transmit(&mut self) -> Result<bool, Gone> {
        let Some(transport) = &self.transport else { return Ok(false) };
        let mut has_sent = false;
        while let Some(frame) = self.session.poll_transmit() {
            transport.send(frame).map_err(|_| Gone::Closed)?;
            has_sent = true;
        }
        if has_sent {
            transport.flush().map_err(|_| Gone::Closed)?;
        }
        Ok(has_sent)
    }

    /// Before the client waits for events.
    fn acknowledge(&mut self) {
        if self.session.poll_wait()
            && let Some(transport) = &self.transport
        {
            transport.acknowledge();
        }
    }

    /// Sends and receives until there is nothing more, and returns how many frames came. Events do not
    /// prove the session, so they take the last reading of the clock: `now`, or that of the reply before.
    fn exchange(
        &mut self,
        context: &mut Context<'_>,
        mut now: Option<Instant>,
    ) -> Result<usize, Gone> {
        let (mut received, mut are_all) = (0, false);
        loop {
            let has_sent = self.transmit()?;
            if are_all && !has_sent {
                return Ok(received);
            }
            let Some(transport) = &self.transport else { return Ok(received) };
            let mut frames = Frames::empty();
            match transport.poll_receive_some(context, &mut frames.0) {
                Poll::Pending => return Ok(received),
                Poll::Ready(Received::Closed) => return Err(Gone::Closed),
                Poll::Ready(some) => are_all = some == Received::All,
            }
            received += frames.0.len();
            let mut last_read = now.take();
            while let Some(frame) = frames.0.pop_front() {
                let known = last_read.filter(|_| is_event(&frame));
                let now = *last_read.insert(known.unwrap_or_else(clock::now));
                self.session.handle_frame(frame, now).map_err(Gone::ConnectionFault)?;
            }
        }
    }
}

/// Whether a frame from a server is an event. Of the reply to the handshake it does not matter.
fn is_event(frame: &[u8]) -> bool {
    frame.starts_with(&Xid::EVENT.0.to_be_bytes())
}
