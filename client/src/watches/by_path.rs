//! A map with paths for keys, ordered by path, of which most clients need few entries: their own place
//! in a line and the znode ahead. These are in one list. Many are in a tree.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The most entries of the list. One more moves all into the tree, where they stay until it is empty.
const FEW_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct ByPath<V> {
    /// Ordered by path. None while there are `many`.
    few: Vec<(Arc<str>, V)>,
    many: BTreeMap<Arc<str>, V>,
}

impl<V> Default for ByPath<V> {
    fn default() -> Self {
        Self { few: Vec::new(), many: BTreeMap::new() }
    }
}

impl<V> ByPath<V> {
    fn place(&self, path: &str) -> Option<usize> {
        self.few.iter().position(|(known, _)| **known == *path)
    }

    pub(super) fn get(&self, path: &str) -> Option<&V> {
        match self.place(path) {
            Some(place) => Some(&self.few[place].1),
            None => self.many.get(path),
        }
    }

    pub(super) fn get_mut(&mut self, path: &str) -> Option<&mut V> {
        match self.place(path) {
            Some(place) => Some(&mut self.few[place].1),
            None => self.many.get_mut(path),
        }
    }

    pub(super) fn get_or_add(&mut self, path: Arc<str>) -> &mut V
    where
        V: Default,
    {
        if self.many.is_empty() {
            let found = self.few.binary_search_by(|(known, _)| known.cmp(&path));
            if let Err(place) = found
                && self.few.len() < FEW_MAX
            {
                self.few.insert(place, (path, V::default()));
                return &mut self.few[place].1;
            }
            if let Ok(place) = found {
                return &mut self.few[place].1;
            }
        }
        self.many.extend(self.few.drain(..));
        self.many.entry(path).or_default()
    }

    pub(super) fn remove(&mut self, path: &str) {
        match self.place(path) {
            Some(place) => drop(self.few.remove(place)),
            None => drop(self.many.remove(path)),
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        self.few.retain_mut(|(_, value)| keep(value));
        self.many.retain(|_, value| keep(value));
    }

    /// All entries, ordered by path.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.few.iter().map(|(path, value)| (path, value)).chain(&self.many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_entries_are_those_of_a_tree() {
        let (mut map, mut model) = (ByPath::<u32>::default(), BTreeMap::new());
        // A fixed sequence of pseudo-random numbers. The number of paths grows beyond the few, and shrinks
        // to none again and again.
        let mut state = 7_u32;
        for step in 0..20_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let path: Arc<str> = format!("/path-{}", (state >> 16) % 20).into();
            match (state >> 8) % 8 {
                _ if (step / 100) % 2 == 0 => {
                    *map.get_or_add(Arc::clone(&path)) += step;
                    *model.entry(path).or_default() += step;
                }
                0 => {
                    map.retain(|value| *value % 3 > 0);
                    model.retain(|_, value| *value % 3 > 0);
                }
                1 => {
                    map.get_mut(&path).into_iter().for_each(|value| *value += 1);
                    model.get_mut(&path).into_iter().for_each(|value| *value += 1);
                }
                _ => {
                    map.remove(&path);
                    model.remove(&path);
                }
            }
            assert!(map.iter().eq(&model), "step {step}");
            assert!(model.iter().all(|(path, value)| map.get(path) == Some(value)), "step {step}");
            assert!(map.few.is_empty() || map.many.is_empty(), "step {step}");
        }
    }
}
