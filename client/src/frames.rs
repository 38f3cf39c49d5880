//! The memory in which a client receives frames.

use std::cell::Cell;
use std::collections::VecDeque;

use bytes::Bytes;

/// Frames that were received, in memory that the clients of a thread use one after the other: that of a
/// client that has slept for long is in no cache.
pub(crate) struct Frames(pub(crate) VecDeque<Bytes>);

/// A thread keeps the memory of so many frames.
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
