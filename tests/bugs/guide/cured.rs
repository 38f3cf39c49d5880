//! The lock under test, cured of what the tests have found.

use zoolet::client::recipe::{Claim, SessionClient};
use zoolet::client::{Client, Error, Parents};
use zoolet::protocol::{CreateMode, ErrorCode};

#[path = "steps.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests run on both versions of the lock")]
pub(crate) mod steps;

/// A lock: whoever has the first znode in the line holds it.
pub(crate) struct Lock {
    session: SessionClient,
    claim: Claim,
    place: String,
}

impl Lock {
    pub(crate) async fn acquire(client: &Client, path: &str) -> Result<Self, Error> {
        let session = client.connected_session().await?; // no request leaves in another session
        let create = session.create(&format!("{path}/place-")).protected();
        let create = create.mode(CreateMode::EphemeralSequential).parents(Parents::Containers);
        let place = create.await?.path;
        let lock = Self { claim: session.claim(&place), session, place };
        loop {
            let names = lock.session.children(path).await?;
            let mut places: Vec<_> = names.iter().map(|name| format!("{path}/{name}")).collect();
            places.sort_by_key(|place| place[place.len() - 10..].to_owned());
            let mine = places.iter().position(|other| *other == lock.place);
            let Some(mine) = mine else { return Err(Error::SessionExpired) };
            let Some(ahead) = mine.checked_sub(1) else { return Ok(lock) };
            let watched = lock.session.exists(&places[ahead]).and_watch().await?;
            if watched.found.is_some() {
                watched.watcher.await?;
            }
        }
    }

    /// Whether nobody else can hold the lock: its session is certainly alive, and its znode there.
    pub(crate) fn is_held(&self) -> bool {
        self.session.is_proven() && !self.claim.is_gone()
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self.session.delete(&self.place).await {
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(()), // its session is over
            released => released,
        }
    }
}
