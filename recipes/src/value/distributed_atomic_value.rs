//! Bytes that many clients change: Curator's `DistributedAtomicValue`, with its znode.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, ErrorCode, SessionId, Stat, ZPath};

use crate::client::recipe::now;
use crate::client::{self, Client, Parents, RetryPolicy};
use crate::defaults::with_acl;
use crate::lock::mutex::InterProcessMutex;
use crate::lock::owner::Owner;
use crate::value::error::ValueError;

/// The data of a znode that many clients change. Each change reads the data and writes the new one
/// with the version that was read. If another client was quicker, it tries again.
///
/// No change is made twice. When the answer to a write is lost, the change is tried again only if
/// the write was certainly not carried out; otherwise the error is
/// [`ConnectionLoss`](client::Error::ConnectionLoss).
///
/// Its znode is that of Curator's `DistributedAtomicValue`.
///
/// ```no_run
/// use zoolet_recipes::DistributedAtomicValue;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let owner = DistributedAtomicValue::new(&client, "/shards/7/owner")?;
/// owner.initialize("nobody").await?;
/// if owner.compare_and_set("nobody", "host-1").await? {
///     println!("the shard is ours");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedAtomicValue {
    client: Client,
    path: String,
    acl: Option<Vec<Acl>>,
    retry: RetryPolicy,
    promotion: Option<Promotion>,
    statistics: Option<Statistics>,
}

/// What to do when other clients are quicker too often.
#[derive(Debug, Clone)]
struct Promotion {
    mutex: InterProcessMutex,
    within: Duration,
    retry: RetryPolicy,
}

/// A change that was made.
///
/// ```
/// let change = zoolet_recipes::Change { before: 1, after: 3 };
/// assert_eq!(change.after - change.before, 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<T = i64> {
    /// The value before it.
    pub before: T,
    /// The value after it.
    pub after: T,
}

/// What a change has cost (`AtomicStats` of Curator).
///
/// ```
/// use zoolet_recipes::AtomicStats;
///
/// assert_eq!(AtomicStats::default().promoted_lock_tries, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AtomicStats {
    /// How often the value was read and written without the mutex.
    pub optimistic_tries: u32,
    /// How long that took, with the pauses.
    pub optimistic_time: Duration,
    /// How often the value was read and written with the mutex.
    pub promoted_lock_tries: u32,
    /// How long that took, with the pauses and the wait for the mutex.
    pub promoted_time: Duration,
}

/// Who is told what each change has cost.
#[derive(Clone)]
struct Statistics(Arc<dyn Fn(&AtomicStats) + Send + Sync>);

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Statistics")
    }
}

/// What a read returned, if the znode exists.
type Seen = Option<(Bytes, Stat)>;

