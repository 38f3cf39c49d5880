//! The lock recipes: clients acquire locks in each way, hold them for a while, and release, drop or
//! lose them.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use zoolet_client::Error;
use zoolet_protocol::{Expect, MultiOp, SetData, Zxid};
use zoolet_recipes::{InterProcessSemaphoreV2, LeaderLatch, LockError, LockState};
use zoolet_testkit::ensemble::{CutOff, Notice};

use super::exclusion::{Access, Held};
use super::options::Part;
use super::tree::{FENCES, raw};
use super::worker::{MUTEXES, READ_WRITE, Worker};

const SEMAPHORE: &str = "/locks/semaphore";
const PERMITS: usize = 3;
const LEADER: &str = "/locks/leader";

/// The znode that the holder of a lock writes.
pub(crate) fn fence(path: &str) -> String {
    format!("{FENCES}/{}", path.rsplit('/').next().unwrap_or_default())
}

/// The exclusive locks, whose holders write.
pub(crate) const FENCED: [&str; 4] = [MUTEXES[0], MUTEXES[1], READ_WRITE, LEADER];

/// A write of a fencing token.
fn fenced_write(path: &str, token: Zxid) -> MultiOp {
    let data = Some(token.0.to_string().into_bytes().into());
    MultiOp::SetData(SetData { path: raw(&fence(path)), data, version: Expect::Any })
}

impl Worker {
    /// Returns what was acquired, and reports an unexpected error.
    fn acquired<T>(&self, result: Result<T, LockError>) -> Option<T> {
        match result {
            Ok(held) => Some(held),
            Err(LockError::TimedOut(_)) => {
                self.common.oracle.count("acquires timed out");
                None
            }
            Err(LockError::Lost(_)) => {
                self.common.oracle.count("locks lost");
                None
            }
            Err(LockError::PlaceLost(_)) => {
                self.common.oracle.count("places in line lost");
                None
            }
            Err(LockError::Client(
                Error::Refused { .. } | Error::ConnectionLoss { .. } | Error::NotSent { .. },
            )) => None,
            Err(error) => {
                self.common.oracle.violation(format!("client {}: {error}", self.name));
                None
            }
        }
    }

    fn patience(&mut self) -> Duration {
        let ms_max = if self.rng.bool() { 1_000 } else { 6_000 };
        Duration::from_millis(self.rng.u64(1..ms_max))
    }

    pub(crate) async fn mutex(&mut self) {
        self.common.note(self.name, "mutex");
        let place = usize::from(self.rng.u8(..4) == 0);
        let mutex = self.locks.mutexes[place].clone();
        let patience = self.patience();
        let result = match self.rng.u8(..4) {
            0 => mutex.try_acquire().await,
            1 | 2 => mutex.acquire_within(patience).await.map(Some),
            _ => mutex.acquire().await.map(Some),
        };
        if let Some(Some(guard)) = self.acquired(result) {
            self.hold(&[MUTEXES[place]], Access::Alone, Held::Guard(guard)).await;
        }
    }

    pub(crate) async fn read_write(&mut self) {
        self.common.note(self.name, "read-write lock");
        let (read, write) = (self.locks.read_write.read_lock(), self.locks.read_write.write_lock());
        let patience = self.patience();
        let is_reader = self.rng.u8(..5) < 3;
        let result = match (is_reader, self.rng.u8(..4)) {
            (true, 0) => read.try_acquire().await,
            (true, 1) => read.acquire().await.map(Some),
            (true, _) => read.acquire_within(patience).await.map(Some),
            (false, 0) => write.try_acquire().await,
            (false, 1) => write.acquire().await.map(Some),
            (false, _) => write.acquire_within(patience).await.map(Some),
        };
        let access = if is_reader { Access::Shared } else { Access::Alone };
        if let Some(Some(guard)) = self.acquired(result) {
            self.hold(&[READ_WRITE], access, Held::Guard(guard)).await;
        }
    }

    pub(crate) async fn semaphore(&mut self) {
        self.common.note(self.name, "semaphore");
        let semaphore = InterProcessSemaphoreV2::new(&self.client, SEMAPHORE, PERMITS);
        let Some(semaphore) = self.acquired(semaphore) else { return };
        let count = self.rng.usize(1..=2);
        let patience = self.patience();
        let result = match self.rng.u8(..3) {
            0 => semaphore.try_acquire(count).await,
            1 => semaphore.acquire(count).await.map(Some),
            _ => semaphore.acquire_within(count, patience).await.map(Some),
        };
        if let Some(Some(permits)) = self.acquired(result) {
            let access = Access::Permits { count, max: PERMITS };
            self.hold(&[SEMAPHORE], access, Held::Permits(permits)).await;
        }
    }

    pub(crate) async fn multi_lock(&mut self) {
        self.common.note(self.name, "multi-lock");
        let patience = self.patience();
        let result = match self.rng.u8(..3) {
            0 => self.locks.multi.try_acquire().await,
            1 => self.locks.multi.acquire().await.map(Some),
            _ => self.locks.multi.acquire_within(patience).await.map(Some),
        };
        if let Some(Some(guard)) = self.acquired(result) {
            self.hold(&MUTEXES, Access::Alone, Held::Multi(guard)).await;
        }
    }

