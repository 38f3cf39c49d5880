//! Lets the tasks of a client wait: a simulation stops a machine with this, as a long collection of
//! garbage stops a process.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Decides when the tasks of a client run.
pub trait TaskGate: Send + Sync {
    /// Ready when they may run. Else it wakes the task when they may.
    fn poll_open(&self, context: &mut Context<'_>) -> Poll<()>;
}

/// Runs a task when the gate is open.
pub(crate) async fn gated<F: Future>(gate: Arc<dyn TaskGate>, task: F) -> F::Output {
    let mut task = pin!(task);
    std::future::poll_fn(|context| {
        ready!(gate.poll_open(context));
        task.as_mut().poll(context)
    })
    .await
}
