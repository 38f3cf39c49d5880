//! The clients of a run: they begin, their ways get worse, and they come to their end.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinHandle;

use super::locks::{FENCED, fence};
use super::network::{Network, Way};
use super::observer::Observer;
use super::options::{Options, Part};
use super::plain::REGISTERS;
use super::tree::FENCES;
use super::worker::{Common, Worker};

/// How long, in calm, everything may take.
const CALM_LIMIT: Duration = Duration::from_secs(180);
/// How long what goes on in the background may take.
pub(crate) const BACKGROUND_LIMIT: Duration = Duration::from_secs(5);

/// All clients that work.
pub(crate) struct Clients {
    common: Arc<Common>,
    ways: Vec<Way>,
    workers: Vec<JoinHandle<Worker>>,
    troubles: Vec<JoinHandle<()>>,
}

/// Creates what all clients use.
pub(crate) async fn prepare(common: &Common, way: &Way) {
    let prepared = async {
        let mut observer = Observer::connect(way).await?;
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
    /// All begin to work, and things begin to go wrong.
    pub(crate) fn begin(common: &Arc<Common>, network: &Network, seed: u64, rng: &mut Rng) -> Self {
        let clients = common.options.clients as u64;
        let ways: Vec<Way> =
            (0..clients).map(|client| network.way(seed ^ (client << 32))).collect();
        let workers = ways
            .iter()
            .enumerate()
            .map(|(name, way)| {
                let (seed, way, common) = (rng.u64(..), way.clone(), Arc::clone(common));
                tokio::spawn(
                    async move { Worker::connect(name, seed, &way, common).await.work().await },
                )
            })
            .collect();
        let troubles = ways
            .iter()
            .map(|way| tokio::spawn(trouble(rng.fork(), way.clone(), common.options.clone())))
            .collect();
        Self { common: Arc::clone(common), ways, workers, troubles }
    }

    /// From here on nothing goes wrong.
    pub(crate) fn calm_down(&self) {
        self.troubles.iter().for_each(JoinHandle::abort);
        self.common.oracle.remark(|| "calm".to_owned());
        self.common.is_calm.store(true, Ordering::Relaxed);
        self.ways.iter().for_each(Way::clear);
    }

    /// All come to their end.
    pub(crate) async fn join(self) -> Option<Vec<Worker>> {
        let oracle = &self.common.oracle;
        let mut ended = Vec::new();
        let joined = async {
            for worker in self.workers {
                ended.push(worker.await);
            }
        };
        if tokio::time::timeout(CALM_LIMIT, joined).await.is_err() {
            let doing = self.common.doing.lock().unwrap_or_else(PoisonError::into_inner);
            oracle.violation(format!("these clients do not come to their end: {doing:?}"));
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

/// Every watch of a register hears of its last change.
pub(crate) async fn fire_all_watches(common: &Common, way: &Way, clients: &mut [Worker]) {
    let fired = async {
        let mut observer = Observer::connect(way).await?;
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
        let unheard = format!("{left} watches of registers have not heard of the last change");
        common.oracle.violation(unheard);
    }
}

impl Worker {
    /// Drops all watches, and tells how many of registers had not fired.
    fn drop_watches(&mut self) -> usize {
        self.look_at_watches();
        self.persistent.clear();
        self.watchers.clear();
        std::mem::take(&mut self.register_watchers).len()
    }
}

/// What goes wrong on one client's way.
async fn trouble(mut rng: Rng, way: Way, options: Options) {
    loop {
        tokio::time::sleep(Duration::from_millis(rng.u64(..3_000))).await;
        let time = Duration::from_millis(match rng.u8(..4) {
            0 => rng.u64(..10_000),
            _ => rng.u64(..700),
        });
        let requests = rng.u64(..6);
        let delay_ms_max = rng.choice([0, 3, 30, 300]).unwrap_or(0);
        match rng.u8(..7) {
            0 if options.has(Part::Cuts) => way.cut(Duration::ZERO),
            1 if options.has(Part::Cuts) => way.cut(time),
            2 if options.has(Part::Cuts) => way.cut_after(requests),
            3 | 4 if options.has(Part::Delays) => way.delay(delay_ms_max),
            5 if options.has(Part::Silence) => way.hold(time),
            6 if options.has(Part::Refusals) => way.refuse(time),
            _ => {}
        }
    }
}
