//! The only file of this crate that reads a clock. [`rustls`] reads one of its own in handshakes.

use rustls::pki_types::UnixTime;

/// The wall time, against which the validity of certificates is checked.
pub(crate) fn now() -> UnixTime {
    UnixTime::now()
}
