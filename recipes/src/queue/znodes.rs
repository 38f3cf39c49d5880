//! The znodes of a queue: where they are, and what is known of them in this process.
//!
//! The items are alone in their directory, because other libraries count and deliver all that they
//! find in it. What else a queue needs is in a *side directory*: the receipts of writes, and the lines
//! of clients that wait.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use zoolet_protocol::{Acl, Names, ZPath};

use super::error::QueueError;
use super::layout::{Layout, Order};
use super::put_back::Room;
use super::receipts::Receipts;
use crate::client::recipe::Publisher;
use crate::client::{self, Client};
use crate::line::Line;
use crate::line::order::PlaceKind;

/// Each waiting client waits for those before it.
static CONSUMERS: PlaceKind = PlaceKind {
    marker: "consumer-",
    waits_for: &["consumer-"],
    ignores: &[],
    is_exclusive: false,
    may_have_second_place: &[],
};

/// As [`CONSUMERS`], for puts into a full queue.
static PRODUCERS: PlaceKind = PlaceKind {
    marker: "producer-",
    waits_for: &["producer-"],
    ignores: &[],
    is_exclusive: false,
    may_have_second_place: &[],
};

/// What the options of a queue say.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) client: Client,
    pub(crate) layout: Layout,
    /// The path of the queue, as its user gives it.
    pub(crate) path: Arc<str>,
    /// The directory of the items.
    pub(crate) items: Arc<str>,
    /// The directory of the leases, if items are leased.
    pub(crate) leases: Option<Arc<str>>,
    pub(crate) side: Arc<str>,
    /// `None` for the client's defaults.
    pub(crate) acl: Option<Vec<Acl>>,
    pub(crate) max_items: Option<NonZeroUsize>,
    /// After how many items the directory is listed again, where a new item may be in front of
    /// others.
    pub(crate) refresh_after: usize,
}

impl Settings {
    pub(crate) fn new(client: &Client, path: &str, layout: Layout) -> Result<Self, QueueError> {
        ZPath::check(path).map_err(client::Error::from)?;
        Ok(Self {
            client: client.clone(),
            layout,
            path: path.into(),
            items: path.into(),
            leases: None,
            side: side_directory(path).into(),
            acl: None,
            max_items: None,
            refresh_after: 0,
        })
    }
}

/// An item in the list of a queue.
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) order: Order,
    /// Its data, if they were read ahead.
    pub(crate) read: Option<ReadAhead>,
}

/// The data of an item that were read before it is taken.
pub(crate) struct ReadAhead {
    pub(crate) data: Bytes,
    pub(crate) version: i32,
    pub(crate) at: Instant,
}

/// What the last list showed.
#[derive(Default)]
pub(crate) struct Listed {
    /// The items that this process has not tried to take, in their order.
    pub(crate) items: VecDeque<Candidate>,
    /// How many items may be taken before the directory is listed again; `None` for all of them.
    pub(crate) until_refresh: Option<usize>,
    /// The names of the items that this process is trying to take.
    pub(crate) in_hand: HashSet<String>,
    /// The names of the items that this client may not take, and since when it passes them over. Only
    /// items that the last list had are among them.
    pub(crate) passed_over: BTreeMap<String, Instant>,
}

/// The znodes of a queue, shared by all clones of the queue.
pub(crate) struct Znodes {
    pub(crate) settings: Settings,
    pub(crate) receipts: Receipts,
    pub(crate) consumers: Line,
    pub(crate) producers: Line,
    pub(crate) listed: Mutex<Listed>,
    pub(crate) room: Room,
    /// Among how many of the first items a consumer chooses.
    pub(crate) spread: AtomicUsize,
    /// How much goes on in the background.
    pub(crate) in_background: Publisher<usize>,
}

