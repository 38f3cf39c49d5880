//! The methods that all locks with owners have.

/// Gives a lock the methods to acquire it, and the trait
/// [`InterProcessLock`](super::inter_process_lock::InterProcessLock). The lock says how an owner
/// acquires it; everything else follows from that.
macro_rules! lock_methods {
    (
        impl $lock:ident => $guard:ident;
        $(#[$acquire:meta])* acquire;
        $(#[$try_acquire:meta])* try_acquire;
        $(#[$acquire_as:meta])* acquire_as = |$self_as:ident, $owner_as:ident| $as:expr;
        try_acquire_as = |$self_try:ident, $owner_try:ident| $try:expr;
        is_held_by = |$self_held:ident, $owner_held:ident| $held:expr;
        is_acquired_in_this_process = |$self_acquired:ident| $acquired:expr;
        path = |$self_path:ident| $path:expr;
    ) => {
        impl $lock {
            $(#[$acquire])*
            ///
            /// # Cancellation
            ///
            /// Safe: when the future is dropped, the client's znodes are deleted in the background.
            pub async fn acquire(&self) -> Result<$guard, LockError> {
                self.acquire_as(Owner::new()).await
            }

            /// As `acquire`, within a time limit for everything: connecting, waiting and repeated
            /// attempts. The client's znodes are deleted in the background.
            ///
            /// # Errors
            ///
            /// [`LockError::TimedOut`] when the time has passed; else as `acquire`.
            pub async fn acquire_within(&self, time: Duration) -> Result<$guard, LockError> {
                within(time, self.path_in_errors(), std::pin::pin!(self.acquire())).await
            }

            $(#[$try_acquire])*
            ///
            /// # Errors
            ///
            /// As `acquire`.
            pub async fn try_acquire(&self) -> Result<Option<$guard>, LockError> {
                self.try_acquire_as(Owner::new()).await
            }

            $(#[$acquire_as])*
            pub async fn acquire_as(&self, owner: Owner) -> Result<$guard, LockError> {
                let ($self_as, $owner_as) = (self, owner);
                $as.await.map_err(|error| error.at(&self.path_in_errors().to_string()))
            }

            /// As `acquire_as`, within a time limit for everything.
            ///
            /// # Errors
            ///
            /// [`LockError::TimedOut`] when the time has passed; else as `acquire_as`.
            pub async fn acquire_within_as(
                &self,
                time: Duration,
                owner: Owner,
            ) -> Result<$guard, LockError> {
                within(time, self.path_in_errors(), std::pin::pin!(self.acquire_as(owner))).await
            }

            /// As `try_acquire`, for an owner.
            ///
            /// # Errors
            ///
            /// As `acquire_as`.
            pub async fn try_acquire_as(
                &self,
                owner: Owner,
            ) -> Result<Option<$guard>, LockError> {
                let ($self_try, $owner_try) = (self, owner);
                $try.await.map_err(|error| error.at(&self.path_in_errors().to_string()))
            }

            fn path_in_errors(&self) -> impl std::fmt::Display {
                let $self_path = self;
                $path.clone()
            }

            /// Whether an owner holds the lock by this object or a clone of it.
            #[must_use]
            pub fn is_held_by(&self, owner: Owner) -> bool {
                let ($self_held, $owner_held) = (self, owner);
                $held
            }

            /// Whether anyone in this process holds the lock by this object or a clone of it.
            #[must_use]
            pub fn is_acquired_in_this_process(&self) -> bool {
                let $self_acquired = self;
                $acquired
            }
        }

        impl InterProcessLock for $lock {
            fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
                Box::pin(async { Ok(Box::new(self.acquire().await?) as Box<dyn LockGuard>) })
            }

            fn acquire_within(
                &self,
                time: Duration,
            ) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
                Box::pin(async move {
                    Ok(Box::new(self.acquire_within(time).await?) as Box<dyn LockGuard>)
                })
            }

            fn acquire_within_as(
                &self,
                time: Duration,
                owner: Owner,
            ) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
                Box::pin(async move {
                    Ok(Box::new(self.acquire_within_as(time, owner).await?) as Box<dyn LockGuard>)
                })
            }

            fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>> {
                Box::pin(async {
                    let guard = self.try_acquire().await?;
                    Ok(guard.map(|guard| Box::new(guard) as Box<dyn LockGuard>))
                })
            }

            fn acquire_as(
                &self,
                owner: Owner,
            ) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
                Box::pin(async move {
                    Ok(Box::new(self.acquire_as(owner).await?) as Box<dyn LockGuard>)
                })
            }

            fn try_acquire_as(
                &self,
                owner: Owner,
            ) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>> {
                Box::pin(async move {
                    let guard = self.try_acquire_as(owner).await?;
                    Ok(guard.map(|guard| Box::new(guard) as Box<dyn LockGuard>))
                })
            }

            fn is_held_by(&self, owner: Owner) -> bool {
                self.is_held_by(owner)
            }

            fn is_acquired_in_this_process(&self) -> bool {
                self.is_acquired_in_this_process()
            }
        }
    };
}

pub(crate) use lock_methods;
