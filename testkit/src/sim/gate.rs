//! Stops all tasks of a machine while time goes on.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fastrand::Rng;
use parking_lot::Mutex;
use zoolet_client::recipe::TaskGate;

use super::play::run_user_code;

/// Stops the tasks of one machine, as a long collection of garbage does or a process that is
/// stopped. Their timers go on, so that they are late when they run again.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// It never opens again.
    is_shut: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    pub(super) fn close(&self) {
        self.0.lock().is_closed = true;
    }

    /// Lets no task run any more: the machine has crashed, and its memory is gone.
    pub(super) fn shut(&self) {
        let mut state = self.0.lock();
        (state.is_closed, state.is_shut) = (true, true);
        // Nothing wakes them, so that they and the gate do not keep each other.
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    pub(super) fn is_shut(&self) -> bool {
        self.0.lock().is_shut
    }

    /// Lets the tasks run, in an order that is drawn.
    pub(super) fn open(&self, rng: &mut Rng) {
        let mut waiting = {
            let mut state = self.0.lock();
            if state.is_shut {
                return;
            }
            state.is_closed = false;
            std::mem::take(&mut state.waiting)
        };
        rng.shuffle(&mut waiting);
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().is_closed
    }

    /// Runs a program, or a task of it, except while the gate is closed.
    pub(super) async fn pass<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|context| match self.poll_open(context) {
            Poll::Ready(()) => run_user_code(|| future.as_mut().poll(context)),
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
        if !state.is_shut && !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn nothing_passes_a_gate_that_is_shut() {
        let (gate, polls) = (Arc::new(Gate::default()), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&polls);
        let task = tokio::spawn(Arc::clone(&gate).pass(std::future::poll_fn(move |context| {
            counted.fetch_add(1, Ordering::Relaxed);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        })));
        tokio::task::yield_now().await;
        gate.shut();
        let before = polls.load(Ordering::Relaxed);
        assert!(before > 0, "it ran");
        gate.open(&mut Rng::with_seed(1));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(polls.load(Ordering::Relaxed), before);
        task.abort();
    }
}
