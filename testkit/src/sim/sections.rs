//! Critical sections: who is in them, and whether more machines are than may be.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use zoolet_protocol::Zxid;
use zoolet_recipes::{Guard, LeaderLatch, LockGuard, LockState, MultiGuard, Permits};

/// What a machine holds while it is in a critical section: a lock, permits, leadership.
///
/// The guards of zoolet's recipes implement it, and so do closures, for a lock that only tells
/// whether it is held, and `()`, for one that does not even tell that: its holder believes that it
/// holds the lock until it leaves the section.
///
/// ```
/// use zoolet_testkit::sim::Held;
///
/// struct Lease {
///     is_valid: bool,
/// }
///
/// impl Held for Lease {
///     fn is_held(&self) -> bool {
///         self.is_valid
///     }
/// }
///
/// assert!(().is_held());
/// assert!(!Lease { is_valid: false }.is_held());
/// ```
pub trait Held: Send + Sync {
    /// Whether the holder may believe now that it holds the lock: it would go on with its work.
    fn is_held(&self) -> bool;

    /// The fencing token, if there is one. That of a holder who is alone must be greater than all before,
    /// and that of one who shares a section not less than those of all who were alone in it before. The
    /// tokens of permits have no order.
    fn fencing_token(&self) -> Option<Zxid> {
        None
    }
}

impl Held for () {
    fn is_held(&self) -> bool {
        true
    }
}

impl<F: Fn() -> bool + Send + Sync> Held for F {
    fn is_held(&self) -> bool {
        self()
    }
}

/// Implements [`Held`] for guards, by their methods of the same names.
macro_rules! held_by_guards {
    ($($guard:ty),*) => {$(
        impl Held for $guard {
            fn is_held(&self) -> bool {
                self.state() == LockState::Held
            }

            fn fencing_token(&self) -> Option<Zxid> {
                Some(self.fencing_token())
            }
        }
    )*};
}

held_by_guards!(Guard, MultiGuard, Permits);

impl Held for Box<dyn LockGuard> {
    fn is_held(&self) -> bool {
        (**self).state() == LockState::Held
    }

    fn fencing_token(&self) -> Option<Zxid> {
        Some((**self).fencing_token())
    }
}

impl Held for LeaderLatch {
    fn is_held(&self) -> bool {
        self.is_leader()
    }

    // The token of a latch changes with each term, so that no order of entering follows from it.
}

/// How many may be in a section at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody else.
    Alone,
    /// Everybody who shares it.
    Shared,
    /// Holders of this many permits, of at most `max` in total.
    Permits {
        /// The permits of this holder.
        count: usize,
        /// The permits of all holders.
        max: usize,
    },
}

/// All critical sections of a run, by their names.
#[derive(Default)]
pub struct Sections(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    sections: BTreeMap<String, State>,
}

/// Who is in a section.
#[derive(Default)]
struct State {
    holders: Vec<Holder>,
    /// The greatest token of a holder that was alone and certain to hold the lock, and the greatest of
    /// all holders that were certain.
    token_alone: Zxid,
    token: Zxid,
    /// The machine with this greatest token.
    token_of: Option<usize>,
}

struct Holder {
    number: u64,
    machine: usize,
    access: Access,
    held: Weak<dyn Held>,
    /// Who has entered since, though this one believed then that it held, and has not left.
    entered_since: Option<(usize, Option<Zxid>)>,
}

/// More holders than may be, or an earlier token after a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The name of the section.
    pub section: String,
    /// The machines that are in it, with their tokens.
    pub holders: Vec<(usize, Option<Zxid>)>,
    /// What is wrong with them.
    pub wrong: Wrong,
}

/// What is wrong with the holders of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// There are too many at the same time.
    TooMany,
    /// The token of the last one is not above this one of an earlier holder.
    Token(Zxid),
    /// The second one has entered since, and the first one has not noticed.
    EnteredSince,
    /// It has entered with so many permits, of at most so many.
    Permits(usize, usize),
}

