//! One request and its answer, from the moment it takes its place in line.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::coop;
use zoolet_protocol::{OpCode, ReplyHeader};

/// What became of a request.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// It was answered.
    Answered(ReplyHeader, Bytes),
    /// The connection went away after it was sent and before it was answered.
    ConnectionLost,
    /// It was never sent.
    NotSent,
    /// The session that it was bound to is over; it was never sent, or its answer never came.
    SessionLost,
    /// The client was closed.
    Closed,
}

/// A request's place for its answer, shared by who asks and who receives.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) op: OpCode,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    outcome: Option<Outcome>,
    asker: Option<Waker>,
}

impl Call {
    pub(crate) fn new(op: OpCode) -> Arc<Self> {
        Arc::new(Self { op, state: Mutex::new(State { outcome: None, asker: None }) })
    }

    /// Puts the outcome in its place. The caller wakes whoever is returned once it holds no lock.
    pub(crate) fn complete(&self, outcome: Outcome) -> Option<Waker> {
        let mut state = self.state.lock();
        state.outcome.get_or_insert(outcome);
        state.asker.take()
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Outcome> {
        let mut state = self.state.lock();
        match state.outcome.clone() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.asker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The answer to a request that has its place in line. Dropping it forgets the answer, not the
/// request.
#[derive(Debug, Clone)]
pub(crate) struct Answer(pub(crate) Arc<Call>);

impl Future for Answer {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        // In process the answer is there at once: a task that only asks still lets others have their
        // turn.
        let progress = std::task::ready!(coop::poll_proceed(context));
        let outcome = self.0.poll(context);
        if outcome.is_ready() {
            progress.made_progress();
        }
        outcome
    }
}
