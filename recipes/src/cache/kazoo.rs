//! kazoo's `DataWatch` and `ChildrenWatch`: a function that is called at once and after each
//! change.
//!
//! They use one-shot watches, and work with servers of all versions.

use std::time::Duration;

use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::{ErrorCode, Names, Stat, ZPath, Zxid};

use crate::client::{Client, Error, Watched, Watcher};

/// How long to wait after a failed read before the next one.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Whether a function is called again.
///
/// ```
/// assert_ne!(zoolet_recipes::Watching::Continue, zoolet_recipes::Watching::Stop);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watching {
    /// It is called after the next change.
    Continue,
    /// It is not called any more: kazoo's `return False`.
    Stop,
}

/// Calls a function with the data and the Stat of a znode, at once and after each change; with
/// `None` while it does not exist: kazoo's `DataWatch`.
///
/// Of several changes in a short time the last is reported. After a reconnect the function is
/// called only if the znode has changed. Dropping the watch ends it.
///
/// ```no_run
/// use zoolet_recipes::{DataWatch, Watching};
///
/// # fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let watch = DataWatch::start(&client, "/config", |znode| {
///     println!("{znode:?}");
///     Watching::Continue
/// })?;
/// # drop(watch);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped ends"]
pub struct DataWatch(AbortOnDropHandle<()>);

impl DataWatch {
    /// Starts to watch. The function is called on the runtime of the client and must not block.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if the path is not valid.
    pub fn start(
        client: &Client,
        path: &str,
        call: impl FnMut(Option<(Bytes, Stat)>) -> Watching + Send + 'static,
    ) -> Result<Self, Error> {
        ZPath::check(path)?;
        let watching = watch_data(client.clone(), path.to_owned(), call);
        Ok(Self(AbortOnDropHandle::new(client.spawn(watching))))
    }

    /// Whether the function is not called any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

async fn watch_data(
    client: Client,
    path: String,
    mut call: impl FnMut(Option<(Bytes, Stat)>) -> Watching,
) {
    // What the function was called with last.
    let mut told: Option<Option<(Zxid, Zxid)>> = None;
    loop {
        let (znode, watcher) = match read_or_wait(&client, &path).await {
            Ok(read) => read,
            Err(Error::Closed | Error::AuthFailed) => return,
            Err(error) => {
                tracing::debug!("{path}: cannot watch the data: {error}");
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                continue;
            }
        };
        let now = znode.as_ref().map(|(_, stat)| (stat.czxid, stat.mzxid));
        if told != Some(now) {
            told = Some(now);
            if call(znode) == Watching::Stop {
                return;
            }
        }
        if watcher.await == Err(Error::Closed) {
            return;
        }
    }
}

/// Reads a znode, if it exists, and leaves a watch in any case.
async fn read_or_wait(
    client: &Client,
    path: &str,
) -> Result<(Option<(Bytes, Stat)>, Watcher), Error> {
    loop {
        match client.get(path).and_watch().await {
            Ok(Watched { found, watcher }) => return Ok((Some(found), watcher)),
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error),
        }
        let Watched { found, watcher } = client.exists(path).and_watch().await?;
        if found.is_none() {
            return Ok((None, watcher));
        }
    }
}

/// Calls a function with the names of a znode's children in their order, at once and after each
/// change: kazoo's `ChildrenWatch`. It ends when the znode does not exist.
///
/// Of several changes in a short time the last is reported. Dropping the watch ends it.
///
/// ```no_run
/// use zoolet_recipes::{ChildrenWatch, Watching};
///
/// # fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let watch = ChildrenWatch::start(&client, "/members", |names| {
///     println!("{names:?}");
///     Watching::Continue
/// })?;
/// # drop(watch);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped ends"]
pub struct ChildrenWatch(AbortOnDropHandle<()>);

impl ChildrenWatch {
    /// Starts to watch. The function is called on the runtime of the client and must not block.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if the path is not valid.
    pub fn start(
        client: &Client,
        path: &str,
        call: impl FnMut(Vec<String>) -> Watching + Send + 'static,
    ) -> Result<Self, Error> {
        ZPath::check(path)?;
        let watching = watch_children(client.clone(), path.to_owned(), call);
        Ok(Self(AbortOnDropHandle::new(client.spawn(watching))))
    }

    /// Whether the function is not called any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

async fn watch_children(
    client: Client,
    path: String,
    mut call: impl FnMut(Vec<String>) -> Watching,
) {
    let mut told: Option<Vec<String>> = None;
    loop {
        let watcher = match client.children(&path).and_watch().await {
            Ok(Watched { found, watcher }) => {
                let names = sorted(&found);
                if told.as_ref() != Some(&names) {
                    told = Some(names.clone());
                    if call(names) == Watching::Stop {
                        return;
                    }
                }
                watcher
            }
            Err(Error::Closed | Error::AuthFailed) => return,
            Err(error) if error.is(ErrorCode::NO_NODE) => return,
            Err(error) => {
                tracing::debug!("{path}: cannot watch the children: {error}");
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                continue;
            }
        };
        if watcher.await == Err(Error::Closed) {
            return;
        }
    }
}

fn sorted(names: &Names) -> Vec<String> {
    let mut names: Vec<_> = names.iter().map(str::to_owned).collect();
    names.sort_unstable();
    names
}
