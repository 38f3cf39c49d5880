//! Which servers do not answer, and when each of them is asked again.
//!
//! A look that is repeated waits for a server that does not answer only the first time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use zoolet_client::recipe::now;

use super::server::{self, Told, Ways};
use crate::doctor::limits::{SERVER_WITHIN, SILENT_PAUSES};

/// What is known from one look to the next of how servers answer. Clones are handles of the same one.
#[derive(Debug, Default, Clone)]
pub(crate) struct Patience(Arc<Mutex<BTreeMap<String, Known>>>);

#[derive(Debug)]
struct Known {
    /// How long it may take to answer everything.
    limit: Duration,
    /// How often it has not answered since a look had its answers.
    failures: u32,
    silence: Option<Silence>,
}

#[derive(Debug)]
struct Silence {
    /// When it is asked again.
    next: Instant,
    /// Asks it, and keeps nobody waiting. It ends when this is dropped.
    probe: JoinSet<()>,
}

/// What is told of a server that is asked again now and then only.
const CAUSE: &str = "it does not answer, and is asked again now and then";

impl Default for Known {
    fn default() -> Self {
        Self { limit: SERVER_WITHIN, failures: 0, silence: None }
    }
}

impl Known {
    fn failed(&mut self) {
        let (first, longest) = SILENT_PAUSES;
        let pause = first.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        self.silence = Some(Silence { next: now() + pause, probe: JoinSet::new() });
    }

    /// It has answered everything in this time: it may take twice as long the next time.
    fn answered(&mut self, took: Duration, longest: Duration) {
        self.limit = (took * 2).clamp(SERVER_WITHIN, longest.max(SERVER_WITHIN));
        self.silence = None;
    }
}

impl Patience {
    /// Whether a server has answered when it was asked last, or was not asked yet.
    pub(crate) fn expects(&self, server: &str) -> bool {
        self.0.lock().get(server).is_none_or(|known| known.silence.is_none())
    }

    /// Forgets everything, and asks no server any more.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    /// What a server tells, after its limit at most; at once if it does not answer.
    pub(super) async fn ask(&self, server: &str, ways: &Ways) -> Told {
        let limit = {
            let mut servers = self.0.lock();
            let known = servers.entry(server.to_owned()).or_default();
            if let Some(silence) = &mut known.silence {
                if silence.probe.is_empty() && now() >= silence.next {
                    silence.probe.spawn(self.clone().probe(server.to_owned(), ways.clone()));
                }
                return Told::silent(server, CAUSE.to_owned());
            }
            known.limit.min(ways.limit)
        };
        let began = now();
        let asked = timeout(limit, server::ask(server, ways)).await;
        let took = now() - began;
        let mut servers = self.0.lock();
        let known = servers.entry(server.to_owned()).or_default();
        match asked {
            // A refused connection comes at once: it is no hardship to ask again with the next look.
            Ok(told) if told.silent.is_none() || took < limit => {
                known.failures = 0;
                known.answered(took, ways.limit);
                told
            }
            _ => {
                known.failed();
                Told::silent(server, format!("it has not answered within {limit:?}"))
            }
        }
    }

    /// Asks a server again, with all the time that an answer may take.
    async fn probe(self, server: String, ways: Ways) {
        let began = now();
        let asked = timeout(ways.limit, server::ask(&server, &ways)).await;
        let took = now() - began;
        if let Some(known) = self.0.lock().get_mut(&server) {
            match asked {
                Ok(told) if told.silent.is_none() || took < ways.limit => {
                    known.answered(took, ways.limit);
                }
                _ => known.failed(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::sleep;

    use super::*;

    const WAYS: Ways = Ways { tls: None, admin: None, limit: Duration::from_secs(10) };

    /// Asks once a second, and returns when it was asked at all: since when, in seconds.
    async fn probes(patience: &Patience, server: &str, seconds: u64) -> Vec<u64> {
        let began = now();
        let mut begun = Vec::new();
        let mut was_probing = false;
        for _ in 0..seconds {
            patience.ask(server, &WAYS).await;
            let is_probing = patience.0.lock().get(server).is_some_and(|known| {
                known.silence.as_ref().is_some_and(|silence| !silence.probe.is_empty())
            });
            if is_probing && !was_probing {
                begun.push((now() - began).as_secs());
            }
            was_probing = is_probing;
            sleep(Duration::from_secs(1)).await;
        }
        begun
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_keeps_one_look_waiting_and_is_asked_ever_more_rarely() {
        // The system accepts for it.
        let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = hung.local_addr().unwrap().to_string();
        let patience = Patience::default();
        let began = now();
        let told = patience.ask(&server, &WAYS).await;
        assert!(told.silent.is_some() && now() - began < SERVER_WITHIN + Duration::from_millis(10));
        assert!(!patience.expects(&server));
        let later = now();
        let told = patience.ask(&server, &WAYS).await;
        assert!(told.silent.is_some() && now() - later < Duration::from_millis(10));
        assert_eq!(told.gaps[0].words, ["srvr", "cons", "dump", "wchs"]);
        // Each takes ten seconds, and the pause after it is twice as long as the one before.
        assert_eq!(probes(&patience, &server, 150).await, [2, 16, 34, 60, 100, 140]);
        patience.forget();
        assert!(patience.expects(&server));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_again_is_asked_with_each_look_again() {
        let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = hung.local_addr().unwrap().to_string();
        let patience = Patience::default();
        patience.ask(&server, &WAYS).await;
        let answers = tokio::spawn(async move {
            while let Ok((mut stream, _)) = hung.accept().await {
                let mut word = [0; 4];
                // Who has given up meanwhile hears nothing.
                if stream.read_exact(&mut word).await.is_ok() {
                    let _ = stream.write_all(b"Mode: standalone\nTotal watches:0\n").await;
                }
            }
        });
        while !patience.expects(&server) {
            patience.ask(&server, &WAYS).await;
            sleep(Duration::from_secs(1)).await;
        }
        let told = patience.ask(&server, &WAYS).await;
        assert_eq!((told.silent, told.is_alone, told.gaps.len()), (None, true, 0));
        answers.abort();
    }
}
