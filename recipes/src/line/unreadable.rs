//! Places that wait for a znode that the client may not read. Since 3.8.4 and 3.9.2
//! (CVE-2024-23944) a server sends no event of a znode to a client that may not read it: the watch
//! fires, and no event arrives.
//!
//! Only a place that has waited for long checks whether it can receive an event. If it may not read
//! the znode ahead, it looks for it in the list of the directory, which a place must be allowed to
//! read anyway.

use std::time::Duration;

use zoolet_protocol::{ErrorCode, Permissions};

use super::Line;
use super::place::Place;
use crate::attempts::Attempts;
use crate::client::recipe::WaiterId;
use crate::client::{Client, Watched};
use crate::error::LockError;

/// The longest time that a place waits before it checks whether it may read the znode ahead.
const LOOK_AFTER_MAX: Duration = Duration::from_secs(10);

/// The longest time between two such checks.
const LOOK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(600);

/// How long to wait before a directory without changes is listed again: an administrator may have
/// taken the permission to list it away, and then no event comes.
const LIST_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A znode ahead of which no event came.
pub(super) enum ZnodeAhead {
    /// It exists, and an event will report its deletion.
    Present,
    /// It is gone, perhaps for a while.
    Gone,
}

/// How long a place waits before it checks whether it may read the znode ahead: as long as a client
/// is silent before it pings, so that the check replaces a ping of a client that only waits.
pub(super) fn look_after(client: &Client) -> Duration {
    (client.session_timeout() / 3).min(LOOK_AFTER_MAX)
}

/// Whether the owner of a place may certainly read its own znode, and so receives the event of its
/// deletion. If not, the own znode may be deleted before the one ahead, and only a list shows that.
pub(super) fn hears_of_own_znode(line: &Line) -> bool {
    // The scheme `auth` means the identities of the client that creates the znode.
    line.acl.iter().any(|acl| {
        acl.permissions.intersects(Permissions::READ)
            && matches!(acl.id.scheme.as_deref(), Some("world" | "auth"))
    })
}

/// Checks whether the znode ahead may be read. If it may, the next check follows after twice the
/// time, since the access control list may change. If not, this waits until the directory does not
/// contain the znode any more, and the next znode ahead is checked at once.
pub(super) async fn look(
    place: &Place,
    line: &Line,
    ahead: &str,
    look_after: &mut Duration,
) -> Result<ZnodeAhead, LockError> {
    // An ephemeral has no children: this request needs the permission to read and has the shortest
    // answer.
    match place.session().children(ahead).send().await {
        Ok(_) => {
            // It is zero after a znode that may not be read.
            let first = self::look_after(&line.client);
            *look_after = (*look_after * 2).max(first).min(LOOK_AGAIN_AFTER_MAX);
            Ok(ZnodeAhead::Present)
        }
        Err(error) if error.is(ErrorCode::NO_AUTH) => {
            *look_after = Duration::ZERO;
            until_not_listed(place, line, ahead).await?;
            Ok(ZnodeAhead::Gone)
        }
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(ZnodeAhead::Gone),
        // The next check follows after the same time.
        Err(error) if error.is_retryable() => Ok(ZnodeAhead::Present),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the directory does not contain the znode ahead any more, or not the place's own.
async fn until_not_listed(place: &Place, line: &Line, ahead: &str) -> Result<(), LockError> {
    let ahead = ahead.rsplit('/').next().unwrap_or_default();
    let mut attempts = Attempts::new(&line.client);
    loop {
        let list = place.session().children(&line.directory);
        let Watched { found: names, watcher } = match list.and_watch().await {
            Ok(watched) => watched,
            Err(error) => {
                attempts.wait_after(error.into()).await?;
                continue;
            }
        };
        let is_there = |wanted: &str| names.iter().any(|name| name == wanted);
        if !is_there(ahead) || !is_there(place.name()) {
            return Ok(());
        }
        let lost = std::future::poll_fn(|context| place.poll_lost(WaiterId::ONLY, context));
        tokio::select! {
            biased;
            // The next list shows what has changed, or fails if the session has ended.
            _changed = watcher => {}
            lost = lost => return Err(lost),
            () = tokio::time::sleep(LIST_AGAIN_AFTER) => {}
        }
    }
}
