//! What happens to znodes, as it happens: the one part of the console that sets a watch.
//!
//! The watch exists while somebody reads the feed. All who read share it, and one ring of the last events,
//! in which each has a place of its own. One who does not read falls out of the ring, and is told how many
//! events that were.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use zoolet_client::{ConnectionState, Event};
use zoolet_layouts::Name;
use zoolet_protocol::{ErrorCode, EventType, WatchMode, Zxid};

use super::Shared;
use super::hub::{Crowded, Visit};
use super::limits::{
    FEED_BYTES_KEPT, FEED_EVENTS_KEPT, FEED_MESSAGE_BYTES_MAX, FEED_MESSAGE_EVENTS_MAX,
    RETRY_PAUSES, VIEWERS_MAX,
};
use super::source::Failure;

/// The events of those who read them. Clones are handles of the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct Feed(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    ring: Mutex<Ring>,
    /// Something was added to the ring, or the status is another one.
    news: Notify,
    came: Notify,
    left: Notify,
}

/// The last events.
#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The number of the first entry; the numbers go on over all watches.
    first: u64,
    status: Status,
    /// Grows with each change of the status.
    status_version: u64,
    /// How many events there were since the watch was set, by [`What`].
    totals: [u64; 4],
    readers: usize,
}

/// Whether there is a watch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Status {
    #[default]
    Opening,
    Watching,
    /// The server is older than 3.6.
    Unsupported,
    /// There is no watch, for this reason.
    Failed(String),
}

/// What an entry tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Created,
    Changed,
    Deleted,
    Children,
    /// From here on changes are seen.
    Began,
    /// From here on changes are not seen: the connection or the session was lost.
    Lost,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::Children => "children",
            Self::Began => "began",
            Self::Lost => "lost",
        }
    }

    fn of(event_type: EventType) -> Option<Self> {
        Some(match event_type {
            EventType::NODE_CREATED => Self::Created,
            EventType::NODE_DATA_CHANGED => Self::Changed,
            EventType::NODE_DELETED => Self::Deleted,
            EventType::NODE_CHILDREN_CHANGED => Self::Children,
            _ => return None,
        })
    }
}

#[derive(Debug)]
struct Entry {
    time_ms: i64,
    what: What,
    /// Empty for what concerns the watch.
    path: String,
    /// The transaction, if the server tells it.
    zxid: Option<Zxid>,
}

impl Entry {
    /// About how many bytes it takes, here and in a message.
    fn bytes(&self) -> usize {
        self.path.len() + 100
    }

    fn value(&self) -> Value {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let recipe = Name::read(name).map(|name| name.style.recipe().text());
        json!({
            "time_ms": self.time_ms,
            "what": self.what.name(),
            "path": self.path,
            "zxid": self.zxid.map(|zxid| zxid.to_string()),
            "recipe": recipe,
        })
    }
}

impl Ring {
    fn add(&mut self, entry: Entry) {
        if let Some(total) = self.totals.get_mut(entry.what as usize) {
            *total += 1;
        }
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.entries.len() > FEED_EVENTS_KEPT || self.bytes > FEED_BYTES_KEPT {
            let Some(gone) = self.entries.pop_front() else { break };
            self.bytes -= gone.bytes();
            self.first += 1;
        }
    }

    /// The number of the entry that comes next.
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn set_status(&mut self, status: Status) {
        if self.status != status {
            self.status = status;
            self.status_version += 1;
        }
    }

    /// Nobody reads any more.
    fn forget(&mut self) {
        self.first = self.end();
        (self.entries, self.bytes, self.totals) = (VecDeque::new(), 0, [0; 4]);
        self.set_status(Status::Opening);
    }
}

/// Which events a reader wants.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    /// The beginning of a path if it starts with a slash, otherwise any part of it; in small letters.
    text: String,
    /// All if there is none.
    kinds: Vec<String>,
}

