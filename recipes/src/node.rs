//! Znodes that a program keeps, and memberships made of them.
//!
//! - `persistent_node`: a znode that is created again whenever it is gone. `plan` has its options,
//!   `report` what it tells, `keeper` its task, `creating` one attempt of it, `writing` what it writes later.
//! - `ttl_node`: one that outlives its program by a time to live.
//! - `group_member`: Curator's membership of a group. `group_members` is a copy of its members.
//! - `party`: kazoo's memberships. `reading` reads the members of both.

mod creating;
pub(crate) mod error;
pub(crate) mod group_member;
pub(crate) mod group_members;
mod keeper;
mod limits;
pub(crate) mod party;
pub(crate) mod persistent_node;
pub(crate) mod plan;
mod reading;
pub(crate) mod report;
mod siblings;
pub(crate) mod ttl_node;
mod writing;

pub use self::error::NodeError;
pub use self::group_member::{GroupMember, GroupMemberBuilder};
pub use self::group_members::GroupMembers;
pub use self::party::{Party, PartyMember, ShallowParty};
pub use self::persistent_node::PersistentNode;
pub use self::plan::{AtClose, PersistentNodeBuilder, TakeOver};
pub use self::report::{NodeEvent, NodeEvents, NodeState, Origin, Registered};
pub use self::ttl_node::{PersistentTtlNode, PersistentTtlNodeBuilder};

/// The path of a child with a name that a caller chose.
///
/// # Errors
///
/// [`NodeError::Name`] if the name is not one part of a path.
pub(crate) fn child_path(directory: &str, name: &str) -> Result<String, NodeError> {
    // A directory that is not valid is reported where it is used.
    let is_valid = !name.is_empty()
        && !name.contains('/')
        && zoolet_protocol::ZPath::check(&format!("/{name}")).is_ok();
    if is_valid {
        Ok(format!("{}/{name}", directory.trim_end_matches('/')))
    } else {
        Err(NodeError::Name { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_one_part_more_than_its_directory() {
        assert_eq!(child_path("/a", "b").as_deref(), Ok("/a/b"));
        assert_eq!(child_path("/", "b").as_deref(), Ok("/b"));
        for name in ["", ".", "..", "b/c", "b\u{0}"] {
            assert_eq!(child_path("/a", name), Err(NodeError::Name { name: name.to_owned() }));
        }
    }
}
