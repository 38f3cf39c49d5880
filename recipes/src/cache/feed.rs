//! The task of a cache: one watch, resyncs, and reads of what has changed.
//!
//! `follow` keeps a watch for each session. `Following` is one connection: it begins with a resync,
//! and ends with the connection. Whatever was known and not applied is forgotten then, and the next
//! resync finds it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use zoolet_protocol::{ErrorCode, EventType, MultiResult, Names, OpCode, Zxid};

use super::error::CacheError;
use super::event::CacheEvent;
use super::event_log::{CacheProgress, CacheState, Shared};
use super::limits::{
    APPLIED_AT_ONCE_MAX, BATCH_READS_MAX, PENDING_MAX, RETRY_DOUBLINGS_MAX, RETRY_PAUSE,
};
use super::pending::{Mark, Pending, Seen};
use super::requests::{Asked, Reply, Requests, read_result};
use super::resync::{KeepsData, ReadResult, Resync, Room, expected_bytes};
use super::selection::Selection;
use super::source::{Source, Task};
use super::store::child_path;
use crate::client::recipe::OneShotWatches;
use crate::client::{Client, ConnectionState, Error, Event, Subscription};

/// What a cache follows, and where it puts it.
pub(crate) struct Feed {
    pub(crate) client: Client,
    pub(crate) selection: Selection,
    pub(crate) keeps_data: KeepsData,
    pub(crate) bytes_max: usize,
    pub(crate) shared: Arc<Shared>,
}

/// Why a connection is not followed any more.
enum Ended {
    /// It was lost, too many changes are pending, or a reply would be too long: the next resync
    /// finds what has changed.
    Connection,
    /// A request failed that should not: the same after a pause.
    Request(Error),
    /// The watch ended with its session.
    Session,
    /// The server has another history: its zxids, or those of a znode, are lower than in the cache.
    /// It was started without its data, or from a backup.
    History,
    /// The cache ends.
    Cache(CacheError),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        match error {
            Error::Closed | Error::AuthFailed => Self::Cache(error.into()),
            Error::SessionExpired => Self::Session,
            error if error.is_retryable() => Self::Connection,
            error => Self::Request(error),
        }
    }
}

/// Tells the readers of a cache that it has ended when this is dropped: so also if its task panics, as
/// in a function of its user, or ends with its runtime. Else they would wait for ever.
struct End {
    root: Arc<str>,
    shared: Arc<Shared>,
}

impl Drop for End {
    fn drop(&mut self) {
        let closed = || CacheError::Closed(self.root.to_string());
        self.shared.content.write().error.get_or_insert_with(closed);
        self.shared.progress.send_if_modified(|progress| {
            let before = std::mem::replace(&mut progress.state, CacheState::Closed);
            before != CacheState::Closed
        });
    }
}

impl Feed {
    /// Follows the tree until the client is closed, or the cache is too large.
    pub(crate) async fn run(self) {
        let end = End { root: Arc::clone(&self.selection.root), shared: Arc::clone(&self.shared) };
        let error = self.follow().await;
        end.shared.content.write().error = Some(error);
    }

    async fn follow(&self) -> CacheError {
        loop {
            let source = match Source::persistent(&self.client, &self.selection.root).await {
                Ok(source) => source,
                // A server before 3.6, which ends the connection now.
                Err(error) if error.is(ErrorCode::UNIMPLEMENTED) => Source::one_shot(&self.client),
                Err(error) => {
                    match Ended::from(error) {
                        Ended::Cache(error) => return error,
                        Ended::Request(error) => {
                            tracing::warn!("{} cannot be watched: {error}", self.selection.root);
                            tokio::time::sleep(RETRY_PAUSE * (1 << RETRY_DOUBLINGS_MAX)).await;
                        }
                        _ => tokio::time::sleep(RETRY_PAUSE).await,
                    }
                    continue;
                }
            };
            if let Err(error) = self.follow_session(source).await {
                return error;
            }
        }
    }

