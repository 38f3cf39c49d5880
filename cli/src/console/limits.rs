//! The limits of the console: what it shows, for how many, and how often it asks a server.

use std::time::Duration;

/// How many pages may be open at a time. Each has a connection of its own, of the 64 that there may be.
pub(super) const VIEWERS_MAX: usize = 16;

/// How many messages wait for a viewer that does not read. Above it they are dropped, and the viewer
/// gets the whole state again when it reads.
pub(super) const QUEUED_MESSAGES_MAX: usize = 16;

/// How many bytes wait for a viewer, for the same reason.
pub(super) const QUEUED_BYTES_MAX: usize = 1 << 20;

/// The shortest time between two messages to a viewer: ten a second.
pub(super) const MESSAGE_SPACING: Duration = Duration::from_millis(100);

/// A viewer to whom nothing is to be told receives a heartbeat so often, so that both sides notice when
/// the other one is gone. The page (`live.js`) knows this time.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);

/// A connection on which nothing moves for so long is closed. It is longer than [`HEARTBEAT`].
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the session is kept when nobody looks any more: a page that is loaded again finds it.
pub(super) const LINGER: Duration = Duration::from_secs(3);

/// How many queues are shown, those with most waiters first.
pub(super) const LOCKS_MAX: usize = 500;

/// How many znodes of a queue are shown, from its front.
pub(super) const PLACES_MAX: usize = 100;

/// How many sessions are shown: those that hold or wait first, then those with most ephemerals.
pub(super) const SESSIONS_MAX: usize = 1_000;

/// How many paths a session names that it holds, and at which it waits.
pub(super) const PATHS_OF_SESSION_MAX: usize = 20;

/// How many watched paths are shown, those with most watchers first.
pub(super) const WATCHED_PATHS_MAX: usize = 200;

/// How many sessions are named that watch a path.
pub(super) const WATCHERS_NAMED_MAX: usize = 10;

/// How many findings are shown, the worst first.
pub(super) const FINDINGS_MAX: usize = 200;

/// The pause between two quick looks at the directories of locks, while these are cheap: a viewer is told
/// no more often than ten times a second.
pub(super) const QUICK_PAUSE: Duration = Duration::from_millis(80);

/// How many reads of a quick look are one request.
pub(super) const QUICK_BATCH: usize = 128;

/// How many znodes that are no locks yet a quick look reads: one request.
pub(super) const QUICK_CANDIDATES: usize = 128;

/// The pause before the whole of a small tree is read again because something came or went in it: at least,
/// and in times that the look took.
pub(super) const NEWS_PAUSE: Duration = Duration::from_millis(100);

/// See [`NEWS_PAUSE`].
pub(super) const NEWS_PAUSE_FACTOR: u32 = 10;

/// The pause after the whole of a small tree, in times that it took to read it.
pub(super) const SMALL_TREE_PAUSE_FACTOR: u32 = 20;

/// A tree that takes no more requests than this is small.
pub(super) const SMALL_TREE_REQUESTS: u64 = 32;

/// A larger tree is read whole so often at most. Between that its directories of locks are read.
pub(super) const WHOLE_TREE_PAUSE: Duration = Duration::from_secs(30);

/// The pause after the whole of a larger tree, in times that it took to read it.
pub(super) const WHOLE_TREE_PAUSE_FACTOR: u32 = 10;

/// The pause after each look, in times that the look took: a slow server is not asked all the time.
pub(super) const LOOK_PAUSE_FACTOR: u32 = 3;

/// The pause before the next attempt after a failure: at first, and at most.
pub(super) const RETRY_PAUSES: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(15));

/// How many children a page of the tree has.
pub(super) const CHILDREN_PAGE: usize = 500;

/// How many lists of children are kept, so that the next page of one is no request for all of it.
pub(super) const LISTS_KEPT: usize = 4;

/// For how long they are kept.
pub(super) const LISTS_KEPT_FOR: Duration = Duration::from_secs(60);

/// How long the servers may take to answer about a znode, when there is a session.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// How much of a znode's data is shown.
pub(super) const DATA_BYTES_SHOWN: usize = 64 << 10;

/// How long a server may take to tell its metrics. Charts have a gap without them.
pub(super) const METRICS_WITHIN: Duration = Duration::from_secs(2);

/// The longest answer to `mntr`: ZooKeeper's has about 30,000 bytes.
pub(super) const METRICS_BYTES_MAX: usize = 1 << 20;

/// How long the session may take to end.
pub(super) const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// The shortest token. A shorter one can be guessed.
pub(super) const TOKEN_CHARS_MIN: usize = 16;

/// The longest first line of a file of a token.
pub(super) const TOKEN_BYTES_MAX: usize = 4096;

/// The time that a wrong token takes, one after the other: no more than two guesses a second.
pub(super) const WRONG_TOKEN_TAKES: Duration = Duration::from_millis(500);

/// The longest that somebody waits who has shown a wrong token after many others.
pub(super) const WRONG_TOKEN_WAITS_MAX: Duration = Duration::from_secs(10);

/// Wrong tokens are logged so often at most, with their number.
pub(super) const WRONG_TOKENS_TOLD: Duration = Duration::from_secs(10);

/// The idle time of a connection that has not shown the token, where one is needed.
pub(super) const STRANGER_TIMEOUT: Duration = Duration::from_secs(5);

/// The most requests in a second for the locks and sessions of a server in this process: they need no
/// network.
pub(super) const EMBEDDED_RATE: u32 = 1_000;

/// How many of its znodes are looked at for locks.
pub(super) const EMBEDDED_ZNODES_MAX: u64 = 100_000;

/// The pause between two looks at it.
pub(super) const EMBEDDED_INTERVAL: Duration = Duration::from_millis(500);

/// How many events of znodes are kept for those who read them: at 20,000 in a second, half of one.
pub(super) const FEED_EVENTS_KEPT: usize = 10_000;

/// How many bytes these take at most: a path may be long.
pub(super) const FEED_BYTES_KEPT: usize = 4 << 20;

/// The most events in a message. A page shows 2,000, so the newest of them.
pub(super) const FEED_MESSAGE_EVENTS_MAX: usize = 500;

/// About how many bytes a message of events has at most.
pub(super) const FEED_MESSAGE_BYTES_MAX: usize = 256 << 10;

/// The shortest time between two messages of events: four a second.
pub(super) const FEED_SPACING: Duration = Duration::from_millis(250);

/// The pause after which the servers are asked for a sign of life if they have answered nothing else: one small
/// request a second at most.
pub(super) const PULSE: Duration = Duration::from_secs(1);

/// The time without an answer after which viewers are told that what they see is old. A server that collects
/// garbage or syncs its disk for a moment is not told.
pub(super) const SILENT_AFTER: Duration = Duration::from_secs(3);

/// The timeout of the session. The client goes to another server after two thirds of it without an answer; the
/// session owns nothing that an expiry would delete.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
