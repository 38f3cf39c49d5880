//! The four-letter words: commands of an administrator that a server answers without a session.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connecting::ConnectError;
use super::hosts;
use super::limits::{SILENCE, WORD_ANSWER_BYTES_MAX, WORD_TIMEOUT};
use super::security::{self, Security, Stream, probe};

/// A four-letter word to send to a server, such as `ruok`, `srvr` or `mntr`.
///
/// Apache ZooKeeper answers those that its `4lw.commands.whitelist` names, and only `srvr` unless
/// that is set. Of the others it says that they are not in the whitelist.
///
/// ```no_run
/// use std::time::Duration;
///
/// use zoolet_client::FourLetterWord;
///
/// # async fn example() -> Result<(), zoolet_client::ConnectError> {
/// let ruok = FourLetterWord::new("ruok").timeout(Duration::from_secs(2));
/// assert_eq!(ruok.ask("localhost:2181").await?, "imok");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a word does nothing until it is sent to a server"]
pub struct FourLetterWord {
    word: String,
    argument: Bytes,
    bytes_max: usize,
    timeout: Duration,
    silence: Duration,
    pub(crate) security: Option<Arc<dyn Security>>,
}

impl FourLetterWord {
    /// The word, which is sent as it is.
    pub fn new(word: impl Into<String>) -> Self {
        Self {
            word: word.into(),
            argument: Bytes::new(),
            bytes_max: WORD_ANSWER_BYTES_MAX,
            timeout: WORD_TIMEOUT,
            silence: SILENCE,
            security: None,
        }
    }

    /// The bytes to send after the word: `stmk` is followed by the eight bytes of a mask.
    pub fn argument(mut self, bytes: impl Into<Bytes>) -> Self {
        self.argument = bytes.into();
        self
    }

