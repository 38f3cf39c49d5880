//! Cuts the power at every written byte, and before and after every other change of the disk, while
//! a server starts, writes, takes snapshots, begins logs and deletes old files. Then every durable
//! transaction must be recovered, none in part, and the server must go on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use fastrand::Rng;
use zoolet_core::{ConnectionId, Requester};
use zoolet_protocol::{
    Acl, Check, Create, CreateFlags, CreateKind, Delete, Expect, Id, MultiOp, Permissions,
    SessionId, SetAcl, SetData, Write, Xid,
};

use super::*;
use crate::storage::committer::Queue;
use crate::storage::{Disk, SimDisk, write_snapshot};

/// The number of writes in a workload.
const WRITES: u64 = 60;

/// The minimum number of crash points.
const POINTS_MIN: u64 = 10_000;

fn config(disk: &SimDisk) -> StorageConfig {
    StorageConfig {
        snap_count: 9,
        log_size_limit_bytes: Some(900),
        allocate_bytes: 1_500,
        snap_retain_count: Some(2),
        disk: Arc::new(disk.clone()),
        ..StorageConfig::at("/data")
    }
}

/// When appended transactions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// At once.
    Alone,
    /// In batches of all that were appended meanwhile.
    Together,
}

/// The part of a server that uses the disk: it prepares, appends and applies transactions.
struct Keeper {
    journal: Journal,
    core: Core,
    /// The committer that writes batches, if there are any.
    committer: Option<(Arc<Queue>, Committer)>,
}

impl Keeper {
    fn open(disk: &SimDisk, mode: Mode) -> Result<Self, StorageError> {
        let mut started = None;
        let (journal, core) =
            Journal::open_with(&config(disk), &Settings::default(), |committer| match mode {
                Mode::Alone => Commits::start(committer),
                Mode::Together => {
                    let queue = committer.queue();
                    started = Some((Arc::clone(&queue), committer));
                    Ok(Commits::Queued(queue, None))
                }
            })?;
        Ok(Self { journal, core, committer: started })
    }

    /// Writes the batch.
    fn commit(&mut self) {
        if let Some((queue, committer)) = &mut self.committer {
            committer.carry_out_all(queue);
        }
    }

    /// Carries these writes out until the power is cut, and writes each batch when it is complete.
    fn write_all(&mut self, disk: &SimDisk, numbers: Range<u64>, mut decided: impl FnMut(&Core)) {
        for number in numbers.take_while(|_| !disk.has_lost_power()) {
            self.write(number);
            decided(&self.core);
            // Batches have 1 to about 20 records.
            if Rng::with_seed(!number).u8(..8) == 0 {
                self.commit();
            }
        }
        self.commit();
    }

    /// The `number`th write of the workload, which is the same whatever was lost before.
    fn write(&mut self, number: u64) {
        let mut rng = Rng::with_seed(number);
        let txn = decide(&self.core, number, &mut rng);
        self.journal.append(&txn, Origin::Client, now);
        self.core.apply(&txn);
        if self.journal.wants_snapshot() {
            self.journal.take_snapshot(self.core.freeze());
        }
    }

    /// The last write that may have been acknowledged.
    fn acknowledged(&self) -> Zxid {
        let last = self.core.last_zxid();
        (0..=last.0).rev().map(Zxid).find(|&zxid| self.journal.durable.covers(zxid)).expect("0 is")
    }
}

fn decide(core: &Core, number: u64, rng: &mut Rng) -> Txn {
    let time_ms = 1_000 + number as i64;
    let session = SessionId(1 + rng.i64(0..3));
    if !core.has_session(session) {
        return core.prepare_create_session(session, 10_000, time_ms);
    }
    let requester = Requester::new(session, ConnectionId(1), Xid(number as i32));
    let write = match rng.u8(..10) {
        0 => Write::CloseSession,
        1..3 => Write::Multi((0..rng.usize(1..4)).map(|_| op(rng)).collect()),
        3 => {
            let id = Id::new("world", "anyone");
            let acl = Some(vec![Acl { permissions: Permissions(rng.i32(1..32)), id }]);
            Write::SetAcl(SetAcl { path: path(rng).as_str().into(), acl, version: Expect::Any })
        }
        _ => Write::Op(op(rng)),
    };
    core.prepare(&write, &requester, time_ms)
}

