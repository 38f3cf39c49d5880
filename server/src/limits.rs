//! The limits of a server, each with its reason.
//!
//! Those that an administrator may move are in [`Config`](crate::Config).

use std::time::Duration;

/// The messages that may wait for one client. A client that does not read what it is sent is cut
/// off when it exceeds this: enough for a client that watches a quarter of a million znodes and
/// whose machine stalls, at some 30 MiB of memory.
pub const OUTBOX_MESSAGES_MAX: usize = 1 << 18;

/// The bytes that may wait for one client, by the same reasoning. One message may exceed it, since
/// a list of children has no limit of its own.
pub const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// The bytes waiting for a client above which no further request is read from it, so that a
/// client that asks faster than it reads is slowed down rather than cut off.
pub const OUTBOX_BYTES_PAUSE: usize = 1 << 20;

/// The requests of one client that are handled before other clients get their turn.
pub const REQUESTS_PER_TURN: usize = 64;

/// The time after which a client's turn ends, in milliseconds, with the request that is under way. A
/// hundred clients that ask for what is dear keep another waiting for a tenth of a second.
pub const TURN_MS: u64 = 2;

/// A client whose turn took so many milliseconds has its next one in line with others like it, so that
/// workers are left to those who ask for little.
pub const DEAR_TURN_MS: u64 = 5;

/// The reports for administrators that are made at the same time, each by a thread of its own. They
/// may be long, and none is in a hurry.
pub const REPORTS_AT_ONCE: usize = 2;

/// What a report takes from the state while it holds the lock once: less than a millisecond.
pub const REPORT_SLICE: usize = 1_000;

/// The bytes of a report that are made before they are written, and as many again while they are.
pub const REPORT_CHUNK_BYTES: usize = 64 << 10;

/// How long a client may take to read a report: tens of megabytes, if a million watches are listed.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// The bytes that are read from a socket at once: some hundred small requests. As much is
/// set aside for each connection: 80 MiB for ten thousand idle ones.
pub const READ_BYTES: usize = 8 << 10;

/// The bytes of a buffer that a connection keeps for the next time; a longer one is given back once
/// it is empty.
pub const BUFFER_BYTES_KEPT: usize = 32 << 10;

/// The bytes that are encoded before a socket is written to.
pub const WRITE_BYTES: usize = 256 << 10;

/// How long a connection may be without a session: ZooKeeper's `nio.sessionlessCnxnTimeout`.
pub const SESSIONLESS_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a shutdown waits for clients to take what is theirs: ZooKeeper's
/// `nio.shutdownTimeout`.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The descriptors that connections leave for files: a log and a snapshot that are begun, those that
/// are read and purged, and what the process opens beside the server.
pub const DESCRIPTORS_KEPT: u64 = 32;

/// How long to wait after a connection could not be accepted, for want of file descriptors say.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a connection that the server ends is read from before it is closed: long enough for a
/// client to see the end and close its side.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The watches of a connection that is gone which are taken back while the lock is held once: a
/// millisecond.
pub const FORGET_WATCHES_PER_TURN: usize = 1_024;

/// The longest record of a transaction log that is believed. A record is little more than the request
/// that it came from, and ZooKeeper's `jute.maxbuffer` is rarely above some megabytes.
pub const LOG_RECORD_BYTES_MAX: usize = 64 << 20;

/// The longest path or data of a snapshot that is believed, for the same reason.
pub const SNAPSHOT_FIELD_BYTES_MAX: usize = 64 << 20;

/// The bytes of records that are written to a log before it is synced, but for a single longer record.
/// What a crash has left of a batch lies within as many, by which it is told from damage.
pub const LOG_BATCH_BYTES_MAX: usize = 4 << 20;

/// How long after it was written the mark of how far the log is durable is synced. When the power goes, what
/// was written in so long is above the mark that the disk has, where damage may look like a crash; shorter,
/// its syncs would take time from the disk that the log needs.
pub const MARK_SYNC_DELAY: Duration = Duration::from_millis(100);

/// The bytes of records that wait to be written to a log above which no further request is read from a
/// socket, so that a disk that does not keep up slows its clients down.
pub const LOG_QUEUE_BYTES_MAX: usize = 64 << 20;

/// The longest block of a Snappy stream that is believed. The Java library writes 32 KiB by default,
/// and half a gigabyte at most.
pub const SNAPPY_BLOCK_BYTES_MAX: usize = 16 << 20;
