//! Discovery beside Curator's: both write the same bytes, and find, choose and lose each other's
//! instances.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use libtest_mimic::Failed;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use zoolet_client::Client;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::fleet::{Fleet, FleetRecipe, Library};
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_recipes::discovery::{
    InstanceSerializer, JsonInstanceSerializer, ServiceDiscovery, ServiceInstance, ServiceType,
    UriSpec, UriSpecPart,
};

const OURS: &str = env!("CARGO_BIN_EXE_zoolet-conformance");
const BASE: &str = "/fleet-discovery";
const SERVICE: &str = "orders";
const PATIENCE: Duration = Duration::from_secs(45);

/// How many random instances both libraries write.
const WRITTEN: usize = 500;

/// What strings are made of: all that JSON escapes, and characters of each length in UTF-8.
const CHARACTERS: &[char] = &[
    'a', 'Z', '0', ' ', '/', '\\', '"', '\'', '<', '&', '\0', '\u{1}', '\u{8}', '\t', '\n',
    '\u{b}', '\u{c}', '\r', '\u{1b}', '\u{1f}', '\u{7f}', '\u{80}', 'ü', '€', '\u{2028}',
    '\u{feff}', '😀',
];

/// The payload of `DiscoveryMember.java`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "@class", rename = "DiscoveryMember$Payload")]
struct Payload {
    val: String,
    number: i32,
}

pub(crate) fn tests() -> Section {
    let mut section = Section::new("discovery", 1);
    on_both(&mut section, "the_same_bytes", the_same_bytes);
    on_both(&mut section, "each_finds_the_others_instances", each_finds_the_others_instances);
    section
}

type Test = fn(SocketAddr) -> Result<(), Failed>;

/// One test on our server and one on Apache ZooKeeper.
fn on_both(section: &mut Section, name: &str, test: Test) {
    section.test(&[Peer::Curator], &format!("zoolet::{name}"), move || {
        let server = Wire::start(servers::config(Setting::Steady))?;
        test(server.address())
    });
    section.test(&[Peer::Apache, Peer::Curator], &format!("apache::{name}"), move || {
        let server = Apache::start(&servers::properties(Setting::Steady))?;
        test(server.address())
    });
}

/// A member that uses Curator.
struct Curator(Fleet);

impl Curator {
    fn start(address: SocketAddr) -> Result<Self, Failed> {
        let address = address.to_string();
        let recipe = FleetRecipe { name: "discovery", address: &address, path: BASE, capacity: 0 };
        Ok(Self(Fleet::start(recipe, Path::new(OURS), &[Library::Curator])?))
    }

    /// Has it obey a line, and returns its answer.
    fn ask(&mut self, line: &str) -> Result<String, Failed> {
        Ok(self.0.ask(0, line)?)
    }
}

