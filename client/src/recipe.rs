//! What a recipe needs beyond plain requests.
//!
//! A recipe is an algorithm over znodes: a lock, an election, a barrier. Almost all of them rest on
//! an ephemeral znode, and an ephemeral belongs to one session. When that session expires the
//! server deletes the znode, and the [`Client`] opens a new session by itself. A plain request
//! would then run in the new session, where the recipe owns nothing: a lock would be released
//! twice, or a znode created that nobody watches over.
//!
//! A [`SessionClient`] prevents this. Its requests are sent in one session or not at all: after
//! that session they fail with [`Error::SessionExpired`]. [`Client::connected_session`] returns the
//! one of the current session.
//!
//! Four more things are hard to get right without help:
//!
//! - **A lost reply.** After [`Error::ConnectionLoss`] nobody knows whether the
//!   server created the znode. A *protected* name ([`Client::protected_path`]) contains an id that no other
//!   znode has, and [`SessionClient::find_protected`] looks for it, as Curator's
//!   `CreateBuilder.withProtection` does. Where the name is fixed, [`SessionClient::find_own`]
//!   recognizes the znode by its data or its czxid.
//! - **A delete that must happen.** A lock that is not deleted blocks everybody.
//!   [`SessionClient::delete_in_background`] repeats the delete until the znode is gone or the
//!   session is over, also when the caller no longer waits.
//! - **Whether the session still lives.** A client that is cut off cannot know whether the server
//!   has expired its session. [`SessionClient::is_proven`] is true only while that is impossible,
//!   and a [`Claim`] makes the client check the znode and renew the proof in time.
//! - **Watching without reading.** [`SessionClient::watch_znodes`] watches several znodes with one
//!   request that returns none of their data.
//!
//! ```no_run
//! use zoolet_client::recipe::SessionClient;
//! use zoolet_client::{Client, Created, Error, protocol::CreateMode};
//!
//! /// Enters a queue, and knows afterwards whether it did.
//! async fn enter(client: &Client) -> Result<(SessionClient, Created), Error> {
//!     let session = client.connected_session().await?;
//!     let path = client.protected_path("/queue/member-");
//!     let create = session.create(&path).mode(CreateMode::EphemeralSequential);
//!     let created = match create.send().await {
//!         // The reply was lost: the znode is found by the id in its name, if it exists.
//!         Err(Error::ConnectionLoss { .. }) => session.find_protected(&path).await?,
//!         created => Some(created?),
//!     };
//!     Ok((session, created.ok_or(Error::SessionExpired)?))
//! }
//!
//! # async fn example(client: Client) -> Result<(), Error> {
//! let (session, member) = enter(&client).await?;
//! let claim = session.claim(&member.path); // checks the znode from now on
//! while session.is_proven() && !claim.is_gone() {
//!     // Here no server can have deleted the member, because its session cannot have expired.
//!     # break;
//! }
//! session.delete_in_background(&member.path, None).await?;
//! # Ok(())
//! # }
//! ```

pub(crate) mod deletion;
mod one_shot_watches;
mod protected;
mod znode_watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use tokio::task::JoinHandle;
use zoolet_protocol::{Acl, ErrorCode, Expect, MultiOp, MultiResult, Names, SessionId, Stat, Zxid};

pub use self::deletion::ZnodeIdentity;
pub use self::one_shot_watches::OneShotWatches;
pub(crate) use self::protected::with_prefix;
pub use self::znode_watch::{WatchFor, ZnodeWatch};
pub use crate::clock::{now, wall_time};
use crate::create::parent;
use crate::error::Error;
use crate::operation::{Operation, Sent};
use crate::proof::{ClaimId, ClaimedZnode};
use crate::session::Session;
use crate::state::ConnectionState;
pub use crate::subscription::Publisher;
use crate::subscription::Subscription;
#[doc(hidden)]
pub use crate::task_gate::TaskGate;
pub use crate::watches::WaiterId;
use crate::{Client, Create, Parents};

/// The pause before a request that failed is sent again in the background.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// How often [`Client::connected_session`] looks whether the client was closed, which changes no
/// connection state.
const CLOSED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A client whose requests belong to one session.
///
/// A request that is made after the session expired, or whose reply can no longer come because it
/// expired, fails with [`Error::SessionExpired`] and is not sent in the next session. The
/// [module](self) explains why recipes need this.
///
/// Clones are cheap and share the session. A `SessionClient` does not keep the session alive by
/// itself beyond the clones of its [`Client`].
///
/// ```no_run
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let session = client.connected_session().await?;
/// let names = session.children("/members").until_answered().await?;
/// assert!(session.is_current(), "a reply came in {}", session.id());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SessionClient {
    client: Client,
    id: SessionId,
}

