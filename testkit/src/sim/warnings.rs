//! Warnings of recipes, for example of a task that waits for a lock that it has itself. In a run they are
//! events of its story: else they would be printed again for each run of a search, without its seed.

use std::cell::RefCell;
use std::fmt::{self, Debug};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher, span};

use super::record::Record;

/// What recipes log begins with this.
const RECIPES: &str = "zoolet_recipes";

thread_local! {
    /// The record of the run on this thread.
    static RECORD: RefCell<Option<Arc<Record>>> = const { RefCell::new(None) };
    static LISTENER: Dispatch = Dispatch::new(Listener);
}

/// Listens to warnings until this is dropped.
pub(super) struct Listening {
    _guard: DefaultGuard,
}

/// Listens to warnings on this thread, unless the program of the test has a subscriber, which gets them.
pub(super) fn listen(record: &Arc<Record>) -> Option<Listening> {
    let has_subscriber = dispatcher::get_default(|present| !present.is::<NoSubscriber>());
    if has_subscriber {
        return None;
    }
    RECORD.set(Some(Arc::clone(record)));
    Some(Listening { _guard: LISTENER.with(dispatcher::set_default) })
}

impl Drop for Listening {
    fn drop(&mut self) {
        RECORD.take();
    }
}

/// Tells warnings to the record.
struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with(RECIPES)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        RECORD.with_borrow(|record| {
            if let Some(record) = record {
                record.warning(&message.0);
            }
        });
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

/// The text of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            fmt::Write::write_fmt(&mut self.0, format_args!("{value:?}")).unwrap_or_default();
        }
    }
}
