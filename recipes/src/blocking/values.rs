//! Barriers, counters and shared values.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use super::{Client, Recipe};
use crate::barrier::member::Membership;
use crate::error::LockError;
use crate::value::distributed_atomic_value::Change;
use crate::value::error::ValueError;
use crate::value::shared_count::VersionedCount;
use crate::value::shared_value::VersionedValue;

/// The async [`DistributedBarrier`](crate::DistributedBarrier), for threads.
pub type DistributedBarrier = Recipe<crate::DistributedBarrier>;

impl DistributedBarrier {
    /// The barrier of a path. Nothing is created before it is set.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        Ok(Self::of(client, crate::DistributedBarrier::new(client.ask(), path)?))
    }

    /// Sets the barrier. If it is set already, nothing changes.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn set(&self) -> Result<(), LockError> {
        self.client.wait(self.recipe.set())
    }

    /// Removes the barrier, which wakes all waiting clients.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn remove(&self) -> Result<(), LockError> {
        self.client.wait(self.recipe.remove())
    }

    /// Whether the barrier is set.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn is_set(&self) -> Result<bool, LockError> {
        self.client.wait(self.recipe.is_set())
    }

    /// Waits until the barrier is not set.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn wait(&self) -> Result<(), LockError> {
        self.client.wait(self.recipe.wait())
    }

    /// Waits until the barrier is not set, within a time limit.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed.
    pub fn wait_within(&self, time: Duration) -> Result<(), LockError> {
        self.client.wait(self.recipe.wait_within(time))
    }
}

/// The async [`DistributedDoubleBarrier`](crate::DistributedDoubleBarrier), for threads.
pub type DistributedDoubleBarrier = Recipe<crate::DistributedDoubleBarrier>;

impl DistributedDoubleBarrier {
    /// The barrier of a path, for at least this many members. Nothing is created before a member
    /// enters.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self, LockError> {
        let barrier = crate::DistributedDoubleBarrier::new(client.ask(), path, members)?;
        Ok(Self::of(client, barrier))
    }

    /// Enters, and waits until enough members have come. [`Client::wait`] waits for the
    /// [`leave`](Membership::leave) of what is returned.
    ///
    /// # Errors
    ///
    /// As the async [`enter`](crate::DistributedDoubleBarrier::enter).
    pub fn enter(&self) -> Result<Membership, LockError> {
        self.client.wait(self.recipe.enter())
    }

    /// Enters, and waits until enough members have come, within a time limit.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed.
    pub fn enter_within(&self, time: Duration) -> Result<Membership, LockError> {
        self.client.wait(self.recipe.enter_within(time))
    }
}

/// The async [`DistributedAtomicValue`](crate::DistributedAtomicValue), for threads.
pub type DistributedAtomicValue = Recipe<crate::DistributedAtomicValue>;

impl DistributedAtomicValue {
    /// The value of a path. Nothing is created before the value is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, ValueError> {
        Ok(Self::of(client, crate::DistributedAtomicValue::new(client.ask(), path)?))
    }

    /// The value; `None` if the znode does not exist.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn read(&self) -> Result<Option<Bytes>, ValueError> {
        self.client.wait(self.recipe.get())
    }

    /// Sets the value to `after` if it is `before`. Returns whether it was.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn compare_and_set(
        &self,
        before: impl AsRef<[u8]>,
        after: impl Into<Bytes>,
    ) -> Result<bool, ValueError> {
        self.client.wait(self.recipe.compare_and_set(before, after))
    }

    /// Sets the value, and returns the one before and after.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn try_set(&self, data: impl Into<Bytes>) -> Result<Change<Option<Bytes>>, ValueError> {
        self.client.wait(self.recipe.try_set(data))
    }

    /// Sets the value unconditionally.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn force_set(&self, data: impl Into<Bytes>) -> Result<(), ValueError> {
        self.client.wait(self.recipe.force_set(data))
    }

    /// Creates the znode with this value. Returns `false` if it exists already.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn initialize(&self, data: impl Into<Bytes>) -> Result<bool, ValueError> {
        self.client.wait(self.recipe.initialize(data))
    }
}

/// A type of numbers, for threads.
macro_rules! atomic_number {
    ($name:ident of $number:ty) => {
        #[doc = concat!("The async [`", stringify!($name), "`](crate::", stringify!($name), "), for \
            threads.")]
        pub type $name = Recipe<crate::$name>;

        impl $name {
            /// The number of a path. Nothing is created before the number is changed.
            ///
            /// # Errors
            ///
            /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
            pub fn new(client: &Client, path: &str) -> Result<Self, ValueError> {
                Ok(Self::of(client, crate::$name::new(client.ask(), path)?))
            }

            /// The number.
            ///
            /// # Errors
            ///
            /// As the async recipe; so of all that follow.
            pub fn read(&self) -> Result<$number, ValueError> {
                self.client.wait(self.recipe.get())
            }

            /// Adds to the number.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn add(&self, delta: $number) -> Result<Change<$number>, ValueError> {
                self.client.wait(self.recipe.add(delta))
            }

            /// Subtracts from the number.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn subtract(&self, delta: $number) -> Result<Change<$number>, ValueError> {
                self.client.wait(self.recipe.subtract(delta))
            }

            /// Adds one.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn increment(&self) -> Result<Change<$number>, ValueError> {
                self.client.wait(self.recipe.increment())
            }

            /// Subtracts one.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn decrement(&self) -> Result<Change<$number>, ValueError> {
                self.client.wait(self.recipe.decrement())
            }

            /// Sets the number to `after` if it is `before`. Returns whether it was.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn compare_and_set(
                &self,
                before: $number,
                after: $number,
            ) -> Result<bool, ValueError> {
                self.client.wait(self.recipe.compare_and_set(before, after))
            }

            /// Sets the number, and returns the one before and after.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn try_set(&self, number: $number) -> Result<Change<$number>, ValueError> {
                self.client.wait(self.recipe.try_set(number))
            }

            /// Sets the number unconditionally.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn force_set(&self, number: $number) -> Result<(), ValueError> {
                self.client.wait(self.recipe.force_set(number))
            }

            /// Creates the znode with this number. Returns `false` if it exists already.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn initialize(&self, number: $number) -> Result<bool, ValueError> {
                self.client.wait(self.recipe.initialize(number))
            }
        }
    };
}

