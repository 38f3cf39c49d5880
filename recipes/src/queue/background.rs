//! What goes on in the background when a future is dropped: puts, takes, and items that are put back.

use std::sync::Arc;

use super::znodes::Znodes;

/// Something that goes on, also if nobody waits for it any more.
pub(crate) struct InBackground(Arc<Znodes>);

impl InBackground {
    pub(crate) fn begin(znodes: &Arc<Znodes>) -> Self {
        znodes.in_background.send_modify(|count| *count += 1);
        Self(Arc::clone(znodes))
    }
}

impl Drop for InBackground {
    fn drop(&mut self) {
        self.0.in_background.send_modify(|count| *count -= 1);
    }
}

impl Znodes {
    /// Waits until nothing goes on in the background.
    pub(crate) async fn settled(&self) {
        let mut count = self.in_background.subscribe();
        if count.wait_for(|count| *count == 0).await.is_err() {
            unreachable!("the sender lives as long as these znodes");
        }
    }
}
