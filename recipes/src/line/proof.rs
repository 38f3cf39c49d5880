//! Waiting until the session of a place is proved to be alive, before the place counts as a held
//! lock.

use super::place::Place;
use super::{Line, PositionAt};
use crate::client;
use crate::error::LockError;

impl Line {
    /// Waits until a place is in front and its session is proved to be alive.
    pub(crate) async fn wait_until_held(
        &self,
        place: &mut Place,
        at: PositionAt,
    ) -> Result<(), LockError> {
        self.wait(place, at).await?;
        until_proven(std::slice::from_mut(place)).await
    }
}

/// Waits until the session of places that are in front is proved to be alive, unless it is. A
/// client that only waits writes nothing, so that nothing proves its session after a long wait, nor
/// after a lost answer. This sends no request of its own: the session checks the znodes of held
/// locks anyway.
///
/// # Errors
///
/// [`LockError::PlaceLost`] as soon as one of the places is known to be lost, and
/// [`Closed`](client::Error::Closed) as soon as the client is closed.
pub(crate) async fn until_proven(places: &mut [Place]) -> Result<(), LockError> {
    let Some(first) = places.first_mut() else { return Ok(()) };
    if first.claim_if_proven_ahead() {
        return Ok(());
    }
    let session = first.session().clone();
    let client = session.client();
    let last = client.session_valid_until();
    // The end of a session is no proof, and a client may be closed without a connection.
    let (mut changes, mut state) = (client.proof_changes(), client.state());
    loop {
        changes.mark_unchanged();
        state.mark_unchanged();
        if client.is_closing() {
            return Err(client::Error::Closed.into());
        }
        if !session.is_current() || places.iter().any(Place::is_lost) {
            return Err(LockError::PlaceLost(places[0].path().to_owned()));
        }
        places.iter_mut().for_each(Place::claim);
        // A proof that is about to end is of no use. A new proof lasts as long as the network
        // allows.
        let is_new = last < client.session_valid_until() && session.is_proven();
        if is_new || session.is_proven_ahead() {
            return Ok(());
        }
        let changed = tokio::select! {
            biased;
            changed = changes.changed() => changed,
            changed = state.changed() => changed,
        };
        changed.map_err(|_gone| client::Error::Closed)?;
    }
}
