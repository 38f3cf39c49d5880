//! The keys that have an effect, one table a topic.

mod access;
mod admin;
mod connections;
pub(super) mod https;
mod monitoring;
mod operations;
mod sessions;
mod storage;
mod throttling;
pub(super) mod tls;
mod znodes;

use crate::server_options::ServerOptions;
use crate::server_options::values::BadValue;

pub(super) use self::operations::FOUR_LETTER_WORDS;

/// Sets an option from a value.
pub(super) type Setter = fn(&mut ServerOptions, &str) -> Result<(), BadValue>;

/// A key without the prefix `zookeeper.`, and what its value sets.
type Key = (&'static str, Setter);

const TOPICS: &[&[Key]] = &[
    connections::KEYS,
    sessions::KEYS,
    znodes::KEYS,
    access::KEYS,
    storage::KEYS,
    tls::KEYS,
    operations::KEYS,
    monitoring::KEYS,
    admin::KEYS,
    https::KEYS,
    throttling::KEYS,
];

fn all() -> impl Iterator<Item = &'static Key> {
    TOPICS.iter().copied().flatten()
}

/// The setter of a key without the prefix `zookeeper.`.
pub(super) fn setter(key: &str) -> Option<Setter> {
    let is_of = |family: &str| key.strip_prefix(family).is_some_and(|rest| rest.starts_with('.'));
    let named = all().find(|(name, _)| *name == key);
    named.or_else(|| access::FAMILIES.iter().find(|(name, _)| is_of(name))).map(|(_, set)| *set)
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| *name)
}

/// The names of the keys of the other topics, for the test that has them all.
#[cfg(test)]
pub(super) fn of_other_topics() -> impl Iterator<Item = &'static str> {
    let own = || {
        let topics = [access::KEYS, tls::KEYS, https::KEYS, monitoring::KEYS, throttling::KEYS];
        topics.into_iter().flatten()
    };
    names().filter(move |name| !own().any(|(own, _)| own == name))
}

fn put<T>(slot: &mut Option<T>, value: Result<T, BadValue>) -> Result<(), BadValue> {
    *slot = Some(value?);
    Ok(())
}
