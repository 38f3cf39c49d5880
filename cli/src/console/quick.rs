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
use zoolet_protocol::{ErrorCode, MultiReadOp, MultiResult};

use super::limits::{QUICK_BATCH, QUICK_CANDIDATES};
use super::look::Looks;
use crate::doctor::survey::{LockDirectory, Stamp, child};

/// What a quick look has found.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Znodes that are gone.
    pub(super) gone: Vec<String>,
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

    pub(super) fn apply(self, lock: &mut LockDirectory) {
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
        lock.stamp = if has_all { self.stamp } else { Stamp::default() };
    }
}

/// Looks once. Returns what has changed, and how many requests that took.
///
/// # Errors
///
/// Those of any read; `UNIMPLEMENTED` from servers before 3.6.
pub(super) async fn look(looks: &Mutex<Looks>, client: &Client) -> Result<(Changes, u32), Error> {
    let (watched, rate) = {
        let mut looks = looks.lock();
        (looks.watched(QUICK_CANDIDATES), looks.options.rate)
    };
    let mut asking = Asking::new(client, rate);
    let mut changes = Changes::default();
    let heads = watched.iter().map(|path| MultiReadOp::GetData(path.as_str().into())).collect();
    let mut listed: Vec<(String, Stamp, Bytes)> = Vec::new();
    for (path, result) in watched.into_iter().zip(asking.read(heads).await?) {
        match result {
            MultiResult::Data(data, stat) => {
                let stamp = Stamp::from(&stat);
                if looks.lock().is_changed(&path, stamp) != Some(true) {
                    continue;
                }
                let data = data.unwrap_or_default();
                if stat.num_children == 0 {
                    changes.changed.insert(path, Changed::emptied(stamp, data));
                } else {
                    listed.push((path, stamp, data));
                }
            }
            MultiResult::Error(ErrorCode::NO_NODE) => changes.gone.push(path),
            _ => {}
        }
    }
    let lists = listed.iter().map(|(path, ..)| MultiReadOp::GetChildren(path.as_str().into()));
    let lists = asking.read(lists.collect()).await?;
    let mut unknown: Vec<(String, String)> = Vec::new();
    for ((path, stamp, data), result) in listed.into_iter().zip(lists) {
        let MultiResult::Children(names) = result else { continue };
        let names: Vec<String> = names.iter().map(str::to_owned).collect();
        let looks = looks.lock();
        let new =
            names.iter().filter(|name| Name::read(name).is_some() && !looks.knows(&path, name));
        unknown.extend(new.map(|name| (path.clone(), name.clone())));
        changes.changed.insert(path, Changed { stamp, data, names, read: BTreeMap::new() });
    }
    let places = unknown.iter().map(|(path, name)| MultiReadOp::GetData(child(path, name).into()));
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

struct Asking<'a> {
    client: &'a Client,
    turns: Interval,
    requests: u32,
}

impl<'a> Asking<'a> {
    fn new(client: &'a Client, rate: u32) -> Self {
        let mut turns = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { client, turns, requests: 0 }
    }

    async fn read(&mut self, mut ops: Vec<MultiReadOp>) -> Result<Vec<MultiResult>, Error> {
        let mut results = Vec::with_capacity(ops.len());
        while !ops.is_empty() {
            let rest = ops.split_off(ops.len().min(QUICK_BATCH));
            self.turns.tick().await;
            self.requests += 1;
            results.extend(self.client.multi_read(ops).await?);
            ops = rest;
        }
        Ok(results)
    }
}
