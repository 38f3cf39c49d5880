//! Asks servers four-letter words, and prints their answers.

mod values;

use std::time::Duration;

use zoolet_client::{ConnectError, FourLetterWord, WordAnswer};

use super::answer::Answer;
use super::failure::Failure;
use super::output::Output;
use super::word::{ANSWER_BYTES_MAX, Word, WordFailure};

/// The beginning of an answer that is looked at before anything is printed. All answers that are failures
/// are shorter.
const BEGINNING_BYTES: usize = 256;

/// Sends a word to a server, and prints the answer as it comes; as JSON, when it is complete. Waits no
/// longer than `limit` for a connection, and for each further part of the answer. `request` is
/// [`Word::request`] with what the connection needs.
pub(super) async fn ask(
    server: &str,
    word: Word,
    request: FourLetterWord,
    limit: Duration,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut exchange = Exchange::begin(server, word, request, limit).await?;
    if output.is_json() {
        while exchange.read().await? {
            if exchange.read.len() > ANSWER_BYTES_MAX {
                return Err(
                    WordFailure::TooLong { word: word.name(), server: server.into() }.into()
                );
            }
        }
        exchange.check()?;
        let text = String::from_utf8_lossy(&exchange.read);
        let answer = Answer::of(word.name()).with("server", server).with("text", &*text);
        return Ok(output.answer(match values::parse(word.name(), &text) {
            Some(values) => answer.with("values", values),
            None => answer,
        })?);
    }
    while exchange.read.len() < BEGINNING_BYTES && exchange.read().await? {}
    exchange.check()?;
    let mut ends_with_line = true;
    loop {
        if let Some(last) = exchange.read.last() {
            ends_with_line = *last == b'\n';
        }
        output.part(&exchange.read)?;
        // The rest may take long.
        output.flush()?;
        exchange.read.clear();
        if !exchange.read().await? {
            break;
        }
    }
    if !ends_with_line {
        output.part(b"\n")?;
    }
    Ok(())
}

/// A word that was sent, and the part of its answer that was read and not printed.
struct Exchange<'a> {
    server: &'a str,
    word: Word,
    limit: Duration,
    answer: WordAnswer,
    read: Vec<u8>,
}

impl<'a> Exchange<'a> {
    async fn begin(
        server: &'a str,
        word: Word,
        request: FourLetterWord,
        limit: Duration,
    ) -> Result<Self, WordFailure> {
        let answer = request.timeout(limit).open(server).await;
        let answer = answer.map_err(|error| failed(server, word, limit, error))?;
        Ok(Self { server, word, limit, answer, read: Vec::new() })
    }

    /// Reads a part of the answer; `false` at its end.
    async fn read(&mut self) -> Result<bool, WordFailure> {
        let part = self.answer.next_part().await;
        match part.map_err(|error| failed(self.server, self.word, self.limit, error))? {
            Some(part) => {
                self.read.extend_from_slice(&part);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Checks the beginning of the answer.
    fn check(&self) -> Result<(), WordFailure> {
        let (server, word) = (self.server.to_owned(), self.word.name());
        let beginning = &self.read[..self.read.len().min(BEGINNING_BYTES)];
        let beginning = String::from_utf8_lossy(beginning);
        let beginning = beginning.trim_end();
        match self.word {
            // `hash` and the lists of watches may be empty.
            Word::Hash | Word::Wchc | Word::Wchp | Word::Cons if beginning.is_empty() => Ok(()),
            _ if beginning.is_empty() => Err(WordFailure::NoAnswer { word, server }),
            _ if beginning.ends_with("is not executed because it is not in the whitelist.") => {
                Err(WordFailure::NotWhitelisted { word, server })
            }
            _ if beginning.starts_with("This ZooKeeper instance is not currently serving") => {
                Err(WordFailure::NotServing { server, answer: beginning.to_owned() })
            }
            Word::Ruok if beginning != "imok" => {
                Err(WordFailure::NotOk { server, answer: beginning.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

fn failed(server: &str, word: Word, limit: Duration, error: ConnectError) -> WordFailure {
    match error {
        ConnectError::TimedOut(_) => {
            WordFailure::TimedOut { word: word.name(), server: server.to_owned(), limit }
        }
        error => WordFailure::Unreachable(error),
    }
}
