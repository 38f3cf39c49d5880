//! The kinds of faults, and the faults of a sweep.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use zoolet_protocol::OpCode;
use zoolet_testkit::Fate;

use super::point::Point;

/// What happens at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Kind {
    /// The connection closes when the request arrives; the server does not carry it out
    RequestLost,
    /// The server carries a write out, and the connection closes before the reply
    ReplyLost,
    /// The connection closes after the reply
    CutAfter,
    /// As reply-lost, in an ensemble: the client comes back to a server that has not applied the write
    Stale,
    /// The session expires when the request arrives; the server does not carry it out
    Expire,
    /// The session expires after the reply
    ExpireAfter,
    /// The reply leaves later
    Delay,
    /// The server stops for a time, as if its process were paused, before the reply leaves
    Freeze,
}

/// How long faults last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) delay: Duration,
    pub(super) freeze: Duration,
    /// How long a server is behind.
    pub(super) stale: Duration,
}

impl Times {
    /// Those of a sweep for which none are given.
    pub(super) const DEFAULT: Self = Self {
        delay: Duration::from_millis(500),
        freeze: Duration::from_secs(1),
        stale: Duration::from_secs(1),
    };
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::RequestLost,
        Self::ReplyLost,
        Self::CutAfter,
        Self::Stale,
        Self::Expire,
        Self::ExpireAfter,
        Self::Delay,
        Self::Freeze,
    ];

    /// The name in reports, ids and options.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RequestLost => "request-lost",
            Self::ReplyLost => "reply-lost",
            Self::CutAfter => "cut-after",
            Self::Stale => "stale",
            Self::Expire => "expire",
            Self::ExpireAfter => "expire-after",
            Self::Delay => "delay",
            Self::Freeze => "freeze",
        }
    }

    /// What it does, as the help text has it.
    pub(super) fn about(self) -> String {
        let value = self.to_possible_value();
        let help = value.as_ref().and_then(PossibleValue::get_help);
        help.map(ToString::to_string).unwrap_or_default()
    }

    /// Whether it can do to a request what no other kind does.
    ///
    /// A read whose reply is lost is the same as a read that is lost: neither changes anything. A
    /// session that is being closed need not expire as well, and its connection closes anyway.
    pub(super) fn applies_to(self, operation: OpCode, is_write: bool) -> bool {
        let closes = operation == OpCode::CLOSE_SESSION;
        match self {
            Self::RequestLost | Self::Delay | Self::Freeze => true,
            Self::ReplyLost => is_write,
            Self::Stale => is_write && !closes,
            Self::CutAfter | Self::Expire | Self::ExpireAfter => !closes,
        }
    }

    /// What the test kit does with the request.
    pub(super) fn fate(self, times: Times) -> Fate {
        match self {
            Self::RequestLost => Fate::CutBefore,
            Self::ReplyLost | Self::Stale => Fate::CutReply,
            Self::CutAfter => Fate::CutAfter,
            Self::Expire => Fate::ExpireBefore,
            Self::ExpireAfter => Fate::ExpireAfter,
            Self::Delay => Fate::Delay(times.delay),
            Self::Freeze => Fate::Freeze,
        }
    }

    /// By how much it lengthens a run by itself.
    pub(super) fn takes(self, times: Times) -> Duration {
        match self {
            Self::Delay => times.delay,
            Self::Freeze => times.freeze,
            Self::Stale => times.stale,
            _ => Duration::ZERO,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A fault of a sweep: a kind, at a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PointFault {
    pub(super) kind: Kind,
    pub(super) point: Point,
}

impl PointFault {
    /// The name for `--replay`.
    pub(super) fn id(&self) -> String {
        format!("{}-{}", self.kind, self.point.id())
    }

    /// What it does, as a sentence without its full stop.
    pub(super) fn sentence(&self, times: Times) -> String {
        let point = &self.point;
        match self.kind {
            Kind::RequestLost => {
                format!("the connection closed when the {point} arrived, which was not carried out")
            }
            Kind::ReplyLost => {
                format!("the {point} was carried out, and the connection closed before the reply")
            }
            Kind::Stale => {
                let stale = seconds(times.stale);
                format!(
                    "the {point} was carried out, the connection closed before the reply, and the \
                     client came back to a server that applied it {stale} later"
                )
            }
            Kind::CutAfter => {
                format!("the connection closed after the reply to the {point}")
            }
            Kind::Expire => {
                format!("the session expired when the {point} arrived, which was not carried out")
            }
            Kind::ExpireAfter => format!("the session expired after the reply to the {point}"),
            Kind::Delay => {
                format!("the reply to the {point} left {} later", seconds(times.delay))
            }
            Kind::Freeze => {
                let freeze = seconds(times.freeze);
                format!("the server stopped for {freeze} before the reply to the {point} left")
            }
        }
    }
}

/// A time in seconds, for people.
pub(super) fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 99.5 => format!("{seconds:.0} s"),
        seconds if seconds >= 9.95 => format!("{seconds:.1} s"),
        seconds => format!("{seconds:.2} s"),
    }
}
