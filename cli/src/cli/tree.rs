//! What is below a znode.

use zoolet_protocol::ErrorCode;
use zoolet_recipes::client::{Client, Error, Sent};

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

/// How many requests are under way at a time.
const TOGETHER_MAX: usize = 256;

/// Deletes a znode and all that is below: all is found before anything is deleted, and what is
/// deepest goes first. What goes away meanwhile is what was wanted.
///
/// # Errors
///
/// What may go wrong with any request; `NO_NODE` if there is no such znode, `NOT_EMPTY` if
/// somebody creates a child meanwhile: it stays with all above it, and what else was found is gone
/// in part.
///
/// # Cancellation
///
/// What was sent is carried out, at most [`TOGETHER_MAX`] deletes more.
pub(crate) async fn delete_all(client: &Client, path: &str) -> Result<(), Error> {
    let names = client.children(path).await?;
    // Who may not delete the znode itself does not lose what is below it.
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
        for together in level.chunks(TOGETHER_MAX) {
            let send = |path: &str| client.delete(path).send();
            let again = async |path: &str| client.delete(path).await;
            answers(together, send, again).await?;
        }
    }
    Ok(())
}

/// The paths of the children of all these.
async fn below_each(client: &Client, level: &[String]) -> Result<Vec<String>, Error> {
    let mut below = Vec::new();
    for together in level.chunks(TOGETHER_MAX) {
        let send = |path: &str| client.children(path).send();
        let again = async |path: &str| client.children(path).await;
        let found = answers(together, send, again).await?;
        for (path, names) in together.iter().zip(&found) {
            below.extend(names.iter().flat_map(|names| names.iter()).map(|name| child(path, name)));
        }
    }
    Ok(below)
}

/// Asks for all at once, and again for each whose answer the connection lost; `None` where there
/// is no znode any more.
async fn answers<T>(
    paths: &[String],
    send: impl Fn(&str) -> Sent<T>,
    again: impl AsyncFn(&str) -> Result<T, Error>,
) -> Result<Vec<Option<T>>, Error> {
    // Sent together, and then waited for.
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
