//! The data of a znode.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

/// The longest data that a reply copies: that takes no longer than to share them.
const COPIED_BYTES_MAX: usize = 256;

/// The data of a znode. Clones share it.
///
/// It is not a [`Bytes`]: that has twice the size, and its first clone allocates memory that it
/// keeps.
///
/// ```
/// use zoolet_core::Data;
///
/// let data = Data::copied(b"10.0.0.7");
/// assert_eq!(data.to_bytes(), &data[..]);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Data(Arc<[u8]>);

impl Data {
    /// A copy of `bytes`, so that it does not keep the frame alive in which they came.
    #[must_use]
    pub fn copied(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Sets the data of a znode to a copy of `bytes`: in their place, if they are as long as those before
    /// and nobody shares those.
    pub(crate) fn set(data: &mut Option<Self>, bytes: Option<&[u8]>) {
        if let (Some(Self(before)), Some(bytes)) = (&mut *data, bytes)
            && before.len() == bytes.len()
            && let Some(before) = Arc::get_mut(before)
        {
            before.copy_from_slice(bytes);
            return;
        }
        *data = bytes.map(Self::copied);
    }

    /// The data for a reply. Long data are shared.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self.len() {
            ..=COPIED_BYTES_MAX => Bytes::copy_from_slice(self),
            _ => Bytes::from_owner(self.clone()),
        }
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_set_in_their_place_unless_somebody_shares_them() {
        let mut data = Some(Data::copied(b"one"));
        let place = |data: &Option<Data>| data.as_ref().map(|data| data.as_ptr());
        let first = place(&data);
        Data::set(&mut data, Some(b"two"));
        assert_eq!((data.as_deref(), place(&data)), (Some(&b"two"[..]), first));
        let shared = data.clone();
        Data::set(&mut data, Some(b"six"));
        assert_eq!(data.as_deref(), Some(&b"six"[..]));
        assert_eq!(shared.as_deref(), Some(&b"two"[..]), "who shares them keeps them");
        for bytes in [Some(&b"longer"[..]), Some(b""), None, Some(b"again")] {
            Data::set(&mut data, bytes);
            assert_eq!(data.as_deref(), bytes);
        }
    }

    #[test]
    fn only_long_data_are_shared_with_replies() {
        for (length, is_shared) in [(0, false), (COPIED_BYTES_MAX, false), (300, true)] {
            let data = Data::copied(&vec![7; length]);
            let bytes = data.to_bytes();
            assert_eq!(bytes, &data[..]);
            assert_eq!(length > 0 && bytes.as_ptr() == data.as_ptr(), is_shared, "{length}");
        }
    }
}
