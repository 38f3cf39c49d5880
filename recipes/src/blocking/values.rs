//! Barriers, counters and shared values.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use super::{Client, Recipe};
use crate::barrier::member::Membership;
use crate::error::LockError;
use crate::value::distributed_atomic_long::Change;
use crate::value::error::ValueError;
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

/// The async [`DistributedAtomicLong`](crate::DistributedAtomicLong), for threads.
pub type DistributedAtomicLong = Recipe<crate::DistributedAtomicLong>;

impl DistributedAtomicLong {
    /// The number of a path. Nothing is created before the number is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, ValueError> {
        Ok(Self::of(client, crate::DistributedAtomicLong::new(client.ask(), path)?))
    }

    /// The number.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn read(&self) -> Result<i64, ValueError> {
        self.client.wait(self.recipe.get())
    }

    /// Adds to the number.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn add(&self, delta: i64) -> Result<Change, ValueError> {
        self.client.wait(self.recipe.add(delta))
    }

    /// Subtracts from the number.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn subtract(&self, delta: i64) -> Result<Change, ValueError> {
        self.client.wait(self.recipe.subtract(delta))
    }

    /// Sets the number to `after` if it is `before`. Returns whether it was.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn compare_and_set(&self, before: i64, after: i64) -> Result<bool, ValueError> {
        self.client.wait(self.recipe.compare_and_set(before, after))
    }

    /// Sets the number unconditionally.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn force_set(&self, number: i64) -> Result<(), ValueError> {
        self.client.wait(self.recipe.force_set(number))
    }

    /// Creates the znode with this number. Returns `false` if it exists already.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn initialize(&self, number: i64) -> Result<bool, ValueError> {
        self.client.wait(self.recipe.initialize(number))
    }
}

/// Recipes whose znodes' access control list can be set.
macro_rules! with_acl {
    ($($recipe:ident),*) => {$(
        impl $recipe {
            /// The same recipe with this access control list for its znodes and for the directories
            /// that are created for them. The default is open to everyone.
            #[must_use]
            pub fn with_acl(self, acl: Vec<Acl>) -> Self {
                Self { recipe: self.recipe.with_acl(acl), client: self.client }
            }
        }
    )*};
}

with_acl!(DistributedBarrier, DistributedDoubleBarrier, DistributedAtomicLong);

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

    /// Waits until the copy is not `before`, and returns it.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn changed(&self, before: i32) -> Result<i32, ValueError> {
        self.client.wait(self.recipe.changed(before))
    }
}
