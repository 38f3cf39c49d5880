//! A number that many change: Curator's `DistributedAtomicLong`, with its znode.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{ErrorCode, SessionId, Stat, ZPath};

use crate::client::{self, Client, Parents, RetryPolicy};
use crate::lock::mutex::InterProcessMutex;
use crate::lock::owner::Owner;
use crate::value::error::ValueError;

/// The bytes of a number, the most significant first.
const NUMBER_BYTES: usize = size_of::<i64>();

/// A number in a znode. Each change is a look and a write bound to what was seen, tried again while
/// others are quicker.
///
/// No change is made twice: when the answer to a write is lost, it is tried again only if it can be
/// known that it was not carried out, and else the error is [`ConnectionLoss`](client::Error::ConnectionLoss).
///
/// Its znode is that of Curator's `DistributedAtomicLong`: eight bytes, the most significant first;
/// no znode and no bytes stand for 0.
///
/// ```no_run
/// use zoolet_recipes::DistributedAtomicLong;
/// use zoolet_recipes::client::Client;
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
    retry: RetryPolicy,
    promotion: Option<Promotion>,
}

/// What is done when others are quicker too often.
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

/// What was seen of the znode: its number, and its Stat if it is there.
type Seen = (i64, Option<Stat>);

impl DistributedAtomicLong {
    /// The number of a path. Nothing is created before it is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, ValueError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let retry = RetryPolicy::bounded_exponential_backoff(
            Duration::from_millis(1),
            Duration::from_millis(100),
            29,
        );
        Ok(Self { client: client.clone(), path: path.to_owned(), retry, promotion: None })
    }

    /// The same number with another policy for when others are quicker; by default 29 times more,
    /// with pauses from a millisecond to a tenth of a second.
    #[must_use]
    pub fn with_retry_policy(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The same number with a mutex for when others are quicker as often as its policy allows: a
    /// change is tried again then by who holds the mutex, with a policy for that, and so against
    /// those only who are not that late yet. The mutex is waited for for a time (`PromotedToLock` of
    /// Curator).
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
    /// [`ValueError::Corrupt`], or what may go wrong with a read.
    pub async fn get(&self) -> Result<i64, ValueError> {
        Ok(self.look().await?.0)
    }

    /// Adds to the number.
    ///
    /// # Errors
    ///
    /// [`ValueError::OutOfRange`], [`ValueError::Contended`], [`ValueError::Corrupt`],
    /// [`ValueError::CreatedAnew`], or what may go wrong with requests, and with the mutex if there is
    /// one.
    ///
    /// # Cancellation
    ///
    /// When the future is dropped the change may be made or not. A mutex is released in the
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

    /// Sets the number to `after` if it is `before`, and tells whether it was.
    ///
    /// # Errors
    ///
    /// As [`DistributedAtomicLong::add`].
    pub async fn compare_and_set(&self, before: i64, after: i64) -> Result<bool, ValueError> {
        let replace = |number| Ok((number == before).then_some(after));
        Ok(self.change(replace).await?.is_some())
    }

    /// Sets the number whatever it is, and whoever changes it meanwhile.
    ///
    /// # Errors
    ///
    /// What may go wrong with requests.
    pub async fn force_set(&self, number: i64) -> Result<(), ValueError> {
        let create = self.client.create(&self.path).data(encoded(number));
        create.parents(Parents::Containers).or_set().await?;
        Ok(())
    }

    /// Creates the znode with this number, and tells whether there was none.
    ///
    /// # Errors
    ///
    /// What may go wrong with a create.
    pub async fn initialize(&self, number: i64) -> Result<bool, ValueError> {
        match self.create(number).await {
            Ok(()) => Ok(true),
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the number by what `next` makes of it, unless that is nothing.
    async fn change(
        &self,
        next: impl Fn(i64) -> Result<Option<i64>, ValueError>,
    ) -> Result<Option<Change>, ValueError> {
        let changed = self.try_to_change(&self.retry, &next).await;
        let (Err(ValueError::Contended { .. }), Some(promotion)) = (&changed, &self.promotion)
        else {
            return changed;
        };
        // An owner of its own: a task may make several changes at a time.
        let acquiring = promotion.mutex.acquire_as(Owner::new());
        let guard = match tokio::time::timeout(promotion.within, acquiring).await {
            Ok(acquired) => acquired?,
            Err(_) => return changed,
        };
        let changed = self.try_to_change(&promotion.retry, &next).await;
        // The change is made or not, whatever becomes of the lock; it is given up in any case.
        drop(guard);
        changed
    }

    /// As [`DistributedAtomicLong::change`], as often as a policy allows.
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
            let Some(delay) = retry.delay(tries, client::recipe::now() - start) else {
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

    /// Writes the number if the znode is as it was seen, and tells whether it was.
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

    /// Whether a write whose answer was lost is known not to have been carried out: the znode is as
    /// it was, or has been changed once, and to something else. It is not known when nobody can be
    /// asked.
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
        // What was on its way in this session is carried out before this is answered, or never. In
        // another session it may still come.
        let session = self.client.in_session(session);
        let caught_up = session.catch_up(&self.path);
        if caught_up.await.is_err() {
            return false;
        }
        let Ok((now, Some(stat))) = self.look().await else { return false };
        let is_same = stat.czxid == seen.czxid && stat.version == seen.version;
        let is_next = stat.czxid == seen.czxid && stat.version == seen.version.wrapping_add(1);
        is_same || (is_next && now != number)
    }

    async fn create(&self, number: i64) -> Result<(), client::Error> {
        let create = self.client.create(&self.path).data(encoded(number));
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
