//! The commands of the admin server (`org.apache.zookeeper.server.admin.Commands`): their names, who
//! may use them, and how they are answered.

mod reports;
mod restore;
mod shed;
mod snapshot;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use super::authorization::authorize;
use super::http::OverTls;
use super::http::is_of_another_site;
use super::json::{Object, write_object};
use super::server::{Admin, JSON, failure, json};
use crate::engine::clock::now;
use crate::reports::chunks;
use crate::reports::permits::ReportKind;

/// A command.
#[derive(Debug)]
struct Command {
    /// The primary name, and its aliases.
    names: &'static [&'static str],
    /// Whether it is answered only while the server serves clients.
    needs_server: bool,
    /// Whether it changes something, and so is not for links on pages of other sites.
    changes: bool,
    action: Action,
}

/// What a command does.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// It writes its fields at once.
    Report(Report),
    /// The same, but its fields grow with the number of connections, sessions or watches: a thread
    /// makes them.
    LongReport(ReportKind, Report),
    /// `set_trace_mask`, which has an argument.
    SetTraceMask,
    /// For those only who may do everything.
    Guarded(Guarded),
}

#[derive(Debug, Clone, Copy)]
enum Guarded {
    /// `snapshot`.
    Snapshot,
    /// `restore`, by POST.
    Restore,
    /// `shed_connections`, by POST.
    ShedConnections,
}

impl Action {
    fn is_by_post(self) -> bool {
        matches!(self, Self::Guarded(Guarded::Restore | Guarded::ShedConnections))
    }
}

/// Writes the fields of a report.
type Report = fn(&Admin, &mut Object<'_>) -> Result<Told, fmt::Error>;

/// What the fields of an answer told already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Values.
    Values,
    /// Among them why the command failed.
    Error,
}

impl Command {
    const fn of(names: &'static [&'static str], action: Action) -> Self {
        let changes = matches!(action, Action::SetTraceMask | Action::Guarded(_));
        Self { names, needs_server: true, changes, action }
    }

    const fn report(names: &'static [&'static str], report: Report) -> Self {
        Self::of(names, Action::Report(report))
    }

    const fn listing(names: &'static [&'static str], report: Report) -> Self {
        Self::of(names, Action::LongReport(ReportKind::Listing, report))
    }

    const fn monitoring(names: &'static [&'static str], report: Report) -> Self {
        Self::of(names, Action::LongReport(ReportKind::Monitoring, report))
    }

    /// One that resets what is counted.
    const fn resetting(names: &'static [&'static str], report: Report) -> Self {
        Self { changes: true, ..Self::report(names, report) }
    }

    const fn guarded(names: &'static [&'static str], guarded: Guarded) -> Self {
        Self::of(names, Action::Guarded(guarded))
    }

    /// One that is answered whether or not the server serves clients.
    const fn always(self) -> Self {
        Self { needs_server: false, ..self }
    }
}

/// In the order of `Commands`; `shed_connections` comes with ZooKeeper 3.10.
const COMMANDS: &[Command] = &[
    Command::resetting(&["connection_stat_reset", "crst"], reports::reset_connections),
    Command::report(&["configuration", "conf", "config"], reports::configuration),
    Command::listing(&["connections", "cons"], reports::connections),
    Command::report(&["hash"], reports::digests),
    Command::report(&["dirs"], reports::directories),
    Command::listing(&["dump"], reports::dump),
    Command::report(&["environment", "env", "envi"], reports::environment).always(),
    Command::report(&["get_trace_mask", "gtmk"], reports::trace_mask).always(),
    Command::report(&["initial_configuration", "icfg"], reports::initial_configuration),
    Command::report(&["is_read_only", "isro"], reports::is_read_only),
    Command::report(&["last_snapshot", "lsnp"], reports::last_snapshot),
    Command::report(&["leader", "lead"], reports::leader),
    Command::monitoring(&["monitor", "mntr"], reports::monitor).always(),
    Command::resetting(&["observer_connection_stat_reset", "orst"], reports::nothing),
    Command::guarded(&["restore", "rest"], Guarded::Restore),
    Command::report(&["ruok"], reports::nothing),
    Command::of(&["set_trace_mask", "stmk"], Action::SetTraceMask).always(),
    Command::guarded(&["snapshot", "snap"], Guarded::Snapshot),
    Command::report(&["server_stats", "srvr"], reports::server_stats),
    Command::guarded(&["shed_connections", "shed"], Guarded::ShedConnections),
    Command::listing(&["stats", "stat"], reports::stats),
    Command::resetting(&["stat_reset", "srst"], reports::reset_stats),
    Command::report(&["observers", "obsr"], reports::observers),
    Command::report(&["system_properties", "sysp"], reports::system_properties).always(),
    Command::report(&["voting_view"], reports::voting_view),
    Command::listing(&["watches", "wchc"], reports::watches),
    Command::listing(&["watches_by_path", "wchp"], reports::watches_by_path),
    Command::report(&["watch_summary", "wchs"], reports::watch_summary),
    Command::report(&["zabstate"], reports::zab_state).always(),
];

/// The names under which the index lists the commands, in its order.
pub(super) fn primary_names() -> Vec<&'static str> {
    let mut names: Vec<_> = COMMANDS.iter().map(|command| command.names[0]).collect();
    names.sort_unstable();
    names
}

