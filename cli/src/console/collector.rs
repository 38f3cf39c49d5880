//! Looks at the servers while somebody looks at the page, and at no other time.

use std::time::Duration;

use zoolet_client::recipe::now;

use super::limits::{LINGER, LOOK_PAUSE_FACTOR, RETRY_PAUSES};
use super::look::Looks;
use super::model::Model;
use super::source::Failure;
use super::{Shared, feed};

/// Runs until the console ends.
pub(super) async fn run(shared: &Shared) {
    let hub = &shared.hub;
    loop {
        hub.somebody_looks().await;
        tokio::select! {
            never = collect(shared) => match never {},
            never = feed::run(shared) => match never {},
            () = left_alone(shared) => {}
        }
        // Whoever comes next must not take it for what is so then.
        hub.publish(Model::default());
        shared.link.close().await;
    }
}

/// Waits until nobody has looked for some time.
async fn left_alone(shared: &Shared) {
    loop {
        shared.hub.nobody_looks().await;
        tokio::time::sleep(LINGER).await;
        if shared.hub.is_left_alone() {
            return;
        }
    }
}

/// Looks again and again.
async fn collect(shared: &Shared) -> std::convert::Infallible {
    let mut looks = Looks::new(&shared.path, shared.scan);
    let (first, longest) = RETRY_PAUSES;
    let mut retry = first;
    loop {
        shared.hub.viewer_looks().await;
        let began = now();
        match look(shared, &mut looks).await {
            Ok(model) => {
                shared.hub.publish(with_names(shared, model));
                retry = first;
                let took = now() - began;
                tokio::time::sleep(shared.interval.max(took * LOOK_PAUSE_FACTOR)).await;
            }
            Err(failure) => {
                tracing::warn!("{}: {failure}", shared.link.source.name());
                // What was seen last stays in sight.
                let model = shared.hub.model().with("trouble", failure.to_string());
                shared.hub.publish(with_names(shared, model));
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(longest);
            }
        }
    }
}

async fn look(shared: &Shared, looks: &mut Looks) -> Result<Model, Failure> {
    let client = shared.link.client().await?;
    looks.read(&client).await?;
    let sessions = shared.link.source.sessions(&client).await?;
    let model = looks.model(&sessions, client.session_id());
    Ok(match shared.link.source.metrics().await {
        Some(metrics) => model.with("metrics", metrics),
        None => model,
    })
}

fn with_names(shared: &Shared, model: Model) -> Model {
    let interval_ms = u64::try_from(shared.interval.as_millis()).unwrap_or(u64::MAX);
    model
        .with("server", shared.link.source.name())
        .with("zoolet", env!("CARGO_PKG_VERSION"))
        .with("interval_ms", interval_ms)
        .with("can_act", shared.faults.is_some())
}

/// The shortest interval that makes sense: viewers are told no more than ten times a second.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(100);
