//! Options of a client, and connecting.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use tokio::runtime::Handle;
use zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT;
use zoolet_protocol::{Acl, ConnectTarget, Dial};

use crate::clock::{SuspensionClock, now};
use crate::connecting::{ConnectError, FailedAttempt};
use crate::defaults::Defaults;
use crate::driver::{self, Shared};
use crate::error::Error;
use crate::hosts::Hosts;
use crate::limits::{JUTE_MAX_BUFFER_MAX, JUTE_MAX_BUFFER_MIN, TIME_LIMIT_MAX};
use crate::random::Random;
use crate::retry::RetryPolicy;
use crate::root::Root;
use crate::sasl::Mechanism;
use crate::saved_session::SavedSession;
use crate::security::Security;
use crate::session::{Options, Session};
use crate::task_gate::TaskGate;
use crate::{Client, SessionOwner};

/// The session timeout to ask for by default, as in Curator.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// The connection timeout by default, as in Curator.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a builder with TLS does not connect by a dialer: it would speak plaintext.
const TLS_OF_DIALER: &str = "Builder::tls secures the servers of a connection string only; connect \
                             to one, or call Hosts::tls in place of Builder::tls";

/// Options of a [`Client`], with Curator's defaults: [`Client::builder`].
///
/// ```no_run
/// use std::time::Duration;
///
/// use zoolet_client::{Client, RetryPolicy};
///
/// # async fn example() -> Result<(), zoolet_client::Error> {
/// let client = Client::builder()
///     .session_timeout(Duration::from_secs(10))
///     .retry_policy(RetryPolicy::one_time(Duration::from_millis(100)))
///     .auth("digest", "user:password")
///     .connect("one:2181,two:2181,three:2181/app")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    options: Options,
    retry: RetryPolicy,
    credentials: Vec<(ByteString, Bytes)>,
    /// What secures the connections to the servers of a connection string.
    pub(crate) security: Option<Arc<dyn Security>>,
    failed_attempt: Option<FailedAttempt>,
    task_gate: Option<Arc<dyn TaskGate>>,
    seed: Option<u64>,
    defaults: Defaults,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let options = Options {
            timeout: SESSION_TIMEOUT,
            read_only: false,
            connection_timeout: CONNECTION_TIMEOUT,
            jute_max_buffer: FRAME_BYTES_MAX_DEFAULT,
            attempt: CONNECTION_TIMEOUT,
            proven_ahead: Duration::ZERO,
            suspension: SuspensionClock::default(),
            sasl: None,
            session: None,
        };
        Self {
            options,
            retry: RetryPolicy::default(),
            credentials: Vec::new(),
            security: None,
            failed_attempt: None,
            task_gate: None,
            seed: None,
            defaults: Defaults::default(),
        }
    }

    /// The session timeout to ask for; a minute by default, as in Curator. The server may grant
    /// less or more: [`Client::session_timeout`].
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout.min(TIME_LIMIT_MAX);
        self
    }

    /// How long to wait for the first connection, and how long each request waits for a connection
    /// before it fails with [`Error::NotSent`]. Fifteen seconds by default, as in Curator.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.options.connection_timeout = timeout.min(TIME_LIMIT_MAX);
        self
    }

    /// The most bytes of a request; 1,048,575 by default, as the servers' `jute.maxbuffer`. A longer
    /// request fails with [`Error::TooLong`] and is not sent: a server closes the connection at a
    /// request that is longer than its own `jute.maxbuffer`. So raise both together. Less than
    /// 524,288 counts as that, so that there is room for the client's own requests about many paths. More
    /// than 2,147,483,647 counts as that: no frame is longer.
    ///
    /// Where servers take less, or do not answer in time, and one connection after the other is lost at the
    /// credentials or the watches with which it begins, the client gives its session up after a session
    /// timeout, as where it reaches no server, and logs a warning. Then it drops credentials of 4 KiB or more
    /// at which a connection was lost and which no server has accepted.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// use zoolet_client::Client;
    ///
    /// let client = Client::builder().jute_max_buffer(4 << 20).connect("localhost:2181").await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn jute_max_buffer(mut self, bytes: usize) -> Self {
        self.options.jute_max_buffer = bytes.clamp(JUTE_MAX_BUFFER_MIN, JUTE_MAX_BUFFER_MAX);
        self
    }

    /// When to send a request again after a lost connection.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Adds an identity to the session from the beginning, and after every reconnect
    /// (`addAuthInfo`). The scheme `digest` takes `user:password`. May be called several times.
    pub fn auth(mut self, scheme: impl Into<ByteString>, credentials: impl Into<Bytes>) -> Self {
        self.credentials.push((scheme.into(), credentials.into()));
        self
    }

    /// Authenticates by SASL at the beginning of every connection, before any request, as ZooKeeper's
    /// Java client does with a JAAS file. If the server refuses, or does not know the mechanism, the
    /// client fails with [`Error::AuthFailed`] and is closed.
    pub fn sasl(mut self, mechanism: impl Mechanism + 'static) -> Self {
        self.options.sasl = Some(Arc::new(mechanism));
        self
    }

    /// Accepts a server that has lost its ensemble and serves reads only (`canBeReadOnly`), and
    /// moves to one that serves writes as soon as there is one. The state is
    /// [`ConnectionState::ReadOnly`](crate::ConnectionState::ReadOnly) meanwhile.
    pub fn allow_read_only(mut self) -> Self {
        self.options.read_only = true;
        self
    }

    /// How much time is to be left until [`Client::session_valid_until`] at any moment while
    /// something is held, for whoever must stop its work before a lock becomes `Suspect`. Zero by
    /// default; more than a sixth of the session timeout counts as that.
    ///
    /// The client proves the session so early that this much is left when the reply comes, as long
    /// as a round trip takes no more than a fortieth of the session timeout. After a long wait a
    /// recipe's `acquire` returns the lock only when this much is left. It still costs two requests
    /// in a third of the session timeout, and a few more after a lock was waited for.
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

    /// Tells how long the machine was suspended so far, in all. Tokio's clock stands still during a
    /// suspension while the servers go on, so that a lock that was held before may be another's
    /// after. By default Linux is asked (`CLOCK_BOOTTIME` against `CLOCK_MONOTONIC`); other systems
    /// do not tell.
    pub fn suspended_time(
        mut self,
        suspended: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.options.suspension = SuspensionClock::new(suspended);
        self
    }

    /// Lets a seed decide what is otherwise up to chance: with which server the client begins, the
    /// pauses before it connects or tries again, and the ids in the names of protected znodes. For
    /// tests that repeat: on a runtime with one thread and a paused clock, against a server in the
    /// same process, the same seeds give the same run.
    ///
    /// Each client needs a seed of its own: two with the same one could take each other's protected
    /// znodes for theirs. Without a seed the ids come from random numbers of the operating system. The
    /// nonces of [SASL](Builder::sasl) always do.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// use zoolet_client::Client;
    ///
    /// let client = Client::builder().seed(7).connect("one:2181,two:2181").await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Asks this function for the access control list of each znode that is created without one of
    /// its own, by recipes too (`ACLProvider` of Curator). It gets the path as the server names it,
    /// with the chroot and the namespace; for the places in the line of a lock, the path of the lock.
    /// Ancestors that are created get the lists of their own paths. It is not asked for the znodes
    /// of [`Client::multi`]. The function must not block.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// use zoolet_client::Client;
    /// use zoolet_client::protocol::Acl;
    ///
    /// let client = Client::builder()
    ///     .auth("digest", "user:password")
    ///     .acl_provider(|path| match path.starts_with("/public/") {
    ///         true => vec![Acl::open()],
    ///         false => vec![Acl::creator_all()],
    ///     })
    ///     .connect("localhost:2181")
    ///     .await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acl_provider(
        mut self,
        provider: impl Fn(&str) -> Vec<Acl> + Send + Sync + 'static,
    ) -> Self {
        self.defaults.provide_acl(provider);
        self
    }

    /// Sets the data of the znodes of recipes that have none of their own (`defaultData` of Curator):
    /// for people who look at them. Without it that is this machine's address, as in Curator. A
    /// [`Client::create`] without data stays one.
    pub fn default_data(mut self, data: impl Into<Bytes>) -> Self {
        self.defaults.data = Some(data.into());
        self
    }

    /// Creates all ancestors as persistent znodes, where a recipe or [`Parents::Containers`] asks for
    /// containers (`dontUseContainerParents` of Curator): they stay when they are empty. For
    /// ancestors whose data or access control list is to outlast their children, and for servers
    /// without containers.
    ///
    /// A znode whose own mode is [`CreateMode::Container`](crate::CreateMode::Container) stays one.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// use zoolet_client::Client;
    ///
    /// let client = Client::builder().without_containers().connect("localhost:2181").await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Parents::Containers`]: crate::Parents::Containers
    pub fn without_containers(mut self) -> Self {
        self.defaults.has_no_containers = true;
        self
    }

    /// Begins with the session of another client: see [`SavedSession`]. If that session is over by
    /// now, the client opens a new one, as after any expiry; [`Client::session_id`] shows which it
    /// has.
    ///
    /// ```no_run
    /// use zoolet_client::{Client, SavedSession};
    ///
    /// # async fn example(saved: SavedSession) -> Result<(), zoolet_client::Error> {
    /// let id = saved.id();
    /// let client = Client::builder().session(saved).connect("localhost:2181").await?;
    /// if client.session_id() != id {
    ///     println!("the session is over, and its ephemerals with it");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: SavedSession) -> Self {
        self.options.session = Some(session);
        self
    }

    /// Calls `tell` with the cause when an attempt to connect fails, until there is the first
    /// connection: for programs that show a person why connecting takes long. If attempts fail in
    /// quick succession, `tell` may be called for the last one only. It must not block.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// use zoolet_client::Client;
    ///
    /// let builder = Client::builder().on_failed_attempt(|cause| eprintln!("not yet: {cause}"));
    /// let client = builder.connect("localhost:2181").await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_failed_attempt(
        mut self,
        tell: impl Fn(&ConnectError) + Send + Sync + 'static,
    ) -> Self {
        self.failed_attempt = Some(Arc::new(tell));
        self
    }

    /// Lets the tasks of this client run only while the gate is open: for simulations of a machine
    /// that stands still.
    #[doc(hidden)]
    pub fn task_gate(mut self, gate: Arc<dyn TaskGate>) -> Self {
        self.task_gate = Some(gate);
        self
    }

    /// Connects, and waits until there is a session. Must be called within a tokio runtime, which
    /// then drives the client.
    ///
    /// The target is a connection string (`"host:2181,host:2181/chroot"`, as `&str` or `String`),
    /// parsed [`Hosts`], the dialer of a server in this process, or a
    /// [`StreamDialer`](crate::StreamDialer) for connections that are not TCP.
    ///
    /// # Errors
    ///
    /// - [`Error::Hosts`] or [`Error::Path`] if the connection string is not valid, or if the builder
    ///   has TLS, which it cannot give to a dialer or to parsed [`Hosts`].
    /// - [`Error::Unreachable`] if no server accepted the client within the connection timeout,
    ///   with the cause of the last failure. At once if no host name is known, TLS fails
    ///   with all servers for good, or the server in this process has ended.
    /// - [`Error::AuthFailed`] if the server refused the credentials.
    pub async fn connect(self, target: impl Into<ConnectTarget>) -> Result<Client, Error> {
        let dialer: Arc<dyn Dial> = match target.into() {
            ConnectTarget::Servers(text) => {
                let mut hosts: Hosts = text.parse()?;
                hosts.security = self.security;
                Arc::new(hosts)
            }
            ConnectTarget::Dialer(_) if self.security.is_some() => {
                return Err(Error::Hosts(TLS_OF_DIALER.to_owned()));
            }
            ConnectTarget::Dialer(dialer) => dialer,
        };
        let root = Root::from(dialer.chroot());
        let chroot = root.len();
        let connection_timeout = self.options.connection_timeout;
        // A server that does not answer must leave time for the others.
        let servers = u32::try_from(dialer.servers().max(1)).unwrap_or(u32::MAX);
        let limit = self.options.timeout.min(connection_timeout);
        // A server that does not answer is left also where nothing has a time limit.
        let limit = if limit < TIME_LIMIT_MAX { limit } else { SESSION_TIMEOUT };
        let attempt = limit / 2 / servers;
        let options = Options { attempt, ..self.options };
        let random = match self.seed {
            Some(seed) => Random::seeded(seed),
            None if dialer.is_simulated() => Random::OfThread,
            None => Random::with_own_ids(),
        };
        if self.seed.is_some() {
            dialer.begin_at(random.index(dialer.servers().max(1)));
        }
        let session = Session::new(options, now());
        let shared = Shared::new(session, random, Handle::current(), self.task_gate);
        shared.spawn(driver::drive(Arc::clone(&shared), dialer));
        let session = Arc::new(SessionOwner { shared, defaults: self.defaults });
        let client = Client { session, root, chroot, retry: self.retry };
        client.first_connected(connection_timeout, self.failed_attempt).await?;
        for (scheme, credentials) in self.credentials {
            match client.authenticate(scheme, credentials).await {
                // The client sends them again when it has reconnected.
                Ok(()) | Err(Error::ConnectionLoss { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(client)
    }
}

impl fmt::Debug for Builder {
    /// Without the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("session_timeout", &self.options.timeout)
            .field("connection_timeout", &self.options.connection_timeout)
            .field("retry_policy", &self.retry)
            .field("has_tls", &self.security.is_some())
            .finish_non_exhaustive()
    }
}
