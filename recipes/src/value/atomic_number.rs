//! Numbers that many clients change: Curator's `DistributedAtomicLong` and `DistributedAtomicInteger`,
//! with their znodes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::client::{Client, RetryPolicy};
use crate::lock::mutex::InterProcessMutex;
use crate::value::distributed_atomic_value::{AtomicStats, Change, DistributedAtomicValue};
use crate::value::error::ValueError;

/// A type of numbers over a [`DistributedAtomicValue`].
macro_rules! atomic_number {
    ($(#[$docs:meta])* $name:ident of $number:ty) => {
        $(#[$docs])*
        #[derive(Debug, Clone)]
        pub struct $name {
            value: DistributedAtomicValue,
        }

        impl $name {
            /// The number of a path. Nothing is created before the number is changed.
            ///
            /// # Errors
            ///
            /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
            pub fn new(client: &Client, path: &str) -> Result<Self, ValueError> {
                Ok(Self { value: DistributedAtomicValue::new(client, path)? })
            }

            /// The same number with this access control list for its znode and for the directories
            /// that are created for it. Without it each has the
            /// [default](zoolet_client::Client::default_acl) of its path.
            #[must_use]
            pub fn with_acl(self, acl: Vec<Acl>) -> Self {
                Self { value: self.value.with_acl(acl) }
            }

            /// The same number with this retry policy for when other clients are quicker. The
            /// default is 29 more attempts, with pauses from a millisecond to a tenth of a second.
            #[must_use]
            pub fn with_retry_policy(self, retry: RetryPolicy) -> Self {
                Self { value: self.value.with_retry_policy(retry) }
            }

            /// The same number with a mutex for when other clients were quicker as often as the
            /// retry policy allows: see [`DistributedAtomicValue::with_promotion`].
            #[must_use]
            pub fn with_promotion(
                self,
                mutex: &InterProcessMutex,
                within: Duration,
                retry: RetryPolicy,
            ) -> Self {
                Self { value: self.value.with_promotion(mutex, within, retry) }
            }

            /// The same number, which tells after each change what it has cost: see
            /// [`DistributedAtomicValue::with_statistics`].
            #[must_use]
            pub fn with_statistics(
                self,
                tell: impl Fn(&AtomicStats) + Send + Sync + 'static,
            ) -> Self {
                Self { value: self.value.with_statistics(tell) }
            }

            /// The number.
            ///
            /// # Errors
            ///
            /// [`ValueError::Corrupt`]; the errors of a read.
            pub async fn get(&self) -> Result<$number, ValueError> {
                self.decoded(self.value.get().await?.as_ref())
            }

            /// Adds to the number.
            ///
            /// # Errors
            ///
            /// [`ValueError::OutOfRange`], [`ValueError::Contended`], [`ValueError::Corrupt`],
            /// [`ValueError::CreatedAnew`]; the errors of requests and of the mutex, if there is
            /// one.
            ///
            /// # Cancellation
            ///
            /// When the future is dropped, the change may be made or not. The mutex is released in
            /// the background.
            pub async fn add(&self, delta: $number) -> Result<Change<$number>, ValueError> {
                let sum = |number: $number| match number.checked_add(delta) {
                    Some(sum) => Ok(Some(sum)),
                    None => Err(self.out_of_range()),
                };
                Ok(self.change(sum).await?.expect("there is a sum to write"))
            }

            /// Subtracts from the number.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($name), "::add`].")]
            pub async fn subtract(&self, delta: $number) -> Result<Change<$number>, ValueError> {
                let difference = |number: $number| match number.checked_sub(delta) {
                    Some(difference) => Ok(Some(difference)),
                    None => Err(self.out_of_range()),
                };
                Ok(self.change(difference).await?.expect("there is a difference to write"))
            }

            /// Adds one.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($name), "::add`].")]
            pub async fn increment(&self) -> Result<Change<$number>, ValueError> {
                self.add(1).await
            }

            /// Subtracts one.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($name), "::add`].")]
            pub async fn decrement(&self) -> Result<Change<$number>, ValueError> {
                self.subtract(1).await
            }

            /// Sets the number to `after` if it is `before`. Returns whether it was. A missing znode
            /// is 0.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($name), "::add`].")]
            pub async fn compare_and_set(
                &self,
                before: $number,
                after: $number,
            ) -> Result<bool, ValueError> {
                let replace = |number: $number| Ok((number == before).then_some(after));
                Ok(self.change(replace).await?.is_some())
            }

            /// Sets the number, whatever it is, but not between the read and the write of another
            /// client. Returns the number before and after.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($name), "::add`].")]
            pub async fn try_set(&self, number: $number) -> Result<Change<$number>, ValueError> {
                let changed = self.change(|_| Ok(Some(number))).await?;
                Ok(changed.expect("there is a number to write"))
            }

            /// Sets the number unconditionally.
            ///
            /// # Errors
            ///
            /// The errors of requests.
            pub async fn force_set(&self, number: $number) -> Result<(), ValueError> {
                self.value.force_set(encoded(number.to_be_bytes())).await
            }

            /// Creates the znode with this number. Returns `false` if it exists already.
            ///
            /// # Errors
            ///
            /// The errors of a create.
            pub async fn initialize(&self, number: $number) -> Result<bool, ValueError> {
                self.value.initialize(encoded(number.to_be_bytes())).await
            }

            /// Replaces the number by what `next` returns; for `None` nothing is changed.
            async fn change(
                &self,
                next: impl Fn($number) -> Result<Option<$number>, ValueError>,
            ) -> Result<Option<Change<$number>>, ValueError> {
                let next = |data: Option<&Bytes>| {
                    let next = next(self.decoded(data)?)?;
                    Ok(next.map(|number| encoded(number.to_be_bytes())))
                };
                let Some((before, after)) = self.value.change(next).await? else {
                    return Ok(None);
                };
                let (before, after) = (before.as_ref(), Some(&after));
                Ok(Some(Change { before: self.decoded(before)?, after: self.decoded(after)? }))
            }

            /// The number of some data. A missing znode and empty data mean 0, as in Curator.
            fn decoded(&self, data: Option<&Bytes>) -> Result<$number, ValueError> {
                let data = data.map(|data| &data[..]).unwrap_or_default();
                if data.is_empty() {
                    return Ok(0);
                }
                let bytes = data.try_into().map_err(|_| ValueError::Corrupt {
                    path: self.value.path().to_owned(),
                    length: data.len(),
                    expected: size_of::<$number>(),
                })?;
                Ok(<$number>::from_be_bytes(bytes))
            }

            fn out_of_range(&self) -> ValueError {
                ValueError::OutOfRange { path: self.value.path().to_owned() }
            }
        }
    };
}

atomic_number! {
    /// A number in a znode. Each change reads the number and writes the new one with the version
    /// that was read. If another client was quicker, it tries again.
    ///
    /// No change is made twice. When the answer to a write is lost, the change is tried again only
    /// if the write was certainly not carried out; otherwise the error is
    /// [`ConnectionLoss`](crate::client::Error::ConnectionLoss).
    ///
    /// Its znode is that of Curator's `DistributedAtomicLong`: eight bytes, the most significant
    /// first. A missing znode and empty data mean 0.
    ///
    /// ```no_run
    /// use zoolet_recipes::DistributedAtomicLong;
    /// use zoolet_client::Client;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("localhost:2181").await?;
    /// let orders = DistributedAtomicLong::new(&client, "/orders")?;
    /// let change = orders.add(2).await?;
    /// assert_eq!(change.after, change.before + 2);
    /// # Ok(())
    /// # }
    /// ```
    DistributedAtomicLong of i64
}

atomic_number! {
    /// As [`DistributedAtomicLong`], with 32 bits: four bytes, the most significant first.
    ///
    /// Its znode is that of Curator's `DistributedAtomicInteger` and of kazoo's `Counter` with
    /// `support_curator`, and also that of a [`SharedCount`](crate::SharedCount).
    ///
    /// ```no_run
    /// use zoolet_recipes::DistributedAtomicInteger;
    /// use zoolet_client::Client;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("localhost:2181").await?;
    /// let seats = DistributedAtomicInteger::new(&client, "/seats")?;
    /// assert!(seats.initialize(40).await? || seats.get().await? <= 40);
    /// # Ok(())
    /// # }
    /// ```
    DistributedAtomicInteger of i32
}

fn encoded<const N: usize>(bytes: [u8; N]) -> Bytes {
    Bytes::copy_from_slice(&bytes)
}
