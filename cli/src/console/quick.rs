//! A quick look: what has changed in the directories of locks since the last one.
//!
//! Of each directory its own znode is read, several with one request. Its Stat tells whether children came
//! or went. Only then the children are listed, and only those are read that were not known.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Interval, MissedTickBehavior};
use zoolet_client::{Client, Error};
use zoolet_layouts::{Directory, Name, Znode};
use zoolet_protocol::{ErrorCode, MultiReadOp, MultiResult, Zxid};

use super::limits::{QUICK_BATCH, QUICK_CANDIDATES};
use super::look::Looks;
use crate::doctor::scan::{Request, list_bytes, next_batch};
use crate::doctor::survey::{LockDirectory, Stamp, child};

/// What a quick look has found.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Znodes that are gone or have too many children, with the transactions that had created them.
    pub(super) gone: Vec<(String, Zxid)>,
    pub(super) changed: BTreeMap<String, Changed>,
}

/// A directory that has changed.
#[derive(Debug)]
pub(super) struct Changed {
    stamp: Stamp,
    data: Bytes,
    names: Vec<String>,
    /// The znodes that were read, by their names.
    read: BTreeMap<String, Znode>,
}

impl Changed {
    fn emptied(stamp: Stamp, data: Bytes) -> Self {
        Self { stamp, data, names: Vec::new(), read: BTreeMap::new() }
    }

    /// Whether what was read is older than what is known of the directory: a slow look has read it since.
    pub(super) fn is_older(&self, known: Stamp) -> bool {
        (self.stamp.czxid, self.stamp.pzxid) < (known.czxid, known.pzxid)
    }

    pub(super) fn apply(self, lock: &mut LockDirectory) {
        if lock.stamp.czxid != self.stamp.czxid {
            // It was created again: its numbers began anew, so that names may have come back.
            lock.directory = Directory::new();
        }
        let others = self.names.iter().filter(|name| Name::read(name).is_none());
        lock.first_other = others.min().cloned();
        let mut directory = Directory::new();
        let mut has_all = true;
        for name in self.names.iter().filter(|name| Name::read(name).is_some()) {
            let known = || lock.directory.place(name).map(|place| place.znode);
            match self.read.get(name).copied().or_else(known) {
                Some(znode) => drop(directory.insert(name, znode)),
                // It was deleted in between.
                None => has_all = false,
            }
        }
        directory.set_data(&self.data);
        lock.directory = directory;
        // Otherwise the next look lists it again.
        let czxid = self.stamp.czxid;
        lock.stamp = if has_all { self.stamp } else { Stamp { czxid, ..Stamp::default() } };
    }
}

/// Looks once. Returns what has changed, and how many requests that took.
///
/// # Errors
///
/// Those of any read; `UNIMPLEMENTED` from servers before 3.6.
pub(super) async fn look(looks: &Mutex<Looks>, client: &Client) -> Result<(Changes, u32), Error> {
    let (watched, options) = {
        let mut looks = looks.lock();
        (looks.watched(QUICK_CANDIDATES), looks.options)
    };
    let mut asking = Asking::new(client, options.rate);
    let mut changes = Changes::default();
    let heads = watched.iter().map(|(path, _)| Ask::data(path.clone()));
    let mut listed: Vec<(String, Stamp, Bytes)> = Vec::new();
    let heads = asking.read(heads.collect()).await?;
    for ((path, czxid), result) in watched.into_iter().zip(heads) {
        match result {
            MultiResult::Data(data, stat) => {
                let stamp = Stamp::from(&stat);
                if looks.lock().is_changed(&path, stamp) != Some(true) {
                    continue;
                }
                let data = data.unwrap_or_default();
                if stat.num_children == 0 {
                    changes.changed.insert(path, Changed::emptied(stamp, data));
                } else if i64::from(stat.num_children) > i64::from(options.children_max) {
                    // Such a list is not read. The next reading of the whole tree tells how long it is.
                    changes.gone.push((path, czxid));
                } else {
                    listed.push((path, stamp, data));
                }
            }
            MultiResult::Error(ErrorCode::NO_NODE) => changes.gone.push((path, czxid)),
            _ => {}
        }
    }
    let lists = listed.iter().map(|(path, stamp, _)| Ask::children(path, *stamp));
    let lists = asking.read(lists.collect()).await?;
    let mut unknown: Vec<(String, String)> = Vec::new();
    for ((path, stamp, data), result) in listed.into_iter().zip(lists) {
        let MultiResult::Children(names) = result else { continue };
        let names: Vec<String> = names.iter().map(str::to_owned).collect();
        let looks = looks.lock();
        let is_new =
            |name: &&String| Name::read(name).is_some() && !looks.knows(&path, stamp.czxid, name);
        let new = names.iter().filter(is_new);
        unknown.extend(new.map(|name| (path.clone(), name.clone())));
        changes.changed.insert(path, Changed { stamp, data, names, read: BTreeMap::new() });
    }
    let places = unknown.iter().map(|(path, name)| Ask::data(child(path, name)));
    let places = asking.read(places.collect()).await?;
    for ((path, name), result) in unknown.into_iter().zip(places) {
        if let (MultiResult::Data(_, stat), Some(changed)) =
            (result, changes.changed.get_mut(&path))
        {
            changed.read.insert(name, Znode::from(&stat));
        }
    }
    Ok((changes, asking.requests))
}

