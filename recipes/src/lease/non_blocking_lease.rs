//! A lease that is held until a time of day: kazoo's `NonBlockingLease`, with its znodes.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use zoolet_protocol::{Acl, Create, CreateMode, ErrorCode, Expect, MultiOp, Stat, Zxid};

use super::error::LeaseError;
use super::holder::{self, IDENTIFIER_BYTES_MAX, LeaseHolder};
use crate::attempts::Attempts;
use crate::client::recipe::wall_time;
use crate::client::{self, Client};
use crate::defaults;
use crate::error::LockError;
use crate::kazoo_line::{create_directories, kazoo_lock};
use crate::lock::guard::Guard;
use crate::lock::owner::Owner;

/// The znode that says who has the lease.
const HOLDER: &str = "lease_holder";

/// How often a lease is decided under one lock. Each time, a program that does not hold the lock must
/// have changed the znode, or a reply was lost.
const DECISIONS_MAX: u32 = 10;

/// Tells the time of day.
type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// A lease that one client has until a time of day, and over the end of its session.
///
/// It is for a task that one machine should do, as once an hour: the machine that has the lease
/// renews it, and another gets it when the time is over. Nobody waits: who does not get it goes on.
/// It has kazoo's znodes, and is to be had beside kazoo's `NonBlockingLease`.
///
/// **Times of day are no exclusion.** The clocks of all clients must agree to within what the lease
/// lasts longer than the task, and a client that is paused does not notice that its lease ends. What
/// must not happen twice needs the [fencing token](Lease::fencing_token), which kazoo's lease does
/// not have: let the resource refuse smaller ones. A client that must know that it is alone while it
/// works takes a [lock](crate::InterProcessMutex).
///
/// Unlike kazoo's, it replaces the znode of the last lease in one transaction, which also checks the
/// lock under which leases change hands: a client that was paused with that lock writes nothing late,
/// and one that dies in between leaves no gap.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_client::Client;
/// use zoolet_recipes::NonBlockingLease;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let lease = NonBlockingLease::new(&client, "/leases/cleanup", "host-1")?;
/// if let Some(lease) = lease.obtain(Duration::from_secs(70 * 60)).await? {
///     println!("this hour it is us, with the fencing token {}", lease.fencing_token());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NonBlockingLease {
    client: Client,
    path: String,
    identifier: String,
    acl: Option<Vec<Acl>>,
    clock: Clock,
}

/// A lease that was obtained.
///
/// ```no_run
/// # fn example(lease: zoolet_recipes::Lease) {
/// println!("until {:?}, with the fencing token {}", lease.ends_at(), lease.fencing_token());
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    holder: LeaseHolder,
}

impl Lease {
    /// The fencing token: the zxid of the transaction that wrote the lease. Each later lease of the
    /// same path has a greater one, also if kazoo wrote it, and so has a lease that was renewed.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.holder.token
    }

    /// When it ends, in whole seconds, by the clock of this client.
    #[must_use]
    pub fn ends_at(&self) -> SystemTime {
        self.holder.ends_at
    }

    /// Whether it is over at a time.
    #[must_use]
    pub fn is_over_at(&self, now: SystemTime) -> bool {
        self.holder.is_over_at(now)
    }
}

/// What the znode says.
struct Seen {
    holder: LeaseHolder,
    stat: Stat,
}

