//! The list of a queue, and which item of it a consumer tries to take.
//!
//! Consumers stand apart. Those that share a queue object share its list, and each tries another item
//! of it. Those of other processes do not know of each other: a consumer that finds that another was
//! quicker chooses among more of the first items the next time, and among fewer after each item that
//! it gets. A consumer that is alone gets the items in their order.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;

use zoolet_protocol::{ErrorCode, Names};

use super::error::QueueError;
use super::layout::Layout;
use super::limits::{LISTED_ITEMS_MAX, PASSED_OVER_FOR, SPREAD_MAX};
use super::random::random_below;
use super::retries::answered;
use super::znodes::{Candidate, Znodes};
use crate::client::recipe::{SessionClient, now};
use crate::client::{self, Watched, Watcher};

/// What reports that a list is out of date.
#[derive(Debug)]
pub(crate) struct Watches {
    /// Watches the directory of the items.
    pub(crate) items: Watcher,
    /// Watches the directory of the leases, if items are leased.
    pub(crate) leases: Option<Watcher>,
    /// The time at which the next item of the list is due that is not due yet, in milliseconds since
    /// 1970, where items have times.
    pub(crate) next_due_ms: Option<i64>,
}

impl Znodes {
    /// An item to be tried. If the last list is used up, the directory is listed again.
    pub(crate) async fn candidate(&self) -> Result<Option<Candidate>, QueueError> {
        let now_ms = self.now_ms().await?;
        if let Some(candidate) = self.pop(now_ms) {
            return Ok(Some(candidate));
        }
        let leased = match &self.settings.leases {
            Some(leases) => answered(|| self.client().children(leases)).await?,
            None => None,
        };
        let names = answered(|| self.client().children(self.items())).await?;
        self.note(names.as_ref(), leased.as_ref());
        Ok(self.pop(now_ms))
    }

    /// Lists the directory, and sets watches.
    pub(crate) async fn list_with_watches(
        &self,
        session: &SessionClient,
        now_ms: i64,
    ) -> Result<Watches, client::Error> {
        // The leases first: the watch of a lease that ends after this fires, and an item whose lease
        // has ended before is in the list.
        let (leased, leases) = match &self.settings.leases {
            Some(leases) => {
                let (leased, watcher) = children_with_watch(session, leases).await?;
                (leased, Some(watcher))
            }
            None => (None, None),
        };
        let (names, items) = children_with_watch(session, self.items()).await?;
        let ranks = self.note(names.as_ref(), leased.as_ref());
        let next_due_ms = ranks.into_iter().find(|rank| *rank > now_ms);
        Ok(Watches { items, leases, next_due_ms })
    }

    /// The time of the server, where items have times; otherwise it costs nothing.
    pub(crate) async fn now_ms(&self) -> Result<i64, QueueError> {
        match self.settings.layout {
            Layout::Delay => self.receipts.server_time_ms().await,
            _ => Ok(i64::MAX),
        }
    }

    /// Notes what a list has shown. Returns the ranks of the items in their order.
    fn note(&self, names: Option<&Names>, leased: Option<&Names>) -> Vec<i64> {
        let leased: HashSet<_> = leased.into_iter().flat_map(Names::iter).collect();
        let layout = self.settings.layout;
        let candidate = |name: &str| {
            let Some(item) = layout.item(name) else {
                tracing::debug!("{}: {name} is no item of this queue", self.path());
                return None;
            };
            let order = item.order;
            (!leased.contains(name)).then(|| Candidate { name: name.to_owned(), order, read: None })
        };
        let names = names.into_iter().flat_map(Names::iter);
        let mut items: Vec<_> = names.filter_map(candidate).collect();
        items.sort_unstable_by_key(|item| item.order);
        let ranks = items.iter().map(|item| item.order.rank).collect();
        let until_refresh = (!layout.appends_only()).then(|| self.settings.refresh_after.max(1));
        let mut listed = self.listed.lock();
        let before = std::mem::take(&mut listed.passed_over);
        let passed_over: BTreeMap<_, _> = items
            .iter()
            .filter_map(|item| before.get_key_value(&item.name))
            .filter(|(_, since)| now().saturating_duration_since(**since) < PASSED_OVER_FOR)
            .map(|(name, since)| (name.clone(), *since))
            .collect();
        items.retain(|item| {
            !listed.in_hand.contains(&item.name) && !passed_over.contains_key(&item.name)
        });
        listed.passed_over = passed_over;
        items.truncate(LISTED_ITEMS_MAX);
        listed.items = VecDeque::from(items);
        listed.until_refresh = until_refresh;
        ranks
    }

