//! Stops all tasks of a machine while time goes on.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fastrand::Rng;
use parking_lot::Mutex;
use zoolet_client::recipe::TaskGate;

/// Stops the tasks of one machine, as a long collection of garbage does or a process that is
/// stopped. Their timers go on, so that they are late when they run again.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    pub(super) fn close(&self) {
        self.0.lock().is_closed = true;
    }

    /// Lets the tasks run, in an order that is drawn.
    pub(super) fn open(&self, rng: &mut Rng) {
        let mut waiting = {
            let mut state = self.0.lock();
            state.is_closed = false;
            std::mem::take(&mut state.waiting)
        };
        rng.shuffle(&mut waiting);
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().is_closed
    }

    /// Runs a future, except while the gate is closed.
    pub(super) async fn pass<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|context| match self.poll_open(context) {
            Poll::Ready(()) => future.as_mut().poll(context),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl TaskGate for Gate {
    fn poll_open(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if !state.is_closed {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}
