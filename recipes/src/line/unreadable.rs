//! Lines with znodes that must not be read. A server tells nobody of a change to a znode that it may
//! not read (since 3.8.4 and 3.9.2, CVE-2024-23944): the watch fires, and no event comes.
//!
//! Whether an event can come is asked only of those who wait for long: a znode ahead that must not be
//! read is looked for in its directory, whose list a place needs anyway.

use std::time::Duration;

use zoolet_protocol::{ErrorCode, Permissions};

use crate::client::recipe::WaiterId;
use crate::client::{Client, Watched};
use crate::error::LockError;
use crate::line::place::{Line, Place};
use crate::tries::Tries;

/// The longest time for which a znode ahead is waited for before it is seen whether it may be read.
const LOOK_AFTER_MAX: Duration = Duration::from_secs(10);

/// The longest time between two such looks.
const LOOK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(600);

/// How long to wait before a directory that did not change is listed again: the permission to list it
/// may have been taken away, and then nothing is heard of it.
const LIST_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What became of a znode of which nothing was heard.
pub(crate) enum Unheard {
    /// It is there, and its end will be heard of.
    Waiting,
    /// It is gone, and perhaps was already for a while.
    Gone,
}

/// How long a znode ahead is waited for before it is seen whether it may be read: as long as a client
/// is silent before it pings, so that of one that only waits the look replaces a ping.
pub(crate) fn look_after(client: &Client) -> Duration {
    (client.session_timeout() / 3).min(LOOK_AFTER_MAX)
}

/// Whether the owner of a place surely hears of its own znode. If not, it may be gone before the one
/// ahead is, and only a list tells.
pub(crate) fn hears_of_own(line: &Line) -> bool {
    // Those of a scheme `auth` are the identities of whoever creates it.
    line.acl.iter().any(|acl| {
        acl.permissions.intersects(Permissions::READ)
            && matches!(acl.id.scheme.as_deref(), Some("world" | "auth"))
    })
}

/// Looks whether the znode ahead may be read. If not, waits until it is gone from its directory, and
/// has the next one looked at at once; if so, has it looked at again after twice the time, since its
/// access control list may be changed.
pub(crate) async fn look(
    place: &Place,
    line: &Line,
    ahead: &str,
    look_after: &mut Duration,
) -> Result<Unheard, LockError> {
    // An ephemeral has no children: this is the shortest answer that asks for the permission to read.
    match place.client().children(ahead).in_session(place.session()).send().await {
        Ok(_) => {
            // It is zero behind one that may not be read.
            let first = self::look_after(place.client());
            *look_after = (*look_after * 2).max(first).min(LOOK_AGAIN_AFTER_MAX);
            Ok(Unheard::Waiting)
        }
        Err(error) if error.is(ErrorCode::NO_AUTH) => {
            *look_after = Duration::ZERO;
            until_gone_from_directory(place, line, ahead).await?;
            Ok(Unheard::Gone)
        }
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Unheard::Gone),
        // It is looked at again after the same time.
        Err(error) if error.is_retryable() => Ok(Unheard::Waiting),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the znode ahead is not in its directory any more, or the place is not.
async fn until_gone_from_directory(
    place: &Place,
    line: &Line,
    ahead: &str,
) -> Result<(), LockError> {
    let ahead = ahead.rsplit('/').next().unwrap_or_default();
    let mut tries = Tries::new();
    loop {
        let list = place.client().children(&line.directory).in_session(place.session());
        let Watched { found: names, watcher } = match list.and_watch().await {
            Ok(watched) => watched,
            Err(error) => {
                tries.after(error.into()).await?;
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
            // What happened, and whether the session is over, is seen by looking again.
            _changed = watcher => {}
            lost = lost => return Err(lost),
            () = tokio::time::sleep(LIST_AGAIN_AFTER) => {}
        }
    }
}
