//! One znode.

use bytes::Bytes;
use zoolet_protocol::{Acl, Id, Permissions, Stat, ZPath, Zxid, record};

use super::children::ChildrenPlace;
use super::data::Data;
use crate::acl::{AclList, AclLists};
use crate::ephemeral_owner::EphemeralOwner;

record! {
    /// The part of a znode's Stat that the log and the snapshots store: 60 bytes (`StatPersisted`).
    ///
    /// ```
    /// use zoolet_core::StatPersisted;
    /// use zoolet_protocol::Encode;
    ///
    /// assert_eq!(StatPersisted::default().encoded_len(), 60);
    /// ```
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct StatPersisted {
        /// The transaction that created the znode.
        pub czxid: Zxid,
        /// The transaction that last set its data.
        pub mzxid: Zxid,
        /// When it was created, in milliseconds since 1970.
        pub ctime: i64,
        /// When its data was last set, in milliseconds since 1970.
        pub mtime: i64,
        /// How many times its data was set.
        pub version: i32,
        /// How many children were created since the znode exists: the next sequence number.
        pub cversion: i32,
        /// How many times its access control list was set.
        pub aversion: i32,
        /// The session of an ephemeral, or the mark of a container or a TTL znode.
        pub ephemeral_owner: EphemeralOwner,
        /// The transaction that last created or deleted a child.
        pub pzxid: Zxid,
    }
}

/// One znode: its path, data, access control list and Stat.
///
/// ```
/// use zoolet_core::{Core, Settings};
///
/// let frozen = Core::new(Settings::default()).freeze();
/// let paths: Vec<_> = frozen.znodes().iter().map(|znode| znode.path.to_string()).collect();
/// assert_eq!(paths, ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Znode {
    /// Its path.
    pub path: ZPath,
    /// Its data. `None` is ZooKeeper's null, which differs from empty data.
    pub data: Option<Data>,
    /// Its access control list.
    pub acl: AclList,
    /// The stored part of its Stat.
    pub stat: StatPersisted,
    /// How many children it has.
    pub num_children: i32,
    /// Where the tree keeps the names of its children.
    pub(crate) children: ChildrenPlace,
}

impl Znode {
    /// A znode that was just created.
    pub(crate) fn created(
        path: ZPath,
        data: Option<Data>,
        acl: AclList,
        ephemeral_owner: EphemeralOwner,
        zxid: Zxid,
        time_ms: i64,
    ) -> Self {
        let stat = StatPersisted {
            czxid: zxid,
            mzxid: zxid,
            ctime: time_ms,
            mtime: time_ms,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner,
            pzxid: zxid,
        };
        Self::restored(path, data, acl, stat)
    }

    /// A znode of a snapshot, as yet without children.
    pub(crate) fn restored(
        path: ZPath,
        data: Option<Data>,
        acl: AclList,
        stat: StatPersisted,
    ) -> Self {
        Self { path, data, acl, stat, num_children: 0, children: ChildrenPlace::default() }
    }

    /// A znode that every server has from the start. Its times and zxids are 0.
    pub(crate) fn built_in(path: ZPath, acl: AclList) -> Self {
        // `DataTree.addConfigNode` sets the list with version -1, which is stored as it is.
        let aversion = if path.as_str() == "/zookeeper/config" { -1 } else { 0 };
        let stat = StatPersisted { aversion, ..StatPersisted::default() };
        Self::restored(path, Some(Data::copied(&[])), acl, stat)
    }

    /// The built-in znodes below the root, with their access control lists.
    pub(crate) fn built_ins(acl_lists: &mut AclLists) -> [(ZPath, AclList); 3] {
        let path = |path| ZPath::parse(path).expect("the built-in paths are valid");
        let readable = Acl { permissions: Permissions::READ, id: Id::new("world", "anyone") };
        [
            (path("/zookeeper"), AclList::OPEN),
            (path("/zookeeper/quota"), AclList::OPEN),
            (path("/zookeeper/config"), acl_lists.intern(&[readable].into())),
        ]
    }

    /// Its data, as a reply carries it.
    #[must_use]
    pub fn data_bytes(&self) -> Option<Bytes> {
        self.data.as_ref().map(Data::to_bytes)
    }

    /// The length of its data in bytes, 0 for null.
    pub(crate) fn data_length(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.len())
    }

    /// Its Stat as a client sees it (`DataNode.copyStat`). The stored cversion counts the creations
    /// of children; the cversion in a Stat counts creations and deletions.
    #[inline]
    pub(crate) fn stat(&self) -> Stat {
        let stat = &self.stat;
        Stat {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            ctime: stat.ctime,
            mtime: stat.mtime,
            version: stat.version,
            cversion: stat.cversion.wrapping_mul(2).wrapping_sub(self.num_children),
            aversion: stat.aversion,
            ephemeral_owner: stat.ephemeral_owner.visible(),
            data_length: i32::try_from(self.data_length()).expect("data fits a frame"),
            num_children: self.num_children,
            pzxid: stat.pzxid,
        }
    }

    /// The version after `version`. It is never -1, which means "any version" in a request
    /// (`PrepRequestProcessor.checkAndIncVersion`).
    pub(crate) fn version_after(version: i32) -> i32 {
        match version.wrapping_add(1) {
            -1 => 0,
            next => next,
        }
    }
}
