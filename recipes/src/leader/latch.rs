//! Leader election with a latch: Curator's `LeaderLatch`, with its znodes.

use std::pin::pin;
use std::time::Duration;

use zoolet_protocol::Acl;

use super::election::{
    Candidacy, Closing, ENTER_AGAIN_AFTER, ErrorPolicy, Participant, Task, Term, participants,
    publish_while_held, wait_to_lead,
};
use crate::client::recipe::Publisher;
use crate::client::{self, Client, Subscription};
use crate::error::{LockError, within};
use crate::line::Line;
use crate::line::order::PlaceKind;
use crate::lock::line_lock::LineLock;

/// Each place waits for all places before it. The marker is Curator's.
///
/// A leader does not announce the deletion of its znode by a change of the data, as the holder of a
/// mutex does: Curator's latch sets a one-shot watch on the znode ahead, and ignores every event
/// but the deletion.
static KIND: PlaceKind = PlaceKind {
    marker: "latch-",
    waits_for: &["latch-"],
    ignores: &[],
    is_exclusive: false,
    may_have_second_place: &[],
};

/// A participant of an election. The first in line leads until its session ends, its znode is
/// deleted or it is closed; then the next one leads.
///
/// A latch does not report that it leads when the last proof of its session is so old that another
/// participant may lead ([`LockState`](crate::LockState)); a short disconnect ends no term. A latch
/// that has lost its place enters the line again.
///
/// Its znodes are those of Curator's `LeaderLatch`. Dropping it deletes its znode in the
/// background; [`LeaderLatch::close`] waits until it is deleted.
///
/// ```no_run
/// use zoolet_recipes::LeaderLatch;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let latch = LeaderLatch::start(&client, "/leader", "host-1")?;
/// let term = latch.await_leadership().await?;
/// println!("leading, with the fencing token {}", term.fencing_token());
/// latch.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LeaderLatch {
    lock: LineLock,
    id: String,
    term: Subscription<Option<Term>>,
    /// The znode by which it leads, or led last.
    path: Subscription<Option<String>>,
    task: Task,
}

/// The options of a [`LeaderLatch`]: [`LeaderLatch::builder`].
///
/// ```no_run
/// use zoolet_recipes::{ErrorPolicy, LeaderLatch};
///
/// # fn example(client: zoolet_client::Client) -> Result<(), zoolet_recipes::LockError> {
/// let latch = LeaderLatch::builder(&client, "/leader")
///     .id("host-1")
///     .error_policy(ErrorPolicy::Connection)
///     .start()?;
/// # drop(latch);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a latch enters the line when it is started"]
pub struct LeaderLatchBuilder {
    client: Client,
    path: String,
    id: String,
    acl: Option<Vec<Acl>>,
    policy: ErrorPolicy,
}

impl LeaderLatchBuilder {
    /// Sets the id that others see. The default is empty, as in Curator.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the access control list of the znode and of the directories that are created for it. A
    /// latch that is not allowed to create its znode tries again until it is closed, and logs why.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets when a term ends. The default is [`ErrorPolicy::Session`].
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Enters the line, and stays in it.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the path is not valid.
    pub fn start(self) -> Result<LeaderLatch, LockError> {
        let mut lock = LineLock::new(Line::new(&self.client, &self.path, &KIND)?);
        lock.line.data = self.id.as_bytes().to_vec().into();
        if let Some(acl) = self.acl {
            lock.line.set_acl(acl);
        }
        let published = Published {
            term: Publisher::new(None),
            path: Publisher::new(None),
            policy: self.policy,
        };
        let (term, path) = (published.term.subscribe(), published.path.subscribe());
        let leading = lock.clone();
        let task = Task::spawn(&self.client, |closing| lead_again(leading, published, closing));
        Ok(LeaderLatch { lock, id: self.id, term, path, task })
    }
}

/// What the task of a latch publishes.
struct Published {
    term: Publisher<Option<Term>>,
    path: Publisher<Option<String>>,
    policy: ErrorPolicy,
}

/// Publishes that there is no term when this is dropped, also when the latch is dropped while it
/// leads: a receiver would show its last term for ever.
struct EndOfTerm<'a>(&'a Publisher<Option<Term>>);

impl Drop for EndOfTerm<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

