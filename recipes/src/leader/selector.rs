//! Work for one of many at a time: Curator's `LeaderSelector`, with its znodes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::sync::{Notify, watch};

use crate::client::{self, Client};
use crate::error::LockError;
use crate::leader::election::{
    Closing, ENTER_AGAIN_AFTER, Elected, Participant, Task, Term, participants, stand,
};
use crate::line::place::Line;
use crate::lock::guard::Guard;
use crate::lock::line_lock::LineLock;
use crate::lock::mutex;

/// Whether one who has led stands in line again by itself.
///
/// ```
/// use zoolet_recipes::Requeue;
///
/// assert_ne!(Requeue::Always, Requeue::OnRequest);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Requeue {
    /// It does, at the end of the line.
    Always,
    /// It does not, until [`LeaderSelector::requeue`] asks for it.
    OnRequest,
}

/// One who would lead, and a function that it runs while it does: whoever is first in line runs its
/// function, and leads until that returns. Then the next leads.
///
/// The function is given its [`Term`], and the future that it returns is dropped, so that it stops at
/// its next `await`, as soon as the leadership is not certain any more: when the znode was deleted,
/// when the session is over, and when that was proved to live so long ago that another may lead
/// ([`LockState`](crate::LockState)). A short disconnect does not stop it. The znode is deleted after the future is dropped.
///
/// A function that panics gives the leadership up as one that returns. The panic is logged, and
/// [`LeaderSelector::close`] resumes it; with [`Requeue::Always`] the selector stands in line again
/// a second later.
///
/// Its znodes are those of Curator's `LeaderSelector`, which are those of its `InterProcessMutex`.
/// Dropping it stops the function and gives the place up in the background;
/// [`LeaderSelector::close`] waits for that.
///
/// ```no_run
/// use zoolet_recipes::client::Client;
/// use zoolet_recipes::{LeaderSelector, Requeue};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let selector =
///     LeaderSelector::start(&client, "/leader", "host-1", Requeue::Always, |term| async move {
///         println!("leading with the fencing token {}", term.fencing_token());
///         // Whoever returns gives the leadership up.
///     })?;
/// # selector.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LeaderSelector {
    lock: LineLock,
    wishes: Arc<Wishes>,
    term: watch::Receiver<Option<Term>>,
    task: Task,
}

/// What is asked of the task.
#[derive(Debug)]
struct Wishes {
    requeue: Requeue,
    /// Whether it stands in line or leads, or is to.
    is_queued: AtomicBool,
    queue: Notify,
    interrupt: Notify,
}

impl LeaderSelector {
    /// Gets in line at a path, under a name by which others know it, and runs `lead` whenever it is
    /// its turn. Without a name it is known by this machine's address, as in Curator.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn start<F, Leading>(
        client: &Client,
        path: &str,
        id: &str,
        requeue: Requeue,
        lead: F,
    ) -> Result<Self, LockError>
    where
        F: FnMut(Term) -> Leading + Send + 'static,
        Leading: Future<Output = ()> + Send + 'static,
    {
        let mut lock = LineLock::new(Line::new(client, path, &mutex::KIND)?);
        if !id.is_empty() {
            lock.line.data = id.as_bytes().to_vec().into();
        }
        let wishes = Arc::new(Wishes {
            requeue,
            is_queued: AtomicBool::new(true),
            queue: Notify::new(),
            interrupt: Notify::new(),
        });
        let (sender, term) = watch::channel(None);
        let candidate = Candidate { lock: lock.clone(), wishes: Arc::clone(&wishes), term: sender };
        let task = Task::spawn(client, |closing| candidate.run(lead, closing));
        Ok(Self { lock, wishes, term, task })
    }

    /// Whether it leads, as far as is known without asking the server.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        self.term.borrow().as_ref().is_some_and(Term::is_held)
    }

    /// The term while its function runs, to be looked at and waited for.
    #[must_use]
    pub fn term(&self) -> watch::Receiver<Option<Term>> {
        self.term.clone()
    }

    /// Stops its function, if that runs, and so gives the leadership up.
    pub fn interrupt_leadership(&self) {
        self.wishes.interrupt.notify_waiters();
    }

    /// Gets in line again, and tells whether it was in none: who leads is in line.
    pub fn requeue(&self) -> bool {
        let was_queued = self.wishes.is_queued.swap(true, Ordering::AcqRel);
        if !was_queued {
            self.wishes.queue.notify_one();
        }
        !was_queued
    }

    /// All who would lead, in their order.
    ///
    /// # Errors
    ///
    /// What may go wrong with reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants(&self.lock).await
    }

    /// Who leads, if somebody does.
    ///
    /// # Errors
    ///
    /// As [`LeaderSelector::participants`].
    pub async fn leader(&self) -> Result<Option<Participant>, LockError> {
        Ok(self.participants().await?.into_iter().next())
    }

    /// Stops its function, gives its place up, and returns when its znode is gone. Without a
    /// connection that is when there is one again, or when the session must be taken to be over.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the leadership was lost just before, or with the session;
    /// [`LockError::PlaceLost`] if the place in line was.
    ///
    /// # Panics
    ///
    /// If the function ever did: with its last panic, after the znode is gone.
    ///
    /// # Cancellation
    ///
    /// Safe: the place is given up in the background.
    pub async fn close(self) -> Result<(), LockError> {
        self.task.close().await
    }
}

