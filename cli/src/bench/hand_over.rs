//! A line of clients that wait for a lock, and the hand-over from one to the next.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zoolet_client::Client;
use zoolet_recipes::{InterProcessLock, LockGuard};

use super::clock::{Instant, now};
use super::exclusion::Exclusion;
use super::failure::Failure;
use super::lock_algorithm::LockAlgorithm;
use super::server::{BenchServer, unpanicked};

/// How many clients enter the line at once: each of them lists the whole line.
const ENTER_TOGETHER: usize = 32;

/// The client that holds the lock.
struct Held {
    member: usize,
    guard: Box<dyn LockGuard>,
    at: Instant,
}

/// The clients that hold the lock in turn.
pub(super) struct Line<'a> {
    server: &'a BenchServer,
    exclusion: Exclusion,
    holders: mpsc::UnboundedReceiver<Result<Held, Failure>>,
    holder: Held,
    /// Tells each member to acquire again.
    members: Vec<mpsc::UnboundedSender<()>>,
    tasks: JoinSet<()>,
}

impl<'a> Line<'a> {
    /// Starts the line. On return the first client holds the lock and the others wait for it.
    pub(super) async fn start(
        server: &'a BenchServer,
        kind: LockAlgorithm,
        path: &str,
        clients: &[Client],
    ) -> Result<Self, Failure> {
        let (held, mut holders) = mpsc::unbounded_channel();
        let exclusion = Exclusion::default();
        let (mut members, mut tasks) = (Vec::new(), JoinSet::new());
        let mut enter = |client: &Client| -> Result<(), Failure> {
            let lock = kind.lock(client, path)?;
            let (go_on, may_go_on) = mpsc::unbounded_channel();
            let (member, held, exclusion) = (members.len(), held.clone(), exclusion.clone());
            members.push(go_on);
            tasks.spawn(take_turns(lock, member, held, may_go_on, exclusion));
            Ok(())
        };
        let (first, others) = clients.split_first().expect("somebody holds the lock");
        enter(first)?;
        let holder = server.in_time(next(&mut holders)).await??;
        for together in others.chunks(ENTER_TOGETHER) {
            let before = server.carried();
            together.iter().try_for_each(&mut enter)?;
            server.asked_since(before).await?;
            server.rest().await?;
        }
        Ok(Self { server, exclusion, holders, holder, members, tasks })
    }

    /// Hands the lock over: the holder releases, the next client acquires, and the last holder enters the line
    /// again. Returns the time from the call to release until the next client knows that it holds the lock.
    pub(super) async fn hand_over(mut self) -> Result<(Self, Duration), Failure> {
        let Held { member, guard, .. } = self.holder;
        self.exclusion.leave();
        // In a task, as the request beside it (`round_trips`): what the runtime blocks on has a thread of its own, which
        // the reply would have to wake.
        let released = tokio::spawn(async move {
            let start = now();
            guard.release().await.map(|()| start)
        });
        let released = async { Ok::<_, Failure>(unpanicked(released.await)?) };
        let both = async { tokio::try_join!(released, next(&mut self.holders)) };
        let (start, next) = self.server.in_time(both).await??;
        self.holder = next;
        let time = self.holder.at.saturating_duration_since(start);
        self.server.rest().await?;
        let before = self.server.carried();
        // A member receives messages while it does not wait for the lock.
        let _ = self.members[member].send(());
        self.server.asked_since(before).await?;
        self.server.rest().await?;
        Ok((self, time))
    }

    /// Ends the line.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        self.tasks.shutdown().await;
        drop(self.holder);
        self.server.settle().await?;
        self.exclusion.check()
    }
}

async fn next(
    holders: &mut mpsc::UnboundedReceiver<Result<Held, Failure>>,
) -> Result<Held, Failure> {
    holders.recv().await.expect("those who wait can tell of it")
}

/// Acquires the lock, reports it, and starts again when it is told to.
async fn take_turns(
    lock: Box<dyn InterProcessLock>,
    member: usize,
    holders: mpsc::UnboundedSender<Result<Held, Failure>>,
    mut may_go_on: mpsc::UnboundedReceiver<()>,
    exclusion: Exclusion,
) {
    loop {
        let held = lock.acquire().await.map(|guard| {
            let at = now();
            exclusion.enter(&*guard);
            Held { member, guard, at }
        });
        let is_over = held.is_err();
        let is_told = holders.send(held.map_err(Failure::from)).is_ok();
        if is_over || !is_told || may_go_on.recv().await.is_none() {
            return;
        }
    }
}
