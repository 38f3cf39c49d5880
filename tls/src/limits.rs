//! The limits of what is read from files, each with its reason.

/// The bytes of a key or trust store. Java's own trust store, with all public authorities, has
/// some 200 KiB.
pub(crate) const STORE_BYTES_MAX: u64 = 16 << 20;

/// The bytes of a certificate revocation list. The longest public ones have some 10 MiB.
pub(crate) const CRL_BYTES_MAX: u64 = 64 << 20;

/// The bytes of a file with a password. Longer is no password, but the wrong file.
pub(crate) const PASSWORD_BYTES_MAX: u64 = 4 << 10;

/// The rounds of key derivation that a private key in PEM may ask for: a second of work. OpenSSL asks
/// for 2,048. For PKCS12 files, for which Java asks for 10,000, their reader has the same limit.
pub(crate) const PBKDF2_ROUNDS_MAX: u32 = 1_000_000;

/// The memory that the key derivation scrypt may use for a private key. OpenSSL asks for 16 MiB.
pub(crate) const SCRYPT_BYTES_MAX: u64 = 256 << 20;
