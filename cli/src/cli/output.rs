//! Prints answers, events and failures, as text or as JSON.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use rustyline::ExternalPrinter;
use serde_json::{Value, json};
use zoolet_client::ConnectionState;

use super::answer::{Answer, Text};
use super::failure::Failure;

/// Prints above the line that is being typed.
pub(super) type Printer = Box<dyn ExternalPrinter + Send>;

/// How answers, events and failures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    /// One JSON value a line.
    Json,
}

/// Where answers and events are printed.
pub(super) struct Output {
    form: Form,
    stdout: BufWriter<Stdout>,
    /// Whether the output is a terminal, which would obey control characters in data.
    is_terminal: bool,
    printer: Option<Printer>,
}

impl Output {
    pub(super) fn new(form: Form) -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        Self { form, is_terminal, stdout: BufWriter::new(stdout), printer: None }
    }

    /// Prints events through `printer`, so that the line that is being typed stays intact.
    pub(super) fn print_by(&mut self, printer: Option<Printer>) {
        self.printer = printer;
    }

    pub(super) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// The answer of a command.
    pub(super) fn answer(&mut self, answer: Answer) -> io::Result<()> {
        match self.form {
            Form::Text => self.text(&answer),
            Form::Json => {
                let line = self.json(&answer.into_json());
                writeln!(self.stdout, "{line}")
            }
        }
    }

    /// The text of an answer.
    pub(super) fn text(&mut self, answer: &Answer) -> io::Result<()> {
        answer.as_text().iter().try_for_each(|text| match text {
            Text::Line(line) if self.is_terminal => writeln!(self.stdout, "{}", visible(line)),
            Text::Line(line) => writeln!(self.stdout, "{line}"),
            Text::Whole(text) => self.part(text),
        })
    }

    /// A part of a text: unchanged, unless the output is a terminal.
    pub(super) fn part(&mut self, text: &[u8]) -> io::Result<()> {
        if self.is_terminal {
            return write!(self.stdout, "{}", visible_lines(&String::from_utf8_lossy(text)));
        }
        self.stdout.write_all(text)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// An event that a watch has told of.
    pub(super) fn event(&mut self, event: Answer) {
        let line = match self.form {
            Form::Text => {
                let lines = event.as_text().iter().filter_map(|text| match text {
                    Text::Line(line) if self.is_terminal => Some(visible(line)),
                    Text::Line(line) => Some(line.clone()),
                    Text::Whole(_) => None,
                });
                lines.map(|line| format!("event: {line}\n")).collect()
            }
            Form::Json => self.json(&event.into_json()) + "\n",
        };
        if let Some(printer) = &mut self.printer {
            // Without a terminal nobody watches.
            let _ = printer.print(line);
            return;
        }
        // The next command notices that the reader is gone.
        let _ = self.stdout.write_all(line.as_bytes()).and_then(|()| self.stdout.flush());
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
        let text = if self.is_json() { json!({ "notice": text }).to_string() } else { text.into() };
        if let Some(printer) = &mut self.printer {
            let _ = printer.print(format!("{text}\n"));
        }
    }

    /// Tells on stderr what a person may want to know, though nothing has failed.
    pub(super) fn notice(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let _ = match self.form {
            Form::Text => writeln!(stderr, "{text}"),
            Form::Json => writeln!(stderr, "{}", json!({ "notice": text })),
        };
    }

    /// A failure with the number of its line, or the help text that was asked for. `false` if that text
    /// cannot be printed.
    pub(super) fn tell(&mut self, failure: &Failure, line: Option<usize>) -> bool {
        let _ = self.flush();
        // A reader that closed one of the two does not want the message.
        match failure {
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Failure::Help(text) => match self.help(text) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    let _ = self.failure(&Failure::Output(error), line);
                    return false;
                }
                _ => {}
            },
            failure => drop(self.failure(failure, line)),
        }
        true
    }

    fn help(&mut self, text: &str) -> io::Result<()> {
        match self.form {
            Form::Text => writeln!(self.stdout, "{}", text.trim_end())?,
            Form::Json => {
                let help = Answer::of("help").with("text", text).into_json();
                writeln!(self.stdout, "{help}")?;
            }
        }
        self.flush()
    }

    fn failure(&self, failure: &Failure, line: Option<usize>) -> io::Result<()> {
        let mut stderr = io::stderr().lock();
        match (self.form, line) {
            (Form::Text, None) => writeln!(stderr, "error: {failure}"),
            (Form::Text, Some(line)) => writeln!(stderr, "error in line {line}: {failure}"),
            (Form::Json, line) => {
                let mut error = failure.to_json();
                if let Some(line) = line {
                    error["line"] = line.into();
                }
                writeln!(stderr, "{}", json!({ "error": error }))
            }
        }
    }

    /// A JSON value on one line.
    fn json(&self, value: &Value) -> String {
        let text = value.to_string();
        if !self.is_terminal {
            return text;
        }
        // JSON allows the upper control characters, which a terminal may obey.
        let plain = |c: char| match c {
            c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
            c => c.into(),
        };
        text.chars().map(plain).collect()
    }
}

/// The text with its control characters made visible, line ends excepted.
fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// The text with its control characters made visible, and with those that reverse the order in which
/// others are shown.
pub(crate) fn visible(text: &str) -> String {
    let reverses = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_plain = |c: char| !(c.is_control() || reverses(c)) || c == '\t';
    let plain =
        |c: char| if is_plain(c) { String::from(c) } else { c.escape_default().to_string() };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_is_made_visible() {
        assert_eq!(visible("a\tb\u{1b}[2J\r\0ü"), "a\tb\\u{1b}[2J\\r\\u{0}ü");
        assert_eq!(visible("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(visible_lines("a\n\u{1b}\n"), "a\n\\u{1b}\n");
    }
}
