//! A semaphore between processes: Curator's `InterProcessSemaphoreV2`, with its znodes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, ErrorCode, MultiOp, MultiResult, Names, ZPath,
};

use crate::client::recipe::{WaiterId, protected_path};
use crate::client::{self, Client, Watched};
use crate::error::LockError;
use crate::line::order::{self, Kind, Turn};
use crate::line::place::{Line, Place};
use crate::lock::permits::{Permits, Taking};
use crate::tries::Tries;
use crate::value::shared_count::SharedCount;
use crate::value::shared_value::VersionedValue;

/// The line of those who want permits. Only its first looks at the permits.
static GATE: Kind = Kind {
    marker: "lock-",
    waits_for: &["lock-"],
    holds_beside: &[],
    is_exclusive: true,
    with_places_beside: &[],
};

/// What stands before the number of a permit's name.
const PERMIT_MARKER: &str = "lease-";

/// A number of permits that owners over all processes share, handed out in the order in which they
/// came: who wants many and waits holds those up who came later and want few.
///
/// All permits of one acquisition are had in one step, so that two who want all of them cannot each
/// wait for the other's half. Everyone must name the same number of permits.
///
/// Its znodes are those of Curator's `InterProcessSemaphoreV2`, so that Java and Rust share one
/// path. It knows no owners: who has all permits and wants one more waits.
///
/// ```no_run
/// use zoolet_recipes::InterProcessSemaphoreV2;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let semaphore = InterProcessSemaphoreV2::new(&client, "/connections", 10)?;
/// let permits = semaphore.acquire(2).await?;
/// println!("{} permits are had", permits.len());
/// permits.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessSemaphoreV2 {
    gate: Line,
    /// Where the permits are.
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

    fn subscribe(&self) -> Option<watch::Receiver<VersionedValue>> {
        match self {
            Self::Fixed(_) => None,
            Self::Shared(count) => Some(count.subscribe()),
        }
    }
}

