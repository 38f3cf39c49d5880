//! What the page shows, and what changes between two states of it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The parts that have entries with keys. Of these only the entries that changed are sent.
pub(super) const KEYED: [&str; 2] = ["locks", "sessions"];

/// Entries by their keys.
pub(super) type Entries = BTreeMap<String, Value>;

/// A state of everything that the page shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Model {
    /// Those of [`KEYED`], in its order.
    entries: [Entries; KEYED.len()],
    /// What is sent whole when it changes.
    plain: BTreeMap<&'static str, Value>,
}

impl Model {
    /// With a part that is sent whole when it changes.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.plain.insert(name, value.into());
        self
    }

    /// With the entries of one of [`KEYED`].
    pub(super) fn with_entries(mut self, name: &str, entries: Entries) -> Self {
        let index = KEYED.iter().position(|known| *known == name);
        self.entries[index.expect("the part is one of those with keys")] = entries;
        self
    }

    /// All of it.
    pub(super) fn snapshot(&self) -> Value {
        let mut all: Map<String, Value> =
            self.plain.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        for (name, entries) in KEYED.iter().zip(&self.entries) {
            all.insert((*name).to_owned(), json!(entries));
        }
        Value::Object(all)
    }

    /// What has to be put and removed in `earlier` to make this of it: plain parts by their names, and
    /// of each keyed part `{"put": {..}, "gone": [..]}`. `None` if both are the same.
    pub(super) fn since(&self, earlier: &Self) -> Option<Value> {
        let mut changes = Map::new();
        for (name, value) in &self.plain {
            if earlier.plain.get(name) != Some(value) {
                changes.insert((*name).to_owned(), value.clone());
            }
        }
        for name in earlier.plain.keys().filter(|name| !self.plain.contains_key(*name)) {
            changes.insert((*name).to_owned(), Value::Null);
        }
        for (name, (new, old)) in KEYED.iter().zip(self.entries.iter().zip(&earlier.entries)) {
            let put: Map<String, Value> = new
                .iter()
                .filter(|(key, value)| old.get(*key) != Some(value))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let gone: Vec<&String> = old.keys().filter(|key| !new.contains_key(*key)).collect();
            if !put.is_empty() || !gone.is_empty() {
                changes.insert((*name).to_owned(), json!({ "put": put, "gone": gone }));
            }
        }
        if changes.is_empty() { None } else { Some(Value::Object(changes)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the page does it.
    fn applied(state: &Value, changes: &Value) -> Value {
        let mut state = state.clone();
        for (name, change) in changes.as_object().unwrap() {
            if KEYED.contains(&name.as_str()) {
                let entries = state[name].as_object_mut().unwrap();
                for key in change["gone"].as_array().unwrap() {
                    entries.remove(key.as_str().unwrap());
                }
                entries.extend(change["put"].as_object().unwrap().clone());
            } else if change.is_null() {
                state.as_object_mut().unwrap().remove(name);
            } else {
                state[name] = change.clone();
            }
        }
        state
    }

    fn model() -> impl Strategy<Value = Model> {
        let entries =
            || prop::collection::btree_map("[ab]{1,2}", (0..3).prop_map(Value::from), 0..4);
        (entries(), entries(), prop::option::of(0..3), 0..2).prop_map(
            |(locks, sessions, trouble, time)| {
                let model = Model::default().with("time_ms", time);
                let model = model.with_entries("locks", locks).with_entries("sessions", sessions);
                match trouble {
                    Some(trouble) => model.with("trouble", trouble),
                    None => model,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_state_and_its_changes_are_the_next_state(first in model(), second in model()) {
            match second.since(&first) {
                Some(changes) => {
                    prop_assert_eq!(applied(&first.snapshot(), &changes), second.snapshot());
                }
                None => prop_assert_eq!(&first, &second),
            }
        }
    }
}