impl NonBlockingLease {
    /// The lease of a path, for a client with this identifier. Who has the same identifier has the
    /// same lease: use a name that no other client has. Nothing is created before it is obtained.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid;
    /// [`LeaseError::IdentifierTooLong`] above 1,024 bytes.
    pub fn new(client: &Client, path: &str, identifier: &str) -> Result<Self, LeaseError> {
        zoolet_protocol::ZPath::check(path).map_err(client::Error::from)?;
        if identifier.len() > IDENTIFIER_BYTES_MAX {
            let (length, max) = (identifier.len(), IDENTIFIER_BYTES_MAX);
            return Err(LeaseError::IdentifierTooLong { length, max });
        }
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
            identifier: identifier.to_owned(),
            acl: None,
            clock: Arc::new(wall_time),
        })
    }

    /// The same lease with this access control list for its znodes and for the directories that are
    /// created for them. Without it each has the [default](Client::default_acl) of its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// The same lease with another clock than the machine's, as that of a simulation.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Obtains the lease for this long from now, or renews it; `None` if another client has it. The
    /// end is cut to whole seconds.
    ///
    /// It does not wait for the lease, but for a lock under which leases change hands. Clients hold
    /// it for a few round trips; one that dies with it, for its session timeout. Set a limit with
    /// `tokio::time::timeout`.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Unreadable`] and [`LeaseError::Version`] if the znode has other data: it is not
    /// replaced. [`LeaseError::Lock`], and the errors of requests.
    ///
    /// # Cancellation
    ///
    /// The lease may have been obtained. The next call with the same identifier renews it.
    pub async fn obtain(&self, duration: Duration) -> Result<Option<Lease>, LeaseError> {
        let mut attempts = Attempts::new(&self.client);
        loop {
            let guard = self.acquire().await?;
            let decided = self.decide(&guard, duration).await;
            if let Some(lease) = self.finish(guard, decided, &mut attempts).await? {
                return Ok(lease);
            }
        }
    }

    /// Ends a lease before its time, so that another client can obtain it. Returns whether this
    /// client had it.
    ///
    /// # Errors
    ///
    /// As [`NonBlockingLease::obtain`].
    ///
    /// # Cancellation
    ///
    /// It may have been ended.
    pub async fn give_up(&self, lease: &Lease) -> Result<bool, LeaseError> {
        let mut attempts = Attempts::new(&self.client);
        // Whether a multi was sent whose reply was lost, in this session or an earlier one.
        let mut was_sent = false;
        loop {
            let guard = self.acquire().await?;
            let deleted = self.delete(&guard, lease, &mut was_sent).await;
            if let Some(is_deleted) = self.finish(guard, deleted, &mut attempts).await? {
                return Ok(is_deleted);
            }
        }
    }

    /// Who has the lease, or had it last; `None` if nobody has had it or it was given up. Costs one
    /// read, of a server that may be behind.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Unreadable`], [`LeaseError::Version`], and the errors of a read.
    pub async fn holder(&self) -> Result<Option<LeaseHolder>, LeaseError> {
        let read = self.client.get(&self.holder_path()).await;
        Ok(self.seen(read)?.map(|seen| seen.holder))
    }

    /// Acquires the lock under which the lease changes hands.
    async fn acquire(&self) -> Result<Guard, LeaseError> {
        create_directories(&self.client, &self.holder_path(), self.acl.as_deref()).await?;
        let acl = self.acl.as_deref();
        let lock = kazoo_lock(&self.client, &self.path, &self.identifier, acl)?;
        Ok(lock.acquire(Owner::new()).await?)
    }

    /// Releases the lock, and returns the result of what was done under it. `None` if the lock was
    /// lost before anything was written: it is to be done again.
    async fn finish<T>(
        &self,
        guard: Guard,
        result: Result<T, LeaseError>,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<T>, LeaseError> {
        // What was written counts, whatever comes of the lock.
        if let Err(error) = guard.release().await {
            tracing::debug!("{}: the lock of the lease: {error}", self.path);
        }
        let error = match result {
            Ok(done) => return Ok(Some(done)),
            Err(LeaseError::Lock(error)) => *error,
            Err(LeaseError::Client(client::Error::SessionExpired)) => self.lock_lost(),
            Err(error) => return Err(error),
        };
        attempts.wait_after(error).await?;
        Ok(None)
    }

    fn lock_lost(&self) -> LockError {
        LockError::PlaceLost(self.path.clone())
    }

    /// Decides about the lease under its lock.
    async fn decide(&self, guard: &Guard, duration: Duration) -> Result<Option<Lease>, LeaseError> {
        for _ in 0..DECISIONS_MAX {
            let seen = self.look(guard).await?;
            let now = (self.clock)();
            let is_free = seen.as_ref().is_none_or(|Seen { holder, .. }| {
                holder.identifier == self.identifier || holder.is_over_at(now)
            });
            if !is_free {
                return Ok(None);
            }
            let ends_at = now.checked_add(duration).ok_or(LeaseError::TooLong(duration))?;
            let text = holder::text_of(&self.identifier, ends_at, duration)?;
            let path = self.holder_path();
            let mut ops = vec![MultiOp::check(guard.path(), Expect::Any)];
            ops.extend(seen.map(|seen| MultiOp::delete(path.as_str(), seen.stat.version)));
            let acl = defaults::acl(&self.client, self.acl.as_deref(), &path);
            let create = Create::new(path, CreateMode::Persistent).data(text);
            ops.push(MultiOp::from(create.acl(acl)));
            match guard.lock().session().multi_with_zxid(ops).send().await {
                Ok((_, token)) => {
                    let ends_at = holder::whole_seconds(ends_at);
                    let identifier = self.identifier.clone();
                    return Ok(Some(Lease { holder: LeaseHolder { identifier, ends_at, token } }));
                }
                // If it was carried out, the lease is this client's, and is renewed.
                Err(error) => self.may_try_again(error)?,
            }
        }
        Err(self.lock_lost().into())
    }

    /// Deletes the znode of a lease under its lock. Returns whether it was this lease's.
    async fn delete(
        &self,
        guard: &Guard,
        lease: &Lease,
        was_sent: &mut bool,
    ) -> Result<bool, LeaseError> {
        for _ in 0..DECISIONS_MAX {
            let seen = self.look(guard).await?;
            let Some(Seen { stat, .. }) = seen.filter(|it| it.holder == lease.holder) else {
                return Ok(*was_sent);
            };
            let ops = vec![
                MultiOp::check(guard.path(), Expect::Any),
                MultiOp::delete(self.holder_path(), stat.version),
            ];
            match guard.lock().session().multi_without_results(ops).send().await {
                Ok(()) => return Ok(true),
                Err(error) => {
                    *was_sent |= error.is_retryable() || error == client::Error::SessionExpired;
                    self.may_try_again(error)?;
                }
            }
        }
        Err(self.lock_lost().into())
    }

    /// Whether a multi whose first operation checks the lock may be sent again after the next look: its
    /// reply was lost, or the znode of the lease changed.
    fn may_try_again(&self, error: client::Error) -> Result<(), LeaseError> {
        if error.operation_index() == Some(0) {
            return Err(self.lock_lost().into());
        }
        let has_changed = error.is(ErrorCode::NO_NODE)
            || error.is(ErrorCode::NODE_EXISTS)
            || error.is(ErrorCode::BAD_VERSION);
        if has_changed || error.is_retryable() { Ok(()) } else { Err(error.into()) }
    }

    /// Reads the znode in the session that holds the lock: the server has applied what the holder
    /// before wrote, since it showed that this one's lock was released.
    async fn look(&self, guard: &Guard) -> Result<Option<Seen>, LeaseError> {
        let session = guard.lock().session();
        self.seen(session.get(&self.holder_path()).until_answered().await)
    }

    fn seen(&self, read: Result<(Bytes, Stat), client::Error>) -> Result<Option<Seen>, LeaseError> {
        match read {
            Ok((data, stat)) => {
                let holder = LeaseHolder::parse(&self.holder_path(), &data, stat.czxid)?;
                Ok(Some(Seen { holder, stat }))
            }
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn holder_path(&self) -> String {
        format!("{}/{HOLDER}", self.path.trim_end_matches('/'))
    }
}

impl fmt::Debug for NonBlockingLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NonBlockingLease")
            .field("path", &self.path)
            .field("identifier", &self.identifier)
            .finish_non_exhaustive()
    }
}

