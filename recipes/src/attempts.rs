//! Repeated attempts after an error that other clients or the connection have caused.

use std::time::Duration;

use zoolet_protocol::ErrorCode;

use crate::client::{self, Client, RetryPolicy};
use crate::error::LockError;

/// How many times in a row an attempt may fail because of other clients, which create and delete
/// directories or end the session.
const THWARTED_MAX: u32 = 20;

/// The attempts of one operation, with pauses between them.
///
/// Without a connection there is no limit: a caller with a deadline sets it around the attempts.
pub(crate) struct Attempts<'a> {
    policy: RetryPolicy,
    /// Its seed decides the pauses.
    client: Option<&'a Client>,
    /// How many attempts failed because of other clients.
    thwarted: u32,
    /// How many attempts failed for want of a connection.
    disconnected: u32,
    /// How many answers to writes were lost in a row.
    lost_answers: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client: Some(client), ..Self::without_client() }
    }

    /// Attempts with the locks of several clients.
    pub(crate) fn without_client() -> Self {
        let (first, last) = (Duration::from_millis(1), Duration::from_millis(100));
        let policy = RetryPolicy::bounded_exponential_backoff(first, last, THWARTED_MAX);
        Self { policy, client: None, thwarted: 0, disconnected: 0, lost_answers: 0 }
    }

    /// Waits before a new place is created after one was lost, however many were lost before.
    pub(crate) async fn wait_after_lost_place(&mut self) {
        self.thwarted = self.thwarted.min(THWARTED_MAX - 1);
        self.wait_after(LockError::place_lost()).await.expect("there is an attempt left");
    }

    /// As [`Attempts::wait_after`], after a write. A server ends the connection at a request that is too long
    /// for it, each time: after so many lost answers in a row another attempt is of no use.
    pub(crate) async fn wait_after_write(&mut self, error: LockError) -> Result<(), LockError> {
        let is_lost = matches!(&error, LockError::Client(client::Error::ConnectionLoss { .. }));
        self.lost_answers = if is_lost { self.lost_answers + 1 } else { 0 };
        if self.lost_answers >= THWARTED_MAX { Err(error) } else { self.wait_after(error).await }
    }

    /// Waits before the next attempt. Returns the error if another attempt is of no use.
    pub(crate) async fn wait_after(&mut self, error: LockError) -> Result<(), LockError> {
        let is_disconnected = match &error {
            LockError::PlaceLost(_) => false,
            LockError::Client(error)
                if error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::NODE_EXISTS) =>
            {
                false
            }
            LockError::Client(error) if error.is_retryable() => true,
            _ => return Err(error),
        };
        let failed = if is_disconnected { &mut self.disconnected } else { &mut self.thwarted };
        let pause = match self.client {
            Some(client) => client.retry_delay(&self.policy, *failed, Duration::ZERO),
            None => self.policy.delay(*failed, Duration::ZERO),
        };
        if is_disconnected {
            *failed = (*failed + 1).min(THWARTED_MAX - 1);
        } else {
            *failed += 1;
        }
        let Some(pause) = pause else { return Err(error) };
        // There is no pause after the first failure: the other client has usually finished by now.
        if is_disconnected || self.thwarted > 1 {
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zoolet_client::recipe::now;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_a_pause_after_each_lost_place_but_the_first() {
        let mut attempts = Attempts::without_client();
        for lost in 0..100 {
            let start = now();
            attempts.wait_after_lost_place().await;
            assert_eq!(start.elapsed().is_zero(), lost == 0, "after {lost} lost places");
        }
    }
}
