//! The Stat of a znode.

use crate::id::{SessionId, Zxid};
use crate::record;

record! {
    /// The Stat of a znode, as a client sees it: 68 bytes on the wire.
    ///
    /// ```
    /// use zoolet_protocol::{Encode, Stat};
    ///
    /// assert_eq!(Stat::default().encoded_len(), 68);
    /// ```
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub struct Stat {
        /// The transaction that created the znode.
        pub czxid: Zxid,
        /// The transaction that last set its data.
        pub mzxid: Zxid,
        /// When it was created, in milliseconds since 1970.
        pub ctime: i64,
        /// When its data was last set, in milliseconds since 1970.
        pub mtime: i64,
        /// How many times its data was set. After an overflow, -1 is skipped.
        pub version: i32,
        /// How many times a child was created or deleted.
        pub cversion: i32,
        /// How many times its access control list was set.
        pub aversion: i32,
        /// The session of an ephemeral; 0 for every other znode.
        pub ephemeral_owner: SessionId,
        /// The length of its data in bytes; 0 for null.
        pub data_length: i32,
        /// The number of its children.
        pub num_children: i32,
        /// The transaction that last created or deleted a child; before that, the one that created
        /// the znode.
        pub pzxid: Zxid,
    }
}