impl Sections {
    /// A machine enters a section. Returns its number among all that have entered.
    ///
    /// # Errors
    ///
    /// [`Conflict`] if its token is not above those before, or if it has no permits, or more than there
    /// are.
    pub fn enter<H: Held + 'static>(
        &self,
        section: &str,
        machine: usize,
        access: Access,
        held: &Arc<H>,
    ) -> Result<u64, Conflict> {
        let mut inner = self.0.lock();
        inner.last += 1;
        let number = inner.last;
        let state = inner.sections.entry(section.to_owned()).or_default();
        if let Access::Permits { count, max } = access
            && !(1..=max).contains(&count)
        {
            return Err(Conflict {
                section: section.to_owned(),
                holders: vec![(machine, held.fencing_token())],
                wrong: Wrong::Permits(count, max),
            });
        }
        // The session of a holder that is not certain may have expired.
        if held.is_held()
            && let Some(token) = held.fencing_token()
        {
            let (before, is_stale) = match access {
                // Who has left and still holds the lock may enter again.
                Access::Alone if state.token_of == Some(machine) => {
                    (state.token, token < state.token)
                }
                Access::Alone => (state.token, token <= state.token),
                // A writer that became a reader keeps its token.
                Access::Shared => (state.token_alone, token < state.token_alone),
                Access::Permits { .. } => (Zxid::ZERO, token <= Zxid::ZERO),
            };
            if is_stale {
                return Err(Conflict {
                    section: section.to_owned(),
                    holders: vec![(machine, Some(token))],
                    wrong: Wrong::Token(before),
                });
            }
            if token > state.token {
                (state.token, state.token_of) = (token, Some(machine));
            }
            if access == Access::Alone {
                state.token_alone = state.token_alone.max(token);
            }
        }
        state.holders.retain(|holder| holder.held.strong_count() > 0);
        if held.is_held() {
            // Who knows that it holds nothing now may hold again later, as a leader in another term.
            let believes = |holder: &Holder| holder.held.upgrade().is_some_and(|it| it.is_held());
            let excludes = |holder: &Holder| [holder.access, access].contains(&Access::Alone);
            let excluded = state.holders.iter_mut().filter(|it| excludes(it) && believes(it));
            excluded
                .for_each(|holder| holder.entered_since = Some((machine, held.fencing_token())));
        }
        let held: Arc<dyn Held> = held.clone();
        let held = Arc::downgrade(&held);
        state.holders.push(Holder { number, machine, access, held, entered_since: None });
        Ok(number)
    }

    /// Checks that nobody has entered since a holder did that still believes to be alone. This finds
    /// also a holder that stood still meanwhile.
    ///
    /// # Errors
    ///
    /// [`Conflict`] with the one that entered last.
    pub(super) fn check_alone(&self, section: &str, number: u64) -> Result<(), Conflict> {
        let inner = self.0.lock();
        let holders = inner.sections.get(section).map_or(&[][..], |state| &state.holders);
        let holder = holders.iter().find(|holder| holder.number == number);
        let Some((holder, other)) = holder.and_then(|holder| Some((holder, holder.entered_since?)))
        else {
            return Ok(());
        };
        let Some(held) = holder.held.upgrade().filter(|held| held.is_held()) else { return Ok(()) };
        Err(Conflict {
            section: section.to_owned(),
            holders: vec![(holder.machine, held.fencing_token()), other],
            wrong: Wrong::EnteredSince,
        })
    }

    /// A machine leaves a section. Returns whether it was in it.
    pub fn leave(&self, section: &str, number: u64) -> bool {
        let mut inner = self.0.lock();
        let Some(state) = inner.sections.get_mut(section) else { return false };
        let before = state.holders.len();
        state.holders.retain(|holder| holder.number != number);
        state.holders.len() < before
    }

    /// A machine has crashed: it is in no section any more. Returns those that it was in, and its
    /// numbers there.
    pub(super) fn leave_all(&self, machine: usize) -> Vec<(String, u64)> {
        let mut left = Vec::new();
        for (section, state) in &mut self.0.lock().sections {
            let its = state.holders.iter().filter(|holder| holder.machine == machine);
            left.extend(its.map(|holder| (section.clone(), holder.number)));
            state.holders.retain(|holder| holder.machine != machine);
        }
        left
    }

    /// How often machines have entered sections.
    pub(super) fn entries(&self) -> u64 {
        self.0.lock().last
    }

    /// Whether a machine is in a section.
    pub(super) fn has(&self, machine: usize) -> bool {
        let inner = self.0.lock();
        inner.sections.values().any(|state| state.holders.iter().any(|it| it.machine == machine))
    }

    /// Checks that no section has more holders than may be. Only machines that run count: one that
    /// stands still does no harm.
    ///
    /// # Errors
    ///
    /// [`Conflict`], the first by name.
    pub fn check(&self, runs: impl Fn(usize) -> bool) -> Result<(), Conflict> {
        let inner = self.0.lock();
        inner.sections.iter().try_for_each(|(section, state)| state.check(section, &runs))
    }
}

