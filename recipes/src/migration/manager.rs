//! Carries out what is missing of a set of migrations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Create, CreateMode, ErrorCode, MultiOp};

use super::error::MigrationError;
use super::limits::{ATTEMPTS_MAX, READS_IN_FLIGHT};
use super::set::{Migration, MigrationSet};
use crate::client::recipe::SessionClient;
use crate::client::{self, Client};
use crate::error::LockError;
use crate::lock::{InterProcessSemaphoreMutex, Permits};

/// The beginning of the names of meta data.
const META_NAME: &str = "meta-";

/// Chooses the migrations to carry out, from the set and the hashes of those that were carried out.
type Filter = dyn Fn(&MigrationSet, &[Bytes]) -> Result<Vec<Migration>, String> + Send + Sync;

/// Carries out migrations, each of them once: Curator's `MigrationManager`, with its znodes.
///
/// The lock of a set is an [`InterProcessSemaphoreMutex`] at `<lock path>/<id>`. For each migration
/// that was carried out there is a znode `<meta data path>/<id>/meta-<number>`, whose data is the
/// SHA-256 of its operations as Curator computes it.
///
/// All missing migrations are one transaction, which checks that the lock is held. So none is carried
/// out twice, also if the session ends meanwhile or the reply is lost. A program with Curator checks no
/// lock in its transaction, so that two of these can carry out one migration twice.
///
/// ```no_run
/// use zoolet_client::{Client, CreateMode};
/// use zoolet_recipes::migration::{MigrationManager, MigrationSet};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let first = client.transaction().create("/app", "", CreateMode::Persistent);
/// let second = client.transaction().create("/app/limits", "100", CreateMode::Persistent);
/// let set = MigrationSet::new("app", vec![first.into(), second.into()]);
///
/// let manager = MigrationManager::new(&client, "/migrations/locks", "/migrations/metadata");
/// println!("{} migrations were missing", manager.migrate(&set).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MigrationManager {
    client: Client,
    lock_path: Arc<str>,
    meta_data_path: Arc<str>,
    lock_timeout: Option<Duration>,
    filter: Option<Arc<Filter>>,
}

impl MigrationManager {
    /// A manager whose locks and meta data are below these paths. Nothing is created before it
    /// migrates.
    #[must_use]
    pub fn new(client: &Client, lock_path: &str, meta_data_path: &str) -> Self {
        Self {
            client: client.clone(),
            lock_path: lock_path.trim_end_matches('/').into(),
            meta_data_path: meta_data_path.trim_end_matches('/').into(),
            lock_timeout: None,
            filter: None,
        }
    }

    /// The same manager, which waits no longer than this for the lock. Without it there is no limit.
    #[must_use]
    pub fn with_lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = Some(timeout);
        self
    }

    /// The same manager, which carries out what this function returns (`MigrationManager.filter` of
    /// Curator). It gets the set and, in their order, the hashes of the migrations that were carried
    /// out; a text that it returns as an error is that of [`MigrationError::Filter`]. It must not block.
    ///
    /// Without it the migrations that were carried out must be the first of the set.
    #[must_use]
    pub fn with_filter(
        mut self,
        filter: impl Fn(&MigrationSet, &[Bytes]) -> Result<Vec<Migration>, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Carries out the migrations of a set that are missing, all or none, and returns how many it
    /// found missing. When this returns, none is.
    ///
    /// # Errors
    ///
    /// [`MigrationError::MoreMetadata`] and [`MigrationError::Mismatch`] if the set is not that of
    /// which migrations were carried out; [`MigrationError::Refused`] if an operation is refused;
    /// [`LockError::TimedOut`] if the lock was not acquired in time. A transaction that is longer than
    /// the server's `jute.maxbuffer`, 1,048,575 bytes by default, fails with
    /// [`ConnectionLoss`](client::Error::ConnectionLoss): let an earlier release carry out a part.
    ///
    /// # Cancellation
    ///
    /// The lock is released in the background. If the transaction was sent, it is carried out or not;
    /// the next call sees which.
    pub async fn migrate(&self, set: &MigrationSet) -> Result<usize, MigrationError> {
        let lock_path = format!("{}/{}", self.lock_path, set.id());
        let lock = InterProcessSemaphoreMutex::new(&self.client, &lock_path)?;
        let mut attempts = 0;
        let mut first_missing = None;
        loop {
            let permits = match self.lock_timeout {
                Some(timeout) => lock.acquire_within(timeout).await?,
                None => lock.acquire().await?,
            };
            loop {
                let attempt = Attempt { manager: self, set, permits: &permits };
                let missing = match attempt.missing(attempts > 0).await {
                    // The next session acquires the lock again.
                    Err(MigrationError::Client(client::Error::SessionExpired)) => break,
                    missing => missing?,
                };
                let found_missing = *first_missing.get_or_insert(missing.len());
                attempts += 1;
                let outcome = if missing.is_empty() {
                    Outcome::Done
                } else {
                    attempt.carry_out(&missing).await?
                };
                match outcome {
                    Outcome::Done => {
                        // The loss of the lock does not matter any more.
                        let _ = permits.release().await;
                        return Ok(found_missing);
                    }
                    Outcome::Failed(error) if attempts == ATTEMPTS_MAX => return Err(error),
                    Outcome::Failed(MigrationError::Lock(LockError::Lost(_))) => break,
                    Outcome::Failed(_) => {}
                }
            }
        }
    }
}

/// What became of a transaction.
enum Outcome {
    Done,
    /// It is not certain whether it was carried out, or another client has changed the directories:
    /// the meta data tells.
    Failed(MigrationError),
}

