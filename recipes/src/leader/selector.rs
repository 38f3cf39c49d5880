//! Leader election that runs a function while it leads: Curator's `LeaderSelector`, with its
//! znodes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Notify;
use zoolet_protocol::Acl;

use super::election::{
    Candidacy, Closing, ENTER_AGAIN_AFTER, ErrorPolicy, Participant, Queue, Task, Term,
    participants, wait_to_lead,
};
use crate::client::recipe::Publisher;
use crate::client::{self, Client, Subscription};
use crate::error::LockError;
use crate::line::Line;
use crate::lock::guard::Guard;
use crate::lock::line_lock::LineLock;
use crate::lock::mutex;

/// Whether a selector enters the line again by itself after it has led.
///
/// ```
/// use zoolet_recipes::Requeue;
///
/// assert_ne!(Requeue::Always, Requeue::OnRequest);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Requeue {
    /// It does, behind all others.
    Always,
    /// It does not, until [`LeaderSelector::requeue`] is called.
    OnRequest,
}

/// A participant of an election that runs a function while it leads. The first in line leads until
/// its function returns; then the next one leads.
///
/// The function is given its [`Term`]. As soon as the leadership is not certain any more, the
/// future that the function returned is dropped, so that it stops at its current `await`: when the
/// znode was deleted, when the session has ended, and when the last proof of the session is so old
/// that another may lead ([`LockState`](crate::LockState)). A short disconnect does not stop it.
/// The znode is deleted after the future is dropped.
///
/// A function that panics ends the leadership as one that returns. The panic is logged, and
/// [`LeaderSelector::close`] resumes it. With [`Requeue::Always`] the selector enters the line
/// again a second later.
///
/// Its znodes are those of Curator's `LeaderSelector`, which are those of its `InterProcessMutex`.
/// Dropping it stops the function and deletes its znode in the background;
/// [`LeaderSelector::close`] waits until both are done.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::{LeaderSelector, Requeue};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let selector =
///     LeaderSelector::start(&client, "/leader", "host-1", Requeue::Always, |term| async move {
///         println!("leading with the fencing token {}", term.fencing_token());
///         // The leadership ends when this returns.
///     })?;
/// # selector.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LeaderSelector {
    lock: LineLock,
    requests: Arc<Requests>,
    term: Subscription<Option<Term>>,
    task: Task,
}

/// What the selector requests of its task.
#[derive(Debug)]
struct Requests {
    requeue: Requeue,
    queue: Arc<Queue>,
    interrupt: Notify,
}

/// The options of a [`LeaderSelector`]: [`LeaderSelector::builder`].
///
/// ```no_run
/// use zoolet_recipes::{ErrorPolicy, LeaderSelector, Requeue};
///
/// # fn example(client: zoolet_client::Client) -> Result<(), zoolet_recipes::LockError> {
/// let selector = LeaderSelector::builder(&client, "/leader")
///     .id("host-1")
///     .requeue(Requeue::OnRequest)
///     .error_policy(ErrorPolicy::Connection)
///     .start(|term| async move {
///         println!("leading with the fencing token {}", term.fencing_token());
///         term.requeue(); // once more, when the others have led
///     })?;
/// # drop(selector);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a selector enters the line when it is started"]
pub struct LeaderSelectorBuilder {
    client: Client,
    path: String,
    id: String,
    acl: Option<Vec<Acl>>,
    requeue: Requeue,
    policy: ErrorPolicy,
}

impl LeaderSelectorBuilder {
    /// Sets the id that others see. The default is this machine's address, as in Curator.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the access control list of the znode and of the directories that are created for it. A
    /// selector that is not allowed to create its znode tries again until it is closed, and logs
    /// why.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets whether it enters the line again by itself. The default is [`Requeue::OnRequest`], as in
    /// Curator.
    pub fn requeue(mut self, requeue: Requeue) -> Self {
        self.requeue = requeue;
        self
    }

