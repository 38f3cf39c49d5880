//! A recipe of your own: a group whose members see each other, built on the client's support for
//! recipes (`zoolet::client::recipe`).
//!
//! `cargo run --example own_recipe`

use bytes::Bytes;
use zoolet::client::recipe::{Claim, SessionClient};
use zoolet::client::{Client, Error, Parents};
use zoolet::protocol::{CreateMode, ErrorCode};
use zoolet::server::Server;

type Result<T> = std::result::Result<T, Error>;

/// A group: each member is an ephemeral znode in a directory.
struct Group {
    client: Client,
    directory: String,
}

impl Group {
    fn new(client: &Client, directory: &str) -> Self {
        Self { client: client.clone(), directory: directory.to_owned() }
    }

    /// Joins the group, and returns when the member exists.
    async fn join(&self, name: &'static str) -> Result<Member> {
        loop {
            // All requests of this attempt belong to one session, because the member does.
            let session = self.client.connected_session().await?;
            let path = self.client.protected_path(&format!("{}/member-", self.directory));
            let create = session
                .create(&path)
                .data(Bytes::from_static(name.as_bytes()))
                .mode(CreateMode::EphemeralSequential);
            let created = match create.send().await {
                Ok(created) => Some(created),
                // The reply was lost, so the member may exist: it is looked up by its protected
                // name.
                Err(Error::ConnectionLoss { .. }) => session.find_protected(&path).await?,
                Err(Error::SessionExpired | Error::NotSent { .. }) => None,
                Err(error) if error.is(ErrorCode::NO_NODE) => {
                    self.create_directory().await?;
                    None
                }
                Err(error) => return Err(error),
            };
            if let Some(created) = created {
                // From now on the client checks the znode, so that it knows of its loss in time.
                let claim = session.claim(&created.path);
                return Ok(Member { session, path: created.path, claim });
            }
        }
    }

    async fn create_directory(&self) -> Result<()> {
        let create = self.client.create(&self.directory).mode(CreateMode::Container);
        match create.parents(Parents::Containers).await {
            Err(error) if !error.is(ErrorCode::NODE_EXISTS) => Err(error),
            _ => Ok(()),
        }
    }

    /// The names of the members.
    async fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for child in self.client.children(&self.directory).await?.iter() {
            match self.client.get(&format!("{}/{child}", self.directory)).await {
                Ok((name, _stat)) => names.push(String::from_utf8_lossy(&name).into_owned()),
                // The member left in between.
                Err(error) if error.is(ErrorCode::NO_NODE) => {}
                Err(error) => return Err(error),
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// A member of a group. Dropping it leaves the group in the background.
struct Member {
    session: SessionClient,
    path: String,
    claim: Claim,
}

impl Member {
    /// Whether the server certainly has the member now.
    fn is_certain(&self) -> bool {
        self.session.is_proven() && !self.claim.is_gone()
    }

    /// Leaves the group, and returns when the member is deleted.
    async fn leave(self) -> Result<()> {
        self.session.delete_in_background(&self.path, None).await
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Deletes until the znode is gone, whatever happens to the connection.
        drop(self.session.delete_in_background(&self.path, None));
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().start().await?;
    println!("members after each step: {:?}", run(&server).await?);
    Ok(())
}

/// Two clients join a group, and one leaves it: the members after each step.
async fn run(server: &Server) -> Result<[Vec<String>; 3]> {
    let one = Group::new(&Client::connect(server.dialer()).await?, "/groups/readers");
    let two = Group::new(&Client::connect(server.dialer()).await?, "/groups/readers");
    let first = one.join("first").await?;
    let alone = two.names().await?;
    let second = two.join("second").await?;
    assert!(first.is_certain() && second.is_certain());
    let both = one.names().await?;
    first.leave().await?;
    let left = one.names().await?;
    Ok([alone, both, left])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn members_come_and_go() {
        let server = Server::builder().start().await.unwrap();
        let [alone, both, left] = run(&server).await.unwrap();
        assert_eq!(alone, ["first"]);
        assert_eq!(both, ["first", "second"]);
        assert_eq!(left, ["second"]);
    }
}
