//! Unique numbers, reserved in blocks: Curator's `CachedAtomicLong` and `CachedAtomicInteger`.

use tokio::sync::Mutex;

use crate::value::atomic_number::{DistributedAtomicInteger, DistributedAtomicLong};
use crate::value::error::ValueError;

/// A type of reserved numbers over a number of many clients.
macro_rules! cached_atomic {
    ($(#[$docs:meta])* $name:ident of $atomic:ident, $number:ty) => {
        $(#[$docs])*
        #[derive(Debug)]
        pub struct $name {
            number: $atomic,
            block: $number,
            reserved: Mutex<Reserved<$number>>,
        }

        impl $name {
            /// Numbers in blocks of `block`. A block of less than 1 is one of 1.
            pub fn new(number: &$atomic, block: $number) -> Self {
                let reserved = Mutex::new(Reserved { last: 0, end: 0 });
                Self { number: number.clone(), block: block.max(1), reserved }
            }

            /// The next number. It is greater than all before it of this object, and no other
            /// object gets it, as long as nobody sets the shared number to a lower value. This
            /// sends requests when the block is used up; other callers wait meanwhile.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($atomic), "::add`]. After a lost reply a block may \
                be reserved that nobody uses.")]
            ///
            /// # Cancellation
            ///
            /// Safe: the numbers of a block may be lost.
            pub async fn next(&self) -> Result<$number, ValueError> {
                let mut reserved = self.reserved.lock().await;
                if reserved.last == reserved.end {
                    let change = self.number.add(self.block).await?;
                    *reserved = Reserved { last: change.before, end: change.after };
                }
                reserved.last += 1;
                Ok(reserved.last)
            }
        }
    };
}

/// The numbers that are reserved and were not returned yet: those above `last`, up to `end`.
#[derive(Debug)]
struct Reserved<N> {
    last: N,
    end: N,
}

cached_atomic! {
    /// Unique numbers of many clients, without a request for most of them (`CachedAtomicLong` of
    /// Curator). Each object reserves a block of numbers with one change of a
    /// [`DistributedAtomicLong`], and returns them one after the other. Numbers that are reserved
    /// and not used, as when the process ends, are lost. Between several objects the order is not
    /// that of time.
    ///
    /// ```no_run
    /// use zoolet_client::Client;
    /// use zoolet_recipes::{CachedAtomicLong, DistributedAtomicLong};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("localhost:2181").await?;
    /// let ids = CachedAtomicLong::new(&DistributedAtomicLong::new(&client, "/ids")?, 1_000);
    /// println!("order {}", ids.next().await?);
    /// # Ok(())
    /// # }
    /// ```
    CachedAtomicLong of DistributedAtomicLong, i64
}

cached_atomic! {
    /// As [`CachedAtomicLong`], with 32 bits, over a [`DistributedAtomicInteger`].
    ///
    /// ```no_run
    /// use zoolet_client::Client;
    /// use zoolet_recipes::{CachedAtomicInteger, DistributedAtomicInteger};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("localhost:2181").await?;
    /// let ids = CachedAtomicInteger::new(&DistributedAtomicInteger::new(&client, "/ids")?, 100);
    /// println!("seat {}", ids.next().await?);
    /// # Ok(())
    /// # }
    /// ```
    CachedAtomicInteger of DistributedAtomicInteger, i32
}
