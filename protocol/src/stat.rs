//! What a znode's owner may know of it besides its data.

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
        /// The change that created the znode.
        pub czxid: Zxid,
        /// The change that last set its data.
        pub mzxid: Zxid,
        /// When it was created, in milliseconds since 1970.
        pub ctime: i64,
        /// When its data was last set, in milliseconds since 1970.
        pub mtime: i64,
        /// How often its data was set; -1 is skipped when it wraps around.
        pub version: i32,
        /// How often a child came or went.
        pub cversion: i32,
        /// How often its access control list was set.
        pub aversion: i32,
        /// The session that owns it; 0 for znodes that outlive their session.
        pub ephemeral_owner: SessionId,
        /// The length of its data in bytes; 0 for null.
        pub data_length: i32,
        /// How many children it has.
        pub num_children: i32,
        /// The change that last created or deleted a child; its own creation at first.
        pub pzxid: Zxid,
    }
}