impl Filter {
    pub(super) fn new(text: &str, kinds: &str) -> Self {
        let kinds = kinds.split(',').filter(|kind| !kind.is_empty()).map(str::to_owned);
        Self { text: text.to_lowercase(), kinds: kinds.collect() }
    }

    fn wants(&self, entry: &Entry) -> bool {
        // What concerns the watch concerns everybody.
        if matches!(entry.what, What::Began | What::Lost) {
            return true;
        }
        let is_kind = self.kinds.is_empty() || self.kinds.iter().any(|it| it == entry.what.name());
        is_kind
            && (self.text.is_empty() || {
                let path = entry.path.to_lowercase();
                let is_prefix = self.text.starts_with('/');
                if is_prefix { path.starts_with(&self.text) } else { path.contains(&self.text) }
            })
    }
}

impl Feed {
    /// Somebody who reads, from the entry with this number on, or from now on. `visit` keeps the session
    /// open for as long.
    ///
    /// # Errors
    ///
    /// [`Crowded`].
    pub(super) fn read(
        &self,
        visit: Visit,
        filter: Filter,
        from: Option<u64>,
    ) -> Result<Reader, Crowded> {
        let mut ring = self.0.ring.lock();
        if ring.readers >= VIEWERS_MAX {
            return Err(Crowded);
        }
        ring.readers += 1;
        let end = ring.end();
        let next = from.map_or(end, |from| from.min(end));
        drop(ring);
        self.0.came.notify_one();
        Ok(Reader { feed: self.clone(), filter, next, told: None, _visit: visit })
    }

    async fn somebody_reads(&self) {
        while self.0.ring.lock().readers == 0 {
            self.0.came.notified().await;
        }
    }

    async fn nobody_reads(&self) {
        while self.0.ring.lock().readers > 0 {
            self.0.left.notified().await;
        }
    }

    fn add(&self, what: What, path: String, zxid: Option<Zxid>) {
        let time_ms = jiff::Timestamp::now().as_millisecond();
        self.0.ring.lock().add(Entry { time_ms, what, path, zxid });
        self.0.news.notify_waiters();
    }

    fn event(&self, event: Event) {
        if let Some(what) = What::of(event.event_type) {
            // Servers before 3.9 tell none.
            self.add(what, event.path, Some(event.zxid).filter(|zxid| zxid.0 > 0));
        }
    }

    fn set_status(&self, status: Status) {
        self.0.ring.lock().set_status(status);
        self.0.news.notify_waiters();
    }

    /// From here on changes are not seen, if they were before.
    fn lost(&self, why: String) {
        if self.0.ring.lock().status == Status::Watching {
            self.add(What::Lost, String::new(), None);
        }
        self.set_status(Status::Failed(why));
    }

    fn began(&self) {
        self.add(What::Began, String::new(), None);
        self.set_status(Status::Watching);
    }
}

/// Somebody who reads the feed, until it is dropped.
#[derive(Debug)]
pub(super) struct Reader {
    feed: Feed,
    filter: Filter,
    /// The number of the entry that it reads next.
    next: u64,
    /// The version of the status that it knows.
    told: Option<u64>,
    _visit: Visit,
}

impl Reader {
    /// The next message: what has happened since the last one.
    pub(super) async fn next(&mut self) -> Bytes {
        let feed = self.feed.clone();
        loop {
            let news = feed.0.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if let Some(message) = self.waiting() {
                return message;
            }
            news.await;
        }
    }

