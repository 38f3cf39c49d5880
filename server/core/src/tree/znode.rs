//! One znode.

use bytes::Bytes;
use zoolet_protocol::{Acl, Id, Permissions, Stat, ZPath, Zxid, record};

use crate::acl::{AclList, AclLists};
use crate::owner::EphemeralOwner;

record! {
    /// The part of a Stat that is stored: 60 bytes (`StatPersisted`).
    ///
    /// ```
    /// use zoolet_core::Persisted;
    /// use zoolet_protocol::Encode;
    ///
    /// assert_eq!(Persisted::default().encoded_len(), 60);
    /// ```
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Persisted {
        /// The change that created the znode.
        pub czxid: Zxid,
        /// The change that last set its data.
        pub mzxid: Zxid,
        /// When it was created, in milliseconds since 1970.
        pub ctime: i64,
        /// When its data was last set, in milliseconds since 1970.
        pub mtime: i64,
        /// How often its data was set.
        pub version: i32,
        /// How many children were ever created: the next sequence number.
        pub cversion: i32,
        /// How often its access control list was set.
        pub aversion: i32,
        /// What its life depends on.
        pub owner: EphemeralOwner,
        /// The change that last created or deleted a child.
        pub pzxid: Zxid,
    }
}

/// One znode: its path, its data, who may do what with it, and its Stat.
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
    /// Where it is.
    pub path: ZPath,
    /// `None` for null, which is not empty.
    pub data: Option<Bytes>,
    /// Who may do what.
    pub acl: AclList,
    /// The part of its Stat that is stored.
    pub stat: Persisted,
    /// How many children it has.
    pub num_children: i32,
}

impl Znode {
    /// A znode as it is after its creation.
    pub(crate) fn created(
        path: ZPath,
        data: Option<Bytes>,
        acl: AclList,
        owner: EphemeralOwner,
        zxid: Zxid,
        time_ms: i64,
    ) -> Self {
        let stat = Persisted {
            czxid: zxid,
            mzxid: zxid,
            ctime: time_ms,
            mtime: time_ms,
            version: 0,
            cversion: 0,
            aversion: 0,
            owner,
            pzxid: zxid,
        };
        Self { path, data, acl, stat, num_children: 0 }
    }

    /// A znode that is there from the start: no time, no zxid.
    pub(crate) fn built_in(path: ZPath, acl: AclList) -> Self {
        // `DataTree.addConfigNode` sets the list with version -1, and so the version is.
        let aversion = if path.as_str() == "/zookeeper/config" { -1 } else { 0 };
        let stat = Persisted { aversion, ..Persisted::default() };
        Self { path, data: Some(Bytes::new()), acl, stat, num_children: 0 }
    }

    /// The built-in znodes below the root, and who may do what with them.
    pub(crate) fn built_ins(acl_lists: &mut AclLists) -> [(ZPath, AclList); 3] {
        let path = |path| ZPath::parse(path).expect("the built-in paths are valid");
        let readable = Acl { permissions: Permissions::READ, id: Id::new("world", "anyone") };
        [
            (path("/zookeeper"), AclList::OPEN),
            (path("/zookeeper/quota"), AclList::OPEN),
            (path("/zookeeper/config"), acl_lists.intern(&[readable].into())),
        ]
    }

    /// The bytes of its data.
    pub(crate) fn data_length(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }

    /// Its Stat as a client sees it (`DataNode.copyStat`). What is stored as cversion counts
    /// creations; what is seen counts creations and deletions.
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
            ephemeral_owner: stat.owner.visible(),
            data_length: i32::try_from(self.data_length()).expect("data fits a frame"),
            num_children: self.num_children,
            pzxid: stat.pzxid,
        }
    }

    /// The version after `version`: -1 is skipped, because it means any version in a request
    /// (`PrepRequestProcessor.checkAndIncVersion`).
    pub(crate) fn version_after(version: i32) -> i32 {
        match version.wrapping_add(1) {
            -1 => 0,
            next => next,
        }
    }
}
