//! Limits the memory that large requests take together (`ZooKeeperServer.isLargeRequest`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::Throttling;

/// The memory that large requests take together.
#[derive(Debug, Clone)]
pub(crate) struct LargeRequests {
    bytes_min: usize,
    bytes_max: usize,
    taken: Arc<AtomicUsize>,
}

/// The memory of one large request, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

/// A large request has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a large request of {bytes} bytes has no room beside {taken} bytes of others; \
     largeRequestMaxBytes sets the limit"
)]
pub(crate) struct NoRoom {
    bytes: usize,
    taken: usize,
}

impl LargeRequests {
    /// `None` if no request counts as large.
    pub(crate) fn of(throttling: &Throttling) -> Option<Self> {
        Some(Self {
            bytes_min: throttling.large_request_bytes_min?,
            bytes_max: throttling.large_requests_bytes_max,
            taken: Arc::default(),
        })
    }

    /// Takes the memory of a request, of which it is only known how long it is; nothing for one that
    /// is not large.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the large requests would exceed the limit together.
    pub(crate) fn take(&self, bytes: usize) -> Result<Option<Taken>, NoRoom> {
        if bytes <= self.bytes_min {
            return Ok(None);
        }
        let one_more = |taken: usize| taken.checked_add(bytes).filter(|&all| all <= self.bytes_max);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Some(Taken { bytes, all: Arc::clone(&self.taken) })),
            Err(taken) => Err(NoRoom { bytes, taken }),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_requests_share_the_limit_and_others_do_not_count() {
        let throttling = Throttling {
            large_request_bytes_min: Some(100),
            large_requests_bytes_max: 1_000,
            ..Throttling::default()
        };
        let requests = LargeRequests::of(&throttling).expect("they are limited");
        assert!(requests.take(100).expect("it is not large").is_none());
        let first = requests.take(600).expect("there is room");
        assert!(first.is_some());
        assert_eq!(requests.take(401).unwrap_err(), NoRoom { bytes: 401, taken: 600 });
        let second = requests.take(400).expect("there is just room");
        assert!(requests.take(101).is_err());
        drop(first);
        drop(requests.take(600).expect("there is room again"));
        drop(second);
        assert!(requests.take(1_001).is_err() && requests.take(usize::MAX).is_err());
        assert!(requests.take(1_000).is_ok());
        assert!(LargeRequests::of(&Throttling::default()).is_none());
    }
}
