//! The faults: of each client's connections, and of the members of an ensemble.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_conformance::ensemble::{Ensemble, MEMBERS};
use zoolet_conformance::proxy::Proxy;

use super::{World, now};

/// The longest time that connections are silent before they are cut.
const SILENT_MS_MAX: u64 = 5_000;
const REFUSED_MS_MAX: u64 = 3_000;

/// The longest delays in one direction: of a slow link, and of a fast one.
const SLOW_MS_MAX: u64 = 150;
const FAST_MS_MAX: u64 = 3;

/// How long a member is down, cut off, or lags.
const FAULT_MS: std::ops::Range<u64> = 500..9_000;
/// The time between two faults of an ensemble.
const PAUSE_MS: std::ops::Range<u64> = 0..4_000;

/// Disturbs the connections of one client until the run is over.
pub(crate) async fn disturb_connections(world: Arc<World>, proxies: Vec<Arc<Proxy>>) {
    while !world.is_over() {
        world.pause(Duration::from_millis(fastrand::u64(50..5_000))).await;
        let proxy = &proxies[fastrand::usize(..proxies.len())];
        match fastrand::u8(..8) {
            0 | 1 => proxies.iter().for_each(|proxy| proxy.cut()),
            2 => {
                proxies.iter().for_each(|proxy| proxy.deafen());
                world.pause(Duration::from_millis(fastrand::u64(0..SILENT_MS_MAX))).await;
                proxies.iter().for_each(|proxy| proxy.cut());
            }
            3 => {
                proxies.iter().for_each(|proxy| proxy.hold_answers(true));
                world.pause(Duration::from_millis(fastrand::u64(0..SILENT_MS_MAX))).await;
                proxies.iter().for_each(|proxy| proxy.hold_answers(false));
            }
            4 => {
                proxies.iter().for_each(|proxy| proxy.refuse(true));
                proxies.iter().for_each(|proxy| proxy.cut());
                world.pause(Duration::from_millis(fastrand::u64(0..REFUSED_MS_MAX))).await;
                proxies.iter().for_each(|proxy| proxy.refuse(false));
            }
            _ => {
                let most = if fastrand::bool() { SLOW_MS_MAX } else { FAST_MS_MAX };
                proxy.delay(Duration::from_millis(fastrand::u64(0..=most)));
            }
        }
    }
    clear(&proxies);
}

/// Ends all faults.
pub(crate) fn clear(proxies: &[Arc<Proxy>]) {
    for proxy in proxies {
        proxy.refuse(false);
        proxy.hold_answers(false);
        proxy.delay(Duration::ZERO);
        proxy.cut();
    }
}

/// Disturbs the members of an ensemble until the run is over. Returns when all members work
/// together again.
pub(crate) async fn disturb_members(
    world: Arc<World>,
    ensemble: &mut Ensemble,
) -> Result<(), Failed> {
    let mut fault_count = 0;
    while !world.is_over() {
        world.pause(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
        let leader = ensemble.leader();
        let member = match leader {
            Some(leader) if fastrand::bool() => leader,
            _ => fastrand::usize(..MEMBERS),
        };
        let is_leader = leader == Some(member);
        let fault = fastrand::u8(..4);
        let what = ["killed", "cut off", "severed or made to lag", "killed"][usize::from(fault)];
        let time = Duration::from_millis(fastrand::u64(FAULT_MS));
        println!("{} (leads: {is_leader}) is {what} for {time:?}", member + 1);
        match fault {
            1 => ensemble.network().cut_off(member),
            2 if is_leader => ensemble.network().sever(member),
            2 => ensemble.network().lag(member),
            _ => ensemble.kill(member),
        }
        world.pause(time).await;
        match fault {
            1 | 2 => ensemble.network().heal(),
            _ => ensemble.restart(member)?,
        }
        fault_count += 1;
        // The next fault may come before the ensemble has recovered, but not with two members down.
        let from = now();
        while !ensemble.is_whole() && now() < from + Duration::from_secs(40) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    println!("{fault_count} faults");
    ensemble.network().heal();
    ensemble.await_all()?;
    Ok(())
}
