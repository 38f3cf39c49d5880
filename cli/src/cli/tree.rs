//! Walks and deletes the tree below a znode.

use zoolet_client::{Client, Error, Sent, Watched, Watcher};
use zoolet_protocol::{ErrorCode, Names, Stat};

/// The path of a child.
pub(super) fn child(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// A znode of a tree.
pub(super) struct Found {
    pub(super) path: String,
    /// `None` if it may not be read.
    pub(super) stat: Option<Stat>,
    /// A watch for its children, if they are watched.
    pub(super) watcher: Option<Watcher>,
}

/// A znode and all its descendants, parents before children. Znodes that are deleted meanwhile are left
/// out, and so are the descendants of a znode that may not be read.
pub(super) struct Walk<'a> {
    client: &'a Client,
    ahead: Vec<String>,
    is_begun: bool,
    is_watching: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(client: &'a Client, path: &str) -> Self {
        Self { client, ahead: vec![path.to_owned()], is_begun: false, is_watching: false }
    }

    /// Leaves a watch for the children of each znode.
    pub(super) fn watching(self, is_watching: bool) -> Self {
        Self { is_watching, ..self }
    }

    /// The next; `None` after the last. An error if the first does not exist or may not be read.
    pub(super) async fn next(&mut self) -> Result<Option<Found>, Error> {
        while let Some(path) = self.ahead.pop() {
            match self.look_at(&path).await {
                Ok((names, stat, watcher)) => {
                    self.is_begun = true;
                    let mut names = names.to_vec();
                    names.sort_unstable();
                    self.ahead.extend(names.iter().rev().map(|name| child(&path, name)));
                    return Ok(Some(Found { path, stat: Some(stat), watcher }));
                }
                Err(error) if error.is(ErrorCode::NO_NODE) && self.is_begun => {}
                Err(error) if error.is(ErrorCode::NO_AUTH) && self.is_begun => {
                    return Ok(Some(Found { path, stat: None, watcher: None }));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn look_at(&self, path: &str) -> Result<(Names, Stat, Option<Watcher>), Error> {
        let operation = self.client.children_and_stat(path);
        if self.is_watching {
            let Watched { found: (names, stat), watcher } = operation.and_watch().await?;
            return Ok((names, stat, Some(watcher)));
        }
        let (names, stat) = operation.await?;
        Ok((names, stat, None))
    }
}

/// How many requests are under way at a time, unless the caller says so.
pub(crate) const TOGETHER: usize = 256;

/// Deletes a znode and all its descendants. It lists all of them before it deletes the first, and deletes
/// the deepest first. A znode that another client deletes meanwhile is no error.
///
/// # Errors
///
/// Those of any request; `NO_NODE` if there is no such znode; `NOT_EMPTY` if another client creates a
/// child meanwhile: the child and its ancestors stay, and some of the other descendants are deleted.
///
/// # Cancellation
///
/// Requests that were sent are carried out: at most `together` deletes.
pub(crate) async fn delete_all(client: &Client, path: &str, together: usize) -> Result<(), Error> {
    let names = client.children(path).await?;
    // A client that may not delete the znode itself deletes nothing below it.
    match client.delete(path).await {
        Err(error) if error.is(ErrorCode::NOT_EMPTY) || error.is_retryable() => {}
        Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(()),
        result => return result,
    }
    let mut levels = vec![vec![path.to_owned()]];
    let mut level: Vec<String> = names.iter().map(|name| child(path, name)).collect();
    while !level.is_empty() {
        let below = below_each(client, &level).await?;
        levels.push(std::mem::replace(&mut level, below));
    }
    for level in levels.iter().rev() {
        for together in level.chunks(together.max(1)) {
            let send = |path: &str| client.delete(path).send();
            let again = async |path: &str| client.delete(path).await;
            answers(together, send, again).await?;
        }
    }
    Ok(())
}

/// The paths of the children of all these znodes.
async fn below_each(client: &Client, level: &[String]) -> Result<Vec<String>, Error> {
    let mut below = Vec::new();
    for together in level.chunks(TOGETHER) {
        let send = |path: &str| client.children(path).send();
        let again = async |path: &str| client.children(path).await;
        let found = answers(together, send, again).await?;
        for (path, names) in together.iter().zip(&found) {
            below.extend(names.iter().flat_map(|names| names.iter()).map(|name| child(path, name)));
        }
    }
    Ok(below)
}

/// Sends all requests at once, and sends those again whose answers a lost connection took along; `None`
/// where the znode is gone.
async fn answers<T>(
    paths: &[String],
    send: impl Fn(&str) -> Sent<T>,
    again: impl AsyncFn(&str) -> Result<T, Error>,
) -> Result<Vec<Option<T>>, Error> {
    // All are sent before the first answer is awaited.
    let sent: Vec<_> = paths.iter().map(|path| send(path)).collect();
    let mut answers = Vec::with_capacity(paths.len());
    for (path, sent) in paths.iter().zip(sent) {
        let answer = match sent.await {
            Err(error) if error.is_retryable() => again(path).await,
            answer => answer,
        };
        answers.push(match answer {
            Err(error) if error.is(ErrorCode::NO_NODE) => None,
            answer => Some(answer?),
        });
    }
    Ok(answers)
}

#[cfg(test)]
mod tests;
