//! The errors of caches.

use crate::client;

/// Why a cache ended, or why a call on it failed.
///
/// ```
/// use zoolet_recipes::CacheError;
///
/// let error = CacheError::TooLarge { path: "/app".into(), bytes_max: 1024 };
/// assert_eq!(
///     error.to_string(),
///     "/app: the cached znodes take more than 1024 bytes; allow more, or select fewer znodes",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The znodes take more memory than the builder allowed. The cache has ended and follows no
    /// changes any more.
    #[error(
        "{path}: the cached znodes take more than {bytes_max} bytes; allow more, or select fewer znodes"
    )]
    TooLarge {
        /// The root of the cache.
        path: String,
        /// The limit.
        bytes_max: usize,
    },
    /// A stream of events read so slowly that events were dropped. The stream goes on with the
    /// events after this error: read the cache again to see what the dropped ones changed.
    #[error("{missed} events were dropped before they were read; read the cache again")]
    FellBehind {
        /// The number of dropped events.
        missed: u64,
    },
    /// The cache was closed, or dropped.
    #[error("{0}: the cache is closed")]
    Closed(String),
    /// A request failed, or the client is closed.
    #[error(transparent)]
    Client(#[from] client::Error),
}