impl SessionClient {
    /// The client, whose own requests are sent in whatever session it has.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The id of the session.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Whether the client still has this session. It does not have it any more when the server said
    /// that the session expired, or when the client was disconnected for a session timeout.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.client.session_id() == self.id
    }

    /// Whether the server cannot have expired the session yet: the present moment is before
    /// [`Client::session_valid_until`], and the client still has this session.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        // The clock is read under the lock: the wait for the lock counts too.
        self.client.shared().inspect(|session| session.is_proven(self.id, now()))
    }

    /// As [`SessionClient::is_proven`], and for so long that the next proof can be expected before
    /// this one ends.
    #[must_use]
    pub fn is_proven_ahead(&self) -> bool {
        self.client.shared().inspect(|session| session.is_proven_ahead(self.id, now()))
    }

    /// Waits until [`SessionClient::is_proven`] is false.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn until_unproven(&self) {
        let mut changes = self.client.proof_changes();
        while self.is_proven() {
            let until = self.client.session_valid_until();
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Announces that znodes of this client will be claimed. From now on its keep-alive requests reach the
    /// leader of an ensemble (`sync` in place of `ping`), so that a claim finds the session proved
    /// soon. The first claim does the same.
    pub fn expect_claims(&self) {
        self.client.shared().update(|session, _now| session.expect_claims());
    }

    /// Declares that something is held by an ephemeral znode of this session, until the returned
    /// [`Claim`] is dropped.
    ///
    /// While there are claims, the client sends a `sync` and one multi of `check` operations over all
    /// claimed znodes in each third of the session timeout. Its reply proves that the session lived, and a
    /// znode that is missing marks its claim as [gone](Claim::is_gone).
    pub fn claim(&self, path: &str) -> Claim {
        self.claim_expecting(path, Expect::Any)
    }

    /// As [`SessionClient::claim`], of a znode with this data version, for a znode at whose path
    /// somebody else may create another with another version. A znode of another version marks the
    /// claim as gone too.
    pub fn claim_version(&self, path: &str, version: i32) -> Claim {
        self.claim_expecting(path, version.into())
    }

    fn claim_expecting(&self, path: &str, version: Expect) -> Claim {
        let path = self.client.server_path(path).into();
        let claim = |session: &mut Session, now| session.claim(self.id, path, version, now);
        self.claimed(self.client.shared().update(claim))
    }

    /// As [`SessionClient::claim`], if [`SessionClient::is_proven_ahead`]; `None` otherwise. Both are of
    /// one moment. The claim shares the memory of the path, where the client has no namespace.
    pub fn claim_if_proven_ahead(&self, path: &ByteString) -> Option<Claim> {
        let path = match self.client.root.is_empty() {
            true => path.clone(),
            false => self.client.server_path(path).into(),
        };
        let claim = |session: &mut Session, now| {
            let is_proven = session.is_proven_ahead(self.id, now);
            is_proven.then(|| session.claim(self.id, path, Expect::Any, now))
        };
        self.client.shared().update(claim).map(|claimed| self.claimed(claimed))
    }

    fn claimed(&self, (id, claimed): (ClaimId, Arc<ClaimedZnode>)) -> Claim {
        Claim { client: self.client.clone(), id: Some(id), claimed }
    }

    /// Reads a znode once, and tells whether the reply came over the connection that was the
    /// `connection_count`-th of the client.
    ///
    /// This confirms an event that has no zxid, as servers before 3.9 send them. The client reports
    /// the greatest zxid that it knows when it reconnects, so that it never follows a server that
    /// is behind. An event without a zxid adds nothing to that; a reply over the same connection
    /// does, whatever it says of the znode.
    ///
    /// # Errors
    ///
    /// Those of a read, except that a lost connection gives `false`.
    pub async fn confirms_event(&self, path: &str, connection_count: u64) -> Result<bool, Error> {
        match self.exists(path).send().await {
            Ok(_) => Ok(self.client.connection_count() == connection_count),
            Err(error) if error.is_retryable() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the server catch up with its ensemble, so that reads which follow see what another
    /// server committed before. It is asked until it answers.
    ///
    /// This sends a multi of one `check`, not a `sync`: a leader that was cut off answers `sync`
    /// from its old state until it notices, but it commits nothing. A multi that is refused is a
    /// transaction too, so `path` need not exist.
    ///
    /// # Errors
    ///
    /// Those of a write, except for a lost connection, which is waited for.
    pub async fn catch_up(&self, path: &str) -> Result<(), Error> {
        loop {
            match self.client.catch_up_once(path, Some(self.id)).await {
                Err(error) if error.is_retryable() => {}
                Err(error) if error.is_passing() => tokio::time::sleep(RETRY_PAUSE).await,
                result => return result,
            }
        }
    }
}

/// The requests of a [`Client`], bound to the session.
impl SessionClient {
    /// Creates a znode: [`Client::create`].
    pub fn create(&self, path: &str) -> Create {
        self.client.create(path).in_session(self.id)
    }

    /// Reads a znode: [`Client::get`].
    pub fn get(&self, path: &str) -> Operation<(Bytes, Stat)> {
        self.client.get(path).in_session(self.id)
    }

    /// Reads a znode's Stat: [`Client::exists`].
    pub fn exists(&self, path: &str) -> Operation<Option<Stat>> {
        self.client.exists(path).in_session(self.id)
    }

    /// Lists a znode's children: [`Client::children`].
    pub fn children(&self, path: &str) -> Operation<Names> {
        self.client.children(path).in_session(self.id)
    }

    /// Lists a znode's children: [`Client::children_with_zxid`].
    pub fn children_with_zxid(&self, path: &str) -> Operation<(Names, Zxid)> {
        self.client.children_with_zxid(path).in_session(self.id)
    }

    /// Replaces a znode's data, whatever its version: [`Client::set`].
    pub fn set(&self, path: &str, data: impl Into<Bytes>) -> Operation<Stat> {
        self.client.set(path, data).into_operation().in_session(self.id)
    }

    /// Deletes a znode, whatever its version: [`Client::delete`].
    pub fn delete(&self, path: &str) -> Operation<()> {
        self.client.delete(path).into_operation().in_session(self.id)
    }

    /// Carries out several writes, all or none: [`Client::multi`].
    pub fn multi(&self, ops: Vec<MultiOp>) -> Operation<Vec<MultiResult>> {
        self.client.multi(ops).in_session(self.id)
    }

    /// As [`SessionClient::multi`], without the results: [`Client::multi_without_results`].
    pub fn multi_without_results(&self, ops: Vec<MultiOp>) -> Operation<()> {
        self.client.multi_without_results(ops).in_session(self.id)
    }

    /// As [`SessionClient::multi`], with the zxid: [`Client::multi_with_zxid`].
    pub fn multi_with_zxid(&self, ops: Vec<MultiOp>) -> Operation<(Vec<MultiResult>, Zxid)> {
        self.client.multi_with_zxid(ops).in_session(self.id)
    }
}

impl fmt::Debug for SessionClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionClient").field(&self.id).finish()
    }
}