    /// Follows the tree until the session has expired.
    async fn follow_session(&self, mut source: Source) -> Result<(), CacheError> {
        let mut reads_max = BATCH_READS_MAX;
        let mut failures = 0;
        loop {
            let begun = tokio::select! {
                biased;
                begun = Following::begin(self, reads_max, &source) => begun,
                // The readers learn it when it happens, and not when there is a connection again.
                () = self.session_lost() => Err(Ended::Session),
            };
            let ended = match begun {
                Ok(mut following) => {
                    let ended = following.run(&mut source).await;
                    if following.resync.is_none() {
                        failures = 0;
                    }
                    reads_max = following.next_reads_max();
                    ended
                }
                Err(ended) => ended,
            };
            match ended {
                Ended::Connection => {}
                Ended::Session => {
                    self.suspend();
                    if self.state() != CacheState::Filling {
                        self.shared.content.write().log.push(CacheEvent::Lost);
                        self.publish(CacheState::Suspended, None);
                    }
                    return Ok(());
                }
                Ended::History => self.forget_all(),
                Ended::Cache(error) => return Err(error),
                Ended::Request(error) => {
                    tracing::warn!("the cache of {} reads again: {error}", self.selection.root);
                    tokio::time::sleep(RETRY_PAUSE * (1 << failures)).await;
                    failures = RETRY_DOUBLINGS_MAX.min(failures + 1);
                }
            }
        }
    }

    /// Waits until the session has expired.
    async fn session_lost(&self) {
        let mut state = self.client.state();
        if state.wait_for(|state| *state == Some(ConnectionState::Lost)).await.is_err() {
            std::future::pending().await
        }
    }

    /// Tells the readers of the cache how far it is.
    fn publish(&self, state: CacheState, zxid: Option<Zxid>) {
        self.shared.progress.send_modify(|progress| {
            // Another thread may have closed the cache meanwhile.
            if progress.state != CacheState::Closed {
                let zxid = zxid.unwrap_or(progress.zxid);
                *progress = CacheProgress { state, zxid };
            }
        });
    }

    fn state(&self) -> CacheState {
        self.shared.progress.borrow().state
    }

    /// Empties the cache, since nothing follows from comparing it with this server.
    fn forget_all(&self) {
        tracing::warn!("the cache of {} starts anew: the zxids went back", self.selection.root);
        let mut content = self.shared.content.write();
        let store = std::mem::take(&mut content.store);
        let mut znodes: Vec<_> =
            store.iter().map(|(path, record)| Arc::new(record.znode(path))).collect();
        while let Some(znode) = znodes.pop() {
            content.log.push(CacheEvent::Deleted { zxid: Zxid::ZERO, znode });
        }
        drop(content);
        let state = match self.state() {
            // The cache had a part of the tree, and was not initialized.
            CacheState::Filling => CacheState::Filling,
            _ => CacheState::Resyncing,
        };
        self.publish(state, Some(Zxid::ZERO));
    }

    fn suspend(&self) {
        if self.state() == CacheState::Current {
            self.shared.content.write().log.push(CacheEvent::Suspended);
        }
        if self.state() != CacheState::Filling {
            self.publish(CacheState::Suspended, None);
        }
    }
}

/// One connection.
struct Following<'a> {
    feed: &'a Feed,
    /// Which connection of the client it is.
    connection: u64,
    pending: Pending,
    resync: Option<Resync>,
    requests: Requests,
    /// The one-shot watches, where there is no persistent one.
    one_shots: Option<Arc<OneShotWatches>>,
    /// Up to which zxid the resync has read the tree: that of its last reply, or of its first reply
    /// without a persistent watch, when not all changes during the resync have events.
    read_at: Zxid,
    must_probe: bool,
    /// The znodes whose children are to be listed, for a one-shot watch.
    to_list: VecDeque<Box<str>>,
    /// The root does not exist and needs a one-shot watch.
    awaits_root: bool,
    /// How many reads a multiRead has at most.
    reads_max: usize,
    /// The server has refused a multiRead, because its reply would be too long.
    was_too_long: bool,
    state: Subscription<Option<ConnectionState>>,
}

impl<'a> Following<'a> {
    /// Waits for a connection. Its watch is registered before any request of this.
    async fn begin(feed: &'a Feed, reads_max: usize, source: &Source) -> Result<Self, Ended> {
        let state = feed.client.state();
        if !state.borrow().is_some_and(ConnectionState::is_connected) {
            feed.suspend();
        }
        let session = feed.client.connected_session().await?;
        let connection = feed.client.connection_count();
        if feed.state() != CacheState::Filling {
            feed.suspend();
            feed.publish(CacheState::Resyncing, None);
        }
        let one_shots = source.one_shots().cloned();
        let reads_max = if one_shots.is_some() { 1 } else { reads_max };
        let content = feed.shared.content.read();
        let selection = feed.selection.clone();
        let resync = Resync::new(selection, feed.keeps_data, &content.store, reads_max);
        Ok(Self {
            feed,
            connection,
            pending: Pending::new(Arc::clone(&feed.selection.root)),
            resync: Some(resync),
            requests: Requests::new(session, one_shots.clone(), reads_max == 1),
            one_shots,
            read_at: Zxid::ZERO,
            must_probe: false,
            to_list: VecDeque::new(),
            awaits_root: false,
            reads_max,
            was_too_long: false,
            state,
        })
    }

