//! The lock under test, as it was first written.

use zoolet::client::{Client, Error, Parents};
use zoolet::protocol::{CreateMode, ErrorCode, SessionId};

#[path = "steps.rs"]
pub(crate) mod steps;

/// A lock: whoever has the first znode in the line holds it.
pub(crate) struct Lock {
    client: Client,
    session: SessionId,
    place: String,
}

impl Lock {
    pub(crate) async fn acquire(client: &Client, path: &str) -> Result<Self, Error> {
        let create = client.create(&format!("{path}/place-")).mode(CreateMode::EphemeralSequential);
        let created = create.parents(Parents::Containers).await?;
        let (place, session) = (created.path, created.stat.ephemeral_owner);
        loop {
            let names = client.children(path).await?;
            let mut places: Vec<_> = names.iter().map(|name| format!("{path}/{name}")).collect();
            places.sort();
            let mine = places.iter().position(|other| *other == place);
            let Some(mine) = mine else { return Err(Error::SessionExpired) };
            let Some(ahead) = mine.checked_sub(1) else {
                return Ok(Self { client: client.clone(), session, place });
            };
            let watched = client.exists(&places[ahead]).and_watch().await?;
            if watched.found.is_some() {
                watched.watcher.await?;
            }
        }
    }

    /// Whether the session is still the one in which the lock was acquired.
    pub(crate) fn is_held(&self) -> bool {
        self.client.session_id() == self.session
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self.client.delete(&self.place).await {
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(()), // its session is over
            released => released,
        }
    }
}
