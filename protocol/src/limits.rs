//! The limits of the protocol, each with its reason.

/// The default of `jute.maxbuffer`, the longest payload of a frame that ZooKeeper accepts: 0xfffff
/// bytes. A peer could otherwise make the server allocate any amount of memory.
pub const FRAME_BYTES_MAX_DEFAULT: usize = 0xf_ffff;

/// The bytes of a request header. A shorter frame is not a request.
pub const REQUEST_HEADER_BYTES: usize = 8;

/// The bytes of a reply header.
pub const REPLY_HEADER_BYTES: usize = 16;

/// Data and lists of at least this many bytes are written to a socket without being copied. Copying
/// fewer bytes is cheaper than keeping them as parts of their own.
pub const SHARED_BYTES_MIN: usize = 8 << 10;
