//! An async ZooKeeper client.
//!
//! [`Client::connect`] opens a session with a ZooKeeper server or ensemble, given by its connection
//! string, or with a zoolet server in the same process. The client keeps the session alive with
//! pings, reconnects, and registers its watches again. When the session expires, the client opens a
//! new one; [`Client::state`] reports that.
//!
//! **Calls** are values that are awaited: `client.get("/config").await`. Options are methods before
//! the `await`: `client.set("/config", "x").version(3)`. A request is sent when the call is first
//! polled, or at once by `send()`, with which requests are pipelined. The server carries out the
//! requests of one client in the order in which they were sent.
//!
//! **Watches** are values too: a [`Watcher`] is a future of one event, and a [`PersistentWatcher`]
//! returns one event after the other. Dropping a watcher removes its watch.
//!
//! **Transactions** change several znodes or none: [`Client::transaction`].
//!
//! **Errors** say what the caller may conclude: see [`Error`]. After a lost connection an awaited
//! call is retried as the client's [`RetryPolicy`] says where that does no harm: a read always, a
//! write only if it was never sent.
//!
//! **Recipes** (locks, elections, barriers) are in the crate `zoolet-recipes`. Whoever writes one
//! finds what it needs in [`recipe`].
//!
//! ```no_run
//! use zoolet_client::{Client, CreateMode, Watched};
//!
//! # async fn example() -> Result<(), zoolet_client::Error> {
//! let client = Client::connect("localhost:2181").await?;
//! client.create("/service/one").data("10.0.0.7").mode(CreateMode::Ephemeral).await?;
//! let Watched { found, watcher } = client.children("/service").and_watch().await?;
//! println!("{} instances", found.len());
//! watcher.await?; // an instance was started or stopped
//! # Ok(())
//! # }
//! ```

mod builder;
mod call;
mod clock;
mod connecting;
mod create;
mod defaults;
mod delete_tree;
mod driver;
mod error;
mod four_letter;
mod frames;
mod hosts;
mod limits;
mod operation;
mod proof;
mod random;
mod reads;
mod retry;
mod rewatch;
mod root;
mod saved_session;
mod security;
mod session;
mod state;
mod stream;
mod subscription;
mod task_gate;
mod tcp;
mod transaction;
mod watcher;
mod watches;
mod writes;

pub mod blocking;
#[cfg(feature = "compression")]
pub mod compression;
pub mod recipe;
pub mod sasl;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, OpCode, Password, Response, SessionId, ZPath};

pub use self::builder::Builder;
use self::call::{Answer, Call, Outcome};
pub use self::connecting::ConnectError;
#[doc(hidden)]
pub use self::connecting::PERHAPS_TOO_MANY;
use self::connecting::{FailedAttempt, Failure};
pub use self::create::{Create, Created, Parents};
use self::defaults::Defaults;
use self::driver::Shared;
pub use self::error::Error;
pub use self::four_letter::{FourLetterWord, WordAnswer};
pub use self::hosts::Hosts;
pub use self::operation::{Operation, Sent};
use self::operation::{Reading, Subject, read_reply, reply_reader};
pub use self::reads::Watched;
pub use self::retry::RetryPolicy;
use self::root::Root;
pub use self::saved_session::SavedSession;
use self::session::Session;
pub use self::state::ConnectionState;
pub use self::stream::StreamDialer;
pub use self::subscription::{Subscription, SubscriptionEnded, ValueRef};
pub use self::transaction::Transaction;
pub use self::watcher::{Event, PersistentWatcher, Watcher};
pub use self::writes::{Delete, SetAcl, SetData};
#[doc(inline)]
pub use zoolet_protocol as protocol;
pub use zoolet_protocol::{ConnectTarget, CreateMode};
#[cfg(feature = "tls")]
#[doc(inline)]
pub use zoolet_tls as tls;

/// A ZooKeeper client: one session, and the requests that can be made in it.
///
/// Clones are cheap and share the session. When the last clone is dropped the session is closed: at
/// once if the client is connected, and otherwise when the server expires it.
///
/// ```no_run
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), zoolet_client::Error> {
/// let client = Client::connect("localhost:2181").await?;
/// client.create("/greeting").data("hello").await?;
/// let (data, stat) = client.get("/greeting").await?;
/// assert_eq!((&data[..], stat.version), (&b"hello"[..], 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    session: Arc<SessionOwner>,
    root: Root,
    /// How many bytes of the prefix are the chroot of the connection string.
    chroot: usize,
    retry: RetryPolicy,
}

