//! Registered instances of services.

use std::sync::Arc;

use libtest_mimic::Failed;
use zoolet_recipes::discovery::{
    JsonInstanceSerializer, ServiceDiscovery, ServiceInstance, ServiceProvider, ServiceType,
};

use super::scene::Scene;
use super::{Outcome, Server};

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

/// `TestServiceDiscovery`: `testMultipleInstances` and `testUnregisterService` of Curator.
pub(crate) async fn multiple_instances(scene: Arc<Scene>) -> Outcome {
    let discovery = ServiceDiscovery::<()>::start(&scene.client().await?, scene.path("services"))?;
    let mut registered = Vec::new();
    for (service, id) in [("one", "a"), ("one", "b"), ("two", "c"), ("two", "d")] {
        registered.push(discovery.register(ServiceInstance::new(service, id)).await?);
    }
    assert_eq!(discovery.query_for_names().await?, ["one", "two"]);
    let ids = async |service: &str| {
        let found = discovery.query_for_instances(service).await?.found;
        Ok::<_, Failed>(found.into_iter().map(|it| it.id).collect::<Vec<_>>())
    };
    assert_eq!(
        (ids("one").await?, ids("two").await?),
        (vec!["a".into(), "b".into()], vec!["c".into(), "d".into()])
    );
    registered.remove(0).unregister().await?;
    assert_eq!(ids("one").await?, ["b"]);
    discovery.close().await?;
    Ok(())
}

/// `TestServiceDiscovery.testCrashedInstance` of Curator: an instance is gone with its session. Its
/// program registers it again when it can.
pub(crate) async fn crashed_instance(scene: Arc<Scene>) -> Outcome {
    let (client, way) = scene.client_behind_proxy().await?;
    let discovery = ServiceDiscovery::<()>::start(&client, scene.path("services"))?;
    discovery.register(ServiceInstance::new(SERVICE, "one").port(1)).await?;
    let observer = ServiceDiscovery::<()>::start(&scene.client().await?, scene.path("services"))?;
    let provider = observer.service_provider(SERVICE).start()?;
    provider.initialized().await?;
    until_chosen(&scene, &provider, &[1]).await?;
    way.refuse(true);
    way.cut();
    scene.expire(&client).await?;
    until_chosen(&scene, &provider, &[]).await?;
    way.refuse(false);
    until_chosen(&scene, &provider, &[1]).await?;
    discovery.close().await?;
    Ok(())
}

const PROGRAMS: i32 = 3;
const KILLS: usize = 2;

/// `TestServiceDiscovery.testCrashedServerMultiInstances` of Curator, with the leader of an ensemble:
/// the sessions survive it, and so do the znodes of the instances.
pub(crate) fn crashed_leader(server: &mut Server) -> Outcome {
    let scene = Arc::new(server.scene("crashed-leader"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (observer, services) = (scene.client().await?, scene.path("services"));
        let provider = ServiceDiscovery::<()>::start(&observer, services.clone())?;
        let provider = provider.service_provider(SERVICE).start()?;
        let mut programs = Vec::new();
        for port in 1..=PROGRAMS {
            let discovery =
                ServiceDiscovery::<()>::start(&scene.client().await?, services.clone())?;
            let instance = ServiceInstance::new(SERVICE, port.to_string()).port(port);
            let registration = discovery.register(instance).await?;
            programs.push((discovery, registration));
        }
        let ports: Vec<_> = (1..=PROGRAMS).collect();
        until_chosen(&scene, &provider, &ports).await?;
        let czxids = async || {
            let mut czxids = Vec::new();
            observer.sync("/").await?;
            for (_, registration) in &programs {
                let path = registration.path().ok_or("it was registered")?;
                czxids.push(observer.exists(&path).await?.map(|stat| stat.czxid));
            }
            Ok::<_, Failed>(czxids)
        };
        let before = czxids().await?;
        for _ in 0..KILLS {
            let leader = server.kill_leader()?;
            scene.until("there is a leader", async || Ok(czxids().await.is_ok())).await?;
            assert_eq!(czxids().await?, before);
            until_chosen(&scene, &provider, &ports).await?;
            server.restart(leader)?;
            until_chosen(&scene, &provider, &ports).await?;
        }
        let own = ServiceInstance::new(SERVICE, "1").port(1 + PROGRAMS);
        programs[0].1.update(own).await?;
        until_chosen(&scene, &provider, &[1 + PROGRAMS, 2, 3]).await?;
        for (discovery, _) in programs {
            discovery.close().await?;
        }
        until_chosen(&scene, &provider, &[]).await?;
        drop(provider);
        scene.assert_clean().await
    })
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