    /// Sets when a term ends. The default is [`ErrorPolicy::Session`].
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Enters the line, and runs `lead` whenever it leads.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the path is not valid.
    pub fn start<F, Leading>(self, lead: F) -> Result<LeaderSelector, LockError>
    where
        F: FnMut(Term) -> Leading + Send + 'static,
        Leading: Future<Output = ()> + Send + 'static,
    {
        let mut lock = LineLock::new(Line::new(&self.client, &self.path, &mutex::KIND)?);
        if let Some(acl) = self.acl {
            lock.line.set_acl(acl);
        }
        if !self.id.is_empty() {
            lock.line.data = self.id.into_bytes().into();
        }
        let requests = Arc::new(Requests {
            requeue: self.requeue,
            queue: Arc::new(Queue::new()),
            interrupt: Notify::new(),
        });
        let sender = Publisher::new(None);
        let term = sender.subscribe();
        let candidate = Candidate {
            lock: lock.clone(),
            requests: Arc::clone(&requests),
            term: sender,
            policy: self.policy,
        };
        let task = Task::spawn(&self.client, |closing| candidate.run(lead, closing));
        Ok(LeaderSelector { lock, requests, term, task })
    }
}

impl LeaderSelector {
    /// Enters the line of a path with an id that others see, and runs `lead` whenever it leads. If
    /// `id` is empty, the id is this machine's address, as in Curator.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
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
        Self::builder(client, path).id(id).requeue(requeue).start(lead)
    }

    /// As [`LeaderSelector::start`], with an access control list for its znode and for the
    /// directories that are created for it. A selector that is not allowed to create its znode
    /// tries again until it is closed, and logs why.
    ///
    /// # Errors
    ///
    /// As [`LeaderSelector::start`].
    pub fn start_with_acl<F, Leading>(
        client: &Client,
        path: &str,
        id: &str,
        acl: Vec<Acl>,
        requeue: Requeue,
        lead: F,
    ) -> Result<Self, LockError>
    where
        F: FnMut(Term) -> Leading + Send + 'static,
        Leading: Future<Output = ()> + Send + 'static,
    {
        Self::builder(client, path).id(id).acl(acl).requeue(requeue).start(lead)
    }

    /// The options of a selector.
    pub fn builder(client: &Client, path: &str) -> LeaderSelectorBuilder {
        LeaderSelectorBuilder {
            client: client.clone(),
            path: path.to_owned(),
            id: String::new(),
            acl: None,
            requeue: Requeue::OnRequest,
            policy: ErrorPolicy::default(),
        }
    }

    /// The id that others see.
    #[must_use]
    pub fn id(&self) -> String {
        String::from_utf8_lossy(&self.lock.line.data).into_owned()
    }

    /// Whether it leads, as far as is known without a request.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        self.term.borrow().as_ref().is_some_and(Term::is_held)
    }

    /// The present term, which can be read and waited for; `None` while the function does not run.
    #[must_use]
    pub fn term(&self) -> Subscription<Option<Term>> {
        self.term.clone()
    }

    /// Ends the leadership, if it leads: its function is stopped.
    pub fn interrupt_leadership(&self) {
        self.requests.interrupt.notify_waiters();
    }

    /// Enters the line again; while it leads, when its function has returned
    /// ([`Term::requeue`] is for the function itself). Returns `false` if it is in line already, or
    /// will be anyway.
    pub fn requeue(&self) -> bool {
        self.requests.requeue == Requeue::OnRequest && self.requests.queue.ask()
    }

    /// All participants, in their order.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants(&self.lock).await
    }

    /// The participant that leads, if there is one.
    ///
    /// # Errors
    ///
    /// As [`LeaderSelector::participants`].
    pub async fn leader(&self) -> Result<Option<Participant>, LockError> {
        Ok(self.participants().await?.into_iter().next())
    }

    /// Stops its function, leaves the election, and returns when the znode is deleted. Without a
    /// connection this waits for one, or until the session must have ended.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the leadership was lost just before, or with the session;
    /// [`LockError::PlaceLost`] if the place in line was.
    ///
    /// # Panics
    ///
    /// If the function has panicked: with its last panic, after the znode is deleted.
    ///
    /// # Cancellation
    ///
    /// Safe: the znode is deleted in the background.
    pub async fn close(self) -> Result<(), LockError> {
        self.task.close().await
    }
}

/// The part of a selector that its task has.
struct Candidate {
    lock: LineLock,
    requests: Arc<Requests>,
    term: Publisher<Option<Term>>,
    policy: ErrorPolicy,
}

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// How a term ended.
enum Ended {
    /// The selector was closed.
    Closing,
    /// The leadership was lost before the function was called.
    NotBegun,
    /// The function returned or was stopped.
    Returned,
    Panicked(Panic),
}