/// A znode by which something is held. The client checks it while this lives: see
/// [`SessionClient::claim`].
///
/// ```no_run
/// # fn example(session: zoolet_client::recipe::SessionClient) {
/// let claim = session.claim("/locks/lock-0000000000");
/// assert!(!claim.is_gone());
/// # }
/// ```
#[must_use = "a claim that is dropped is not checked"]
pub struct Claim {
    client: Client,
    /// `None` once it has ended.
    id: Option<ClaimId>,
    claimed: Arc<ClaimedZnode>,
}

impl Claim {
    /// Whether the server was found not to have the znode any more, or the session is over.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.claimed.is_gone()
    }

    /// Sends a request of the same client now, and ends the claim with it: for a request that gives up
    /// what is held.
    ///
    /// ```no_run
    /// # fn example(session: zoolet_client::recipe::SessionClient) {
    /// let claim = session.claim("/locks/lock-0000000000");
    /// let deleted = claim.end_with(session.delete("/locks/lock-0000000000"));
    /// # drop(deleted);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the request is of another client.
    #[inline]
    pub fn end_with<T>(mut self, request: Operation<T>) -> Sent<T> {
        assert_eq!(self.client.id(), request.client.id(), "the claim is of the request's client");
        let submitted = request.submit(None, Vec::new(), self.id);
        if submitted.is_ok() {
            self.id = None;
        }
        request.into_sent(submitted)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        // The driver need not wake. A ping that the check of this znode was to replace is sent at the
        // time of that check, which is late by at most `PING_PUT_OFF_MAX`.
        self.client.shared().alter(|session| session.end_claim(id));
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("is_gone", &self.is_gone()).finish_non_exhaustive()
    }
}

