//! The children of one directory, and who of them holds.

use std::collections::BTreeSet;

use zoolet_protocol::{SessionId, Stat, Zxid};

use crate::line::Line;
use crate::name::Name;
use crate::role::{Role, role};
use crate::style::{Recipe, Style};
use crate::towards::Towards;

/// What is known of a znode besides its name.
///
/// ```
/// use zoolet_layouts::Znode;
/// use zoolet_protocol::Stat;
///
/// let stat = Stat { ctime: 1_700_000_000_000, ..Stat::default() };
/// assert_eq!(Znode::from(&stat).ctime, 1_700_000_000_000);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Znode {
    /// The session of an ephemeral; 0 for every other znode.
    pub session: SessionId,
    /// The transaction that created it.
    pub czxid: Zxid,
    /// When it was created, in milliseconds since 1970.
    pub ctime: i64,
}

impl From<&Stat> for Znode {
    fn from(stat: &Stat) -> Self {
        Self { session: stat.ephemeral_owner, czxid: stat.czxid, ctime: stat.ctime }
    }
}

/// A znode with the name of a recipe.
///
/// ```
/// use zoolet_layouts::{Directory, Place, Style, Znode};
///
/// let directory = Directory::of([("qn-0000000003", Znode::default())]);
/// let place: &Place = directory.place("qn-0000000003").unwrap();
/// assert_eq!((place.style, place.number), (Style::SimpleQueue, Some(3)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// The style of its name.
    pub style: Style,
    /// The number in its name.
    pub number: Option<i32>,
    /// What else is known of it.
    pub znode: Znode,
}

impl Place {
    /// The position among all places of a directory. A writer that also reads has two places with one
    /// number; the one that writes comes first.
    pub(crate) fn order(&self) -> (u32, bool, &str) {
        (self.number_order(), self.style.is_shared(), &self.name)
    }

    /// The number as it grows: after the greatest positive number come the negative ones.
    pub(crate) fn number_order(&self) -> u32 {
        self.number.unwrap_or_default().cast_unsigned()
    }

    pub(crate) fn is_of_session(&self, other: &Self) -> bool {
        self.znode.session == other.znode.session && self.znode.session != SessionId::default()
    }
}

/// The children of one directory. It takes them one by one, as a log has them, or at once.
///
/// Adding and removing a child takes a time logarithmic in their number. [`Directory::holders`] takes a
/// time in proportion to those that hold, with one exception: it also looks at the readers between the first
/// writer and the first one of another session.
///
/// ```
/// use zoolet_layouts::{Directory, Role, Znode};
///
/// let mut directory = Directory::new();
/// directory.insert("lock-0000000001", Znode::default());
/// directory.insert("lock-0000000002", Znode::default());
/// assert_eq!(directory.holders()[0].0.name, "lock-0000000001");
/// directory.remove("lock-0000000001");
/// assert_eq!(directory.holders()[0].1, Role::Holds);
/// assert_eq!(directory.len(), 1);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Directory {
    /// Sorted by style: most directories have one or two.
    lines: Vec<(Style, Line)>,
    others: u64,
    permits: Option<u32>,
    /// Styles of which the first waits for the second, though its unchanged locks do not.
    learned: BTreeSet<(Style, Style)>,
}

impl Directory {
    /// Without children.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With these children.
    #[must_use]
    pub fn of<N: AsRef<str>>(children: impl IntoIterator<Item = (N, Znode)>) -> Self {
        let mut directory = Self::new();
        for (name, znode) in children {
            directory.insert(name.as_ref(), znode);
        }
        directory
    }

    /// Adds a child, in place of one with the same name. `None` if no recipe has such names: it is
    /// counted only.
    pub fn insert(&mut self, name: &str, znode: Znode) -> Option<Style> {
        let Some(read) = Name::read(name) else {
            self.others += 1;
            return None;
        };
        self.add(&read, znode);
        Some(read.style)
    }

    /// Adds a child whose name is read already.
    ///
    /// ```
    /// use zoolet_layouts::{Directory, Name, Znode};
    ///
    /// let name = Name::read("lock-0000000001").unwrap();
    /// let mut directory = Directory::new();
    /// directory.add(&name, Znode::default());
    /// assert_eq!(directory.find(&name), directory.place("lock-0000000001"));
    /// assert_eq!(directory.take(&name).unwrap().number, Some(1));
    /// assert!(directory.is_empty());
    /// ```
    pub fn add(&mut self, name: &Name<'_>, znode: Znode) {
        let Name { style, number, text } = *name;
        let place = Place { name: text.to_owned(), style, number, znode };
        let index = match self.lines.binary_search_by_key(&style, |(style, _)| *style) {
            Ok(index) => index,
            Err(index) => {
                self.lines.insert(index, (style, Line::default()));
                index
            }
        };
        if let Some((_, line)) = self.lines.get_mut(index) {
            line.insert(place);
        }
    }