impl Candidate {
    /// Leads as often as requested, and resumes the last panic of the function at the end.
    async fn run<F, Leading>(self, lead: F, mut closing: Closing) -> Result<(), LockError>
    where
        F: FnMut(Term) -> Leading,
        Leading: Future<Output = ()>,
    {
        let mut last_panic = None;
        let result = self.lead_repeatedly(lead, &mut closing, &mut last_panic).await;
        match last_panic {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }

    /// Enters the line and leads, as often as requested, until the selector or the client is
    /// closed.
    async fn lead_repeatedly<F, Leading>(
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
            let must_pause = match wait_to_lead(&self.lock, closing).await {
                Candidacy::Leads(guard) => {
                    let ended = self.lead_once(&guard, &mut lead, closing).await;
                    let released = guard.release().await;
                    match ended {
                        Ended::Closing => return released,
                        // The selector is to lead still, and nobody would ask it to.
                        Ended::NotBegun => continue,
                        Ended::Returned => false,
                        Ended::Panicked(panic) => {
                            let directory = &self.lock.line.directory;
                            tracing::error!("{directory}: the function of the leader panicked");
                            *last_panic = Some(panic);
                            self.requests.requeue == Requeue::Always
                        }
                    }
                }
                Candidacy::Closed(result) => return result,
                Candidacy::Failed(LockError::Client(client::Error::Closed)) => return Ok(()),
                Candidacy::Failed(error) => {
                    let directory = &self.lock.line.directory;
                    tracing::warn!("{directory}: cannot enter the line of leaders: {error}");
                    if closing.within(ENTER_AGAIN_AFTER).await {
                        return Ok(());
                    }
                    continue;
                }
            };
            // A function that always panics must not take the leadership from the others again and
            // again.
            if must_pause && closing.within(ENTER_AGAIN_AFTER).await {
                return Ok(());
            }
            if self.requests.requeue == Requeue::OnRequest {
                tokio::select! {
                    biased;
                    () = self.requests.queue.asked() => {}
                    () = closing.closed() => return Ok(()),
                }
            }
        }
    }

    /// Leads for one term.
    async fn lead_once<F, Leading>(
        &self,
        guard: &Guard,
        lead: &mut F,
        closing: &mut Closing,
    ) -> Ended
    where
        F: FnMut(Term) -> Leading,
        Leading: Future<Output = ()>,
    {
        // Registered before the term is published, so that no interruption is missed.
        let interrupted = self.requests.interrupt.notified();
        let own = match self.requests.requeue {
            Requeue::Always => Term::new(guard),
            Requeue::OnRequest => Term::new(guard).with_queue(&self.requests.queue),
        };
        let _published = Published::new(&self.term, own.clone());
        let mut has_begun = false;
        let begin = || {
            has_begun = true;
            // From now on a request to enter the line counts for after this term.
            self.requests.queue.left();
            lead(own)
        };
        let ended = tokio::select! {
            biased;
            () = closing.closed() => Ended::Closing,
            () = guard.lost() => Ended::NotBegun,
            () = self.policy.until_not_admitted(&self.lock.line.client) => Ended::NotBegun,
            () = interrupted => Ended::Returned,
            led = catching(begin) => led.map_or_else(Ended::Panicked, |()| Ended::Returned),
        };
        match ended {
            Ended::NotBegun if has_begun => Ended::Returned,
            Ended::Returned if !has_begun => {
                self.requests.queue.left();
                Ended::Returned
            }
            ended => ended,
        }
    }
}

/// Awaits the future that a function makes. Returns the panic of either.
async fn catching<F: Future>(make: impl FnOnce() -> F) -> Result<F::Output, Panic> {
    // After a panic the future is only dropped.
    let mut future = pin!(catch_unwind(AssertUnwindSafe(make))?);
    std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// A term that is published until this is dropped, also by a panic.
struct Published<'a>(&'a Publisher<Option<Term>>);

impl<'a> Published<'a> {
    fn new(sender: &'a Publisher<Option<Term>>, term: Term) -> Self {
        sender.send_replace(Some(term));
        Self(sender)
    }
}

impl Drop for Published<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}