impl InterProcessSemaphoreV2 {
    /// The semaphore of a path, with this many permits. Nothing is created before one is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str, permits_max: usize) -> Result<Self, LockError> {
        Self::with_maximum(client, path, Maximum::Fixed(permits_max))
    }

    /// The semaphore of a path, with as many permits as `count` says, which may change. When it
    /// grows, who waits is let in; when it shrinks, permits that are had stay so, and no more are
    /// handed out while there are too many. Below zero it stands for none.
    ///
    /// A process whose copy of the count is late goes by the earlier one, as Curator's do.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
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
            gate: Line::new(client, &format!("{path}/locks"), &GATE)?,
            permits: format!("{path}/leases").into(),
            maximum,
        })
    }

    /// The same semaphore with data for its permits, by which others see who has them.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.gate.data = data.into();
        self
    }

    /// The same semaphore with an access control list for its znodes and for what is created above.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.gate.acl = acl.into();
        self
    }

    /// Waits for `count` permits, all at once.
    ///
    /// # Errors
    ///
    /// [`LockError::TooMany`] for more than there are, where that cannot change; else what may go
    /// wrong with requests.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line, and permits that it had got are given back.
    pub async fn acquire(&self, count: usize) -> Result<Permits, LockError> {
        self.check(count)?;
        let mut tries = Tries::new();
        loop {
            let (mut place, standing) = self.gate.enter().await?;
            let acquired = match place.wait(&self.gate, standing).await {
                Ok(()) => self.acquire_in_front(place, count).await,
                Err(error) => Err(error),
            };
            match acquired {
                // The session ended in line: the next session takes a place of its own.
                Err(LockError::PlaceLost) => tries.after_lost_place().await,
                acquired => return acquired,
            }
        }
    }

    /// `count` permits, if they are free and nobody is in line before, without waiting for them. If
    /// they are not free that costs one read, and nothing is created.
    ///
    /// # Errors
    ///
    /// As [`InterProcessSemaphoreV2::acquire`].
    pub async fn try_acquire(&self, count: usize) -> Result<Option<Permits>, LockError> {
        self.check(count)?;
        let mut tries = Tries::new();
        loop {
            if self.permits_left().await? < count {
                return Ok(None);
            }
            match self.try_in_line(count).await {
                Ok(taken) => return Ok(taken),
                // Somebody deleted the place or a directory, or the connection went.
                Err(error) => tries.after(error).await?,
            }
        }
    }

    /// Takes the permits if nobody stands in line before, and they are free still.
    async fn try_in_line(&self, count: usize) -> Result<Option<Permits>, LockError> {
        let (mut place, standing) = self.gate.enter().await?;
        match standing.turn {
            Turn::Mine => {
                place.come_to_the_front(&self.gate, false);
                if let Some(ops) = self.room_for(count).await? {
                    let permits = self.take(&place, ops, count).await?;
                    place.was_left();
                    return Ok(Some(permits));
                }
            }
            Turn::Behind { .. } => {}
            Turn::Gone => return Err(LockError::PlaceLost),
        }
        place.leave_if_there().await?;
        Ok(None)
    }

    /// Refuses what can never be had.
    fn check(&self, count: usize) -> Result<(), LockError> {
        match self.maximum {
            Maximum::Fixed(max) if count > max => Err(LockError::TooMany { count, max }),
            _ => Ok(()),
        }
    }

    /// As [`InterProcessSemaphoreV2::acquire`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessSemaphoreV2::acquire`].
    pub async fn acquire_within(&self, count: usize, time: Duration) -> Result<Permits, LockError> {
        tokio::time::timeout(time, self.acquire(count)).await.unwrap_or(Err(LockError::Over))
    }

    /// How many permits are free, and nobody in line before.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn permits_left(&self) -> Result<usize, LockError> {
        let had = self.participants().await?.len();
        Ok(self.maximum.now()?.saturating_sub(had))
    }

    /// The znodes of all permits that are had.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        match self.gate.client.children(&self.permits).await {
            Ok(names) => Ok(permits(&names).map(|name| self.permit_path(name)).collect()),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn permit_path(&self, name: &str) -> String {
        format!("{}/{name}", self.permits)
    }

    /// Waits until there are enough permits, as the first in line and so the only one to take any,
    /// and turns the place in line into them.
    async fn acquire_in_front(&self, place: Place, count: usize) -> Result<Permits, LockError> {
        let mut tries = Tries::new();
        loop {
            let taken = match self.wait_for(&place, count).await {
                Ok(ops) => self.take(&place, ops, count).await.map_err(LockError::from),
                Err(error) => Err(error),
            };
            match taken {
                Ok(permits) => {
                    place.was_left();
                    return Ok(permits);
                }
                Err(LockError::PlaceLost) => return Err(LockError::PlaceLost),
                // The directory came or went in between, or the connection did.
                Err(error) => tries.after(error).await?,
            }
            if !place.is_still_there().await? {
                return Err(LockError::PlaceLost);
            }
        }
    }

    /// Waits until there are enough permits, and returns what must be created for them.
    async fn wait_for(&self, place: &Place, count: usize) -> Result<Vec<MultiOp>, LockError> {
        if let Some(ops) = self.room_for(count).await? {
            return Ok(ops);
        }
        let mut maximum = self.maximum.subscribe();
        loop {
            // What changes from here on is heard.
            if let Some(maximum) = &mut maximum {
                maximum.mark_unchanged();
            }
            let watched = match self.gate.client.children(&self.permits).and_watch().await {
                Ok(watched) => watched,
                Err(error) => return self.missing_directory(error).await,
            };
            let Watched { found, watcher } = watched;
            if self.is_enough(&found, count)? {
                return Ok(Vec::new());
            }
            let lost = std::future::poll_fn(|context| place.poll_lost(WaiterId::ONLY, context));
            tokio::select! {
                biased;
                // A session that is over is noticed when the permits are asked for.
                _changed = watcher => {}
                () = changed(&mut maximum) => {}
                lost = lost => return Err(lost),
            }
        }
    }

    /// What must be created for the permits, if there are enough.
    async fn room_for(&self, count: usize) -> Result<Option<Vec<MultiOp>>, LockError> {
        match self.gate.client.children(&self.permits).await {
            Ok(names) => Ok(self.is_enough(&names, count)?.then(Vec::new)),
            // With no directory none are had.
            Err(error) => {
                let ops = self.missing_directory(error).await?;
                Ok((count <= self.maximum.now()?).then_some(ops))
            }
        }
    }

    fn is_enough(&self, names: &Names, count: usize) -> Result<bool, LockError> {
        Ok(permits(names).count() + count <= self.maximum.now()?)
    }

    /// What creates the directory of the permits, if it is missing.
    async fn missing_directory(&self, error: client::Error) -> Result<Vec<MultiOp>, LockError> {
        if !error.is(ErrorCode::NO_NODE) {
            return Err(error.into());
        }
        Ok(self.gate.client.missing_containers(&self.permits, &self.gate.acl).await?)
    }

    /// Creates the permits and gives the place up, all at once: the permits are had, or the place
    /// is, and nothing can be lost in between.
    async fn take(
        &self,
        place: &Place,
        mut ops: Vec<MultiOp>,
        count: usize,
    ) -> Result<Permits, client::Error> {
        let client = &self.gate.client;
        let path = protected_path(&self.permit_path(PERMIT_MARKER));
        let create = Create {
            kind: CreateKind::Create,
            path: path.as_str().into(),
            data: Some(self.gate.data.clone()),
            acl: Some(self.gate.acl.to_vec()),
            flags: CreateFlags::EPHEMERAL_SEQUENTIAL,
        };
        ops.extend(std::iter::repeat_n(MultiOp::Create(create), count));
        ops.extend(place.leaving_ops());
        let session = place.session();
        let mut taking = Taking { client: client.clone(), session, path: Some(path), count };
        let result = client.multi_with_zxid(ops).in_session(taking.session).send().await;
        let (paths, token) = match result {
            Ok((results, zxid)) => (paths_of(&results, PERMIT_MARKER), zxid),
            Err(client::Error::ConnectionLoss { .. }) => taking.look_for().await?,
            Err(error) => {
                taking.path = None;
                return Err(error);
            }
        };
        taking.path = None;
        Permits::proven(client, taking.session, paths, token).await
    }
}

/// Waits until a maximum that may change does.
async fn changed(maximum: &mut Option<watch::Receiver<VersionedValue>>) {
    if let Some(maximum) = maximum
        && maximum.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The names of the permits among those of a directory.
fn permits(names: &Names) -> impl Iterator<Item = &str> {
    names.iter().filter(|name| order::number(name, PERMIT_MARKER).is_some())
}

/// The paths of the znodes that a multi created under a marker.
fn paths_of(results: &[MultiResult], marker: &str) -> Vec<String> {
    let path = |result: &MultiResult| match result {
        MultiResult::Create(path) | MultiResult::Create2(path, _) => Some(path.to_string()),
        _ => None,
    };
    let is_marked = |path: &String| order::number(path, marker).is_some();
    results.iter().filter_map(path).filter(is_marked).collect()
}
