//! A semaphore between processes: Curator's `InterProcessSemaphoreV2`, with its znodes.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::limits::REQUEST_HEADER_BYTES;
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, CreateMode, Encode as _, ErrorCode, MultiOp, MultiResult,
    Names, OpCode, Request, Write, ZPath, sequence_number,
};

use super::permits::{PendingPermits, Permits};
use crate::attempts::Attempts;
use crate::client::recipe::WaiterId;
use crate::client::{self, Client, Subscription, Watched};
use crate::error::{LockError, within};
use crate::line::order::{PlaceKind, Position};
use crate::line::place::{Place, deletion_of};
use crate::line::{Line, with_data};
use crate::value::shared_count::SharedCount;
use crate::value::shared_value::VersionedValue;

/// The line of the clients that want permits. Only the place in front may create any.
static KIND: PlaceKind = PlaceKind {
    marker: "lock-",
    waits_for: &["lock-"],
    ignores: &[],
    is_exclusive: true,
    may_have_second_place: &[],
};

/// The text before the number in the name of a permit. Curator calls permits leases.
const PERMIT_MARKER: &str = "lease-";

/// A number of permits that all processes share. They are granted in the order of the requests: a
/// client that waits for many permits delays those that came later and want few.
///
/// All permits of one acquire are created in one step, so that two clients that want all of them
/// cannot each wait for the other's half. All processes must name the same number of permits.
///
/// Its znodes are those of Curator's `InterProcessSemaphoreV2`, so that Java and Rust can share a
/// path. It has no owners: a client that holds all permits and wants one more waits.
///
/// ```no_run
/// use zoolet_recipes::InterProcessSemaphoreV2;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let semaphore = InterProcessSemaphoreV2::new(&client, "/connections", 10)?;
/// let permits = semaphore.acquire(2).await?;
/// println!("{} permits are held", permits.len());
/// permits.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InterProcessSemaphoreV2 {
    line: Line,
    /// The directory of the permits.
    permits: Arc<str>,
    maximum: Maximum,
}

/// How many permits there are.
#[derive(Debug, Clone)]
enum Maximum {
    Fixed(usize),
    Shared(Arc<SharedCount>),
}

impl Maximum {
    /// As far as is known at this moment.
    fn now(&self) -> Result<usize, LockError> {
        match self {
            Self::Fixed(count) => Ok(*count),
            Self::Shared(count) => Ok(usize::try_from(count.count()?).unwrap_or(0)),
        }
    }

    fn subscribe(&self) -> Option<Subscription<VersionedValue>> {
        match self {
            Self::Fixed(_) => None,
            Self::Shared(count) => Some(count.subscribe()),
        }
    }
}