    /// Follows the connection until it ends.
    async fn run(&mut self, source: &mut Source) -> Ended {
        loop {
            match self.step(source).await {
                Ok(()) => {}
                Err(ended) => return ended,
            }
        }
    }

    /// How many reads a multiRead may have over the next connection.
    ///
    /// A client gives up a connection over which a reply comes that is longer than it takes, and a
    /// server may refuse to make one. So after each connection that ended before a reply came, and
    /// after such a refusal, the requests are shorter.
    fn next_reads_max(&self) -> usize {
        match self.was_too_long || self.requests.has_multi_reads() {
            true => (self.reads_max / 2).max(1),
            false => BATCH_READS_MAX,
        }
    }

    async fn step(&mut self, source: &mut Source) -> Result<(), Ended> {
        self.send();
        tokio::select! {
            biased;
            event = source.next() => self.event(event?)?,
            reply = self.requests.reply() => {
                // What came before the reply counts before it.
                while let Some(event) = arrived(source).await {
                    self.event(event?)?;
                }
                self.check_connection()?;
                self.reply(reply)?;
            }
            () = self.feed.shared.probe.notified() => self.must_probe = true,
            _ = self.state.changed() => {
                if !self.state.borrow().is_some_and(ConnectionState::is_connected) {
                    return Err(Ended::Connection);
                }
                self.check_connection()?;
            }
        }
        self.apply_all().await
    }

    /// Ends if the client has another connection: there was a time without events.
    ///
    /// The client counts a connection before it takes the first message from it. So what was taken
    /// before this check came over the connection that is followed, or this returns an error.
    fn check_connection(&self) -> Result<(), Ended> {
        match self.feed.client.connection_count() == self.connection {
            true => Ok(()),
            false => Err(Ended::Connection),
        }
    }

    fn event(&mut self, event: Event) -> Result<(), Ended> {
        self.check_connection()?;
        match Task::of(&event, &self.feed.selection, self.one_shots.is_some()) {
            Task::Change(event_type, zxid) => self.pending.event(event_type, &event.path, zxid),
            Task::List => self.to_list.push_back(event.path.into()),
            Task::Nothing => {}
        }
        if self.pending.len() > PENDING_MAX {
            return Err(Ended::Connection);
        }
        Ok(())
    }

    /// Sends what is to be read, as far as the limits allow.
    fn send(&mut self) {
        while self.requests.has_room() {
            let content = self.feed.shared.content.read();
            let mut room = Room::new(self.reads_max);
            let mut paths = Vec::new();
            while !room.is_used_up()
                && let Some(path) = self.pending.next_read()
            {
                room.take(&path, expected_bytes(&content.store, &path));
                paths.push(path);
            }
            if !paths.is_empty() {
                self.requests.read_changed(paths);
                continue;
            }
            let next = self.resync.as_mut().and_then(|resync| resync.next_request(&content.store));
            drop(content);
            if let Some(request) = next {
                self.requests.resync(request);
            } else if std::mem::take(&mut self.awaits_root) {
                self.requests.await_root(&self.feed.selection.root);
            } else if !self.requests.has_resync_lists()
                && let Some(path) = self.to_list.pop_front()
            {
                // Another list, as one of the resync, may have left the watch meanwhile.
                if self.lacks_child_watch(&path) {
                    self.requests.list(path);
                }
            } else if self.may_probe() && std::mem::take(&mut self.must_probe) {
                self.requests.probe(&self.feed.selection.root);
            } else {
                break;
            }
        }
    }

    /// Whether the children of a znode are to be listed for a one-shot watch.
    fn lacks_child_watch(&self, path: &str) -> bool {
        let lacks = |watches: &Arc<OneShotWatches>| !watches.has_child_watch(path);
        self.one_shots.as_ref().is_some_and(lacks)
    }

