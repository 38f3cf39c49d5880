//! Waiting in several lines at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use crate::client::recipe::WaiterId;
use crate::error::LockError;
use crate::line::order::Turn;
use crate::line::place::{Line, Place, Standing};

/// Waits until each place is in front of its line, with all of them still there.
///
/// A place that is in front early stays there until the others are, which may take hours. Its znode is
/// watched meanwhile: when an administrator deletes it, another holds that lock.
pub(crate) async fn wait_all(
    places: &mut [Place],
    lines: &[Line],
    standings: Vec<Standing>,
) -> Result<(), LockError> {
    let is_in_front = |standing: &Standing| standing.turn == Turn::Mine;
    if standings.iter().all(is_in_front) {
        for (place, line) in places.iter_mut().zip(lines) {
            place.come_to_the_front(line, false);
        }
        return Ok(());
    }
    let waiting = AtomicUsize::new(places.len());
    let each = places.iter_mut().zip(lines).zip(standings);
    let mut waits: Vec<_> = each
        .map(|((place, line), standing)| Box::pin(wait_and_stay(place, line, standing, &waiting)))
        .collect();
    std::future::poll_fn(|context| {
        loop {
            let before = waiting.load(Ordering::Relaxed);
            for wait in &mut waits {
                if let Poll::Ready(error) = wait.as_mut().poll(context) {
                    return Poll::Ready(Err(error));
                }
            }
            // When the last is in front, each has been looked at once more: what was lost before that
            // was heard of before it.
            match waiting.load(Ordering::Relaxed) {
                0 if before == 0 => return Poll::Ready(Ok(())),
                left if left == before => return Poll::Pending,
                _ => {}
            }
        }
    })
    .await
}

/// Waits until a place is in front, notes that it is one less that waits, and returns when it is
/// lost.
async fn wait_and_stay(
    place: &mut Place,
    line: &Line,
    standing: Standing,
    waiting: &AtomicUsize,
) -> LockError {
    let in_front = match place.wait(line, standing).await {
        // In front counts only who hears when it is not there any more.
        Ok(()) => place.have_own_watched().await,
        Err(error) => Err(error),
    };
    if let Err(error) = in_front {
        return error;
    }
    waiting.fetch_sub(1, Ordering::Relaxed);
    std::future::poll_fn(|context| place.poll_lost(WaiterId::ONLY, context)).await
}
