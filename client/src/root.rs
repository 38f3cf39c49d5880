//! What stands before every path of a client.

use std::ops::Deref;
use std::sync::Arc;

/// The prefix of every path: the chroot and the namespace. Clones share it; of the empty one, which most
/// clients have, they count no references.
#[derive(Debug, Clone)]
pub(crate) struct Root(Option<Arc<str>>);

impl Root {
    pub(crate) const EMPTY: Self = Self(None);
}

impl From<&str> for Root {
    fn from(prefix: &str) -> Self {
        Self((!prefix.is_empty()).then(|| prefix.into()))
    }
}

impl Deref for Root {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}
