//! What a hand-over takes between three processes or threads that sleep, as locks are used: the holder
//! wakes the server, and the server wakes the next in line. Beside it are the least that can wake the
//! same two, bare sockets with one byte, the messages of a hand-over without a lock, and a request of the
//! holder to the same server, an `exists`.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench handoff_tcp
//! ```
//!
//! Each server is a process of its own, and each client a thread of this one, so that one clock measures
//! both; the last three lines are of two clients on one runtime, as a process with many has. Zoolet's server
//! is this program too, or the binary that the variable `ZOOLET_BIN` names, as the one that ships. All sleep
//! for some time before each measured step: so long that the processors sleep too. All kinds have one rhythm,
//! since the system wakes who sleeps where it ran before: on the processor of the one that wakes it, or on
//! another one, which takes longer. The kinds take turns. On a busy machine compare their ratios only.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod bare;
mod clients;
mod messages;
mod pair;
mod rhythm;
mod servers;

use std::io;
use std::time::Duration;

use zoolet_benches::process::ServerProcess;
use zoolet_benches::{is_measured, tell};

use self::bare::{BareContender, ContenderOnTokio};
use self::clients::MutexContender;
use self::messages::MessageContender;
use self::rhythm::{Placement, Step};
use self::servers::Role;

/// How long all sleep before each step: as `zoolet bench herd` lets them.
const PAUSE: Duration = Duration::from_millis(2);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A byte to a server and on to another client, without a runtime.
    Bare,
    /// The same, with the runtime that zoolet has.
    BareOnTokio,
    /// A byte to a server and back to the same client, without a runtime: what a request is to a hand-over.
    BareAnswer,
    /// The same, with the runtime that zoolet has.
    BareAnswerOnTokio,
    /// The messages of a hand-over between two contenders, without a lock.
    Messages,
    /// A request to zoolet, and its reply.
    Request,
    /// A mutex that one client releases and another one gets.
    HandOver,
    /// The same two, with a server that polls its sockets without a pause.
    RequestAwake,
    HandOverAwake,
    /// The messages, the request and the hand-over of two clients in one process.
    MessagesTogether,
    RequestTogether,
    HandOverTogether,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Bare,
        Self::BareOnTokio,
        Self::BareAnswer,
        Self::BareAnswerOnTokio,
        Self::Messages,
        Self::Request,
        Self::HandOver,
        Self::RequestAwake,
        Self::HandOverAwake,
        Self::MessagesTogether,
        Self::RequestTogether,
        Self::HandOverTogether,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "a byte to a bare server and on to another client",
            Self::BareOnTokio => "a byte to a server on tokio and on to another client",
            Self::BareAnswer => "a byte to a bare server and back to the same client",
            Self::BareAnswerOnTokio => "a byte to a server on tokio and back to the same client",
            Self::Messages => "the messages of a hand-over without a lock",
            Self::Request => "an exists of zoolet, and its reply",
            Self::HandOver => "a hand-over of a mutex",
            Self::RequestAwake => "the exists of a server that never sleeps",
            Self::HandOverAwake => "the hand-over of a server that never sleeps",
            Self::MessagesTogether => "the messages of a hand-over within one process",
            Self::RequestTogether => "an exists from that process",
            Self::HandOverTogether => "a hand-over within that process",
        }
    }

    const fn server(self) -> Role {
        match self {
            Self::Bare | Self::BareAnswer => Role::Bare,
            Self::BareOnTokio | Self::BareAnswerOnTokio => Role::BareOnTokio,
            Self::Messages | Self::MessagesTogether => Role::Messages,
            Self::Request | Self::HandOver => Role::Zoolet,
            Self::RequestTogether | Self::HandOverTogether => Role::Zoolet,
            Self::RequestAwake | Self::HandOverAwake => Role::ZooletAwake,
        }
    }

    const fn step(self) -> Step {
        match self {
            Self::Bare | Self::BareOnTokio | Self::Messages => Step::HandOver,
            Self::HandOver | Self::HandOverAwake => Step::HandOver,
            Self::MessagesTogether | Self::HandOverTogether => Step::HandOver,
            Self::BareAnswer | Self::BareAnswerOnTokio => Step::Request,
            Self::Request | Self::RequestAwake | Self::RequestTogether => Step::Request,
        }
    }

    const fn placement(self) -> Placement {
        match self {
            Self::MessagesTogether | Self::RequestTogether | Self::HandOverTogether => {
                Placement::Together
            }
            _ => Placement::Apart,
        }
    }

    /// The times of some steps.
    fn measure(self, server: &ServerProcess, steps: usize) -> io::Result<Vec<Duration>> {
        let times = match self.server() {
            Role::Bare => rhythm::times::<BareContender>,
            Role::BareOnTokio => rhythm::times::<ContenderOnTokio>,
            Role::Messages => rhythm::times::<MessageContender>,
            Role::Zoolet | Role::ZooletAwake => rhythm::times::<MutexContender>,
        };
        times(self.step(), self.placement(), server.address(), PAUSE, steps)
    }
}

fn main() -> io::Result<()> {
    if let Some(role) = Role::of_this_process() {
        return servers::serve(role);
    }
    let (rounds, steps) = if is_measured() { (10, 60) } else { (1, 4) };
    let start = |role: Role| (!role.is_awake()).then(|| role.start()).transpose();
    let servers = Role::ALL.map(start);
    let mut times = Kind::ALL.map(|_| Vec::new());
    for _ in 0..rounds {
        for (kind, times) in Kind::ALL.iter().zip(&mut times) {
            let role = kind.server();
            let measured = match &servers[role as usize] {
                Ok(Some(server)) => kind.measure(server, steps)?,
                // There only while it is measured.
                Ok(None) => kind.measure(&role.start()?, steps)?,
                Err(error) => return Err(io::Error::other(error.to_string())),
            };
            times.extend(measured);
        }
    }
    let medians = times.each_mut().map(|times| median(times));
    let (bare, request) = (medians[Kind::Bare as usize], medians[Kind::Request as usize]);
    for ((kind, times), time) in Kind::ALL.iter().zip(&times).zip(medians) {
        tell(&format!(
            "{}: {:.1} µs ({:.2} of bare sockets, {:.2} of a request), {} times",
            kind.name(),
            time.as_secs_f64() * 1e6,
            time.as_secs_f64() / bare.as_secs_f64(),
            time.as_secs_f64() / request.as_secs_f64(),
            times.len(),
        ));
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