impl State {
    fn check(&self, section: &str, runs: &impl Fn(usize) -> bool) -> Result<(), Conflict> {
        if self.holders.len() < 2 {
            return Ok(());
        }
        let running = self.holders.iter().filter(|holder| runs(holder.machine));
        let held = running.filter_map(|holder| Some((holder, holder.held.upgrade()?)));
        let sure: Vec<_> = held.filter(|(_, held)| held.is_held()).collect();
        let is_alone = sure.iter().any(|(holder, _)| holder.access == Access::Alone);
        let permits: usize = sure.iter().map(|(holder, _)| holder.access.permits().0).sum();
        let max = sure.iter().map(|(holder, _)| holder.access.permits().1).max().unwrap_or(0);
        if (is_alone && sure.len() > 1) || permits > max {
            let holders = sure.iter().map(|(holder, held)| (holder.machine, held.fencing_token()));
            return Err(Conflict {
                section: section.to_owned(),
                holders: holders.collect(),
                wrong: Wrong::TooMany,
            });
        }
        Ok(())
    }
}

impl Access {
    fn permits(self) -> (usize, usize) {
        match self {
            Self::Permits { count, max } => (count, max),
            Self::Alone | Self::Shared => (0, 0),
        }
    }
}

impl Conflict {
    fn is_of_one_machine(&self) -> bool {
        self.holders.windows(2).all(|pair| pair[0].0 == pair[1].0)
    }

    /// Says what is wrong, with the names of the machines.
    pub fn describe(&self, name: impl Fn(usize) -> String) -> String {
        let holder = |(machine, token): &(usize, Option<Zxid>)| match token {
            Some(token) => format!("{} (token {token})", name(*machine)),
            None => name(*machine),
        };
        let holders: Vec<_> = self.holders.iter().map(holder).collect();
        let (section, all) = (&self.section, holders.join(" and "));
        match self.wrong {
            Wrong::TooMany if self.is_of_one_machine() => format!(
                "{} enters {section:?} before it has left it",
                self.holders.first().map_or_else(String::new, |(machine, _)| name(*machine)),
            ),
            Wrong::TooMany => format!("{all} hold {section:?} at the same time"),
            Wrong::Token(before) => format!(
                "{all} holds {section:?}, after a holder with the token {before}: the tokens of a \
                 lock must increase"
            ),
            Wrong::Permits(count, max) => {
                format!("{all} enters {section:?} with {count} permits of at most {max}")
            }
            Wrong::EnteredSince => format!(
                "{} believes that it still holds {section:?}, and {} has entered it since",
                holders.first().map_or("", String::as_str),
                holders.last().map_or("", String::as_str),
            ),
        }
    }
}

/// The time of a machine in a critical section, with what it holds. It ends by [`Section::leave`], or
/// when this is dropped, for example by an error. Only who leaves it is checked for somebody who has
/// entered meanwhile: who drops it may do so since it knows that it holds nothing any more.
///
/// ```no_run
/// use zoolet_recipes::InterProcessMutex;
/// use zoolet_testkit::sim::Sim;
///
/// Sim::new()
///     .machine("worker", 2, |world| async move {
///         let client = world.connect().await?;
///         let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
///         let section = world.enter("stock", mutex.acquire().await?);
///         println!("{}", section.path()); // the guard's own methods
///         section.leave().release().await?;
///         Ok(())
///     })
///     .sweep(0..1_000);
/// ```
#[must_use = "the section ends when this is dropped"]
pub struct Section<H: Held> {
    pub(super) held: Option<Arc<H>>,
    pub(super) exit: Arc<dyn Exit>,
    pub(super) number: u64,
}

/// Where a section ends.
pub(super) trait Exit: Send + Sync {
    /// A machine has done its work in a section and leaves, in the belief that it was alone in it.
    fn leaves(&self, number: u64);

    /// The section is over.
    fn left(&self, number: u64);
}

impl<H: Held> Section<H> {
    /// Leaves the section, and returns what was held, for example to release it.
    pub fn leave(mut self) -> H {
        self.exit.leaves(self.number);
        let held = self.held.take().expect("it is taken here only");
        match Arc::try_unwrap(held) {
            Ok(held) => held,
            Err(_) => unreachable!("the checks of a run do not keep what is held"),
        }
    }
}

impl<H: Held> Deref for Section<H> {
    type Target = H;

    fn deref(&self) -> &H {
        self.held.as_ref().expect("it is there until the section ends")
    }
}

impl<H: Held> Drop for Section<H> {
    fn drop(&mut self) {
        self.exit.left(self.number);
    }
}