fn path(rng: &mut Rng) -> String {
    let names = ["/a", "/b", "/c", "/a/x", "/a/y", "/b/x", "/c/n-0000000000"];
    names[rng.usize(..names.len())].to_owned()
}

fn op(rng: &mut Rng) -> MultiOp {
    let path = path(rng).as_str().into();
    match rng.u8(..8) {
        0..4 => {
            let (kind, flags) = match rng.u8(..5) {
                0 => (CreateKind::Create2, CreateFlags::EPHEMERAL),
                1 => (CreateKind::Container, CreateFlags::CONTAINER),
                2 => (CreateKind::Ttl { ttl_ms: 60_000 }, CreateFlags::PERSISTENT_WITH_TTL),
                3 => (CreateKind::Create, CreateFlags::PERSISTENT_SEQUENTIAL),
                _ => (CreateKind::Create, CreateFlags::PERSISTENT),
            };
            let data = Some(vec![rng.u8(..); rng.usize(..350)].into());
            MultiOp::Create(Create { kind, path, data, acl: Some(vec![Acl::open()]), flags })
        }
        4 => MultiOp::Delete(Delete { path, version: Expect::Any }),
        5 => MultiOp::Check(Check { path, version: Expect::Any }),
        _ => {
            let data = Some(vec![rng.u8(..); rng.usize(..90)].into());
            MultiOp::SetData(SetData { path, data, version: Expect::Any })
        }
    }
}

/// The state that survives a restart, for comparison.
fn state(core: &Core) -> Vec<u8> {
    let mut state = Vec::new();
    write_snapshot(&core.freeze(), &mut state).expect("memory takes it");
    state
}

/// A run without a crash: the state after each zxid, and the number of its steps.
fn undisturbed(mode: Mode) -> (BTreeMap<Zxid, Vec<u8>>, u64) {
    let disk = SimDisk::default();
    let mut keeper = Keeper::open(&disk, mode).expect("an empty disk");
    let mut states = BTreeMap::from([(Zxid::ZERO, state(&keeper.core))]);
    keeper.write_all(&disk, 0..WRITES, |core| drop(states.insert(core.last_zxid(), state(core))));
    assert_eq!(keeper.acknowledged(), keeper.core.last_zxid(), "all is written");
    drop(keeper.journal.close());
    (states, disk.steps())
}

/// Starts again after the crash, possibly several times, and returns the recovered state.
fn restart(disk: &SimDisk, mode: Mode, rng: &mut Rng) -> Keeper {
    for _ in 0..2 {
        if rng.u8(..3) == 0 {
            // The process was killed instead: its writes are readable, and not synced.
            disk.kill_process();
        } else {
            disk.restore_power(rng.u64(..));
        }
        if rng.bool() {
            break;
        }
        // The power is also cut while the server starts.
        disk.lose_power_after(disk.steps() + rng.u64(..400));
        if let Ok(keeper) = Keeper::open(disk, mode)
            && !disk.has_lost_power()
        {
            drop(keeper);
        }
        disk.restore_power(rng.u64(..));
    }
    Keeper::open(disk, mode).unwrap_or_else(|error| panic!("the server does not start: {error}"))
}

/// Cuts the power at a point, and once more later.
fn lose_power_at(point: u64, mode: Mode, states: &BTreeMap<Zxid, Vec<u8>>) {
    let disk = SimDisk::default();
    disk.lose_power_after(point);
    let mut acknowledged = Zxid::ZERO;
    if let Ok(mut keeper) = Keeper::open(&disk, mode) {
        keeper.write_all(&disk, 0..WRITES, |_| {});
        acknowledged = keeper.acknowledged();
    }
    let mut rng = Rng::with_seed(point);
    let mut keeper = restart(&disk, mode, &mut rng);
    let reached = keeper.core.last_zxid();
    assert!(reached >= acknowledged, "point {point}: {acknowledged} is lost at {reached}");
    assert!(state(&keeper.core) == states[&reached], "point {point}: another state");

    // The server goes on, crashes again, and still nothing durable is lost.
    disk.lose_power_after(disk.steps() + rng.u64(..2_000));
    let mut later = BTreeMap::from([(reached, state(&keeper.core))]);
    keeper.write_all(&disk, 1_000..1_012, |core| {
        later.insert(core.last_zxid(), state(core));
    });
    let acknowledged = keeper.acknowledged();
    drop(keeper);
    let keeper = restart(&disk, mode, &mut rng);
    let reached = keeper.core.last_zxid();
    assert!(reached >= acknowledged, "point {point}, again: {acknowledged} lost at {reached}");
    assert!(state(&keeper.core) == later[&reached], "point {point}, again: another state");
}

