//! Bytes that Curator makes and reads: the hashes of migrations, and compressed data.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use libtest_mimic::Failed;
use tokio::runtime::Builder;
use zoolet_client::Client;
use zoolet_client::compression::{compress, decompress};
use zoolet_conformance::fleet::{Fleet, FleetRecipe, Library};
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_protocol::{Acl, Create, CreateMode, Expect, Id, MultiOp, Permissions};
use zoolet_recipes::migration::Migration;

const OURS: &str = env!("CARGO_BIN_EXE_zoolet-conformance");

/// How many random migrations both libraries hash, and how much data both compress.
const MIGRATIONS: usize = 500;
const COMPRESSED: usize = 200;

/// What names are made of: all that Java escapes, and characters of each length in UTF-8.
const CHARACTERS: &[char] = &['😀', 'a', 'Z', '0', ' ', ',', '}', '%', '{', '\'', '#', 'ü', '€'];

/// How many of these are at the beginning that Curator allows in no path.
const NOT_IN_PATHS: usize = 1;

type Test = fn(SocketAddr) -> Result<(), Failed>;

pub(crate) fn tests() -> Section {
    let tests: [(&str, Test); 2] = [
        ("migrations_have_the_same_hashes", migrations_have_the_same_hashes),
        ("each_reads_what_the_other_compresses", each_reads_what_the_other_compresses),
    ];
    let mut section = Section::new("curator_bytes", 1);
    for (name, test) in tests {
        section.test(&[Peer::Curator], name, move || {
            let server = Wire::start(servers::config(Setting::Steady))?;
            test(server.address())
        });
    }
    section
}

/// A member that uses Curator.
struct Curator(Fleet);

impl Curator {
    fn start(address: SocketAddr) -> Result<Self, Failed> {
        let address = address.to_string();
        let recipe = FleetRecipe { name: "bytes", address: &address, path: "/", capacity: 0 };
        Ok(Self(Fleet::start(recipe, Path::new(OURS), &[Library::Curator])?))
    }

    /// What it makes of a line, in hexadecimal.
    fn ask(&mut self, line: &str) -> Result<String, Failed> {
        Ok(self.0.ask(0, line)?)
    }
}

fn migrations_have_the_same_hashes(address: SocketAddr) -> Result<(), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // The chroot is no part of a hash.
    let client = runtime.block_on(Client::connect(format!("{address}/chroot")))?;
    let mut curator = Curator::start(address)?;
    let mut rng = Rng::with_seed(11);
    for _ in 0..MIGRATIONS {
        let ops: Vec<_> = (0..rng.usize(1..4)).map(|_| random_op(&mut rng)).collect();
        let line = ops.iter().map(|(_, told)| format!(" {told}")).collect::<String>();
        let migration = Migration::new(ops.into_iter().map(|(op, _)| op).collect());
        let theirs = curator.ask(&format!("hash{line}"))?;
        assert_eq!(hex(&migration.hash(&client)), theirs, "{migration:?}");
    }
    curator.0.stop()?;
    Ok(())
}

fn each_reads_what_the_other_compresses(address: SocketAddr) -> Result<(), Failed> {
    let mut curator = Curator::start(address)?;
    let mut rng = Rng::with_seed(12);
    for _ in 0..COMPRESSED {
        let data = random_bytes(&mut rng, 3_000);
        let theirs = curator.ask(&format!("compress x{}", hex(&data)))?;
        assert_eq!(decompress(&unhex(&theirs)?, data.len())?, data);
        let read = curator.ask(&format!("decompress x{}", hex(&compress(&data))))?;
        assert_eq!(read, hex(&data));
    }
    curator.0.stop()?;
    Ok(())
}

/// An operation, and how the member is told of it.
fn random_op(rng: &mut Rng) -> (MultiOp, String) {
    let (path, data) = (format!("/{}", random_text(rng, NOT_IN_PATHS)), random_bytes(rng, 20));
    let (told_path, told_data) = (told(path.as_bytes()), told(&data));
    let version = *rng.choice(&[-1, 0, 1, i32::MAX]).expect("there are some");
    match rng.u8(0..6) {
        0 => {
            let op = MultiOp::delete(path, Expect::from(version));
            (op, format!("delete:{told_path}:{version}"))
        }
        1 => {
            let op = MultiOp::set_data(path, data, Expect::from(version));
            (op, format!("set:{told_path}:{version}:{told_data}"))
        }
        2 => {
            let op = MultiOp::check(path, Expect::from(version));
            (op, format!("check:{told_path}:{version}"))
        }
        _ => {
            let ttl_ms = rng.u32(1..1_000_000);
            let ttl = Duration::from_millis(ttl_ms.into());
            let modes = [
                (CreateMode::Persistent, "PERSISTENT"),
                (CreateMode::PersistentSequential, "PERSISTENT_SEQUENTIAL"),
                (CreateMode::Ephemeral, "EPHEMERAL"),
                (CreateMode::EphemeralSequential, "EPHEMERAL_SEQUENTIAL"),
                (CreateMode::Container, "CONTAINER"),
                (CreateMode::PersistentWithTtl(ttl), "PERSISTENT_WITH_TTL"),
                (CreateMode::PersistentSequentialWithTtl(ttl), "PERSISTENT_SEQUENTIAL_WITH_TTL"),
            ];
            let (mode, name) = *rng.choice(&modes).expect("there are some");
            let acl: Vec<Acl> = (0..rng.usize(1..3)).map(|_| random_acl(rng)).collect();
            let told_acl: String = acl.iter().map(told_entry).collect();
            let told = format!("create:{told_path}:{name}:{ttl_ms}:{told_data}{told_acl}");
            (Create::new(path, mode).data(data).acl(acl).into(), told)
        }
    }
}

fn random_acl(rng: &mut Rng) -> Acl {
    Acl::new(Permissions(rng.i32(1..32)), Id::new(random_text(rng, 0), random_text(rng, 0)))
}

fn told_entry(entry: &Acl) -> String {
    let part = |part: &Option<bytestring::ByteString>| {
        told(part.as_deref().unwrap_or_default().as_bytes())
    };
    format!(":{}:{}:{}", entry.permissions.0, part(&entry.id.scheme), part(&entry.id.id))
}

/// Between one and eight characters, without the first ones.
fn random_text(rng: &mut Rng, without: usize) -> String {
    let length = rng.usize(1..9);
    (0..length).map(|_| *rng.choice(&CHARACTERS[without..]).expect("there are some")).collect()
}

/// Bytes of which some are often the same.
fn random_bytes(rng: &mut Rng, length_max: usize) -> Vec<u8> {
    let greatest = *rng.choice(&[0, 3, 255]).expect("there are some");
    (0..rng.usize(0..=length_max)).map(|_| rng.u8(0..=greatest)).collect()
}

/// Bytes as the member is told: a letter before them, since there may be none.
fn told(bytes: &[u8]) -> String {
    format!("x{}", hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, Failed> {
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(Failed::from);
    (0..text.len()).step_by(2).map(pair).collect()
}