impl InterProcessSemaphoreV2 {
    /// The semaphore of a path, with this many permits. Nothing is created before a permit is
    /// acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str, permits_max: usize) -> Result<Self, LockError> {
        Self::with_maximum(client, path, Maximum::Fixed(permits_max))
    }

    /// The semaphore of a path, with as many permits as `count` says, which may change. When it
    /// grows, waiting clients get permits. When it shrinks, permits stay held, and no more are
    /// granted while there are too many. A negative count means no permits.
    ///
    /// A process whose copy of the count is late uses the earlier count, as Curator's do.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn with_count(
        client: &Client,
        path: &str,
        count: Arc<SharedCount>,
    ) -> Result<Self, LockError> {
        Self::with_maximum(client, path, Maximum::Shared(count))
    }

    fn with_maximum(client: &Client, path: &str, maximum: Maximum) -> Result<Self, LockError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let path = path.trim_end_matches('/');
        Ok(Self {
            line: Line::new(client, &format!("{path}/locks"), &KIND)?,
            permits: format!("{path}/leases").into(),
            maximum,
        })
    }

    /// The same semaphore with this data for its permits, which shows others who holds them. The
    /// default is this machine's address, as in Curator.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.line.data = data.into();
        self
    }

    /// The same semaphore with this access control list for its znodes and for the directories that
    /// are created for them. Without it each has the [default](zoolet_client::Client::default_acl)
    /// of its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.line.set_acl(acl);
        self
    }

    /// Waits for `count` permits, which are acquired all at once.
    ///
    /// # Errors
    ///
    /// [`LockError::TooMany`] for more permits than the semaphore has, where their number is fixed;
    /// [`client::Error::TooLong`] for more than one request has room for, which are some thousands; the
    /// errors of requests. A session that ends is no error: the next session enters the line
    /// again.
    ///
    /// # Cancellation
    ///
    /// Safe: when the future is dropped, the client's znodes are deleted in the background.
    pub async fn acquire(&self, count: usize) -> Result<Permits, LockError> {
        self.check(count)?;
        let mut attempts = Attempts::new(&self.line.client);
        loop {
            let (mut place, at) = self.line.enter().await?;
            let acquired = match self.line.wait(&mut place, at).await {
                Ok(()) => self.acquire_in_front(place, count).await,
                Err(error) => Err(error),
            };
            match acquired {
                Err(LockError::PlaceLost(_)) => attempts.wait_after_lost_place().await,
                acquired => return acquired,
            }
        }
    }

    /// As [`InterProcessSemaphoreV2::acquire`], within a time limit for everything.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed; else as [`InterProcessSemaphoreV2::acquire`].
    pub async fn acquire_within(&self, count: usize, time: Duration) -> Result<Permits, LockError> {
        within(time, self.path(), pin!(self.acquire(count))).await
    }

    /// Acquires `count` permits if they are free and no client waits, without waiting for them. If
    /// they are not free, this costs one read and creates nothing.
    ///
    /// # Errors
    ///
    /// As [`InterProcessSemaphoreV2::acquire`].
    pub async fn try_acquire(&self, count: usize) -> Result<Option<Permits>, LockError> {
        self.check(count)?;
        let mut attempts = Attempts::new(&self.line.client);
        loop {
            if self.permits_left().await? < count {
                return Ok(None);
            }
            match self.try_in_line(count).await {
                Ok(acquired) => return Ok(acquired),
                // Another client deleted the place or a directory, or the connection closed.
                Err(error) => attempts.wait_after_write(error.at(self.path())).await?,
            }
        }
    }

    /// Acquires the permits if no place is ahead in the line, and they are still free.
    async fn try_in_line(&self, count: usize) -> Result<Option<Permits>, LockError> {
        let (mut place, at) = self.line.enter().await?;
        match at.position {
            Position::Front => {
                self.line.came_to_front(&mut place);
                if let Some(ops) = self.room_for(count).await? {
                    let permits = self.create(&place, ops, count).await?;
                    place.note_deleted();
                    return Ok(Some(permits));
                }
            }
            Position::Behind { .. } => {}
            Position::Missing => return Err(LockError::PlaceLost(place.path().to_owned())),
        }
        place.delete_if_present().await?;
        Ok(None)
    }

    /// Refuses a number of permits that the semaphore never has, or that one request has no room for. It is
    /// looked at before there are operations: a number too large must not take memory.
    fn check(&self, count: usize) -> Result<(), LockError> {
        if let Maximum::Fixed(max) = self.maximum
            && count > max
        {
            return Err(LockError::TooMany { path: self.path().to_owned(), count, max });
        }
        if count > 1 {
            let (bytes, limit) = (self.bytes_of(count), self.line.client.jute_max_buffer());
            if bytes > limit {
                let (op, path) = (OpCode::MULTI, self.path().to_owned());
                return Err(client::Error::TooLong { op, path, bytes, limit }.into());
            }
        }
        Ok(())
    }

    /// The most bytes of the request that creates so many permits: with the directories that may be missing,
    /// and with the deletion of the place.
    fn bytes_of(&self, count: usize) -> usize {
        let client = &self.line.client;
        let ancestors = std::iter::successors(Some(&*self.permits), |path| {
            path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
        });
        let directory = |path: &str| {
            let acl = self.line.directory_acl.as_deref();
            let acl = acl.map_or_else(|| client.default_acl(path), <[Acl]>::to_vec);
            MultiOp::from(Create::new(path, CreateMode::Container).acl(acl))
        };
        let place = format!("{}{:010}", self.line.new_path(), 0);
        let others: Vec<_> =
            ancestors.map(directory).chain(deletion_of(place.into(), true)).collect();
        // Requests have the paths of the server.
        let root = client.server_path("/x").len() - "/x".len();
        let of_others = others.len() * root;
        let of_others = of_others + Request::Write(Write::Multi(others)).encoded_len();
        let of_permit = self.permit_op().1.encoded_len() + root;
        of_permit.saturating_mul(count).saturating_add(REQUEST_HEADER_BYTES + of_others)
    }

    /// How many permits are free.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn permits_left(&self) -> Result<usize, LockError> {
        let held = self.participants().await?.len();
        Ok(self.maximum.now()?.saturating_sub(held))
    }

    /// The znodes of all permits that are held.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        match self.line.client.children(&self.permits).await {
            Ok(names) => Ok(permits(&names).map(|name| self.permit_path(name)).collect()),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`InterProcessSemaphoreV2::participants`], with the data of each permit
    /// ([`InterProcessSemaphoreV2::with_data`]): who holds it (`Lease.getData` of Curator).
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub async fn participants_with_data(&self) -> Result<Vec<(String, Bytes)>, LockError> {
        with_data(&self.line.client, self.participants().await?).await
    }

    /// The path of the semaphore.
    fn path(&self) -> &str {
        self.permits.strip_suffix("/leases").unwrap_or(&self.permits)
    }

    fn permit_path(&self, name: &str) -> String {
        format!("{}/{name}", self.permits)
    }

    /// Waits until enough permits are free, and replaces the place by them. The place is in front,
    /// so that no other client creates permits in this time.
    async fn acquire_in_front(&self, place: Place, count: usize) -> Result<Permits, LockError> {
        let mut attempts = Attempts::new(&self.line.client);
        loop {
            let room = self.wait_for_room(&place, count).await;
            let has_room = room.is_ok();
            let created = match room {
                Ok(ops) => self.create(&place, ops, count).await,
                Err(error) => Err(error),
            };
            match created {
                Ok(permits) => {
                    place.note_deleted();
                    return Ok(permits);
                }
                Err(error @ LockError::PlaceLost(_)) => return Err(error),
                // The directory was created or deleted in between, or the connection closed.
                Err(error) if has_room => attempts.wait_after_write(error).await?,
                Err(error) => attempts.wait_after(error).await?,
            }
            if !place.exists().await? {
                return Err(LockError::PlaceLost(place.path().to_owned()));
            }
        }
    }

    /// Waits until enough permits are free. Returns the operations that create their directory, if
    /// it is missing.
    async fn wait_for_room(&self, place: &Place, count: usize) -> Result<Vec<MultiOp>, LockError> {
        if let Some(ops) = self.room_for(count).await? {
            return Ok(ops);
        }
        let mut maximum = self.maximum.subscribe();
        loop {
            // A change after this point wakes the wait below.
            if let Some(maximum) = &mut maximum {
                maximum.mark_unchanged();
            }
            let watched = match self.line.client.children(&self.permits).and_watch().await {
                Ok(watched) => watched,
                Err(error) => return self.missing_directory(error).await,
            };
            let Watched { found, watcher } = watched;
            if self.has_room(&found, count)? {
                return Ok(Vec::new());
            }
            let lost = std::future::poll_fn(|context| place.poll_lost(WaiterId::ONLY, context));
            tokio::select! {
                biased;
                // If the session has ended, the next request returns that.
                _changed = watcher => {}
                () = changed(&mut maximum) => {}
                lost = lost => return Err(lost),
            }
        }
    }

    /// If enough permits are free: the operations that create their directory, if it is missing.
    async fn room_for(&self, count: usize) -> Result<Option<Vec<MultiOp>>, LockError> {
        match self.line.client.children(&self.permits).await {
            Ok(names) => Ok(self.has_room(&names, count)?.then(Vec::new)),
            // Without the directory no permits are held.
            Err(error) => {
                let ops = self.missing_directory(error).await?;
                Ok((count <= self.maximum.now()?).then_some(ops))
            }
        }
    }

    fn has_room(&self, names: &Names, count: usize) -> Result<bool, LockError> {
        Ok(count <= self.maximum.now()?.saturating_sub(permits(names).count()))
    }

    /// The operations that create the directory of the permits, if this error says that it is
    /// missing.
    async fn missing_directory(&self, error: client::Error) -> Result<Vec<MultiOp>, LockError> {
        if !error.is(ErrorCode::NO_NODE) {
            return Err(error.into());
        }
        let acl = self.line.directory_acl.as_deref();
        Ok(self.line.client.missing_containers(&self.permits, acl).await?)
    }

    /// A path for permits, and the operation that creates one of them.
    fn permit_op(&self) -> (String, MultiOp) {
        let path = self.line.client.protected_path(&self.permit_path(PERMIT_MARKER));
        let create = Create {
            kind: CreateKind::Create,
            path: path.as_str().into(),
            data: Some(self.line.data.clone()),
            acl: Some(self.line.acl.to_vec()),
            flags: CreateFlags::EPHEMERAL_SEQUENTIAL,
        };
        (path, MultiOp::Create(create))
    }

    /// Creates the permits and deletes the place with one multi: either the permits are held or the
    /// place still is, and nothing can be lost in between.
    async fn create(
        &self,
        place: &Place,
        mut ops: Vec<MultiOp>,
        count: usize,
    ) -> Result<Permits, LockError> {
        let (path, create) = self.permit_op();
        ops.extend(std::iter::repeat_n(create, count));
        ops.extend(place.delete_ops());
        let pending = PendingPermits::new(place.session(), path, count);
        pending.create(ops, |results| paths_of(results, PERMIT_MARKER)).await
    }
}

/// The path and the number of permits.
impl fmt::Debug for InterProcessSemaphoreV2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InterProcessSemaphoreV2({}, {:?})", self.path(), self.maximum)
    }
}

/// Waits until a maximum that may change does.
async fn changed(maximum: &mut Option<Subscription<VersionedValue>>) {
    if let Some(maximum) = maximum
        && maximum.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The names of the permits among the children of a directory.
fn permits(names: &Names) -> impl Iterator<Item = &str> {
    names.iter().filter(|name| sequence_number(name, PERMIT_MARKER).is_some())
}

/// The paths of the znodes with this marker that a multi created.
fn paths_of(results: &[MultiResult], marker: &str) -> Vec<String> {
    let path = |result: &MultiResult| match result {
        MultiResult::Create(path) | MultiResult::Create2(path, _) => Some(path.to_string()),
        _ => None,
    };
    let is_marked = |path: &String| sequence_number(path, marker).is_some();
    results.iter().filter_map(path).filter(is_marked).collect()
}