/// A read that is to be made.
struct Ask {
    op: MultiReadOp,
    path_bytes: usize,
    /// About how many bytes its answer takes, as far as that is known before.
    answer_bytes: usize,
}

impl Ask {
    fn data(path: String) -> Self {
        let path_bytes = path.len();
        Self { op: MultiReadOp::GetData(path.into()), path_bytes, answer_bytes: 0 }
    }

    fn children(path: &str, stamp: Stamp) -> Self {
        let (path_bytes, answer_bytes) = (path.len(), list_bytes(stamp.children));
        Self { op: MultiReadOp::GetChildren(path.into()), path_bytes, answer_bytes }
    }
}

struct Asking<'a> {
    client: &'a Client,
    turns: Interval,
    /// How many reads the next request has.
    batch: usize,
    requests: u32,
}

impl<'a> Asking<'a> {
    fn new(client: &'a Client, rate: u32) -> Self {
        let mut turns = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { client, turns, batch: QUICK_BATCH, requests: 0 }
    }

    async fn read(&mut self, asked: Vec<Ask>) -> Result<Vec<MultiResult>, Error> {
        let mut results = Vec::with_capacity(asked.len());
        let mut asked = asked.into_iter().peekable();
        while asked.peek().is_some() {
            let mut request = Request::of(self.batch);
            let mut ops = Vec::new();
            while let Some(ask) =
                asked.next_if(|ask| request.takes(ask.path_bytes, ask.answer_bytes))
            {
                ops.push(ask.op);
            }
            self.turns.tick().await;
            self.requests += 1;
            let answered = self.client.multi_read(ops).await?;
            self.batch = next_batch(self.batch, &answered);
            results.extend(answered);
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use zoolet_protocol::{CreateMode, SessionId};
    use zoolet_testkit::TestServer;

    use super::*;
    use crate::doctor::scan::{Scan, ScanOptions};
    use crate::doctor::sessions::Sessions;

    const OPTIONS: ScanOptions =
        ScanOptions { rate: 100_000, znodes_max: 1_000, children_max: 1_000, frame_bytes: 1 << 20 };

    /// A console that has read the whole tree with its own client.
    struct Scene {
        looks: Mutex<Looks>,
        console: Client,
        hosts: String,
        _server: TestServer,
    }

    impl Scene {
        async fn new() -> Self {
            let server = TestServer::builder().tcp().start().await.unwrap();
            let hosts = server.address().unwrap().to_string();
            let console = Client::connect(hosts.clone()).await.unwrap();
            let looks = Mutex::new(Looks::new("/", OPTIONS));
            Self { looks, console, hosts, _server: server }
        }

        async fn client(&self) -> Client {
            Client::connect(self.hosts.clone()).await.unwrap()
        }

        async fn slow(&self) {
            let tree = Scan::new(&self.console, OPTIONS).tree("/").await.unwrap();
            let tree = Some((tree, Duration::from_millis(1)));
            self.looks.lock().take_slow(tree, Sessions::default(), SessionId::NONE, None);
        }

        async fn quick(&self) -> Changes {
            look(&self.looks, &self.console).await.unwrap().0
        }

        fn take(&self, changes: Changes) {
            self.looks.lock().take_quick(changes);
        }

        /// The first place of the lock `/x`, and how many hand-overs were counted.
        fn first(&self) -> (Value, Value) {
            let state: Value = serde_json::from_str(&self.looks.lock().model().snapshot()).unwrap();
            let place = state["locks"]["/x\nmutex"]["places"][0].clone();
            (place, state["totals"]["hand_overs"].clone())
        }
    }

    async fn enter(client: &Client) -> String {
        let created = client.create("/x/lock-").mode(CreateMode::EphemeralSequential).await;
        created.unwrap().path.to_string()
    }

    #[tokio::test]
    async fn a_directory_created_again_has_none_of_the_znodes_that_were_known() {
        let scene = Scene::new().await;
        let (a, b) = (scene.client().await, scene.client().await);
        a.create("/x").await.unwrap();
        let earlier = enter(&a).await;
        scene.slow().await;
        assert_eq!(scene.first().0["session"], a.session_id().to_string());
        a.delete(&earlier).await.unwrap();
        a.delete("/x").await.unwrap();
        b.create("/x").await.unwrap();
        assert_eq!(enter(&b).await, earlier, "it has the same name");
        scene.take(scene.quick().await);
        assert_eq!(scene.first().0["session"], b.session_id().to_string());
    }

    #[tokio::test]
    async fn a_quick_look_changes_nothing_that_a_slow_one_has_seen_later() {
        let scene = Scene::new().await;
        let (a, b) = (scene.client().await, scene.client().await);
        a.create("/x").await.unwrap();
        let first = enter(&a).await;
        scene.slow().await;
        let second = enter(&b).await;
        let earlier = scene.quick().await;
        a.delete(&first).await.unwrap();
        b.delete(&second).await.unwrap();
        let third = enter(&a).await;
        scene.slow().await;
        let known = scene.first();
        scene.take(earlier);
        assert_eq!(scene.first(), known);
        scene.take(scene.quick().await);
        assert_eq!(scene.first(), known);
        // Now the slow look sees that nobody has it.
        let fourth = enter(&b).await;
        let earlier = scene.quick().await;
        a.delete(&third).await.unwrap();
        b.delete(&fourth).await.unwrap();
        scene.slow().await;
        scene.take(earlier);
        assert_eq!(scene.first().0, Value::Null);
        // It is still looked at, though.
        enter(&b).await;
        scene.take(scene.quick().await);
        assert_eq!(scene.first().0["session"], b.session_id().to_string());
    }

    #[tokio::test]
    async fn a_directory_that_a_slow_look_has_seen_created_again_stays() {
        let scene = Scene::new().await;
        let (a, b) = (scene.client().await, scene.client().await);
        a.create("/x").await.unwrap();
        let first = enter(&a).await;
        scene.slow().await;
        enter(&a).await;
        let changed = scene.quick().await;
        a.delete(&first).await.unwrap();
        a.delete("/x/lock-0000000001").await.unwrap();
        a.delete("/x").await.unwrap();
        let gone = scene.quick().await;
        b.create("/x").await.unwrap();
        enter(&b).await;
        scene.slow().await;
        let known = scene.first();
        assert_eq!(known.0["session"], b.session_id().to_string());
        for earlier in [changed, gone] {
            scene.take(earlier);
            assert_eq!(scene.first(), known);
        }
    }

    #[tokio::test]
    async fn a_list_that_has_become_too_long_is_not_read() {
        let scene = Scene::new().await;
        let client = scene.client().await;
        client.create("/x").await.unwrap();
        enter(&client).await;
        scene.slow().await;
        let names = (0..OPTIONS.children_max).map(|number| format!("/x/other-{number}"));
        let sent: Vec<_> = names.map(|path| client.create(&path).send()).collect();
        for created in sent {
            created.await.unwrap();
        }
        let changes = scene.quick().await;
        assert!(changes.changed.is_empty() && changes.gone.len() == 1, "{changes:?}");
        scene.take(changes);
        assert_eq!(scene.first().0, Value::Null);
    }

    /// Together they would be longer than what a server accepts.
    #[tokio::test]
    async fn locks_with_very_long_paths_are_looked_at() {
        let scene = Scene::new().await;
        let client = scene.client().await;
        let paths = ["a", "b", "c", "d"].map(|letter| format!("/{}", letter.repeat(400 << 10)));
        let enter = async |path: &String| {
            let place = client.create(&format!("{path}/lock-"));
            place.mode(CreateMode::EphemeralSequential).await.unwrap();
        };
        for path in &paths {
            client.create(path).await.unwrap();
            enter(path).await;
        }
        scene.slow().await;
        for path in &paths {
            enter(path).await;
        }
        assert_eq!(scene.quick().await.changed.len(), paths.len());
    }
}
