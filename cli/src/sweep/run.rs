//! One run of the command, on a server of its own.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use super::failure::Failure;
use super::job::{Ending, Job, Show};
use super::kind::{PointFault, Times};
use super::stage::Stage;
use super::tracker::{Requests, Tracker};
use super::variables::{ADDRESS_VARIABLES, FAULT_VARIABLE};
use crate::bench::clock;

/// What is run.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) command: Vec<OsString>,
    pub(super) times: Times,
}

/// A run.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) ending: Ending,
    pub(super) took: Duration,
    /// The end of what the command printed.
    pub(super) output: String,
    pub(super) requests: Requests,
}

impl Runner {
    /// Runs the command once. Dropping the future kills it.
    pub(super) async fn run(
        &self,
        fault: Option<&PointFault>,
        limit: Duration,
        show: Show,
    ) -> Result<Run, Failure> {
        let target = fault.map(|fault| (fault.point.clone(), fault.kind.fate(self.times)));
        let tracker = Tracker::new(target);
        let stage = Stage::start(fault, &tracker).await?;
        let started = clock::now();
        let ended = tokio::select! {
            ended = self.job(stage.address(), fault, limit, show) => ended,
            never = stage.end_fault(self.times) => never,
        };
        let took = started.elapsed();
        let requests = tracker.requests();
        stage.stop().await;
        let (ending, output) = ended?;
        Ok(Run { ending, took, output, requests })
    }

    async fn job(
        &self,
        address: &str,
        fault: Option<&PointFault>,
        limit: Duration,
        show: Show,
    ) -> Result<(Ending, String), Failure> {
        let address = OsStr::new(address);
        let mut variables: Vec<_> = ADDRESS_VARIABLES.map(|name| (name, address)).into();
        let id = fault.map(PointFault::id);
        if let Some(id) = &id {
            variables.push((FAULT_VARIABLE, OsStr::new(id)));
        }
        Job::start(&self.command, &variables, show)?.end(limit).await
    }
}
