//! What administrators use.

use super::{Key, put};
use crate::server_options::ServerOptions;
use crate::server_options::values::{self, BadValue};

pub(super) const KEYS: &[Key] = &[
    (FOUR_LETTER_WORDS, four_letter_words),
    ("readonlymode.enabled", |c, v| put(&mut c.readonly_mode, values::boolean(v))),
    ("reconfigEnabled", |c, v| put(&mut c.reconfig_enabled, values::boolean(v))),
];

/// Unlike the flag, the file may name words that ZooKeeper does not have, as it may in ZooKeeper.
fn four_letter_words(options: &mut ServerOptions, value: &str) -> Result<(), BadValue> {
    put(&mut options.four_letter_words, Ok(value.to_owned()))
}

pub(in super::super) const FOUR_LETTER_WORDS: &str = "4lw.commands.whitelist";
