//! What is known of the tree and of the sessions from one look to the next, and what the page shows of it.
//!
//! A quick look reads again what has changed in the directories of locks (`quick`). A slow one reads the
//! whole tree when that is due, and asks for sessions and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use zoolet_client::recipe::now;
use zoolet_layouts::{Cycle, Queue, Row};
use zoolet_protocol::{SessionId, Zxid};

use super::limits::{
    FINDINGS_MAX, LOCKS_MAX, LOOK_PAUSE_FACTOR, SMALL_TREE_PAUSE_FACTOR, SMALL_TREE_REQUESTS,
    WHOLE_TREE_PAUSE, WHOLE_TREE_PAUSE_FACTOR,
};
use super::model::{Entries, Json, Model};
use super::quick::Changes;
use super::shown::{self, About};
use crate::doctor::finding::{Finding, Kind};
use crate::doctor::findings;
use crate::doctor::scan::ScanOptions;
use crate::doctor::sessions::Sessions;
use crate::doctor::survey::{LockDirectory, Stamp, Survey};

/// What is known from one look to the next.
#[derive(Debug)]
pub(super) struct Looks {
    pub(super) path: String,
    pub(super) options: ScanOptions,
    survey: Survey,
    /// Znodes below which locks may come.
    candidates: BTreeMap<String, Stamp>,
    /// The candidate that was looked at last.
    last_candidate: String,
    whole: Option<Whole>,
    /// Below a candidate something has come or gone.
    has_news: bool,
    sessions: Sessions,
    /// The cycles of the last slow look, which the next one may confirm.
    cycles: Vec<Cycle>,
    /// Those that two looks have seen, and that no look has seen ended.
    confirmed: Vec<Cycle>,
    in_cycles: BTreeSet<(String, String)>,
    findings: Vec<Finding>,
    holders: Holders,
    /// The queues that are told at each directory.
    shown: BTreeMap<String, Vec<Shown>>,
    /// What a slow look has found.
    base: Model,
    trouble: Option<String>,
}

/// A queue, as it is told.
#[derive(Debug)]
struct Shown {
    key: String,
    text: Json,
    hold: usize,
    wait: usize,
}

/// The last attempt to read the whole tree.
#[derive(Debug, Clone, Copy)]
struct Whole {
    at: Instant,
    took: Duration,
    /// Of the last time that it was read.
    requests: u64,
    has_failed: bool,
}

impl Whole {
    /// When it is to be read again.
    fn next(self) -> Instant {
        let is_small = self.requests <= SMALL_TREE_REQUESTS;
        let pause = if is_small && self.has_failed {
            self.took * LOOK_PAUSE_FACTOR
        } else if is_small {
            self.took * SMALL_TREE_PAUSE_FACTOR
        } else {
            (self.took * WHOLE_TREE_PAUSE_FACTOR).max(WHOLE_TREE_PAUSE)
        };
        self.at + pause
    }
}

/// Of znodes by name and transaction: the time of the look that saw it hold first, and whether an earlier
/// look had seen that it did not hold yet. A znode that was created again under its name is another one.
type Since = BTreeMap<(String, Zxid), (i64, bool)>;

/// Since when each holder was seen to hold.
#[derive(Debug, Default)]
struct Holders {
    /// By queue.
    since: BTreeMap<String, Since>,
    /// Whether there was a look before, without a time in which nobody looked.
    has_looked: bool,
    /// How many have begun to hold while somebody looked.
    hand_overs: u64,
}

impl Holders {
    fn learn(&mut self, key: &str, queue: &Queue<'_>, now_ms: i64) {
        let mut earlier = self.since.remove(key).unwrap_or_default();
        let mut since = BTreeMap::new();
        for row in queue.rows.iter().filter(|row| row.role.holds()) {
            let holder = (row.place.name.clone(), row.place.znode.czxid);
            let known = earlier.remove(&holder);
            self.hand_overs += u64::from(known.is_none() && self.has_looked);
            since.insert(holder, known.unwrap_or((now_ms, self.has_looked)));
        }
        self.since.insert(key.to_owned(), since);
    }
}

impl Looks {
    pub(super) fn new(path: &str, options: ScanOptions) -> Self {
        Self {
            path: path.to_owned(),
            options,
            survey: Survey::default(),
            candidates: BTreeMap::new(),
            last_candidate: String::new(),
            whole: None,
            has_news: false,
            sessions: Sessions::default(),
            cycles: Vec::new(),
            confirmed: Vec::new(),
            in_cycles: BTreeSet::new(),
            findings: Vec::new(),
            holders: Holders::default(),
            shown: BTreeMap::new(),
            base: Model::default(),
            trouble: None,
        }
    }