/// Curator reads what we write, and writes it again without changing a byte.
fn the_same_bytes(address: SocketAddr) -> Result<(), Failed> {
    let mut curator = Curator::start(address)?;
    let mut rng = Rng::with_seed(5);
    for (name, serializer) in [
        ("compatible", JsonInstanceSerializer::compatible()),
        ("with-enabled", JsonInstanceSerializer::with_enabled()),
    ] {
        for _ in 0..WRITTEN {
            let instance = random_instance(&mut rng, name == "with-enabled");
            let ours = serializer.serialize(&instance).map_err(Failed::from)?;
            let line = format!("{name} {}", hex(&ours));
            let theirs = curator.ask(&line)?;
            assert_eq!(theirs, hex(&ours), "{}", String::from_utf8_lossy(&ours));
            let read: ServiceInstance<Payload> = serializer.deserialize(&ours)?;
            assert_eq!(read, instance);
        }
    }
    curator.0.stop()?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random_text(rng: &mut Rng) -> String {
    (0..rng.usize(..8)).map(|_| CHARACTERS[rng.usize(..CHARACTERS.len())]).collect()
}

/// Of eighteen digits: Debian's jackson-core 2.14.1-2~deb12u1 refuses all longs of nineteen as out of range.
const TIME_MAX: i64 = 999_999_999_999_999_999;

fn random_instance(rng: &mut Rng, writes_enabled: bool) -> ServiceInstance<Payload> {
    let types = [
        ServiceType::Dynamic,
        ServiceType::Static,
        ServiceType::Permanent,
        ServiceType::DynamicSequential,
    ];
    let mut instance = ServiceInstance::new(random_text(rng), random_text(rng))
        .registration_time_utc(rng.i64(-TIME_MAX..=TIME_MAX))
        .service_type(types[rng.usize(..types.len())]);
    instance.address = rng.bool().then(|| random_text(rng));
    instance.port = rng.bool().then(|| rng.i32(..));
    instance.ssl_port = rng.bool().then(|| rng.i32(..));
    instance.payload = rng.bool().then(|| Payload { val: random_text(rng), number: rng.i32(..) });
    instance.uri_spec = rng.bool().then(|| UriSpec {
        parts: (0..rng.usize(..4))
            .map(|_| UriSpecPart { value: random_text(rng), variable: rng.bool() })
            .collect(),
    });
    instance.enabled = !writes_enabled || rng.bool();
    instance
}

/// Each of both registers, updates, disables and unregisters, and the other sees it: by a query, and
/// in the instances of its provider.
fn each_finds_the_others_instances(address: SocketAddr) -> Result<(), Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut curator = Curator::start(address)?;
    let client = runtime.block_on(Client::connect(address.to_string().as_str()))?;
    let builder = ServiceDiscovery::<Payload>::builder(&client, BASE);
    let discovery = builder.serializer(JsonInstanceSerializer::with_enabled()).start()?;
    let provider = discovery.service_provider(SERVICE).start()?;
    runtime.block_on(provider.initialized())?;
    let described = || {
        let instances = provider.instances();
        let each: Vec<_> =
            instances.iter().map(|it| format!("{}={}", it.id, it.build_uri(&[]))).collect();
        if each.is_empty() { "none".to_owned() } else { each.join(",") }
    };
    let sees = |expected: &str| {
        let mut changes = provider.cache().changes();
        let seen = async {
            while described() != expected {
                changes.changed().await.expect("the cache goes on");
            }
        };
        let in_time = runtime.block_on(async { tokio::time::timeout(PATIENCE, seen).await });
        in_time.map_err(|_| Failed::from(format!("{} where {expected} is expected", described())))
    };

    assert_eq!(curator.ask("find")?, "none");
    curator.ask("register theirs 1 DYNAMIC")?;
    sees("theirs=http://10.0.0.7:1")?;
    let theirs = runtime.block_on(discovery.query_for_instance(SERVICE, "theirs"))?;
    let payload = Payload { val: "from Curator".to_owned(), number: 1 };
    assert_eq!(theirs.and_then(|instance| instance.payload), Some(payload.clone()));

    let ours = ServiceInstance::new(SERVICE, "ours")
        .address("10.0.0.8")
        .port(2)
        .payload(payload)
        .uri_spec(UriSpec::parse("{scheme}://{address}:{port}")?);
    let registration = runtime.block_on(discovery.register(ours.clone()))?;
    let both = "ours=http://10.0.0.8:2,theirs=http://10.0.0.7:1";
    curator.ask(&format!("await {both}"))?;
    assert_eq!(curator.ask("find")?, both);
    sees(both)?;

    runtime.block_on(registration.update(ours.clone().ssl_port(9)))?;
    curator.ask("await ours=https://10.0.0.8:2,theirs=http://10.0.0.7:1")?;
    runtime.block_on(registration.disable())?;
    curator.ask("await theirs=http://10.0.0.7:1")?;
    runtime.block_on(registration.enable())?;
    curator.ask("update theirs 3 DYNAMIC")?;
    sees("ours=https://10.0.0.8:2,theirs=http://10.0.0.7:3")?;
    curator.ask("unregister theirs")?;
    sees("ours=https://10.0.0.8:2")?;
    runtime.block_on(discovery.close())?;
    curator.ask("await none")?;
    curator.0.stop()?;
    runtime.block_on(client.close())?;
    Ok(())
}
