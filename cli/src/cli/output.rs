//! What is printed.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use jiff::Timestamp;
use rustyline::ExternalPrinter;
use zoolet_protocol::Stat;
use zoolet_recipes::client::ConnectionState;

use super::failure::Failure;

/// Prints beside a line that is being typed.
pub(super) type Printer = Box<dyn ExternalPrinter + Send>;

/// Where answers and events go.
pub(super) struct Output {
    stdout: BufWriter<Stdout>,
    /// Whether a terminal would take what is in data for commands.
    is_terminal: bool,
    printer: Option<Printer>,
}

impl Output {
    pub(super) fn new() -> Self {
        let stdout = io::stdout();
        Self { is_terminal: stdout.is_terminal(), stdout: BufWriter::new(stdout), printer: None }
    }

    /// Has what comes by itself printed so that a line that is being typed stays whole.
    pub(super) fn print_by(&mut self, printer: Option<Printer>) {
        self.printer = printer;
    }

    /// A text, with its own line ends.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(text.as_bytes())
    }

    /// A line.
    pub(super) fn line(&mut self, line: &str) -> io::Result<()> {
        if self.is_terminal {
            return writeln!(self.stdout, "{}", visible(line));
        }
        writeln!(self.stdout, "{line}")
    }

    /// Data: as it is, but for a terminal.
    pub(super) fn data(&mut self, data: &[u8]) -> io::Result<()> {
        if self.is_terminal {
            let lines = String::from_utf8_lossy(data);
            return lines.split('\n').try_for_each(|line| self.line(line));
        }
        self.stdout.write_all(data)?;
        self.stdout.write_all(b"\n")
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// Something that came by itself.
    pub(super) fn event(&mut self, event: &str) {
        if let Some(printer) = &mut self.printer {
            // Without a terminal there is nobody to tell.
            let _ = printer.print(format!("event: {event}\n"));
            return;
        }
        // A reader that has gone is noticed by the next command.
        let _ = writeln!(self.stdout, "event: {event}").and_then(|()| self.stdout.flush());
    }

    /// A change of the connection.
    pub(super) fn connection(&mut self, state: Option<ConnectionState>) {
        let text = match state {
            Some(ConnectionState::Suspended) => "the connection is lost; it is being looked for",
            Some(ConnectionState::Lost) => {
                "the session is over, and with it its ephemerals and watches"
            }
            Some(ConnectionState::Reconnected) => "connected again",
            _ => return,
        };
        if let Some(printer) = &mut self.printer {
            let _ = printer.print(format!("{text}\n"));
        }
    }

    /// What went wrong, and in which line; or the help that was asked for.
    pub(super) fn tell(&mut self, failure: &Failure, line: Option<usize>) {
        let _ = self.flush();
        let mut stderr = io::stderr().lock();
        // Whoever closed one of the two does not want to hear of it.
        let _ = match (failure, line) {
            (Failure::Help(text), _) => write!(io::stdout().lock(), "{text}"),
            (Failure::Output(error), _) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            (failure, Some(line)) => writeln!(stderr, "error in line {line}: {failure}"),
            (failure, None) => writeln!(stderr, "error: {failure}"),
        };
    }
}

/// A text with what moves a cursor made visible.
pub(super) fn visible(text: &str) -> String {
    let is_plain = |c: char| !c.is_control() || c == '\t';
    let plain =
        |c: char| if is_plain(c) { String::from(c) } else { c.escape_default().to_string() };
    text.chars().map(plain).collect()
}

/// A time in milliseconds since 1970, in UTC.
pub(super) fn time(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        Err(_) => ms.to_string(),
    }
}

/// A Stat, with the names of `zkCli.sh`.
pub(super) fn stat(stat: &Stat) -> String {
    format!(
        "cZxid = {}\nctime = {}\nmZxid = {}\nmtime = {}\npZxid = {}\ncversion = {}\n\
         dataVersion = {}\naclVersion = {}\nephemeralOwner = {}\ndataLength = {}\n\
         numChildren = {}\n",
        stat.czxid,
        time(stat.ctime),
        stat.mzxid,
        time(stat.mtime),
        stat.pzxid,
        stat.cversion,
        stat.version,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(time(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn what_moves_a_cursor_is_made_visible() {
        assert_eq!(visible("a\tb\u{1b}[2J\r\0ü"), "a\tb\\u{1b}[2J\\r\\u{0}ü");
    }
}
