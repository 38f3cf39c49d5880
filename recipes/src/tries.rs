//! Trying again what others, or the connection, have thwarted.

use std::time::Duration;

use zoolet_protocol::ErrorCode;

use crate::client::RetryPolicy;
use crate::error::LockError;

/// How often the same is tried while others thwart it: they make and remove directories, or end the
/// session.
const THWARTED_MAX: u32 = 20;

/// The tries of one thing, with pauses between them.
///
/// A connection that goes is waited for, however long that takes; who has a deadline bounds it.
pub(crate) struct Tries {
    policy: RetryPolicy,
    thwarted: u32,
    failed: u32,
}

impl Tries {
    pub(crate) fn new() -> Self {
        let (first, last) = (Duration::from_millis(1), Duration::from_millis(100));
        let policy = RetryPolicy::bounded_exponential_backoff(first, last, THWARTED_MAX);
        Self { policy, thwarted: 0, failed: 0 }
    }

    /// Waits until it is time for a new place after one was lost, however many were lost before.
    pub(crate) async fn after_lost_place(&mut self) {
        if self.after(LockError::PlaceLost).await.is_err() {
            self.thwarted = THWARTED_MAX - 1;
        }
    }

    /// Waits until it is time for the next try, or gives the error back if there is to be none.
    pub(crate) async fn after(&mut self, error: LockError) -> Result<(), LockError> {
        let is_for_want_of_a_connection = match &error {
            LockError::PlaceLost => false,
            LockError::Client(error)
                if error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::NODE_EXISTS) =>
            {
                false
            }
            LockError::Client(error) if error.is_retryable() => true,
            _ => return Err(error),
        };
        let tried = if is_for_want_of_a_connection { &mut self.failed } else { &mut self.thwarted };
        let pause = self.policy.delay(*tried, Duration::ZERO);
        if is_for_want_of_a_connection {
            *tried = (*tried + 1).min(THWARTED_MAX - 1);
        } else {
            *tried += 1;
        }
        let Some(pause) = pause else { return Err(error) };
        // Whoever was quicker once is done by now, as a rule.
        if is_for_want_of_a_connection || self.thwarted > 1 {
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }
}
