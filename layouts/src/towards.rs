//! Which locks wait for which others, when they stand in one directory.

use crate::style::Style;

/// What an unchanged lock of one style does behind a place of another: [`Style::towards`].
///
/// ```
/// use zoolet_layouts::{Style, Towards};
///
/// assert_eq!(Style::CuratorLock.towards(Style::GoLock), Towards::Waits);
/// assert_eq!(Style::CuratorLock.towards(Style::KazooLock), Towards::Ignores);
/// assert_eq!(Style::GoLock.towards(Style::ApacheElection), Towards::Fails);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Towards {
    /// It waits until the other one is gone.
    Waits,
    /// It does not see the other one: both may hold at a time.
    Ignores,
    /// It cannot read the other one's name, and its acquisition fails.
    Fails,
}

impl Style {
    /// What an unchanged lock of this style does when a place of another style has a smaller number.
    ///
    /// The answers are those of the libraries' code. Some hold for most locks of a style only:
    ///
    /// - kazoo's locks wait for more names if `extra_lock_patterns` says so.
    /// - kazoo's `WriteLock` waits for its `ReadLock`, its `Lock` does not. Their names are the same,
    ///   and this answers for the `WriteLock`.
    /// - Curator's locks compare names that they do not know with numbers, as text. A name such as `0`
    ///   comes before all numbers, and blocks them.
    #[must_use]
    pub fn towards(self, ahead: Self) -> Towards {
        let waits = match self {
            Self::CuratorLock | Self::OtherLock => ahead.has_curators_lock(),
            // It reads the number behind `lock-`, and otherwise behind the last two underscores.
            Self::GoLock => {
                let is_readable = ahead.has_curators_lock()
                    || matches!(
                        ahead,
                        Self::KazooLock | Self::KazooRead | Self::CuratorRead | Self::CuratorWrite
                    );
                return if is_readable { Towards::Waits } else { Towards::Fails };
            }
            Self::CuratorRead => ahead == Self::CuratorWrite,
            Self::CuratorWrite => matches!(ahead, Self::CuratorRead | Self::CuratorWrite),
            Self::CuratorLatch => ahead == Self::CuratorLatch,
            Self::KazooLock => matches!(ahead, Self::KazooLock | Self::KazooRead),
            Self::KazooRead => ahead == Self::KazooLock,
            // It reads the number behind the last dash. Names without one come last.
            Self::ApacheLock => {
                ahead.has_curators_lock()
                    || matches!(
                        ahead,
                        Self::ApacheLock
                            | Self::CuratorPermit
                            | Self::CuratorLatch
                            | Self::SimpleQueue
                            | Self::KazooQueue
                    )
            }
            // It reads each name as one of its own.
            Self::ApacheElection => {
                return if ahead == self { Towards::Waits } else { Towards::Fails };
            }
            Self::UuidLock => ahead == Self::UuidLock,
            _ => false,
        };
        if waits { Towards::Waits } else { Towards::Ignores }
    }

    fn has_curators_lock(self) -> bool {
        matches!(self, Self::CuratorLock | Self::GoLock | Self::OtherLock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the one that comes later. Columns: the one ahead, in the same order. `w` waits, `-`
    /// ignores, `F` fails.
    const TABLE: &str = "\
CuratorLock     www--------
GoLock          wwwwwFwwFFF
OtherLock       www--------
CuratorRead     ----w------
CuratorWrite    ---ww------
CuratorLatch    -----w-----
KazooLock       ------ww---
KazooRead       ------w----
ApacheLock      www--w--w--
ApacheElection  FFFFFFFFFwF
UuidLock        ----------w
";

    #[test]
    fn the_table_of_all_places() {
        let places: Vec<_> = Style::ALL.into_iter().filter(|style| style.is_place()).collect();
        let cell = |towards| match towards {
            Towards::Waits => 'w',
            Towards::Ignores => '-',
            Towards::Fails => 'F',
        };
        let rows = places.iter().map(|later| {
            let cells: String = places.iter().map(|ahead| cell(later.towards(*ahead))).collect();
            format!("{:<16}{cells}\n", format!("{later:?}"))
        });
        assert_eq!(rows.collect::<String>(), TABLE);
    }

    #[test]
    fn each_place_waits_for_its_own_style_but_readers_do_not() {
        for style in Style::ALL.into_iter().filter(|style| style.is_place()) {
            let waits = style.towards(style) == Towards::Waits;
            assert_eq!(waits, !style.is_shared(), "{style:?}");
        }
    }
}
