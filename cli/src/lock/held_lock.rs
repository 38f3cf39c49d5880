//! The lock: acquired, held, and lost or released.

use std::ffi::OsString;
use std::time::Duration;

use zoolet_client::{Client, RetryPolicy};
use zoolet_layouts::{Name, Recipe, Site};
use zoolet_protocol::{ErrorCode, Zxid};
use zoolet_recipes::{
    Guard, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2, LockError,
    LockState, Permits,
};

use super::failure::{Failure, Loss};

/// Which lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockKind {
    Exclusive,
    Shared,
    Mutex,
    Semaphore { permits: usize },
}

/// A lock that is held.
#[derive(Debug)]
pub(super) struct HeldLock {
    lock: Grant,
}

#[derive(Debug)]
enum Grant {
    Guard(Guard),
    Permits(Permits),
}

/// How long to wait before a request is sent again after the connection was lost.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How long to wait for the answer to a release. Without it the lock is free when the session ends.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

/// How often, and for how long each time, a free permit is tried for without patience. Each failure means
/// that another client was quicker.
const PERMIT_TRIES: u32 = 5;
const PERMIT_WITHIN: Duration = Duration::from_secs(1);

/// How many characters of the command are in the data of the lock's znode.
const COMMAND_CHARS_MAX: usize = 1000;

