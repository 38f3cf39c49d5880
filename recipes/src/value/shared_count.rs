//! A number with a local copy that follows its changes: Curator's `SharedCount`, with its znode.

use bytes::Bytes;
use zoolet_protocol::{Acl, Zxid};

use crate::client::{Client, Subscription};
use crate::value::error::ValueError;
use crate::value::shared_value::{SharedValue, VersionedValue};

/// The bytes of a number, the most significant first.
const NUMBER_BYTES: usize = size_of::<i32>();

/// A count as it was at one moment.
///
/// ```
/// use zoolet_recipes::VersionedCount;
/// use zoolet_recipes::protocol::Zxid;
///
/// let count = VersionedCount { count: 7, version: 3, mzxid: Zxid(40), czxid: Zxid(36) };
/// assert_eq!(count.count, 7);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionedCount {
    /// The number.
    pub count: i32,
    /// The version of the data.
    pub version: i32,
    /// The zxid of the transaction that set the number. Later numbers have greater ones.
    pub mzxid: Zxid,
    /// The zxid of the transaction that created the znode.
    pub czxid: Zxid,
}

/// A number in a znode, of which each process has a copy that follows all changes: a
/// [`SharedValue`] of four bytes.
///
/// Its znode is that of Curator's `SharedCount`, and of kazoo's `Counter` with `support_curator`.
/// If kazoo's counter comes first, it creates the znode without data. Until a client sets the
/// number, that is [`ValueError::Corrupt`] here, and an exception in Curator. Where kazoo takes
/// part, create the znode first, with [`SharedCount::start`].
///
/// ```no_run
/// use zoolet_recipes::SharedCount;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let workers = SharedCount::start(&client, "/workers", 4).await?;
/// workers.set(8).await?;
/// assert_eq!(workers.count()?, 8);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedCount {
    value: SharedValue,
    path: String,
}

impl SharedCount {
    /// Creates the znode with `seed` if it does not exist, and follows its changes.
    ///
    /// # Errors
    ///
    /// As [`SharedValue::start`].
    pub async fn start(client: &Client, path: &str, seed: i32) -> Result<Self, ValueError> {
        Self::start_with(client, path, seed, None).await
    }

    /// As [`SharedCount::start`], with an access control list for the znode and for the directories
    /// that are created for it.
    ///
    /// # Errors
    ///
    /// As [`SharedValue::start`].
    pub async fn start_with_acl(
        client: &Client,
        path: &str,
        seed: i32,
        acl: Vec<Acl>,
    ) -> Result<Self, ValueError> {
        Self::start_with(client, path, seed, Some(&acl)).await
    }

    async fn start_with(
        client: &Client,
        path: &str,
        seed: i32,
        acl: Option<&[Acl]>,
    ) -> Result<Self, ValueError> {
        let value = SharedValue::start_with(client, path, encoded(seed), acl).await?;
        Ok(Self { value, path: path.to_owned() })
    }

    /// The copy. This sends no request.
    ///
    /// # Errors
    ///
    /// [`ValueError::Corrupt`] if the znode's data has not four bytes.
    pub fn count(&self) -> Result<i32, ValueError> {
        self.decoded(&self.value.value()).map(|versioned| versioned.count)
    }

    /// The copy with its version.
    ///
    /// # Errors
    ///
    /// As [`SharedCount::count`].
    pub fn versioned_count(&self) -> Result<VersionedCount, ValueError> {
        self.decoded(&self.value.value())
    }

    /// Sets the number unconditionally. When this returns, the copy has this number or a later one.
    ///
    /// # Errors
    ///
    /// As [`SharedValue::set`].
    pub async fn set(&self, count: i32) -> Result<(), ValueError> {
        self.value.set(encoded(count)).await
    }

    /// Sets the number to `count` if the copy is `before` and the znode has not changed since.
    /// Returns whether it was set; if not, the copy has a later number when this returns.
    ///
    /// # Errors
    ///
    /// [`ValueError::Corrupt`], or as [`SharedValue::try_set`].
    pub async fn try_set(&self, before: i32, count: i32) -> Result<bool, ValueError> {
        let seen = self.value.value();
        if self.decoded(&seen)?.count != before {
            return Ok(false);
        }
        self.value.try_set(&seen, encoded(count)).await
    }

    /// Sets the number to `count` if the znode has not changed since `seen`. Returns whether it was
    /// set; if not, the copy has a later number when this returns. Unlike
    /// [`SharedCount::try_set`], it also notices a number that was changed and changed back
    /// (`trySetCount` with a `VersionedValue` of Curator).
    ///
    /// # Errors
    ///
    /// As [`SharedValue::try_set`].
    pub async fn try_set_versioned(
        &self,
        seen: &VersionedCount,
        count: i32,
    ) -> Result<bool, ValueError> {
        let VersionedCount { count: before, version, mzxid, czxid } = *seen;
        let seen = VersionedValue { data: encoded(before), version, mzxid, czxid };
        self.value.try_set(&seen, encoded(count)).await
    }

    /// Waits until the copy is not `before`, and returns it.
    ///
    /// # Errors
    ///
    /// [`ValueError::Corrupt`] if the znode's data has not four bytes.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn changed(&self, before: i32) -> Result<i32, ValueError> {
        let mut values = self.value.subscribe();
        loop {
            let count = self.decoded(&values.borrow_and_update().clone())?.count;
            if count != before {
                return Ok(count);
            }
            if values.changed().await.is_err() {
                unreachable!("the sender lives as long as the value does");
            }
        }
    }

    /// The bytes of the copy, in a channel that reports changes.
    pub(crate) fn subscribe(&self) -> Subscription<VersionedValue> {
        self.value.subscribe()
    }

    fn decoded(&self, value: &VersionedValue) -> Result<VersionedCount, ValueError> {
        let bytes = value.data[..].try_into().map_err(|_| ValueError::Corrupt {
            path: self.path.clone(),
            length: value.data.len(),
            expected: NUMBER_BYTES,
        })?;
        let VersionedValue { version, mzxid, czxid, .. } = *value;
        Ok(VersionedCount { count: i32::from_be_bytes(bytes), version, mzxid, czxid })
    }
}

fn encoded(count: i32) -> Bytes {
    Bytes::copy_from_slice(&count.to_be_bytes())
}
