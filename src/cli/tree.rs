//! What is below a znode.

use zoolet_protocol::ErrorCode;
use zoolet_recipes::client::{Client, Error};

/// The path of a child.
pub(super) fn child(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// The names of children, in their order.
pub(super) async fn children(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    let mut names = client.children(path).await?.to_vec();
    names.sort_unstable();
    Ok(names)
}

/// A znode and all that is below, each before what is below it. What goes away meanwhile is left
/// out.
pub(super) async fn walk(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut ahead = vec![path.to_owned()];
    while let Some(path) = ahead.pop() {
        match children(client, &path).await {
            Ok(names) => {
                ahead.extend(names.iter().rev().map(|name| child(&path, name)));
                found.push(path);
            }
            Err(error) if error.is(ErrorCode::NO_NODE) && !found.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Deletes a znode and all that is below. What goes away meanwhile is what was wanted.
pub(super) async fn delete_all(client: &Client, path: &str) -> Result<(), Error> {
    for path in walk(client, path).await?.iter().rev() {
        match client.delete(path).await {
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            result => result?,
        }
    }
    Ok(())
}
