//! A line of ephemeral sequential znodes, as in ZooKeeper's recipe for locks. The programs that use it are
//! right in this, and wrong elsewhere.

#![allow(clippy::disallowed_methods, reason = "the clock of a simulated world is tokio's")]

use tokio::time::Instant;
use zoolet::client::{Client, Error};
use zoolet::protocol::{ErrorCode, SessionId};
use zoolet::sim::{Held, MachineResult, World};

/// The number that the server appended to a name.
pub(crate) fn number(name: &str) -> &str {
    &name[name.len().saturating_sub(10)..]
}

/// The children of a znode.
pub(crate) async fn names(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    Ok(client.children(path).await?.iter().map(ToString::to_string).collect())
}

/// Waits until no znode with a smaller number is left, and then takes the lock.
pub(crate) async fn wait(client: &Client, place: &str) -> Result<(), Error> {
    let (directory, mine) = place.rsplit_once('/').unwrap_or_default();
    loop {
        let names = names(client, directory).await?;
        let ahead = names.iter().filter(|name| number(name) < number(mine));
        let Some(last) = ahead.max_by_key(|name| number(name)) else { break };
        let watched = client.exists(&format!("{directory}/{last}")).and_watch().await?;
        if watched.found.is_some() {
            watched.watcher.await?;
        }
    }
    take(client, place).await
}

/// Writes into the znode who holds the lock. The reply proves that the session is alive.
pub(crate) async fn take(client: &Client, place: &str) -> Result<(), Error> {
    match client.set(place, "holder").await {
        Ok(_) => Ok(()),
        Err(error) if error.is(ErrorCode::NO_NODE) => Err(Error::SessionExpired),
        Err(error) => Err(error),
    }
}

/// Deletes the znode, unless the server has done so with its session.
pub(crate) async fn leave(client: &Client, place: &str) -> Result<(), Error> {
    match client.delete(place).await {
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(()),
        deleted => deleted,
    }
}

/// The znodes of a session: they are certainly still there while nobody can have expired it.
pub(crate) struct Znodes {
    client: Client,
    session: SessionId,
}

impl Held for Znodes {
    fn is_held(&self) -> bool {
        let is_the_same = self.client.session_id() == self.session;
        is_the_same && Instant::now() < self.client.session_valid_until()
    }
}

/// A lock that is held by znodes of this session.
pub(crate) fn held_in(session: SessionId, client: &Client) -> Znodes {
    Znodes { client: client.clone(), session }
}

/// Creates the znode of the line.
pub(crate) async fn create(world: World) -> MachineResult {
    world.connect().await?.create("/line").await?;
    Ok(())
}
