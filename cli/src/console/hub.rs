//! Those who look, and what waits for each of them.
//!
//! A message is made once for all. Each viewer has a queue with a limit. A viewer that does not read
//! loses what is in its queue, and receives the whole state when it reads again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::limits::{QUEUED_BYTES_MAX, QUEUED_MESSAGES_MAX, VIEWERS_MAX};
use super::model::Model;

/// Who looks, and what they are told. Clones are handles of the same one.
#[derive(Debug, Clone)]
pub(super) struct Hub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<HubState>,
    /// Somebody came.
    came: Notify,
    /// Somebody left.
    left: Notify,
    end: CancellationToken,
}

#[derive(Debug, Default)]
struct HubState {
    model: Arc<Model>,
    /// The number of the last message.
    sequence: u64,
    /// The message with all of `model`, if one was made.
    snapshot: Option<Bytes>,
    viewers: BTreeMap<u64, Queue>,
    last_viewer: u64,
    /// Requests that are no viewers.
    visitors: usize,
    /// How many viewers and visitors have come.
    arrivals: u64,
}

/// What waits for a viewer.
#[derive(Debug)]
struct Queue {
    messages: VecDeque<Bytes>,
    bytes: usize,
    /// Whether it needs the whole state, because it has none yet or did not read.
    needs_snapshot: bool,
    filled: Arc<Notify>,
}

impl Queue {
    fn push(&mut self, message: &Bytes) {
        if self.needs_snapshot {
            return;
        }
        self.bytes += message.len();
        self.messages.push_back(message.clone());
        if self.messages.len() > QUEUED_MESSAGES_MAX || self.bytes > QUEUED_BYTES_MAX {
            self.clear();
            self.needs_snapshot = true;
        }
    }

    fn clear(&mut self) {
        self.messages = VecDeque::new();
        self.bytes = 0;
    }
}

/// There are as many viewers as there may be.
#[derive(Debug, thiserror::Error)]
#[error(
    "{VIEWERS_MAX} pages of this console are open, and there may be no more; close one of them"
)]
pub(super) struct Crowded;

impl Hub {
    pub(super) fn new(end: CancellationToken) -> Self {
        let state = Mutex::default();
        Self(Arc::new(Inner { state, came: Notify::new(), left: Notify::new(), end }))
    }

    /// Cancelled when the console ends.
    pub(super) fn end(&self) -> &CancellationToken {
        &self.0.end
    }

    /// A new viewer. It receives the whole state first.
    pub(super) fn view(&self) -> Result<Viewer, Crowded> {
        let mut state = self.0.state.lock();
        if state.viewers.len() >= VIEWERS_MAX {
            return Err(Crowded);
        }
        state.last_viewer += 1;
        state.arrivals += 1;
        let id = state.last_viewer;
        let filled = Arc::new(Notify::new());
        let messages = VecDeque::new();
        let queue = Queue { messages, bytes: 0, needs_snapshot: true, filled: Arc::clone(&filled) };
        state.viewers.insert(id, queue);
        drop(state);
        self.0.came.notify_waiters();
        Ok(Viewer { hub: self.clone(), id, filled })
    }

    /// Whether there are as many viewers as there may be.
    pub(super) fn is_full(&self) -> bool {
        self.0.state.lock().viewers.len() >= VIEWERS_MAX
    }

    /// One request, for which the session is kept open.
    pub(super) fn visit(&self) -> Visit {
        {
            let mut state = self.0.state.lock();
            state.visitors += 1;
            state.arrivals += 1;
        }
        self.0.came.notify_waiters();
        Visit(self.clone())
    }

    /// Whether there is a viewer.
    pub(super) fn has_viewers(&self) -> bool {
        !self.0.state.lock().viewers.is_empty()
    }

    /// Waits until there is a viewer. Several may wait.
    pub(super) async fn viewer_looks(&self) {
        until(&self.0.came, || self.has_viewers()).await;
    }

    /// Waits until there is a viewer or a visitor, or more have come than `arrivals`.
    pub(super) async fn somebody_looks(&self, arrivals: u64) {
        until(&self.0.came, || !self.is_left_alone() || self.arrivals() != arrivals).await;
    }

    /// Waits until there is neither a viewer nor a visitor.
    pub(super) async fn nobody_looks(&self) {
        until(&self.0.left, || self.is_left_alone()).await;
    }

    /// How many viewers and visitors have come so far.
    pub(super) fn arrivals(&self) -> u64 {
        self.0.state.lock().arrivals
    }

    pub(super) fn is_left_alone(&self) -> bool {
        let state = self.0.state.lock();
        state.viewers.is_empty() && state.visitors == 0
    }

    /// Makes a state the present one, and tells all viewers what has changed. To be called by one task
    /// only: what is told is made while others may use the hub.
    pub(super) fn publish(&self, model: Model) {
        let (earlier, last) = {
            let state = self.0.state.lock();
            (Arc::clone(&state.model), state.sequence)
        };
        let Some(changes) = model.since(&earlier) else { return };
        let (model, sequence) = (Arc::new(model), last + 1);
        let message = message("diff", sequence, &changes);
        let mut state = self.0.state.lock();
        state.sequence = sequence;
        state.snapshot = None;
        state.model = model;
        for queue in state.viewers.values_mut() {
            queue.push(&message);
            queue.filled.notify_one();
        }
    }

    /// The present state.
    pub(super) fn model(&self) -> Model {
        Model::clone(&self.0.state.lock().model)
    }

