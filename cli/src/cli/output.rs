//! Prints answers, events and failures.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use jiff::Timestamp;
use rustyline::ExternalPrinter;
use zoolet_client::ConnectionState;
use zoolet_protocol::Stat;

use super::failure::Failure;

/// Prints above the line that is being typed.
pub(super) type Printer = Box<dyn ExternalPrinter + Send>;

/// Where answers and events are printed.
pub(super) struct Output {
    stdout: BufWriter<Stdout>,
    /// Whether the output is a terminal, which would obey control characters in data.
    is_terminal: bool,
    printer: Option<Printer>,
}

impl Output {
    pub(super) fn new() -> Self {
        let stdout = io::stdout();
        Self { is_terminal: stdout.is_terminal(), stdout: BufWriter::new(stdout), printer: None }
    }

    /// Prints events through `printer`, so that the line that is being typed stays intact.
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

    /// Data: unchanged, unless the output is a terminal.
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

    /// An event or a change of the connection.
    pub(super) fn event(&mut self, event: &str) {
        if let Some(printer) = &mut self.printer {
            // Without a terminal nobody watches.
            let _ = printer.print(format!("event: {event}\n"));
            return;
        }
        // The next command notices that the reader is gone.
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

    /// A failure with the number of its line, or the help text that was asked for.
    pub(super) fn tell(&mut self, failure: &Failure, line: Option<usize>) {
        let _ = self.flush();
        let mut stderr = io::stderr().lock();
        // A reader that closed one of the two does not want the message.
        let _ = match (failure, line) {
            (Failure::Help(text), _) => write!(io::stdout().lock(), "{text}"),
            (Failure::Output(error), _) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            (failure, Some(line)) => writeln!(stderr, "error in line {line}: {failure}"),
            (failure, None) => writeln!(stderr, "error: {failure}"),
        };
    }
}

/// The text with its control characters made visible.
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
