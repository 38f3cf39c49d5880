//! The limits of this crate, each with its reason.

/// The bytes of a client's token, as in OpenJDK's `DigestMD5Base`.
pub const RESPONSE_BYTES_MAX: usize = 4096;

/// The bytes of a server's token, as in OpenJDK's `DigestMD5Base`.
pub const CHALLENGE_BYTES_MAX: usize = 2048;

/// The bytes of a JAAS file: enough for ten thousand users. A longer one is hardly a JAAS file.
pub const JAAS_FILE_BYTES_MAX: u64 = 1 << 20;

/// The bytes of a user's name. A server keeps the name with each connection, and writes it into
/// access control lists; it limits identities to as many bytes.
pub const USER_BYTES_MAX: usize = 1 << 10;

/// The characters of a peer's text that an error shows.
pub const SHOWN_CHARS_MAX: usize = 64;