    /// How many bytes wait for all viewers together.
    #[cfg(test)]
    fn queued_bytes(&self) -> usize {
        self.0.state.lock().viewers.values().map(|queue| queue.bytes).sum()
    }
}

/// Waits until something is so, which `changed` tells to all who wait.
async fn until(changed: &Notify, is_so: impl Fn() -> bool) {
    loop {
        // Before the look, so that a change after it is not missed.
        let next = changed.notified();
        if is_so() {
            return;
        }
        next.await;
    }
}

/// A message of server-sent events.
fn message(event: &str, id: u64, json: &str) -> Bytes {
    // JSON has no line ends of its own.
    format!("id: {id}\nevent: {event}\ndata: {json}\n\n").into()
}

/// Somebody who looks at the page. It is one until it is dropped.
#[derive(Debug)]
pub(super) struct Viewer {
    hub: Hub,
    id: u64,
    filled: Arc<Notify>,
}

impl Viewer {
    /// The next message: at first the whole state, and again when messages were dropped.
    pub(super) async fn next(&self) -> Bytes {
        loop {
            if let Some(message) = self.waiting() {
                return message;
            }
            self.filled.notified().await;
        }
    }

    /// The message that waits, if there is one.
    fn waiting(&self) -> Option<Bytes> {
        let (model, sequence) = {
            let mut state = self.hub.0.state.lock();
            let HubState { model, sequence, snapshot, viewers, .. } = &mut *state;
            let queue = viewers.get_mut(&self.id)?;
            if !queue.needs_snapshot {
                let message = queue.messages.pop_front()?;
                queue.bytes -= message.len();
                return Some(message);
            }
            // What is published from now on waits in the queue, behind this state.
            queue.needs_snapshot = false;
            if let Some(known) = snapshot {
                return Some(known.clone());
            }
            (Arc::clone(model), *sequence)
        };
        let message = message("snapshot", sequence, &model.snapshot());
        let mut state = self.hub.0.state.lock();
        if state.sequence == sequence {
            state.snapshot = Some(message.clone());
        }
        Some(message)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.hub.0.state.lock().viewers.remove(&self.id);
        self.hub.0.left.notify_waiters();
    }
}

/// A request that is being answered. It is one until it is dropped.
#[derive(Debug)]
pub(super) struct Visit(Hub);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.0.state.lock().visitors -= 1;
        self.0.0.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> Hub {
        Hub::new(CancellationToken::new())
    }

    fn text(message: Option<Bytes>) -> String {
        String::from_utf8(message.unwrap_or_default().to_vec()).unwrap()
    }

    #[test]
    fn a_viewer_receives_the_whole_and_then_what_changes() {
        let hub = hub();
        hub.publish(Model::default().with("time_ms", 1));
        let viewer = hub.view().unwrap();
        let first = text(viewer.waiting());
        assert!(first.starts_with("id: 1\nevent: snapshot\ndata: {"), "{first}");
        assert_eq!(viewer.waiting(), None);
        hub.publish(Model::default().with("time_ms", 2));
        assert_eq!(text(viewer.waiting()), "id: 2\nevent: diff\ndata: {\"time_ms\":2}\n\n");
        hub.publish(Model::default().with("time_ms", 2));
        assert_eq!(viewer.waiting(), None, "nothing has changed");
    }

    #[test]
    fn one_who_does_not_read_takes_no_more_memory_and_then_receives_the_whole() {
        let hub = hub();
        let viewer = hub.view().unwrap();
        text(viewer.waiting());
        let long = "x".repeat(QUEUED_BYTES_MAX / 4);
        for number in 0..100 {
            hub.publish(Model::default().with("trouble", format!("{number}{long}")));
            assert!(hub.queued_bytes() <= QUEUED_BYTES_MAX);
        }
        let message = text(viewer.waiting());
        assert!(message.starts_with("id: 100\nevent: snapshot\n"), "{}", &message[..40]);
        for number in 0..=QUEUED_MESSAGES_MAX {
            hub.publish(Model::default().with("time_ms", number));
        }
        assert_eq!(hub.queued_bytes(), 0, "short messages are counted");
        assert!(text(viewer.waiting()).contains("event: snapshot"));
    }

    #[test]
    fn there_are_no_more_viewers_than_the_limit() {
        let hub = hub();
        let mut viewers: Vec<_> = (0..VIEWERS_MAX).map(|_| hub.view().unwrap()).collect();
        assert!(hub.view().is_err());
        viewers.pop();
        assert!(hub.view().is_ok());
        drop(viewers);
        assert!(hub.is_left_alone());
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_a_viewer_learn_of_it_also_after_a_visitor() {
        let hub = hub();
        let wait = || {
            let hub = hub.clone();
            tokio::spawn(async move { hub.viewer_looks().await })
        };
        let waiters = [wait(), wait()];
        tokio::task::yield_now().await;
        drop(hub.visit());
        let viewer = hub.view().unwrap();
        for waiter in waiters {
            let woken = tokio::time::timeout(std::time::Duration::from_secs(1), waiter).await;
            woken.expect("each of them is woken").unwrap();
        }
        drop(viewer);
    }

    #[tokio::test(start_paused = true)]
    async fn a_visitor_that_has_gone_again_is_noticed() {
        let hub = hub();
        let arrivals = hub.arrivals();
        drop(hub.visit());
        let waited = std::time::Duration::from_secs(1);
        let noticed = tokio::time::timeout(waited, hub.somebody_looks(arrivals)).await;
        noticed.expect("it may have opened a session");
        let seen = tokio::time::timeout(waited, hub.somebody_looks(hub.arrivals())).await;
        seen.expect_err("nobody else has come");
    }
}