    /// Removes a child.
    pub fn remove(&mut self, name: &str) -> Option<Place> {
        let Some(read) = Name::read(name) else {
            self.others = self.others.saturating_sub(1);
            return None;
        };
        self.take(&read)
    }

    /// Removes a child whose name is read already.
    pub fn take(&mut self, name: &Name<'_>) -> Option<Place> {
        let index = self.lines.iter().position(|(style, _)| *style == name.style)?;
        let (_, line) = self.lines.get_mut(index)?;
        let place = line.remove(name);
        if line.is_empty() {
            self.lines.remove(index);
        }
        place
    }

    /// Takes the data of the directory's own znode, in which kazoo has the number of a semaphore's
    /// permits.
    pub fn set_data(&mut self, data: &[u8]) {
        let permits = std::str::from_utf8(data).ok().and_then(|text| text.trim().parse().ok());
        self.permits = permits.filter(|permits| *permits > 0);
    }

    /// Takes notice that the locks of the first style wait for places of the second one here: they were
    /// told to, as kazoo's by `extra_lock_patterns`. A watch of the one on a place of the other shows it.
    ///
    /// ```
    /// use zoolet_layouts::{Directory, Role, Style, Znode};
    ///
    /// let names = ["lock-0000000001", "__lock__0000000002"];
    /// let mut directory = Directory::of(names.map(|name| (name, Znode::default())));
    /// assert_eq!(directory.holders().len(), 2);
    /// directory.learn(Style::KazooLock, Style::OtherLock);
    /// assert_eq!(directory.holders().len(), 1);
    /// assert_eq!(directory.queues()[0].rows[1].role, Role::Waits);
    /// ```
    pub fn learn(&mut self, later: Style, ahead: Style) {
        self.learned.insert((later, ahead));
    }

    /// What a lock of the first style does here behind a place of the second.
    #[must_use]
    pub fn towards(&self, later: Style, ahead: Style) -> Towards {
        if self.learned.contains(&(later, ahead)) { Towards::Waits } else { later.towards(ahead) }
    }

    /// The number of permits that the directory's own data names.
    #[must_use]
    pub fn permits(&self) -> Option<u32> {
        self.permits
    }

