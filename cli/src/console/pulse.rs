//! Notices within seconds that the servers do not answer.
//!
//! A connection on which nothing comes is lost only after a part of the session's timeout, and what was seen
//! before would be shown as live until then.

use std::convert::Infallible;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use zoolet_client::recipe::now;

use super::Shared;
use super::collector::publish_again;
use super::limits::{PULSE, QUICK_PAUSE, SILENT_AFTER};
use super::look::Looks;
use super::source::Failure;

/// When the servers have answered last.
#[derive(Debug)]
pub(super) struct Pulse(Mutex<Answers>);

#[derive(Debug)]
struct Answers {
    /// The last answer, or when somebody began to look.
    last: Instant,
    /// The last answer, by the clock of this machine, in milliseconds since 1970.
    answered_ms: Option<i64>,
    is_told: bool,
}

impl Answers {
    fn begin() -> Self {
        Self { last: now(), answered_ms: None, is_told: false }
    }
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(Answers::begin()))
    }
}

impl Pulse {
    /// The servers have answered something.
    pub(super) fn answered(&self) {
        let mut answers = self.0.lock();
        answers.last = now();
        answers.answered_ms = Some(jiff::Timestamp::now().as_millisecond());
    }

    /// If the servers do not answer: since when, as far as that is known.
    pub(super) fn silence(&self) -> Option<Option<i64>> {
        let answers = self.0.lock();
        answers.is_told.then_some(answers.answered_ms)
    }

    /// Somebody begins to look.
    fn begin(&self) {
        *self.0.lock() = Answers::begin();
    }

    /// Somebody looks again, who sees what was seen last. Nothing was asked meanwhile, so that a silence counts from
    /// now; but one that was told lasts until there is an answer.
    fn resume(&self) {
        let mut answers = self.0.lock();
        if !answers.is_told {
            answers.last = now();
        }
    }

    fn last(&self) -> Instant {
        self.0.lock().last
    }

    /// Whether what is to be told is another than before.
    fn turn(&self) -> bool {
        let mut answers = self.0.lock();
        let is_silent = now() >= answers.last + SILENT_AFTER;
        std::mem::replace(&mut answers.is_told, is_silent) != is_silent
    }
}

/// Asks for a sign of life when nothing else is answered, and tells when none comes.
pub(super) async fn run(shared: &Shared, looks: &Mutex<Looks>) -> Infallible {
    shared.pulse.begin();
    tokio::select! {
        never = ask(shared) => never,
        never = tell(shared, looks) => never,
    }
}

async fn ask(shared: &Shared) -> Infallible {
    loop {
        shared.hub.viewer_looks().await;
        sleep_until(shared.pulse.last() + PULSE).await;
        if now() < shared.pulse.last() + PULSE {
            continue;
        }
        match beat(shared).await {
            Ok(()) => shared.pulse.answered(),
            // The slow look tells why.
            Err(_) => sleep(PULSE).await,
        }
    }
}

/// One small request, which needs no permission.
async fn beat(shared: &Shared) -> Result<(), Failure> {
    let client = shared.link.client().await?;
    client.exists("/").await?;
    Ok(())
}

async fn tell(shared: &Shared, looks: &Mutex<Looks>) -> Infallible {
    loop {
        if !shared.hub.has_viewers() {
            shared.hub.viewer_looks().await;
            shared.pulse.resume();
        }
        if shared.pulse.turn() {
            publish_again(shared, &looks.lock());
        }
        match shared.pulse.silence() {
            Some(_) => sleep(QUICK_PAUSE).await,
            None => sleep_until(shared.pulse.last() + SILENT_AFTER).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silence_is_told_once_and_so_is_its_end() {
        let pulse = Pulse::default();
        pulse.answered();
        assert!(!pulse.turn() && pulse.silence().is_none());
        tokio::time::advance(SILENT_AFTER - Duration::from_millis(1)).await;
        assert!(!pulse.turn());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(pulse.turn() && !pulse.turn());
        assert!(pulse.silence().unwrap().is_some(), "since the last answer");
        pulse.answered();
        assert!(pulse.turn() && !pulse.turn());
        assert_eq!(pulse.silence(), None);
        pulse.begin();
        tokio::time::advance(SILENT_AFTER).await;
        assert!(pulse.turn());
        assert_eq!(pulse.silence(), Some(None), "nothing was answered since somebody looks");
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_back_in_a_silence_is_told_since_when_it_lasts() {
        let pulse = Pulse::default();
        pulse.answered();
        tokio::time::advance(SILENT_AFTER - Duration::from_secs(1)).await;
        pulse.resume();
        tokio::time::advance(SILENT_AFTER - Duration::from_secs(1)).await;
        assert!(!pulse.turn(), "nothing was asked before");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(pulse.turn());
        let told = pulse.silence();
        assert!(told.flatten().is_some());
        pulse.resume();
        assert!(!pulse.turn() && pulse.silence() == told);
    }
}
