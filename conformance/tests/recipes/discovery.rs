//! Registered instances of services.

use std::sync::Arc;

use libtest_mimic::Failed;
use zoolet_recipes::discovery::{
    JsonInstanceSerializer, ServiceDiscovery, ServiceInstance, ServiceProvider, ServiceType,
};

use crate::Outcome;
use crate::scene::Scene;

const SERVICE: &str = "orders";

/// Waits until a provider chooses among instances with exactly these ports.
async fn until_chosen(scene: &Scene, provider: &ServiceProvider, ports: &[i32]) -> Outcome {
    let is_so =
        async || Ok(provider.instances().iter().filter_map(|it| it.port).eq(ports.iter().copied()));
    scene.until(&format!("{ports:?}, not {:?}", provider.instances()), is_so).await
}

pub(crate) async fn instances_are_found_over_disconnects_and_expiry(scene: Arc<Scene>) -> Outcome {
    let (client, way) = scene.client_behind_proxy().await?;
    let discovery = ServiceDiscovery::<()>::start(&client, scene.path("services"))?;
    let observer = ServiceDiscovery::<()>::start(&scene.client().await?, scene.path("services"))?;
    let provider = observer.service_provider(SERVICE).start()?;
    provider.initialized().await?;
    assert_eq!(provider.instance(), None);
    let instance = |id: &str, port| ServiceInstance::new(SERVICE, id).port(port);
    let one = discovery.register(instance("one", 1)).await?;
    let fixed = instance("two", 2).service_type(ServiceType::Static);
    discovery.register(fixed).await?;
    until_chosen(&scene, &provider, &[1, 2]).await?;

    let mut changes = provider.cache().changes();
    changes.borrow_and_update();
    way.cut();
    one.update(instance("one", 3)).await?;
    until_chosen(&scene, &provider, &[3, 2]).await?;
    let before = client.session_id();
    scene.expire(&client).await?;
    let is_registered = async || {
        let path = one.path().ok_or("it was registered before")?;
        let stat = client.exists(&path).await?;
        Ok(stat.is_some_and(|stat| stat.ephemeral_owner != before))
    };
    scene.until("registered by the next session", is_registered).await?;
    until_chosen(&scene, &provider, &[3, 2]).await?;
    one.unregister().await?;
    until_chosen(&scene, &provider, &[2]).await?;
    discovery.close().await?;
    until_chosen(&scene, &provider, &[]).await?;
    Ok(())
}

pub(crate) async fn disabled_instances_are_not_chosen(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let builder = ServiceDiscovery::<()>::builder(&client, scene.path("services"));
    let discovery = builder.serializer(JsonInstanceSerializer::with_enabled()).start()?;
    let provider = discovery.service_provider(SERVICE).start()?;
    provider.initialized().await?;
    let sequential =
        ServiceInstance::new(SERVICE, "node-").port(1).service_type(ServiceType::DynamicSequential);
    let first = discovery.register(sequential).await?;
    let path = first.path().ok_or("it is registered")?;
    assert!(path.ends_with("/node-0000000000"), "{path}");
    until_chosen(&scene, &provider, &[1]).await?;
    first.disable().await?;
    until_chosen(&scene, &provider, &[]).await?;
    let found = discovery.query_for_instances(SERVICE).await?.found;
    assert!(matches!(&found[..], [instance] if !instance.enabled), "{found:?}");
    first.enable().await?;
    until_chosen(&scene, &provider, &[1]).await?;
    first.unregister().await?;
    until_chosen(&scene, &provider, &[]).await?;
    Ok::<_, Failed>(())
}
