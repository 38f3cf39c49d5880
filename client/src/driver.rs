//! What moves a session: a lock around the machine, and one task.
//!
//! A request is sent by whoever asks, on its own thread, when nothing is in its way. Over a local
//! transport the answer is there then, and no task has a part in it; an event that someone else
//! causes is received on the thread that causes it ([`Shared::receive`]), so that only the task
//! that waits for it need be woken. The task here dials, reads from sockets, and keeps time.
//!
//! Over a socket, when many answers came with one read, what their askers send next is held back
//! until all of them had their turn, and then written at once: a system call costs both sides more
//! than a request does.
//!
//! Whatever waits for several things looks at them in one order (`biased`), here and in the recipes, so
//! that a run in process can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use zoolet_protocol::{Dial, Transport};

use super::call::Outcome;
use super::clock::{Instant, now};
use super::connecting::{ConnectError, Failure, Failures};
use super::proof::Servers;
use super::session::{Broken, Session};
use super::state::ConnectionState;

/// A session and its connection, shared by all who use them.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Somebody found the lock taken and wants the connection to be looked at.
    wanted: AtomicBool,
    /// Wakes the task: the connection or the client is gone.
    changed: Notify,
    pub(crate) state: watch::Sender<Option<ConnectionState>>,
    /// Told when the session is proved to live after it was not, and when something else than time has
    /// changed what is known of it.
    pub(crate) proof: watch::Sender<()>,
    /// What the last try to connect met, if it failed.
    pub(crate) failure: watch::Sender<Option<Failure>>,
    pub(crate) runtime: Handle,
}

struct Inner {
    session: Session,
    /// When the task looks at the session next, if nothing happens.
    due: Option<Instant>,
    transport: Option<Box<dyn Transport>>,
    /// What is sent waits for the task.
    is_held_back: bool,
}

/// The answers in one read from which on it is worth while to write together what follows. Below,
/// it leaves at once, from the thread that asks.
const HOLD_BACK_FROM: usize = 4;

/// How long to wait before a server that serves writes is looked for, by one that serves reads only, at
/// first and at most, and how long one server has to tell: as in ZooKeeper's client.
const SEARCH_AFTER: Duration = Duration::from_millis(100);
const SEARCH_AFTER_MAX: Duration = Duration::from_secs(60);
const SEARCH_WITHIN: Duration = Duration::from_secs(1);

/// How long to wait before the first dial after a failed one, and at most.
const DIAL_AGAIN_AFTER: Duration = Duration::from_millis(20);
const DIAL_AGAIN_AFTER_MAX: Duration = Duration::from_secs(1);

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.receive();
    }
}

