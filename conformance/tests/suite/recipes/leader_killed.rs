//! The leader of an ensemble is killed while clients contend.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_client::Client;
use zoolet_recipes::{InterProcessMutex, InterProcessSemaphoreV2, LockError, LockState};

use super::scene::{Inside, Scene, soon};
use super::{Outcome, Server};

const CLIENTS: usize = 6;
const PERMITS: usize = 2;
const KILLS: usize = 2;

/// How long the clients contend before and after that.
const UNDISTURBED: Duration = Duration::from_secs(1);

pub(crate) fn locks_survive_it(server: &mut Server) -> Outcome {
    let scene = Arc::new(server.scene("leader"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let contest = Contest::start(&scene).await?;
        contest.goes_on(&scene).await?;
        for _ in 0..KILLS {
            let leader = server.kill_leader()?;
            contest.goes_on(&scene).await?;
            server.restart(leader)?;
            contest.goes_on(&scene).await?;
        }
        contest.end().await?;
        scene.assert_clean().await
    })
}

/// Clients that acquire a mutex and permits in turn until the end of the scenario.
struct Contest {
    is_over: Arc<AtomicBool>,
    mutex: Arc<Inside>,
    semaphore: Arc<Inside>,
    tasks: Vec<tokio::task::JoinHandle<Outcome>>,
}

impl Contest {
    async fn start(scene: &Scene) -> Result<Self, Failed> {
        let mut contest = Self {
            is_over: Arc::default(),
            mutex: Arc::default(),
            semaphore: Arc::default(),
            tasks: Vec::new(),
        };
        for _ in 0..CLIENTS {
            let client = scene.client().await?;
            let task = contest.contend(&client, scene)?;
            contest.tasks.push(tokio::spawn(task));
        }
        Ok(contest)
    }

    fn contend(
        &self,
        client: &Client,
        scene: &Scene,
    ) -> Result<impl Future<Output = Outcome> + Send + 'static, Failed> {
        let mutex = InterProcessMutex::new(client, &scene.path("mutex"))?;
        let semaphore = InterProcessSemaphoreV2::new(client, &scene.path("permits"), PERMITS)?;
        let is_over = Arc::clone(&self.is_over);
        let (in_mutex, in_semaphore) = (Arc::clone(&self.mutex), Arc::clone(&self.semaphore));
        Ok(async move {
            while !is_over.load(Ordering::SeqCst) {
                if let Some(guard) = had(mutex.acquire().await)? {
                    in_mutex.enter(guard.fencing_token());
                    tokio::task::yield_now().await;
                    assert_ne!(guard.state(), LockState::Lost, "the session timeout was too short");
                    in_mutex.leave(1);
                    guard.release().await?;
                }
                if let Some(permits) = had(semaphore.acquire(1).await)? {
                    in_semaphore.enter_beside(1, PERMITS);
                    tokio::task::yield_now().await;
                    in_semaphore.leave(1);
                    permits.release().await?;
                }
            }
            Ok(())
        })
    }

    /// Waits until each client has acquired both once more.
    async fn goes_on(&self, scene: &Scene) -> Outcome {
        tokio::time::sleep(UNDISTURBED).await;
        let before = (self.mutex.total(), self.semaphore.total());
        let is_so = async || {
            let after = (self.mutex.total(), self.semaphore.total());
            Ok(after.0 > before.0 + CLIENTS && after.1 > before.1 + CLIENTS)
        };
        let Err(error) = scene.until("the clients continue", is_so).await else { return Ok(()) };
        let ended = self.tasks.iter().filter(|task| task.is_finished()).count();
        let mut lines = Vec::new();
        for directory in ["mutex", "permits/locks", "permits/leases"] {
            lines.push(scene.owners(&scene.path(directory)).await);
        }
        Err(format!("{error:?}: {ended} of {CLIENTS} tasks have ended, {before:?}, {lines:#?}")
            .into())
    }

    async fn end(self) -> Outcome {
        self.is_over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            soon(task).await???;
        }
        println!("{} had the mutex, {} permits", self.mutex.total(), self.semaphore.total());
        Ok(())
    }
}

/// The acquired lock. Nothing if there was no connection for too long.
fn had<T>(result: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match result {
        Err(LockError::Client(error)) if error.is_retryable() => Ok(None),
        result => result.map(Some),
    }
}