    /// Whether the whole tree was read once.
    pub(super) fn has_tree(&self) -> bool {
        self.survey.requests > 0
    }

    /// Whether the whole tree is to be read.
    pub(super) fn is_whole_due(&self) -> bool {
        self.whole.is_none_or(|whole| self.has_news || now() >= whole.next())
    }

    /// Whether something has come or gone below a znode that is no lock yet, so that the whole tree is to
    /// be read before its time. In a large tree its time is kept.
    pub(super) fn has_news(&self) -> bool {
        self.has_news
    }

    /// Nobody has looked for some time: what has begun meanwhile was not seen to begin. Whether what is
    /// known is still worth something.
    pub(super) fn pause(&mut self) -> bool {
        self.holders.has_looked = false;
        self.whole
            .is_some_and(|whole| now() < whole.at + (whole.next() - whole.at).max(WHOLE_TREE_PAUSE))
    }

    /// The whole tree could not be read: it is not read again before its time. `took` is for how long it
    /// was tried.
    pub(super) fn failed(&mut self, took: Duration) {
        let requests = self.whole.map_or(0, |whole| whole.requests);
        self.has_news = false;
        self.whole = Some(Whole { at: now(), took, requests, has_failed: true });
    }

    /// How long to wait for the tree, if there is none yet and its reading has failed.
    pub(super) fn wait_for_tree(&self) -> Duration {
        let whole = self.whole.filter(|_| !self.has_tree());
        whole.map_or(Duration::ZERO, |whole| whole.next().saturating_duration_since(now()))
    }

    /// Why the last slow look has failed.
    pub(super) fn set_trouble(&mut self, trouble: Option<String>) {
        self.trouble = trouble;
    }

    /// The directories of locks, and some of the znodes below which locks may come, with the transactions
    /// that created them.
    pub(super) fn watched(&mut self, candidates_max: usize) -> Vec<(String, Zxid)> {
        let after = self.candidates.range::<str, _>((
            std::ops::Bound::Excluded(self.last_candidate.as_str()),
            std::ops::Bound::Unbounded,
        ));
        let others = after.chain(self.candidates.iter());
        let count = candidates_max.min(self.candidates.len());
        let others = others.take(count).map(|(path, stamp)| (path.clone(), stamp.czxid));
        let chosen: Vec<(String, Zxid)> = others.collect();
        if let Some((last, _)) = chosen.last() {
            self.last_candidate.clone_from(last);
        }
        let locks = self.survey.locks.iter().map(|(path, lock)| (path.clone(), lock.stamp.czxid));
        locks.chain(chosen).collect()
    }

    /// Whether a directory of locks has changed; `None` if it is none.
    pub(super) fn is_changed(&mut self, path: &str, stamp: Stamp) -> Option<bool> {
        if let Some(lock) = self.survey.locks.get(path) {
            return Some(lock.stamp != stamp);
        }
        let known = self.candidates.get_mut(path)?;
        if (known.czxid, known.pzxid, known.cversion) != (stamp.czxid, stamp.pzxid, stamp.cversion)
        {
            *known = stamp;
            self.has_news |= self.whole.is_some_and(|it| it.requests <= SMALL_TREE_REQUESTS);
        }
        None
    }

    /// Whether a znode was seen in the directory that this transaction created, so that it need not be read
    /// again: it has a number, which no other one gets there.
    pub(super) fn knows(&self, path: &str, czxid: Zxid, name: &str) -> bool {
        let lock = self.survey.locks.get(path).filter(|lock| lock.stamp.czxid == czxid);
        let place = lock.and_then(|lock| lock.directory.place(name));
        place.is_some_and(|place| place.number.is_some())
    }

