//! Reads certificates again when their files have changed.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zoolet_tls::ServerTls;

use crate::limits::CERTIFICATE_RELOAD_INTERVAL;

/// Looks at the files every few seconds until it is cancelled. What cannot be used is logged, and
/// the old certificates stay.
pub(crate) async fn watch_files(stores: Arc<ServerTls>, cancelled: CancellationToken) {
    loop {
        let pause = tokio::time::sleep(CERTIFICATE_RELOAD_INTERVAL);
        if cancelled.run_until_cancelled(pause).await.is_none() {
            return;
        }
        let stores = Arc::clone(&stores);
        // A network file system may be slow.
        let reloaded = tokio::task::spawn_blocking(move || stores.reload_if_changed()).await;
        match reloaded {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("the certificates were read again"),
            Ok(Err(error)) => {
                tracing::error!("the new certificates cannot be used, the old ones stay: {error}");
            }
            Err(error) => tracing::error!("the certificates were not read again: {error}"),
        }
    }
}