/// What the task has of a selector.
struct Candidate {
    lock: LineLock,
    wishes: Arc<Wishes>,
    term: watch::Sender<Option<Term>>,
}

/// What a function panicked with.
type Panic = Box<dyn Any + Send>;

/// How a turn ended.
enum Ended {
    /// By the wish to leave.
    Closing,
    /// The function returned or was stopped.
    Over,
    Panicked(Panic),
}

impl Candidate {
    /// Takes turns, and resumes the last panic of the function when nothing more is to be done.
    async fn run<F, Leading>(self, lead: F, mut closing: Closing) -> Result<(), LockError>
    where
        F: FnMut(Term) -> Leading,
        Leading: Future<Output = ()>,
    {
        let mut last_panic = None;
        let result = self.take_turns(lead, &mut closing, &mut last_panic).await;
        match last_panic {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }

    /// Stands in line and leads, as often as it is to, until it is told to leave or the client is
    /// closed.
    async fn take_turns<F, Leading>(
        &self,
        mut lead: F,
        closing: &mut Closing,
        last_panic: &mut Option<Panic>,
    ) -> Result<(), LockError>
    where
        F: FnMut(Term) -> Leading,
        Leading: Future<Output = ()>,
    {
        loop {
            let must_pause = match stand(&self.lock, closing).await {
                Elected::Leads(guard) => {
                    let ended = self.take_turn(&guard, &mut lead, closing).await;
                    let left = guard.release().await;
                    match ended {
                        Ended::Closing => return left,
                        Ended::Over => false,
                        Ended::Panicked(panic) => {
                            let directory = &self.lock.line.directory;
                            tracing::error!("the function of the leader of {directory} panicked");
                            *last_panic = Some(panic);
                            self.wishes.requeue == Requeue::Always
                        }
                    }
                }
                Elected::Closed(result) => return result,
                Elected::Failed(LockError::Client(client::Error::Closed)) => return Ok(()),
                Elected::Failed(error) => {
                    tracing::warn!("{} cannot be led: {error}", self.lock.line.directory);
                    if closing.within(ENTER_AGAIN_AFTER).await {
                        return Ok(());
                    }
                    continue;
                }
            };
            // What panics at once must not take the lead from all others again and again.
            if must_pause && closing.within(ENTER_AGAIN_AFTER).await {
                return Ok(());
            }
            if self.wishes.requeue == Requeue::OnRequest {
                self.wishes.is_queued.store(false, Ordering::Release);
                tokio::select! {
                    biased;
                    () = self.wishes.queue.notified() => {}
                    () = closing.closed() => return Ok(()),
                }
            }
        }
    }

    /// Leads once, and tells how that ended.
    async fn take_turn<F, Leading>(
        &self,
        guard: &Guard,
        lead: &mut F,
        closing: &mut Closing,
    ) -> Ended
    where
        F: FnMut(Term) -> Leading,
        Leading: Future<Output = ()>,
    {
        // Made before anyone can know of the term, so that no wish is missed.
        let interrupted = self.wishes.interrupt.notified();
        let own = Term::new(&self.lock.line.client, guard);
        let _told = Told::new(&self.term, own.clone());
        tokio::select! {
            biased;
            () = closing.closed() => Ended::Closing,
            () = guard.lost() => Ended::Over,
            () = interrupted => Ended::Over,
            led = catching(|| lead(own)) => led.map_or_else(Ended::Panicked, |()| Ended::Over),
        }
    }
}

/// What a future gives, or with what it, or the function that makes it, panics.
async fn catching<F: Future>(make: impl FnOnce() -> F) -> Result<F::Output, Panic> {
    // What is left behind by a panic is dropped, and looked at by nobody else.
    let mut future = pin!(catch_unwind(AssertUnwindSafe(make))?);
    std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// A term that is told until this is dropped, by a panic too.
struct Told<'a>(&'a watch::Sender<Option<Term>>);

impl<'a> Told<'a> {
    fn new(sender: &'a watch::Sender<Option<Term>>, term: Term) -> Self {
        sender.send_replace(Some(term));
        Self(sender)
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}
