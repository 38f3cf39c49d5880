//! Reads the tree: with few requests, none of which leaves a watch.
//!
//! Several reads are one request (`multiRead`) where the server has that. Of each znode its data is
//! read, with which its Stat comes; its children only if the Stat says that there are some. How many reads
//! a request has follows the length of the replies. Each request waits for its turn, so that a server
//! does not get more of them in a second than the options say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Interval, MissedTickBehavior};
use zoolet_client::{Client, Error};
use zoolet_layouts::{Name, Recipe, Style, Znode};
use zoolet_protocol::{ErrorCode, MultiReadOp, MultiResult, Names, SessionId, Stat};

use super::limits::{
    ACLS_READ_MAX, BATCH_MAX, BATCH_START, CANDIDATE_BYTES_MAX, CANDIDATES_MAX, EMPTY_FOR_MS,
    FRAME_PERCENT, LONG_DIRECTORY, NAME_BYTES, PERMITS_BYTES_MAX, REPLY_BYTES_HIGH,
    REPLY_BYTES_LOW, REQUEST_BYTES_MAX,
};
use super::survey::{LockDirectory, LongList, Stamp, Survey, child, split};

/// How a tree is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanOptions {
    /// The most requests in a second.
    pub(crate) rate: u32,
    /// How many znodes are looked at before the look ends.
    pub(crate) znodes_max: u64,
    /// How many children a directory may have to be listed.
    pub(crate) children_max: u32,
    /// The longest frame that servers and clients accept, in bytes.
    pub(crate) frame_bytes: usize,
}

/// A read that is to be made.
#[derive(Debug)]
enum Look {
    /// The data of a znode, and its Stat.
    Data(String),
    /// The children of a znode, which had so many, and this data and stamp.
    Children { path: String, count: i32, data: Bytes, stamp: Stamp },
}

impl Look {
    fn path(&self) -> &str {
        match self {
            Self::Data(path) | Self::Children { path, .. } => path,
        }
    }

    /// About how many bytes its answer takes, as far as that is known before.
    fn bytes(&self) -> usize {
        match self {
            Self::Data(_) => 0,
            Self::Children { count, .. } => list_bytes(*count),
        }
    }

    fn op(&self) -> MultiReadOp {
        match self {
            Self::Data(path) => MultiReadOp::GetData(path.as_str().into()),
            Self::Children { path, .. } => MultiReadOp::GetChildren(path.as_str().into()),
        }
    }
}

/// The subtree in which a server keeps its own znodes.
const OWN_SUBTREE: &str = "/zookeeper";

