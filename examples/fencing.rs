//! A lock holder is paused for longer than its session timeout, and another client acquires the
//! lock. A store that remembers the last fencing token refuses the late write of the first holder.

mod common;

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::sync::oneshot;
use zoolet::client::Client;
use zoolet::protocol::Zxid;
use zoolet::recipes::InterProcessMutex;

const LOCK: &str = "/locks/fencing-example";

/// A store apart from ZooKeeper: it refuses a write with an older token than the last one.
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

/// The last value in the store, and whether it accepted the late write.
async fn run(arguments: Arguments) -> Result<(&'static str, bool)> {
    let stage = Stage::start(arguments).await?;
    let store = Arc::new(Mutex::new(Store { value: "nobody", token: Zxid::ZERO }));
    let (is_paused, paused) = oneshot::channel();
    let (resume, resumed) = mpsc::channel();
    // A thread of its own, which the pause blocks with everything that this client does.
    let holder = tokio::task::spawn_blocking({
        let (connecting, store) = (stage.connect(), Arc::clone(&store));
        move || hold(connecting, &store, is_paused, &resumed)
    });
    let client = stage.connect().await?;
    // If this fails, the holder has failed before its pause.
    if paused.await.is_ok() {
        println!("the first is paused; its session expires, and the second acquires the lock");
        let guard = InterProcessMutex::new(&client, LOCK)?.acquire().await?;
        write(&store, "the second", guard.fencing_token());
        println!("the first resumes and does not know that it lost the lock");
        resume.send(())?;
        let is_taken = holder.await??;
        guard.release().await?;
        let value = store.lock().unwrap_or_else(PoisonError::into_inner).value;
        println!("the last write in the store is that of {value}");
        return Ok((value, is_taken));
    }
    holder.await??;
    Err("the holder ended without a pause".into())
}

/// The first holder. Returns whether the store accepted its late write.
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
        println!("the first holds the lock");
        write(store, "the first", guard.fencing_token());
        // If the receiver is gone, the other holder has failed.
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
