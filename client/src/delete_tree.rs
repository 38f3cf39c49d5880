//! Deletes a znode with everything below it: Curator's `deletingChildrenIfNeeded`.

use zoolet_protocol::ErrorCode;

use crate::limits::{DELETE_ATTEMPTS_MAX, DELETES_IN_FLIGHT};
use crate::retry::Retry;
use crate::{Client, Error, Sent};

/// A znode that has, or had, children.
struct Branch {
    path: String,
    /// How often its children were deleted.
    attempts: u32,
}

impl Client {
    /// Deletes a znode and all its descendants, the deepest first (`deletingChildrenIfNeeded` of
    /// Curator). What others delete meanwhile is no error, and what others create is deleted too.
    ///
    /// It is no transaction: others see a part of the znodes deleted, and after an error the rest is
    /// there. A leaf costs one request, as [`Client::delete`] does, and up to 128 are under way at a
    /// time. A delete whose reply was lost is sent again, which does no harm: once at once, and then as
    /// the client's [`RetryPolicy`](crate::RetryPolicy) says.
    ///
    /// ```no_run
    /// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// client.delete_with_descendants("/app/cache").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Client::delete`] and [`Client::children`], of any of the znodes.
    /// [`NO_NODE`](ErrorCode::NO_NODE) if there is no such znode; [`NOT_EMPTY`](ErrorCode::NOT_EMPTY)
    /// if others create children as fast as they are deleted.
    ///
    /// # Cancellation
    ///
    /// Deletes that were sent are carried out.
    pub async fn delete_with_descendants(&self, path: &str) -> Result<(), Error> {
        match self.delete_repeatedly(path, self.delete(path).send()).await {
            Err(error) if error.is(ErrorCode::NOT_EMPTY) => {}
            result => return result,
        }
        // The path from the znode down to the one whose children are deleted now.
        let mut branches = vec![Branch { path: path.to_owned(), attempts: 0 }];
        while let Some(branch) = branches.last_mut() {
            branch.attempts += 1;
            let is_last_attempt = branch.attempts == DELETE_ATTEMPTS_MAX;
            let path = branch.path.clone();
            let full = self.delete_children(&path).await?;
            if !full.is_empty() && !is_last_attempt {
                branches.extend(full.into_iter().map(|path| Branch { path, attempts: 0 }));
                continue;
            }
            match self.delete_repeatedly(&path, self.delete(&path).send()).await {
                Err(error) if error.is(ErrorCode::NOT_EMPTY) && !is_last_attempt => {}
                Err(error) if !error.is(ErrorCode::NO_NODE) => return Err(error),
                _ => drop(branches.pop()),
            }
        }
        Ok(())
    }

    /// Deletes the children of a znode that have no children, and returns the paths of the others.
    async fn delete_children(&self, path: &str) -> Result<Vec<String>, Error> {
        let names = match self.children(path).await {
            Ok(names) => names,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        // The root of a namespace has a name that ends with a slash.
        let directory = path.trim_end_matches('/');
        let paths: Vec<String> = names.iter().map(|name| format!("{directory}/{name}")).collect();
        let mut full = Vec::new();
        for batch in paths.chunks(DELETES_IN_FLIGHT) {
            // All are sent before the first reply is awaited.
            let sent: Vec<_> = batch.iter().map(|path| self.delete(path).send()).collect();
            for (path, sent) in batch.iter().zip(sent) {
                match self.delete_repeatedly(path, sent).await {
                    Err(error) if error.is(ErrorCode::NOT_EMPTY) => full.push(path.clone()),
                    Err(error) if !error.is(ErrorCode::NO_NODE) => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(full)
    }

    /// The result of a delete that was sent, and is sent again after a lost connection. That the znode
    /// is gone then is no error: the first delete may have been carried out.
    ///
    /// There is no pause before the second one: the replies to a whole batch are lost together.
    async fn delete_repeatedly(&self, path: &str, first: Sent<()>) -> Result<(), Error> {
        let mut may_be_done = match first.await {
            Err(error) if error.is_retryable() => !error.has_no_effect(),
            result => return result,
        };
        let mut retry = Retry::new(self);
        loop {
            match self.delete(path).send().await {
                Err(error) if may_be_done && error.is(ErrorCode::NO_NODE) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    may_be_done |= !error.has_no_effect();
                    retry.after(error, true).await?;
                }
                result => return result,
            }
        }
    }
}
