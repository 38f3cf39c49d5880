//! Reads lines on a thread of its own, since a read of stdin cannot be awaited.

use std::io;
use std::sync::mpsc as blocking;

use tokio::sync::{mpsc, oneshot};
use zoolet_client::Client;

use super::editor;
use super::output::Printer;

/// What was read.
#[derive(Debug)]
pub(super) enum Input {
    Line(String),
    End,
    Failed(io::Error),
}

/// Lines. Each is read when it is asked for, and not before.
pub(super) struct Lines {
    /// Asks for a line; the prompt shows the state of the connection.
    wanted: blocking::Sender<&'static str>,
    came: mpsc::Receiver<Input>,
    printer: Option<oneshot::Receiver<Option<Printer>>>,
    is_asked: bool,
}

/// What the reading thread works with.
pub(super) struct Reader {
    pub(super) wanted: blocking::Receiver<&'static str>,
    pub(super) came: mpsc::Sender<Input>,
}

impl Reader {
    /// Reads a line for each request, until the input ends or the requests do.
    pub(super) fn run(&self, mut read: impl FnMut(&str) -> Input) {
        while let Ok(about) = self.wanted.recv() {
            let input = read(about);
            let is_last = !matches!(input, Input::Line(_));
            if self.came.blocking_send(input).is_err() || is_last {
                return;
            }
        }
    }
}

impl Lines {
    fn new() -> (Self, Reader) {
        let (wanted, asked) = blocking::channel();
        let (sender, came) = mpsc::channel(1);
        let lines = Self { wanted, came, printer: None, is_asked: false };
        (lines, Reader { wanted: asked, came: sender })
    }

    /// The lines of stdin, unedited.
    pub(super) fn piped() -> Self {
        let (lines, reader) = Self::new();
        // The thread may wait for a line for ever; it ends with the process.
        std::thread::spawn(move || {
            let mut stdin = io::stdin().lines();
            reader.run(|_| match stdin.next() {
                Some(Ok(line)) => Input::Line(line),
                Some(Err(error)) => Input::Failed(error),
                None => Input::End,
            });
        });
        lines
    }

    /// Lines that a person types.
    pub(super) fn edited(client: &Client, prompt: String) -> Self {
        let (mut lines, reader) = Self::new();
        let (sender, printer) = oneshot::channel();
        lines.printer = Some(printer);
        let client = client.clone();
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || editor::run(&reader, client, runtime, &prompt, sender));
        lines
    }

    /// Prints without disturbing the line that is being typed, where that is possible.
    pub(super) async fn printer(&mut self) -> Option<Printer> {
        self.printer.take()?.await.ok()?
    }

    /// The next line. Dropping the future loses no line.
    pub(super) async fn next(&mut self, about: &'static str) -> Input {
        if !self.is_asked {
            if self.wanted.send(about).is_err() {
                return Input::End;
            }
            self.is_asked = true;
        }
        let input = self.came.recv().await.unwrap_or(Input::End);
        self.is_asked = false;
        input
    }
}
