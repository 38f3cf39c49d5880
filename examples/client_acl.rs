//! The plain client: znodes that not every client may read or change.
//!
//! `cargo run --example client_acl`

use zoolet::client::{Client, Error};
use zoolet::protocol::{Acl, ErrorCode, Permissions};
use zoolet::server::Server;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let server = Server::builder().start().await?;
    for (who, can_read, can_write) in permissions(&server).await? {
        println!("{who}: reads {can_read}, writes {can_write}");
    }
    Ok(())
}

/// Creates a znode that its owner may change, another user may read, and no other client may see.
/// Returns who can read and write it.
async fn permissions(server: &Server) -> Result<Vec<(&'static str, bool, bool)>> {
    // The credentials are sent on each new connection, before any request.
    let builder = Client::builder().auth("digest", "owner:secret");
    let owner = builder.connect(server.dialer()).await?;
    let builder = Client::builder().auth("digest", "reader:hidden");
    let reader = builder.connect(server.dialer()).await?;
    let stranger = Client::connect(server.dialer()).await?;

    let acl = vec![
        // The scheme `auth` means all identities of the session: here `digest:owner:<hash>`.
        Acl::creator_all(),
        // Another user, whose password this client does not need to know.
        Acl::digest("reader", "hidden").with_permissions(Permissions::READ),
    ];
    owner.create("/salary").data("100").acl(acl).await?;

    let mut found = Vec::new();
    for (who, client) in [("owner", &owner), ("reader", &reader), ("stranger", &stranger)] {
        let can_read = is_permitted(client.get("/salary").await.map(drop))?;
        let can_write = is_permitted(client.set("/salary", "200").await.map(drop))?;
        found.push((who, can_read, can_write));
    }
    Ok(found)
}

/// Whether the server permitted a request.
fn is_permitted(result: std::result::Result<(), Error>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is(ErrorCode::NO_AUTH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_list_decides_who_reads_and_who_writes() {
        let server = Server::builder().start().await.unwrap();
        let expected = [("owner", true, true), ("reader", true, false), ("stranger", false, false)];
        assert_eq!(permissions(&server).await.unwrap(), expected);
    }
}
