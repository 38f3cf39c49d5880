//! Requests to Redis, and its answers.

use std::io;

use bytes::{Bytes, BytesMut};

use crate::requests;

pub(super) fn get(key: usize) -> Bytes {
    command(&[b"GET", kept(key).as_bytes()])
}

pub(super) fn set(key: usize) -> Bytes {
    command(&[b"SET", kept(key).as_bytes(), requests::DATA])
}

/// A key, and the request that deletes it.
pub(super) fn create(name: &str) -> (Bytes, Bytes) {
    let key = format!("created:{name}");
    (command(&[b"SET", key.as_bytes(), requests::DATA]), command(&[b"DEL", key.as_bytes()]))
}

/// A lock as Redis' documentation has it: a key that expires, if it is not there.
pub(super) fn enter(name: &str) -> Bytes {
    command(&[b"SET", lock(name).as_bytes(), requests::DATA, b"NX", b"PX", b"30000"])
}

pub(super) fn leave(name: &str) -> Bytes {
    command(&[b"DEL", lock(name).as_bytes()])
}

/// Keys as long as the paths of znodes.
pub(super) fn filling(count: usize) -> impl Iterator<Item = Bytes> {
    (0..count).map(|number| {
        let key = format!("/fill/{:05}/{:010}", number / 1_000, number);
        command(&[b"SET", key.as_bytes(), requests::DATA])
    })
}

fn kept(key: usize) -> String {
    format!("kept:{key}")
}

fn lock(name: &str) -> String {
    format!("lock:{name}")
}

fn command(words: &[&[u8]]) -> Bytes {
    let mut out = BytesMut::new();
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out.freeze()
}

/// Takes the next answer: a line, or a line with a length and as many bytes.
pub(super) fn next_answer(input: &mut BytesMut) -> io::Result<Option<Bytes>> {
    let Some(line) = input.windows(2).position(|bytes| bytes == b"\r\n") else { return Ok(None) };
    let text = String::from_utf8_lossy(&input[..line]).into_owned();
    let mut bytes = line + 2;
    if text.starts_with('-') || text == "$-1" {
        return Err(io::Error::other(format!("Redis refuses: {text}")));
    }
    if let Some(length) = text.strip_prefix('$') {
        bytes += length.parse::<usize>().map_err(io::Error::other)? + 2;
    }
    Ok((input.len() >= bytes).then(|| input.split_to(bytes).freeze()))
}
