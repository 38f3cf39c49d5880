//! One request in flight, and its reply.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::coop;
use zoolet_protocol::{OpCode, ReplyHeader};

/// How a request ended.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// The reply came.
    Answered(ReplyHeader, Bytes),
    /// The connection was lost after the request was sent and before the reply came.
    ConnectionLoss,
    /// The request was never sent.
    NotSent,
    /// The request was never sent: it has more bytes than the client's limit.
    TooLong { bytes: usize, limit: usize },
    /// The session in which it was to be sent has expired. It was not sent, or its reply did not
    /// come.
    SessionExpired,
    /// The client was closed.
    Closed,
}

/// The slot for the outcome of a request, shared by the caller and the session.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) op: OpCode,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// There is no outcome yet. The task waits that polled last.
    Awaited(Option<Waker>),
    Known(Outcome),
    /// The caller has it.
    Taken,
}

impl Call {
    pub(crate) fn new(op: OpCode) -> Arc<Self> {
        Arc::new(Self { op, state: Mutex::new(State::Awaited(None)) })
    }

    /// Stores the outcome, unless there is one. Returns the task to wake, which must be done without
    /// holding a lock.
    pub(crate) fn complete(&self, outcome: Outcome) -> Option<Waker> {
        let mut state = self.state.lock();
        let State::Awaited(waker) = &mut *state else { return None };
        let waker = waker.take();
        *state = State::Known(outcome);
        waker
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Outcome> {
        let mut state = self.state.lock();
        if let State::Awaited(waker) = &mut *state {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Known(outcome) => Poll::Ready(outcome),
            _ => panic!("the answer to a request is polled after it was ready"),
        }
    }
}

#[cfg(test)]
impl Call {
    /// The outcome if there is one, which is not taken.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match &*self.state.lock() {
            State::Known(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }
}

/// Waits for the outcome of a request. Dropping it does not take the request back.
///
/// # Panics
///
/// If it is polled after it was ready.
#[derive(Debug)]
pub(crate) struct Answer(pub(crate) Arc<Call>);

impl Future for Answer {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        // In process the reply is there at once: tokio's budget makes a task that only makes calls
        // yield to other tasks.
        let progress = std::task::ready!(coop::poll_proceed(context));
        let outcome = self.0.poll(context);
        if outcome.is_ready() {
            progress.made_progress();
        }
        outcome
    }
}