impl HeldLock {
    /// Waits for the lock, and reconnects as often as needed. Without patience it waits only until another
    /// client is known to hold the lock.
    pub(super) async fn acquire(
        client: &Client,
        kind: LockKind,
        is_patient: bool,
        path: &str,
        command: &[OsString],
    ) -> Result<Self, Failure> {
        let client = client.with_retry_policy(RetryPolicy::forever(AGAIN_AFTER));
        let data = data(command);
        let lock = loop {
            match kind.acquire(&client, path, data.clone(), is_patient).await {
                Ok(Some(lock)) => break lock,
                Ok(None) => return Err(Failure::Conflict(path.to_owned())),
                Err(LockError::Client(error)) if error.is_retryable() => {
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(LockError::PlaceLost(_)) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let held = Self { lock };
        // The second of two contenders sees the first, since both look after they acquired.
        match kind.mixed_with(&client, path).await? {
            Some(other) => Err(Failure::Mixed { path: path.to_owned(), other }),
            None => Ok(held),
        }
    }

    /// The fencing token.
    pub(super) fn token(&self) -> Zxid {
        match &self.lock {
            Grant::Guard(guard) => guard.fencing_token(),
            Grant::Permits(permits) => permits.fencing_token(),
        }
    }

    /// The path of the lock's znode.
    pub(super) fn path(&self) -> &str {
        match &self.lock {
            Grant::Guard(guard) => guard.path(),
            Grant::Permits(permits) => permits.paths().first().map_or("", String::as_str),
        }
    }

    /// Waits until the lock is lost, or is not proved for as long as the command may take to end.
    pub(super) async fn lost(&self, client: &Client, time_to_end: Duration) -> Loss {
        let lost = async {
            match &self.lock {
                Grant::Guard(guard) => guard.lost().await,
                Grant::Permits(permits) => permits.lost().await,
            }
        };
        tokio::select! {
            () = lost => {}
            () = too_near_the_end(client, time_to_end) => {}
        }
        let state = match &self.lock {
            Grant::Guard(guard) => guard.state(),
            Grant::Permits(permits) => permits.state(),
        };
        if state == LockState::Lost { Loss::Gone } else { Loss::Unproved }
    }

    /// Releases it. It returns whether the lock was held until then.
    pub(super) async fn release(self, client: &Client) -> bool {
        let released = match self.lock {
            Grant::Guard(guard) => guard.release_within(RELEASE_WITHIN).await,
            Grant::Permits(permits) => permits.release_within(RELEASE_WITHIN).await,
        };
        match released {
            Err(LockError::Lost(_)) => false,
            Ok(()) => true,
            // The command ran under the lock from begin to end, so it succeeded.
            Err(_) => {
                let timeout = client.session_timeout();
                tracing::error!("the release is not answered: the lock is free in {timeout:?}");
                true
            }
        }
    }
}

/// Waits until the session is proved to live for less than this time.
async fn too_near_the_end(client: &Client, time_to_end: Duration) {
    loop {
        let until = client.session_valid_until();
        let until = until.checked_sub(time_to_end).unwrap_or(until);
        tokio::time::sleep_until(until).await;
        let later = client.session_valid_until();
        if later.checked_sub(time_to_end).unwrap_or(later) <= until {
            return;
        }
    }
}

impl LockKind {
    /// Acquires the lock; `None` without patience, if another client holds it.
    async fn acquire(
        self,
        client: &Client,
        path: &str,
        data: String,
        is_patient: bool,
    ) -> Result<Option<Grant>, LockError> {
        let both =
            |data| InterProcessReadWriteLock::new(client, path).map(|lock| lock.with_data(data));
        let guard = match self {
            Self::Exclusive if is_patient => Some(both(data)?.write_lock().acquire().await?),
            Self::Exclusive => both(data)?.write_lock().try_acquire().await?,
            Self::Shared if is_patient => Some(both(data)?.read_lock().acquire().await?),
            Self::Shared => both(data)?.read_lock().try_acquire().await?,
            Self::Mutex => {
                let mutex = InterProcessMutex::new(client, path)?.with_data(data);
                if is_patient { Some(mutex.acquire().await?) } else { mutex.try_acquire().await? }
            }
            Self::Semaphore { permits } => {
                let semaphore = InterProcessSemaphoreV2::new(client, path, permits)?;
                let semaphore = semaphore.with_data(data);
                let permits = if is_patient {
                    Some(semaphore.acquire(1).await?)
                } else {
                    try_permit(&semaphore).await?
                };
                return Ok(permits.map(Grant::Permits));
            }
        };
        Ok(guard.map(Grant::Guard))
    }

    /// Another kind of lock that uses the path, and that this kind does not exclude.
    async fn mixed_with(
        self,
        client: &Client,
        path: &str,
    ) -> Result<Option<&'static str>, Failure> {
        let is_ours = |recipe: Recipe| match self {
            Self::Exclusive | Self::Shared => recipe == Recipe::ReadWriteLock,
            Self::Mutex => recipe == Recipe::Mutex,
            Self::Semaphore { .. } => recipe == Recipe::Semaphore,
        };
        let mut names: Vec<String> = Vec::new();
        let permits = format!("{}/{}", path.trim_end_matches('/'), Site::PERMITS);
        for directory in [path.to_owned(), permits] {
            match client.children(&directory).await {
                Ok(children) => names.extend(children.iter().map(str::to_owned)),
                Err(error) if error.is(ErrorCode::NO_NODE) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Names of 32 digits may be anything without the others of their directory.
        let recipe = |name: &String| {
            let style = Name::read(name)?.style;
            let recipe = style.recipe();
            (style.is_place() || recipe == Recipe::Semaphore).then_some(recipe)
        };
        let mut recipes = names.iter().filter_map(recipe);
        Ok(recipes.find(|&recipe| !is_ours(recipe)).map(|recipe| match recipe {
            Recipe::Mutex => "a mutex",
            Recipe::ReadWriteLock => "a read-write lock",
            Recipe::Semaphore => "a semaphore",
            Recipe::LeaderLatch | Recipe::ApacheElection => "an election",
            Recipe::KazooLock | Recipe::KazooReadWriteLock => "a lock of kazoo",
            _ => "a lock of another library",
        }))
    }
}

/// Acquires a permit if one is free. It tries again when another client took that permit in between.
async fn try_permit(semaphore: &InterProcessSemaphoreV2) -> Result<Option<Permits>, LockError> {
    for _ in 0..PERMIT_TRIES {
        if semaphore.permits_left().await? == 0 {
            return Ok(None);
        }
        match semaphore.acquire_within(1, PERMIT_WITHIN).await {
            Err(LockError::TimedOut(_)) => {}
            acquired => return acquired.map(Some),
        }
    }
    Ok(None)
}

/// The data of the lock's znode, which tells others who holds the lock.
fn data(command: &[OsString]) -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let words = command.iter().map(|word| word.to_string_lossy());
    let command: String = shell_words::join(words).chars().take(COMMAND_CHARS_MAX).collect();
    format!("{}:{} {command}", host.to_string_lossy(), std::process::id())
}