    /// Takes what a quick look has found, except where a slow one has seen something later. Whether
    /// something has changed.
    pub(super) fn take_quick(&mut self, changes: Changes) -> bool {
        self.survey.now_ms = jiff::Timestamp::now().as_millisecond();
        let mut touched = BTreeSet::new();
        for (path, czxid) in changes.gone {
            if self.candidates.get(&path).is_some_and(|stamp| stamp.czxid == czxid) {
                self.candidates.remove(&path);
            }
            if self.survey.locks.get(&path).is_none_or(|lock| lock.stamp.czxid != czxid) {
                continue;
            }
            self.survey.locks.remove(&path);
            touched.extend(Survey::touched_by(&path));
        }
        for (path, changed) in changes.changed {
            let Some(lock) = self.survey.locks.get_mut(&path) else { continue };
            if changed.is_older(lock.stamp) {
                continue;
            }
            changed.apply(lock);
            touched.extend(Survey::touched_by(&path));
        }
        if touched.is_empty() {
            self.holders.has_looked = true;
            return false;
        }
        self.survey.learn_in(touched.iter().map(String::as_str), &self.sessions);
        touched.extend(self.end_cycles());
        for path in &touched {
            self.show(path);
        }
        self.holders.has_looked = true;
        true
    }

    /// Takes what a slow look has found: the tree if it was read, and how long that took.
    pub(super) fn take_slow(
        &mut self,
        tree: Option<(Survey, Duration)>,
        sessions: Sessions,
        own: SessionId,
        metrics: Option<Value>,
    ) {
        if let Some((survey, took)) = tree {
            self.take_tree(survey, took);
        }
        self.survey.now_ms = jiff::Timestamp::now().as_millisecond();
        self.sessions = sessions;
        self.survey.learn(&self.sessions);
        self.confirmed = findings::still_there(std::mem::take(&mut self.cycles), &self.survey);
        self.cycles = findings::cycles(&self.survey);
        self.find();
        self.shown.retain(|path, _| self.survey.locks.contains_key(path));
        let paths: Vec<String> = self.survey.locks.keys().cloned().collect();
        for path in &paths {
            self.show(path);
        }
        let keys: BTreeSet<&str> =
            self.shown.values().flatten().map(|it| it.key.as_str()).collect();
        self.holders.since.retain(|key, _| keys.contains(key.as_str()));
        self.holders.has_looked = true;
        let base = self
            .with_findings(Model::default())
            .with("looked_ms", self.survey.now_ms)
            .with("path", self.path.as_str())
            .with("watches", shown::watches(&self.sessions))
            .with("not_seen", self.sessions.gaps.iter().map(shown::gap).collect::<Value>());
        let base = match metrics {
            Some(metrics) => base.with("metrics", metrics),
            None => base,
        };
        let queues = self.survey.queues();
        let sessions = shown::sessions(&queues, &self.sessions, own);
        let base = base.with("silences", shown::silences(&sessions, &self.sessions));
        self.base = base.with_entries("sessions", sessions);
    }

    /// Forgets the deadlocks that are over, and returns the paths in which they were.
    fn end_cycles(&mut self) -> Vec<String> {
        let before = self.confirmed.clone();
        self.confirmed = findings::still_there(std::mem::take(&mut self.confirmed), &self.survey);
        if self.confirmed.len() == before.len() {
            return Vec::new();
        }
        self.find();
        let base = std::mem::take(&mut self.base);
        self.base = self.with_findings(base);
        let steps = before.into_iter().flat_map(|cycle| cycle.steps);
        steps.map(|step| step.path).filter(|path| self.survey.locks.contains_key(path)).collect()
    }

    /// Looks for what is wrong in what was seen.
    fn find(&mut self) {
        let in_cycle = self.confirmed.iter().flat_map(|cycle| &cycle.steps).flat_map(|step| {
            let places = [&step.waiter_place.name, &step.holder_place.name];
            places.map(|name| (step.path.clone(), name.clone()))
        });
        self.in_cycles = in_cycle.collect();
        let (survey, frame_bytes) = (&self.survey, self.options.frame_bytes);
        self.findings = findings::findings(survey, &self.sessions, &self.confirmed, frame_bytes);
    }

    fn with_findings(&self, model: Model) -> Model {
        let findings = self.findings.iter().take(FINDINGS_MAX).map(Finding::json);
        model
            .with("findings", findings.collect::<Value>())
            .with("cycles", self.confirmed.iter().map(shown::cycle).collect::<Value>())
    }

    /// The directories of locks.
    pub(super) fn directories(&self) -> Vec<String> {
        self.survey.locks.keys().cloned().collect()
    }

    /// Takes directories that were read for a server without quick looks.
    pub(super) fn take_directories(&mut self, directories: Survey) {
        let mut earlier = std::mem::replace(&mut self.survey.locks, directories.locks);
        for (path, lock) in &mut self.survey.locks {
            lock.acl = earlier.remove(path).and_then(|lock| lock.acl);
        }
    }

