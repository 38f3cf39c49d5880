//! The queues of a directory: who holds, who waits, in their order.

use std::collections::BTreeMap;

use crate::directory::{Directory, Place};
use crate::role::{Role, role};
use crate::style::{Recipe, Style};
use crate::towards::Towards;

/// The znodes of one recipe in a directory, in their order.
///
/// ```
/// use zoolet_layouts::{Directory, Queue, Recipe, Znode};
///
/// let directory = Directory::of([("n_0000000000", Znode::default())]);
/// let queues: Vec<Queue<'_>> = directory.queues();
/// assert_eq!((queues[0].recipe, queues[0].rows.len()), (Recipe::ApacheElection, 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue<'a> {
    /// What they are for.
    pub recipe: Recipe,
    /// The znodes. Numbers after the greatest one, which are negative, come last.
    pub rows: Vec<Row<'a>>,
}

/// A znode in a queue.
///
/// ```
/// use zoolet_layouts::{Directory, Row, Znode};
///
/// let names = ["lock-0000000001", "lock-0000000002"];
/// let directory = Directory::of(names.map(|name| (name, Znode::default())));
/// let last: Row<'_> = directory.queues()[0].rows[1].clone();
/// assert_eq!(last.behind, Some(0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<'a> {
    /// The znode.
    pub place: &'a Place,
    /// What it does.
    pub role: Role,
    /// The index of the last row for which it waits. `None` if it does not wait.
    pub behind: Option<usize>,
}

/// What was seen of the places of one style so far.
#[derive(Debug, Default, Clone, Copy)]
struct Seen<'a> {
    last: Option<(usize, &'a Place)>,
    /// The last one of another session than that of `last`.
    of_other_session: Option<(usize, &'a Place)>,
}

impl<'a> Seen<'a> {
    fn add(&mut self, index: usize, place: &'a Place) {
        if let Some((_, last)) = self.last
            && !last.is_of_session(place)
        {
            self.of_other_session = self.last;
        }
        self.last = Some((index, place));
    }

    /// The last one for which a place waits, if its style does.
    fn ahead_of(&self, place: &Place) -> Option<usize> {
        let (index, last) = self.last?;
        // Who writes may read too.
        if place.style.is_shared() && last.is_of_session(place) {
            return self.of_other_session.map(|(index, _)| index);
        }
        Some(index)
    }
}

impl Directory {
    /// The queues of all recipes that stand here. Recipes of which one waits for the other are one queue.
    #[must_use]
    pub fn queues(&self) -> Vec<Queue<'_>> {
        queues(self)
    }
}

/// The queues of a directory. One pass over its places in their order.
fn queues(directory: &Directory) -> Vec<Queue<'_>> {
    let known = |place: &'_ Place| directory.recipe_of(place.style);
    let mut places: Vec<(&Place, Recipe)> =
        directory.places().filter_map(|place| Some((place, known(place)?))).collect();
    places.sort_unstable_by(|(a, _), (b, _)| a.order().cmp(&b.order()));

    let lines = lines(directory);
    let mut queues: BTreeMap<Recipe, Vec<Row<'_>>> = BTreeMap::new();
    let mut seen: BTreeMap<Style, Seen<'_>> = BTreeMap::new();
    // The row of each place in its queue.
    let mut rows_of: Vec<usize> = Vec::with_capacity(places.len());
    for (index, &(place, recipe)) in places.iter().enumerate() {
        let waited_for = seen
            .iter()
            .filter(|(ahead, _)| directory.towards(place.style, **ahead) == Towards::Waits);
        let ahead = waited_for.filter_map(|(_, seen)| seen.ahead_of(place)).max();
        let behind = ahead.and_then(|ahead| rows_of.get(ahead)).copied();
        let rows = queues.entry(lines.get(&recipe).copied().unwrap_or(recipe)).or_default();
        rows_of.push(rows.len());
        rows.push(Row { place, role: role(place.style, recipe, ahead.is_none()), behind });
        seen.entry(place.style).or_default().add(index, place);
    }
    queues.into_iter().map(|(recipe, rows)| Queue { recipe, rows }).collect()
}

/// For each recipe of a directory, the first of those with which it stands in one line: one of them waits
/// for the other, or both for a third one.
fn lines(directory: &Directory) -> BTreeMap<Recipe, Recipe> {
    let styles: Vec<(Style, Recipe)> =
        directory.styles().filter_map(|style| Some((style, directory.recipe_of(style)?))).collect();
    let mut lines: BTreeMap<Recipe, Recipe> =
        styles.iter().map(|(_, recipe)| (*recipe, *recipe)).collect();
    for (later, recipe) in &styles {
        for (ahead, other) in &styles {
            let waits = directory.towards(*later, *ahead) == Towards::Waits;
            let (Some(&one), Some(&two)) = (lines.get(recipe), lines.get(other)) else { continue };
            if waits && one != two {
                let (kept, gone) = (one.min(two), one.max(two));
                lines.values_mut().filter(|line| **line == gone).for_each(|line| *line = kept);
            }
        }
    }
    lines
}
