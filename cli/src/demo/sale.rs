//! One sale: all buyers want an item at the same moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::task::JoinSet;
use zoolet_client::Client;
use zoolet_client::recipe::Publisher;
use zoolet_recipes::InterProcessLock;

use crate::bench::clock::{Instant, now};
use crate::bench::exclusion::Exclusion;
use crate::bench::failure::Failure;
use crate::bench::lock_algorithm::LockAlgorithm;
use crate::bench::server::{BenchServer, unpanicked};
use crate::bench::values::grouped;

/// How the buyers exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Act {
    /// Not at all.
    NoLock,
    /// With a lock that wakes every waiter.
    Herd,
    /// With a lock that wakes the next waiter.
    Predecessor,
}

impl Act {
    pub(super) const ALL: [Self; 3] = [Self::NoLock, Self::Herd, Self::Predecessor];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::NoLock => "without a lock",
            Self::Herd => "with a lock that wakes all",
            Self::Predecessor => "with InterProcessMutex",
        }
    }

    pub(super) fn has_lock(self) -> bool {
        self != Self::NoLock
    }

    fn lock(
        self,
        client: &Client,
        path: &str,
    ) -> Result<Option<Box<dyn InterProcessLock>>, Failure> {
        let kind = match self {
            Self::NoLock => return Ok(None),
            Self::Herd => LockAlgorithm::ExistsHerd,
            Self::Predecessor => LockAlgorithm::Predecessor,
        };
        Ok(Some(kind.lock(client, path)?))
    }
}

/// The parameters of a sale.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sale {
    pub(super) act: Act,
    pub(super) buyers: usize,
    pub(super) items: usize,
    pub(super) time_limit: Duration,
}

/// The outcome of a sale.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sold {
    #[serde(rename = "lock")]
    pub(super) act: Act,
    pub(super) sold: usize,
    /// How many more were sold than there were.
    pub(super) oversold: usize,
    /// How many buyers were served.
    pub(super) served: usize,
    /// Whether all buyers were served within the time limit.
    pub(super) is_complete: bool,
    /// After how long the stock was empty.
    pub(super) sold_out_seconds: Option<f64>,
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) events: u64,
}

/// How often the progress bar is updated.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// The counters that the buyers update.
#[derive(Debug, Default)]
struct Shop {
    sold: AtomicUsize,
    served: AtomicUsize,
    sold_out_at: OnceLock<Instant>,
}

impl Sale {
    /// Holds the sale.
    pub(super) async fn hold(self, server: &mut BenchServer) -> Result<Sold, Failure> {
        let bar = bar(self.buyers, self.act.title());
        let clients = server.clients(self.buyers).await?;
        let (stock, lock) = (server.new_path(), server.new_path());
        server.observer.create(&stock).data(self.items.to_string()).await?;
        server.settle().await?;
        let (shop, exclusion) = (Arc::new(Shop::default()), Exclusion::default());
        let open = Publisher::new(false);
        let opened = open.subscribe();
        let mut buyers = JoinSet::new();
        for client in &clients {
            let buyer = Buyer {
                client: client.clone(),
                stock: stock.clone(),
                lock: self.act.lock(client, &lock)?,
                exclusion: exclusion.clone(),
                shop: Arc::clone(&shop),
            };
            let mut opened = opened.clone();
            buyers.spawn(async move {
                // It fails if the sale has ended.
                let _ = opened.wait_for(|&is_open| is_open).await;
                buyer.buy().await
            });
        }
        let before = server.carried();
        let begin = now();
        open.send_replace(true);
        let is_complete = self.serve(server, &shop, &mut buyers, &bar).await?;
        let (seconds, carried) = (begin.elapsed().as_secs_f64(), server.carried().since(before));
        let (sold, served) = (shop.sold.load(Ordering::SeqCst), shop.served.load(Ordering::SeqCst));
        buyers.shutdown().await;
        server.settle().await?;
        exclusion.check()?;
        bar.finish_and_clear();
        Ok(Sold {
            act: self.act,
            sold,
            oversold: sold.saturating_sub(self.items),
            served,
            is_complete,
            sold_out_seconds: shop.sold_out_at.get().map(|&at| (at - begin).as_secs_f64()),
            seconds,
            requests: carried.requests,
            events: carried.events,
        })
    }

    /// Waits until all buyers are served, and returns whether that was within the time limit.
    async fn serve(
        self,
        server: &BenchServer,
        shop: &Shop,
        buyers: &mut JoinSet<Result<(), Failure>>,
        bar: &ProgressBar,
    ) -> Result<bool, Failure> {
        let before = server.carried();
        let mut tell = tokio::time::interval(TELL_INTERVAL);
        let mut over = std::pin::pin!(tokio::time::sleep(self.time_limit));
        loop {
            tokio::select! {
                bought = buyers.join_next() => match bought {
                    Some(bought) => unpanicked(bought)?,
                    None => return Ok(true),
                },
                _ = tell.tick() => {
                    bar.set_position(shop.served.load(Ordering::Relaxed) as u64);
                    let sold = grouped(shop.sold.load(Ordering::Relaxed) as f64);
                    let events = grouped(server.carried().since(before).events as f64);
                    let title = self.act.title();
                    let items = grouped(self.items as f64);
                    bar.set_message(format!("{title}: {sold} sold of {items}, {events} events"));
                }
                () = &mut over => return Ok(false),
            }
        }
    }
}

struct Buyer {
    client: Client,
    stock: String,
    lock: Option<Box<dyn InterProcessLock>>,
    exclusion: Exclusion,
    shop: Arc<Shop>,
}

impl Buyer {
    async fn buy(self) -> Result<(), Failure> {
        let guard = match &self.lock {
            Some(lock) => {
                let guard = lock.acquire().await?;
                self.exclusion.enter(&*guard);
                Some(guard)
            }
            None => None,
        };
        if self.take_one().await? {
            self.shop.sold.fetch_add(1, Ordering::SeqCst);
        }
        self.shop.served.fetch_add(1, Ordering::SeqCst);
        if let Some(guard) = guard {
            self.exclusion.leave();
            guard.release().await?;
        }
        Ok(())
    }

    /// Reads the stock and writes what is left of it. Only correct without another buyer in between.
    async fn take_one(&self) -> Result<bool, Failure> {
        let (data, _) = self.client.get(&self.stock).await?;
        let left: Option<usize> =
            std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok());
        let left = left.expect("a number was written there");
        if left == 0 {
            return Ok(false);
        }
        self.client.set(&self.stock, (left - 1).to_string()).await?;
        if left == 1 {
            self.shop.sold_out_at.get_or_init(now);
        }
        Ok(true)
    }
}

/// A progress bar on stderr, if that is a terminal.
fn bar(buyers: usize, title: &'static str) -> ProgressBar {
    let style = "{spinner} {bar:30} {human_pos}/{human_len} served {elapsed} {wide_msg}";
    let style = ProgressStyle::with_template(style).expect("the template is right");
    let bar = ProgressBar::new(buyers as u64).with_style(style).with_message(title);
    bar.enable_steady_tick(TELL_INTERVAL);
    bar
}
