//! Syncs the durable mark on a thread of its own, so that the log never waits for it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::directory::Directory;
use super::error::StorageError;
use crate::limits::MARK_SYNC_DELAY;
use crate::storage::durable::Durable;

/// Syncs a mark some time after it was written. The thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct MarkSyncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_written: bool,
    is_closed: bool,
}

impl MarkSyncer {
    /// # Errors
    ///
    /// If the system can start no thread.
    pub(super) fn start(
        directory: &Directory,
        path: &Path,
        durable: &Durable,
    ) -> Result<Self, StorageError> {
        let shared = Arc::new(Shared::default());
        let (theirs, disk) = (Arc::clone(&shared), Arc::clone(&directory.disk));
        let (marked, durable) = (path.to_owned(), durable.clone());
        let syncs = move || {
            while theirs.wait() {
                // By its name, because the committer owns the open file.
                match disk.truncate(&marked, u64::MAX) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        let path = marked.display();
                        return tracing::warn!("{path} was deleted: damage may look like a crash");
                    }
                    Err(error) => return durable.fail(StorageError::io("sync", &marked)(error)),
                }
            }
        };
        let thread = thread::Builder::new().name("zoolet-mark".to_owned()).spawn(syncs);
        let thread = thread.map_err(StorageError::io("start the thread that syncs", path))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Notes that the mark was written.
    pub(super) fn notify(&self) {
        let was_written = std::mem::replace(&mut self.shared.state.lock().is_written, true);
        if !was_written {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    /// Waits until the mark was written; `false` when the thread shall end.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.is_written && !state.is_closed);
        // Marks that are written in this time are synced with it.
        self.changed.wait_while_for(&mut state, |state| !state.is_closed, MARK_SYNC_DELAY);
        state.is_written = false;
        !state.is_closed
    }
}

impl Drop for MarkSyncer {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_one();
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the thread of the mark panicked");
        }
    }
}
