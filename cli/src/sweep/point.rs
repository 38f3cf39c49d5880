//! Points: the requests of a command, under names that stay the same from run to run.
//!
//! The n-th request of a run may be another one in the next run, when threads or processes take
//! turns otherwise. So a request is named by its session, its operation, its path, and a count of
//! those that agree in all three. In the path, what differs from run to run is replaced by a mark.

use std::fmt;

use zoolet_protocol::OpCode;

/// A request, as it is found again in another run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Point {
    /// Sessions are numbered from 1 in the order in which they were created.
    pub(super) session: u64,
    pub(super) operation: OpCode,
    /// With marks, and empty for a request that names none.
    pub(super) path: String,
    /// From 1 on, among those that agree in everything else.
    pub(super) nth: u64,
}

impl Point {
    /// The name of the operation, as ZooKeeper has it.
    pub(super) fn operation(&self) -> String {
        match self.operation.name() {
            Some(name) => name.to_owned(),
            None => format!("operation {}", self.operation.0),
        }
    }

    /// A short name, the same in each run and on each machine.
    pub(super) fn id(&self) -> String {
        let Self { session, operation, path, nth } = self;
        let text = format!("{session} {} {path} {nth}", operation.0);
        format!("{:010x}", mixed(fnv1a(text.as_bytes())) >> (u64::BITS - ID_BITS))
    }
}

/// With a thousand points, two have the same id once in a million times.
const ID_BITS: u32 = 40;

/// The hash function FNV-1a of 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Lets each bit change about half of the bits, as MurmurHash3 ends: texts that differ in the last
/// character have much the same FNV.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", ordinal(self.nth), self.operation())?;
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        write!(f, " of session {}", self.session)
    }
}

/// `1st`, `2nd`, and so on.
pub(super) fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// The mark of a name that a program has generated.
const GUID: &str = "{guid}";

/// The mark of a number: of a sequential znode, a session, a process, a port or a time.
const NUMBER: &str = "{number}";

/// Numbers of so many digits are marked. Those of sequential znodes have ten.
const NUMBER_DIGITS: usize = 4;

/// Hexadecimal words of so many digits are marked: the first part of a UUID has eight.
const GUID_DIGITS: usize = 8;

/// Replaces what differs from run to run by marks.
pub(super) fn masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = after_uuid(rest) {
            masked.push_str(GUID);
            rest = after;
            continue;
        }
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        push_word(&mut masked, word);
        let between = after.find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(after.len());
        let (between, after) = after.split_at(between);
        masked.push_str(between);
        rest = after;
    }
    masked
}

/// The text after a UUID with dashes, if it begins with one.
fn after_uuid(text: &str) -> Option<&str> {
    let (uuid, after) = text.split_at_checked(36)?;
    let is_part = |(index, byte): (usize, &u8)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let ends = after.chars().next().is_none_or(|next| !next.is_ascii_alphanumeric());
    (ends && uuid.as_bytes().iter().enumerate().all(is_part)).then_some(after)
}

fn push_word(masked: &mut String, word: &str) {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has = |is_it: fn(&u8) -> bool| word.as_bytes().iter().any(is_it);
    if word.len() >= GUID_DIGITS
        && is_hex(word)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
    {
        return masked.push_str(GUID);
    }
    if let Some(digits) = word.strip_prefix("0x")
        && digits.len() >= NUMBER_DIGITS
        && is_hex(digits)
    {
        return masked.push_str(NUMBER);
    }
    let mut rest = word;
    while !rest.is_empty() {
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (letters, after) = rest.split_at(letters);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(digits);
        masked.push_str(letters);
        masked.push_str(if digits.len() >= NUMBER_DIGITS { NUMBER } else { digits });
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_masked() {
        for (path, expected) in [
            ("", ""),
            ("/", "/"),
            ("/locks/stock", "/locks/stock"),
            (
                "/locks/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-0000000012",
                "/locks/_c_{guid}-lock-{number}",
            ),
            ("/l/9b1deb4d3b7d4bad9bdd2b0d7b3dcb6d__lock__0000000003", "/l/{guid}__lock__{number}"),
            ("/l/x-72057594037927936-0000000001", "/l/x-{number}-{number}"),
            ("/l/s0x100a3f", "/l/s0x100a3f"),
            ("/l/0x100a3f77", "/l/{number}"),
            ("/queue/qn-0000000000", "/queue/qn-{number}"),
            ("/lock0000000003", "/lock{number}"),
            ("/brokers/127.0.0.1:41234", "/brokers/127.0.0.1:{number}"),
            ("/deadbeef/v2/worker-7", "/deadbeef/v2/worker-7"),
            ("/run/3f2a9c1b", "/run/{guid}"),
            ("/größe/12345", "/größe/{number}"),
        ] {
            assert_eq!(masked(path), expected);
        }
    }

    #[test]
    fn the_id_of_a_point_is_part_of_reports_and_stays() {
        let path = "/sem/{guid}".to_owned();
        let point = Point { session: 1, operation: OpCode::CREATE, path, nth: 2 };
        assert_eq!(point.to_string(), "2nd create /sem/{guid} of session 1");
        let other = Point { nth: 3, ..point.clone() };
        assert_ne!(point.id(), other.id());
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        let ends = [1, 2, 3, 4, 11, 12, 13, 21, 22, 111].map(ordinal);
        assert_eq!(
            ends,
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "111th"]
        );
    }
}
