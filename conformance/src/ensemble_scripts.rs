//! Golden scripts with several servers: recorded from an ensemble of three Apache servers, and played
//! by the test kit's `TestEnsemble`.
//!
//! - `stage` is the ground of a script: it knows the servers by the names of the script, what is done
//!   to them, and waits until all of them have applied what is committed.
//! - `apache` and `double` are the servers. Those of Apache are shared by all scripts of one
//!   [`Area`]; each script has a `TestEnsemble` of its own, whose time is virtual.
//! - `draw` writes scripts from seeds.

mod apache;
mod double;
mod draw;
mod servers;
mod stage;

use std::io;

pub use self::apache::ApacheStages;
pub use self::double::play_on_double;
pub use self::draw::drawn;

use crate::apache::Timing;
use crate::core_target::SESSION_TIMEOUTS_MS;
use crate::script::Script;

/// What a script needs of its ensemble. Its folder decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Three servers.
    Three,
    /// Two servers of three: `two-servers`.
    Two,
    /// Servers without a leader serve clients that only read: `read-only`.
    ReadOnly,
}

impl Area {
    /// The area of a script.
    #[must_use]
    pub fn of(script: &Script) -> Self {
        match script.area() {
            "two-servers" => Self::Two,
            "read-only" => Self::ReadOnly,
            _ => Self::Three,
        }
    }
}

/// The timing of both ensembles. A server that hears nothing gives its leader up after some seconds,
/// which is long enough on a busy machine, and short enough for a script that waits for it.
const TIMING: Timing =
    Timing { tick_ms: 200, limit_ticks: 20, session_timeout_min_ms: SESSION_TIMEOUTS_MS.0 };

/// Adds the name of a server to an error.
fn named(server: &str, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{server}: {error}"))
}
