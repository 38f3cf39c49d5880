//! The queue of the lines, and the thread that writes them.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::AuditLog;
use super::line::{Line, Outcome};
use crate::limits::{AUDIT_QUEUE_BYTES_MAX, AUDIT_QUEUE_BYTES_PAUSE};
use crate::measure::Counter;

/// Writes lines on a thread of its own. The thread ends when this is dropped, after all lines were
/// written.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    /// The bytes that wait, as `waiting` says, to be read without its lock.
    bytes: AtomicUsize,
    has_room: Notify,
    written: Counter,
    lost: Counter,
}

#[derive(Debug, Default)]
struct Waiting {
    text: String,
    lines: Vec<Mark>,
    is_closed: bool,
}

/// A line in the text.
#[derive(Debug, Clone, Copy)]
struct Mark {
    end: usize,
    outcome: Outcome,
    time_ms: i64,
}

impl Writer {
    /// # Errors
    ///
    /// If the file cannot be opened, or the system can start no thread.
    pub(super) fn start(log: &AuditLog) -> io::Result<Self> {
        let mut output = match log {
            AuditLog::Log => Output::Log,
            AuditLog::File(path) => Output::File(LogFile::open(path)?),
        };
        let queue = Arc::<Queue>::default();
        let taken = Arc::clone(&queue);
        let thread = thread::Builder::new().name("zoolet-audit".to_owned()).spawn(move || {
            let mut has_failed = false;
            while let Some(waiting) = taken.take() {
                let lines = waiting.lines.len() as u64;
                match output.write(&waiting) {
                    Ok(()) => {
                        taken.written.add(lines);
                        has_failed = false;
                    }
                    Err(error) => {
                        taken.lost.add(lines);
                        if !has_failed {
                            tracing::error!("lines of the audit log are lost: {error}");
                        }
                        has_failed = true;
                    }
                }
            }
        })?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Adds a line.
    pub(super) fn put(&self, line: &Line<'_>, time_ms: i64) {
        self.put_all(std::iter::once(*line), time_ms);
    }

    /// Adds lines, with one lock and one wake-up of the thread for all.
    pub(super) fn put_all<'a>(&self, lines: impl Iterator<Item = Line<'a>>, time_ms: i64) {
        let mut waiting = self.queue.waiting.lock();
        for line in lines {
            if waiting.is_closed || waiting.text.len() > AUDIT_QUEUE_BYTES_MAX {
                self.queue.lost.add(1);
                continue;
            }
            let _ = write!(waiting.text, "{line}");
            let end = waiting.text.len();
            waiting.lines.push(Mark { end, outcome: line.outcome, time_ms });
        }
        self.queue.bytes.store(waiting.text.len(), Ordering::Relaxed);
        drop(waiting);
        self.queue.filled.notify_one();
    }

    /// Whether so much waits that no further request should be read.
    pub(super) fn is_behind(&self) -> bool {
        self.queue.bytes.load(Ordering::Relaxed) > AUDIT_QUEUE_BYTES_PAUSE
    }

    /// Waits until it is no longer behind.
    pub(super) async fn caught_up(&self) {
        loop {
            let notified = self.queue.has_room.notified();
            if !self.is_behind() {
                return;
            }
            notified.await;
        }
    }

    /// Waits until all lines are written. Later ones are lost.
    pub(super) fn close(&self) {
        self.queue.waiting.lock().is_closed = true;
        self.queue.filled.notify_one();
        let thread = self.thread.lock().take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the thread of the audit log panicked");
        }
    }

    /// The lines that were written, and those that were lost.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.queue.written.value(), self.queue.lost.value())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    /// Waits for lines and takes all of them; `None` when the queue is closed.
    fn take(&self) -> Option<Waiting> {
        let mut waiting = self.waiting.lock();
        while waiting.lines.is_empty() {
            if waiting.is_closed {
                return None;
            }
            self.filled.wait(&mut waiting);
        }
        let is_closed = waiting.is_closed;
        let taken = std::mem::replace(&mut *waiting, Waiting { is_closed, ..Waiting::default() });
        self.bytes.store(0, Ordering::Relaxed);
        drop(waiting);
        self.has_room.notify_waiters();
        Some(taken)
    }
}

impl Waiting {
    /// The lines, each with its mark.
    fn lines(&self) -> impl Iterator<Item = (&str, Mark)> {
        let mut start = 0;
        self.lines
            .iter()
            .map(move |mark| (&self.text[std::mem::replace(&mut start, mark.end)..mark.end], *mark))
    }
}