/// Closes the session when the last client is dropped.
struct SessionOwner {
    shared: Arc<Shared>,
    /// Here, so that a clone of a client counts one reference.
    defaults: Defaults,
}

impl Drop for SessionOwner {
    fn drop(&mut self) {
        let call = Call::new(OpCode::CLOSE_SESSION);
        self.shared.with(|session, now| {
            if !session.is_closed() {
                session.close(call, now);
            }
        });
        // The process may end now.
        self.shared.write_held_back();
    }
}

impl Client {
    /// A builder with Curator's defaults.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Connects with the defaults: to `"host:2181,host:2181/chroot"`, or to a server in this
    /// process with `server.dialer()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    pub async fn connect(target: impl Into<ConnectTarget>) -> Result<Self, Error> {
        Self::builder().connect(target).await
    }

    /// Waits for the first connection, for no longer than it can still come.
    async fn first_connected(
        &self,
        within: Duration,
        failed_attempt: Option<FailedAttempt>,
    ) -> Result<(), Error> {
        let (mut state, mut failures) = (self.state(), self.shared().failure.subscribe());
        let is_final = |failure: &Option<Failure>| failure.as_ref().is_some_and(|it| it.is_final);
        let is_connected = tokio::select! {
            biased;
            state = state.wait_for(|it| it.is_some_and(ConnectionState::is_connected)) => {
                state.is_ok()
            }
            _ = failures.wait_for(is_final) => false,
            () = tokio::time::sleep(within) => false,
            () = connecting::report(self.shared().failure.subscribe(), failed_attempt) => false,
        };
        if is_connected {
            return Ok(());
        }
        let last = failures.borrow().as_ref().map(|failure| failure.cause.clone());
        if last == Some(ConnectError::AuthFailed) {
            return Err(Error::AuthFailed);
        }
        Err(Error::Unreachable(last.unwrap_or_else(|| ConnectError::unanswered(within))))
    }

    /// The session id; [`SessionId::NONE`] while there is no session.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.shared().inspect(Session::id)
    }

    /// The password of the session, with which another client could resume it.
    #[must_use]
    pub fn session_password(&self) -> Password {
        self.shared().inspect(|session| session.password().clone())
    }

    /// The session timeout that the server granted; the one asked for while there is no session.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.shared().inspect(Session::timeout)
    }

    /// The most bytes of a request: [`Builder::jute_max_buffer`].
    #[must_use]
    pub fn jute_max_buffer(&self) -> usize {
        self.shared().jute_max_buffer
    }

    /// Until when no server can have expired the session, even if no further reply comes.
    ///
    /// It is reckoned from the last write that was answered: a read proves nothing where there may
    /// be several servers. While there is a [`Claim`](recipe::Claim), as of a recipe's lock, the
    /// client renews the proof in time; otherwise the moment may pass, and nothing follows from
    /// that. The reckoning assumes that the machine is not suspended from now on, and that a leader of
    /// an ensemble that has stood still gets its overdue ping to the followers within 1/24 of the
    /// session timeout of its next reply.
    #[must_use]
    pub fn session_valid_until(&self) -> tokio::time::Instant {
        self.shared().inspect(Session::proven_until)
    }

    /// How many watchers this client has: for tests that look for leaks.
    #[must_use]
    pub fn watcher_count(&self) -> usize {
        self.shared().inspect(Session::watcher_count)
    }

    /// The connection state, to be read and awaited; `None` before the first connection.
    #[must_use]
    pub fn state(&self) -> Subscription<Option<ConnectionState>> {
        self.shared().state.subscribe()
    }

    /// A client of the same session whose paths are all below `path`, as Curator's
    /// `usingNamespace`: the paths that it is given, and those in results and events. The znode
    /// need not exist yet. With `/` the client stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if `path` is not valid.
    pub fn namespace(&self, path: &str) -> Result<Self, Error> {
        ZPath::check(path)?;
        let root = if path == "/" { self.root.clone() } else { (&*self.server_path(path)).into() };
        Ok(Self { root, ..self.clone() })
    }

    /// A client of the same session whose paths are those of the server: without the chroot of the
    /// connection string and without a [namespace](Client::namespace). For what is outside of both,
    /// as the quotas below `/zookeeper`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// # use zoolet_client::Client;
    /// let client = Client::connect("localhost:2181/app").await?;
    /// let quotas = client.without_namespace().children("/zookeeper/quota/app").await?;
    /// # drop(quotas);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn without_namespace(&self) -> Self {
        Self { root: Root::EMPTY, chroot: 0, ..self.clone() }
    }

    /// A client of the same session with another retry policy.
    #[must_use]
    pub fn with_retry_policy(&self, retry: RetryPolicy) -> Self {
        Self { retry, ..self.clone() }
    }

    /// Closes the session. When this returns, its ephemerals are deleted and its watches have
    /// ended.
    ///
    /// What was sent before, also by clones of this client and by its recipes, is answered in order.
    /// What follows fails with [`Error::Closed`] at once, and is not sent. If several clones are closed
    /// at the same time, each waits for the one close of the session.
    ///
    /// # Errors
    ///
    /// [`Error::NotSent`] or [`Error::ConnectionLoss`] if there was no connection, or none any
    /// more. The client is closed all the same, and the server expires the session after its
    /// timeout.
    pub async fn close(self) -> Result<(), Error> {
        let call = Call::new(OpCode::CLOSE_SESSION);
        let answer = Answer(Arc::clone(&call));
        self.shared().with(|session, now| session.close(call, now));
        match answer.await {
            Outcome::Closed => Ok(()),
            outcome => {
                let reader = reply_reader!(Response::Empty => ());
                read_reply(
                    outcome,
                    OpCode::CLOSE_SESSION,
                    Subject::Path(""),
                    Reading::Reply(reader),
                )
            }
        }
    }

    /// The access control list of a znode that is created at this path and has none of its own: that
    /// of the client's [provider](Builder::acl_provider), else open to everyone.
    #[must_use]
    pub fn default_acl(&self, path: &str) -> Vec<Acl> {
        self.session.defaults.acl(|| self.server_path(path))
    }

    /// The data of the znodes of recipes that have none of their own, if the
    /// [builder](Builder::default_data) was given any.
    #[must_use]
    pub fn default_data(&self) -> Option<Bytes> {
        self.session.defaults.data.clone()
    }

    /// Ends this client without closing its session, for another client to go on with it: its
    /// ephemerals stay until the session times out. `None` if there is no session. All clones of
    /// this client are closed; calls that have no reply yet fail with [`Error::Closed`], and whether
    /// they were carried out is not known.
    ///
    /// **Release locks, permits, leaderships and partitions first, leave parties, and close sequential
    /// nodes.** Their znodes stay too, for as long as the other client keeps the session, and no recipe
    /// of it knows their names: a lock would be held by nobody, and a member that left would be counted.
    /// What has a name of its own goes on: an ephemeral `PersistentNode`, a `GroupMember` or an instance
    /// of a service with the same path takes its znode over, if it was not closed or dropped before.
    ///
    /// Credentials are not handed over. Give the other client the same ones.
    ///
    /// ```no_run
    /// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// use zoolet_client::Client;
    ///
    /// client.create("/members/one").mode(zoolet_client::CreateMode::Ephemeral).await?;
    /// if let Some(saved) = client.hand_over() {
    ///     let client = Client::builder().session(saved).connect("localhost:2181").await?;
    ///     assert!(client.exists("/members/one").await?.is_some());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "without it the session can only time out"]
    pub fn hand_over(self) -> Option<SavedSession> {
        // The end of the client forgets what waits: it may be the release of a lock.
        self.shared().write_held_back();
        self.shared().with(|session, _now| {
            let saved = session.saved();
            session.end();
            saved
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.session.shared
    }

    /// A path as the server names it: with the chroot of the connection string and the
    /// [namespace](Client::namespace) of this client.
    #[must_use]
    pub fn server_path(&self, path: &str) -> String {
        match path {
            "/" if !self.root.is_empty() => self.root.to_string(),
            // Of the right size at once.
            path => [&*self.root, path].concat(),
        }
    }

    /// A path with the [namespace](Client::namespace) of this client, and without the chroot of the
    /// connection string: as Curator passes it to ZooKeeper's own client, which adds the chroot.
    #[must_use]
    pub fn namespaced_path(&self, path: &str) -> String {
        let mut path = self.server_path(path).split_off(self.chroot);
        if path.is_empty() {
            path.push('/');
        }
        path
    }

    /// A path of the server as this client names it. One that is not below the client's namespace
    /// stays as it is.
    #[must_use]
    pub fn local_path(&self, path: &str) -> String {
        self.path_below_root(path).unwrap_or(path).to_owned()
    }

    /// A path of the server as this client names it, if it is below the client's namespace.
    pub(crate) fn path_below_root<'a>(&self, path: &'a str) -> Option<&'a str> {
        match path.strip_prefix(&*self.root)? {
            "" => Some("/"),
            local => local.starts_with('/').then_some(local),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("session", &self.session_id())
            .field("root", &&*self.root)
            .finish_non_exhaustive()
    }
}
