//! A ZooKeeper client.
//!
//! [`Client::connect`] opens a session, with servers by name or with a server in this process. The
//! client keeps it connected, pings, registers watches again after a reconnect, and opens a new
//! session by itself when one is over, which [`Client::state`] tells.
//!
//! Calls are builders that are awaited. A request takes its place in line when it is first polled,
//! or at once with `send()`, which is how one pipelines. Requests of one client are carried out in
//! the order of their places.
//!
//! A watch is a value: [`Watcher`] is awaited for one change, [`PersistentWatcher`] for all that
//! follow. Dropped, it is forgotten.
//!
//! Errors say what may be concluded: see [`Error`]. What was lost on the way is tried again by the
//! client's [`RetryPolicy`] where that cannot do harm: reads always, writes only while they were
//! never sent.

mod call;
mod clock;
mod connecting;
mod create;
mod driver;
mod error;
mod hosts;
mod operation;
mod proof;
mod reads;
mod retry;
mod rewatch;
mod session;
mod state;
mod tcp;
mod watcher;
mod watches;
mod writes;

pub mod recipe;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use zoolet_protocol::{Dial, Password, SessionId, ZPath};

use self::call::{Call, Outcome};
use self::clock::SuspensionClock;
use self::clock::now;
pub use self::connecting::ConnectError;
use self::connecting::Failure;
pub use self::create::{Create, Created, Parents};
use self::driver::Shared;
pub use self::error::Error;
pub use self::hosts::Hosts;
pub use self::operation::{Operation, Sent};
pub use self::reads::Watched;
pub use self::retry::RetryPolicy;
use self::session::{Options, Session};
pub use self::state::ConnectionState;
pub use self::watcher::{Event, PersistentWatcher, Watcher};
pub use self::writes::{Delete, SetAcl, SetData};
#[doc(inline)]
pub use zoolet_protocol as protocol;
pub use zoolet_protocol::CreateMode;

/// A client: a session, and what one may ask of it. Clones share the session; when the last is
/// dropped the session ends, at once if it is connected, and else when the server finds out.
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
    session: Arc<Owned>,
    /// What stands before every path; empty for nothing.
    root: Arc<str>,
    retry: RetryPolicy,
}

/// The session, closed when nobody has it any more.
struct Owned(Arc<Shared>);

impl Drop for Owned {
    fn drop(&mut self) {
        let call = Call::new(zoolet_protocol::OpCode::CLOSE_SESSION);
        self.0.with(|session, now| {
            if !session.is_closed() {
                session.close(call, now);
            }
        });
    }
}

/// Something that a client can connect to: the text of [`Hosts`], or whatever can be dialled.
///
/// `Way` only tells the two apart and is never named.
pub trait Target<Way> {
    /// What to dial, and what stands before every path.
    ///
    /// # Errors
    ///
    /// [`Error::Hosts`] or [`Error::Path`] if a text cannot be read.
    fn into_dialer(self) -> Result<(Arc<dyn Dial>, String), Error>;
}

/// A [`Target`] by text.
#[derive(Debug)]
pub enum ByText {}

/// A [`Target`] that is dialled itself.
#[derive(Debug)]
pub enum ByDial {}

impl Target<ByText> for &str {
    fn into_dialer(self) -> Result<(Arc<dyn Dial>, String), Error> {
        let hosts: Hosts = self.parse()?;
        let chroot = hosts.chroot().to_owned();
        Ok((Arc::new(hosts), chroot))
    }
}

impl<D: Dial + 'static> Target<ByDial> for D {
    fn into_dialer(self) -> Result<(Arc<dyn Dial>, String), Error> {
        Ok((Arc::new(self), String::new()))
    }
}

/// How to connect.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_client::{Client, RetryPolicy};
///
/// # async fn example() -> Result<(), zoolet_client::Error> {
/// let client = Client::builder()
///     .session_timeout(Duration::from_secs(10))
///     .retry_policy(RetryPolicy::n_times(3, Duration::from_millis(100)))
///     .connect("one:2181,two:2181,three:2181/app")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    options: Options,
    retry: RetryPolicy,
}

impl Builder {
    /// The session timeout to ask for; a minute by default, as in Curator. The server may grant
    /// less or more.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// How long to wait for a connection: for the first one, and with each request. Fifteen
    /// seconds by default, as in Curator.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.options.connection_timeout = timeout;
        self
    }

    /// When to try again what was lost on the way.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Makes do with a server that has lost its ensemble and serves reads only, and looks for one that
    /// serves writes meanwhile, to move there: [`ConnectionState::ReadOnly`] tells.
    pub fn allow_read_only(mut self) -> Self {
        self.options.read_only = true;
        self
    }

    /// How much is to be left of [`Client::session_valid_until`] at any time while something is held: for
    /// those who must end what they do before a lock is `Suspect`. Zero by
    /// default, and a sixth of the session timeout at most: what is above that counts as that.
    ///
    /// The session is proved anew so early that this much is left when the answer comes, as long as a
    /// round trip takes no more than a fortieth of the timeout, and `acquire` returns a lock after a
    /// long wait when this much is left. Still one request in a third of the timeout is sent, and
    /// one or two more after a lock was waited for.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// # use std::time::Duration;
    /// use zoolet_client::Client;
    ///
    /// let builder = Client::builder().session_timeout(Duration::from_secs(30));
    /// let client = builder.proven_ahead(Duration::from_secs(5)).connect("127.0.0.1:2181").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn proven_ahead(mut self, left: Duration) -> Self {
        self.options.proven_ahead = left;
        self
    }

    /// By what to tell how long the machine was suspended so far, in all. Clocks stand still meanwhile,
    /// and a server goes on elsewhere, so that a lock that was held before may be another's after.
    /// By default Linux is asked (`CLOCK_BOOTTIME`); on other systems nothing is known of it.
    pub fn suspended_time(
        mut self,
        suspended: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.options.suspension = SuspensionClock::new(suspended);
        self
    }

    /// Connects, and waits until there is a session. Must be called within a tokio runtime, which
    /// then drives the client.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if no server could be connected to in time, with what the last try
    /// met; at once if no server has a host whose name is known, or a server in this process is
    /// gone.
    pub async fn connect<Way>(self, target: impl Target<Way>) -> Result<Client, Error> {
        let (dialer, root) = target.into_dialer()?;
        let connection_timeout = self.options.connection_timeout;
        // A server that is not there must leave time for the others.
        let servers = u32::try_from(dialer.servers().max(1)).unwrap_or(u32::MAX);
        let attempt = self.options.timeout.min(connection_timeout) / 2 / servers;
        let options = Options { attempt, ..self.options };
        let session = Session::new(options, now());
        let shared = Shared::new(session, Handle::current());
        shared.runtime.spawn(driver::drive(Arc::clone(&shared), dialer));
        let session = Arc::new(Owned(shared));
        let client = Client { session, root: root.into(), retry: self.retry };
        client.first_connected(connection_timeout).await?;
        Ok(client)
    }
}

