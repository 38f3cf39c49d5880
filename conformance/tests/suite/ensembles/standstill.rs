//! The leader stands still, as during a long garbage collection, while a follower goes on to answer
//! reads. When the leader goes on it answers what has waited for it, but does not hear from the
//! follower, which is cut off at once. It ends the follower's sessions by what it knew before.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;
use zoolet_client::Client;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::quorum_network::QuorumNetwork;
use zoolet_recipes::{Guard, InterProcessMutex, LockError, LockState};

use super::Outcome;
use super::common::{Roles, block_on, close, connect, now, soon, until};

/// The session timeout of the holder, and that of the one who waits.
const SESSION_TIMEOUT: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(40);

/// For how long the leader stands still: its followers give it up after ten seconds.
const STANDSTILL: Duration = Duration::from_millis(6_500);
/// How long before the leader goes on the last write is sent to it.
const BEFORE_IT_GOES_ON: Duration = Duration::from_millis(300);

const READ_INTERVAL: Duration = Duration::from_millis(50);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How long the test observes after the other has the lock.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// What the holder does while the leader stands still. Each sends a write at last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    Acquiring,
    Holding,
}

impl Meanwhile {
    pub(crate) const ALL: [Self; 2] = [Self::Acquiring, Self::Holding];
}

/// The leader goes on, and the follower speaks to it, when this is dropped.
struct Standstill<'a>(&'a Apache, &'a QuorumNetwork);

impl Drop for Standstill<'_> {
    fn drop(&mut self) {
        let _ = self.0.go_on();
        self.1.heal();
    }
}

pub(crate) fn nobody_holds_beside_another(ensemble: &Ensemble, meanwhile: Meanwhile) -> Outcome {
    block_on(async {
        let roles = Roles::of(ensemble).await?;
        let follower = roles.a_follower();
        let other = (0..).find(|member| ![roles.leader, follower].contains(member));
        let addresses = ensemble.addresses();
        let holder = connect(addresses[follower], SESSION_TIMEOUT).await?;
        let heir = connect(addresses[other.expect("there are three")], LONG).await?;
        let path = format!("/standstill-{meanwhile:?}");
        let (lock, data) = (format!("{path}/lock"), format!("{path}/data"));
        holder.create(&data).parents(zoolet_client::Parents::Persistent).await?;
        // Then the lock takes one write.
        holder.create(&lock).await?;
        let _reading = read_on(&holder, &data);

        let held = match meanwhile {
            Meanwhile::Acquiring => None,
            Meanwhile::Holding => Some(InterProcessMutex::new(&holder, &lock)?.acquire().await?),
        };
        // The handshake proves nothing any more.
        tokio::time::sleep(SESSION_TIMEOUT + Duration::from_secs(1)).await;

        let standstill = Standstill(ensemble.process(roles.leader), ensemble.network());
        standstill.0.stand_still()?;
        tokio::time::sleep(STANDSTILL - BEFORE_IT_GOES_ON).await;
        let holding = spawn_holding(&holder, &lock, held)?;
        let written = holder.set(&data, "x").into_operation().send();
        tokio::time::sleep(BEFORE_IT_GOES_ON).await;
        standstill.1.mute(follower);
        standstill.0.go_on()?;
        soon("the reply to what was written", written).await??;
        standstill.1.cut_off(follower);

        let next = tokio::spawn(acquire(heir.clone(), lock));
        let together = watch(&holding, &next).await?;
        drop(standstill);
        soon("the lock of the other", next).await???.release().await?;
        close([holder, heir]).await;
        match together.is_zero() {
            true => Ok(()),
            false => Err(format!("two held one lock for {together:?}").into()),
        }
    })
}

/// Reads all the time, so that the follower hears from the session.
fn read_on(client: &Client, path: &str) -> AbortOnDropHandle<()> {
    let (client, path) = (client.clone(), path.to_owned());
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            drop(client.exists(&path).send());
            tokio::time::sleep(READ_INTERVAL).await;
        }
    }))
}

/// The lock of the holder, once it has it.
type Holding = Arc<std::sync::OnceLock<Guard>>;

fn spawn_holding(client: &Client, path: &str, held: Option<Guard>) -> Result<Holding, LockError> {
    let holding = Holding::default();
    match held {
        Some(guard) => drop(holding.set(guard)),
        None => {
            let (acquiring, holding) = (acquire(client.clone(), path.to_owned()), holding.clone());
            tokio::spawn(async move { acquiring.await.map(|guard| drop(holding.set(guard))) });
        }
    }
    Ok(holding)
}

async fn acquire(client: Client, path: String) -> Result<Guard, LockError> {
    InterProcessMutex::new(&client, &path)?.acquire().await
}

/// Waits until the other has had the lock for some time. Returns for how long both held it.
async fn watch(
    holding: &Holding,
    next: &tokio::task::JoinHandle<Result<Guard, LockError>>,
) -> Result<Duration, libtest_mimic::Failed> {
    until("the other has the lock", async || Ok(next.is_finished())).await?;
    let (acquired_at, mut together) = (now(), Duration::ZERO);
    while now() < acquired_at + AFTERWARDS {
        if holding.get().is_some_and(|guard| guard.state() == LockState::Held) {
            together = now() - acquired_at + LOOK_INTERVAL;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Ok(together)
}
