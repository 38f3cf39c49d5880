//! The limits of a sweep, each with its reason.

use std::time::Duration;

/// The last bytes of a command's output that are kept: a few screens, times the number of faults.
pub(super) const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The first characters of a line of output that are kept: some lines of a terminal.
pub(super) const LINE_CHARACTERS_MAX: usize = 1_000;

/// The requests of one run that are kept, in the order in which they came. A sweep over more points
/// than this would take days.
pub(super) const REQUESTS_MAX: usize = 20_000;

/// The different requests of one run that are counted. A command that never uses a path twice must
/// not fill the memory.
pub(super) const KINDS_OF_REQUEST_MAX: usize = 100_000;

/// The longest path of a request that is shown and compared, in bytes: a multi names many.
pub(super) const PATH_BYTES_MAX: usize = 300;

/// The longest run without a fault when no time limit is given.
pub(super) const FIRST_RUN_MAX: Duration = Duration::from_secs(600);

/// A run with a fault may take so many times as long as the run without one. A client that has lost
/// its connection waits before it connects again.
pub(super) const TIME_LIMIT_FACTOR: u32 = 10;

/// And so much longer at least, for tests that take no time without a fault: clients pause for some
/// seconds between attempts to connect.
pub(super) const TIME_LIMIT_ADDED: Duration = Duration::from_secs(10);

/// How long the rest of the output is waited for when the command has ended. Only a process that
/// has left the command's process group can still hold the pipe.
pub(super) const OUTPUT_WITHIN: Duration = Duration::from_secs(1);

/// The last lines of output that two failures have in common which are reported together. The last
/// line of a test runner only counts tests; the line before it names the failure.
pub(super) const LINES_COMPARED: usize = 2;

/// The lines of output in the report of a fault, as text and as a file.
pub(super) const LINES_AS_TEXT: usize = 6;
pub(super) const LINES_IN_FILES: usize = 40;

/// The faults that the text lists of one way to fail; the files have all.
pub(super) const LISTED_AS_TEXT: usize = 12;

/// The requests in a report before and after that of the fault.
pub(super) const REQUESTS_BEFORE: usize = 5;
pub(super) const REQUESTS_AFTER: usize = 15;
