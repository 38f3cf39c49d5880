//! Several lines at once: enters all of them with one multi, and waits in all of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use zoolet_protocol::{ErrorCode, MultiOp, MultiResult, Zxid};

use super::entering::{created_path, stat_of_created, unexpected_results};
use super::order::Position;
use super::place::Place;
use super::{Line, PositionAt};
use crate::attempts::Attempts;
use crate::client::recipe::{SessionClient, WaiterId};
use crate::client::{self, Client, Created};
use crate::error::LockError;

/// Creates a place at the end of each line, all with one multi.
pub(crate) async fn enter_all(client: &Client, lines: &[Line]) -> Result<Vec<Place>, LockError> {
    let mut attempts = Attempts::new(client);
    loop {
        match try_enter(client, lines, Vec::new()).await {
            Err(LockError::Client(error)) if error.is(ErrorCode::NO_NODE) => {}
            Ok(places) => return Ok(places),
            Err(error) => {
                attempts.wait_after_write(error).await?;
                continue;
            }
        }
        // A directory is missing. The multi that creates the places creates it too.
        let entered = match missing_directories(client, lines).await {
            Ok(ops) => try_enter(client, lines, ops).await,
            Err(error) => Err(error),
        };
        match entered {
            Ok(places) => return Ok(places),
            Err(error) => attempts.wait_after_write(error).await?,
        }
    }
}

/// Creates the places with a multi that begins with these operations.
async fn try_enter(
    client: &Client,
    lines: &[Line],
    mut ops: Vec<MultiOp>,
) -> Result<Vec<Place>, LockError> {
    let session = client.connected_session().await?;
    session.expect_claims();
    let paths: Vec<_> = lines.iter().map(Line::new_path).collect();
    ops.extend(lines.iter().zip(&paths).map(|(line, path)| line.create_op(path)));
    let pending = PendingPlaces { session: session.clone(), paths };
    places(&session, pending.send(ops).await?)
}

/// The position of each place in its line. The requests are sent together.
pub(crate) async fn positions_of(
    places: &[Place],
    lines: &[Line],
) -> Result<Vec<PositionAt>, LockError> {
    let list =
        |(place, line): (&Place, &Line)| place.session().children_with_zxid(&line.directory).send();
    let lists: Vec<_> = places.iter().zip(lines).map(list).collect();
    let mut positions = Vec::with_capacity(lists.len());
    for ((place, line), list) in places.iter().zip(lines).zip(lists) {
        let (names, zxid) = match list.await {
            Ok(list) => list,
            Err(error) if error.is_retryable() => line.list(place.session()).await?,
            Err(error) => return Err(error.into()),
        };
        positions.push(PositionAt { position: line.position_in(&names, place), zxid });
    }
    Ok(positions)
}

/// Waits until each place is in front of its line, with none of them lost.
///
/// A place that gets to the front early stays there until the others have got there too, which may
/// take hours. The client watches its znode in this time: when it is deleted, another client holds
/// that lock.
pub(crate) async fn wait_in_all(
    places: &mut [Place],
    lines: &[Line],
    positions: Vec<PositionAt>,
) -> Result<(), LockError> {
    if positions.iter().all(|at| at.position == Position::Front) {
        for (place, line) in places.iter_mut().zip(lines) {
            line.came_to_front(place);
        }
        return Ok(());
    }
    let waiting = AtomicUsize::new(places.len());
    let each = places.iter_mut().zip(lines).zip(positions);
    let mut waits: Vec<_> = each
        .map(|((place, line), at)| Box::pin(wait_and_stay(place, line, at, &waiting)))
        .collect();
    std::future::poll_fn(|context| {
        loop {
            let before = waiting.load(Ordering::Relaxed);
            for wait in &mut waits {
                if let Poll::Ready(error) = wait.as_mut().poll(context) {
                    return Poll::Ready(Err(error));
                }
            }
            // When the last place is in front, all are polled once more: a place that was lost
            // earlier has received its event earlier.
            match waiting.load(Ordering::Relaxed) {
                0 if before == 0 => return Poll::Ready(Ok(())),
                left if left == before => return Poll::Pending,
                _ => {}
            }
        }
    })
    .await
}

