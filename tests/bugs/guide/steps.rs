//! The tests of the guide, one for each step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use zoolet::client::Client;
use zoolet::sim::{Held, Sim};
use zoolet::testing::{Fate, TestEnsemble, TestServer};

use super::Lock;

pub(crate) type TestResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Another client waits until the lock is released.
pub(crate) async fn one_at_a_time() -> TestResult {
    let server = TestServer::start().await?; // in this process: no port, no Java
    let (one, other) = (server.connect().await?, server.connect().await?);
    let session = other.session_id();
    let lock = Lock::acquire(&one, "/locks/stock").await?;
    let waiting = tokio::spawn(async move { Lock::acquire(&other, "/locks/stock").await });
    server.wait_until(|stats| stats.session(session).watches > 0).await;
    assert!(!waiting.is_finished(), "it is held");
    lock.release().await?;
    waiting.await??.release().await?;
    Ok(())
}

/// The next client acquires the lock of one whose network is down, after its session timeout.
pub(crate) async fn the_network_of_a_holder_is_down() -> TestResult {
    let server = TestServer::start().await?;
    let (one, other) = (server.connect().await?, server.connect().await?);
    let _lock = Lock::acquire(&one, "/locks/stock").await?;
    server.session(one.session_id()).freeze()?;
    let next = Lock::acquire(&other, "/locks/stock").await?;
    assert!(next.is_held());
    Ok(())
}

/// Each reply is lost once. Whatever comes of it, another client acquires the lock afterwards.
pub(crate) async fn any_reply_may_be_lost() -> TestResult {
    let minute = Duration::from_secs(60);
    for lost in 1.. {
        let server = TestServer::start().await?;
        let (one, other) = (server.connect().await?, server.connect().await?);
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        server.session(one.session_id()).decide(move |_request| {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            if number == lost { Fate::CutReply } else { Fate::Pass }
        })?;
        let round = async { Lock::acquire(&one, "/locks/stock").await?.release().await };
        let _ = timeout(minute, round).await; // it may fail
        if requests.load(Ordering::Relaxed) < lost {
            return Ok(());
        }
        let next = timeout(minute, Lock::acquire(&other, "/locks/stock")).await;
        assert!(next.is_ok(), "the reply to request {lost} was lost: nobody can acquire the lock");
    }
    Ok(())
}

impl Held for Lock {
    fn is_held(&self) -> bool {
        self.is_held()
    }
}

/// Three machines, and everything that can go wrong.
pub(crate) fn stock() -> Sim {
    Sim::new().machine("worker", 3, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            let lock = Lock::acquire(&client, "/locks/stock").await?;
            let section = world.enter("stock", lock); // nobody else may be in it
            world.sleep_up_to(Duration::from_millis(300)).await;
            section.leave().release().await?;
        }
        Ok(())
    })
}

/// The server of a holder is cut off from the others. It answers pings, and does not know yet.
pub(crate) async fn the_server_of_a_holder_is_cut_off() -> TestResult {
    let ensemble = TestEnsemble::builder().sync_limit(60).start().await?; // half a minute
    let builder = || Client::builder().session_timeout(Duration::from_secs(4));
    let one = builder().connect(ensemble.server(1).dialer()).await?;
    let other = builder().connect(ensemble.server(2).dialer()).await?;
    let lock = Lock::acquire(&one, "/locks/stock").await?;
    ensemble.server(1).cut_off();
    let next = Lock::acquire(&other, "/locks/stock").await?;
    assert!(next.is_held() && !lock.is_held(), "both believe that they hold the lock");
    Ok(())
}
