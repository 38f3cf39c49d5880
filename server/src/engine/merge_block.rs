//! Blocks of memory that let glibc's allocator merge freed memory a little at a time.
//!
//! glibc keeps small freed blocks apart, in its fast bins. It merges all of them when somebody asks for a large
//! block, or frees one. After 100,000 sessions have expired that takes up to 8 ms, and requests wait meanwhile. So
//! some sessions have a large block, which is freed with the session. To ask for one instead would not do: each
//! thread has an arena with bins of its own, and a freed block goes to that of the thread that had asked for it.
//!
//! Nothing is written to the blocks, so they take addresses, and little memory.

use std::mem::MaybeUninit;

use zoolet_protocol::SessionId;

/// The least length of a freed block after which glibc merges (`FASTBIN_CONSOLIDATION_THRESHOLD`), in bytes. Blocks
/// of twice that length are not in an arena.
const LARGE_BYTES: usize = 64 << 10;

/// One of so many sessions has a large block. To merge the small blocks of these takes less than 0.1 ms. It is a prime
/// number, so that each thread has its share where several begin sessions by turns.
const SESSIONS_PER_BLOCK: i64 = 1021;

/// A large block, or nothing.
#[derive(Debug)]
pub(super) struct MergeBlock {
    /// It is only there to be freed.
    _block: Option<Box<MaybeUninit<[u8; LARGE_BYTES]>>>,
}

impl MergeBlock {
    /// What a session has. Sessions that begin one after the other have numbers that follow one another.
    pub(super) fn of(session: SessionId) -> Self {
        let has_block = cfg!(all(target_os = "linux", target_env = "gnu"))
            && session.0 % SESSIONS_PER_BLOCK == 0;
        Self { _block: has_block.then(Box::new_uninit) }
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_sessions_has_a_block() {
        // Numbers of sessions are negative where the server's id is great.
        for first in [i64::MIN, -7, 1] {
            let ids = first..first + 2 * SESSIONS_PER_BLOCK;
            let with_blocks = ids.filter(|id| MergeBlock::of(SessionId(*id))._block.is_some());
            assert_eq!(with_blocks.count(), 2);
        }
    }
}
