//! The limits of a server, each with its reason.
//!
//! The limits that an administrator may change are in [`Config`](crate::Config).

use std::time::Duration;

/// The messages that may wait for one client. A client that does not read is cut off when it
/// exceeds this. It is enough for a client that watches a quarter of a million znodes and whose
/// machine stalls, and takes some 36 MiB of memory until the client has caught up.
pub const OUTBOX_MESSAGES_MAX: usize = 1 << 18;

/// The bytes that may wait for one client, for the same reason. A single message may exceed it,
/// because a list of children has no limit of its own.
pub const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// The bytes waiting for a client above which the server reads no further request from it. So a
/// client that sends requests faster than it reads replies is slowed down rather than cut off.
pub const OUTBOX_BYTES_PAUSE: usize = 1 << 20;

/// The requests of one client that the server handles before other clients get their turn.
pub const REQUESTS_PER_TURN: usize = 64;

/// How often a client's socket is read in a row when its session is due: half a megabyte. What is
/// still unread then is read in the next turn.
pub const READS_PER_TURN: usize = 64;

/// The time after which a client's turn ends, in milliseconds; the request that is being handled is
/// completed. With it a hundred clients with expensive requests delay another client by some 100
/// ms.
pub const TURN_MS: u64 = 2;

/// A client whose turn took so many milliseconds waits for its next one in a queue with others like
/// it, so that workers remain free for clients with cheap requests.
pub const EXPENSIVE_TURN_MS: u64 = 5;

/// The reports for administrators that are made at the same time, each by a thread of its own, and
/// as many for monitoring systems. Reports may be long, and none is urgent.
pub const REPORTS_AT_ONCE: usize = 2;

/// The entries that a report reads while it holds the engine's lock once: less than a millisecond.
pub const REPORT_SLICE: usize = 1_000;

/// The bytes of a report that are made before they are written. As many again are made meanwhile.
pub const REPORT_CHUNK_BYTES: usize = 64 << 10;

/// The chunks of the metrics that may wait to be written, so that their thread does not wait for a
/// slow reader: 16 MiB, where the metrics of 256 namespaces have some hundred kilobytes.
pub const MONITORING_CHUNKS_MAX: usize = 256;

/// How long a client may take to read a report: it has tens of megabytes if it lists a million
/// watches.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// The bytes that are read from a socket at once: some hundred small requests. Each connection
/// reserves as much: 80 MiB for ten thousand idle ones.
pub const READ_BYTES: usize = 8 << 10;

/// The capacity of a buffer that a connection keeps for later; a longer buffer is freed when it is
/// empty.
pub const BUFFER_BYTES_KEPT: usize = 32 << 10;

/// The bytes that are encoded before a socket is written to.
pub const WRITE_BYTES: usize = 256 << 10;

/// How long a connection may be without a session: ZooKeeper's `nio.sessionlessCnxnTimeout`.
pub const SESSIONLESS_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take, from the accepted connection to its last message: as long as
/// with Netty, with which ZooKeeper serves TLS.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time between two warnings of one kind that any client can cause, in milliseconds: about
/// connections that were closed, failed authentication, refused commands of the admin server, and too
/// many HTTP connections.
pub const WARNING_PAUSE_MS: u64 = 1_000;

/// The bytes that are encrypted for a client before its socket is written to: four records, which
/// leave with one system call. They wait in memory if the client does not read.
pub const TLS_WRITE_BYTES: usize = 64 << 10;

/// How often the socket of a TLS client is read in a row without getting any data: a whole record
/// takes three reads. A client that sends empty records, or one key after the other, gets its next
/// turn after other clients, and does not extend its session.
pub const READS_WITHOUT_DATA_MAX: usize = 4;

const _: () = assert!(READS_WITHOUT_DATA_MAX * READ_BYTES > (16 << 10) + 256 + 5);

/// How often the files of certificates are looked at if they are to be read again.
pub const CERTIFICATE_RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// How long a shutdown waits for clients to read their messages: ZooKeeper's `nio.shutdownTimeout`.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The file descriptors that connections leave for files: a new log and a new snapshot, those that
/// are read and purged, and what the rest of the process opens.
pub const DESCRIPTORS_KEPT: u64 = 32;

/// How long to wait after a connection could not be accepted, for example for lack of file
/// descriptors.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long the server reads from a connection that it ends before it closes the socket: long
/// enough for the client to see the end and close its side.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The watches of a closed connection that are removed while the engine's lock is held once: a
/// millisecond.
pub const FORGET_WATCHES_PER_TURN: usize = 1_024;

/// The sessions that expire before other tasks get their turn: less than a millisecond if each has few
/// ephemerals.
pub const EXPIRIES_PER_TURN: usize = 64;

/// The containers and TTL znodes that a sweep deletes before other tasks get their turn: less than a
/// millisecond.
pub const SWEPT_PER_TURN: usize = 64;

/// The sessions that a tick looks at before other tasks get their turn, most of which were heard of and
/// live on, and the containers and TTL znodes that a sweep looks at: less than a millisecond.
pub const EXAMINED_PER_TURN: usize = 1_024;

/// The parts of the tables of connections and of sessions. A part that is full moves its entries, and
/// meanwhile no session can begin in it: with a million sessions these are four thousand entries.
pub const REGISTRY_PARTS: usize = 256;

/// The longest record that is accepted in a transaction log. A record is little longer than the
/// request that it came from, and ZooKeeper's `jute.maxbuffer` is rarely above some megabytes.
pub const LOG_RECORD_BYTES_MAX: usize = 64 << 20;