atomic_number!(DistributedAtomicLong of i64);
atomic_number!(DistributedAtomicInteger of i32);

/// A type of reserved numbers, for threads.
macro_rules! cached_atomic {
    ($name:ident of $atomic:ident, $number:ty) => {
        #[doc = concat!("The async [`", stringify!($name), "`](crate::", stringify!($name), "), for \
            threads.")]
        pub type $name = Recipe<crate::$name>;

        impl $name {
            /// Numbers in blocks of `block`. A block of less than 1 is one of 1.
            pub fn new(number: &$atomic, block: $number) -> Self {
                Self::of(&number.client, crate::$name::new(&number.recipe, block))
            }

            /// The next number.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn next(&self) -> Result<$number, ValueError> {
                self.client.wait(self.recipe.next())
            }
        }
    };
}

cached_atomic!(CachedAtomicLong of DistributedAtomicLong, i64);
cached_atomic!(CachedAtomicInteger of DistributedAtomicInteger, i32);

/// Recipes whose znodes' access control list can be set.
macro_rules! with_acl {
    ($($recipe:ident),*) => {$(
        impl $recipe {
            /// The same recipe with this access control list for its znodes and for the directories
            /// that are created for them. Without it each has the
            /// [default](zoolet_client::Client::default_acl) of its path.
            #[must_use]
            pub fn with_acl(self, acl: Vec<Acl>) -> Self {
                Self { recipe: self.recipe.with_acl(acl), client: self.client }
            }
        }
    )*};
}

with_acl!(
    DistributedBarrier,
    DistributedDoubleBarrier,
    DistributedAtomicInteger,
    DistributedAtomicLong,
    DistributedAtomicValue
);

/// The async [`SharedValue`](crate::SharedValue), for threads.
pub type SharedValue = Recipe<crate::SharedValue>;

impl SharedValue {
    /// Creates the znode with `seed` if it does not exist, and follows its changes.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn start(client: &Client, path: &str, seed: impl Into<Bytes>) -> Result<Self, ValueError> {
        let value = client.wait(crate::SharedValue::start(client.ask(), path, seed))?;
        Ok(Self::of(client, value))
    }

    /// The copy. This sends no request.
    #[must_use]
    pub fn value(&self) -> VersionedValue {
        self.recipe.value()
    }

    /// Sets the value unconditionally.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn set(&self, data: impl Into<Bytes>) -> Result<(), ValueError> {
        self.client.wait(self.recipe.set(data))
    }

    /// Sets the value if it has not changed since it was `seen`. Returns whether it was set.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn try_set(
        &self,
        seen: &VersionedValue,
        data: impl Into<Bytes>,
    ) -> Result<bool, ValueError> {
        self.client.wait(self.recipe.try_set(seen, data))
    }

    /// Waits until the copy is not what was `seen`, within a time limit; `None` if it does not
    /// change.
    #[must_use]
    pub fn changed_within(&self, seen: &VersionedValue, time: Duration) -> Option<VersionedValue> {
        let mut values = self.recipe.subscribe();
        let changed = values.wait_for(|value| value != seen);
        let changed = self.client.wait_within(time, changed)?;
        changed.ok().map(|value| value.clone())
    }
}

/// The async [`SharedCount`](crate::SharedCount), for threads.
pub type SharedCount = Recipe<crate::SharedCount>;

impl SharedCount {
    /// Creates the znode with `seed` if it does not exist, and follows its changes.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn start(client: &Client, path: &str, seed: i32) -> Result<Self, ValueError> {
        let count = client.wait(crate::SharedCount::start(client.ask(), path, seed))?;
        Ok(Self::of(client, count))
    }

    /// The copy. This sends no request.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn count(&self) -> Result<i32, ValueError> {
        self.recipe.count()
    }

    /// The copy with its version.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn versioned_count(&self) -> Result<VersionedCount, ValueError> {
        self.recipe.versioned_count()
    }

    /// Sets the number unconditionally.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn set(&self, count: i32) -> Result<(), ValueError> {
        self.client.wait(self.recipe.set(count))
    }

    /// Sets the number to `count` if the copy is `before`. Returns whether it was set.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn try_set(&self, before: i32, count: i32) -> Result<bool, ValueError> {
        self.client.wait(self.recipe.try_set(before, count))
    }

    /// Sets the number to `count` if the znode has not changed since `seen`. Returns whether it was
    /// set.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn try_set_versioned(&self, seen: &VersionedCount, count: i32) -> Result<bool, ValueError> {
        self.client.wait(self.recipe.try_set_versioned(seen, count))
    }

    /// Waits until the copy is not `before`, and returns it.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn changed(&self, before: i32) -> Result<i32, ValueError> {
        self.client.wait(self.recipe.changed(before))
    }
}