/// Waits until a place is in front, counts it as no longer waiting, and returns when it is lost.
async fn wait_and_stay(
    place: &mut Place,
    line: &Line,
    at: PositionAt,
    waiting: &AtomicUsize,
) -> LockError {
    let in_front = match line.wait(place, at).await {
        // A place counts as in front only when its watch is registered.
        Ok(()) => place.ensure_own_watch().await,
        Err(error) => Err(error),
    };
    if let Err(error) = in_front {
        return error;
    }
    waiting.fetch_sub(1, Ordering::Relaxed);
    std::future::poll_fn(|context| place.poll_lost(WaiterId::ONLY, context)).await
}

/// Places in several lines whose creates were sent with one multi and not answered. Dropped, they
/// are deleted in the background.
struct PendingPlaces {
    session: SessionClient,
    /// The paths without their numbers, one for each line.
    paths: Vec<String>,
}

impl PendingPlaces {
    /// Sends the multi, and returns the znodes with the length of their paths without the number.
    async fn send(mut self, ops: Vec<MultiOp>) -> Result<Vec<(Created, usize)>, LockError> {
        let result = self.session.multi_with_zxid(ops).send().await;
        let created = match result {
            Ok((results, zxid)) => self.created(&results, zxid)?,
            Err(lost @ client::Error::ConnectionLoss { .. }) => self.find(lost).await?,
            Err(error) => {
                self.paths.clear();
                return Err(error.into());
            }
        };
        self.paths.clear();
        Ok(created)
    }

    fn created(
        &self,
        results: &[MultiResult],
        zxid: Zxid,
    ) -> Result<Vec<(Created, usize)>, client::Error> {
        // The missing directories were created before the places.
        let directories =
            results.len().checked_sub(self.paths.len()).ok_or_else(unexpected_results)?;
        let places = results[directories..].iter().zip(&self.paths);
        let created = places.map(|(result, path)| {
            let created = created_path(result).ok_or_else(unexpected_results)?;
            Ok((Created { path: created.to_string(), stat: stat_of_created(zxid) }, path.len()))
        });
        created.collect()
    }

    /// Looks for the znodes after a `lost` reply, which is the error if there are none. The multi created all of
    /// them or none, but another client may have deleted one since: then the others are deleted.
    async fn find(&mut self, lost: client::Error) -> Result<Vec<(Created, usize)>, LockError> {
        let mut all = Vec::new();
        for path in &self.paths {
            let found = self.session.find_protected(path).await?;
            all.extend(found.map(|created| (created, path.len())));
        }
        if all.len() < self.paths.len() {
            self.paths.clear();
            if all.is_empty() {
                return Err(lost.into());
            }
            drop(places(&self.session, all));
            return Err(LockError::place_lost());
        }
        Ok(all)
    }
}

impl Drop for PendingPlaces {
    fn drop(&mut self) {
        for path in std::mem::take(&mut self.paths) {
            self.session.delete_protected_in_background(&path);
        }
    }
}

fn places(
    session: &SessionClient,
    created: Vec<(Created, usize)>,
) -> Result<Vec<Place>, LockError> {
    let place = |(created, digits_at): (Created, usize)| Place::new(session, created, digits_at);
    // All become places before an error is returned, so that each one is deleted.
    let places: Vec<_> = created.into_iter().map(place).collect();
    places.into_iter().collect()
}

/// The operations that create the missing directories of the lines, each once.
async fn missing_directories(client: &Client, lines: &[Line]) -> Result<Vec<MultiOp>, LockError> {
    let mut ops: Vec<MultiOp> = Vec::new();
    for line in lines {
        for op in client.missing_containers(&line.directory, line.directory_acl.as_deref()).await? {
            if !ops.iter().any(|other| other.path() == op.path()) {
                ops.push(op);
            }
        }
    }
    Ok(ops)
}