/// The longest path or data that is accepted in a snapshot, for the same reason.
pub const SNAPSHOT_FIELD_BYTES_MAX: usize = 64 << 20;

/// The bytes of records that are written to a log before it is synced; a single longer record
/// exceeds them. The rest of a batch that a crash has left lies within as many bytes, which
/// distinguishes it from damage.
pub const LOG_BATCH_BYTES_MAX: usize = 4 << 20;

/// A task writes and syncs the log itself while that takes no longer. Its worker does nothing else
/// meanwhile; a turn of a client may take as long.
pub const LOG_INLINE_TIME_MAX: Duration = Duration::from_millis(1);

/// How often, one time after the other, it must have taken no longer before.
pub const LOG_INLINE_ROUNDS_MIN: u32 = 16;

/// That task comes back by itself as long as a write waits no longer for it than this. To wake it costs
/// half as much.
pub const LOG_COME_BACK_TIME_MAX: Duration = Duration::from_micros(25);

/// If a write has waited for longer, because the worker had other tasks to run, the task does not come
/// back for so many writes of a client that is alone.
pub const LOG_COME_BACK_PAUSE_ROUNDS: u32 = 1_000;

/// If it came back in vain, because the client did not write again at once, it does not come back for
/// so many.
pub const LOG_COME_BACK_VAIN_PAUSE_ROUNDS: u32 = 100;

/// If so many tasks or more wait for a sync, and more records wait for the next one, a task of the
/// runtime wakes them. Fewer are woken sooner by the thread that has synced.
pub const LOG_REPLIER_TASKS_MIN: usize = 24;

/// How often the log's thread looks whether that task hangs.
pub const LOG_WATCH_TICK: Duration = Duration::from_millis(5);

/// How often it looks in vain before it sleeps until something is written again.
pub const LOG_WATCH_IDLE_TICKS: u32 = 4;

/// The least disk space that a log takes ahead of its records. It takes as much as it is long, so
/// that a short log stays short.
pub const LOG_RESERVED_BYTES_MIN: u64 = 64 << 10;

/// The most disk space that a log takes ahead of its records. The next sync writes it too, and takes
/// about a millisecond longer.
pub const LOG_RESERVED_BYTES_MAX: u64 = 1 << 20;

/// How long after it was written the durable mark is synced. When the power fails, the records of
/// this time are above the mark on the disk, where damage may look like a crash. With a shorter
/// delay its syncs would take disk time from the log.
pub const MARK_SYNC_DELAY: Duration = Duration::from_millis(100);

/// A sync of the log that takes longer is logged, unless the configuration says otherwise: ZooKeeper's
/// `fsync.warningthresholdms`.
pub const FSYNC_WARNING: Duration = Duration::from_secs(1);

/// The bytes of the lines waiting to be written to the audit log above which the server reads no
/// further request from a socket, so that a slow disk slows clients down and no line is lost.
pub const AUDIT_QUEUE_BYTES_PAUSE: usize = 16 << 20;

/// The bytes above which a line is lost, and counted. Only clients in the same process reach it:
/// nothing slows them down.
pub const AUDIT_QUEUE_BYTES_MAX: usize = 4 * AUDIT_QUEUE_BYTES_PAUSE;

/// The namespaces that have counters of their own. Clients create them, and each takes some
/// kilobytes; a monitoring system takes no more of them well.
pub const NAMESPACES_MAX: usize = 256;

/// The bytes of records waiting to be written to a log above which the server reads no further
/// request from a socket, so that a slow disk slows clients down.
pub const LOG_QUEUE_BYTES_MAX: usize = 64 << 20;

/// The longest block that is accepted in a Snappy stream. The Java library writes 32 KiB by
/// default, and half a gigabyte at most.
pub const SNAPPY_BLOCK_BYTES_MAX: usize = 16 << 20;

/// The HTTP connections of one port that are open at the same time: an administrator's tools need
/// a few.
pub const HTTP_CONNECTIONS_MAX: usize = 64;

/// The HTTP connections of clients that a site has let in, beside those of strangers: a browser opens
/// six.
pub const HTTP_KNOWN_CONNECTIONS_MAX: usize = 128;

/// A client whose machine is gone without a word, or that does not acknowledge what was sent to it,
/// is disconnected after this time.
pub const HTTP_GONE_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest head of an HTTP request. Requests of tools have some hundred bytes, those of browsers
/// some thousand.
pub const HTTP_HEAD_BYTES_MAX: usize = 16 << 10;

/// The most header fields of an HTTP request, for the same reason.
pub const HTTP_HEADERS_MAX: usize = 64;

/// The longest body of an HTTP request, of a snapshot to restore apart. Requests have some hundred
/// bytes.
pub const HTTP_BODY_BYTES_MAX: usize = 64 << 10;

/// The longest report for code in the same process. A watch takes about fifty bytes in one.
pub const REPORT_BYTES_MAX: usize = 256 << 20;

/// How long the body of an HTTP request may take to arrive, of a snapshot to restore apart.
pub const HTTP_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How many zxids a restored state is ahead of the newest that the server or the snapshot has: the
/// writes that may come while the snapshot is written. At a hundred thousand a second it takes
/// almost three minutes to reach it.
pub const RESTORED_ZXIDS_AHEAD: i64 = 1 << 24;

/// The longest snapshot that is taken from an HTTP request, compressed or not. It takes more memory
/// than that.
pub const HTTP_SNAPSHOT_BYTES_MAX: u64 = 16 << 30;
