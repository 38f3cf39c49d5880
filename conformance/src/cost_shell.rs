//! A member of a fleet that keeps caches, moves items through queues and looks up instances of services
//! as each line of its input says, so that its time and requests can be measured.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use zoolet_client::Client;
use zoolet_recipes::CuratorCache;
use zoolet_recipes::discovery::{ServiceDiscovery, ServiceInstance, ServiceProvider};
use zoolet_recipes::queue::DistributedQueue;

use crate::fleet_member::Outcome;

/// More than any tree takes that is measured.
const CACHE_BYTES_MAX: usize = 8 << 30;

/// How many items are put at a time. Curator sends all of them without waiting.
const PUTS_AT_ONCE: usize = 64;

#[derive(Default)]
struct Held {
    caches: Vec<CuratorCache>,
    services: Option<(ServiceDiscovery<()>, ServiceProvider<()>)>,
}

/// Does what each line says: `WHAT PATH COUNT`. Prints the line when it is done, with an answer behind it
/// if there is one.
pub(crate) async fn obey(client: &Client, mut told: UnboundedReceiver<String>) -> Outcome<()> {
    let mut held = Held::default();
    while let Some(line) = told.recv().await {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, path, ..] = words[..] else { return Err(format!("{line}: no path").into()) };
        let count = words.get(2).map_or(Ok(0), |count| count.parse())?;
        match what {
            "cache" => {
                let cache = CuratorCache::builder(client, path).bytes_max(CACHE_BYTES_MAX);
                let cache = cache.start()?;
                cache.initialized().await?;
                held.caches.push(cache);
            }
            "memory" => {
                println!("{line} {}", resident_bytes()?);
                continue;
            }
            "put" => put(&DistributedQueue::new(client, path)?, count).await?,
            "take" => take(&DistributedQueue::new(client, path)?, count).await?,
            "lease" => {
                let queue = DistributedQueue::new(client, path)?;
                take(&queue.with_lock_path(&format!("{path}-leases"))?, count).await?;
            }
            "register" => held.services = Some(register(client, path, count).await?),
            "look" => {
                let (_, provider) = held.services.as_ref().ok_or("nothing is registered")?;
                for _ in 0..count {
                    provider.instance().ok_or("there is no instance")?;
                }
            }
            _ => return Err(format!("unknown line {line:?}").into()),
        }
        println!("{line}");
    }
    if let Some((discovery, _provider)) = held.services {
        // The client is closed next: what is still to be deleted would be sent after that.
        discovery.close().await?;
    }
    Ok(())
}

/// What this process has in memory.
fn resident_bytes() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line.ok_or("it has no VmRSS")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

async fn put(queue: &DistributedQueue, count: usize) -> Outcome<()> {
    let mut tasks = JoinSet::new();
    for task in 0..PUTS_AT_ONCE {
        let queue = queue.clone();
        tasks.spawn(async move {
            for number in (task..count).step_by(PUTS_AT_ONCE) {
                queue.put(format!("item {number}")).await?;
            }
            Ok::<_, zoolet_recipes::queue::QueueError>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

async fn take(queue: &DistributedQueue, count: usize) -> Outcome<()> {
    for _ in 0..count {
        queue.take().await?.done().await?;
    }
    Ok(())
}

/// Registers instances of a service, and waits until a provider has them.
async fn register(
    client: &Client,
    path: &str,
    count: usize,
) -> Outcome<(ServiceDiscovery<()>, ServiceProvider<()>)> {
    let discovery = ServiceDiscovery::<()>::start(client, path.to_owned())?;
    for number in 0..count {
        let instance = ServiceInstance::new("orders", format!("id-{number}"));
        discovery.register(instance.port(i32::try_from(number)?)).await?;
    }
    let provider = discovery.service_provider("orders").start()?;
    provider.initialized().await?;
    while provider.instances().len() < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok((discovery, provider))
}
