//! The hash of a run.

/// FNV-1a of 64 bits. The hashes of the standard library may be others in another version of Rust, and
/// reports show this one.
#[derive(Debug)]
pub(super) struct RunHash(u64);

impl Default for RunHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl RunHash {
    /// Adds numbers and then text or a message of any length.
    pub(super) fn add<const N: usize>(&mut self, numbers: [u64; N], bytes: &[u8]) {
        let numbers = numbers.into_iter().chain([bytes.len() as u64]);
        for number in numbers {
            self.add_bytes(&number.to_le_bytes());
        }
        self.add_bytes(bytes);
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a_and_depends_on_where_a_message_ends() {
        let mut hash = RunHash::default();
        hash.add_bytes(b"foobar");
        assert_eq!(hash.value(), 0x8594_4171_f739_67e8);
        let of = |messages: [&[u8]; 2]| {
            let mut hash = RunHash::default();
            messages.iter().for_each(|message| hash.add([7], message));
            hash.value()
        };
        assert_eq!(of([b"ab", b"c"]), of([b"ab", b"c"]));
        assert_ne!(of([b"ab", b"c"]), of([b"a", b"bc"]));
    }
}
