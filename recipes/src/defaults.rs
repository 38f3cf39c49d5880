//! What the znodes of a recipe have where the recipe was given nothing: the defaults of its client.

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::client::{Client, Create, Error, Parents};
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

/// This access control list, or the client's default for this path.
pub(crate) fn acl(client: &Client, acl: Option<&[Acl]>, path: &str) -> Vec<Acl> {
    acl.map_or_else(|| client.default_acl(path), <[Acl]>::to_vec)
}

/// Creates the missing ancestors of a path with this access control list, or each with its default.
pub(crate) async fn create_ancestors(
    client: &Client,
    path: &str,
    parents: Parents,
    acl: Option<&[Acl]>,
) -> Result<(), Error> {
    match acl {
        Some(acl) => client.create_ancestors(path, parents, acl).await,
        None => client.create_ancestors_by_default(path, parents).await,
    }
}
