//! The four-letter words: commands of an administrator that a server answers without a session.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connecting::ConnectError;
use super::hosts;
use super::limits::{WORD_ANSWER_BYTES_MAX, WORD_TIMEOUT};
use super::security::{self, Security};

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
    bytes_max: usize,
    timeout: Duration,
    pub(crate) security: Option<Arc<dyn Security>>,
}

impl FourLetterWord {
    /// The word, which is sent as it is.
    pub fn new(word: impl Into<String>) -> Self {
        Self {
            word: word.into(),
            bytes_max: WORD_ANSWER_BYTES_MAX,
            timeout: WORD_TIMEOUT,
            security: None,
        }
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
        let Self { word, timeout, .. } = self;
        let asked = tokio::time::timeout(*timeout, self.exchange(&address)).await;
        asked.unwrap_or_else(|_| {
            let text = format!("{address}: no whole answer to {word:?} within {timeout:?}");
            Err(ConnectError::TimedOut(text))
        })
    }

    async fn exchange(&self, address: &str) -> Result<String, ConnectError> {
        let told = |error| ConnectError::at(address, error);
        let mut stream = security::open(address, self.security.as_deref()).await?;
        stream.write_all(self.word.as_bytes()).await.map_err(told)?;
        stream.flush().await.map_err(told)?;
        let mut answer = Vec::new();
        // One byte more than allowed tells a longer answer.
        let limit = u64::try_from(self.bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut stream).take(limit).read_to_end(&mut answer).await;
        if security::is_tls_alert(&answer) {
            return Err(ConnectError::Tls(format!("{address}: {}", security::SPEAKS_TLS)));
        }
        // Some servers reset the connection after the answer.
        if let Err(error) = read
            && answer.is_empty()
        {
            return Err(told(error));
        }
        if answer.len() > self.bytes_max {
            let Self { word, bytes_max, .. } = self;
            let text =
                format!("{address}: the answer to {word:?} is longer than {bytes_max} bytes");
            return Err(ConnectError::Other(text));
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
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
    async fn a_port_that_speaks_tls_is_told_so() {
        let address = server(b"\x15\x03\x03\x00\x02\x02\x32").await;
        let error = FourLetterWord::new("ruok").ask(&address).await.expect_err("an alert");
        assert!(matches!(error, ConnectError::Tls(_)), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens").to_string();
        let error = FourLetterWord::new("ruok").ask(&address).await.expect_err("no answer");
        assert!(matches!(error, ConnectError::TimedOut(_)), "{error}");
    }
}
