//! A map from ids that the server gives, in a table that grows in small steps.

use zoolet_protocol::SessionId;

use crate::parts::{Parts, folded};
use crate::watches::ConnectionId;

/// An id that the server gives, so that no client chooses ids with the same hash.
pub(crate) trait Id: Copy + Eq {
    fn number(self) -> u64;

    /// Spreads ids that are beside each other over all bits.
    fn hash(self) -> u32 {
        let number = self.number();
        let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        folded((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb))
    }
}

impl Id for SessionId {
    fn number(self) -> u64 {
        self.0.cast_unsigned()
    }
}

impl Id for ConnectionId {
    fn number(self) -> u64 {
        self.0
    }
}

/// Values by id.
#[derive(Debug, Clone)]
pub(crate) struct ById<K, V> {
    entries: Parts<(K, V)>,
}

impl<K, V> Default for ById<K, V> {
    fn default() -> Self {
        Self { entries: Parts::default() }
    }
}

impl<K: Id, V> ById<K, V> {
    pub(crate) fn get(&self, id: K) -> Option<&V> {
        self.entries.find(id.hash(), |(other, _)| *other == id).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, id: K) -> Option<&mut V> {
        self.entries.find_mut(id.hash(), |(other, _)| *other == id).map(|(_, value)| value)
    }

    /// Sets the value of an id, and returns the one that it had.
    pub(crate) fn insert(&mut self, id: K, value: V) -> Option<V> {
        match self.get_mut(id) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.entries.insert(id.hash(), (id, value));
                None
            }
        }
    }

    /// The value of an id; the default if it had none.
    pub(crate) fn get_or_add(&mut self, id: K) -> &mut V
    where
        V: Default,
    {
        let new = || (id, V::default());
        &mut self.entries.get_or_insert_with(id.hash(), |(other, _)| *other == id, new).1
    }

    pub(crate) fn remove(&mut self, id: K) -> Option<V> {
        let removed = self.entries.remove(id.hash(), |(other, _)| *other == id);
        removed.map(|(_, value)| value)
    }

    /// All ids with their values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> + Clone {
        self.entries.iter().map(|(id, value)| (*id, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_agrees_with_a_map_of_the_standard_library() {
        let (mut map, mut wanted) = (ById::default(), BTreeMap::new());
        // Ids beside each other, of several servers.
        for step in 0..20_000_i64 {
            let id = SessionId((step % 3) << 56 | (step * 7 % 2_000));
            match step % 5 {
                0 => assert_eq!(map.remove(id), wanted.remove(&id)),
                1 => {
                    *map.get_or_add(id) += 1;
                    *wanted.entry(id).or_default() += 1;
                }
                _ => assert_eq!(map.insert(id, step), wanted.insert(id, step)),
            }
            assert_eq!(map.get(id), wanted.get(&id));
            assert_eq!(map.get_mut(id), wanted.get_mut(&id));
        }
        let all: BTreeMap<_, _> = map.iter().map(|(id, value)| (id, *value)).collect();
        assert_eq!(all, wanted);
    }
}