    /// The longest answer that is accepted, in bytes; 64 MiB by default. The words that list watches
    /// have long answers.
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// How long connecting, asking and reading the answer may take in all; ten seconds by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long the server may be silent until a second connection asks it whether the port speaks
    /// TLS; one second by default. Nothing asks if the word is sent by TLS, or if
    /// the timeout is shorter.
    ///
    /// A server without TLS counts and logs such a connection as a client that speaks TLS, so a
    /// program that waits for a server that starts slowly has a long time here.
    pub fn probe_tls_after(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Sends the word to a server, and returns its answer, which is empty if the server closes the
    /// connection without one. Bytes that are not UTF-8 are replaced.
    ///
    /// The address is `HOST` or `HOST:PORT`, as in a connection string.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the server cannot be reached, does not answer in time, or sends too much.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes the connection.
    pub async fn ask(&self, address: &str) -> Result<String, ConnectError> {
        let address =
            hosts::address(address).map_err(|error| ConnectError::Other(error.to_string()))?;
        let asked = tokio::time::timeout(self.timeout, self.exchange(&address)).await;
        asked.unwrap_or_else(|_| Err(self.unanswered(&address)))
    }

    /// Sends the word to a server, and returns its answer to be read in parts as it comes. The
    /// timeout holds for connecting and asking, and again for each part. The answer may be of any
    /// length.
    ///
    /// ```no_run
    /// use zoolet_client::FourLetterWord;
    ///
    /// # async fn example() -> Result<(), zoolet_client::ConnectError> {
    /// let mut answer = FourLetterWord::new("wchp").open("localhost:2181").await?;
    /// while let Some(part) = answer.next_part().await? {
    ///     print!("{}", String::from_utf8_lossy(&part));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the server cannot be reached in time.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes the connection.
    pub async fn open(&self, address: &str) -> Result<WordAnswer, ConnectError> {
        let address =
            hosts::address(address).map_err(|error| ConnectError::Other(error.to_string()))?;
        let sent = tokio::time::timeout(self.timeout, self.send(&address)).await;
        let stream = sent.unwrap_or_else(|_| Err(self.unanswered(&address)))?;
        Ok(WordAnswer { word: self.clone(), address, stream, is_begun: false })
    }

    async fn send(&self, address: &str) -> Result<Box<dyn Stream>, ConnectError> {
        let told = |error| ConnectError::at(address, error);
        let mut stream = security::open(address, self.security.as_deref()).await?;
        let request = [self.word.as_bytes(), &self.argument].concat();
        stream.write_all(&request).await.map_err(told)?;
        stream.flush().await.map_err(told)?;
        Ok(stream)
    }

    async fn exchange(&self, address: &str) -> Result<String, ConnectError> {
        let stream = self.send(address).await?;
        let word = Self { timeout: Duration::MAX, ..self.clone() };
        let mut parts = WordAnswer { word, address: address.to_owned(), stream, is_begun: false };
        let mut answer = Vec::new();
        while let Some(part) = parts.next_part().await? {
            answer.extend_from_slice(&part);
            if answer.len() > self.bytes_max {
                let Self { word, bytes_max, .. } = self;
                let text =
                    format!("{address}: the answer to {word:?} is longer than {bytes_max} bytes");
                return Err(ConnectError::Other(text));
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn unanswered(&self, address: &str) -> ConnectError {
        let Self { word, timeout, .. } = self;
        ConnectError::TimedOut(format!("{address}: no whole answer to {word:?} within {timeout:?}"))
    }
}

/// The answer to a four-letter word, read as it comes: [`FourLetterWord::open`].
///
/// ```no_run
/// # async fn example() -> Result<(), zoolet_client::ConnectError> {
/// use zoolet_client::{FourLetterWord, WordAnswer};
///
/// let mut answer: WordAnswer = FourLetterWord::new("dump").open("localhost:2181").await?;
/// println!("{:?}", answer.next_part().await?);
/// # Ok(())
/// # }
/// ```
pub struct WordAnswer {
    word: FourLetterWord,
    address: String,
    stream: Box<dyn Stream>,
    is_begun: bool,
}

/// How many bytes a part of an answer has at most.
const PART_BYTES: usize = 16 << 10;

impl WordAnswer {
    /// The next part, which need not end with a line or a character; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the connection fails, or nothing comes in time.
    ///
    /// # Cancellation
    ///
    /// Safe: no part is lost.
    pub async fn next_part(&mut self) -> Result<Option<Bytes>, ConnectError> {
        let Self { word, address, stream, is_begun } = self;
        let mut part = BytesMut::with_capacity(PART_BYTES);
        let is_doubtful = !*is_begun && word.security.is_none();
        let read = tokio::select! {
            biased;
            read = tokio::time::timeout(word.timeout, stream.read_buf(&mut part)) => read,
            // A word is shorter than the head of a record of TLS, for whose rest such a port waits.
            () = probe::find_tls(address, word.silence), if is_doubtful => {
                return Err(ConnectError::at(address, security::speaks_tls()));
            }
        };
        match read {
            Err(_) => Err(word.unanswered(address)),
            Ok(Ok(0) | Err(_)) if is_doubtful && probe::speaks_tls(&**address).await => {
                Err(ConnectError::at(address, security::speaks_tls()))
            }
            Ok(Ok(0)) => Ok(None),
            // Some servers reset the connection after the answer.
            Ok(Err(_)) if *is_begun => Ok(None),
            Ok(Err(error)) => Err(ConnectError::at(address, error)),
            Ok(Ok(_)) if !*is_begun && security::is_tls_alert(&part) => {
                Err(ConnectError::at(address, security::speaks_tls()))
            }
            Ok(Ok(_)) => {
                *is_begun = true;
                Ok(Some(part.freeze()))
            }
        }
    }
}

impl fmt::Debug for WordAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordAnswer")
            .field("word", &self.word)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for FourLetterWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FourLetterWord")
            .field("word", &self.word)
            .field("bytes_max", &self.bytes_max)
            .field("timeout", &self.timeout)
            .field("has_tls", &self.security.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// The address of a server that reads a word and answers with these bytes.
    async fn server(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut word = [0; 4];
                let _ = stream.read_exact(&mut word).await;
                let _ = stream.write_all(answer).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn an_answer_ends_with_the_connection() {
        let address = server(b"imok").await;
        assert_eq!(FourLetterWord::new("ruok").ask(&address).await, Ok("imok".to_owned()));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_an_error_that_tells_the_limit() {
        let address = server(b"imok").await;
        let word = FourLetterWord::new("ruok");
        assert_eq!(word.clone().bytes_max(4).ask(&address).await, Ok("imok".to_owned()));
        let error = word.bytes_max(3).ask(&address).await.expect_err("it has 4 bytes");
        assert!(error.to_string().ends_with("is longer than 3 bytes"), "{error}");
    }

    #[tokio::test]
    async fn an_answer_comes_in_parts_and_an_argument_follows_the_word() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens").to_string();
        let (go, mut gone) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client connects");
            let mut request = [0; 6];
            stream.read_exact(&mut request).await.expect("it sends the request");
            stream.write_all(&request).await.expect("the client reads");
            gone.recv().await;
            stream.write_all(b"end").await.expect("the client reads");
        });
        let word = FourLetterWord::new("stmk").argument(&b"\xff\0"[..]);
        let mut answer = word.open(&address).await.expect("it listens");
        let first = answer.next_part().await.expect("an answer comes");
        assert_eq!(first.as_deref(), Some(&b"stmk\xff\0"[..]), "before the rest is sent");
        go.send(()).await.expect("the server waits");
        assert_eq!(answer.next_part().await.expect("more").as_deref(), Some(&b"end"[..]));
        assert_eq!(answer.next_part().await, Ok(None));
    }

    #[tokio::test]
    async fn a_port_that_speaks_tls_is_told_so() {
        let address = server(b"\x15\x03\x03\x00\x02\x02\x32").await;
        let error = FourLetterWord::new("ruok").ask(&address).await.expect_err("an alert");
        assert!(matches!(error, ConnectError::Tls(_)), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_asked_for_tls_only_after_the_silence() {
        for (silence, connections) in [(Duration::ZERO, 2), (Duration::MAX, 1)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            let address = listener.local_addr().expect("it listens").to_string();
            let word = FourLetterWord::new("ruok").probe_tls_after(silence);
            let error = word.ask(&address).await.expect_err("no answer");
            assert!(matches!(error, ConnectError::TimedOut(_)), "{error}");
            let mut accepted = 0;
            let within = Duration::from_secs(1);
            while tokio::time::timeout(within, listener.accept()).await.is_ok() {
                accepted += 1;
            }
            assert_eq!(accepted, connections, "{silence:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens").to_string();
        let error = FourLetterWord::new("ruok").ask(&address).await.expect_err("no answer");
        assert!(matches!(error, ConnectError::TimedOut(_)), "{error}");
    }
}
