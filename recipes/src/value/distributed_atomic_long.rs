//! A number that many clients change: Curator's `DistributedAtomicLong`, with its znode.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, ErrorCode, SessionId, Stat, ZPath};

use crate::client::{self, Client, Parents, RetryPolicy};
use crate::lock::mutex::InterProcessMutex;
use crate::lock::owner::Owner;
use crate::value::error::ValueError;

/// The bytes of a number, the most significant first.
const NUMBER_BYTES: usize = size_of::<i64>();

/// A number in a znode. Each change reads the number and writes the new one with the version that
/// was read. If another client was quicker, it tries again.
///
/// No change is made twice. When the answer to a write is lost, the change is tried again only if
/// the write was certainly not carried out; otherwise the error is
/// [`ConnectionLoss`](client::Error::ConnectionLoss).
///
/// Its znode is that of Curator's `DistributedAtomicLong`: eight bytes, the most significant first.
/// A missing znode and empty data mean 0.
///
/// ```no_run
/// use zoolet_recipes::DistributedAtomicLong;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let orders = DistributedAtomicLong::new(&client, "/orders")?;
/// let change = orders.add(2).await?;
/// assert_eq!(change.after, change.before + 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedAtomicLong {
    client: Client,
    path: String,
    acl: Vec<Acl>,
    retry: RetryPolicy,
    promotion: Option<Promotion>,
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
pub struct Change {
    /// The number before it.
    pub before: i64,
    /// The number after it.
    pub after: i64,
}

/// What a read returned: the number, and the Stat of the znode if it exists.
type Seen = (i64, Option<Stat>);

