//! A semaphore between processes: Curator's `InterProcessSemaphoreV2`, with its znodes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, ErrorCode, MultiOp, MultiResult, Names, SessionId, ZPath,
    Zxid,
};

use crate::client::{self, Client, WaiterId, Watched};
use crate::error::LockError;
use crate::leave::Leave;
use crate::line::{self, Kind};
use crate::place::{Line, Place};
use crate::tries::Tries;

/// The line of those who want permits. Only its first looks at the permits.
static GATE: Kind =
    Kind { marker: "lock-", waits_for: &["lock-"], exclusive: &["lock-"], with_places_beside: &[] };

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
    permits_max: usize,
}

impl InterProcessSemaphoreV2 {
    /// The semaphore of a path, with this many permits. Nothing is created before one is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str, permits_max: usize) -> Result<Self, LockError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let path = path.trim_end_matches('/');
        Ok(Self {
            gate: Line::new(client, &format!("{path}/locks"), &GATE)?,
            permits: format!("{path}/leases").into(),
            permits_max,
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
    /// [`LockError::TooMany`] for more than there are; else what may go wrong with requests.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line, and permits that it had got are given back.
    pub async fn acquire(&self, count: usize) -> Result<Permits, LockError> {
        if count > self.permits_max {
            return Err(LockError::TooMany { count, max: self.permits_max });
        }
        loop {
            let (mut place, standing) = self.gate.enter().await?;
            let acquired = match place.wait(&self.gate, standing).await {
                Ok(()) => self.acquire_in_front(place, count).await,
                Err(error) => Err(error),
            };
            match acquired {
                // The session ended in line: the next session takes a place of its own.
                Err(LockError::Lost) => {}
                acquired => return acquired,
            }
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
        Ok(self.permits_max.saturating_sub(self.participants().await?.len()))
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
                Err(LockError::Lost) => return Err(LockError::Lost),
                // The directory came or went in between, or the connection did.
                Err(error) => tries.after(error).await?,
            }
            if !place.is_still_there().await? {
                return Err(LockError::Lost);
            }
        }
    }

    /// Waits until there are enough permits, and returns what must be created for them.
    async fn wait_for(&self, place: &Place, count: usize) -> Result<Vec<MultiOp>, LockError> {
        let client = &self.gate.client;
        let is_enough = |names: &Names| permits(names).count() + count <= self.permits_max;
        match client.children(&self.permits).await {
            Ok(names) if is_enough(&names) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return self.missing_directory(error).await,
        }
        loop {
            let watched = match client.children(&self.permits).and_watch().await {
                Ok(watched) => watched,
                Err(error) => return self.missing_directory(error).await,
            };
            let Watched { found, watcher } = watched;
            if is_enough(&found) {
                return Ok(Vec::new());
            }
            let lost = std::future::poll_fn(|context| place.poll_lost(WaiterId::ONLY, context));
            tokio::select! {
                // A session that is over is noticed when the permits are asked for.
                _changed = watcher => {}
                lost = lost => return Err(lost),
            }
        }
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
        let path = client.protected_path(&self.permit_path(PERMIT_MARKER));
        let create = Create {
            kind: CreateKind::Create,
            path: path.as_str().into(),
            data: Some(self.gate.data.clone()),
            acl: Some(self.gate.acl.to_vec()),
            flags: CreateFlags::EPHEMERAL_SEQUENTIAL,
        };
        ops.extend(std::iter::repeat_n(MultiOp::Create(create), count));
        ops.extend(place.leaving_ops());
        let mut taking =
            Taking { client: client.clone(), session: place.session(), path: Some(path) };
        let result = client.multi_at(ops).bound_to(taking.session).send().await;
        let (paths, token) = match result {
            Ok((results, zxid)) => (paths_of(client, &results, PERMIT_MARKER), zxid),
            Err(client::Error::Unknown { .. }) => taking.look_for().await?,
            Err(error) => {
                taking.path = None;
                return Err(error);
            }
        };
        taking.path = None;
        Ok(Permits { client: client.clone(), session: taking.session, paths, token })
    }
}

/// The names of the permits among those of a directory.
fn permits(names: &Names) -> impl Iterator<Item = &str> {
    names.iter().filter(|name| line::number(name, PERMIT_MARKER).is_some())
}

/// The paths of the znodes that a multi created under a marker.
fn paths_of(client: &Client, results: &[MultiResult], marker: &str) -> Vec<String> {
    let path = |result: &MultiResult| match result {
        MultiResult::Create(path) | MultiResult::Create2(path, _) => Some(client.local_path(path)),
        _ => None,
    };
    let is_marked = |path: &String| line::number(path, marker).is_some();
    results.iter().filter_map(path).filter(is_marked).collect()
}

/// Permits that are asked for and not known to be had. Dropped, it sees to it that they are not.
struct Taking {
    client: Client,
    session: SessionId,
    path: Option<String>,
}

impl Taking {
    /// The permits whose answer was lost: all of them, or none, since they were made in one.
    async fn look_for(&mut self) -> Result<(Vec<String>, Zxid), client::Error> {
        let path = self.path.clone().unwrap_or_default();
        let found = self.client.find_all_protected(&path, self.session).await?;
        if let Some(first) = found.first() {
            let exists = self.client.exists(first).bound_to(self.session).until_answered();
            if let Some(stat) = exists.await? {
                return Ok((found, stat.czxid));
            }
        }
        self.path = None;
        Err(client::Error::Lost)
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            self.client.remove_all_protected(path, self.session);
        }
    }
}

/// Permits that are had. Dropping them gives them back in the background; [`Permits::release`]
/// waits for that.
#[derive(Debug)]
#[must_use = "the permits are given back when this is dropped"]
pub struct Permits {
    client: Client,
    session: SessionId,
    paths: Vec<String>,
    token: Zxid,
}

impl Permits {
    /// A number that is greater than that of whoever took permits before: the zxid by which these
    /// were created. Of a semaphore with one permit it is a fencing token.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.token
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there are none, as when none were asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The znodes by which they are had.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// One of them, apart from the others; `None` when none are left.
    pub fn split_one(&mut self) -> Option<Self> {
        let paths = vec![self.paths.pop()?];
        Some(Self { client: self.client.clone(), session: self.session, paths, token: self.token })
    }

    /// Gives them back, and returns when they are free. If the future is dropped it goes on in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one was lost before, with its session or by someone else's doing.
    pub async fn release(mut self) -> Result<(), LockError> {
        // All are on their way before the first answer is waited for.
        let leaves: Vec<_> = std::mem::take(&mut self.paths)
            .iter()
            .map(|path| Leave::begin(&self.client, self.session, path))
            .collect();
        let mut result = Ok(());
        for leave in leaves {
            result = result.and(leave.done().await);
        }
        result
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        for path in std::mem::take(&mut self.paths) {
            drop(Leave::begin(&self.client, self.session, &path));
        }
    }
}