impl Shared {
    pub(crate) fn new(session: Session, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner { session, due: None, transport: None, is_held_back: false }),
            wanted: AtomicBool::new(false),
            changed: Notify::new(),
            state: watch::Sender::new(None),
            proof: watch::Sender::new(()),
            failure: watch::Sender::new(None),
            runtime,
        })
    }

    /// Does something with the session, and all that follows from it.
    pub(crate) fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut Session, Instant) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = act(&mut inner.session, now());
        self.settle(&mut inner);
        self.unlock(inner);
        result
    }

    /// Notes something in the session that sends nothing by itself.
    pub(crate) fn note_down<T>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Session, Instant) -> T,
    ) -> T {
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

    /// When the session is to be looked at, as the task goes to sleep.
    fn sleep_until(self: &Arc<Self>) -> Option<Instant> {
        let mut inner = self.inner.lock();
        inner.due = inner.session.poll_timeout();
        let due = inner.due;
        self.unlock(inner);
        due
    }

    /// Looks at the session.
    pub(crate) fn look<T>(self: &Arc<Self>, look: impl FnOnce(&Session) -> T) -> T {
        let inner = self.inner.lock();
        let result = look(&inner.session);
        self.unlock(inner);
        result
    }

    /// Receives what is there. Whoever holds the lock does so instead, when it lets go of it: two
    /// clients in one process may each be waking the other.
    fn receive(self: &Arc<Self>) {
        self.wanted.store(true, Ordering::SeqCst);
        // Either the lock is free here, or whoever has it sees the note when it lets go of it: the
        // two fences forbid that each looks before the other has written.
        fence(Ordering::SeqCst);
        while self.wanted.load(Ordering::SeqCst) {
            let Some(mut inner) = self.inner.try_lock() else { return };
            self.wanted.store(false, Ordering::SeqCst);
            self.settle(&mut inner);
            self.let_go(inner);
            fence(Ordering::SeqCst);
        }
    }

    /// Sends what is to be sent and, over a local transport, receives what is there.
    fn settle(self: &Arc<Self>, inner: &mut Inner) {
        let is_local = inner.transport.as_ref().is_some_and(|transport| transport.is_local());
        let result = if is_local {
            let waker = Waker::from(Arc::clone(self));
            inner.exchange(&mut Context::from_waker(&waker)).map(|_received| ())
        } else if inner.is_held_back {
            Ok(())
        } else {
            inner.transmit()
        };
        self.note(inner, result);
    }

    /// Ends a connection that is of no use.
    fn note(&self, inner: &mut Inner, result: Result<(), Gone>) {
        if let Err(gone) = result {
            match gone {
                Gone::Broken(broken) => tracing::debug!("connection given up: {broken}"),
                Gone::Closed => tracing::debug!("connection closed by the server"),
            }
            inner.transport = None;
            inner.session.handle_disconnected();
            self.changed.notify_one();
        }
        if inner.session.is_closed() && inner.transport.take().is_some() {
            self.changed.notify_one();
        }
    }

    /// Lets go of the lock, tells what is to be told, and receives what others left to be received.
    fn unlock(self: &Arc<Self>, inner: MutexGuard<'_, Inner>) {
        self.let_go(inner);
        fence(Ordering::SeqCst);
        if self.wanted.load(Ordering::SeqCst) {
            self.receive();
        }
    }

    fn let_go(&self, mut inner: MutexGuard<'_, Inner>) {
        while let Some(state) = inner.session.poll_state() {
            // Under the lock, so that states are told in their order.
            self.state.send_replace(Some(state));
        }
        if inner.session.take_proof_change() {
            self.proof.send_replace(());
        }
        let wakers = inner.session.poll_wakers();
        drop(inner);
        for waker in wakers {
            waker.wake();
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
        inner.session.handle_connected(servers, now());
        self.settle(&mut inner);
        self.unlock(inner);
    }

    /// Ends the connection, for a better one.
    fn disconnect(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.transport = None;
        inner.session.handle_disconnected();
        self.unlock(inner);
    }

    fn handle_timeout(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        let result = inner.session.handle_timeout(now()).map_err(Gone::Broken);
        match result {
            Ok(()) => self.settle(&mut inner),
            // Without a connection there is none to give up.
            Err(_) if inner.transport.is_none() => {}
            gone => self.note(&mut inner, gone),
        }
        self.unlock(inner);
    }

    /// Sends what was held back.
    fn let_leave(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.is_held_back = false;
        self.settle(&mut inner);
        self.unlock(inner);
    }

    /// Receives from a socket; ready when the connection is gone, when what is sent is held back
    /// from now on, or when something is to be done before `due`, as after a handshake that granted
    /// a shorter session than was asked for. Tells whether it is held back.
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
            // What is received there is received by whoever causes it.
            Some(transport) if transport.is_local() => {
                self.unlock(inner);
                return Poll::Pending;
            }
            Some(_) => inner.exchange(context),
        };
        let is_held_back = matches!(result, Ok(received) if received >= HOLD_BACK_FROM);
        inner.is_held_back = is_held_back;
        self.note(&mut inner, result.map(|_received| ()));
        let is_gone = inner.transport.is_none();
        let next = inner.session.poll_timeout();
        self.unlock(inner);
        let is_sooner = next.is_some_and(|next| due.is_none_or(|due| next < due));
        if is_gone || is_sooner || is_held_back { Poll::Ready(is_held_back) } else { Poll::Pending }
    }
}

/// Why a connection ended.
enum Gone {
    Broken(Broken),
    Closed,
}

impl Inner {
    fn transmit(&mut self) -> Result<(), Gone> {
        let Some(transport) = &self.transport else { return Ok(()) };
        let mut has_sent = false;
        while let Some(frame) = self.session.poll_transmit() {
            transport.send(frame).map_err(|_| Gone::Closed)?;
            has_sent = true;
        }
        if has_sent { transport.flush().map_err(|_| Gone::Closed) } else { Ok(()) }
    }

    /// Sends and receives until there is nothing more to do, and tells how many frames came.
    fn exchange(&mut self, context: &mut Context<'_>) -> Result<usize, Gone> {
        let mut received = 0;
        loop {
            self.transmit()?;
            let Some(transport) = &self.transport else { return Ok(received) };
            match transport.poll_receive(context) {
                Poll::Pending => return Ok(received),
                Poll::Ready(None) => return Err(Gone::Closed),
                Poll::Ready(Some(frame)) => {
                    received += 1;
                    self.session.handle_frame(&frame, now()).map_err(Gone::Broken)?;
                }
            }
        }
    }
}