    fn take_tree(&mut self, mut survey: Survey, took: Duration) {
        let requests = survey.requests;
        let mut earlier = std::mem::take(&mut self.survey.locks);
        for (path, lock) in &mut survey.locks {
            // A quick look may have seen it later.
            if let Some(known) = earlier.remove(path)
                && known.stamp.czxid == lock.stamp.czxid
                && known.stamp.pzxid > lock.stamp.pzxid
            {
                (lock.directory, lock.stamp) = (known.directory, known.stamp);
            }
        }
        let candidates = std::mem::take(&mut survey.candidates);
        for (path, stamp) in &candidates {
            // A lock that nobody has or wants now, and soon again. Its data is still to be read.
            if earlier.remove(path).is_some() {
                let stamp = Stamp { mzxid: Zxid::ZERO, ..*stamp };
                survey.locks.insert(path.clone(), LockDirectory { stamp, ..Default::default() });
            }
        }
        let is_lock = |path: &str| survey.locks.contains_key(path);
        self.candidates = candidates.into_iter().filter(|(path, _)| !is_lock(path)).collect();
        self.survey = survey;
        self.has_news = false;
        self.whole = Some(Whole { at: now(), took, requests, has_failed: false });
    }

    /// Makes what is told of the queues at a directory.
    fn show(&mut self, path: &str) {
        let mut earlier = self.shown.remove(path).unwrap_or_default();
        let now_ms = self.survey.now_ms;
        let mut all = Vec::new();
        for (path, queue) in self.survey.queues_of(path) {
            // A path has no line end.
            let key = format!("{path}\n{}", queue.recipe.text());
            self.holders.learn(&key, &queue, now_ms);
            let since = self.holders.since.get(&key);
            let since = |row: &Row<'_>| {
                let holder = (row.place.name.clone(), row.place.znode.czxid);
                since.and_then(|since| since.get(&holder)).copied()
            };
            let is_herd = |finding: &&Finding| {
                finding.kind == Kind::Herd && finding.paths.iter().any(|known| known == path)
            };
            let in_cycle = |name: &str| {
                !self.in_cycles.is_empty()
                    && self.in_cycles.contains(&(path.to_owned(), name.to_owned()))
            };
            let about = About {
                sessions: &self.sessions,
                herd: self.findings.iter().find(is_herd).map(|finding| finding.what.as_str()),
                since: &since,
                in_cycle: &in_cycle,
            };
            let text: Json = shown::line(path, &queue, &about).into();
            let known = earlier.iter_mut().find(|known| known.key == key && known.text == text);
            let text = known.map_or(text, |known| Arc::clone(&known.text));
            let hold = queue.rows.iter().filter(|row| row.role.holds()).count();
            all.push(Shown { key, text, hold, wait: shown::waiting(&queue) });
        }
        if !all.is_empty() {
            self.shown.insert(path.to_owned(), all);
        }
    }

    /// With why the last slow look has failed, if it has.
    pub(super) fn with_trouble(&self, model: Model) -> Model {
        match &self.trouble {
            Some(trouble) => model.with("trouble", trouble.as_str()),
            None => model,
        }
    }

    /// What the page shows now.
    pub(super) fn model(&self) -> Model {
        let mut queues: Vec<&Shown> = self.shown.values().flatten().collect();
        let totals = json!({
            "locks": queues.len(),
            "hold": queues.iter().map(|it| it.hold).sum::<usize>(),
            "wait": queues.iter().map(|it| it.wait).sum::<usize>(),
            "sessions": self.sessions.by_id.len(),
            "znodes": self.survey.znodes,
            "is_cut": self.survey.is_cut,
            "left_out": self.survey.left_out_text(),
            "hand_overs": self.holders.hand_overs,
            "findings": self.findings.len(),
        });
        if queues.len() > LOCKS_MAX {
            queues.sort_by_key(|it| std::cmp::Reverse(it.wait));
            queues.truncate(LOCKS_MAX);
        }
        let entry = |it: &Shown| (it.key.clone(), Arc::clone(&it.text));
        let entries: Entries = queues.into_iter().map(entry).collect();
        let base = self.with_trouble(self.base.clone());
        base.with("time_ms", self.survey.now_ms)
            .with("totals", totals)
            .with_entries("locks", entries)
    }
}

#[cfg(test)]
mod tests {
    use zoolet_layouts::{Directory, Znode};
    use zoolet_protocol::Stat;

