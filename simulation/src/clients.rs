//! The clients of a run: they start, their links suffer faults, and they finish.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinHandle;
use zoolet_testkit::sim::parts::{Link, Network};

use super::locks::{FENCED, fence};
use super::observer::Observer;
use super::options::{Options, Part};
use super::plain::REGISTERS;
use super::tree::FENCES;
use super::worker::{Common, Worker};

/// How long all clients may take to finish after the faults.
const FINISH_LIMIT: Duration = Duration::from_secs(180);
/// How long clean-up in the background may take.
pub(crate) const BACKGROUND_LIMIT: Duration = Duration::from_secs(5);

/// All clients of a run.
pub(crate) struct Clients {
    common: Arc<Common>,
    links: Vec<Link>,
    workers: Vec<JoinHandle<Worker>>,
    faults: Vec<JoinHandle<()>>,
}

/// Creates the znodes that all clients use.
pub(crate) async fn prepare(common: &Common, link: &Link) {
    let prepared = async {
        let mut observer = Observer::connect(link).await?;
        for path in ["/data", "/tree", FENCES].into_iter().chain(REGISTERS) {
            observer.create(path).await?;
        }
        for lock in FENCED {
            observer.create(&fence(lock)).await?;
        }
        observer.close().await
    };
    if prepared.await.is_none() {
        common.oracle.violation("the server does not answer");
    }
}

impl Clients {
    /// Starts all clients and the faults of their links.
    pub(crate) fn begin(common: &Arc<Common>, network: &Network, seed: u64, rng: &mut Rng) -> Self {
        let clients = common.options.clients as u64;
        let links: Vec<Link> =
            (0..clients).map(|client| network.link(0, seed ^ (client << 32), 0)).collect();
        let workers = links
            .iter()
            .enumerate()
            .map(|(name, link)| {
                let (seed, link, common) = (rng.u64(..), link.clone(), Arc::clone(common));
                tokio::spawn(async move {
                    Worker::connect(name, seed, &link, common).await.work().await
                })
            })
            .collect();
        let faults = links
            .iter()
            .map(|link| tokio::spawn(disturb(rng.fork(), link.clone(), common.options.clone())))
            .collect();
        Self { common: Arc::clone(common), links, workers, faults }
    }

    /// Ends all faults.
    pub(crate) fn end_faults(&self) {
        self.faults.iter().for_each(JoinHandle::abort);
        self.common.oracle.remark(|| "no faults from here".to_owned());
        self.common.are_faults_over.store(true, Ordering::Relaxed);
        self.links.iter().for_each(Link::clear);
    }

    /// Waits until all clients have finished.
    pub(crate) async fn join(self) -> Option<Vec<Worker>> {
        let oracle = &self.common.oracle;
        let mut ended = Vec::new();
        let joined = async {
            for worker in self.workers {
                ended.push(worker.await);
            }
        };
        if tokio::time::timeout(FINISH_LIMIT, joined).await.is_err() {
            let doing = self.common.doing.lock().unwrap_or_else(PoisonError::into_inner);
            oracle.violation(format!("these clients do not finish: {doing:?}"));
            return None;
        }
        let mut clients = Vec::new();
        for worker in ended {
            match worker {
                Ok(worker) => clients.push(worker),
                Err(error) => {
                    oracle.violation(format!("a client panicked: {error}"));
                    return None;
                }
            }
        }
        Some(clients)
    }
}

/// Changes each watched register once more, and checks that its watches fire.
pub(crate) async fn fire_all_watches(common: &Common, link: &Link, clients: &mut [Worker]) {
    let fired = async {
        let mut observer = Observer::connect(link).await?;
        for path in REGISTERS.into_iter().chain(["/tree"]) {
            observer.set(path, "the end").await?;
        }
        observer.close().await
    };
    if fired.await.is_none() {
        return common.oracle.violation("the server does not answer");
    }
    tokio::time::sleep(BACKGROUND_LIMIT).await;
    let fired = clients.iter_mut().map(Worker::drop_watches);
    let left: usize = fired.sum();
    if left > 0 {
        let unheard = format!("{left} watches of registers have not fired after the last change");
        common.oracle.violation(unheard);
    }
}

impl Worker {
    /// Drops all watches, and returns how many watches of registers had not fired.
    fn drop_watches(&mut self) -> usize {
        self.look_at_watches();
        self.persistent.clear();
        self.watchers.clear();
        std::mem::take(&mut self.register_watchers).len()
    }
}

/// Disturbs the link of one client again and again.
async fn disturb(mut rng: Rng, link: Link, options: Options) {
    loop {
        tokio::time::sleep(Duration::from_millis(rng.u64(..3_000))).await;
        let time = Duration::from_millis(match rng.u8(..4) {
            0 => rng.u64(..10_000),
            _ => rng.u64(..700),
        });
        let requests = rng.u64(..6);
        let delay_ms_max = rng.choice([0, 3, 30, 300]).unwrap_or(0);
        match rng.u8(..7) {
            0 if options.has(Part::Cuts) => link.cut(Duration::ZERO),
            1 if options.has(Part::Cuts) => link.cut(time),
            2 if options.has(Part::Cuts) => link.cut_after(requests),
            3 | 4 if options.has(Part::Delays) => link.delay(delay_ms_max),
            5 if options.has(Part::Silence) => link.hold(time),
            6 if options.has(Part::Refusals) => link.refuse(time),
            _ => {}
        }
    }
}
