//! What the page shows, and what changes between two states of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value;

/// The parts that have entries with keys. Of these only the entries that changed are sent.
pub(super) const KEYED: [&str; 2] = ["locks", "sessions"];

/// A value as JSON. It is made once, for all states and messages that have it.
pub(super) type Json = Arc<str>;

/// Entries by their keys.
pub(super) type Entries = BTreeMap<String, Json>;

/// A state of everything that the page shows. Clones share their parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Model {
    /// Those of [`KEYED`], in its order.
    entries: [Arc<Entries>; KEYED.len()],
    /// What is sent whole when it changes.
    plain: BTreeMap<&'static str, Json>,
}

/// A JSON object that is being written.
struct Object(String);

impl Object {
    fn new() -> Self {
        Self("{".to_owned())
    }

    fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    /// Begins a member.
    fn name(&mut self, name: &str) -> &mut String {
        if !self.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&Value::from(name).to_string());
        self.0.push(':');
        &mut self.0
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn object<'a>(entries: impl Iterator<Item = (&'a String, &'a Json)>) -> String {
    let mut object = Object::new();
    for (key, value) in entries {
        object.name(key).push_str(value);
    }
    object.end()
}

fn is_same(one: &Json, other: &Json) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl Model {
    /// With a part that is sent whole when it changes.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.plain.insert(name, value.into().to_string().into());
        self
    }

    /// Without a part that is sent whole.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.plain.remove(name);
        self
    }

    /// With the entries of one of [`KEYED`].
    pub(super) fn with_entries(mut self, name: &str, entries: impl Into<Arc<Entries>>) -> Self {
        let index = KEYED.iter().position(|known| *known == name);
        self.entries[index.expect("the part is one of those with keys")] = entries.into();
        self
    }

    /// All of it, as JSON.
    pub(super) fn snapshot(&self) -> String {
        let mut all = Object::new();
        for (name, value) in &self.plain {
            all.name(name).push_str(value);
        }
        for (name, entries) in KEYED.iter().zip(&self.entries) {
            all.name(name).push_str(&object(entries.iter()));
        }
        all.end()
    }

    /// What has to be put and removed in `earlier` to make this of it, as JSON: plain parts by their names,
    /// and of each keyed part `{"put": {..}, "gone": [..]}`. `None` if both are the same.
    pub(super) fn since(&self, earlier: &Self) -> Option<String> {
        let mut changes = Object::new();
        for (name, value) in &self.plain {
            if !earlier.plain.get(name).is_some_and(|old| is_same(old, value)) {
                changes.name(name).push_str(value);
            }
        }
        for name in earlier.plain.keys().filter(|name| !self.plain.contains_key(*name)) {
            changes.name(name).push_str("null");
        }
        for (name, (new, old)) in KEYED.iter().zip(self.entries.iter().zip(&earlier.entries)) {
            if Arc::ptr_eq(new, old) {
                continue;
            }
            let is_other = |(key, value): &(&String, &Json)| {
                !old.get(*key).is_some_and(|old| is_same(old, value))
            };
            let put: Vec<_> = new.iter().filter(is_other).collect();
            let gone: Vec<&String> = old.keys().filter(|key| !new.contains_key(*key)).collect();
            if !put.is_empty() || !gone.is_empty() {
                let (put, gone) =
                    (object(put.into_iter()), Value::from_iter(gone.into_iter().cloned()));
                let text = changes.name(name);
                write!(text, r#"{{"put":{put},"gone":{gone}}}"#).expect("a text takes all");
            }
        }
        if changes.is_empty() { None } else { Some(changes.end()) }
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
        let entries = || {
            prop::collection::btree_map(
                "[ab\"]{1,2}",
                (0..3).prop_map(|it: i32| it.to_string().into()),
                0..4,
            )
        };
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
                    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
                    let changed = applied(&parsed(&first.snapshot()), &parsed(&changes));
                    prop_assert_eq!(changed, parsed(&second.snapshot()));
                }
                None => prop_assert_eq!(&first, &second),
            }
        }
    }
}
