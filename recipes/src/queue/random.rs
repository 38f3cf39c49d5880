//! Choices at random.

use crate::client::Client;

/// A number below `count`, by the seed of the client if it has one.
pub(crate) fn random_below(client: &Client, count: usize) -> usize {
    let name = client.unique_name();
    let digits = name.get(..8).and_then(|digits| usize::from_str_radix(digits, 16).ok());
    digits.unwrap_or(0) % count.max(1)
}
