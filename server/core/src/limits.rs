//! The limits of the state machine, each with its reason.

/// The entries of an access control list, as it is asked for and with `auth` replaced by who the
/// client is. Every look at a znode may go through its whole list.
pub const ACL_ENTRIES_MAX: usize = 1_000;

/// The identities of a connection, each of which may become an entry of a list.
pub const IDENTITIES_MAX: usize = 100;

/// The bytes of the text of an identity: in an access control list, and of a connection. Each znode of a
/// list keeps them, and each request of a connection carries its identities.
pub const IDENTITY_BYTES_MAX: usize = 1 << 10;

/// The bytes of all identities of a connection together. `auth` in a list stands for all of them: a short
/// request with it writes this many bytes to the log.
pub const IDENTITIES_BYTES_MAX: usize = 4 << 10;

/// The characters of a client's text that a log line shows at most.
pub const LOGGED_CHARS_MAX: usize = 64;

/// The text of a quota's limits or counters, which is read with every change that counts towards
/// it. ZooKeeper's own is not a tenth of it.
pub const QUOTA_TEXT_BYTES_MAX: usize = 1_024;

/// The counters that one multi may create: each counts all znodes below its path.
pub const QUOTA_COUNTS_PER_MULTI: usize = 1;

/// The bytes that a multiRead may find. A few bytes of a request ask for a whole znode, and the
/// answer is made under the lock; beside it, a single list of children has no limit.
pub const MULTI_READ_BYTES_MAX: usize = 64 << 20;

/// The bytes of a transaction, about. A multi may ask for long lists of access control with few bytes,
/// and what was acknowledged must be read from the log again, where a record of 64 MiB is believed.
pub const TXN_BYTES_MAX: usize = 60 << 20;

/// The bytes of a transaction that any write may cause, however short it is: those of a list that stands
/// for all identities of a connection.
pub const TXN_BYTES_ALWAYS: usize = IDENTITIES_BYTES_MAX + (2 << 10);

/// The bytes that a transaction may have beyond [`TXN_BYTES_ALWAYS`], for each byte of the request. Paths
/// and data are in a transaction once; only `auth` in a list becomes more than it was. This is enough for a
/// client with 30 identities that uses `auth` in each operation of a multi.
pub const TXN_BYTES_PER_BYTE: usize = 32;

/// The bytes of the paths that the transaction of a session's end tells. Those that it does not tell go
/// with the session all the same, as all do in logs from before ZooKeeper 3.6, and a reader with
/// ZooKeeper's default limit of a megabyte can read it.
pub const CLOSE_SESSION_BYTES_MAX: usize = 512 << 10;

/// The children of a znode whose encoded names are kept for the next who asks. To encode fewer takes
/// a microsecond or two.
pub const LIST_KEPT_NAMES_MIN: usize = 128;

/// The bytes of the encoded names that are kept. Who asks for more lists than fit has them encoded anew.
pub const LISTS_KEPT_BYTES_MAX: usize = 64 << 20;

/// The znodes that are looked up one by one to be counted, in less than a millisecond. To count more,
/// all znodes are looked at in the order of the memory.
pub const WALKED_ZNODES_MAX: usize = 2_048;
