//! What is below a znode.

use zoolet_protocol::ErrorCode;
use zoolet_recipes::client::{Client, Error};

/// The path of a child.
pub(super) fn child(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// The names of children, in their order.
async fn children(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    let mut names = client.children(path).await?.to_vec();
    names.sort_unstable();
    Ok(names)
}

/// A znode and all that is below, each before what is below it. What goes away meanwhile is left
/// out.
pub(super) struct Walk<'a> {
    client: &'a Client,
    ahead: Vec<String>,
    is_begun: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(client: &'a Client, path: &str) -> Self {
        Self { client, ahead: vec![path.to_owned()], is_begun: false }
    }

    /// The next; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Error> {
        while let Some(path) = self.ahead.pop() {
            match children(self.client, &path).await {
                Ok(names) => {
                    self.is_begun = true;
                    self.ahead.extend(names.iter().rev().map(|name| child(&path, name)));
                    return Ok(Some(path));
                }
                Err(error) if error.is(ErrorCode::NO_NODE) && self.is_begun => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Deletes a znode and all that is below. What goes away meanwhile is what was wanted.
pub(crate) async fn delete_all(client: &Client, path: &str) -> Result<(), Error> {
    let mut walk = Walk::new(client, path);
    let mut found = Vec::new();
    while let Some(path) = walk.next().await? {
        found.push(path);
    }
    for path in found.iter().rev() {
        match client.delete(path).await {
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            result => result?,
        }
    }
    Ok(())
}