impl DistributedAtomicValue {
    /// The value of a path. Nothing is created before the value is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, ValueError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let retry = RetryPolicy::bounded_exponential_backoff(
            Duration::from_millis(1),
            Duration::from_millis(100),
            29,
        );
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
            acl: None,
            retry,
            promotion: None,
            statistics: None,
        })
    }

    /// The same value with this access control list for its znode and for the directories that are
    /// created for it. Without it each has the [default](zoolet_client::Client::default_acl) of its
    /// path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// The same value with this retry policy for when other clients are quicker. The default is 29
    /// more attempts, with pauses from a millisecond to a tenth of a second.
    #[must_use]
    pub fn with_retry_policy(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The same value with a mutex for when other clients were quicker as often as the retry policy
    /// allows. The change then waits for the mutex, for at most `within`, and is tried again with
    /// the policy `retry` while it holds the mutex (Curator's `PromotedToLock`).
    #[must_use]
    pub fn with_promotion(
        mut self,
        mutex: &InterProcessMutex,
        within: Duration,
        retry: RetryPolicy,
    ) -> Self {
        self.promotion = Some(Promotion { mutex: mutex.clone(), within, retry });
        self
    }

    /// The same value, which tells after each change what it has cost, whether it was made or not.
    /// The function must not block.
    ///
    /// ```no_run
    /// use zoolet_recipes::DistributedAtomicLong;
    ///
    /// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_recipes::ValueError> {
    /// let orders = DistributedAtomicLong::new(&client, "/orders")?
    ///     .with_statistics(|cost| println!("{} tries", cost.optimistic_tries));
    /// orders.increment().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_statistics(mut self, tell: impl Fn(&AtomicStats) + Send + Sync + 'static) -> Self {
        self.statistics = Some(Statistics(Arc::new(tell)));
        self
    }

    /// The path of the znode.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The value; `None` if the znode does not exist.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn get(&self) -> Result<Option<Bytes>, ValueError> {
        Ok(self.look().await?.map(|(data, _)| data))
    }

    /// Sets the value to `after` if it is `before`. Returns whether it was. A znode that does not
    /// exist has no value: see [`DistributedAtomicValue::initialize`].
    ///
    /// # Errors
    ///
    /// [`ValueError::Contended`] and [`ValueError::CreatedAnew`]; the errors of requests and of the
    /// mutex, if there is one.
    ///
    /// # Cancellation
    ///
    /// When the future is dropped, the change may be made or not. The mutex is released in the
    /// background.
    pub async fn compare_and_set(
        &self,
        before: impl AsRef<[u8]>,
        after: impl Into<Bytes>,
    ) -> Result<bool, ValueError> {
        let (before, after) = (before.as_ref(), after.into());
        let replace = |data: Option<&Bytes>| {
            Ok(data.is_some_and(|data| data == before).then(|| after.clone()))
        };
        Ok(self.change(replace).await?.is_some())
    }

    /// Sets the value, whatever it is, but not between the read and the write of another client.
    /// Creates the znode if it does not exist. Returns the value before and after.
    ///
    /// # Errors
    ///
    /// As [`DistributedAtomicValue::compare_and_set`].
    ///
    /// # Cancellation
    ///
    /// As [`DistributedAtomicValue::compare_and_set`].
    pub async fn try_set(
        &self,
        data: impl Into<Bytes>,
    ) -> Result<Change<Option<Bytes>>, ValueError> {
        let data = data.into();
        let changed = self.change(|_| Ok(Some(data.clone()))).await?;
        let (before, after) = changed.expect("there is data to set");
        Ok(Change { before, after: Some(after) })
    }

    /// Sets the value unconditionally, and creates the znode if it does not exist.
    ///
    /// # Errors
    ///
    /// The errors of requests.
    pub async fn force_set(&self, data: impl Into<Bytes>) -> Result<(), ValueError> {
        let create = self.client.create(&self.path).data(data);
        let create = with_acl(create, self.acl.as_deref());
        create.parents(Parents::Containers).or_set().await?;
        Ok(())
    }

    /// Creates the znode with this value. Returns `false` if it exists already.
    ///
    /// # Errors
    ///
    /// The errors of a create.
    pub async fn initialize(&self, data: impl Into<Bytes>) -> Result<bool, ValueError> {
        match self.create(data.into()).await {
            Ok(()) => Ok(true),
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the value by what `next` returns; for `None` nothing is changed. Returns the value
    /// before and after the change.
    pub(super) async fn change(
        &self,
        next: impl Fn(Option<&Bytes>) -> Result<Option<Bytes>, ValueError>,
    ) -> Result<Option<(Option<Bytes>, Bytes)>, ValueError> {
        let mut stats = AtomicStats::default();
        let changed = self.change_counted(next, &mut stats).await;
        if let Some(Statistics(tell)) = &self.statistics {
            tell(&stats);
        }
        changed
    }

    async fn change_counted(
        &self,
        next: impl Fn(Option<&Bytes>) -> Result<Option<Bytes>, ValueError>,
        stats: &mut AtomicStats,
    ) -> Result<Option<(Option<Bytes>, Bytes)>, ValueError> {
        let start = now();
        let changed = self.try_to_change(&self.retry, &next, &mut stats.optimistic_tries).await;
        stats.optimistic_time = now() - start;
        let (Err(ValueError::Contended { .. }), Some(promotion)) = (&changed, &self.promotion)
        else {
            return changed;
        };
        let start = now();
        // Each change has an owner of its own: a task may make several changes at a time.
        let acquiring = promotion.mutex.acquire_as(Owner::new());
        let guard = match tokio::time::timeout(promotion.within, acquiring).await {
            Ok(acquired) => acquired?,
            Err(_) => {
                stats.promoted_time = now() - start;
                return changed;
            }
        };
        let tries = &mut stats.promoted_lock_tries;
        let changed = self.try_to_change(&promotion.retry, &next, tries).await;
        stats.promoted_time = now() - start;
        // The result does not depend on the release, which goes on in the background.
        drop(guard);
        changed
    }

    /// As [`DistributedAtomicValue::change`], as often as a retry policy allows.
    async fn try_to_change(
        &self,
        retry: &RetryPolicy,
        next: impl Fn(Option<&Bytes>) -> Result<Option<Bytes>, ValueError>,
        tries: &mut u32,
    ) -> Result<Option<(Option<Bytes>, Bytes)>, ValueError> {
        let start = now();
        loop {
            let seen = self.look().await?;
            let before = seen.as_ref().map(|(data, _)| data.clone());
            let Some(after) = next(before.as_ref())? else { return Ok(None) };
            let stat = seen.map(|(_, stat)| stat);
            *tries += 1;
            if self.try_write(stat, &after).await? {
                return Ok(Some((before, after)));
            }
            let Some(delay) = self.client.retry_delay(retry, *tries - 1, now() - start) else {
                return Err(ValueError::Contended { path: self.path.clone(), tries: *tries });
            };
            tokio::time::sleep(delay).await;
        }
    }

    async fn look(&self) -> Result<Seen, ValueError> {
        match self.client.get(&self.path).await {
            Ok(seen) => Ok(Some(seen)),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the value if the znode has not changed since it was read. Returns whether it was
    /// written.
    async fn try_write(&self, seen: Option<Stat>, data: &Bytes) -> Result<bool, ValueError> {
        let session = self.client.session_id();
        let version = seen.map(|stat| stat.version);
        let result = match version {
            None => self.create(data.clone()).await,
            Some(-1) => return Err(ValueError::VersionUnusable { path: self.path.clone() }),
            Some(version) => {
                let set = self.client.set(&self.path, data.clone()).version(version).await;
                if let (Ok(stat), Some(seen)) = (&set, &seen)
                    && stat.czxid != seen.czxid
                {
                    return Err(ValueError::CreatedAnew { path: self.path.clone() });
                }
                set.map(drop)
            }
        };
        let error = match result {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        let is_late = [ErrorCode::BAD_VERSION, ErrorCode::NODE_EXISTS, ErrorCode::NO_NODE]
            .into_iter()
            .any(|code| error.is(code));
        if is_late || self.was_surely_not_written(&error, seen, data, session).await {
            Ok(false)
        } else {
            Err(error.into())
        }
    }

    /// Whether a write whose answer was lost was certainly not carried out: the znode has not
    /// changed, or has changed once, to another value. Without an answer this returns `false`.
    async fn was_surely_not_written(
        &self,
        error: &client::Error,
        seen: Option<Stat>,
        data: &Bytes,
        session: SessionId,
    ) -> bool {
        let (client::Error::ConnectionLoss { .. }, Some(seen)) = (error, seen) else {
            return false;
        };
        // A request that was sent in this session before is carried out before this one is
        // answered, or never. In another session it may still be carried out.
        if self.client.in_session(session).catch_up(&self.path).await.is_err() {
            return false;
        }
        let Ok(Some((now, stat))) = self.look().await else { return false };
        let is_same = stat.czxid == seen.czxid && stat.version == seen.version;
        let is_next = stat.czxid == seen.czxid && stat.version == seen.version.wrapping_add(1);
        is_same || (is_next && now != *data)
    }

    async fn create(&self, data: Bytes) -> Result<(), client::Error> {
        let create = self.client.create(&self.path).data(data);
        let create = with_acl(create, self.acl.as_deref());
        create.parents(Parents::Containers).await.map(drop)
    }
}