/// A tree that is being read.
pub(crate) struct Scan<'a> {
    client: &'a Client,
    options: ScanOptions,
    turns: Interval,
    ahead: Vec<Look>,
    /// Long directories, the shortest first.
    later: BTreeMap<(i32, String), (Bytes, Stamp)>,
    /// How many reads the next request has.
    batch: usize,
    has_multi_read: bool,
    /// The only directories that are listed, if not all are.
    only: Option<BTreeSet<String>>,
    survey: Survey,
    /// When it began, in milliseconds since 1970.
    began_ms: i64,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(client: &'a Client, options: ScanOptions) -> Self {
        let mut turns = tokio::time::interval(Duration::from_secs(1) / options.rate.max(1));
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let survey = Survey::default();
        let (batch, has_multi_read) = (BATCH_START, true);
        Self {
            client,
            options,
            turns,
            ahead: Vec::new(),
            later: BTreeMap::new(),
            batch,
            has_multi_read,
            only: None,
            survey,
            began_ms: now_ms(),
        }
    }

    /// Reads the tree below a path.
    ///
    /// # Errors
    ///
    /// Those of any read; `NO_NODE` if there is no such znode. A znode below it that is gone or may not
    /// be read is none.
    pub(crate) async fn tree(mut self, path: &str) -> Result<Survey, Error> {
        // The first has to be there.
        self.turns.tick().await;
        self.survey.requests += 1;
        let (data, stat) = self.client.get(path).await?;
        self.found_data(path, data, &stat);
        self.run().await?;
        self.access_control_lists().await?;
        self.survey.now_ms = now_ms();
        Ok(self.survey)
    }

    /// Reads some directories and their children, and nothing below these.
    pub(crate) async fn directories(
        mut self,
        paths: impl IntoIterator<Item = String>,
    ) -> Result<Survey, Error> {
        self.ahead.extend(paths.into_iter().map(Look::Data));
        self.only = Some(self.ahead.iter().map(|look| look.path().to_owned()).collect());
        self.options.znodes_max = u64::MAX;
        self.run().await?;
        self.survey.now_ms = now_ms();
        Ok(self.survey)
    }

    async fn run(&mut self) -> Result<(), Error> {
        while self.has_ahead() {
            if self.survey.znodes >= self.options.znodes_max {
                self.leave_out_rest();
                break;
            }
            let looks = self.next_batch();
            let results = self.read(&looks).await?;
            self.batch = next_batch(self.batch, &results);
            for (look, result) in looks.into_iter().zip(results) {
                self.found(look, result);
            }
        }
        Ok(())
    }

    /// Whether there is something to read. A long directory comes when there is nothing else.
    fn has_ahead(&mut self) -> bool {
        if self.ahead.is_empty()
            && let Some(((count, path), (data, stamp))) = self.later.pop_first()
        {
            self.ahead.push(Look::Children { path, count, data, stamp });
        }
        !self.ahead.is_empty()
    }

    /// Counts what was not read, by the directories in which it is.
    fn leave_out_rest(&mut self) {
        self.survey.is_cut = true;
        let left_out = &mut self.survey.left_out;
        for ((count, path), _) in std::mem::take(&mut self.later) {
            *left_out.entry(path).or_default() += u64::from(count.unsigned_abs());
        }
        for look in self.ahead.drain(..) {
            match look {
                Look::Children { path, count, .. } => {
                    *left_out.entry(path).or_default() += u64::from(count.unsigned_abs());
                }
                Look::Data(path) => {
                    let (parent, name) = split(&path);
                    *left_out.entry(parent.to_owned()).or_default() += 1;
                    // Of a queue without some of its places it is not known who holds.
                    if Name::read(name).is_some() {
                        self.survey.locks.remove(parent);
                    }
                }
            }
        }
    }

    fn next_batch(&mut self) -> Vec<Look> {
        let mut request = Request::of(self.batch);
        let mut looks = Vec::with_capacity(self.batch);
        while let Some(look) =
            self.ahead.pop_if(|look| request.takes(look.path().len(), look.bytes()))
        {
            looks.push(look);
        }
        looks
    }

    async fn read(&mut self, looks: &[Look]) -> Result<Vec<MultiResult>, Error> {
        if self.has_multi_read {
            self.turns.tick().await;
            self.survey.requests += 1;
            match self.client.multi_read(looks.iter().map(Look::op).collect()).await {
                // A server before 3.6.
                Err(error) if error.is(ErrorCode::UNIMPLEMENTED) => self.has_multi_read = false,
                results => return results,
            }
        }
        let mut results = Vec::with_capacity(looks.len());
        for look in looks {
            self.turns.tick().await;
            self.survey.requests += 1;
            let result = match look {
                Look::Data(path) => {
                    let got = self.client.get(path).await;
                    got.map(|(data, stat)| MultiResult::Data(Some(data), stat))
                }
                Look::Children { path, .. } => {
                    self.client.children(path).await.map(MultiResult::Children)
                }
            };
            results.push(match result {
                Err(error) if error.is(ErrorCode::NO_NODE) => {
                    MultiResult::Error(ErrorCode::NO_NODE)
                }
                Err(error) if error.is(ErrorCode::NO_AUTH) => {
                    MultiResult::Error(ErrorCode::NO_AUTH)
                }
                result => result?,
            });
        }
        Ok(results)
    }

    fn found(&mut self, look: Look, result: MultiResult) {
        match (look, result) {
            (Look::Data(path), MultiResult::Data(data, stat)) => {
                self.found_data(&path, data.unwrap_or_default(), &stat);
            }
            (Look::Children { path, data, stamp, .. }, MultiResult::Children(names)) => {
                self.found_children(&path, &data, stamp, &names);
            }
            // It was deleted in between.
            (_, MultiResult::Error(ErrorCode::NO_NODE)) => {}
            (look, MultiResult::Error(ErrorCode::NO_AUTH)) => {
                self.survey.unreadable.push(look.path().to_owned());
            }
            (look, result) => {
                // A broken answer of one znode does not end the look at all others.
                tracing::warn!("{}: the server answers {result:?}", look.path());
                self.survey.unreadable.push(look.path().to_owned());
            }
        }
    }

    fn found_data(&mut self, path: &str, data: Bytes, stat: &Stat) {
        self.survey.znodes += 1;
        if self.is_long(data.len()) {
            self.survey.large.push((path.to_owned(), data.len()));
        }
        let (parent, name) = split(path);
        if Name::read(name).is_some()
            && let Some(lock) = self.survey.locks.get_mut(parent)
        {
            lock.directory.insert(name, Znode::from(stat));
        }
        if self.only.as_ref().is_some_and(|only| !only.contains(path)) {
            return;
        }
        if self.survey.candidates.len() < CANDIDATES_MAX
            && stat.ephemeral_owner == SessionId::NONE
            && data.len() <= CANDIDATE_BYTES_MAX
            && Name::read(name).is_none()
        {
            self.survey.candidates.push((path.to_owned(), stat.into()));
        }
        match stat.num_children {
            // Nobody had children here, or it is no directory.
            0 if stat.cversion == 0 => {}
            0 if stat.ctime > self.began_ms - EMPTY_FOR_MS => {}
            0 if stat.ephemeral_owner == SessionId::NONE => self.survey.add_empty(path),
            0 => {}
            children if i64::from(children) > i64::from(self.options.children_max) => {
                let long = LongList { path: path.to_owned(), children, bytes: None };
                self.survey.long.push(long);
            }
            count => {
                let data = if data.len() <= PERMITS_BYTES_MAX { data } else { Bytes::new() };
                let stamp = Stamp::from(stat);
                if count > LONG_DIRECTORY {
                    self.later.insert((count, path.to_owned()), (data, stamp));
                } else {
                    self.ahead.push(Look::Children { path: path.to_owned(), count, data, stamp });
                }
            }
        }
    }

    fn found_children(&mut self, path: &str, data: &[u8], stamp: Stamp, names: &Names) {
        // As in a reply: each name after its length.
        let bytes: usize = names.iter().map(|name| name.len() + 4).sum();
        if self.is_long(bytes) {
            let children = i32::try_from(names.len()).unwrap_or(i32::MAX);
            let long = LongList { path: path.to_owned(), children, bytes: Some(bytes) };
            self.survey.long.push(long);
        }
        if names.iter().any(tells_of_a_lock) {
            let others = names.iter().filter(|name| Name::read(name).is_none());
            let first_other = others.min().map(str::to_owned);
            let mut lock = LockDirectory { first_other, stamp, ..LockDirectory::default() };
            lock.directory.set_data(data);
            self.survey.locks.insert(path.to_owned(), lock);
        }
        let children = names.iter().map(|name| child(path, name));
        self.ahead.extend(children.filter(|path| path != OWN_SUBTREE).map(Look::Data));
    }

    /// Whether so many bytes are near the limit of a frame.
    fn is_long(&self, bytes: usize) -> bool {
        bytes >= self.options.frame_bytes / 100 * FRAME_PERCENT
    }

    /// Reads who may do what in the first of the directories of locks.
    async fn access_control_lists(&mut self) -> Result<(), Error> {
        let paths: Vec<String> = self.survey.locks.keys().take(ACLS_READ_MAX).cloned().collect();
        for path in paths {
            self.turns.tick().await;
            self.survey.requests += 1;
            match self.client.acl(&path).await {
                Ok((acl, _)) => {
                    if let Some(lock) = self.survey.locks.get_mut(&path) {
                        lock.acl = Some(acl);
                    }
                }
                // It is gone, or its list is none of this client's business.
                Err(error) if error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::NO_AUTH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// By the clock of this machine.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Whether a child with this name may hold or wait.
pub(crate) fn tells_of_a_lock(name: &str) -> bool {
    Name::read(name).is_some_and(|name| {
        let recipe = name.style.recipe();
        recipe.excludes() || recipe == Recipe::Lease || name.style == Style::BarrierReady
    })
}

/// How much a request has, so that neither it nor its reply is too long.
pub(crate) struct Request {
    reads_max: usize,
    reads: usize,
    path_bytes: usize,
    answer_bytes: usize,
}

impl Request {
    /// One of so many reads at most.
    pub(crate) fn of(reads_max: usize) -> Self {
        Self { reads_max, reads: 0, path_bytes: 0, answer_bytes: 0 }
    }

    /// Takes a read with these lengths of its path and of its answer. `false` if it is one for the next request; the
    /// first one is never.
    pub(crate) fn takes(&mut self, path_bytes: usize, answer_bytes: usize) -> bool {
        let path_bytes = self.path_bytes.saturating_add(path_bytes);
        let answer_bytes = self.answer_bytes.saturating_add(answer_bytes);
        let is_short = path_bytes <= REQUEST_BYTES_MAX && answer_bytes <= REPLY_BYTES_HIGH;
        if self.reads > 0 && !(is_short && self.reads < self.reads_max) {
            return false;
        }
        *self = Self { reads_max: self.reads_max, reads: self.reads + 1, path_bytes, answer_bytes };
        true
    }
}

/// About how many bytes a list of so many children takes.
pub(crate) fn list_bytes(children: i32) -> usize {
    usize::try_from(children).unwrap_or_default().saturating_mul(NAME_BYTES)
}

/// How many reads the next request has, after one with these results.
pub(crate) fn next_batch(batch: usize, results: &[MultiResult]) -> usize {
    let bytes: usize = results.iter().map(reply_bytes).sum();
    if bytes > REPLY_BYTES_HIGH {
        (batch / 2).max(1)
    } else if bytes < REPLY_BYTES_LOW {
        (batch * 2).min(BATCH_MAX)
    } else {
        batch
    }
}

/// About how many bytes a result has in a reply.
fn reply_bytes(result: &MultiResult) -> usize {
    const STAT_BYTES: usize = 80;
    match result {
        MultiResult::Data(data, _) => STAT_BYTES + data.as_ref().map_or(0, Bytes::len),
        MultiResult::Children(names) => names.iter().map(|name| name.len() + 4).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::CreateMode;
    use zoolet_testkit::TestServer;

    use super::*;

    async fn create_all(client: &Client, paths: impl Iterator<Item = String>) {
        let sent: Vec<_> = paths.map(|path| client.create(&path).send()).collect();
        for created in sent {
            created.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_directories_are_read_last_and_what_was_left_out_is_told() {
        let server = TestServer::start().await.unwrap();
        let client = server.connect().await.unwrap();
        let locks = ["/a", "/long/1000/lock", "/m", "/z"];
        let directories = ["/a", "/long", "/longer", "/m", "/z"].map(str::to_owned);
        create_all(&client, directories.into_iter()).await;
        create_all(&client, (0..1_100).map(|number| format!("/long/{number:04}"))).await;
        create_all(&client, (0..1_200).map(|number| format!("/longer/{number:04}"))).await;
        client.create(locks[1]).await.unwrap();
        for path in locks {
            let place = client.create(&format!("{path}/lock-"));
            place.mode(CreateMode::EphemeralSequential).await.unwrap();
        }
        let options = |znodes_max| ScanOptions {
            rate: 100_000,
            znodes_max,
            children_max: 10_000,
            frame_bytes: 1 << 20,
        };
        let read = async |znodes_max| {
            let survey = Scan::new(&client, options(znodes_max)).tree("/").await.unwrap();
            let locks: Vec<_> = survey.locks.keys().cloned().collect();
            (locks, survey.left_out_text())
        };
        let (seen, left_out) = read(100).await;
        assert_eq!(seen, [locks[0], locks[2], locks[3]]);
        let left_out = left_out.unwrap();
        assert!(left_out.starts_with("1200 children of /longer, "), "{left_out}");
        assert!(left_out.contains(" children of /long,"), "{left_out}");
        // The shorter one fits, with what is below it.
        let (seen, left_out) = read(1_300).await;
        assert_eq!(seen, locks);
        assert!(left_out.unwrap().ends_with(" children of /longer"));
        assert_eq!(read(10_000).await, (locks.map(str::to_owned).to_vec(), None));
    }

    #[test]
    fn a_request_is_within_its_limits_unless_it_has_one_read() {
        let mut request = Request::of(3);
        assert!(request.takes(REQUEST_BYTES_MAX - 1, 0));
        assert!(!request.takes(2, 0), "its paths are too long");
        assert!(request.takes(1, REPLY_BYTES_HIGH));
        assert!(!request.takes(0, 1), "its reply is too long");
        assert!(request.takes(0, 0));
        assert!(!request.takes(0, 0), "it has three reads");
        assert!(Request::of(1).takes(usize::MAX, usize::MAX), "it is the first one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_of_which_places_were_left_out_is_not_told() {
        let server = TestServer::start().await.unwrap();
        let client = server.connect().await.unwrap();
        create_all(&client, std::iter::once("/queue".to_owned())).await;
        create_all(&client, (0..200).map(|number| format!("/queue/lock-{number:010}"))).await;
        let options = ScanOptions {
            rate: 100_000,
            znodes_max: 50,
            children_max: 1_000,
            frame_bytes: 1 << 20,
        };
        let survey = Scan::new(&client, options).tree("/").await.unwrap();
        assert!(survey.is_cut && survey.locks.is_empty());
        assert!(survey.left_out["/queue"] > 0);
    }
}
