//! The line of kazoo's `Lock`: kazoo counts each child whose name ends in `__lock__` and a number,
//! whatever stands before, and so do we. Its directories are persistent znodes.

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::attempts::Attempts;
use crate::client::{Client, Error, Parents};
use crate::defaults;
use crate::error::LockError;
use crate::line::Line;
use crate::line::order::PlaceKind;
use crate::lock::line_lock::LineLock;

/// Each place waits for all places before it. The marker is kazoo's.
static KIND: PlaceKind = PlaceKind {
    marker: "__lock__",
    waits_for: &["__lock__"],
    ignores: &[],
    is_exclusive: true,
    may_have_second_place: &[],
};

/// The lock of a directory in which kazoo's `Lock` stands in line too. The data of its places is the
/// identifier, as in kazoo.
pub(crate) fn kazoo_lock(
    client: &Client,
    directory: &str,
    identifier: &str,
    acl: Option<&[Acl]>,
) -> Result<LineLock, LockError> {
    let mut line = Line::new(client, directory, &KIND)?;
    line.data = Bytes::copy_from_slice(identifier.as_bytes());
    line.parents = Parents::Persistent;
    if let Some(acl) = acl {
        line.set_acl(acl.to_vec());
    }
    Ok(LineLock::new(line))
}

/// Creates the ancestors of a path as kazoo does: they outlive what is created in them. Repeated until
/// it is answered.
pub(crate) async fn create_directories(
    client: &Client,
    path: &str,
    acl: Option<&[Acl]>,
) -> Result<(), LockError> {
    let mut attempts = Attempts::new(client);
    loop {
        match defaults::create_ancestors(client, path, Parents::Persistent, acl).await {
            // The next session creates what is missing then.
            Err(Error::SessionExpired) => {}
            Err(error) => attempts.wait_after(error.into()).await?,
            Ok(()) => return Ok(()),
        }
    }
}