/// Whether there is such a command, and it changes nothing.
pub(super) fn is_report(name: &str) -> bool {
    COMMANDS.iter().any(|command| command.names.contains(&name) && !command.changes)
}

/// A request for a command.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) peer: SocketAddr,
    /// `None` for one in plaintext.
    pub(super) over_tls: Option<OverTls>,
    pub(super) headers: HeaderMap,
    /// The arguments, in their order.
    pub(super) query: Vec<(String, String)>,
    pub(super) is_post: bool,
}

impl Asked {
    /// The first argument of a name.
    fn argument(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Runs a command, and answers.
pub(super) async fn run(admin: Arc<Admin>, name: &str, asked: Asked, body: Body) -> Response {
    let Some(command) = COMMANDS.iter().find(|command| command.names.contains(&name)) else {
        return error(StatusCode::OK, name, &format!("Unknown command: {name}"));
    };
    if command.needs_server && admin.engine.is_shut_down() {
        let reason = "This ZooKeeper instance is not currently serving requests";
        return error(StatusCode::OK, name, reason);
    }
    let primary = command.names[0];
    if asked.is_post != command.action.is_by_post() {
        let method = if asked.is_post { "GET" } else { "POST" };
        let reason = format!("{primary} is asked for by {method}");
        return error(StatusCode::METHOD_NOT_ALLOWED, name, &reason);
    }
    if command.changes && is_of_another_site(&asked.headers) {
        let reason = "a page of another site may not ask for what changes something";
        return error(StatusCode::FORBIDDEN, name, reason);
    }
    match command.action {
        Action::Report(report) => json(|out| answer(out, primary, |object| report(&admin, object))),
        Action::LongReport(kind, report) => long_report(admin, kind, primary, report).await,
        Action::SetTraceMask => {
            let mask = asked.argument("traceMask");
            json(|out| answer(out, primary, |object| reports::set_trace_mask(&admin, mask, object)))
        }
        Action::Guarded(guarded) => match (authorize(&admin, &asked), guarded) {
            (Err(refusal), _) => error(refusal.status(), name, &refusal.to_string()),
            (Ok(_), Guarded::Snapshot) => snapshot::run(&admin, asked.argument("streaming")).await,
            (Ok(administrator), Guarded::Restore) => {
                restore::run(&admin, administrator, body).await
            }
            (Ok(_), Guarded::ShedConnections) => shed::run(&admin, body).await,
        },
    }
}

/// Writes an answer: the fields, then the command and its error, unless that is among the fields.
fn answer(
    out: &mut dyn fmt::Write,
    command: &str,
    fields: impl FnOnce(&mut Object<'_>) -> Result<Told, fmt::Error>,
) -> fmt::Result {
    write_object(out, |object| {
        let told = fields(object)?;
        object.field("command", command)?;
        match told {
            Told::Values => object.field("error", None::<&str>),
            Told::Error => Ok(()),
        }
    })
}

/// The answer of a command that was not carried out.
fn error(status: StatusCode, command: &str, reason: &str) -> Response {
    let text = |out: &mut String| {
        write_object(out, |object| {
            object.field("command", command)?;
            object.field("error", reason)
        })
    };
    (status, json(text)).into_response()
}

/// The answer of a command that the configuration switches off.
fn switched_off(command: &str) -> Response {
    let reason = format!("{command} is off (admin.{command}.enabled=false)");
    error(StatusCode::SERVICE_UNAVAILABLE, command, &reason)
}

/// The answer of a command that came too soon after another of its kind.
fn rate_limited(interval: Duration, command: &str) -> Response {
    let reason = format!(
        "{command} is allowed once in {} s (admin.rateLimiterIntervalInMS)",
        interval.as_secs_f64()
    );
    error(StatusCode::TOO_MANY_REQUESTS, command, &reason)
}

/// Lets a thread make a report, in slices between which it releases the engine's lock, while its
/// beginning is sent.
async fn long_report(
    admin: Arc<Admin>,
    kind: ReportKind,
    command: &'static str,
    report: Report,
) -> Response {
    let Ok(permit) = admin.engine.reports.acquire(kind).await else {
        return failure(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
    };
    let (mut chunks, receiver, deadline) = chunks::channel(kind);
    tokio::task::spawn_blocking(move || {
        // It fails when the client has closed the connection or reads too slowly.
        let _ = answer(&mut chunks, command, |object| report(&admin, object))
            .and_then(|()| chunks.flush());
        drop(permit);
    });
    let body = Body::new(ReportBody { receiver, deadline });
    ([(header::CONTENT_TYPE, JSON)], body).into_response()
}

/// The body of a report.
#[derive(Debug)]
struct ReportBody {
    receiver: Receiver<String>,
    /// When the thread gives up. An answer without its end must not look whole.
    deadline: Instant,
}

impl hyper::body::Body for ReportBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = std::task::ready!(self.receiver.poll_recv(context));
        if now() >= self.deadline {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk.into()))))
    }
}

/// A body that a thread reads from a file.
#[derive(Debug)]
struct Chunked(Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Chunked {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = std::task::ready!(self.0.poll_recv(context));
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }
}
