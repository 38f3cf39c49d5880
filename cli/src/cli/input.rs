//! Reads lines on a thread of its own, since a read of stdin cannot be awaited.

use std::io;
use std::sync::mpsc as blocking;

use tokio::sync::mpsc;

/// What was read.
#[derive(Debug)]
pub(super) enum Input {
    Line(String),
    End,
    Failed(io::Error),
}

/// Lines. Each is read when it is asked for, and not before.
pub(super) struct Lines {
    /// Asks for a line, with the prompt.
    wanted: blocking::Sender<String>,
    came: mpsc::Receiver<Input>,
    is_asked: bool,
}

/// What the reading thread works with.
pub(super) struct Reader {
    wanted: blocking::Receiver<String>,
    came: mpsc::Sender<Input>,
}

impl Reader {
    /// Reads a line for each request, until the input ends or the requests do.
    pub(super) fn run(&self, mut read: impl FnMut(&str) -> Input) {
        while let Ok(prompt) = self.wanted.recv() {
            let input = read(&prompt);
            let is_last = !matches!(input, Input::Line(_));
            if self.came.blocking_send(input).is_err() || is_last {
                return;
            }
        }
    }
}

impl Lines {
    /// The lines that `read` reads, on a thread of its own. The thread may wait for a line for ever; it
    /// ends with the process.
    pub(super) fn read_by(read: impl FnOnce(&Reader) + Send + 'static) -> Self {
        let (wanted, asked) = blocking::channel();
        let (sender, came) = mpsc::channel(1);
        let reader = Reader { wanted: asked, came: sender };
        std::thread::spawn(move || read(&reader));
        Self { wanted, came, is_asked: false }
    }

    /// The lines of stdin, unedited.
    pub(super) fn piped() -> Self {
        Self::read_by(|reader| {
            let mut stdin = io::stdin().lines();
            reader.run(|_| match stdin.next() {
                Some(Ok(line)) => Input::Line(line),
                Some(Err(error)) => Input::Failed(error),
                None => Input::End,
            });
        })
    }

    /// The next line. Dropping the future loses no line.
    pub(super) async fn next(&mut self, prompt: impl FnOnce() -> String) -> Input {
        if !self.is_asked {
            if self.wanted.send(prompt()).is_err() {
                return Input::End;
            }
            self.is_asked = true;
        }
        let input = self.came.recv().await.unwrap_or(Input::End);
        self.is_asked = false;
        input
    }
}
