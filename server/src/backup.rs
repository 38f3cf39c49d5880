//! Snapshots on request, and the state of a server replaced by one.
//!
//! A snapshot that is restored becomes durable before anybody is served from it: all of it is read
//! and checked, written to the data directory under a temporary name and synced; then, while no
//! request is carried out, it gets its name and the server goes on from it. A crash leaves the old
//! state or the new one.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use zoolet_core::{Core, Frozen};
use zoolet_protocol::Zxid;

use crate::clock::{ms_since, now};
use crate::engine::audit::{Administrator, Outcome};
use crate::engine::lock::Engine;
use crate::engine::replace::NotReplaced;
use crate::limits::RESTORED_ZXIDS_AHEAD;
use crate::server::Server;
use crate::storage::directory::Directory;
use crate::storage::snapshot_file::Unpublished;
use crate::storage::{SnapshotFault, StorageConfig, StorageError, incoming, write_snapshot};

/// A snapshot that was taken on request, to be read.
///
/// ```
/// use std::io::Read;
///
/// use zoolet_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let mut snapshot = server.take_snapshot().await?;
/// let mut bytes = Vec::new();
/// snapshot.read_to_end(&mut bytes)?;
/// assert_eq!(bytes.len() as u64, snapshot.length());
/// # Ok(())
/// # }
/// ```
pub struct Snapshot {
    zxid: Zxid,
    bytes: u64,
    content: Box<dyn Read + Send>,
}

impl Snapshot {
    /// The last transaction that it contains.
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.bytes
    }
}

impl Read for Snapshot {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.content.read(buffer)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { zxid, bytes, .. } = self;
        f.debug_struct("Snapshot").field("zxid", zxid).field("bytes", bytes).finish_non_exhaustive()
    }
}

/// Why no snapshot was taken, or none restored. The server goes on as it was, unless it tells
/// [`Server::failure`] otherwise.
///
/// ```
/// use zoolet_server::{BackupError, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let error = server.restore(&b"PK"[..]).await.unwrap_err();
/// assert!(matches!(error, BackupError::Snapshot(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// What is to be restored is no snapshot, is damaged, or cannot be read to its end.
    #[error("the snapshot cannot be restored: {0}")]
    Snapshot(#[from] SnapshotFault),
    /// The snapshot cannot be written to the data directory, or read from it.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Another snapshot is being taken or restored.
    #[error("another snapshot is being taken or restored; try again when it is done")]
    Busy,
    /// The server has carried out so many writes while the snapshot was written that its zxids have
    /// reached those that were set aside.
    #[error("too many writes came while the snapshot was written; try again with fewer")]
    Overtaken,
    /// The server is shut down.
    #[error("the server is shut down")]
    ShutDown,
    /// The name of the snapshot could not be synced, so that nobody knows which state the next start
    /// finds. The server serves nobody any more.
    #[error("the restored state could not be made durable for certain, so the server stops")]
    Failed,
}

impl Server {
    /// Takes a snapshot of the state as it is now. With a data directory it is also kept there, like
    /// those that the server takes by itself: it counts among those that are kept
    /// ([`StorageConfig::snap_retain_count`](crate::storage::StorageConfig::snap_retain_count)), and
    /// older ones are deleted.
    ///
    /// # Errors
    ///
    /// [`BackupError`] if it cannot be written, or while another one is.
    ///
    /// # Cancellation
    ///
    /// A snapshot that was begun is completed.
    pub async fn take_snapshot(&self) -> Result<Snapshot, BackupError> {
        take_snapshot(Arc::clone(&self.engine)).await
    }

    /// Replaces the state by that of a snapshot, ours or ZooKeeper's, compressed or not, and returns
    /// the zxid from which the server goes on: one that is greater than all before, so that clients
    /// never see the zxid decrease.
    ///
    /// All connections are closed. All sessions of before have ended, even those that the snapshot
    /// has too, since what their clients know is no longer so; their ephemeral znodes are deleted.
    /// The other sessions of the snapshot live, each with its full timeout.
    ///
    /// # Errors
    ///
    /// [`BackupError`]; the state is then what it was.
    ///
    /// A thread of its own reads the snapshot, so it may come from a file or from a socket. A server
    /// without a disk on a runtime with one thread starts none, and neither does one with a disk in
    /// memory: there the task that calls this reads it, and no other task runs until it has the bytes.
    ///
    /// # Cancellation
    ///
    /// A restore that was begun is completed.
    pub async fn restore(&self, snapshot: impl Read + Send + 'static) -> Result<Zxid, BackupError> {
        restore(Arc::clone(&self.engine), Box::new(snapshot), None).await
    }
}

/// Only one is taken or restored at a time.
fn begin(engine: &Engine) -> Result<OwnedSemaphorePermit, BackupError> {
    Arc::clone(&engine.backups).try_acquire_owned().map_err(|_| BackupError::Busy)
}

