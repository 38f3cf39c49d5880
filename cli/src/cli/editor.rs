//! Lines from a terminal, with completion and a history that is kept in a file.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::complete::complete;
use super::connection::CurrentClient;
use super::history;
use super::input::{Input, Lines, Reader};
use super::output::Printer;

/// How long Tab may take to ask the server.
const COMPLETE_WITHIN: Duration = Duration::from_secs(1);

/// How many lines the history has.
const HISTORY_LINES_MAX: usize = 10_000;

/// The lines that a person types, and what prints without disturbing the line that is being typed, where
/// that is possible.
pub(super) async fn start(client: CurrentClient) -> (Lines, Option<Printer>) {
    let runtime = Handle::current();
    let (sender, printer) = oneshot::channel();
    let lines = Lines::read_by(move |reader| run(reader, Tab { client, runtime }, sender));
    (lines, printer.await.ok().flatten())
}

/// Reads lines until there are no more.
fn run(reader: &Reader, tab: Tab, printer: oneshot::Sender<Option<Printer>>) {
    let mut editor = match editor() {
        Ok(editor) => editor,
        Err(error) => {
            reader.run(|_| Input::Failed(io::Error::other(error.to_string())));
            return;
        }
    };
    editor.set_helper(Some(tab));
    let external = editor.create_external_printer().ok();
    let _ = printer.send(external.map(|printer| Box::new(printer) as Printer));
    let history = history_file();
    if let Some(file) = &history
        && let Err(error) = editor.load_history(file)
    {
        tracing::debug!("no history: {error}");
    }
    reader.run(|prompt| match editor.readline(prompt) {
        Ok(line) => {
            if !line.trim().is_empty() && !history::is_secret(&line) {
                remember(&mut editor, &line, history.as_ref());
            }
            Input::Line(line)
        }
        // Ctrl-C drops the line.
        Err(ReadlineError::Interrupted) => Input::Line(String::new()),
        Err(ReadlineError::Eof) => Input::End,
        Err(ReadlineError::Io(error)) => Input::Failed(error),
        Err(error) => Input::Failed(io::Error::other(error.to_string())),
    });
}

fn editor() -> rustyline::Result<Editor<Tab, FileHistory>> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_LINES_MAX)?
        .build();
    Editor::with_config(config)
}

/// The file of the history, in the state directory of freedesktop.org's specification.
fn history_file() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let state = state.or_else(|| Some(std::env::home_dir()?.join(".local/state")))?;
    let directory = state.join("zoolet");
    match std::fs::create_dir_all(&directory) {
        Ok(()) => Some(directory.join("history")),
        Err(error) => {
            tracing::debug!("no history in {}: {error}", directory.display());
            None
        }
    }
}

fn remember(editor: &mut Editor<Tab, FileHistory>, line: &str, file: Option<&PathBuf>) {
    let added = editor.add_history_entry(line);
    if let (Ok(true), Some(file)) = (added, file)
        // Written after each line, so that a killed shell loses none.
        && let Err(error) = editor.append_history(file)
    {
        tracing::debug!("the history is not kept: {error}");
    }
}

/// Completes the text before the cursor.
struct Tab {
    client: CurrentClient,
    runtime: Handle,
}

impl Tab {
    /// The children of a znode; none if the server does not answer soon.
    fn children(&self, path: &str) -> Vec<String> {
        let Some(client) = self.client.get() else { return Vec::new() };
        let names = client.children(path).into_future();
        // The timeout needs the clock of the runtime.
        let names = async { tokio::time::timeout(COMPLETE_WITHIN, names).await };
        match self.runtime.block_on(names) {
            Ok(Ok(names)) => names.to_vec(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }
}

impl Completer for Tab {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(&line[..cursor], |path| self.children(path)))
    }
}

impl Helper for Tab {}
impl Highlighter for Tab {}
impl Validator for Tab {}
impl Hinter for Tab {
    type Hint = String;
}
