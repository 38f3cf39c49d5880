//! Which requests are sent again, and until when.

use zoolet_protocol::ErrorCode;

use super::limits::RETRY_PAUSE;
use crate::client::{Error, Operation};

/// Whether a request may be answered when it is sent again, in another session if need be.
pub(crate) fn may_come_again(error: &Error) -> bool {
    error.is_retryable() || *error == Error::SessionExpired || error.is(ErrorCode::THROTTLED_OP)
}

/// Waits before a request is sent again. Returns the error if it is of no use to send it again.
pub(crate) async fn pause_before_next(error: Error) -> Result<(), Error> {
    if !may_come_again(&error) {
        return Err(error);
    }
    tokio::time::sleep(RETRY_PAUSE).await;
    Ok(())
}

/// Makes a read until it is answered, in whichever session. Returns `None` if there is no znode.
pub(crate) async fn answered<T>(read: impl Fn() -> Operation<T>) -> Result<Option<T>, Error> {
    loop {
        match read().until_answered().await {
            Ok(found) => return Ok(Some(found)),
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(None),
            Err(Error::SessionExpired) => {}
            Err(error) => return Err(error),
        }
    }
}
