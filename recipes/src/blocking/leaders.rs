//! Leader election.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Client, Recipe};
use crate::error::LockError;
use crate::leader::election::{Participant, Term};
use crate::leader::latch::LeaderLatchBuilder;
use crate::leader::selector::{LeaderSelectorBuilder, Requeue};

/// The async [`LeaderLatch`](crate::LeaderLatch), for threads.
pub type LeaderLatch = Recipe<crate::LeaderLatch>;

impl LeaderLatch {
    /// Takes part in the election at a path.
    ///
    /// # Errors
    ///
    /// As the async [`start`](crate::LeaderLatch::start).
    pub fn start(client: &Client, path: &str, id: &str) -> Result<Self, LockError> {
        Self::start_with(client, crate::LeaderLatch::builder(client.ask(), path).id(id))
    }

    /// Takes part in an election as a builder says, which was made with
    /// [`Client::ask`](crate::client::blocking::Client::ask).
    ///
    /// # Errors
    ///
    /// As [`LeaderLatch::start`].
    pub fn start_with(client: &Client, builder: LeaderLatchBuilder) -> Result<Self, LockError> {
        let latch = client.wait(async { builder.start() })?;
        Ok(Self::of(client, latch))
    }

    /// The id that others see.
    #[must_use]
    pub fn id(&self) -> &str {
        self.recipe.id()
    }

    /// The znode by which it leads, or led last; `None` before it has led.
    #[must_use]
    pub fn last_leader_path(&self) -> Option<String> {
        self.recipe.last_leader_path()
    }

    /// Whether this participant leads, as far as is known without a request.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.recipe.is_leader()
    }

    /// Waits until this participant leads, within a time limit.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed; else as the async
    /// [`await_leadership_within`](crate::LeaderLatch::await_leadership_within).
    pub fn await_leadership_within(&self, time: Duration) -> Result<Term, LockError> {
        self.client.wait(self.recipe.await_leadership_within(time))
    }

    /// All participants, the leader first.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.client.wait(self.recipe.participants())
    }

    /// The participant that leads, if there is one.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub fn leader(&self) -> Result<Option<Participant>, LockError> {
        self.client.wait(self.recipe.leader())
    }

    /// Leaves the election, and returns when another may lead.
    ///
    /// # Errors
    ///
    /// As the async [`close`](crate::LeaderLatch::close).
    pub fn close(self) -> Result<(), LockError> {
        let Self { recipe, client } = self;
        client.wait(recipe.close())
    }
}

/// A term of a [`LeaderSelector`], which its function receives.
///
/// ```
/// use zoolet_recipes::blocking::Leadership;
///
/// fn lead(leadership: Leadership) {
///     println!("leading with the fencing token {}", leadership.term().fencing_token());
///     while !leadership.is_over() {
///         // A piece of work.
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Leadership {
    term: Term,
    is_over: Arc<AtomicBool>,
}

impl Leadership {
    /// The term: its fencing token, its znode.
    #[must_use]
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// Whether the leadership has ended: it was interrupted or lost, or another may lead.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // The thread of the client may not have come to end it.
        self.is_over.load(Ordering::Acquire) || !self.term.is_held()
    }
}

/// Marks a leadership as ended when this is dropped.
struct EndsWith(Arc<AtomicBool>);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The async [`LeaderSelector`](crate::LeaderSelector), for threads.
pub type LeaderSelector = Recipe<crate::LeaderSelector>;

impl LeaderSelector {
    /// Takes part in the election at a path, and calls `lead` on a thread of its own whenever it
    /// leads. The leadership ends when `lead` returns.
    ///
    /// A thread cannot be stopped: when [`Leadership::is_over`], another may lead, and `lead`
    /// should return. It is not called again before it has returned.
    ///
    /// # Errors
    ///
    /// As the async [`start`](crate::LeaderSelector::start).
    pub fn start<F>(
        client: &Client,
        path: &str,
        id: &str,
        requeue: Requeue,
        lead: F,
    ) -> Result<Self, LockError>
    where
        F: FnMut(Leadership) + Send + 'static,
    {
        let builder = crate::LeaderSelector::builder(client.ask(), path).id(id).requeue(requeue);
        Self::start_with(client, builder, lead)
    }

    /// As [`LeaderSelector::start`], as a builder says, which was made with
    /// [`Client::ask`](crate::client::blocking::Client::ask).
    ///
    /// # Errors
    ///
    /// As [`LeaderSelector::start`].
    pub fn start_with<F>(
        client: &Client,
        builder: LeaderSelectorBuilder,
        lead: F,
    ) -> Result<Self, LockError>
    where
        F: FnMut(Leadership) + Send + 'static,
    {
        let lead = Arc::new(Mutex::new(lead));
        let on_a_thread = move |term| {
            let lead = Arc::clone(&lead);
            async move {
                let ends = EndsWith(Arc::default());
                let leadership = Leadership { term, is_over: Arc::clone(&ends.0) };
                let led = tokio::task::spawn_blocking(move || lead.lock()(leadership)).await;
                // Otherwise it has returned, or the client's thread ends.
                if let Err(Ok(panic)) = led.map_err(tokio::task::JoinError::try_into_panic) {
                    std::panic::resume_unwind(panic);
                }
            }
        };
        let selector = client.wait(async { builder.start(on_a_thread) })?;
        Ok(Self::of(client, selector))
    }

    /// The id that others see.
    #[must_use]
    pub fn id(&self) -> String {
        self.recipe.id()
    }

    /// Whether it leads, as far as is known without a request.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        self.recipe.has_leadership()
    }

    /// Ends the leadership, if it leads.
    pub fn interrupt_leadership(&self) {
        self.recipe.interrupt_leadership();
    }

    /// Enters the line again; while it leads, when its function has returned. Returns `false` if it
    /// is in line already, or will be anyway.
    pub fn requeue(&self) -> bool {
        self.recipe.requeue()
    }

    /// All participants, the leader first.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.client.wait(self.recipe.participants())
    }

    /// Leaves the election, and returns when another may lead. It does not wait for `lead` to
    /// return.
    ///
    /// # Errors
    ///
    /// As the async [`close`](crate::LeaderSelector::close).
    pub fn close(self) -> Result<(), LockError> {
        let Self { recipe, client } = self;
        client.wait(recipe.close())
    }
}