/// Cuts the power at every `stride`th point.
fn sweep(mode: Mode, stride: usize) -> u64 {
    let (states, steps) = undisturbed(mode);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for first in 0..threads {
            let states = &states;
            let points = (0..steps).step_by(stride).skip(first).step_by(threads);
            scope.spawn(move || points.for_each(|at| lose_power_at(at, mode, states)));
        }
    });
    println!("the power was lost at {} points, and at some later one each", steps / stride as u64);
    steps
}

/// All files below the directories of a configuration.
fn files(disk: &SimDisk, config: &StorageConfig) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let directories = [Some(&config.data_dir), config.data_log_dir.as_ref()];
    let below = directories.into_iter().flatten().flat_map(|above| {
        let directory = above.join("version-2");
        let names = disk.list(&directory).expect("a simulated disk lists");
        names.into_iter().map(move |name| directory.join(name))
    });
    below.map(|path| (path.clone(), disk.content(&path))).collect()
}

/// Cuts the power at each step of the first start, or kills the process there, and does so again at any
/// step of the starts after it. Then there must be what a start without a crash leaves, and survive.
fn first_start(config: &(impl Fn(&SimDisk) -> StorageConfig + Sync)) {
    let start = |disk: &SimDisk| Journal::open(&config(disk), &Settings::default());
    let whole = SimDisk::default();
    let (journal, core) = start(&whole).expect("an empty disk");
    drop(journal);
    let (steps, expected) = (whole.steps(), files(&whole, &config(&whole)));
    let txn = core.prepare_create_session(SessionId(1), 10_000, 0);
    let run = |point: u64, seed: u64| {
        let (disk, mut rng) = (SimDisk::default(), Rng::with_seed(point << 8 | seed));
        let mut until = point;
        for _ in 0..3 {
            disk.lose_power_after(disk.steps() + until);
            match start(&disk) {
                Ok(started) => drop(started),
                Err(error) => assert!(disk.has_lost_power(), "{point}, {seed}: {error}"),
            }
            match rng.u8(..3) {
                0 => disk.kill_process(),
                _ => disk.restore_power(rng.u64(..)),
            }
            until = rng.u64(..=steps);
        }
        let fails = |error| panic!("{point}, {seed}: the server does not start: {error}");
        let (mut journal, mut core) = start(&disk).unwrap_or_else(fails);
        assert!(files(&disk, &config(&disk)) == expected, "{point}, {seed}: other files");

        journal.append(&txn, Origin::Client, now);
        core.apply(&txn);
        assert!(journal.durable.covers(txn.zxid), "{point}, {seed}");
        disk.lose_power_after(disk.steps());
        drop(journal);
        disk.restore_power(seed);
        let (_, recovered) = start(&disk).unwrap_or_else(fails);
        assert!(state(&recovered) == state(&core), "{point}, {seed}: the write is lost");
    };
    std::thread::scope(|scope| {
        for first in 0..2 {
            let run = &run;
            let points = (0..=steps).skip(first).step_by(2);
            scope.spawn(move || points.for_each(|point| (0..4).for_each(|seed| run(point, seed))));
        }
    });
    assert!(steps > 1_000, "{steps} steps");
}

#[test]
fn a_first_start_leaves_a_directory_that_is_new_or_whole_wherever_it_ends() {
    first_start(&config);
}

#[test]
fn so_does_one_whose_logs_have_a_directory_of_their_own() {
    first_start(&|disk: &SimDisk| StorageConfig {
        data_log_dir: Some("/logs/of-zoolet".into()),
        ..config(disk)
    });
}

#[test]
fn so_does_one_that_creates_many_directories() {
    first_start(&|disk: &SimDisk| StorageConfig {
        data_dir: "/srv/of/some/zoolet".into(),
        ..config(disk)
    });
}

#[test]
fn no_acknowledged_write_is_lost_wherever_the_power_is_cut() {
    let steps = sweep(Mode::Alone, 1);
    assert!(steps > POINTS_MIN, "{steps} steps");
}

#[test]
fn no_acknowledged_write_is_lost_in_batches_of_many_records() {
    sweep(Mode::Together, 5);
}