impl Client {
    /// Waits for the first connection, no longer than it can still come.
    async fn first_connected(&self, within: Duration) -> Result<(), Error> {
        let (mut state, mut failures) = (self.state(), self.shared().failure.subscribe());
        let is_final = |failure: &Option<Failure>| failure.as_ref().is_some_and(|it| it.is_final);
        let is_connected = tokio::select! {
            biased;
            state = state.wait_for(|it| it.is_some_and(ConnectionState::is_connected)) => {
                state.is_ok()
            }
            _ = failures.wait_for(is_final) => false,
            () = tokio::time::sleep(within) => false,
        };
        if is_connected {
            return Ok(());
        }
        let last = failures.borrow().as_ref().map(|failure| failure.cause.clone());
        Err(Error::Unreachable(last.unwrap_or_else(|| ConnectError::unanswered(within))))
    }

    /// A client with Curator's defaults.
    pub fn builder() -> Builder {
        let options = Options {
            timeout: Duration::from_secs(60),
            read_only: false,
            connection_timeout: Duration::from_secs(15),
            attempt: Duration::from_secs(15),
            proven_ahead: Duration::ZERO,
            suspension: SuspensionClock::default(),
        };
        Builder { options, retry: RetryPolicy::default() }
    }

    /// Connects with the defaults: `Client::connect("host:2181")`, or, with a server in this
    /// process, `Client::connect(server.dialer())`.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    pub async fn connect<Way>(target: impl Target<Way>) -> Result<Self, Error> {
        Self::builder().connect(target).await
    }

    /// The session's id; [`SessionId::NONE`] while there is none.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.shared().look(Session::id)
    }

    /// The session's password.
    #[must_use]
    pub fn session_password(&self) -> Password {
        self.shared().look(|session| session.password().clone())
    }

    /// The session timeout that the server granted.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.shared().look(Session::timeout)
    }

    /// Until when the session surely lives, even if nothing more is heard: reckoned from the last write
    /// that was answered, as the recipes' `LockState` says. While something is held it is proved
    /// anew in time; a client that holds nothing and writes nothing lets it pass, since what is
    /// read proves nothing where there may be several servers. The machine is taken not to be suspended.
    #[must_use]
    pub fn session_valid_until(&self) -> tokio::time::Instant {
        self.shared().look(Session::proven_until)
    }

    /// How many watches this client waits for, for tests that look for leaks.
    #[must_use]
    pub fn watcher_count(&self) -> usize {
        self.shared().look(Session::watcher_count)
    }

    /// The state of the connection, to be looked at and waited for; `None` before the first
    /// connection.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<Option<ConnectionState>> {
        self.shared().state.subscribe()
    }

    /// The same session under a znode: every path given to the returned client is below `path`, and
    /// paths in its answers and events are told without it. The znode need not exist yet. Under `/`
    /// everything stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if `path` names no znode.
    pub fn namespace(&self, path: &str) -> Result<Self, Error> {
        ZPath::check(path)?;
        let root = if path == "/" { Arc::clone(&self.root) } else { self.server_path(path).into() };
        Ok(Self { root, ..self.clone() })
    }

    /// The same session with another policy for what is lost on the way.
    #[must_use]
    pub fn with_retry_policy(&self, retry: RetryPolicy) -> Self {
        Self { retry, ..self.clone() }
    }

    /// Ends the session: its ephemerals are gone, and its watches told, when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::SessionExpired`] if there was no connection to say so; the server ends the session then when
    /// its timeout has passed.
    pub async fn close(self) -> Result<(), Error> {
        let call = Call::new(zoolet_protocol::OpCode::CLOSE_SESSION);
        let answer = call::Answer(Arc::clone(&call));
        self.shared().with(|session, now| session.close(call, now));
        match answer.await {
            Outcome::Answered(..) | Outcome::Closed => Ok(()),
            _ => Err(Error::SessionExpired),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.session.0
    }

    /// A path as the server names it: below the [namespace](Client::namespace) of this client and the
    /// chroot of its connection string.
    #[must_use]
    pub fn server_path(&self, path: &str) -> String {
        match path {
            "/" if !self.root.is_empty() => self.root.to_string(),
            path => format!("{}{path}", self.root),
        }
    }

    /// A path that the server names, as this client names it: without its namespace. A path outside of
    /// the namespace stays as it is.
    #[must_use]
    pub fn local_path(&self, path: &str) -> String {
        self.path_below_root(path).unwrap_or(path).to_owned()
    }

    /// A path of the server as this client names it, if it can.
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
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}
