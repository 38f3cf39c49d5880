//! The limits of a look at a server, and the numbers above which something is a finding.

use std::time::Duration;

/// How many reads a request has at first. The server answers them in one piece.
pub(crate) const BATCH_START: usize = 16;

/// How many reads a request has at most: the names of so many paths stay far below the limit of a
/// frame, and a server that has data of a mebibyte in each makes a reply of 128 at worst.
pub(crate) const BATCH_MAX: usize = 128;

/// A reply with fewer bytes makes the next request twice as large.
pub(crate) const REPLY_BYTES_LOW: usize = 64 << 10;

/// A reply with more bytes makes the next request half as large: a server makes all of it in memory.
pub(crate) const REPLY_BYTES_HIGH: usize = 512 << 10;

/// How many bytes the paths of a request have at most, if it has several. A server closes the connection on a
/// request that is longer than its limit, a mebibyte by default.
pub(crate) const REQUEST_BYTES_MAX: usize = 256 << 10;

/// About how many bytes a name takes in a list of children: those of Curator's locks have 55.
pub(crate) const NAME_BYTES: usize = 60;

/// How many children a directory may have to be listed, unless the options say another number. A list
/// of more is a reply of tens of megabytes, which a busy server should not be asked for.
pub(crate) const CHILDREN_LISTED_MAX: u32 = 200_000;

/// The longest data in which a number of permits is looked for.
pub(crate) const PERMITS_BYTES_MAX: usize = 16;

/// How many access control lists of lock directories are read: each is a request of its own.
pub(crate) const ACLS_READ_MAX: usize = 200;

/// The longest answer to a four-letter word, and of an admin server.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The number of watches above which a server is not asked for all of them: it would make a text of
/// them while it serves others.
pub(crate) const WATCHES_ASKED_MAX: u64 = 200_000;

/// The pause before the second look at a cycle.
pub(crate) const SECOND_LOOK_AFTER: Duration = Duration::from_secs(1);

/// How long a wait has to have lasted for it not to be one of a line that moves. A cycle whose waits are
/// all older is critical.
pub(crate) const OLD_WAIT_MS: i64 = 10_000;

/// The part of the session timeout after which a session is silent, in percent. Clients send something
/// after a third of it.
pub(crate) const SILENT_PERCENT: i64 = 67;

/// How many watchers of one znode of a lock make a herd. A line without one has a single watcher for
/// each znode.
pub(crate) const HERD_MIN: usize = 20;

/// How many waiters without a watch make a line look like one that everybody lists.
pub(crate) const UNWATCHED_MIN: usize = 20;

/// The number from which a directory has few numbers left: a hundred million, at a thousand
/// acquisitions a second a little more than a day.
pub(crate) const NUMBER_HIGH: i32 = i32::MAX - 100_000_000;

/// The number of ephemerals or of watches above which a session is a burden: its end is one
/// transaction that deletes all of them.
pub(crate) const EPHEMERALS_HIGH: u64 = 10_000;

/// As [`EPHEMERALS_HIGH`], for watches: a client sets all of them again when it reconnects.
pub(crate) const WATCHES_HIGH: u64 = 10_000;

/// The part of the frame limit from which data or a list of children is long, in percent.
pub(crate) const FRAME_PERCENT: usize = 80;

/// The number of empty directories below one parent that are worth a notice.
pub(crate) const EMPTY_MIN: u64 = 1_000;

/// The number of them that is worth a warning: a server needs some hundred bytes for each, and writes
/// all into each snapshot.
pub(crate) const EMPTY_MANY: u64 = 10_000;

/// How old an empty directory has to be to count. A leader deletes empty containers each minute.
pub(crate) const EMPTY_FOR_MS: i64 = 600_000;

/// How many paths, sessions or znodes a finding names. It tells how many more there are.
pub(crate) const NAMED_MAX: usize = 10;

/// How many locks the text and the page show, those with most waiters first. The JSON has all.
pub(crate) const LOCKS_SHOWN_MAX: usize = 200;

/// How many znodes of a queue the text and the page show. The JSON has all.
pub(crate) const ROWS_SHOWN_MAX: usize = 20;

/// How long to wait for the end of the session.
pub(crate) const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// How many znodes are remembered below which locks may come.
pub(crate) const CANDIDATES_MAX: usize = 2_000;

/// The longest data of such a znode: it is read again and again.
pub(crate) const CANDIDATE_BYTES_MAX: usize = 1 << 10;

/// How long a server may take to tell everything, if it has not taken longer before. Whoever looks again and
/// again waits no longer for it.
pub(crate) const SERVER_WITHIN: Duration = Duration::from_secs(2);

/// The pause before a server that has not answered is asked again: at first, and at most.
pub(crate) const SILENT_PAUSES: (Duration, Duration) =
    (Duration::from_secs(2), Duration::from_secs(30));

/// A directory with more children is read after all that have fewer.
pub(crate) const LONG_DIRECTORY: i32 = 1_000;

/// How many directories are named of which children were left out, those with most first.
pub(crate) const LEFT_OUT_NAMED_MAX: usize = 3;