    /// The child of this name, if it is one of a recipe.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<&Place> {
        self.find(&Name::read(name)?)
    }

    /// The child of this name, which is read already.
    #[must_use]
    pub fn find(&self, name: &Name<'_>) -> Option<&Place> {
        self.line(name.style)?.get(name)
    }

    /// All children with names of recipes, by style and then by number.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.lines.iter().flat_map(|(_, line)| line.iter())
    }

    /// The first child of each style.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = &Place> {
        self.lines.iter().filter_map(|(_, line)| line.first())
    }

    /// The number of those that stand in a line, where they hold or wait.
    #[must_use]
    pub fn places_in_line(&self) -> usize {
        let lines = self.lines.iter().filter(|(style, _)| style.is_place());
        lines.map(|(_, line)| line.len()).sum()
    }

    /// The number of children with names of recipes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.iter().map(|(_, line)| line.len()).sum()
    }

    /// Whether no child has a name of a recipe.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The number of children with other names.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The styles of the names that stand here.
    pub fn styles(&self) -> impl Iterator<Item = Style> {
        self.lines.iter().map(|(style, _)| *style)
    }

    /// Whether someone stands here who holds or waits: in the line of a lock or of an election, or
    /// with a permit.
    #[must_use]
    pub fn is_lock(&self) -> bool {
        self.styles().any(|style| self.recipe_of(style).is_some_and(Recipe::excludes))
    }

    /// Those that hold now, whatever they hold: a lock, a read or write lock, a permit, a leadership, a
    /// lease. By style, then by number.
    #[must_use]
    pub fn holders(&self) -> Vec<(&Place, Role)> {
        let mut holders = Vec::new();
        for (style, line) in &self.lines {
            let style = *style;
            let Some(role) = self.role_of_holder(style) else {
                if style == Style::KazooLease {
                    holders.extend(line.iter().map(|place| (place, Role::Holds)));
                }
                continue;
            };
            if !style.is_place() {
                holders.extend(line.iter().map(|place| (place, role)));
            } else if style.is_shared() {
                let stop = self.stop(style).map(Place::order);
                let may = line.iter().take_while(|place| stop.is_none_or(|it| place.order() < it));
                let hold = may.filter(|place| !self.has_to_wait(place));
                holders.extend(hold.map(|place| (place, role)));
            } else {
                // Each waits for the one before it.
                let first = line.first().filter(|place| !self.has_to_wait(place));
                holders.extend(first.map(|place| (place, role)));
            }
        }
        holders
    }

    /// What a place of this directory holds, as [`Directory::holders`] tells it. `None` if it waits, and for a
    /// lease of kazoo. It costs no more than logarithmic time, whoever else stands here.
    ///
    /// ```
    /// use zoolet_layouts::{Directory, Role, Znode};
    ///
    /// let names = ["__READ__0000000001", "__WRIT__0000000002"];
    /// let directory = Directory::of(names.map(|name| (name, Znode::default())));
    /// let holds = |name| directory.holds(directory.place(name).unwrap());
    /// assert_eq!(names.map(holds), [Some(Role::Reads), None]);
    /// ```
    #[must_use]
    pub fn holds(&self, place: &Place) -> Option<Role> {
        let role = self.role_of_holder(place.style)?;
        (!place.style.is_place() || !self.has_to_wait(place)).then_some(role)
    }

    /// Those that hold and had to wait for `gone` while it stood here, by style, then by number: all that its
    /// removal has made a holder, and possibly some that held before. It takes a time in proportion to them, with
    /// the exception that [`Directory::holders`] has too.
    ///
    /// ```
    /// use zoolet_layouts::{Directory, Role, Znode};
    ///
    /// let names = ["__WRIT__0000000001", "__READ__0000000002", "__READ__0000000003"];
    /// let mut directory = Directory::of(names.map(|name| (name, Znode::default())));
    /// let gone = directory.remove(names[0]).unwrap();
    /// let freed = directory.freed_by(&gone);
    /// assert_eq!((freed.len(), freed[0].1), (2, Role::Reads));
    /// ```
    #[must_use]
    pub fn freed_by(&self, gone: &Place) -> Vec<(&Place, Role)> {
        let mut freed = Vec::new();
        for (style, line) in &self.lines {
            let style = *style;
            if !style.is_place() || self.towards(style, gone.style) != Towards::Waits {
                continue;
            }
            let Some(role) = self.role_of_holder(style) else { continue };
            if style.is_shared() {
                let stop = self.stop(style).map(Place::order);
                let may = line.from(gone).filter(|place| place.order() > gone.order());
                let may = may.take_while(|place| stop.is_none_or(|it| place.order() < it));
                let hold = may.filter(|place| !self.has_to_wait(place));
                freed.extend(hold.map(|place| (place, role)));
            } else {
                let first = line.first().filter(|place| place.order() > gone.order());
                let first = first.filter(|place| !self.has_to_wait(place));
                freed.extend(first.map(|place| (place, role)));
            }
        }
        freed
    }

    /// Whether somebody who stands here waits for a place. Behind the greatest number, where a server puts a new
    /// one, nobody does.
    #[must_use]
    pub fn is_waited_for(&self, place: &Place) -> bool {
        let mut behind = self.lines.iter().filter(|(style, line)| {
            line.last().is_some_and(|last| last.order() > place.order())
                && self.towards(*style, place.style) == Towards::Waits
        });
        behind.next().is_some()
    }

    /// The styles that stand here in lines together and do not exclude one another: a lock of the first
    /// one ignores a place of the second, or fails there.
    #[must_use]
    pub fn strangers(&self) -> Vec<(Style, Style, Towards)> {
        let places: Vec<_> = self.styles().filter(|style| style.is_place()).collect();
        let pairs = places.iter().flat_map(|&later| {
            let others = places.iter().filter(move |&&ahead| ahead != later);
            others.map(move |&ahead| (later, ahead, self.towards(later, ahead)))
        });
        pairs.filter(|(_, _, towards)| *towards != Towards::Waits).collect()
    }

    /// What names of this style are for in this directory. `None` if only the others of the directory
    /// could tell, and do not.
    pub(crate) fn recipe_of(&self, style: Style) -> Option<Recipe> {
        let has = |style| self.line(style).is_some();
        match style {
            Style::KazooLock if has(Style::KazooRead) => Some(Recipe::KazooReadWriteLock),
            Style::KazooPermit if self.permits.is_some() => Some(Recipe::KazooSemaphore),
            Style::KazooPermit | Style::BarrierMember => {
                has(Style::BarrierReady).then_some(Recipe::DoubleBarrier)
            }
            Style::BarrierReady => (has(Style::BarrierMember) || has(Style::KazooPermit))
                .then_some(Recipe::DoubleBarrier),
            style => Some(style.recipe()),
        }
    }

    fn line(&self, style: Style) -> Option<&Line> {
        self.lines.iter().find(|(it, _)| *it == style).map(|(_, line)| line)
    }

    /// What a holder of this style does here. `None` if what it has excludes nobody.
    fn role_of_holder(&self, style: Style) -> Option<Role> {
        let recipe = self.recipe_of(style).filter(|recipe| recipe.excludes())?;
        Some(role(style, recipe, true))
    }

    /// The lines for whose places those of a style wait.
    fn waited_for(&self, style: Style) -> impl Iterator<Item = &Line> {
        let lines = self.lines.iter();
        let waits = move |ahead| self.towards(style, ahead) == Towards::Waits;
        lines.filter(move |(ahead, _)| waits(*ahead)).map(|(_, line)| line)
    }

    /// Whether a place waits for another one.
    fn has_to_wait(&self, place: &Place) -> bool {
        let mut waited_for = self.waited_for(place.style).map(|line| {
            let before = line.iter().take_while(|ahead| ahead.order() < place.order());
            // Who writes may read too.
            before.filter(|ahead| !(place.style.is_shared() && ahead.is_of_session(place)))
        });
        waited_for.any(|mut before| before.next().is_some())
    }

    /// The first place behind which nobody of a shared style holds: those ahead of it for which the style waits
    /// are of one other session.
    fn stop(&self, style: Style) -> Option<&Place> {
        let firsts = self.waited_for(style).filter_map(Line::first);
        let first = firsts.min_by(|a, b| a.order().cmp(&b.order()))?;
        let others = self.waited_for(style).filter_map(|line| {
            let mut others = line.iter().filter(|place| !place.is_of_session(first));
            others.next()
        });
        others.min_by(|a, b| a.order().cmp(&b.order()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_session(session: i64) -> Znode {
        Znode { session: SessionId(session), ..Znode::default() }
    }

    #[test]
    fn a_directory_without_its_children_is_empty_again() {
        let names = ["lock-0000000001", "ready", "other", "__READ__0000000001"];
        let mut directory = Directory::of(names.map(|name| (name, of_session(1))));
        assert_eq!((directory.len(), directory.others()), (3, 1));
        for name in names {
            directory.remove(name);
        }
        assert!(directory.is_empty() && directory.others() == 0 && directory.holders().is_empty());
    }

    #[test]
    fn one_name_stands_once() {
        let mut directory = Directory::new();
        directory.insert("lock-0000000001", of_session(1));
        directory.insert("lock-0000000001", of_session(2));
        let sessions: Vec<_> = directory.places().map(|place| place.znode.session).collect();
        assert_eq!(sessions, [SessionId(2)]);
    }

    #[test]
    fn names_of_32_digits_are_permits_only_where_the_directory_has_their_number() {
        let names = ["00112233445566778899aabbccddeeff"];
        let mut directory = Directory::of(names.map(|name| (name, of_session(1))));
        assert!(directory.holders().is_empty() && !directory.is_lock());
        directory.set_data(b"3");
        assert_eq!(directory.holders()[0].1, Role::HasPermit);
        directory.set_data(b"some text");
        assert!(directory.holders().is_empty());
    }

    #[test]
    fn strangers_are_told_in_both_directions() {
        let names = ["lock-0000000001", "__lock__0000000002", "n_0000000003"];
        let directory = Directory::of(names.map(|name| (name, of_session(1))));
        use Style::{ApacheElection, KazooLock, OtherLock};
        use Towards::{Fails, Ignores};
        let expected = [
            (OtherLock, KazooLock, Ignores),
            (OtherLock, ApacheElection, Ignores),
            (KazooLock, OtherLock, Ignores),
            (KazooLock, ApacheElection, Ignores),
            (ApacheElection, OtherLock, Fails),
            (ApacheElection, KazooLock, Fails),
        ];
        assert_eq!(directory.strangers(), expected);
    }
}