    /// The message that waits, if there is something to tell: the newest events, and how many older ones
    /// it lacks.
    fn waiting(&mut self) -> Option<Bytes> {
        let ring = self.feed.0.ring.lock();
        let mut lost = ring.first.saturating_sub(self.next);
        let from = usize::try_from(self.next.saturating_sub(ring.first)).unwrap_or(usize::MAX);
        self.next = ring.end();
        let (mut entries, mut bytes) = (VecDeque::new(), 0);
        let new = ring.entries.iter().skip(from);
        for entry in new.rev().filter(|entry| self.filter.wants(entry)) {
            bytes += entry.bytes();
            if entries.len() >= FEED_MESSAGE_EVENTS_MAX || bytes > FEED_MESSAGE_BYTES_MAX {
                lost += 1;
            } else {
                entries.push_front(entry.value());
            }
        }
        let is_known = self.told == Some(ring.status_version);
        if is_known && entries.is_empty() && lost == 0 {
            return None;
        }
        self.told = Some(ring.status_version);
        let (status, cause) = match &ring.status {
            Status::Opening => ("opening", None),
            Status::Watching => ("watching", None),
            Status::Unsupported => ("unsupported", None),
            Status::Failed(cause) => ("failed", Some(cause.as_str())),
        };
        let [created, changed, deleted, children] = ring.totals;
        let value = json!({
            "status": status,
            "cause": cause,
            "lost": lost,
            "totals": {
                "created": created, "changed": changed, "deleted": deleted, "children": children,
            },
            "events": Vec::from(entries),
        });
        drop(ring);
        Some(format!("id: {}\nevent: feed\ndata: {value}\n\n", self.next).into())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.feed.0.ring.lock().readers -= 1;
        self.feed.0.left.notify_one();
    }
}

/// Watches while somebody reads, until it is dropped.
pub(super) async fn run(shared: &Shared) -> Infallible {
    let feed = &shared.feed;
    loop {
        feed.somebody_reads().await;
        tokio::select! {
            never = keep_watching(shared) => match never {},
            () = feed.nobody_reads() => {}
        }
        feed.0.ring.lock().forget();
    }
}

/// Watches again and again.
async fn keep_watching(shared: &Shared) -> Infallible {
    let (first, longest) = RETRY_PAUSES;
    let mut retry = first;
    loop {
        let Err(failure) = watch(shared).await;
        if is_unsupported(&failure) {
            shared.feed.set_status(Status::Unsupported);
            // Another attempt would cost the connection again: such a server closes it.
            std::future::pending::<()>().await;
        }
        let was_watching = shared.feed.0.ring.lock().status == Status::Watching;
        retry = if was_watching { first } else { (retry * 2).min(longest) };
        tracing::warn!("{}: cannot watch: {failure}", shared.link.source.name());
        shared.feed.lost(failure.to_string());
        tokio::time::sleep(retry).await;
    }
}

fn is_unsupported(failure: &Failure) -> bool {
    matches!(failure, Failure::Client(error) if error.is(ErrorCode::UNIMPLEMENTED))
}