/// Keeps the session connected until it is closed, or no server can be connected to any more.
pub(crate) async fn drive(shared: Arc<Shared>, dialer: Arc<dyn Dial>) {
    let mut delay = DIAL_AGAIN_AFTER;
    let mut failures = Failures::default();
    while !shared.look(Session::is_closed) {
        let before = now();
        match connect_once(&shared, &*dialer).await {
            None => return,
            Some(Ok(())) => {
                failures = Failures::default();
                if now() > before + delay {
                    delay = DIAL_AGAIN_AFTER;
                }
            }
            Some(Err(cause)) => {
                tracing::debug!("cannot connect: {cause}");
                let failure = failures.note(cause, dialer.servers(), dialer.is_gone());
                shared.failure.send_replace(Some(failure));
            }
        }
        if dialer.is_gone() {
            tracing::debug!("the server in this process is gone, and the session with it");
            return shared.with(|session, _now| session.end(Outcome::Closed));
        }
        // Jitter keeps the clients of a server that comes back apart.
        let pause = delay.mul_f64(0.5 + fastrand::f64() / 2.0);
        delay = (delay * 2).min(DIAL_AGAIN_AFTER_MAX);
        if during(&shared, tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Looks for a server that serves writes while the present one serves reads only.
async fn find_read_write(shared: &Shared, dialer: &dyn Dial) {
    let mut states = shared.state.subscribe();
    // It stays so for as long as there is this connection.
    if states.wait_for(|state| *state == Some(ConnectionState::ReadOnly)).await.is_err() {
        return std::future::pending().await;
    }
    let mut pause = SEARCH_AFTER;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SEARCH_AFTER_MAX);
        let searched = tokio::time::timeout(SEARCH_WITHIN, dialer.find_read_write()).await;
        if searched.unwrap_or(false) {
            return;
        }
    }
}

/// Connects to the next server and serves the connection until it is gone; an error if that was no
/// session's, and nothing if the session was closed meanwhile.
async fn connect_once(shared: &Arc<Shared>, dialer: &dyn Dial) -> Option<Result<(), ConnectError>> {
    let attempt = shared.look(Session::attempt);
    let dialed = during(shared, tokio::time::timeout(attempt, dialer.dial())).await?;
    let transport = match dialed {
        Ok(Ok(transport)) => transport,
        Ok(Err(error)) => return Some(Err(error.into())),
        Err(_) => return Some(Err(ConnectError::unanswered(attempt))),
    };
    let (before, start) = (shared.look(Session::connections), now());
    shared.attach(transport);
    tokio::select! {
        biased;
        () = serve(shared) => {}
        () = find_read_write(shared, dialer) => shared.disconnect(),
    }
    Some(if shared.look(Session::connections) > before {
        Ok(())
    } else if now() >= start + attempt {
        let text = format!("a server was connected to and opened no session within {attempt:?}");
        Err(ConnectError::TimedOut(text))
    } else {
        let text = "the connection ended before a session was opened; is it a ZooKeeper server?";
        Err(ConnectError::Other(text.to_owned()))
    })
}

/// Waits for `future` while the session's time is kept; nothing if it is closed meanwhile.
async fn during<T>(shared: &Arc<Shared>, future: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(future);
    loop {
        if shared.look(Session::is_closed) {
            return None;
        }
        tokio::select! {
            biased;
            result = &mut future => return Some(result),
            () = shared.changed.notified() => {}
            () = until(shared.sleep_until()) => shared.handle_timeout(),
        }
    }
}

/// Serves a connection until it is gone.
async fn serve(shared: &Arc<Shared>) {
    while shared.is_connected() {
        let due = shared.sleep_until();
        let is_held_back = tokio::select! {
            biased;
            is_held_back =
                std::future::poll_fn(|context| shared.poll_exchange(due, context)) => is_held_back,
            () = shared.changed.notified() => false,
            () = until(due) => {
                shared.handle_timeout();
                false
            }
        };
        if is_held_back {
            let _leaves = HeldBack(shared);
            after_those_who_wait().await;
        }
    }
}

/// What is held back leaves when this is dropped: also when the runtime ends, whose last act may be
/// to give up a lock.
struct HeldBack<'a>(&'a Arc<Shared>);

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.0.let_leave();
    }
}

/// Goes on once the tasks that were to run already have done so. Unlike
/// [`yield_now`](tokio::task::yield_now) it keeps the task where other threads can take it, so that
/// one that computes for long holds up nobody on a runtime with several.
async fn after_those_who_wait() {
    let mut had_turn = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut had_turn, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
