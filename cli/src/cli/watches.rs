//! The watches that commands have set.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use zoolet_client::{Error, Event, PersistentWatcher, Watcher};
use zoolet_protocol::WatchMode;

use super::answer::Answer;

/// What a watch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchKind {
    Data,
    Children,
    Persistent,
    Recursive,
}

impl WatchKind {
    /// The event of ZooKeeper's client when a watch of this kind is removed.
    fn removal(self) -> &'static str {
        match self {
            Self::Data => "DataWatchRemoved",
            Self::Children => "ChildWatchRemoved",
            Self::Persistent | Self::Recursive => "PersistentWatchRemoved",
        }
    }
}

impl From<WatchMode> for WatchKind {
    fn from(mode: WatchMode) -> Self {
        if mode == WatchMode::PERSISTENT { Self::Persistent } else { Self::Recursive }
    }
}

#[derive(Debug)]
struct Watch {
    path: String,
    kind: WatchKind,
    watcher: EitherWatcher,
}

#[derive(Debug)]
enum EitherWatcher {
    OneShot(Watcher),
    Persistent(PersistentWatcher),
}

/// Watches, each with its path.
#[derive(Debug, Default)]
pub(super) struct Watches(Vec<Watch>);

impl Watches {
    /// Adds a one-shot watch. An earlier one for the same is replaced, as ZooKeeper's client has one of each.
    pub(super) fn add(&mut self, path: String, kind: WatchKind, watcher: Watcher) {
        self.put(Watch { path, kind, watcher: EitherWatcher::OneShot(watcher) });
    }

    pub(super) fn add_persistent(
        &mut self,
        path: String,
        kind: WatchKind,
        watcher: PersistentWatcher,
    ) {
        self.put(Watch { path, kind, watcher: EitherWatcher::Persistent(watcher) });
    }

    fn put(&mut self, watch: Watch) {
        self.0.retain(|other| (other.kind, &other.path) != (watch.kind, &watch.path));
        self.0.push(watch);
    }

    /// Removes the watches of some kinds on a path, and returns the events that tell of it.
    pub(super) fn remove(
        &mut self,
        path: &str,
        is_meant: impl Fn(WatchKind) -> bool,
    ) -> Vec<Answer> {
        let is_gone = |watch: &mut Watch| watch.path == path && is_meant(watch.kind);
        self.0.extract_if(.., is_gone).map(|watch| event(watch.kind.removal(), path)).collect()
    }

    /// Forgets all, since their session is closed.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The next event; pending for ever without watches. Dropping the future loses no event.
    pub(super) async fn next(&mut self) -> Answer {
        poll_fn(|context| self.poll(context)).await
    }

    /// An event that has arrived already.
    pub(super) fn take(&mut self) -> Option<Answer> {
        match self.poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        for index in 0..self.0.len() {
            let Watch { path, watcher, .. } = &mut self.0[index];
            let (told, is_over) = match watcher {
                EitherWatcher::OneShot(watcher) => (Pin::new(watcher).poll(context), true),
                EitherWatcher::Persistent(watcher) => {
                    // Dropping the future loses no event.
                    (pin!(watcher.next()).poll(context), false)
                }
            };
            let Poll::Ready(told) = told else { continue };
            let (answer, is_over) = match told {
                Ok(event) => (answer(&event), is_over),
                Err(error) => (over(path, &error), true),
            };
            if is_over {
                drop(self.0.remove(index));
            }
            return Poll::Ready(answer);
        }
        Poll::Pending
    }
}

/// An event as it is printed.
pub(super) fn answer(told: &Event) -> Answer {
    event(&told.event_type.to_string(), &told.path).with("zxid", told.zxid.to_string())
}

fn event(event: &str, path: &str) -> Answer {
    Answer::of_event(event, path).line(&format!("{event} {path}"))
}

fn over(path: &str, error: &Error) -> Answer {
    Answer::of_event("WatchLost", path)
        .line(&format!("the watch on {path} is over, since the session is"))
        .with("cause", error.to_string())
}