    /// Whether the server can be asked how far it is. Without a persistent watch an answer counts only
    /// if nothing was to be read when it was asked, and nothing is when it comes: a znode that was
    /// created may have descendants that no event tells of.
    fn may_probe(&self) -> bool {
        self.resync.is_none() && (self.one_shots.is_none() || self.has_read_all())
    }

    fn has_read_all(&self) -> bool {
        self.requests.is_empty() && self.pending.len() == 0 && self.to_list.is_empty()
    }

    /// Takes note of what was read of a path, so that it has its one-shot watches.
    fn was_read(&mut self, path: &str, result: &ReadResult) {
        if self.one_shots.is_none() {
            return;
        }
        match result {
            ReadResult::Data(..) => self.list_for_watch(path),
            ReadResult::Missing => self.awaits_root |= self.feed.selection.is_root(path),
            ReadResult::Unreadable | ReadResult::Children(_) => {}
        }
    }

    fn list_for_watch(&mut self, path: &str) {
        if self.feed.selection.traverses(path) && self.lacks_child_watch(path) {
            self.to_list.push_back(path.into());
        }
    }

    /// Takes the names of a znode's children: those that are not cached are read. So are those of which
    /// the cache has a znode that may be gone, since a change of it, or of an ancestor, is not applied yet.
    fn listed(&mut self, path: &str, names: &Names) {
        let selection = &self.feed.selection;
        let mut ancestors = std::iter::successors(Some(path), |&path| selection.parent(path));
        let is_changing = ancestors.any(|ancestor| self.pending.has_entries(ancestor));
        let content = self.feed.shared.content.read();
        for name in names.iter() {
            let child = child_path(path, name);
            let is_known = content.store.contains(&child)
                && !is_changing
                && !self.pending.has_entries(&child)
                && !self.resync.as_ref().is_some_and(|resync| resync.is_absent(&child));
            if !is_known && selection.includes_child(&child) {
                self.pending.event(EventType::NODE_CREATED, &child, Zxid::NONE);
            }
        }
    }

    fn reply(&mut self, reply: Reply) -> Result<(), Ended> {
        let asked = self.requests.take_asked();
        if let Reply::Reads(Err(error)) = &reply
            && error.is(ErrorCode::MARSHALLING_ERROR)
        {
            self.was_too_long = true;
            if self.reads_max > 1 {
                return Err(Ended::Connection);
            }
        }
        match (asked, reply) {
            (Asked::Changed(paths), Reply::Reads(reply)) => self.changed(paths, reply?)?,
            (Asked::Resync(reads), Reply::Reads(reply)) => {
                let (results, zxid) = reply?;
                let results = results.into_iter().map(read_result);
                let results: Vec<ReadResult> =
                    results.collect::<Result<_, _>>().map_err(|code| self.refused(code))?;
                self.read_at(zxid)?;
                for (read, result) in reads.iter().zip(&results) {
                    self.was_read(read.path(), result);
                }
                if let Some(resync) = &mut self.resync {
                    let content = self.feed.shared.content.read();
                    resync.read(&content.store, zxid, reads.into_iter().zip(results));
                    drop(content);
                    self.check_history()?;
                }
            }
            (Asked::ResyncExists(path), Reply::Stat(reply)) => {
                let (stat, zxid) = reply?;
                self.read_at(zxid)?;
                if stat.is_some() && self.one_shots.is_some() {
                    self.list_for_watch(&path);
                }
                if let Some(resync) = &mut self.resync {
                    let content = self.feed.shared.content.read();
                    resync.exists(&content.store, path, zxid, stat.as_ref());
                    drop(content);
                    self.check_history()?;
                }
            }
            (Asked::Children(path), Reply::Reads(reply)) => {
                for result in reply?.0 {
                    // If there is no such znode, its data watch tells.
                    if let ReadResult::Children(names) =
                        read_result(result).map_err(|code| self.refused(code))?
                    {
                        self.listed(&path, &names);
                    }
                }
            }
            (Asked::Root, Reply::Stat(reply)) => {
                if reply?.0.is_some() {
                    let root = Arc::clone(&self.feed.selection.root);
                    self.pending.event(EventType::NODE_CREATED, &root, Zxid::NONE);
                }
            }
            (Asked::Probe, Reply::Stat(reply)) => {
                let (_, zxid) = reply?;
                if self.one_shots.is_none() || self.has_read_all() {
                    self.pending.mark(zxid, Mark::Probed);
                } else {
                    self.must_probe = true;
                }
            }
            (asked, reply) => unreachable!("{reply:?} does not answer {asked:?}"),
        }
        self.check_size()
    }

