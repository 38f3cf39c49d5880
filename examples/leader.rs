//! Three candidates work through a list of jobs, and only the leader works. The first term is
//! interrupted, and later leaders return after some jobs; each one continues where the last one
//! stopped.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::sync::mpsc;
use zoolet::client::Client;
use zoolet::protocol::{CreateMode, Expect, MultiOp, SetData};
use zoolet::recipes::{LeaderSelector, Requeue, Term};

const LEADER: &str = "/leader-example";
/// The parent of one znode for each finished job, with the number of the candidate that did it.
const DONE: &str = "/leader-example-done";
const CANDIDATES: usize = 3;
const JOBS: usize = 30;
/// A leader returns after this many jobs, and the next candidate leads.
const JOBS_PER_TERM: usize = 8;
const JOB_TIME: Duration = Duration::from_millis(10);

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// A candidate of the election.
#[derive(Clone)]
struct Candidate {
    client: Client,
    number: usize,
    /// Shared by all candidates: whether one of them works.
    is_one_working: Arc<AtomicBool>,
    finished: mpsc::Sender<()>,
}

/// How many jobs were recorded as done, and how many candidates did some.
async fn run(arguments: Arguments) -> Result<(i32, usize)> {
    let stage = Stage::start(arguments).await?;
    let client = stage.connect().await?;
    client.create(DONE).mode(CreateMode::Ephemeral).await?;
    let is_one_working = Arc::new(AtomicBool::new(false));
    let (finished, mut all_finished) = mpsc::channel(1);
    let mut selectors = Vec::new();
    for number in 1..=CANDIDATES {
        let (is_one_working, finished) = (Arc::clone(&is_one_working), finished.clone());
        let client = stage.connect().await?;
        selectors.push(Candidate { client, number, is_one_working, finished }.stand()?);
    }
    // In the middle of a job, which is then not done.
    tokio::time::sleep(JOB_TIME * 7 / 2).await;
    for selector in &selectors {
        // Only the leader notices this.
        selector.interrupt_leadership();
    }
    all_finished.recv().await.ok_or("all candidates are gone")?;
    for selector in selectors {
        selector.close().await?;
    }
    let (done, stat) = client.get(DONE).await?;
    let mut workers: Vec<_> = std::str::from_utf8(&done)?.split_whitespace().collect();
    println!("done by: {workers:?}");
    workers.sort_unstable();
    workers.dedup();
    Ok((stat.version, workers.len()))
}

impl Candidate {
    /// Enters the line, works when it leads, and enters the line again.
    fn stand(self) -> Result<LeaderSelector> {
        let (client, id) = (self.client.clone(), format!("candidate {}", self.number));
        let lead = move |term: Term| {
            let candidate = self.clone();
            async move {
                if let Err(error) = candidate.work(&term).await {
                    println!("candidate {} stops: {error}", candidate.number);
                }
            }
        };
        Ok(LeaderSelector::start(&client, LEADER, &id, Requeue::Always, lead)?)
    }

    async fn work(&self, term: &Term) -> Result<()> {
        println!("candidate {} leads with token {}", self.number, term.fencing_token());
        let _alone = Alone::new(&self.is_one_working);
        for _ in 0..JOBS_PER_TERM {
            let (done, _) = self.client.get(DONE).await?;
            let done = std::str::from_utf8(&done)?;
            if done.split_whitespace().count() == JOBS {
                self.finished.send(()).await?;
                // No job is left, so it may stay the leader.
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(JOB_TIME).await;
            let write = MultiOp::SetData(SetData {
                path: DONE.into(),
                data: Some(format!("{done} {}", self.number).into()),
                version: Expect::Any,
            });
            // The server refuses this if another candidate leads now.
            term.transaction(vec![write]).await?;
        }
        Ok(())
    }
}

/// Marks that a candidate works, and asserts that no other does.
struct Alone<'a>(&'a AtomicBool);

impl<'a> Alone<'a> {
    fn new(is_one_working: &'a AtomicBool) -> Self {
        assert!(!is_one_working.swap(true, Ordering::SeqCst), "two lead at a time");
        Self(is_one_working)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_leaders_do_each_job_once() {
        let (written, workers) = run(Arguments::default()).await.unwrap();
        assert_eq!(usize::try_from(written), Ok(JOBS));
        assert!(workers > 1, "{workers}");
    }
}
