//! The limits of the queues, each with its reason.

use std::time::Duration;

/// How many writes of one queue object wait for their answers at once, each with a receipt of its
/// own. More would only wait at the server, which carries out one after the other.
pub(crate) const RECEIPTS_MAX: usize = 16;

/// How many writes a receipt records before it is replaced: far below where the version of a znode
/// overflows.
pub(crate) const RECEIPT_WRITES_MAX: i32 = 1 << 30;

/// How many answers to one write may be lost in a row before it fails. A server ends the connection
/// at a request that is too long for it, each time.
pub(crate) const LOST_ANSWERS_MAX: u32 = 10;

/// The age at which a receipt was left by a client that has crashed: no write waits that long for
/// its answer.
pub(crate) const RECEIPT_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How many receipts a client checks to find those that others have left: a request each.
pub(crate) const OLD_RECEIPTS_CHECKED_MAX: usize = 100;

/// The pause before a request that failed is sent again.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// After this time every waiting consumer and producer checks the queue itself, although it is not
/// the first in line: a first one whose future is not polled must not stop the others for ever.
pub(crate) const RECHECK_AFTER: Duration = Duration::from_secs(30);

/// The age at which what is known of the server's time is learned anew, because two clocks that run
/// at different speeds are apart by some milliseconds then.
pub(crate) const SERVER_TIME_AGE_MAX: Duration = Duration::from_secs(60);

/// Among how many of the first items a consumer chooses at most when it has lost races to others:
/// with more consumers than this, lists cost more than races.
pub(crate) const SPREAD_MAX: usize = 64;

/// How many items of a list a client tries before it lists the directory again. An item whose lease
/// has ended meanwhile waits no longer, and the memory of a queue object is bounded.
pub(crate) const LISTED_ITEMS_MAX: usize = 1_000;

/// The age at which the data of an item that were read ahead are read again. If someone deletes the
/// directory of a queue and another one creates it again, a new item may have the name of an old one.
pub(crate) const READ_AHEAD_AGE_MAX: Duration = Duration::from_secs(1);

/// For how long an item is passed over that this client may not take. Then its access control list, or
/// what the server allows, may have changed, which no watch reports.
pub(crate) const PASSED_OVER_FOR: Duration = RECHECK_AFTER;

/// The length of an item up to which the server is not asked whether it can be put back. No server is
/// usable whose `jute.maxbuffer` is so low.
pub(crate) const ROOM_BYTES_MIN: usize = 16 << 10;

/// How often the connection must be lost at a write, while it serves a read each time in between, before
/// the write is taken to be too long for the server.
pub(crate) const ROOM_ATTEMPTS_MAX: u32 = 3;

/// The greatest data version of a lease: as many consumers of an item live whose leases were deleted,
/// and do not know of it yet. The multi that obtains a lease has an operation for each version.
pub(crate) const LEASE_VERSION_MAX: i32 = 32;

/// How often the directory of a queue is created before a put fails. Each time the server or another
/// client must have deleted it meanwhile.
pub(crate) const DIRECTORY_ATTEMPTS_MAX: u32 = 10;
