//! Power is lost at every byte that is written and before and after everything else that changes
//! the disk, while a server starts, writes, takes snapshots, begins logs and deletes old files. What
//! was durable must be there again, nothing by halves, and the server must go on.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use zoolet_core::{ConnectionId, Requester};
use zoolet_protocol::{
    Acl, Check, Create, CreateFlags, CreateKind, Delete, Expect, Id, MultiOp, Permissions,
    SessionId, SetAcl, SetData, Write, Xid,
};

use super::*;
use crate::storage::{SimDisk, write_snapshot};

/// The writes of a workload.
const WRITES: u64 = 60;

/// As many crash points at least.
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

fn open(disk: &SimDisk) -> Result<(Journal, Core), StorageError> {
    Journal::open(&config(disk), &Settings::default())
}

/// A server as far as a disk can tell: it decides, keeps, and carries out.
struct Keeper {
    journal: Journal,
    core: Core,
}

impl Keeper {
    fn open(disk: &SimDisk) -> Option<Self> {
        let (journal, core) = open(disk).ok()?;
        Some(Self { journal, core })
    }

    /// The `number`th write of the workload, whatever was lost before.
    fn write(&mut self, number: u64) {
        let mut rng = Rng::with_seed(number);
        let txn = decide(&self.core, number, &mut rng);
        self.journal.append(&txn);
        self.core.apply(&txn);
        if self.journal.wants_snapshot() {
            self.journal.take_snapshot(self.core.freeze());
        }
    }

    /// The last write that somebody may have been told of.
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

/// What outlives a restart, to be compared.
fn state(core: &Core) -> Vec<u8> {
    let mut state = Vec::new();
    write_snapshot(&core.freeze(), &mut state).expect("memory takes it");
    state
}

/// A run that nothing interrupts: the state after each zxid, and the steps that it took.
fn undisturbed() -> (BTreeMap<Zxid, Vec<u8>>, u64) {
    let disk = SimDisk::default();
    let mut keeper = Keeper::open(&disk).expect("an empty disk");
    let mut states = BTreeMap::from([(Zxid::ZERO, state(&keeper.core))]);
    for number in 0..WRITES {
        keeper.write(number);
        assert_eq!(keeper.acknowledged(), keeper.core.last_zxid(), "it is written at once");
        states.insert(keeper.core.last_zxid(), state(&keeper.core));
    }
    drop(keeper.journal.close());
    (states, disk.steps())
}

/// Starts again after the power went, perhaps several times, and returns what is there then.
fn restart(disk: &SimDisk, rng: &mut Rng) -> Keeper {
    for _ in 0..2 {
        if rng.u8(..3) == 0 {
            // Not the power went, but the process: what it wrote is there, and on no disk.
            disk.kill_process();
        } else {
            disk.restore_power(rng.u64(..));
        }
        if rng.bool() {
            break;
        }
        // It goes while the server starts, too.
        disk.lose_power_after(disk.steps() + rng.u64(..400));
        if let Some(keeper) = Keeper::open(disk)
            && !disk.has_lost_power()
        {
            drop(keeper);
        }
        disk.restore_power(rng.u64(..));
    }
    match open(disk) {
        Ok((journal, core)) => Keeper { journal, core },
        Err(error) => panic!("the server does not start: {error}"),
    }
}

/// Loses the power at a point, and once more later.
fn lose_power_at(point: u64, states: &BTreeMap<Zxid, Vec<u8>>) {
    let disk = SimDisk::default();
    disk.lose_power_after(point);
    let mut acknowledged = Zxid::ZERO;
    if let Some(mut keeper) = Keeper::open(&disk) {
        for number in (0..WRITES).take_while(|_| !disk.has_lost_power()) {
            keeper.write(number);
        }
        acknowledged = keeper.acknowledged();
    }
    let mut rng = Rng::with_seed(point);
    let mut keeper = restart(&disk, &mut rng);
    let reached = keeper.core.last_zxid();
    assert!(reached >= acknowledged, "point {point}: {acknowledged} is lost at {reached}");
    assert!(state(&keeper.core) == states[&reached], "point {point}: another state");

    // It goes on, is stopped anywhere again, and still nothing is lost.
    disk.lose_power_after(disk.steps() + rng.u64(..2_000));
    let mut later = BTreeMap::from([(reached, state(&keeper.core))]);
    for number in (0..12).take_while(|_| !disk.has_lost_power()) {
        keeper.write(1_000 + number);
        later.insert(keeper.core.last_zxid(), state(&keeper.core));
    }
    let acknowledged = keeper.acknowledged();
    drop(keeper);
    let keeper = restart(&disk, &mut rng);
    let reached = keeper.core.last_zxid();
    assert!(reached >= acknowledged, "point {point}, again: {acknowledged} lost at {reached}");
    assert!(state(&keeper.core) == later[&reached], "point {point}, again: another state");
}

#[test]
fn nothing_acknowledged_is_lost_wherever_the_power_goes() {
    let (states, steps) = undisturbed();
    assert!(steps > POINTS_MIN, "{steps} steps");
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        for first in 0..threads {
            let states = &states;
            scope.spawn(move || {
                (first..steps).step_by(threads as usize).for_each(|at| lose_power_at(at, states));
            });
        }
    });
    println!("the power was lost at {steps} points, and at some later one each");
}