/// One look at the meta data while the lock is held, and what follows.
struct Attempt<'a> {
    manager: &'a MigrationManager,
    set: &'a MigrationSet,
    permits: &'a Permits,
}

impl Attempt<'_> {
    fn directory(&self) -> String {
        format!("{}/{}", self.manager.meta_data_path, self.set.id())
    }

    fn session(&self) -> &SessionClient {
        self.permits.lock().session()
    }

    /// The migrations that were not carried out. After a lost reply the server catches up first: it may
    /// be another one, to which what the former carried out has not come yet.
    async fn missing(&self, catches_up: bool) -> Result<Vec<Migration>, MigrationError> {
        if catches_up {
            self.session().catch_up(&self.directory()).await?;
        }
        let hashes = self.hashes().await?;
        match &self.manager.filter {
            Some(filter) => filter(self.set, &hashes)
                .map_err(|reason| MigrationError::Filter { set: self.set.id().to_owned(), reason }),
            None => self.after(&hashes),
        }
    }

    /// The migrations after those with these hashes.
    fn after(&self, hashes: &[Bytes]) -> Result<Vec<Migration>, MigrationError> {
        let migrations = self.set.migrations();
        let Some(missing) = migrations.get(hashes.len()..) else {
            return Err(MigrationError::MoreMetadata {
                set: self.set.id().to_owned(),
                carried_out: hashes.len(),
                count: migrations.len(),
            });
        };
        let is_other = |(migration, carried_out): (&Migration, &Bytes)| {
            migration.hash(&self.manager.client)[..] != carried_out[..]
        };
        match migrations.iter().zip(hashes).position(is_other) {
            Some(migration) => {
                Err(MigrationError::Mismatch { set: self.set.id().to_owned(), migration })
            }
            None => Ok(missing.to_vec()),
        }
    }

    /// The hashes of the migrations that were carried out, in their order.
    async fn hashes(&self) -> Result<Vec<Bytes>, MigrationError> {
        let (session, directory) = (self.session(), self.directory());
        let names = match session.children(&directory).until_answered().await {
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(Vec::new()),
            names => names?,
        };
        let mut names: Vec<&str> = names.iter().collect();
        names.sort_unstable();
        let paths: Vec<String> = names.iter().map(|name| format!("{directory}/{name}")).collect();
        let mut hashes = Vec::with_capacity(paths.len());
        for batch in paths.chunks(READS_IN_FLIGHT) {
            let sent: Vec<_> = batch.iter().map(|path| session.get(path).send()).collect();
            for (path, sent) in batch.iter().zip(sent) {
                let (hash, _) = match sent.await {
                    Err(error) if error.is_retryable() => {
                        session.get(path).until_answered().await?
                    }
                    found => found?,
                };
                hashes.push(hash);
            }
        }
        Ok(hashes)
    }

    /// Carries out these migrations, if the lock is held then.
    async fn carry_out(&self, missing: &[Migration]) -> Result<Outcome, MigrationError> {
        let client = &self.manager.client;
        let meta_data = format!("{}/{META_NAME}", self.directory());
        let directories = client.missing_containers(&self.directory(), None).await;
        let mut ops = match directories {
            Err(error) if error.is_retryable() || error == client::Error::SessionExpired => {
                return Ok(Outcome::Failed(error.into()));
            }
            directories => directories?,
        };
        let directories = ops.len();
        for migration in missing {
            ops.extend_from_slice(migration.ops());
            let create = Create::new(meta_data.as_str(), CreateMode::PersistentSequential)
                .data(migration.hash(client).to_vec())
                .acl(client.default_acl(&meta_data));
            ops.push(MultiOp::from(create));
        }
        match self.permits.transaction(ops).await {
            Ok(_) => Ok(Outcome::Done),
            Err(LockError::Client(error)) if error.is_retryable() => {
                Ok(Outcome::Failed(error.into()))
            }
            Err(LockError::Client(error)) => self.refused(missing, directories, error),
            Err(error @ LockError::Lost(_)) => Ok(Outcome::Failed(error.into())),
            Err(error) => Err(error.into()),
        }
    }

    /// What follows from a refusal of the transaction, which begins with a check of each permit and
    /// the creation of this many directories.
    fn refused(
        &self,
        missing: &[Migration],
        directories: usize,
        error: client::Error,
    ) -> Result<Outcome, MigrationError> {
        let Some(index) = error.operation_index() else { return Err(error.into()) };
        let is_race = error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::NODE_EXISTS);
        let before = self.permits.paths().len() + directories;
        let Some(mut operation) = index.checked_sub(before) else {
            return if is_race { Ok(Outcome::Failed(error.into())) } else { Err(error.into()) };
        };
        for (migration, refused) in missing.iter().enumerate() {
            let count = refused.ops().len();
            if operation < count {
                let set = self.set.id().to_owned();
                return Err(MigrationError::Refused { set, migration, operation, error });
            }
            if operation == count && is_race {
                // The server has deleted the empty directory.
                return Ok(Outcome::Failed(error.into()));
            }
            operation = match operation.checked_sub(count + 1) {
                Some(operation) => operation,
                None => break,
            };
        }
        Err(error.into())
    }
}

impl fmt::Debug for MigrationManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrationManager")
            .field("lock_path", &self.lock_path)
            .field("meta_data_path", &self.meta_data_path)
            .field("lock_timeout", &self.lock_timeout)
            .finish_non_exhaustive()
    }
}