/// Tells the clients of this process apart: clones and [namespaces](Client::namespace) of a client
/// have the same id.
///
/// ```no_run
/// # fn example(one: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// assert_eq!(one.id(), one.namespace("/app")?.id());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(usize);

/// What recipes need beside requests: see the module [`recipe`](crate::recipe).
impl Client {
    /// Waits for a connection, and returns a client whose requests belong to the session.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the client is closed.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn connected_session(&self) -> Result<SessionClient, Error> {
        loop {
            let id = self.session_id();
            let mut state = self.state();
            if !id.is_none() && state.borrow_and_update().is_some_and(ConnectionState::is_connected)
            {
                return Ok(self.in_session(id));
            }
            if self.shared().inspect(Session::is_closed) {
                return Err(Error::Closed);
            }
            // The close of a client that has no session changes no state.
            let _ = tokio::time::timeout(CLOSED_CHECK_INTERVAL, state.changed()).await;
        }
    }

    /// This client with its requests bound to a session, which may be over already.
    #[must_use]
    pub fn in_session(&self, session: SessionId) -> SessionClient {
        SessionClient { client: self.clone(), id: session }
    }

    /// Identifies this client among those of the process.
    #[must_use]
    pub fn id(&self) -> ClientId {
        ClientId(Arc::as_ptr(&self.session).addr())
    }

    /// How many connections the client has opened so far. What was heard in one order over one
    /// connection may be told in another order after a reconnect.
    #[must_use]
    pub fn connection_count(&self) -> u64 {
        self.shared().connection_count()
    }

    /// Whether the client is closed, or is being closed.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.shared().inspect(Session::is_closing)
    }

    /// Changes when something else than the passing of time changes what is proved of the session:
    /// a new proof after the last one ended, a claimed znode that is gone, or the end of the
    /// session.
    #[must_use]
    pub fn proof_changes(&self) -> Subscription<()> {
        self.shared().proof.subscribe()
    }

    /// Runs a task on the runtime that drives this client, whichever thread calls. Recipes do in it
    /// what must go on when nobody waits any more.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.shared().spawn(task)
    }

    /// As [`SessionClient::catch_up`], asked once.
    pub(crate) async fn catch_up_once(
        &self,
        path: &str,
        session: Option<SessionId>,
    ) -> Result<(), Error> {
        let mut checked = self.multi_without_results(vec![MultiOp::check(path, Expect::Any)]);
        if let Some(session) = session {
            checked = checked.in_session(session);
        }
        match checked.send().await {
            Err(error) if error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::NO_AUTH) => Ok(()),
            result => result,
        }
    }

    /// The operations that create a directory and those of its ancestors that are missing, as
    /// containers unless the client is [without them](crate::Builder::without_containers), for a
    /// multi that creates something in it. The missing part of the
    /// [namespace](Client::namespace) is created at once, since operations cannot name it. All get
    /// this access control list; without one, each gets the [default](Client::default_acl) of its
    /// own path.
    ///
    /// # Errors
    ///
    /// Those of a read, and of a create in a namespace.
    pub async fn missing_containers(
        &self,
        directory: &str,
        acl: Option<&[Acl]>,
    ) -> Result<Vec<MultiOp>, Error> {
        self.missing_directories(directory, Parents::Containers, acl).await
    }

    /// As [`Client::missing_containers`], with directories that are containers or stay.
    ///
    /// # Errors
    ///
    /// As [`Client::missing_containers`].
    pub async fn missing_directories(
        &self,
        directory: &str,
        parents: Parents,
        acl: Option<&[Acl]>,
    ) -> Result<Vec<MultiOp>, Error> {
        let mut missing = Vec::new();
        let mut ancestor = directory;
        while ancestor != "/" && self.exists(ancestor).await?.is_none() {
            missing.push(ancestor.to_owned());
            ancestor = parent(ancestor);
        }
        if ancestor == "/" && !missing.is_empty() {
            self.create_missing("/x", parents, acl).await?;
        }
        let create = |path: &String| {
            let mode = self.session.defaults.mode_of(parents);
            let create = zoolet_protocol::Create::new(path.as_str(), mode);
            let acl = acl.map_or_else(|| self.default_acl(path), <[Acl]>::to_vec);
            MultiOp::from(create.acl(acl))
        };
        Ok(missing.iter().rev().map(create).collect())
    }
}