impl LeaderLatch {
    /// Enters the line of a path with an id that others see, and stays in it.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn start(client: &Client, path: &str, id: &str) -> Result<Self, LockError> {
        Self::builder(client, path).id(id).start()
    }

    /// As [`LeaderLatch::start`], with an access control list for its znode and for the directories
    /// that are created for it. A latch that is not allowed to create its znode tries again until
    /// it is closed, and logs why.
    ///
    /// # Errors
    ///
    /// As [`LeaderLatch::start`].
    pub fn start_with_acl(
        client: &Client,
        path: &str,
        id: &str,
        acl: Vec<Acl>,
    ) -> Result<Self, LockError> {
        Self::builder(client, path).id(id).acl(acl).start()
    }

    /// The options of a latch.
    pub fn builder(client: &Client, path: &str) -> LeaderLatchBuilder {
        LeaderLatchBuilder {
            client: client.clone(),
            path: path.to_owned(),
            id: String::new(),
            acl: None,
            policy: ErrorPolicy::default(),
        }
    }

    /// The id that others see.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The znode by which it leads, or led last (`getLastPathIsLeader` of Curator); `None` before it
    /// has led. To fence writes, use [`Term::fencing_token`] or [`Term::transaction`].
    #[must_use]
    pub fn last_leader_path(&self) -> Option<String> {
        self.path.borrow().clone()
    }

    /// Whether it leads, as far as is known without a request.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.term.borrow().as_ref().is_some_and(Term::is_held)
    }

    /// The present term, which can be read and waited for. It is `None` while this latch does not
    /// lead, and while another may lead ([`LockState::Suspect`](crate::LockState::Suspect)); after
    /// that it is the same term again if no other has led.
    #[must_use]
    pub fn term(&self) -> Subscription<Option<Term>> {
        self.term.clone()
    }

    /// Waits until it leads.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`](client::Error::Closed) if the client is closed.
    ///
    /// # Cancellation
    ///
    /// Safe: the place in line stays.
    pub async fn await_leadership(&self) -> Result<Term, LockError> {
        let mut terms = self.term.clone();
        let closed = |_| LockError::Client(client::Error::Closed);
        let term = terms.wait_for(Option::is_some).await.map_err(closed)?;
        term.clone().ok_or_else(|| LockError::Lost(self.lock.line.directory.to_string()))
    }

    /// As [`LeaderLatch::await_leadership`], within a time limit.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed: the place in line stays. Else as
    /// [`LeaderLatch::await_leadership`].
    pub async fn await_leadership_within(&self, time: Duration) -> Result<Term, LockError> {
        within(time, &self.lock.line.directory, pin!(self.await_leadership())).await
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
    /// As [`LeaderLatch::participants`].
    pub async fn leader(&self) -> Result<Option<Participant>, LockError> {
        Ok(self.participants().await?.into_iter().next())
    }

    /// Leaves the election, and returns when the znode is deleted. Without a connection this waits
    /// for one, or until the session must have ended.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the leadership was lost just before, or with the session;
    /// [`LockError::PlaceLost`] if the place in line was.
    ///
    /// # Cancellation
    ///
    /// Safe: the znode is deleted in the background.
    pub async fn close(self) -> Result<(), LockError> {
        self.task.close().await
    }
}

/// Enters the line, leads, and enters the line again, until the latch or the client is closed.
async fn lead_again(
    lock: LineLock,
    published: Published,
    mut closing: Closing,
) -> Result<(), LockError> {
    loop {
        match wait_to_lead(&lock, &mut closing).await {
            Candidacy::Leads(guard) => {
                let own = Term::new(&guard);
                published.path.send_replace(Some(own.path().to_owned()));
                // Dropped before the guard: the next participant leads after this one knows.
                let end_of_term = EndOfTerm(&published.term);
                let is_lost = tokio::select! {
                    biased;
                    () = publish_while_held(&guard, &own, &published.term, published.policy) => true,
                    () = closing.closed() => false,
                };
                drop(end_of_term);
                if !is_lost {
                    return guard.release().await;
                }
            }
            Candidacy::Closed(result) => return result,
            Candidacy::Failed(LockError::Client(client::Error::Closed)) => return Ok(()),
            Candidacy::Failed(error) => {
                tracing::warn!(
                    "{}: cannot enter the line of leaders: {error}",
                    lock.line.directory
                );
                if closing.within(ENTER_AGAIN_AFTER).await {
                    return Ok(());
                }
            }
        }
    }
}
