//! Who of many leads: Curator's `LeaderLatch`, with its znodes.

use std::time::Duration;

use tokio::sync::watch;
use zoolet_protocol::Acl;

use crate::client::{self, Client};
use crate::error::LockError;
use crate::leader::election::{
    Closing, ENTER_AGAIN_AFTER, Elected, Participant, Task, Term, participants, stand,
    tell_while_held,
};
use crate::line::order::Kind;
use crate::line::place::Line;
use crate::lock::line_lock::LineLock;

/// Everyone waits for everyone before. The name is Curator's.
///
/// Nobody tells its end by a change of its data, as the holder of a mutex does: Curator's latch
/// waits with a watch for the one ahead that hears of one event, and passes over all but a deletion.
static KIND: Kind = Kind {
    marker: "latch-",
    waits_for: &["latch-"],
    holds_beside: &[],
    is_exclusive: false,
    with_places_beside: &[],
};

/// One who would lead: the first in line leads until its session ends, its znode is deleted or it
/// is closed, and then the next.
///
/// Nobody is told that it leads when its session was proved to live so long ago that another may lead by
/// now ([`LockState`](crate::LockState)); a short disconnect ends no term. Who has lost its place takes a new one at the
/// end of the line by itself.
///
/// Its znodes are those of Curator's `LeaderLatch`. Dropping it gives its place up in the
/// background; [`LeaderLatch::close`] waits for that.
///
/// ```no_run
/// use zoolet_recipes::LeaderLatch;
/// use zoolet_recipes::client::Client;
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
    term: watch::Receiver<Option<Term>>,
    task: Task,
}

impl LeaderLatch {
    /// Gets in line at a path, under a name by which others know it, and stays there.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn start(client: &Client, path: &str, id: &str) -> Result<Self, LockError> {
        Self::start_with_acl(client, path, id, vec![Acl::open()])
    }

    /// As [`LeaderLatch::start`], with an access control list for its znode and for what is created
    /// above. Who may not get in line there goes on trying until it is closed, and logs why.
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
        let mut lock = LineLock::new(Line::new(client, path, &KIND)?);
        lock.line.data = id.as_bytes().to_vec().into();
        lock.line.acl = acl.into();
        let (sender, term) = watch::channel(None);
        let task = Task::spawn(client, |closing| lead_again(lock.clone(), sender, closing));
        Ok(Self { lock, term, task })
    }

    /// Whether it leads, as far as is known without asking the server.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.term.borrow().as_ref().is_some_and(Term::is_held)
    }

    /// The term if it leads, to be looked at and waited for. It is `None` too while another may lead
    /// ([`LockState::Suspect`](crate::LockState::Suspect)), and the same as before when none did.
    #[must_use]
    pub fn term(&self) -> watch::Receiver<Option<Term>> {
        self.term.clone()
    }

    /// Waits until it leads.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`](client::Error::Closed) if the client is closed, so that it never will.
    ///
    /// # Cancellation
    ///
    /// Safe: the place in line stays.
    pub async fn await_leadership(&self) -> Result<Term, LockError> {
        let mut terms = self.term.clone();
        let closed = |_| LockError::Client(client::Error::Closed);
        let term = terms.wait_for(Option::is_some).await.map_err(closed)?;
        term.clone().ok_or(LockError::Lost)
    }

    /// As [`LeaderLatch::await_leadership`], within a time.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over: the place in line stays. Else as
    /// [`LeaderLatch::await_leadership`].
    pub async fn await_leadership_within(&self, time: Duration) -> Result<Term, LockError> {
        tokio::time::timeout(time, self.await_leadership()).await.unwrap_or(Err(LockError::Over))
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
    /// As [`LeaderLatch::participants`].
    pub async fn leader(&self) -> Result<Option<Participant>, LockError> {
        Ok(self.participants().await?.into_iter().next())
    }

    /// Gives its place up, and returns when its znode is gone. Without a connection that is when
    /// there is one again, or when the session must be taken to be over.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the leadership was lost just before, or with the session;
    /// [`LockError::PlaceLost`] if the place in line was.
    ///
    /// # Cancellation
    ///
    /// Safe: the place is given up in the background.
    pub async fn close(self) -> Result<(), LockError> {
        self.task.close().await
    }
}

/// Stands in line, leads, and stands in line again, until it is told to leave or the client is
/// closed.
async fn lead_again(
    lock: LineLock,
    term: watch::Sender<Option<Term>>,
    mut closing: Closing,
) -> Result<(), LockError> {
    loop {
        match stand(&lock, &mut closing).await {
            Elected::Leads(guard) => {
                let own = Term::new(&lock.line.client, &guard);
                let is_lost = tokio::select! {
                    biased;
                    () = tell_while_held(&guard, &own, &term) => true,
                    () = closing.closed() => false,
                };
                term.send_replace(None);
                if !is_lost {
                    return guard.release().await;
                }
            }
            Elected::Closed(result) => return result,
            Elected::Failed(LockError::Client(client::Error::Closed)) => return Ok(()),
            Elected::Failed(error) => {
                tracing::warn!("{} cannot be led: {error}", lock.line.directory);
                if closing.within(ENTER_AGAIN_AFTER).await {
                    return Ok(());
                }
            }
        }
    }
}
