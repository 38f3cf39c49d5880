//! The claims of a session, by their ids. Most clients have one or two, and those that come and go need no
//! memory each time.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{ClaimId, ClaimedZnode};

/// The capacity that an empty list keeps.
const KEPT_MAX: usize = 64;

/// The claims in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct Claims(VecDeque<(ClaimId, Arc<ClaimedZnode>)>);

impl Claims {
    /// Adds a claim, whose id is greater than those of all others.
    pub(super) fn add(&mut self, id: ClaimId, claimed: Arc<ClaimedZnode>) {
        debug_assert!(self.0.back().is_none_or(|(last, _)| *last < id), "{id} is not the next");
        self.0.push_back((id, claimed));
    }

    fn place_of(&self, id: ClaimId) -> Option<usize> {
        self.0.binary_search_by_key(&id, |(other, _)| *other).ok()
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<&Arc<ClaimedZnode>> {
        Some(&self.0[self.place_of(id)?].1)
    }

    pub(super) fn remove(&mut self, id: ClaimId) -> Option<Arc<ClaimedZnode>> {
        let (_, removed) = self.0.remove(self.place_of(id)?)?;
        if self.0.is_empty() && self.0.capacity() > KEPT_MAX {
            self.clear();
        }
        Some(removed)
    }

    /// The claim that was made first.
    pub(super) fn oldest(&self) -> Option<&Arc<ClaimedZnode>> {
        self.0.front().map(|(_, claimed)| claimed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0 = VecDeque::new();
    }

    /// All claims: those from this id on, and then those before it.
    pub(super) fn beginning_with(
        &self,
        id: ClaimId,
    ) -> impl Iterator<Item = &(ClaimId, Arc<ClaimedZnode>)> + Clone {
        let place = self.0.partition_point(|(other, _)| *other < id);
        self.0.range(place..).chain(self.0.range(..place))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use bytestring::ByteString;
    use zoolet_protocol::Expect;

    use super::*;
    use crate::clock::now;

    #[test]
    fn claims_are_found_and_listed_by_their_ids_whichever_have_ended() {
        let claimed = || {
            let (is_gone, is_refused) = (AtomicBool::new(false), AtomicBool::new(false));
            let (path, version) = (ByteString::new(), Expect::Any);
            Arc::new(ClaimedZnode { path, version, since: now(), is_gone, is_refused })
        };
        let mut claims = Claims::default();
        (1..=200).for_each(|id| claims.add(id, claimed()));
        for id in (1..=200).filter(|id| id % 3 > 0) {
            assert!(claims.remove(id).is_some());
            assert!(claims.remove(id).is_none() && claims.get(id).is_none());
        }
        let listed = |from| claims.beginning_with(from).map(|(id, _)| *id).collect::<Vec<_>>();
        let mut wanted: Vec<_> = (1..=66).map(|third| 3 * third).collect();
        assert_eq!(listed(0), wanted);
        wanted.rotate_left(33);
        assert_eq!((listed(100), listed(102)), (wanted.clone(), wanted));
        assert!(claims.get(99).is_some() && claims.oldest().is_some());
        (1..=200).for_each(|id| drop(claims.remove(id)));
        assert!(claims.is_empty() && claims.0.capacity() <= KEPT_MAX);
    }
}