impl DistributedAtomicLong {
    /// The number of a path. Nothing is created before the number is changed.
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
        let acl = vec![Acl::open()];
        Ok(Self { client: client.clone(), path: path.to_owned(), acl, retry, promotion: None })
    }

    /// The same number with this access control list for its znode and for the directories that are
    /// created for it. The default is open to everyone.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// The same number with this retry policy for when other clients are quicker. The default is 29
    /// more attempts, with pauses from a millisecond to a tenth of a second.
    #[must_use]
    pub fn with_retry_policy(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The same number with a mutex for when other clients were quicker as often as the retry
    /// policy allows. The change then waits for the mutex, for at most `within`, and is tried again
    /// with the policy `retry` while it holds the mutex (Curator's `PromotedToLock`).
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

    /// The number.
    ///
    /// # Errors
    ///
    /// [`ValueError::Corrupt`]; the errors of a read.
    pub async fn get(&self) -> Result<i64, ValueError> {
        Ok(self.look().await?.0)
    }

    /// Adds to the number.
    ///
    /// # Errors
    ///
    /// [`ValueError::OutOfRange`], [`ValueError::Contended`], [`ValueError::Corrupt`],
    /// [`ValueError::CreatedAnew`]; the errors of requests and of the mutex, if there is one.
    ///
    /// # Cancellation
    ///
    /// When the future is dropped, the change may be made or not. The mutex is released in the
    /// background.
    pub async fn add(&self, delta: i64) -> Result<Change, ValueError> {
        let out_of_range = || ValueError::OutOfRange { path: self.path.clone() };
        let sum = |number: i64| number.checked_add(delta).ok_or_else(out_of_range).map(Some);
        Ok(self.change(sum).await?.unwrap_or(Change { before: 0, after: 0 }))
    }

    /// Subtracts from the number.
    ///
    /// # Errors
    ///
    /// As [`DistributedAtomicLong::add`].
    pub async fn subtract(&self, delta: i64) -> Result<Change, ValueError> {
        let negative = delta
            .checked_neg()
            .ok_or_else(|| ValueError::OutOfRange { path: self.path.clone() })?;
        self.add(negative).await
    }

    /// Adds one.
    ///
    /// # Errors
    ///
    /// As [`DistributedAtomicLong::add`].
    pub async fn increment(&self) -> Result<Change, ValueError> {
        self.add(1).await
    }

    /// Subtracts one.
    ///
    /// # Errors
    ///
    /// As [`DistributedAtomicLong::add`].
    pub async fn decrement(&self) -> Result<Change, ValueError> {
        self.subtract(1).await
    }

    /// Sets the number to `after` if it is `before`. Returns whether it was.
    ///
    /// # Errors
    ///
    /// As [`DistributedAtomicLong::add`].
    pub async fn compare_and_set(&self, before: i64, after: i64) -> Result<bool, ValueError> {
        let replace = |number| Ok((number == before).then_some(after));
        Ok(self.change(replace).await?.is_some())
    }

    /// Sets the number unconditionally.
    ///
    /// # Errors
    ///
    /// The errors of requests.
    pub async fn force_set(&self, number: i64) -> Result<(), ValueError> {
        let create = self.client.create(&self.path).data(encoded(number)).acl(self.acl.clone());
        create.parents(Parents::Containers).or_set().await?;
        Ok(())
    }

    /// Creates the znode with this number. Returns `false` if it exists already.
    ///
    /// # Errors
    ///
    /// The errors of a create.
    pub async fn initialize(&self, number: i64) -> Result<bool, ValueError> {
        match self.create(number).await {
            Ok(()) => Ok(true),
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the number by what `next` returns; for `None` nothing is changed.
    async fn change(
        &self,
        next: impl Fn(i64) -> Result<Option<i64>, ValueError>,
    ) -> Result<Option<Change>, ValueError> {
        let changed = self.try_to_change(&self.retry, &next).await;
        let (Err(ValueError::Contended { .. }), Some(promotion)) = (&changed, &self.promotion)
        else {
            return changed;
        };
        // Each change has an owner of its own: a task may make several changes at a time.
        let acquiring = promotion.mutex.acquire_as(Owner::new());
        let guard = match tokio::time::timeout(promotion.within, acquiring).await {
            Ok(acquired) => acquired?,
            Err(_) => return changed,
        };
        let changed = self.try_to_change(&promotion.retry, &next).await;
        // The result does not depend on the release, which goes on in the background.
        drop(guard);
        changed
    }

    /// As [`DistributedAtomicLong::change`], as often as a retry policy allows.
    async fn try_to_change(
        &self,
        retry: &RetryPolicy,
        next: impl Fn(i64) -> Result<Option<i64>, ValueError>,
    ) -> Result<Option<Change>, ValueError> {
        let start = client::recipe::now();
        let mut tries = 0;
        loop {
            let (before, stat) = self.look().await?;
            let Some(after) = next(before)? else { return Ok(None) };
            if self.try_write(stat, after).await? {
                return Ok(Some(Change { before, after }));
            }
            let waited = client::recipe::now() - start;
            let Some(delay) = self.client.retry_delay(retry, tries, waited) else {
                return Err(ValueError::Contended { path: self.path.clone(), tries: tries + 1 });
            };
            tries += 1;
            tokio::time::sleep(delay).await;
        }
    }

    async fn look(&self) -> Result<Seen, ValueError> {
        match self.client.get(&self.path).await {
            Ok((data, stat)) => Ok((self.decoded(&data)?, Some(stat))),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok((0, None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the number if the znode has not changed since it was read. Returns whether it was
    /// written.
    async fn try_write(&self, seen: Option<Stat>, number: i64) -> Result<bool, ValueError> {
        let session = self.client.session_id();
        let version = seen.map(|stat| stat.version);
        let result = match version {
            None => self.create(number).await,
            Some(-1) => return Err(ValueError::VersionUnusable { path: self.path.clone() }),
            Some(version) => {
                let set = self.client.set(&self.path, encoded(number)).version(version).await;
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
        if is_late || self.was_surely_not_written(&error, seen, number, session).await {
            Ok(false)
        } else {
            Err(error.into())
        }
    }

    /// Whether a write whose answer was lost was certainly not carried out: the znode has not
    /// changed, or has changed once, to another number. Without an answer this returns `false`.
    async fn was_surely_not_written(
        &self,
        error: &client::Error,
        seen: Option<Stat>,
        number: i64,
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
        let Ok((now, Some(stat))) = self.look().await else { return false };
        let is_same = stat.czxid == seen.czxid && stat.version == seen.version;
        let is_next = stat.czxid == seen.czxid && stat.version == seen.version.wrapping_add(1);
        is_same || (is_next && now != number)
    }

    async fn create(&self, number: i64) -> Result<(), client::Error> {
        let create = self.client.create(&self.path).data(encoded(number)).acl(self.acl.clone());
        create.parents(Parents::Containers).await.map(drop)
    }

    fn decoded(&self, data: &[u8]) -> Result<i64, ValueError> {
        if data.is_empty() {
            return Ok(0);
        }
        data.try_into().map(i64::from_be_bytes).map_err(|_| ValueError::Corrupt {
            path: self.path.clone(),
            length: data.len(),
            expected: NUMBER_BYTES,
        })
    }
}

fn encoded(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}
