//! The watches that commands have set.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use zoolet_client::{Error, Event, Watcher};

/// One-shot watches, each with its path.
#[derive(Debug, Default)]
pub(super) struct Watches(Vec<(String, Watcher)>);

impl Watches {
    pub(super) fn add(&mut self, path: String, watcher: Watcher) {
        self.0.push((path, watcher));
    }

    /// The next event; pending for ever without watches. Dropping the future loses no event.
    pub(super) async fn next(&mut self) -> String {
        poll_fn(|context| self.poll(context)).await
    }

    /// An event that has arrived already.
    pub(super) fn take(&mut self) -> Option<String> {
        match self.poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<String> {
        for index in 0..self.0.len() {
            let (path, watcher) = &mut self.0[index];
            if let Poll::Ready(told) = Pin::new(watcher).poll(context) {
                let text = text(path, told);
                drop(self.0.remove(index));
                return Poll::Ready(text);
            }
        }
        Poll::Pending
    }
}

fn text(path: &str, told: Result<Event, Error>) -> String {
    match told {
        Ok(event) => format!("{} {}", event.event_type, event.path),
        Err(_) => format!("the watch on {path} is over, since the session is"),
    }
}
