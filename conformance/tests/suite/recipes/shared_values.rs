//! Shared values.

use std::sync::Arc;

use zoolet_recipes::{SharedValue, ValueError};

use super::Outcome;
use super::scene::{Scene, soon};

pub(crate) async fn a_shared_value_survives_disconnects_and_expiry(scene: Arc<Scene>) -> Outcome {
    let path = scene.path("value");
    let other = scene.client().await?;
    let (client, way) = scene.client_behind_proxy().await?;
    let copy = SharedValue::start(&client, &path, "first").await?;
    let mut values = copy.subscribe();
    let set = async |value: &'static str| other.set(&path, value).await;
    set("second").await?;
    soon(values.wait_for(|value| value.data == "second")).await??;
    way.cut();
    set("third").await?;
    soon(values.wait_for(|value| value.data == "third")).await??;
    way.refuse(true);
    way.cut();
    set("fourth").await?;
    way.refuse(false);
    soon(values.wait_for(|value| value.data == "fourth")).await??;
    scene.expire(&client).await?;
    set("fifth").await?;
    soon(values.wait_for(|value| value.data == "fifth")).await??;
    set("sixth").await?;
    soon(values.wait_for(|value| value.data == "sixth")).await??;
    drop(copy);
    scene.assert_clean().await
}

pub(crate) async fn an_unseen_value_is_not_overwritten(scene: Arc<Scene>) -> Outcome {
    let path = scene.path("value");
    let (client, way) = scene.client_behind_proxy().await?;
    let one = SharedValue::start(&client, &path, "first").await?;
    let other = SharedValue::start(&scene.client().await?, &path, "unused").await?;
    let seen = one.value();
    other.set("second").await?;
    assert!(!one.try_set(&seen, "overwritten").await?);
    soon(one.subscribe().wait_for(|value| value.data == "second")).await??;
    way.cut();
    let set = async || match one.try_set(&one.value(), "third").await {
        Ok(is_set) => Ok(is_set),
        // The value may have been set. If so, the copy shows it later.
        Err(ValueError::Client(error)) if error.is_retryable() => Ok(one.value().data == "third"),
        Err(error) => Err(error.into()),
    };
    scene.until("it is set", set).await?;
    soon(other.subscribe().wait_for(|value| value.data == "third")).await??;
    Ok(())
}