impl Znodes {
    pub(crate) fn new(settings: Settings) -> Result<Arc<Self>, QueueError> {
        let Settings { client, path, side, acl, .. } = &settings;
        let line = |name: &str, kind| {
            let mut line = Line::new(client, &child(side, name), kind)?;
            if let Some(acl) = acl {
                line.set_acl(acl.as_slice());
            }
            Ok::<_, QueueError>(line)
        };
        let (consumers, producers) =
            (line("consumers", &CONSUMERS)?, line("producers", &PRODUCERS)?);
        let receipts =
            Receipts::new(client, Arc::clone(path), child(side, "receipts"), acl.clone());
        Ok(Arc::new(Self {
            settings,
            receipts,
            consumers,
            producers,
            listed: Mutex::default(),
            room: Room::default(),
            spread: AtomicUsize::new(1),
            in_background: Publisher::new(0),
        }))
    }

    /// The znodes of the same queue with other options.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Settings)) -> Arc<Self> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        match Self::new(settings) {
            Ok(znodes) => znodes,
            Err(error) => unreachable!("the paths were checked before: {error}"),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.settings.client
    }

    /// The path of the queue.
    pub(crate) fn path(&self) -> &str {
        &self.settings.path
    }

    /// The access control list of a znode that is created in a multi.
    pub(crate) fn acl(&self, path: &str) -> Vec<Acl> {
        let acl = self.settings.acl.clone();
        acl.unwrap_or_else(|| self.client().default_acl(path))
    }

    /// The directory of the items.
    pub(crate) fn items(&self) -> &str {
        &self.settings.items
    }

    /// The path of an item, also of one without its number.
    pub(crate) fn item(&self, name: &str) -> String {
        child(self.items(), name)
    }
}

/// Without the list, which may be long and has data that are the user's.
impl fmt::Debug for Znodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Znodes")
            .field("path", &self.settings.path)
            .field("layout", &self.settings.layout)
            .field("leases", &self.settings.leases)
            .finish_non_exhaustive()
    }
}

/// The path of a child of a directory.
pub(crate) fn child(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

/// Whether a path is this directory or below it.
pub(crate) fn is_at_or_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where a queue keeps what is no item: beside it, and for a queue of a sharder beside the sharder,
/// all of whose children are queues.
fn side_directory(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((sharder, name)) if !sharder.is_empty() && is_shard(name) => {
            format!("{sharder}-side/{name}")
        }
        _ => format!("{path}-side"),
    }
}

/// Whether this is the name of a queue that a sharder has created.
fn is_shard(name: &str) -> bool {
    name.strip_prefix("queue-").is_some_and(is_unique_name)
}

/// Whether a child of a sharder is no queue, but belongs to one: its side directory, or a znode whose
/// name continues that of a queue which a sharder has created, as a directory of leases.
pub(crate) fn belongs_to_shard(name: &str, children: &Names) -> bool {
    let is_side =
        name.strip_suffix("-side").is_some_and(|queue| children.iter().any(|child| child == queue));
    is_side
        || name
            .split_at_checked(SHARD_CHARS)
            .is_some_and(|(shard, rest)| is_shard(shard) && !rest.is_empty())
}

/// Whether a text looks like a UUID.
fn is_unique_name(text: &str) -> bool {
    let is_of_uuid = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    text.len() == UUID_CHARS && text.bytes().all(is_of_uuid)
}

/// How many characters a UUID has.
const UUID_CHARS: usize = 36;

/// How many characters the name of a queue has that a sharder has created.
const SHARD_CHARS: usize = "queue-".len() + UUID_CHARS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_directory_of_a_shard_is_not_among_the_shards() {
        assert_eq!(side_directory("/jobs"), "/jobs-side");
        assert_eq!(side_directory("/jobs/queue-1"), "/jobs/queue-1-side");
        let shard = "queue-0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1f";
        assert_eq!(side_directory(&format!("/a/jobs/{shard}")), format!("/a/jobs-side/{shard}"));
        assert_eq!(side_directory(&format!("/{shard}")), format!("/{shard}-side"));
    }

    #[test]
    fn what_belongs_to_a_queue_of_a_sharder_is_no_queue() {
        let shard = "queue-0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1f";
        let leases = format!("{shard}-locks");
        let children: Names =
            ["one", "one-side", "one-more", "left-side", shard, &leases].into_iter().collect();
        let queues = children.iter().filter(|name| !belongs_to_shard(name, &children));
        assert_eq!(queues.collect::<Vec<_>>(), ["one", "one-more", "left-side", shard]);
    }
}
