//! What is wrong, where, why it matters, and what to do.

use std::fmt;

use serde_json::{Value, json};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Severity {
    /// Worth knowing. It does not change the exit status.
    Notice,
    /// Something will fail, or costs much.
    Warning,
    /// Something fails now, or two hold what one may hold.
    Critical,
}

impl Severity {
    /// As JSON and the text have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kinds of findings. The names are part of the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Deadlock,
    MixedLibraries,
    BlockedByOtherName,
    NumbersRunOut,
    SilentHolder,
    HolderWithoutSession,
    SilentServer,
    Herd,
    ManyEphemerals,
    ManyWatches,
    LongData,
    LongList,
    EmptyDirectories,
    OpenToAll,
    Unreadable,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 15] = [
        Self::Deadlock,
        Self::MixedLibraries,
        Self::BlockedByOtherName,
        Self::NumbersRunOut,
        Self::SilentHolder,
        Self::HolderWithoutSession,
        Self::SilentServer,
        Self::Herd,
        Self::ManyEphemerals,
        Self::ManyWatches,
        Self::LongData,
        Self::LongList,
        Self::EmptyDirectories,
        Self::OpenToAll,
        Self::Unreadable,
    ];

    /// As JSON and the documentation have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::MixedLibraries => "mixed-libraries",
            Self::BlockedByOtherName => "blocked-by-other-name",
            Self::NumbersRunOut => "numbers-run-out",
            Self::SilentHolder => "silent-holder",
            Self::HolderWithoutSession => "holder-without-session",
            Self::SilentServer => "silent-server",
            Self::Herd => "herd",
            Self::ManyEphemerals => "many-ephemerals",
            Self::ManyWatches => "many-watches",
            Self::LongData => "long-data",
            Self::LongList => "long-list",
            Self::EmptyDirectories => "empty-directories",
            Self::OpenToAll => "open-to-all",
            Self::Unreadable => "unreadable",
        }
    }

    /// Why it matters.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Deadlock => {
                "Each of these sessions waits for the next one. None of them goes on before one gives up \
                 or its session ends. (If a session is shared by threads, the thread that holds may be \
                 another one than the one that waits; then it may end by itself.)"
            }
            Self::MixedLibraries => {
                "The locks of one library do not see those of the other one: both hold at a time, and \
                 nobody is told."
            }
            Self::BlockedByOtherName => {
                "The locks here compare all names with one another. This one comes before all numbers, so \
                 that nobody is first as long as it exists."
            }
            Self::NumbersRunOut => {
                "The server numbers the children of a directory from 0 to 2147483647 and goes on with \
                 negative numbers, which most libraries take for the smallest: two hold at a time."
            }
            Self::SilentHolder => {
                "Others wait for a session from which the server has not heard for long. Its process may \
                 have ended or stand still; the lock is free when the session expires."
            }
            Self::HolderWithoutSession => {
                "No session owns this znode, so that none takes it along when it ends. If its process is \
                 gone, others wait for ever."
            }
            Self::SilentServer => {
                "Its clients wait until they notice and go to another server, and sessions may expire \
                 meanwhile. The ensemble can lose one server less. What only this one knows is missing in \
                 this report."
            }
            Self::Herd => {
                "Each release wakes all of them, and each then lists the directory, though only one can \
                 have the lock: the cost grows with the square of their number."
            }
            Self::ManyEphemerals => {
                "The end of a session deletes all its ephemerals in one transaction, which every server \
                 of the ensemble carries out and whose events all watchers receive at once."
            }
            Self::ManyWatches => {
                "A client that reconnects sets all its watches again, and a server keeps each in memory."
            }
            Self::LongData => {
                "A server closes the connection of a client that sends more than its limit, \
                 jute.maxbuffer, and a client does so with a longer reply."
            }
            Self::LongList => {
                "A client cannot receive a list that is longer than its limit, jute.maxbuffer: it can \
                 neither list the directory nor delete what is in it. A lock cannot be acquired there."
            }
            Self::EmptyDirectories => {
                "Nobody deletes the directory of a lock that is not used any more, unless it is a \
                 container. Each costs memory on every server, and time in every snapshot."
            }
            Self::OpenToAll => {
                "Everyone who can connect may delete the lock znodes of others, and so make two hold at a time."
            }
            Self::Unreadable => "What is there is missing in this report.",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) kind: Kind,
    /// Where. Empty for what concerns a session.
    pub(crate) paths: Vec<String>,
    /// What is so, in one sentence.
    pub(crate) what: String,
    /// The particulars, a line each.
    pub(crate) details: Vec<String>,
    /// What to do.
    pub(crate) cure: String,
}

impl Finding {
    /// As the report and the console have it.
    pub(crate) fn json(&self) -> Value {
        json!({
            "severity": self.severity.name(),
            "kind": self.kind.name(),
            "paths": self.paths,
            "what": self.what,
            "details": self.details,
            "why": self.kind.why(),
            "do": self.cure,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_has_a_name_of_its_own_and_stands_in_the_documentation() {
        let documentation = include_str!("../../../docs/doctor.md");
        let names: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        for name in names {
            assert!(documentation.contains(&format!("`{name}`")), "{name}");
        }
    }
}
