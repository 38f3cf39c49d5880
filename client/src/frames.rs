//! The memory in which a client receives frames.

use std::cell::Cell;
use std::collections::VecDeque;

use bytes::Bytes;

/// Frames that were received, in memory that the clients of a thread use one after the other: that of a
/// client that has slept for long is in no cache.
pub(crate) struct Frames(pub(crate) VecDeque<Bytes>);

/// A thread keeps the memory of so many frames, 4 KiB. Where more came at once it is given back.
const FRAMES_KEPT: usize = 128;

thread_local! {
    static FRAMES: Cell<VecDeque<Bytes>> = const { Cell::new(VecDeque::new()) };
}

impl Frames {
    /// None, with the memory of the last ones.
    pub(crate) fn empty() -> Self {
        // A thread that ends has none any more.
        Self(FRAMES.try_with(Cell::take).unwrap_or_default())
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.0.clear();
        if self.0.capacity() <= FRAMES_KEPT {
            let _ = FRAMES.try_with(|frames| frames.set(std::mem::take(&mut self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_the_memory_of_few_frames_and_none_of_their_bytes() {
        let kept_after = |count: usize| {
            let (mut frames, mut nested) = (Frames::empty(), Frames::empty());
            assert!(frames.0.is_empty() && nested.0.is_empty());
            nested.0.push_back(Bytes::from_static(b"one"));
            drop(nested);
            frames.0.extend((0..count).map(|_| Bytes::from_static(b"frame")));
            drop(frames);
            let kept = Frames::empty();
            assert!(kept.0.is_empty());
            kept.0.capacity()
        };
        assert!((FRAMES_KEPT / 2..=FRAMES_KEPT).contains(&kept_after(FRAMES_KEPT / 2)));
        assert!(kept_after(FRAMES_KEPT + 1) <= FRAMES_KEPT);
    }
}
