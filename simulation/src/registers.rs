//! Znodes that are only read and written: their histories must be linearizable.
//!
//! The version of a znode orders its writes, and shows for each read which write it saw. So no
//! search is needed, as in checkers of general histories: the versions must not contradict the
//! order in which calls ended before others began.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// One call that received a reply.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) is_write: bool,
    pub(crate) version: i32,
    pub(crate) value: Vec<u8>,
    /// The positions in the order of all beginnings and ends.
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// The histories of all registers.
#[derive(Debug, Default)]
pub(crate) struct Registers(Mutex<Histories>);

#[derive(Debug, Default)]
struct Histories {
    last_place: u64,
    calls: BTreeMap<String, Vec<Call>>,
}

impl Registers {
    /// The next position in the order of beginnings and ends.
    pub(crate) fn place(&self) -> u64 {
        let mut histories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histories.last_place += 1;
        histories.last_place
    }

    pub(crate) fn add(&self, path: &str, call: Call) {
        let mut histories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histories.calls.entry(path.to_owned()).or_default().push(call);
    }

    /// Checks that all histories are linearizable.
    pub(crate) fn check(&self) -> Result<(), String> {
        let histories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histories.calls.iter().try_for_each(|(path, calls)| {
            check(calls).map_err(|fault| format!("{path} is not linearizable: {fault}"))
        })
    }
}

fn check(calls: &[Call]) -> Result<(), String> {
    let mut values: BTreeMap<i32, &Call> = BTreeMap::new();
    for call in calls {
        let first = values.entry(call.version).or_insert(call);
        if first.value != call.value {
            return Err(format!("two values of one version: {first:?}, {call:?}"));
        }
    }
    let writes = calls.iter().filter(|call| call.is_write);
    let mut versions: Vec<_> = writes.map(|call| call.version).collect();
    versions.sort_unstable();
    if versions.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("a version is given twice: {versions:?}"));
    }
    let mut by_beginning: Vec<_> = calls.iter().collect();
    by_beginning.sort_by_key(|call| call.began);
    let mut by_end = by_beginning.clone();
    by_end.sort_by_key(|call| call.ended);
    let mut over = by_end.into_iter().peekable();
    let mut newest: Option<&Call> = None;
    for call in by_beginning {
        while let Some(before) = over.next_if(|before| before.ended < call.began) {
            if newest.is_none_or(|newest| before.version > newest.version) {
                newest = Some(before);
            }
        }
        let least = newest.map_or(0, |newest| newest.version + i32::from(call.is_write));
        if call.version < least {
            return Err(format!("{call:?} came after {newest:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(is_write: bool, version: i32, began: u64, ended: u64) -> Call {
        Call { is_write, version, value: vec![version.to_be_bytes()[3]], began, ended }
    }

    #[test]
    fn a_read_of_an_older_version_is_found() {
        let write = |version, began, ended| call(true, version, began, ended);
        let read = |version, began, ended| call(false, version, began, ended);
        assert!(check(&[write(1, 1, 4), write(2, 2, 3), read(2, 5, 6)]).is_ok());
        assert!(check(&[write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)]).is_err());
        assert!(check(&[write(2, 1, 2), write(1, 3, 4)]).is_err());
        assert!(check(&[write(1, 1, 2), write(1, 3, 4)]).is_err());
        let other = Call { value: b"other".to_vec(), ..read(1, 5, 6) };
        assert!(check(&[write(1, 1, 2), other]).is_err());
    }
}
