//! The limits of the caches, each with its reason.

use std::time::Duration;

/// The reads in one multiRead: enough that the round trip costs nothing beside them, and few enough
/// that no server is busy with one request for more than a millisecond or so.
pub(crate) const BATCH_READS_MAX: usize = 512;

/// The bytes of paths in one multiRead: well below the megabyte that a server takes in a frame.
pub(crate) const BATCH_PATH_BYTES_MAX: usize = 128 << 10;

/// The bytes that the reply to one multiRead is expected to have: what a server and this client
/// hold in memory at once for each batch in flight.
pub(crate) const BATCH_REPLY_BYTES_MAX: usize = 512 << 10;

/// What a read adds to a reply beside the data: two headers of a result and a Stat.
pub(crate) const READ_OVERHEAD_BYTES: usize = 96;

/// The length that is expected of data that was never read, and of a list of children. It may be a
/// thousand times as long. Where replies become too long for a connection, requests become shorter.
pub(crate) const UNKNOWN_DATA_BYTES: usize = 256;

/// Data of this length and more is not read again to learn that it has not changed: an `exists` is
/// sent, which costs a request of its own.
pub(crate) const EXISTS_FROM_BYTES: usize = 4 << 10;

/// The requests that a cache has in flight at once: enough to keep a server busy during a round
/// trip.
pub(crate) const REQUESTS_IN_FLIGHT_MAX: usize = 8;

/// As [`REQUESTS_IN_FLIGHT_MAX`], behind a server without persistent watches, where each read is a
/// request of its own.
pub(crate) const ONE_SHOT_READS_IN_FLIGHT_MAX: usize = 256;

/// The single `exists` requests among them. Each is small, and there is one for each long znode.
pub(crate) const EXISTS_IN_FLIGHT_MAX: usize = 128;

/// The changes that wait for their reads. Beyond it the cache throws them away and resyncs, which
/// costs no memory for each change. It is far above what arrives during a resync of a quiet tree.
pub(crate) const PENDING_MAX: usize = 1 << 20;

/// The entries that are applied before readers of the cache get their turn at its lock.
pub(crate) const APPLIED_AT_ONCE_MAX: usize = 1024;

/// The events that are kept for streams that read slowly, unless the builder says otherwise.
pub(crate) const EVENTS_KEPT: usize = 16 << 10;

/// The bytes of the znodes in these events: some events have the longest data that servers take.
pub(crate) const EVENT_BYTES_KEPT: usize = 64 << 20;

/// The bytes of the znodes that a cache keeps, with their paths and Stats, unless the builder says
/// otherwise.
pub(crate) const CACHE_BYTES_MAX: usize = 1 << 30;

/// The memory of a znode beside its path and its data: the Stat, the slots in the map, and the
/// allocator's headers.
pub(crate) const ZNODE_OVERHEAD_BYTES: usize = 160;

/// The pause after a request that failed for another reason than the connection. It doubles with
/// each failure.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// How often it doubles: up to eight seconds, since each attempt reads the whole tree.
pub(crate) const RETRY_DOUBLINGS_MAX: u32 = 5;

/// How long a call that waits for the cache to catch up waits before it asks the server again: its
/// request may have been lost with a connection.
pub(crate) const SYNC_AGAIN_AFTER: Duration = Duration::from_secs(1);