enum Output {
    Log,
    File(LogFile),
}

impl Output {
    fn write(&mut self, waiting: &Waiting) -> io::Result<()> {
        match self {
            Self::Log => {
                for (line, mark) in waiting.lines() {
                    match mark.outcome {
                        Outcome::Failure => tracing::error!(target: "zoolet::audit", "{line}"),
                        _ => tracing::info!(target: "zoolet::audit", "{line}"),
                    }
                }
                Ok(())
            }
            Self::File(file) => file.write(waiting),
        }
    }
}

/// The file, which another program may rename.
struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        // The log tells who works with what: it is for the administrator and a group.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
        Ok(Self { path: path.to_owned(), file: options.open(path)? })
    }

    fn write(&mut self, waiting: &Waiting) -> io::Result<()> {
        if self.was_moved() {
            *self = Self::open(&self.path)?;
        }
        let mut text = String::with_capacity(waiting.text.len() + 64 * waiting.lines.len());
        for (line, mark) in waiting.lines() {
            let level = if mark.outcome == Outcome::Failure { "ERROR" } else { "INFO" };
            let time = time(mark.time_ms);
            let _ = writeln!(text, "{time} {level} audit.Slf4jAuditLogger: {line}");
        }
        self.file.write_all(text.as_bytes())
    }

    /// Whether the file at the path is no longer the one that is open.
    #[cfg(unix)]
    fn was_moved(&self) -> bool {
        use std::os::unix::fs::MetadataExt;

        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let there = std::fs::metadata(&self.path).map(identity);
        there.ok() != self.file.metadata().map(identity).ok()
    }

    /// Where an open file cannot be renamed.
    #[cfg(not(unix))]
    fn was_moved(&self) -> bool {
        false
    }
}

/// A moment as the pattern `%d{ISO8601}` of ZooKeeper's configuration prints it, in UTC.
fn time(ms: i64) -> String {
    let Ok(moment) = jiff::Timestamp::from_millisecond(ms) else { return ms.to_string() };
    format!("{},{:03}", moment.strftime("%Y-%m-%d %H:%M:%S"), ms.rem_euclid(1_000))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::audit::line::User;

    fn line(znode: &str) -> Line<'_> {
        Line {
            session: None,
            user: User::Server("root"),
            operation: "create",
            znode: Some(znode),
            znode_type: None,
            acl: None,
            outcome: Outcome::Success,
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("zoolet-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        folder
    }

    #[test]
    fn lines_are_appended_and_a_renamed_file_is_left() {
        let folder = folder("audit");
        let (path, old) = (folder.join("audit.log"), folder.join("audit.log.1"));
        std::fs::write(&path, "before\n").unwrap();
        let log = AuditLog::File(path.clone());
        let writer = Writer::start(&log).unwrap();
        writer.put(&line("/a"), 1_795_276_234_266);
        while writer.counts().0 < 1 {
            thread::yield_now();
        }
        std::fs::rename(&path, &old).unwrap();
        writer.put(&line("/b"), 0);
        writer.close();
        writer.put(&line("/late"), 0);
        assert_eq!(writer.counts(), (2, 1));
        let first = "before\n2026-11-21 15:50:34,266 INFO audit.Slf4jAuditLogger: \
                     user=root\toperation=create\tznode=/a\tresult=success\n";
        assert_eq!(std::fs::read_to_string(&old).unwrap(), first);
        let second = "1970-01-01 00:00:00,000 INFO audit.Slf4jAuditLogger: \
                      user=root\toperation=create\tznode=/b\tresult=success\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), second);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_holds_clients_back_and_counts_what_it_loses() {
        let queue = Arc::<Queue>::default();
        // Nobody writes.
        let writer = Writer { queue: Arc::clone(&queue), thread: Mutex::default() };
        let znode = "/".repeat(1 << 20);
        for _ in 0..=AUDIT_QUEUE_BYTES_PAUSE >> 20 {
            writer.put(&line(&znode), 0);
        }
        assert!(writer.is_behind());
        let waited = tokio::time::timeout(Duration::from_secs(1), writer.caught_up()).await;
        assert!(waited.is_err(), "it is not caught up");
        while writer.counts().1 == 0 {
            writer.put(&line(&znode), 0);
        }
        assert!(queue.waiting.lock().text.len() <= AUDIT_QUEUE_BYTES_MAX + (2 << 20));
        assert!(queue.take().is_some());
        assert!(!writer.is_behind());
        writer.caught_up().await;
    }
}
