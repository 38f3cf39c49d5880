//! A lock holder is paused for longer than its session lives, another takes over, and the late
//! write of the first is refused by a store that remembers the last fencing token.

mod common;

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::sync::oneshot;
use zoolet::client::Client;
use zoolet::protocol::Zxid;
use zoolet::recipes::InterProcessMutex;

const LOCK: &str = "/locks/fencing-example";

/// A store apart from ZooKeeper: it takes a write only from who has no older token than the last.
#[derive(Debug)]
struct Store {
    value: &'static str,
    token: Zxid,
}

impl Store {
    fn write(&mut self, value: &'static str, token: Zxid) -> bool {
        let is_taken = token >= self.token;
        if is_taken {
            *self = Self { value, token };
        }
        println!(
            "  {value} writes with token {token}: {}",
            if is_taken { "taken" } else { "refused" }
        );
        is_taken
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// What the store has in the end, and whether it took the late write.
async fn run(arguments: Arguments) -> Result<(&'static str, bool)> {
    let stage = Stage::start(arguments).await?;
    let store = Arc::new(Mutex::new(Store { value: "nobody", token: Zxid::ZERO }));
    let (is_paused, paused) = oneshot::channel();
    let (resume, resumed) = mpsc::channel();
    // On a thread of its own, which it blocks: nothing of this client goes on meanwhile.
    let holder = tokio::task::spawn_blocking({
        let (connecting, store) = (stage.connect(), Arc::clone(&store));
        move || hold(connecting, &store, is_paused, &resumed)
    });
    let client = stage.connect().await?;
    // The holder failed before it paused if this is gone.
    if paused.await.is_ok() {
        println!("the first is paused; its session ends, and the second has the lock");
        let guard = InterProcessMutex::new(&client, LOCK)?.acquire().await?;
        write(&store, "the second", guard.fencing_token());
        println!("the first goes on, as if nothing had happened");
        resume.send(())?;
        let is_taken = holder.await??;
        guard.release().await?;
        let value = store.lock().unwrap_or_else(PoisonError::into_inner).value;
        println!("the store was last written by {value}");
        return Ok((value, is_taken));
    }
    holder.await??;
    Err("the holder ended without a pause".into())
}

/// The first holder; whether its late write was taken.
fn hold(
    connecting: impl Future<Output = Result<Client>>,
    store: &Mutex<Store>,
    is_paused: oneshot::Sender<()>,
    resumed: &mpsc::Receiver<()>,
) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connecting.await?;
        let guard = InterProcessMutex::new(&client, LOCK)?.acquire().await?;
        println!("the first has the lock");
        write(store, "the first", guard.fencing_token());
        // Nobody listens if the other has failed.
        let _ = is_paused.send(());
        resumed.recv()?;
        Ok(write(store, "the first", guard.fencing_token()))
    })
}

fn write(store: &Mutex<Store>, value: &'static str, token: Zxid) -> bool {
    store.lock().unwrap_or_else(PoisonError::into_inner).write(value, token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_store_refuses_the_late_write_of_the_paused_holder() {
        assert_eq!(run(Arguments::default()).await.unwrap(), ("the second", false));
    }
}
