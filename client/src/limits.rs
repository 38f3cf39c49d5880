//! The limits of the client, each with its reason.

use std::time::Duration;

/// The longest frame that a server may send: far above what a server accepts itself, since a list
/// of children has no limit of its own, and far below the memory of a machine.
pub(crate) const FRAME_BYTES_MAX: usize = 256 << 20;

/// The bytes of paths in one request that the client makes of many (`setWatches`, and the check of
/// a session proof), with what comes with each: well below what a server takes in a frame. ZooKeeper's own
/// client splits at the same size.
pub(crate) const PATH_BYTES_MAX: usize = 128 << 10;

/// The least limit of a request: room for [`PATH_BYTES_MAX`], and for one long path more.
pub(crate) const JUTE_MAX_BUFFER_MIN: usize = 4 * PATH_BYTES_MAX;

/// The greatest limit of a request: no frame is longer.
pub(crate) const JUTE_MAX_BUFFER_MAX: usize = i32::MAX as usize;

/// How often missing ancestors are created before a create fails. Each time another client must
/// have created or deleted one meanwhile.
pub(crate) const PARENT_ATTEMPTS_MAX: u32 = 10;

/// How many deletes of a tree are under way at a time: enough that the round trip does not count, and
/// few beside what a server takes from a client before it waits.
pub(crate) const DELETES_IN_FLIGHT: usize = 128;

/// How often the children of one znode are deleted before the deletion of its tree fails. Each time
/// another client must have created one meanwhile.
pub(crate) const DELETE_ATTEMPTS_MAX: u32 = 10;

/// How many answered requests a session proof remembers: with those of one and a half session
/// timeouts there is always one that the leader knows of.
pub(crate) const TOUCHES_MAX: usize = 48;

/// How many replies of the leader a session proof remembers: those of one session timeout, after which
/// what they prove is over.
pub(crate) const LEADER_REPLIES_MAX: usize = 24;

/// The longest time limit, as of tokio's timers: thirty years. A longer one counts as this, so that
/// [`Duration::MAX`] may stand for no limit.
pub(crate) const TIME_LIMIT_MAX: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The most retries of a policy whose delay doubles, so that the delay does not overflow, as in
/// Curator.
pub(crate) const EXPONENTIAL_RETRIES_MAX: u32 = 29;

/// The longest data that [`Client::get_decompressed`](crate::Client::get_decompressed) returns: sixteen
/// times what a znode has at most by default, while what it has could expand to a thousand times as
/// much.
#[cfg(feature = "compression")]
pub const DECOMPRESSED_BYTES_MAX: usize = 16 << 20;

/// The longest answer to a four-letter word, unless the caller sets another: a list of some hundred
/// thousand watches.
pub(crate) const WORD_ANSWER_BYTES_MAX: usize = 64 << 20;

/// How long a four-letter word may take, unless the caller says otherwise.
pub(crate) const WORD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a port may take to show that it speaks TLS, or plaintext, after it has ended a connection
/// that spoke the other: the answer takes one round trip.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a plaintext port may leave a four-letter word unanswered before it is asked whether it speaks
/// TLS. The answers of servers that are not overloaded begin sooner.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
