//! A client in the line of those that wait for a queue.

use super::error::QueueError;
use super::limits::RECHECK_AFTER;
use crate::client::recipe::SessionClient;
use crate::error::LockError;
use crate::line::place::Place;
use crate::line::{Line, PositionAt};

/// A client in a line. It leaves the line when this is dropped.
pub(crate) struct InLine {
    line: Line,
    place: Place,
    /// The position, if it is known.
    at: Option<PositionAt>,
}

/// How a wait in a line has ended.
pub(crate) enum Waited {
    /// The client is in front.
    InFront,
    /// The time has passed. Whoever is in front may not be polled.
    RecheckIsDue,
    /// The place is lost, with its session as a rule.
    PlaceLost,
}

impl InLine {
    /// Enters a line at its end.
    pub(crate) async fn enter(line: &Line) -> Result<Self, QueueError> {
        let (place, at) = line.enter().await?;
        Ok(Self { line: line.clone(), place, at: Some(at) })
    }

    /// The session to which the place belongs.
    pub(crate) fn session(&self) -> &SessionClient {
        self.place.session()
    }

    /// Waits until this client is in front, or until it is time to check the queue all the same.
    pub(crate) async fn wait(&mut self) -> Result<Waited, QueueError> {
        match tokio::time::timeout(RECHECK_AFTER, self.until_front()).await {
            Ok(Ok(())) => Ok(Waited::InFront),
            Ok(Err(LockError::PlaceLost(_))) => Ok(Waited::PlaceLost),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Ok(Waited::RecheckIsDue),
        }
    }

    async fn until_front(&mut self) -> Result<(), LockError> {
        let at = match self.at.take() {
            Some(at) => at,
            None => self.line.position_of(&self.place).await?,
        };
        self.line.wait(&mut self.place, at).await
    }

    /// Whether the place still exists: someone may have deleted it, so that another client is in front
    /// too.
    pub(crate) async fn exists(&self) -> Result<bool, QueueError> {
        match self.place.exists().await {
            Ok(exists) => Ok(exists),
            Err(LockError::PlaceLost(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
