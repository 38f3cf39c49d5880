//! The driver task: connects to one server after the other, and serves each connection until it is
//! lost.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use zoolet_protocol::Dial;

use super::Shared;
use crate::clock::{Instant, now};
use crate::connecting::{ConnectError, Failures, PERHAPS_TOO_MANY};
use crate::session::Session;
use crate::state::ConnectionState;

/// While the server serves reads only, the pause before another server is asked whether it serves
/// writes, at first and at most, and how long it has to answer: as in ZooKeeper's client.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);
const SEARCH_PAUSE_MAX: Duration = Duration::from_secs(60);
const SEARCH_WITHIN: Duration = Duration::from_secs(1);

/// The pause after a failed attempt to connect, at first and at most.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Keeps the session connected until the client is closed, or the server in this process has ended.
pub(crate) async fn drive(shared: Arc<Shared>, dialer: Arc<dyn Dial>) {
    let mut delay = RECONNECT_PAUSE;
    let mut failures = Failures::default();
    while !shared.inspect(Session::is_closed) {
        let before = now();
        match connect_once(&shared, &*dialer).await {
            None => return,
            Some(Ok(())) => {
                failures = Failures::default();
                if now() > before + delay {
                    delay = RECONNECT_PAUSE;
                }
            }
            Some(Err(cause)) => {
                tell(&cause, &failures);
                let failure = failures.record(cause, dialer.servers(), dialer.is_gone());
                shared.failure.send_replace(Some(failure));
            }
        }
        if dialer.is_gone() {
            tracing::debug!("the server in this process is gone, and the session with it");
            return shared.with(|session, _now| session.end());
        }
        // Jitter spreads the clients of a server that was restarted.
        let pause = delay.mul_f64(0.5 + shared.random.fraction() / 2.0);
        delay = (delay * 2).min(RECONNECT_PAUSE_MAX);
        if while_keeping_time(&shared, tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Logs a failed attempt to connect. One that someone must do something about is a warning, once in a
/// row of them.
fn tell(cause: &ConnectError, before: &Failures) {
    match cause {
        ConnectError::Tls(_) if !before.are_lasting() => tracing::warn!("cannot connect: {cause}"),
        _ => tracing::debug!("cannot connect: {cause}"),
    }
}

/// Waits until another server serves writes, while the current one serves reads only.
async fn find_read_write(shared: &Shared, dialer: &dyn Dial) {
    let mut states = shared.state.subscribe();
    // A connection does not change from one to the other.
    if states.wait_for(|state| *state == Some(ConnectionState::ReadOnly)).await.is_err() {
        return std::future::pending().await;
    }
    let mut pause = SEARCH_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SEARCH_PAUSE_MAX);
        let searched = tokio::time::timeout(SEARCH_WITHIN, dialer.find_read_write()).await;
        if searched.unwrap_or(false) {
            return;
        }
    }
}

/// Connects to the next server and serves the connection until it is lost. An error if no session
/// was opened over it, and `None` if the client was closed meanwhile.
async fn connect_once(shared: &Arc<Shared>, dialer: &dyn Dial) -> Option<Result<(), ConnectError>> {
    let attempt = shared.inspect(Session::attempt);
    let dialed = while_keeping_time(shared, tokio::time::timeout(attempt, dialer.dial())).await?;
    let transport = match dialed {
        Ok(Ok(transport)) => transport,
        Ok(Err(error)) => return Some(Err(error.into())),
        Err(_) => return Some(Err(ConnectError::unanswered(attempt))),
    };
    let (before, start) = (shared.connection_count(), now());
    shared.attach(transport);
    tokio::select! {
        biased;
        () = serve(shared) => {}
        () = find_read_write(shared, dialer) => shared.disconnect(),
    }
    Some(if shared.connection_count() > before {
        Ok(())
    } else if now() >= start + attempt {
        let text = format!("a server was connected to and opened no session within {attempt:?}");
        Err(ConnectError::TimedOut(text))
    } else if let Some(fault) = shared.inner.lock().fault.take() {
        Err(fault.into())
    } else {
        let text = "the connection ended before a session was opened; is it a ZooKeeper server?";
        Err(ConnectError::Closed(format!("{text} {PERHAPS_TOO_MANY}")))
    })
}

/// Waits for `future`, and handles the timeouts of the session meanwhile. `None` if the client is
/// closed.
async fn while_keeping_time<T>(shared: &Arc<Shared>, future: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(future);
    loop {
        if shared.inspect(Session::is_closed) {
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

/// Serves a connection until it is lost.
async fn serve(shared: &Arc<Shared>) {
    let _serves = Serving(shared);
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
            let _sends = HeldBackRequests(shared);
            after_ready_tasks().await;
        }
    }
}

/// Sends the requests that are held back when it is dropped, also when the runtime ends: the last
/// request may be the release of a lock.
struct HeldBackRequests<'a>(&'a Arc<Shared>);

impl Drop for HeldBackRequests<'_> {
    fn drop(&mut self) {
        self.0.send_held_back();
    }
}

/// When it is dropped the driver task serves no connection any more, and callers write their requests
/// themselves. It sends those that are held back: see [`HeldBackRequests`].
struct Serving<'a>(&'a Arc<Shared>);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let server = self.0.inner.lock().server.take();
        // Not under the lock.
        drop(server);
        self.0.send_held_back();
    }
}

/// Returns once the tasks that were ready to run have run. Unlike
/// [`yield_now`](tokio::task::yield_now) it leaves the task where other threads can steal it, so
/// that on a runtime with several threads a task that computes for long does not delay it.
async fn after_ready_tasks() {
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