    use super::*;
    use crate::doctor::sessions::{Connection, Session};

    fn looks() -> Looks {
        let options =
            ScanOptions { rate: 100, znodes_max: 1_000, children_max: 1_000, frame_bytes: 1 << 20 };
        Looks::new("/", options)
    }

    fn znode(czxid: i64) -> Znode {
        Znode { session: SessionId(1), czxid: Zxid(czxid), ctime: 0 }
    }

    /// A tree with one lock, of which a znode was created by this transaction.
    fn tree(requests: u64, pzxid: i64, czxid: i64) -> Survey {
        let mut survey = Survey { requests, ..Survey::default() };
        let directory = Directory::of([("lock-0000000001", znode(czxid))]);
        let stat = Stat { pzxid: Zxid(pzxid), ..Stat::default() };
        let lock = LockDirectory { directory, stamp: Stamp::from(&stat), ..Default::default() };
        survey.locks.insert("/lock".to_owned(), lock);
        survey
    }

    fn take(looks: &mut Looks, survey: Survey, took: Duration) -> Value {
        looks.take_slow(Some((survey, took)), Sessions::default(), SessionId(9), None);
        let state: Value = serde_json::from_str(&looks.model().snapshot()).unwrap();
        state["locks"]["/lock\nmutex"]["places"][0].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_tree_whose_reading_has_failed_is_read_again_after_a_pause_as_long_as_its_cost() {
        let mut looks = looks();
        assert!(looks.is_whole_due());
        looks.failed(Duration::from_secs(20));
        assert!(!looks.is_whole_due());
        assert_eq!(looks.wait_for_tree(), Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(looks.is_whole_due());
        take(&mut looks, tree(1_000, 1, 1), Duration::from_secs(5));
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(looks.is_whole_due());
        looks.failed(Duration::from_secs(5));
        assert!(!looks.is_whole_due(), "not at once");
        assert_eq!(looks.wait_for_tree(), Duration::ZERO, "what is known is shown meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn a_tree_that_was_read_just_now_is_not_read_again_for_who_comes_back() {
        let mut looks = looks();
        take(&mut looks, tree(1_000, 1, 1), Duration::from_secs(5));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(looks.pause() && !looks.is_whole_due());
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(!looks.pause(), "it is too old");
    }

    #[tokio::test(start_paused = true)]
    async fn a_znode_created_again_under_its_name_is_another_hold() {
        let mut looks = looks();
        assert_eq!(take(&mut looks, tree(1, 1, 1), Duration::ZERO)["saw_it_begin"], false);
        assert_eq!(take(&mut looks, tree(1, 1, 1), Duration::ZERO)["saw_it_begin"], false);
        assert_eq!(take(&mut looks, tree(1, 3, 3), Duration::ZERO)["saw_it_begin"], true);
        looks.pause();
        assert_eq!(take(&mut looks, tree(1, 4, 4), Duration::ZERO)["saw_it_begin"], false);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_quick_look_has_seen_later_stays() {
        let mut looks = looks();
        take(&mut looks, tree(1, 5, 5), Duration::ZERO);
        let place = take(&mut looks, tree(1, 3, 3), Duration::ZERO);
        assert_eq!(place["czxid"], "0x5", "the whole tree was read before: {place}");
    }

    #[tokio::test(start_paused = true)]
    async fn of_sessions_that_do_nothing_new_only_their_silence_is_told() {
        let sessions = |silent_ms: i64| {
            let connection = Connection {
                address: "127.0.0.1:1".to_owned(),
                server: "127.0.0.1:2181".to_owned(),
                timeout_ms: 30_000,
                silent_ms,
                last: "PING".to_owned(),
            };
            let session = Session { connection: Some(connection), ..Session::default() };
            let by_id = (1..=1_000).map(|id| (SessionId(id), session.clone())).collect();
            Sessions { by_id, ..Sessions::default() }
        };
        let mut looks = looks();
        looks.take_slow(None, sessions(5_000), SessionId(9), None);
        let before = looks.model();
        looks.take_slow(None, sessions(6_000), SessionId(9), None);
        let changes = looks.model().since(&before).unwrap();
        let value: Value = serde_json::from_str(&changes).unwrap();
        assert_eq!(value["silences"][SessionId(1_000).to_string()], 6_000);
        assert_eq!(value["sessions"], Value::Null, "all else is as before");
        assert!(changes.len() < 30 * 1_000, "{} bytes", changes.len());
    }
}
