//! The limits of the protocol, each with its reason.

/// The default of `jute.maxbuffer`, the longest frame payload that a ZooKeeper server or client
/// takes: 0xfffff bytes. Longer frames are not read at all, since their length came from a peer.
pub const FRAME_BYTES_MAX_DEFAULT: usize = 0xf_ffff;

/// The bytes of a request header, below which a frame is not a request.
pub const REQUEST_HEADER_BYTES: usize = 8;

/// The bytes of a reply header.
pub const REPLY_HEADER_BYTES: usize = 16;

/// Data and lists of so many bytes are handed to a socket where they are. To copy fewer is cheaper than
/// a system call of their own.
pub const SHARED_BYTES_MIN: usize = 64 << 10;
