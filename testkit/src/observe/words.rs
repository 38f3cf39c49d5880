//! The words of golden scripts. The recorder of this crate writes them, and the runner in the
//! package `zoolet-conformance` parses them.

use std::num::ParseIntError;

use zoolet_protocol::{WatchMode, WatcherType, Zxid};

/// The null path, null data, the null list and a null text.
pub const NULL: &str = "null";

/// An access control list of [`Acl::open`](zoolet_protocol::Acl::open) alone.
pub const OPEN_ACL: &str = "open";

/// An access control list without entries.
pub const EMPTY_ACL: &str = "empty";

/// The prefix of the number of bytes of data that is not written out.
pub const DATA_LENGTH: &str = "bytes:";

/// Separates the operations of a multi.
pub const MULTI_SEPARATOR: &str = ",";

/// Separates the operations of a pipeline.
pub const PIPELINE_SEPARATOR: &str = ";";

/// The prefix of a zxid that is counted from the start of the script.
pub const RELATIVE_ZXID: &str = "z+";

/// The session timeout of a `connect` without `--timeout`, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: i32 = 30_000;

const WATCHER_TYPES: [(&str, WatcherType); 5] = [
    ("children", WatcherType::CHILDREN),
    ("data", WatcherType::DATA),
    ("any", WatcherType::ANY),
    ("persistent", WatcherType::PERSISTENT),
    ("recursive", WatcherType::PERSISTENT_RECURSIVE),
];

const WATCH_MODES: [(&str, WatchMode); 2] =
    [("persistent", WatchMode::PERSISTENT), ("recursive", WatchMode::PERSISTENT_RECURSIVE)];

/// The word for a watcher type, or its number if it is unknown.
#[must_use]
pub fn watcher_type(watcher_type: WatcherType) -> String {
    let word = WATCHER_TYPES.iter().find(|(_, known)| *known == watcher_type);
    word.map_or_else(|| watcher_type.0.to_string(), |(word, _)| (*word).to_owned())
}

/// Parses the word for a watcher type, or a number.
///
/// # Errors
///
/// If it is neither.
pub fn parse_watcher_type(text: &str) -> Result<WatcherType, ParseIntError> {
    let known = WATCHER_TYPES.iter().find(|(word, _)| *word == text);
    known.map_or_else(|| text.parse().map(WatcherType), |(_, known)| Ok(*known))
}

/// The word for a watch mode, or its number if it is unknown.
#[must_use]
pub fn watch_mode(mode: WatchMode) -> String {
    let word = WATCH_MODES.iter().find(|(_, known)| *known == mode);
    word.map_or_else(|| mode.0.to_string(), |(word, _)| (*word).to_owned())
}

/// Parses the word for a watch mode, or a number.
///
/// # Errors
///
/// If it is neither.
pub fn parse_watch_mode(text: &str) -> Result<WatchMode, ParseIntError> {
    let known = WATCH_MODES.iter().find(|(word, _)| *word == text);
    known.map_or_else(|| text.parse().map(WatchMode), |(_, known)| Ok(*known))
}

/// A zxid in a command, counted from `base` if it is that of a write.
#[must_use]
pub fn zxid(zxid: Zxid, base: Zxid) -> String {
    match zxid > Zxid::ZERO {
        true => format!("{RELATIVE_ZXID}{}", zxid.0 - base.0),
        false => zxid.0.to_string(),
    }
}

/// Parses a zxid in a command.
///
/// # Errors
///
/// If it is no number.
pub fn parse_zxid(text: &str, base: Zxid) -> Result<Zxid, ParseIntError> {
    match text.strip_prefix(RELATIVE_ZXID) {
        Some(offset) => offset.parse::<i64>().map(|offset| Zxid(base.0 + offset)),
        None => text.parse().map(Zxid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_parsed_as_what_it_was_written_for() {
        for number in -1..9 {
            let (kind, mode) = (WatcherType(number), WatchMode(number));
            assert_eq!(parse_watcher_type(&watcher_type(kind)), Ok(kind));
            assert_eq!(parse_watch_mode(&watch_mode(mode)), Ok(mode));
            let (written, base) = (Zxid(number.into()), Zxid(100));
            assert_eq!(parse_zxid(&zxid(written, base), base), Ok(written));
        }
        assert!(parse_watch_mode("often").is_err() && parse_zxid("z", Zxid::ZERO).is_err());
    }
}
