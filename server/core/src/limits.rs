//! The limits of the state machine, each with its reason.

/// The entries of an access control list, both as the client sends it and after `auth` was replaced
/// by the client's identities. Each access to a znode may have to go through the whole list.
pub const ACL_ENTRIES_MAX: usize = 1_000;

/// The identities of a connection. With `auth`, each of them becomes an entry of a list.
pub const IDENTITIES_MAX: usize = 100;

/// The bytes of the text of one identity, in an access control list and of a connection. Each list
/// and each request keeps these texts in memory.
pub const IDENTITY_BYTES_MAX: usize = 1 << 10;

/// The bytes of all identities of a connection together. `auth` in a list is replaced by all of
/// them, so a short request writes this many bytes to the log.
pub const IDENTITIES_BYTES_MAX: usize = 4 << 10;

/// The characters of a client's text that a log line shows.
pub const LOGGED_CHARS_MAX: usize = 64;

/// The bytes of the text of a quota's limits or counters. The server parses it for each change that
/// the quota counts. ZooKeeper's own text has less than a tenth of that.
pub const QUOTA_TEXT_BYTES_MAX: usize = 1_024;

/// The counters of quotas that one multi may create. For each the server counts all znodes below
/// its path.
pub const QUOTA_COUNTS_PER_MULTI: usize = 1;

/// The bytes of data and names in the reply to a multiRead. A few bytes of the request can request
/// a whole znode, and the reply is made under the lock. A single list of children has no limit.
pub const MULTI_READ_BYTES_MAX: usize = 64 << 20;

/// The estimated bytes of a transaction. A few bytes of a multi can request a long access control
/// list, and recovery refuses a record of more than 64 MiB.
pub const TXN_BYTES_MAX: usize = 60 << 20;

/// The bytes of a transaction that any write may cause, however short it is: enough for a list with
/// all identities of a connection.
pub const TXN_BYTES_ALWAYS: usize = IDENTITIES_BYTES_MAX + (2 << 10);

/// The bytes of a transaction beyond [`TXN_BYTES_ALWAYS`], for each byte of the request. A
/// transaction contains paths and data once; only `auth` in a list becomes longer than it was. This
/// is enough for a client with 30 identities that uses `auth` in each operation of a multi.
pub const TXN_BYTES_PER_BYTE: usize = 32;

/// The bytes of the paths that the transaction of a session's end names. The session's other
/// ephemerals are deleted too, as all are in logs from before ZooKeeper 3.6. A ZooKeeper whose
/// `jute.maxbuffer` is at its default of a megabyte can read such a record.
pub const CLOSE_SESSION_BYTES_MAX: usize = 512 << 10;

/// The bytes of all cached names of children. Beyond this, names are encoded for each request.
pub const CACHED_LISTS_BYTES_MAX: usize = 64 << 20;

/// The bytes of cached names beyond which the lists of few children are encoded for each request:
/// those of a hundred thousand directories leave room for a few long ones, which cost more.
pub const CACHED_SHORT_LISTS_BYTES_MAX: usize = CACHED_LISTS_BYTES_MAX / 2;

/// The znodes that are counted by looking each of them up, which takes less than a millisecond. To
/// count more, the server goes through all znodes in the order of the memory.
pub const WALKED_ZNODES_MAX: usize = 2_048;