/// Watches until that fails. The watch is removed when this is dropped.
async fn watch(shared: &Shared) -> Result<Infallible, Failure> {
    let feed = &shared.feed;
    let client = shared.link.client().await?;
    let mut states = client.state();
    let mut watcher = client.watch(&shared.path, WatchMode::PERSISTENT_RECURSIVE).await?;
    states.mark_unchanged();
    feed.began();
    let mut is_connected = true;
    loop {
        tokio::select! {
            event = watcher.next() => feed.event(event?),
            Ok(()) = states.changed() => {
                // The client sets the watch again; what happened in between nobody tells.
                let state: Option<ConnectionState> = *states.borrow_and_update();
                let now = state.is_some_and(ConnectionState::is_connected);
                match (is_connected, now) {
                    (true, false) => feed.lost("the connection was lost".to_owned()),
                    (false, true) => feed.began(),
                    _ => {}
                }
                is_connected = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::console::hub::Hub;

    fn reader(feed: &Feed, filter: Filter) -> Reader {
        feed.read(Hub::new(CancellationToken::new()).visit(), filter, None).unwrap()
    }

    fn taken(reader: &mut Reader) -> Option<Value> {
        let message = reader.waiting()?;
        let text = std::str::from_utf8(&message).unwrap();
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        Some(serde_json::from_str(data).unwrap())
    }

    fn paths(message: &Value) -> Vec<&str> {
        let events = message["events"].as_array().unwrap();
        events.iter().map(|event| event["path"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_reader_receives_what_comes_after_it_and_then_nothing() {
        let feed = Feed::default();
        feed.add(What::Created, "/before".into(), None);
        let mut reader = reader(&feed, Filter::default());
        assert_eq!(taken(&mut reader).unwrap()["status"], "opening");
        feed.began();
        feed.add(What::Deleted, "/a".into(), Some(Zxid(7)));
        let message = taken(&mut reader).unwrap();
        assert_eq!((&message["status"], paths(&message)), (&json!("watching"), vec!["", "/a"]));
        assert_eq!(message["events"][0]["what"], "began");
        assert_eq!(message["events"][1]["zxid"], "0x7");
        assert_eq!(taken(&mut reader), None);
    }

    #[test]
    fn one_who_does_not_read_is_told_how_many_were_lost_and_memory_has_a_limit() {
        let feed = Feed::default();
        let mut slow = reader(&feed, Filter::default());
        taken(&mut slow);
        let total = FEED_EVENTS_KEPT as u64 + 500;
        for number in 0..total {
            feed.add(What::Changed, format!("/{number}"), None);
        }
        assert_eq!(feed.0.ring.lock().entries.len(), FEED_EVENTS_KEPT);
        let message = taken(&mut slow).unwrap();
        let shown = paths(&message);
        assert_eq!(shown.len(), FEED_MESSAGE_EVENTS_MAX);
        assert_eq!(shown.last().unwrap(), &format!("/{}", total - 1));
        assert_eq!(message["lost"], total - FEED_MESSAGE_EVENTS_MAX as u64);
        assert_eq!(message["totals"]["changed"], total);
        for _ in 0..3 * FEED_BYTES_KEPT / 1_000_000 {
            feed.add(What::Changed, "x".repeat(1_000_000), None);
            assert!(feed.0.ring.lock().bytes <= FEED_BYTES_KEPT);
        }
        assert!(slow.waiting().unwrap().len() <= 2 * FEED_MESSAGE_BYTES_MAX);
    }

    #[test]
    fn a_filter_is_the_beginning_of_a_path_or_a_part_of_it_and_a_kind() {
        let feed = Feed::default();
        let filters = [("/loc", ""), ("LOCK", ""), ("", "deleted,created"), ("/nothing", "")];
        let mut readers = filters.map(|(text, kinds)| reader(&feed, Filter::new(text, kinds)));
        feed.add(What::Created, "/locks/a".into(), None);
        feed.add(What::Changed, "/my/lock".into(), None);
        feed.add(What::Lost, String::new(), None);
        let mut seen = readers.iter_mut().map(|reader| taken(reader).unwrap());
        assert_eq!(paths(&seen.next().unwrap()), ["/locks/a", ""]);
        assert_eq!(paths(&seen.next().unwrap()), ["/locks/a", "/my/lock", ""]);
        assert_eq!(paths(&seen.next().unwrap()), ["/locks/a", ""]);
        assert_eq!(paths(&seen.next().unwrap()), [""], "a lost connection concerns everybody");
    }

    #[test]
    fn a_reader_that_comes_again_goes_on_where_it_was() {
        let feed = Feed::default();
        let mut first = reader(&feed, Filter::default());
        feed.add(What::Created, "/a".into(), None);
        taken(&mut first);
        let from = first.next;
        feed.add(What::Created, "/b".into(), None);
        let visit = Hub::new(CancellationToken::new()).visit();
        let mut again = feed.read(visit, Filter::default(), Some(from)).unwrap();
        assert_eq!(paths(&taken(&mut again).unwrap()), ["/b"]);
    }

    #[test]
    fn there_are_no_more_readers_than_the_limit() {
        let feed = Feed::default();
        let readers: Vec<_> = (0..VIEWERS_MAX).map(|_| reader(&feed, Filter::default())).collect();
        let visit = Hub::new(CancellationToken::new()).visit();
        assert!(feed.read(visit, Filter::default(), None).is_err());
        drop(readers);
        assert_eq!(feed.0.ring.lock().readers, 0);
    }
}