    /// Notes that an attempt to take an item has ended. One that this client may not take is passed over
    /// for a while.
    pub(crate) fn note_tried(&self, name: &str, error: Option<&QueueError>) {
        let mut listed = self.listed.lock();
        listed.in_hand.remove(name);
        if error.is_some_and(QueueError::is_of_item) {
            listed.passed_over.insert(name.to_owned(), now());
        }
    }

    /// Puts an item whose lease this client has ended back into the list.
    pub(crate) fn list_again(&self, name: &str) {
        let Some(item) = self.settings.layout.item(name) else { return };
        let order = item.order;
        let items = &mut self.listed.lock().items;
        let index = items.partition_point(|other| other.order < order);
        if items.get(index).is_none_or(|other| other.order != order) {
            items.insert(index, Candidate { name: name.to_owned(), order, read: None });
        }
    }

    /// Removes an item from the list that this client has removed from the queue. Else its attempt to
    /// take the item would look like a race that another consumer has won.
    pub(crate) fn forget_listed(&self, name: &str) {
        self.listed.lock().items.retain(|item| item.name != name);
    }

    /// Takes an item from the list.
    pub(crate) fn pop(&self, now_ms: i64) -> Option<Candidate> {
        let mut guard = self.listed.lock();
        let listed = &mut *guard;
        if listed.until_refresh == Some(0) {
            listed.items.clear();
            return None;
        }
        let Some(first) = listed.items.front().map(|item| item.order.rank) else {
            // It is used up: what is listed again later may be behind what the next list shows.
            listed.until_refresh = listed.until_refresh.map(|_| 0);
            return None;
        };
        let is_due = |rank: i64| match self.settings.layout {
            Layout::Delay => rank <= now_ms,
            _ => rank == first,
        };
        let spread = self.spread.load(Ordering::Relaxed);
        let near = listed.items.iter().take(spread).take_while(|item| is_due(item.order.rank));
        let index = match near.count() {
            0 => return None,
            1 => 0,
            count => random_below(self.client(), count),
        };
        let candidate = listed.items.remove(index)?;
        if let Some(left) = &mut listed.until_refresh {
            *left -= 1;
        }
        listed.in_hand.insert(candidate.name.clone());
        Some(candidate)
    }

    /// Notes that another consumer has taken an item that was tried.
    pub(crate) fn note_race_lost(&self) {
        let wider = |spread: usize| Some((spread * 2).min(SPREAD_MAX));
        let _ = self.spread.fetch_update(Ordering::Relaxed, Ordering::Relaxed, wider);
    }

    /// Notes that an item was taken.
    pub(crate) fn note_race_won(&self) {
        let narrower = |spread: usize| (spread > 1).then(|| spread - 1);
        let _ = self.spread.fetch_update(Ordering::Relaxed, Ordering::Relaxed, narrower);
    }
}

/// The children of a znode, if it exists, and a watch in any case: for a change of the children, or for
/// the creation of the znode.
pub(crate) async fn children_with_watch(
    session: &SessionClient,
    path: &str,
) -> Result<(Option<Names>, Watcher), client::Error> {
    loop {
        match session.children(path).and_watch().await {
            Ok(Watched { found, watcher }) => return Ok((Some(found), watcher)),
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error),
        }
        let Watched { found, watcher } = session.exists(path).and_watch().await?;
        if found.is_none() {
            return Ok((None, watcher));
        }
    }
}
