//! The code of `docs/discovery.md`.

use serde::{Deserialize, Serialize};
use zoolet::recipes::discovery::{
    InstanceSerializer, JsonInstanceSerializer, ServiceDiscovery, ServiceInstance,
};

use crate::{Outcome, check, stage};

#[tokio::test(start_paused = true)]
async fn an_instance_registers_is_found_and_leaves() -> Outcome {
    let (_server, client) = stage().await;
    // Another instance, so that the provider has one to choose.
    let other = ServiceDiscovery::<()>::start(&client, "/services")?;
    other.register(ServiceInstance::new("orders", "other").port(8082)).await?;
    // On the page:
    let discovery = ServiceDiscovery::<()>::start(&client, "/services")?;
    let instance = discovery.new_instance("orders").address("10.0.0.7").port(8081);
    let registration = discovery.register(instance).await?; // others find it from here on

    let provider = discovery.service_provider("orders").start()?;
    provider.initialized().await?;
    // For each request, without a request of its own:
    if let Some(instance) = provider.instance() {
        // ... and if the request fails:
        provider.note_error(&instance);
    }

    registration.unregister().await?;
    // Until here.
    let found = other.query_for_instances("orders").await?.found;
    let ports: Vec<_> = found.iter().map(|instance| instance.port).collect();
    assert_eq!(ports, [Some(8082)]);
    Ok(())
}

// On the page:
#[derive(Serialize, Deserialize)]
#[serde(tag = "@class", rename = "com.example.Shard")]
struct Shard {
    first: u32,
}
// Until here.

#[test]
fn a_payload_has_the_name_of_its_class() -> Outcome {
    let instance = ServiceInstance::new("orders", "one").payload(Shard { first: 7 });
    let json = JsonInstanceSerializer::compatible().serialize(&instance)?;
    let json = String::from_utf8(json)?;
    assert!(json.contains(r#""@class":"com.example.Shard","first":7"#), "{json}");
    let read: ServiceInstance<Shard> =
        JsonInstanceSerializer::compatible().deserialize(json.as_bytes())?;
    assert_eq!(read.payload.map(|shard| shard.first), Some(7));
    Ok(())
}

#[test]
fn the_page_shows_what_runs() {
    check("discovery.md", include_str!("discovery.rs"));
}
