//! The methods that several queues have. A queue has a field `znodes`.

/// Gives a queue its options.
macro_rules! option_methods {
    ($queue:ident) => {
        impl $queue {
            /// The path of the queue.
            #[must_use]
            pub fn path(&self) -> &str {
                self.znodes.path()
            }

            /// The same queue with this access control list for its items, for what is in the side
            /// directory, and for the directories that are created. Without it each has the
            /// [default](zoolet_client::Client::default_acl) of its path.
            #[must_use]
            pub fn with_acl(self, acl: Vec<Acl>) -> Self {
                Self { znodes: self.znodes.with(|settings| settings.acl = Some(acl)) }
            }

            /// The same queue with another side directory. It contains what is no item: receipts of
            /// writes, and the clients that wait. The default is the path of the queue with `-side`
            /// appended. Clients whose side directories differ share the items, and wait apart from
            /// each other. No other queue may have it: its consumers would wait in the same line.
            ///
            /// # Errors
            ///
            /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid;
            /// [`QueueError::Directory`] if it is that of the items or below it.
            pub fn with_side_directory(self, path: &str) -> Result<Self, QueueError> {
                ZPath::check(path).map_err(crate::client::Error::from)?;
                if $crate::queue::znodes::is_at_or_below(path, self.znodes.items()) {
                    return Err(QueueError::Directory(path.to_owned()));
                }
                Ok(Self { znodes: self.znodes.with(|settings| settings.side = path.into()) })
            }

            /// How many items the queue has, those that are leased included. This reads it from the
            /// znode of the queue, and counts what is no item too.
            ///
            /// # Errors
            ///
            /// The errors of a read.
            pub async fn count(&self) -> Result<usize, QueueError> {
                self.znodes.count().await
            }

            /// Waits until nothing goes on in the background: puts and takes whose futures were
            /// dropped, and items that are put back because of that. A client that is closed before
            /// may lose an item that has no lease. Without a connection this waits for one.
            ///
            /// # Cancellation
            ///
            /// Safe.
            pub async fn settled(&self) {
                self.znodes.settled().await;
            }
        }
    };
}

/// Gives a queue the methods by which consumers take items.
macro_rules! consumer_methods {
    ($queue:ident) => {
        impl $queue {
            /// Takes the first item, and waits for one if there is none. The
            /// [module](crate::queue) says in which order consumers get items, and how they wait.
            ///
            /// Without a connection this waits for one.
            ///
            /// # Errors
            ///
            /// The errors of requests. [`QueueError::Unknown`] if someone has deleted the receipt of
            /// a deletion whose answer was lost: the item may be lost. [`QueueError::Unreadable`],
            /// [`QueueError::NoWayBack`] and [`QueueError::Contested`] are about one item, which stays
            /// in the queue: the next call goes on with the others.
            ///
            /// # Cancellation
            ///
            /// Safe: an item that was taken is put back, behind the others of its priority or time,
            /// and a lease ends. If the process ends or the client is closed before, an item without
            /// a lease is lost: `settled` waits for that.
            pub async fn take(&self) -> Result<Delivery, QueueError> {
                self.znodes.next().await
            }

            /// Takes the first item, if there is one that is not leased.
            ///
            /// # Errors
            ///
            /// As `take`.
            ///
            /// # Cancellation
            ///
            /// As of `take`.
            pub async fn try_take(&self) -> Result<Option<Delivery>, QueueError> {
                self.znodes.try_take().await
            }

            /// As `take`, within a time limit for everything; `None` when it has passed.
            ///
            /// # Errors
            ///
            /// As `take`.
            ///
            /// # Cancellation
            ///
            /// As of `take`.
            pub async fn take_within(
                &self,
                time: Duration,
            ) -> Result<Option<Delivery>, QueueError> {
                tokio::time::timeout(time, self.take()).await.ok().transpose()
            }
        }
    };
}

/// Gives a queue of Curator's layout the options that only such a queue has, and the loop of a
/// consumer.
macro_rules! curator_methods {
    ($queue:ident) => {
        impl $queue {
            /// The same queue with leases in this directory (`lockPath` of Curator): each item is
            /// delivered **at least once**. All consumers of the queue must have the same.
            ///
            /// No other queue may have it: items of several queues have the same names.
            ///
            /// # Errors
            ///
            /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid;
            /// [`QueueError::Directory`] if it is that of the items or below it.
            pub fn with_lock_path(self, path: &str) -> Result<Self, QueueError> {
                ZPath::check(path).map_err(crate::client::Error::from)?;
                if $crate::queue::znodes::is_at_or_below(path, self.znodes.items()) {
                    return Err(QueueError::Directory(path.to_owned()));
                }
                let znodes = self.znodes.with(|settings| settings.leases = Some(path.into()));
                Ok(Self { znodes })
            }

            /// The same queue, in which a put waits while there are this many items (`maxItems` of
            /// Curator). Puts of several clients at the same moment may exceed it by their number.
            #[must_use]
            pub fn with_max_items(self, max: NonZeroUsize) -> Self {
                Self { znodes: self.znodes.with(|settings| settings.max_items = Some(max)) }
            }

            /// Calls `handle` with each item, one after the other, as the consumer of Curator's queues
            /// does. It returns when a request fails for good, as when the client is closed.
            ///
            /// With leases, an item is deleted after `handle` has succeeded. If it fails,
            /// `on_error` says what happens. When the lease is lost the future of `handle` is dropped.
            /// Without leases, an item is deleted before, and an error of `handle` is only logged, as in
            /// Curator. Data that are not of Curator's format are logged and deleted. An item that this
            /// client may not take stays in the queue: it is logged as a warning, passed over, and tried
            /// again after thirty seconds.
            ///
            /// # Errors
            ///
            /// The errors of requests.
            ///
            /// # Cancellation
            ///
            /// An item on which `handle` works is delivered again if it is leased, and is lost
            /// otherwise.
            pub async fn consume<F, Handling, E>(
                &self,
                on_error: ErrorMode,
                handle: F,
            ) -> Result<Infallible, QueueError>
            where
                F: FnMut(Bytes) -> Handling,
                Handling: Future<Output = Result<(), E>>,
                E: Display,
            {
                consume(&self.znodes, on_error, handle).await
            }
        }
    };
}

/// As [`curator_methods`], for queues in which a new item may be in front of others.
macro_rules! refresh_method {
    ($queue:ident) => {
        impl $queue {
            /// The same queue, which lists its directory again after this many items
            /// (`minItemsBeforeRefresh` of Curator), 1 by default. With a greater number an item that
            /// comes in front of others may be taken after them, and takes cost fewer requests.
            #[must_use]
            pub fn with_refresh_after(self, items: NonZeroUsize) -> Self {
                let znodes = self.znodes.with(|settings| settings.refresh_after = items.get());
                Self { znodes }
            }
        }
    };
}

pub(crate) use {consumer_methods, curator_methods, option_methods, refresh_method};