/// Runs what waits for the disk: on a thread of its own, unless the disk never waits.
async fn run<T: Send + 'static>(engine: &Engine, work: impl FnOnce() -> T + Send + 'static) -> T {
    let storage = engine.config.storage.as_ref();
    if storage.is_some_and(|storage| storage.disk.is_immediate()) || engine.is_single_threaded() {
        return work();
    }
    on_own_thread(work).await
}

async fn on_own_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// See [`Server::take_snapshot`].
pub(crate) async fn take_snapshot(engine: Arc<Engine>) -> Result<Snapshot, BackupError> {
    let permit = begin(&engine)?;
    let frozen = engine.inspect(Core::freeze);
    let Some(storage) = engine.config.storage.clone() else {
        return run(&engine, move || {
            let snapshot = in_memory(&frozen);
            drop(permit);
            Ok(snapshot)
        })
        .await;
    };
    // A snapshot shows no write that a crash may undo.
    engine.durable().reached(frozen.zxid).await.map_err(|_| BackupError::ShutDown)?;
    let stats = engine.stats.storage.clone();
    run(&engine, move || {
        let begin = now();
        let snapshot = in_directory(&storage, &frozen);
        if let (Ok(_), Some(stats)) = (&snapshot, stats) {
            stats.snapshot_time.record(ms_since(begin));
        }
        drop(permit);
        snapshot
    })
    .await
}

fn in_memory(frozen: &Frozen) -> Snapshot {
    let mut content = Vec::new();
    write_snapshot(frozen, &mut content).expect("memory takes it");
    let bytes = content.len() as u64;
    Snapshot { zxid: frozen.zxid, bytes, content: Box::new(Cursor::new(content)) }
}

fn in_directory(storage: &StorageConfig, frozen: &Frozen) -> Result<Snapshot, BackupError> {
    let directory = Directory::of(storage);
    let unpublished = Unpublished::write_on_request(&directory, storage, frozen)?;
    let path = unpublished.publish().map_err(StorageError::from)?;
    let content = directory.disk.open(&path).map_err(StorageError::io("open", &path))?;
    let bytes = directory.disk.length(&path).map_err(StorageError::io("read", &path))?;
    tracing::info!("snapshot of {} znodes at {} on request", frozen.counted(), frozen.zxid);
    directory.purge_after_snapshot(storage.snap_retain_count);
    Ok(Snapshot { zxid: frozen.zxid, bytes, content })
}

/// See [`Server::restore`]. `administrator` is who asks, unless it is the program itself.
pub(crate) async fn restore(
    engine: Arc<Engine>,
    snapshot: Box<dyn Read + Send>,
    administrator: Option<Administrator>,
) -> Result<Zxid, BackupError> {
    let permit = begin(&engine)?;
    let restoring = Arc::clone(&engine);
    // An administrator's snapshot arrives while it is read.
    let is_arriving = administrator.is_some();
    let work = move || {
        let begin = now();
        let restored = restore_now(&restoring, snapshot, administrator.as_ref());
        drop(permit);
        match &restored {
            Ok(zxid) => {
                restoring.stats.restore_time.record(ms_since(begin));
                tracing::warn!("the state was replaced by a snapshot; it goes on at {zxid}")
            }
            Err(error) => {
                if let Some(audit) = &restoring.audit {
                    let time_ms = restoring.clock.wall_ms();
                    audit.restored(administrator.as_ref(), Outcome::Failure, time_ms);
                }
                tracing::warn!("no snapshot was restored: {error}");
            }
        }
        restored
    };
    if is_arriving { on_own_thread(work).await } else { run(&engine, work).await }
}

fn restore_now(
    engine: &Engine,
    snapshot: Box<dyn Read + Send>,
    administrator: Option<&Administrator>,
) -> Result<Zxid, BackupError> {
    // Those that begin later have ids that no snapshot contains.
    let living = engine.registry.sessions();
    let is_ended = |id| living.binary_search_by_key(&id, |liveness| liveness.session).is_ok();
    let zxid = |newest: Zxid| {
        let reached = engine.inspect(Core::last_zxid);
        Zxid(newest.max(reached).0.saturating_add(RESTORED_ZXIDS_AHEAD))
    };
    let core = incoming::read_snapshot(snapshot, &engine.config.settings, is_ended, zxid)?;
    let Some(storage) = &engine.config.storage else {
        return Ok(engine.replace(core, administrator, || Ok(()))?);
    };
    let directory = Directory::of(storage);
    let unpublished = Unpublished::write_on_request(&directory, storage, &core.freeze())?;
    Ok(engine.replace(core, administrator, || unpublished.publish().map(drop))?)
}

impl From<NotReplaced> for BackupError {
    fn from(error: NotReplaced) -> Self {
        match error {
            NotReplaced::Overtaken => Self::Overtaken,
            NotReplaced::ShutDown => Self::ShutDown,
            NotReplaced::Storage(error) => Self::Storage(error),
            NotReplaced::Failed => Self::Failed,
        }
    }
}
