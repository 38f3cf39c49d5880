//! The places of one style in their order, found by their names without a copy of these.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

use crate::directory::Place;
use crate::name::Name;

/// The places of one style, by their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(BTreeSet<Standing>);

impl Line {
    /// Adds a place instead of one with the same name.
    pub(crate) fn insert(&mut self, place: Place) {
        self.0.replace(Standing(place));
    }

    pub(crate) fn remove(&mut self, name: &Name<'_>) -> Option<Place> {
        self.0.take(name as &dyn Ordered).map(|Standing(place)| place)
    }

    pub(crate) fn get(&self, name: &Name<'_>) -> Option<&Place> {
        self.0.get(name as &dyn Ordered).map(|Standing(place)| place)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn first(&self) -> Option<&Place> {
        self.0.first().map(|Standing(place)| place)
    }

    pub(crate) fn last(&self) -> Option<&Place> {
        self.0.last().map(|Standing(place)| place)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.0.iter().map(|Standing(place)| place)
    }

    /// Those whose number is that of `place`, of another style, or a greater one.
    pub(crate) fn from(&self, place: &Place) -> impl Iterator<Item = &Place> {
        let begin = Begin(place.number_order());
        let range = (Bound::Included(&begin as &dyn Ordered), Bound::Unbounded);
        self.0.range::<dyn Ordered, _>(range).map(|Standing(place)| place)
    }
}

/// What has a position in a line.
trait Ordered {
    fn position(&self) -> (u32, &str);
}

impl Ordered for Name<'_> {
    fn position(&self) -> (u32, &str) {
        (self.order(), self.text)
    }
}

/// In front of all names with a number.
struct Begin(u32);

impl Ordered for Begin {
    fn position(&self) -> (u32, &str) {
        (self.0, "")
    }
}

impl PartialEq for dyn Ordered + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.position() == other.position()
    }
}

impl Eq for dyn Ordered + '_ {}

impl PartialOrd for dyn Ordered + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Ordered + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position().cmp(&other.position())
    }
}

/// A place that is known by its position only.
#[derive(Debug, Clone)]
struct Standing(Place);

impl Ordered for Standing {
    fn position(&self) -> (u32, &str) {
        (self.0.number_order(), &self.0.name)
    }
}

impl<'a> Borrow<dyn Ordered + 'a> for Standing {
    fn borrow(&self) -> &(dyn Ordered + 'a) {
        self
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        self.position() == other.position()
    }
}

impl Eq for Standing {}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Standing {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position().cmp(&other.position())
    }
}
