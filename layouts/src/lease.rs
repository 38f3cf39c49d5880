//! The lease of kazoo, whose holder is written in a znode's data.

use serde_json::Value;

/// Who has a lease of kazoo's `NonBlockingLease`, as the data of `lease_holder` says.
///
/// ```
/// use zoolet_layouts::Lease;
///
/// let data = br#"{"version": 1, "holder": "host-7", "end": "2026-07-01T14:03:00"}"#;
/// assert_eq!(Lease::read(data).unwrap().holder, "host-7");
/// assert_eq!(Lease::read(b"host-7"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The identifier of the holder.
    pub holder: String,
    /// When it ends, by the clock of the holder, as kazoo writes it.
    pub end: String,
}

/// The version of the data that kazoo writes.
const VERSION: i64 = 1;

impl Lease {
    /// Reads the data of `lease_holder`. `None` if it is not kazoo's.
    #[must_use]
    pub fn read(data: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(data).ok()?;
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        if value.get("version")?.as_i64()? != VERSION {
            return None;
        }
        Some(Self { holder: text("holder")?, end: text("end")? })
    }
}
