//! Service discovery in simulated worlds: after calm each instance is found with its last data, a
//! provider chooses among all, and of programs with one id one is registered and knows it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::CreateMode;
use zoolet::recipes::NodeState;
use zoolet::recipes::discovery::{ServiceDiscovery, ServiceInstance};
use zoolet::sim::{MachineResult, Sim, World};

const BASE: &str = "/services";
const SERVICE: &str = "orders";
const MACHINES: usize = 3;

const SHORT: Duration = Duration::from_millis(300);
/// How long after the faults all may take to be registered and found.
const CALM: Duration = Duration::from_secs(40);

fn discovery(
    client: &Client,
) -> Result<ServiceDiscovery, Box<dyn std::error::Error + Send + Sync>> {
    Ok(ServiceDiscovery::start(client, BASE)?)
}

/// The last port that each machine has registered with.
#[derive(Default)]
struct Ports(Mutex<BTreeMap<String, i32>>);

impl Ports {
    fn set(&self, machine: &str, port: i32) {
        self.0.lock().expect("no machine panics").insert(machine.to_owned(), port);
    }

    fn all(&self) -> BTreeMap<String, i32> {
        self.0.lock().expect("no machine panics").clone()
    }
}

/// Registers an instance, changes its port, and finds all after calm.
async fn own_instance(world: World) -> MachineResult {
    let client = world.connect().await?;
    let discovery = discovery(&client)?;
    let provider = discovery.service_provider(SERVICE).start()?;
    let instance = |port| ServiceInstance::new(SERVICE, world.name()).port(port);
    let registration = discovery.register(instance(0)).await?;
    let mut port = 0;
    while world.goes_on() {
        port += 1;
        registration.update(instance(port)).await?;
        world.sleep_up_to(SHORT).await;
    }
    port += 1;
    registration.update(instance(port)).await?;
    let ports = world.shared::<Ports>();
    ports.set(world.name(), port);
    let start = world.elapsed();
    loop {
        let mut found = BTreeMap::new();
        for instance in provider.instances().iter() {
            found.insert(instance.id.clone(), instance.port.unwrap_or_default());
        }
        if found.len() == MACHINES && found == ports.all() {
            break;
        }
        if world.elapsed() - start > CALM {
            world.fail(format!("{found:?}, not {:?}", ports.all()));
            break;
        }
        tokio::time::sleep(SHORT).await;
    }
    // The others look too.
    tokio::time::sleep(CALM).await;
    discovery.close().await?;
    if discovery.query_for_instance(SERVICE, world.name()).await?.is_some() {
        world.fail("the instance is there after the discovery was closed");
    }
    Ok(())
}

#[test]
fn after_calm_a_provider_has_each_instance_with_its_last_data() {
    Sim::new().machine("program", MACHINES, own_instance).sweep(0..8);
}

#[test]
fn after_calm_a_provider_has_each_instance_with_its_last_data_on_an_ensemble() {
    Sim::new().machine("program", MACHINES, own_instance).ensemble().sweep(0..4);
}

/// Registers with the id of all machines, as programs do that are replaced one by one.
async fn same_id(world: World) -> MachineResult {
    let client = world.connect().await?;
    let discovery = discovery(&client)?;
    let registration = discovery.register(ServiceInstance::new(SERVICE, "one")).await?;
    let path = format!("{BASE}/{SERVICE}/one");
    while world.goes_on() {
        world.sleep_up_to(SHORT).await;
    }
    tokio::time::sleep(CALM).await;
    let before = client.exists(&path).await?;
    tokio::time::sleep(CALM).await;
    let after = client.exists(&path).await?;
    let [before, after] =
        [before, after].map(|stat| stat.map(|stat| (stat.czxid, stat.ephemeral_owner)));
    if before != after || after.is_none() {
        world.fail(format!("programs replace each other: {before:?}, {after:?}"));
    }
    let has = after.is_some_and(|(_, owner)| owner == client.session_id());
    let believes = registration.state();
    if has != (believes == NodeState::Present) {
        world.fail(format!("it is {believes:?}, and {after:?} is there"));
    }
    // The others look too.
    tokio::time::sleep(CALM).await;
    Ok(())
}

#[test]
fn of_programs_with_one_id_one_is_registered_and_knows_it() {
    Sim::new().machine("program", MACHINES, same_id).finish_within(4 * CALM).sweep(0..8);
}

#[test]
fn of_programs_with_one_id_one_is_registered_and_knows_it_on_an_ensemble() {
    let sim = Sim::new().machine("program", MACHINES, same_id).finish_within(4 * CALM);
    sim.ensemble().sweep(0..4);
}

/// Writes the znode of its instance itself, once.
async fn by_hand(world: World) -> MachineResult {
    let client = world.connect().await?;
    let discovery = discovery(&client)?;
    discovery.register(ServiceInstance::new(SERVICE, "first")).await?;
    let path = format!("{BASE}/{SERVICE}/{}", world.name());
    let data = format!(r#"{{"name":"{SERVICE}","id":"{}"}}"#, world.name());
    client.create(&path).mode(CreateMode::Ephemeral).data(data).await?;
    while world.goes_on() {
        world.sleep_up_to(SHORT).await;
    }
    tokio::time::sleep(CALM).await;
    if discovery.query_for_instance(SERVICE, world.name()).await?.is_none() {
        world.fail("nobody finds the instance");
    }
    Ok(())
}

#[test]
fn an_instance_that_is_not_registered_again_is_found() {
    let failure = Sim::new().machine("program", 1, by_hand).search(0..100);
    let failure = failure.expect_err("a session ends while its program goes on");
    assert!(failure.to_string().contains("nobody finds the instance"), "{failure}");
}