/// A lease that several clients have at a time: kazoo's `MultiNonBlockingLease`. Each of them has one
/// of as many [leases](NonBlockingLease), at `<path>/0` and so on.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_client::Client;
/// use zoolet_recipes::MultiNonBlockingLease;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let leases = MultiNonBlockingLease::new(&client, "/leases/crawl", 3, "host-1")?;
/// if let Some((number, lease)) = leases.obtain(Duration::from_secs(600)).await? {
///     println!("the lease {number}, until {:?}", lease.ends_at());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MultiNonBlockingLease {
    leases: Vec<NonBlockingLease>,
}

impl MultiNonBlockingLease {
    /// `count` leases below a path, for a client with this identifier.
    ///
    /// # Errors
    ///
    /// As [`NonBlockingLease::new`].
    pub fn new(
        client: &Client,
        path: &str,
        count: u32,
        identifier: &str,
    ) -> Result<Self, LeaseError> {
        let path = path.trim_end_matches('/');
        let lease = |number| NonBlockingLease::new(client, &format!("{path}/{number}"), identifier);
        Ok(Self { leases: (0..count).map(lease).collect::<Result<_, _>>()? })
    }

    /// The same leases with this access control list for their znodes and for the directories that
    /// are created for them. Without it each has the [default](Client::default_acl) of its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        for lease in &mut self.leases {
            lease.acl = Some(acl.clone());
        }
        self
    }

    /// The same leases with another clock than the machine's.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        let clock: Clock = Arc::new(clock);
        for lease in &mut self.leases {
            lease.clock = Arc::clone(&clock);
        }
        self
    }

    /// Renews the lease that this client has, or obtains the first that is free, and returns it with
    /// its number; `None` if other clients have all of them. Unlike kazoo's, it does not take a
    /// second lease when one with a smaller number has become free.
    ///
    /// # Errors
    ///
    /// As [`NonBlockingLease::obtain`].
    ///
    /// # Cancellation
    ///
    /// A lease may have been obtained. The next call with the same identifier renews it.
    pub async fn obtain(&self, duration: Duration) -> Result<Option<(usize, Lease)>, LeaseError> {
        let mut order: Vec<usize> = (0..self.leases.len()).collect();
        if let Some(own) = self.own().await? {
            order[..=own].rotate_right(1);
        }
        for number in order {
            if let Some(lease) = self.leases[number].obtain(duration).await? {
                return Ok(Some((number, lease)));
            }
        }
        Ok(None)
    }

    /// Who has the leases, or had them last, in the order of their numbers.
    ///
    /// # Errors
    ///
    /// As [`NonBlockingLease::holder`].
    pub async fn holders(&self) -> Result<Vec<Option<LeaseHolder>>, LeaseError> {
        let mut holders = Vec::with_capacity(self.leases.len());
        for lease in &self.leases {
            holders.push(lease.holder().await?);
        }
        Ok(holders)
    }

    /// The number of the lease that this client has.
    async fn own(&self) -> Result<Option<usize>, LeaseError> {
        for (number, lease) in self.leases.iter().enumerate() {
            let now = (lease.clock)();
            let is_own = |holder: LeaseHolder| {
                holder.identifier == lease.identifier && !holder.is_over_at(now)
            };
            if lease.holder().await?.is_some_and(is_own) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}
