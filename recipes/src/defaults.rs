//! What the znodes of a recipe have where the recipe was given nothing: the defaults of its client.

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::client::{Client, Create};
use crate::local_address::local_address;

/// The data of znodes that show who created them: as in Curator, this machine's address unless the
/// client has other data.
pub(crate) fn data(client: &Client) -> Bytes {
    client.default_data().unwrap_or_else(local_address)
}

/// A create with this access control list, or with the client's default.
pub(crate) fn with_acl(create: Create, acl: Option<&[Acl]>) -> Create {
    match acl {
        Some(acl) => create.acl(acl.to_vec()),
        None => create,
    }
}