    /// Holds a lock for a while, and writes what only its holder may write.
    async fn hold(&mut self, paths: &[&'static str], access: Access, held: Held) {
        self.common.note(self.name, "hold");
        let held = Arc::new(held);
        self.common.oracle.count(match access {
            Access::Alone => "exclusive locks held",
            Access::Shared => "shared locks held",
            Access::Permits { .. } => "permits held",
        });
        for path in paths {
            self.common.check(self.common.exclusion.enter(path, self.name, access, &held));
        }
        if self.common.ensemble.is_some() {
            self.read_as_holder(paths, &held).await;
        }
        let token = held.token();
        for _ in 0..self.rng.u32(..3) {
            let pause = Duration::from_millis(self.rng.u64(..800));
            if self.rng.bool() {
                let _ = tokio::time::timeout(pause, held.lost()).await;
            } else {
                tokio::time::sleep(pause).await;
            }
            self.common.check(self.common.exclusion.check());
            if access == Access::Alone {
                // Writes also when the lock is lost: the write must then be refused, or precede
                // those of the next holder.
                let writes = paths.iter().map(|path| fenced_write(path, token)).collect();
                self.acquired(held.transaction(writes).await);
            }
        }
        let was_lost = held.state() == LockState::Lost;
        let Some(held) = Arc::into_inner(held) else { return };
        if self.rng.u8(..3) == 0 {
            return drop(held);
        }
        self.common.note(self.name, "release");
        let released = held.release().await;
        if self.acquired(released).is_some() && was_lost {
            self.common.oracle.remark(|| "a lock that was lost is released".to_owned());
        }
    }

    /// Causes a fault just after a lock was acquired: cuts the connection, so that the client may
    /// reconnect to a member that is behind, or cuts off the member that serves the client.
    fn strike(&self, rng: &mut Rng) -> Duration {
        let Some(ensemble) = self.common.ensemble.as_ref() else { return Duration::ZERO };
        let (kind, session) = (rng.u8(..6), self.client.session_id());
        let (notice, time) = (Notice::drawn(rng), Duration::from_millis(rng.u64(..12_000)));
        if self.common.are_faults_over() {
            return Duration::ZERO;
        }
        match kind {
            0 | 1 if self.common.options.has(Part::Cuts) => {
                self.common.oracle.count("connections cut when a lock was acquired");
                self.link.cut(Duration::ZERO);
                Duration::ZERO
            }
            2 if self.common.options.has(Part::FollowersCut) => {
                ensemble
                    .change_faults(|state| state.cut_off(CutOff::ServerOf(session), notice, time));
                time
            }
            _ => Duration::ZERO,
        }
    }

    /// Reads what the holders before have written. None of it may be missing.
    async fn read_as_holder(&mut self, paths: &[&'static str], held: &Held) {
        let Some(ensemble) = self.common.ensemble.clone() else { return };
        let mut rng = self.rng.fork();
        let version = |path: &String| ensemble.inspect(|state| Some(state.committed(path)?.1));
        let paths = paths.iter().map(|path| fence(path));
        let least: Vec<_> = paths.filter_map(|path| Some((version(&path)?, path))).collect();
        let pause = self.strike(&mut rng);
        if rng.bool() {
            tokio::time::sleep(pause).await;
        } else {
            let _ = tokio::time::timeout(pause, held.lost()).await;
        }
        for (least, path) in least {
            let answer = self.client.get(&path).await;
            if held.state() == LockState::Held
                && let Ok((_, stat)) = &answer
            {
                self.common.oracle.count("reads by a holder");
                let read = stat.version;
                if read < least {
                    let stale = format!("{path}: its holder reads version {read}, not {least}");
                    self.common.oracle.violation(stale);
                }
            }
            self.take(answer);
        }
    }

    pub(crate) async fn latch(&mut self) {
        self.common.note(self.name, "latch");
        let latch = LeaderLatch::start(&self.client, LEADER, &self.name.to_string());
        let Some(latch) = self.acquired(latch) else { return };
        let latch = Arc::new(latch);
        self.common.exclusion.stand(&latch);
        let patience = self.patience();
        let term = self.acquired(latch.await_leadership_within(patience).await);
        if let Some(term) = term {
            for _ in 0..self.rng.u32(1..3) {
                self.common.oracle.count("latches that led");
                let present = latch.term().borrow().clone();
                if latch.is_leader()
                    && let Some(present) = present
                {
                    self.common.check(self.common.exclusion.lead(&present));
                }
                if self.common.ensemble.is_some() {
                    let mut rng = self.rng.fork();
                    let pause = self.strike(&mut rng);
                    tokio::time::sleep(pause).await;
                }
                tokio::time::sleep(Duration::from_millis(self.rng.u64(..800))).await;
                let write = fenced_write(LEADER, term.fencing_token());
                self.acquired(term.transaction(vec![write]).await);
            }
        }
        self.common.note(self.name, "close the latch");
        let Some(latch) = Arc::into_inner(latch) else { return };
        self.acquired(latch.close().await);
    }
}
