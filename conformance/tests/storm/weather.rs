//! The faults: of each client's connections, and of the members of an ensemble.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_conformance::ensemble::{Ensemble, MEMBERS};
use zoolet_conformance::proxy::Proxy;

use crate::{World, now};

/// How long connections stand still, at the longest, before they are cut.
const DEAF_MS_MAX: u64 = 5_000;
const REFUSED_MS_MAX: u64 = 3_000;

/// The longest delays in one direction: of a link that is slow, and of one that is quick.
const SLOW_MS_MAX: u64 = 150;
const QUICK_MS_MAX: u64 = 3;

/// For how long a member is dead, cut off, or lags.
const TROUBLE_MS: std::ops::Range<u64> = 500..9_000;
/// How long an ensemble has between two troubles.
const REST_MS: std::ops::Range<u64> = 0..4_000;

/// The connections of one client, until it is over.
pub(crate) async fn over_proxies(world: Arc<World>, proxies: Vec<Arc<Proxy>>) {
    while !world.is_over() {
        world.rest(Duration::from_millis(fastrand::u64(50..5_000))).await;
        let proxy = &proxies[fastrand::usize(..proxies.len())];
        match fastrand::u8(..8) {
            0 | 1 => proxies.iter().for_each(|proxy| proxy.cut()),
            2 => {
                proxies.iter().for_each(|proxy| proxy.deafen());
                world.rest(Duration::from_millis(fastrand::u64(0..DEAF_MS_MAX))).await;
                proxies.iter().for_each(|proxy| proxy.cut());
            }
            3 => {
                proxies.iter().for_each(|proxy| proxy.hold_answers(true));
                world.rest(Duration::from_millis(fastrand::u64(0..DEAF_MS_MAX))).await;
                proxies.iter().for_each(|proxy| proxy.hold_answers(false));
            }
            4 => {
                proxies.iter().for_each(|proxy| proxy.refuse(true));
                proxies.iter().for_each(|proxy| proxy.cut());
                world.rest(Duration::from_millis(fastrand::u64(0..REFUSED_MS_MAX))).await;
                proxies.iter().for_each(|proxy| proxy.refuse(false));
            }
            _ => {
                let most = if fastrand::bool() { SLOW_MS_MAX } else { QUICK_MS_MAX };
                proxy.delay(Duration::from_millis(fastrand::u64(0..=most)));
            }
        }
    }
    clear(&proxies);
}

/// Everything passes again.
pub(crate) fn clear(proxies: &[Arc<Proxy>]) {
    for proxy in proxies {
        proxy.refuse(false);
        proxy.hold_answers(false);
        proxy.delay(Duration::ZERO);
        proxy.cut();
    }
}

/// The members of an ensemble, until it is over. Ends when all work together again.
pub(crate) async fn over_ensemble(
    world: Arc<World>,
    ensemble: &mut Ensemble,
) -> Result<(), Failed> {
    let mut troubles = 0;
    while !world.is_over() {
        world.rest(Duration::from_millis(fastrand::u64(REST_MS))).await;
        let leader = ensemble.leader();
        let member = match leader {
            Some(leader) if fastrand::bool() => leader,
            _ => fastrand::usize(..MEMBERS),
        };
        let is_leader = leader == Some(member);
        let trouble = fastrand::u8(..4);
        let what = ["killed", "cut off", "severed or made to lag", "killed"][usize::from(trouble)];
        let time = Duration::from_millis(fastrand::u64(TROUBLE_MS));
        println!("{} (leads: {is_leader}) is {what} for {time:?}", member + 1);
        match trouble {
            1 => ensemble.network().cut_off(member),
            2 if is_leader => ensemble.network().sever(member),
            2 => ensemble.network().lag(member),
            _ => ensemble.kill(member),
        }
        world.rest(time).await;
        match trouble {
            1 | 2 => ensemble.network().heal(),
            _ => ensemble.restart(member)?,
        }
        troubles += 1;
        // A second trouble may come before the first is over, but not with two members down.
        let from = now();
        while !ensemble.is_whole() && now() < from + Duration::from_secs(40) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    println!("{troubles} troubles");
    ensemble.network().heal();
    ensemble.await_all()?;
    Ok(())
}