    fn changed(
        &mut self,
        paths: Vec<Box<str>>,
        (results, zxid): (Vec<MultiResult>, Zxid),
    ) -> Result<(), Ended> {
        for (path, result) in paths.iter().zip(results) {
            let result = read_result(result).map_err(|code| self.refused(code))?;
            self.was_read(path, &result);
            let seen = match result {
                ReadResult::Data(data, stat) => {
                    Seen::Znode(self.feed.keeps_data.record(&stat, &data))
                }
                ReadResult::Unreadable => Seen::Unreadable,
                ReadResult::Missing | ReadResult::Children(_) => Seen::Nothing,
            };
            self.pending.answered(path, zxid, seen);
        }
        Ok(())
    }

    /// Notes the zxid of a reply to the resync.
    ///
    /// A client accepts no server that is behind what it has heard in its session, and the creation
    /// of a new session comes after all that. So a lower zxid is that of another history.
    fn read_at(&mut self, zxid: Zxid) -> Result<(), Ended> {
        if zxid < self.feed.shared.progress.borrow().zxid {
            return Err(Ended::History);
        }
        if self.one_shots.is_none() || self.read_at == Zxid::ZERO {
            self.read_at = self.read_at.max(zxid);
        }
        Ok(())
    }

    fn check_history(&self) -> Result<(), Ended> {
        match self.resync.as_ref().is_some_and(Resync::has_other_history) {
            true => Err(Ended::History),
            false => Ok(()),
        }
    }

    fn refused(&self, code: ErrorCode) -> Ended {
        let (op, path) = (OpCode::MULTI_READ, self.feed.selection.root.to_string());
        Ended::Request(Error::Refused { op, path, code, index: None })
    }

    fn check_size(&self) -> Result<(), Ended> {
        let found = self.resync.as_ref().map_or(0, Resync::found_bytes);
        let cached = self.feed.shared.content.read().store.bytes();
        let bytes = cached + found + self.pending.answer_bytes();
        if bytes > self.feed.bytes_max {
            let path = self.feed.selection.root.to_string();
            return Err(Ended::Cache(CacheError::TooLarge {
                path,
                bytes_max: self.feed.bytes_max,
            }));
        }
        Ok(())
    }

    /// Applies what is resolved. During a resync that is nothing.
    async fn apply_all(&mut self) -> Result<(), Ended> {
        self.finish_resync();
        while self.resync.is_none() && self.apply_some() {
            // Readers of the cache get their turn.
            tokio::task::yield_now().await;
        }
        if self.pending.must_resync() {
            return Err(Ended::Connection);
        }
        self.check_size()
    }

    /// Queues what a resync has found, if it is done.
    fn finish_resync(&mut self) {
        // What was created meanwhile belongs to the first state of the cache.
        if self.one_shots.is_some() && (!self.to_list.is_empty() || self.requests.has_lists()) {
            return;
        }
        let Some(resync) = self.resync.take_if(|resync| resync.is_done()) else { return };
        let content = self.feed.shared.content.read();
        let found = resync.finish(&content.store, self.pending.deleted_paths());
        drop(content);
        self.pending.merge(found);
        self.pending.mark(self.read_at, Mark::Resynced);
    }

    /// Applies some entries. Returns whether there are more.
    fn apply_some(&mut self) -> bool {
        let mut events = Vec::new();
        let mut state = self.feed.state();
        let mut content = self.feed.shared.content.write();
        let (reached, has_more) =
            self.pending.apply(&mut content.store, &mut events, APPLIED_AT_ONCE_MAX);
        let has_changed = !events.is_empty();
        for event in events {
            content.log.push(event);
        }
        if let Some((zxid, Mark::Resynced)) = reached {
            content.log.push(match state {
                CacheState::Filling => CacheEvent::Initialized { zxid },
                _ => CacheEvent::Resynced { zxid },
            });
            content.is_initialized = true;
            state = CacheState::Current;
        }
        drop(content);
        if has_changed || reached.is_some() {
            self.feed.publish(state, reached.map(|(zxid, _)| zxid));
        }
        has_more
    }
}

/// The next event, if it has arrived.
async fn arrived(source: &mut Source) -> Option<Result<Event, Error>> {
    let mut next = pin!(source.next());
    std::future::poll_fn(|context| match next.as_mut().poll(context) {
        Poll::Ready(event) => Poll::Ready(Some(event)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
