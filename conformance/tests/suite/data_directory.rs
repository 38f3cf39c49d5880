//! One data directory and two servers, Apache ZooKeeper and ours. Each is killed with SIGKILL while
//! clients write, and the other continues on its files. Another test kills our server again and
//! again.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::Failed;
use zoolet_client::{Client, CreateMode, RetryPolicy};
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::process::{Implementation, Process, SUPER, zoolet_binary};
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, ErrorCode, Expect, Id, MultiOp, Permissions, Stat,
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("data_directory", 1);
    section.test(&[Peer::Apache], "both-ways", || Ok(run(both_ways(TAKE_OVERS))?));
    section.test(&[], "killed-many-times", || Ok(run(killed(kill_rounds()?))?));
    section
}

/// How many times our server is killed. 200 times is the proof; fewer are enough to notice a
/// regression.
fn kill_rounds() -> Result<usize, Failed> {
    match std::env::var("ZOOLET_KILL_ROUNDS") {
        Ok(rounds) => Ok(rounds.parse()?),
        Err(_) => Ok(5),
    }
}

fn run(test: impl Future<Output = Outcome<()>>) -> Outcome<()> {
    tokio::runtime::Runtime::new()?.block_on(test)
}

/// How many times the other server takes over: four times in each direction.
const TAKE_OVERS: usize = 8;

/// The number of writes after which a server is killed.
const WRITES: usize = 400;

/// The number of clients that write.
const WRITERS: usize = 3;

async fn both_ways(rounds: usize) -> Outcome<()> {
    // Compile now: sessions must not expire because of a compiler.
    zoolet_binary()?;
    let directory = tempfile::tempdir()?;
    let mut implementation = Implementation::Apache;
    let mut server = Process::start(implementation, directory.path(), 0)?;
    let port = server.address().port();
    let keeper = Client::builder().session_timeout(Duration::from_secs(20));
    let keeper = keeper.connect(server.address().to_string().as_str()).await?;
    let session = keeper.session_id();
    prepare(&keeper).await?;
    for round in 0..rounds {
        let expected = write_until_killed(server, round).await?;
        // Compare what the two implementations read from the same files.
        let copy = tempfile::tempdir()?;
        copy_files(directory.path(), copy.path())?;
        let on_copy = copy.path().to_owned();
        let same = tokio::spawn(async move {
            // Starting a Java virtual machine takes its time, so both start together.
            let server = Process::start(implementation, &on_copy, 0)?;
            znodes(&server).await
        });
        implementation = implementation.other();
        server = Process::start(implementation, directory.path(), port)?;
        let other = znodes(&server).await?;
        let same = same.await??;
        compare(&same, &other)
            .map_err(|error| format!("round {round}, {implementation:?}: {error}"))?;
        check(&expected, &other)
            .map_err(|error| format!("round {round}, {implementation:?}: {error}"))?;
        keeper.set("/keeper", format!("{round}")).await?;
        let owned = keeper.exists("/keeper/mine").await?.ok_or("the ephemeral was deleted")?;
        if keeper.session_id() != session || owned.ephemeral_owner != session {
            return Err(format!(
                "round {round}: the session did not go on with {implementation:?}"
            )
            .into());
        }
        println!("round {round}: {implementation:?} goes on with {} znodes", other.len());
    }
    Ok(())
}

async fn killed(rounds: usize) -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    let mut server = Process::start(Implementation::Zoolet, directory.path(), 0)?;
    let port = server.address().port();
    let mut acknowledged = 0;
    for round in 0..rounds {
        let expected = write_until_killed(server, round).await?;
        acknowledged += expected.len();
        server = Process::start(Implementation::Zoolet, directory.path(), port)?;
        let client = superuser(&server).await?;
        let there = znodes_below(&client, &format!("/load-{round}")).await?;
        check(&expected, &there).map_err(|error| format!("round {round}: {error}"))?;
    }
    println!("{acknowledged} acknowledged states after {rounds} kills, none lost");
    Ok(())
}

/// Creates one znode of each type, which only the files preserve.
async fn prepare(client: &Client) -> Outcome<()> {
    // The parent of the TTL znode is persistent.
    client.create("/keeper").await?;
    // An ephemeral can have no children, but can be a child of any other znode.
    client.create("/keeper/mine").mode(CreateMode::Ephemeral).await?;
    client.create("/box").mode(CreateMode::Container).await?;
    client.create("/box/content").await?;
    client.create("/soon").mode(CreateMode::PersistentWithTtl(Duration::from_secs(3_600))).await?;
    let quota = "/zookeeper/quota/keeper";
    client.create(quota).await?;
    client.create(&format!("{quota}/zookeeper_limits")).data("count=100,bytes=-1").await?;
    client.create(&format!("{quota}/zookeeper_stats")).data("count=0,bytes=0").await?;
    client.create("/keeper/counted").data("four").await?;
    Ok(())
}

/// The acknowledged state: the data of each znode, or `None` after its deletion.
type Expected = BTreeMap<String, Option<Bytes>>;

/// Lets clients write, kills the server during their writes, and returns the acknowledged state.
async fn write_until_killed(server: Process, round: usize) -> Outcome<Expected> {
    let address = server.address().to_string();
    let written = Arc::new(AtomicUsize::new(0));
    let setup = Client::connect(address.as_str()).await?;
    setup.create(&format!("/load-{round}")).await?;
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let client = Client::connect(address.as_str()).await?;
        let client = client.with_retry_policy(RetryPolicy::never());
        let root = format!("/load-{round}/{writer}");
        writers.push(tokio::spawn(write(client, root, Arc::clone(&written))));
    }
    while written.load(Ordering::Relaxed) < WRITES {
        tokio::task::yield_now().await;
    }
    drop(server);
    let mut expected = Expected::new();
    for writer in writers {
        expected.append(&mut writer.await?);
    }
    Ok(expected)
}

/// Writes until the server is killed. Leaves out the last write, which was not acknowledged and may
/// have happened.
async fn write(client: Client, root: String, written: Arc<AtomicUsize>) -> Expected {
    let mut expected = Expected::new();
    for number in 0.. {
        let path = format!("{root}-{number}");
        let data = Bytes::from(vec![b'x'; 1 + number % 700]);
        let told = match number % 7 {
            0 => client
                .create(&path)
                .data(data.clone())
                .mode(CreateMode::Ephemeral)
                .await
                .map(|_| Some(data)),
            1 => {
                let id = Id::new("digest", "someone:hash");
                let acl = vec![Acl { permissions: Permissions::READ, id }];
                client.create(&path).data(data.clone()).acl(acl).await.map(|_| Some(data))
            }
            2 => {
                let ops = vec![create(&path, &data), create(&format!("{path}-b"), &data)];
                expected.insert(format!("{path}-b"), Some(data.clone()));
                let told = client.multi(ops).await.map(|_| Some(data));
                if told.is_err() {
                    expected.remove(&format!("{path}-b"));
                }
                told
            }
            3 => {
                let refused = client.create(&format!("{path}/no/parent")).await;
                match refused {
                    Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
                    Err(error) => Err(error),
                    Ok(_) => panic!("a create without a parent must fail"),
                }
            }
            4 => {
                // Sets the data of the znode of two steps before, with its version.
                let earlier = format!("{root}-{}", number - 2);
                expected.remove(&earlier);
                let set = client.set(&earlier, data.clone()).version(0).await;
                set.map(|_| drop(expected.insert(earlier, Some(data)))).map(|()| None)
            }
            5 => {
                let earlier = format!("{root}-{}", number - 3);
                expected.remove(&earlier);
                let ops = vec![delete(&earlier), create(&path, &data)];
                let done = client.multi(ops).await;
                done.map(|_| drop(expected.insert(earlier, None))).map(|()| Some(data))
            }
            _ => client.create(&path).data(data.clone()).await.map(|_| Some(data)),
        };
        let Ok(told) = told else { break };
        expected.insert(path, told);
        written.fetch_add(1, Ordering::Relaxed);
    }
    expected
}

fn create(path: &str, data: &Bytes) -> MultiOp {
    MultiOp::Create(Create {
        kind: CreateKind::Create,
        path: path.into(),
        data: Some(data.clone()),
        acl: Some(vec![Acl::open()]),
        flags: CreateFlags::PERSISTENT,
    })
}

fn delete(path: &str) -> MultiOp {
    MultiOp::Delete(Delete { path: path.into(), version: Expect::Any })
}

type Znodes = BTreeMap<String, (Bytes, Stat, Vec<Acl>)>;

/// A client of the superuser.
async fn superuser(server: &Process) -> Outcome<Client> {
    let client = Client::connect(server.address().to_string().as_str()).await?;
    client.authenticate(SUPER.0, SUPER.1).await?;
    Ok(client)
}

/// All znodes of a server.
async fn znodes(server: &Process) -> Outcome<Znodes> {
    let mut znodes = znodes_below(&superuser(server).await?, "/").await?;
    // A standalone Apache ZooKeeper writes its configuration into this znode.
    let config = "/zookeeper/config";
    znodes.remove(config).ok_or("the configuration znode is missing")?;
    Ok(znodes)
}

/// How many znodes are asked for at once, so that a round trip is not waited for with each.
const TOGETHER: usize = 100;

async fn znodes_below(client: &Client, top: &str) -> Outcome<Znodes> {
    let mut znodes = Znodes::new();
    let mut ahead = vec![top.to_owned()];
    while !ahead.is_empty() {
        let paths = ahead.split_off(ahead.len().saturating_sub(TOGETHER));
        let asked: Vec<_> = paths
            .into_iter()
            .map(|path| {
                let data = client.get(&path).send();
                (data, client.acl(&path).send(), client.children(&path).send(), path)
            })
            .collect();
        for (data, acl, children, path) in asked {
            let ((data, stat), (acl, _), children) = (data.await?, acl.await?, children.await?);
            let parent = if path == "/" { "" } else { &path };
            ahead.extend(children.iter().map(|name| format!("{parent}/{name}")));
            znodes.insert(path, (data, stat, acl));
        }
    }
    Ok(znodes)
}

/// Checks that two servers read the same state from the same files.
fn compare(one: &Znodes, other: &Znodes) -> Result<(), String> {
    let differs = |path: &&String| one.get(*path) != other.get(*path);
    match one.keys().chain(other.keys()).find(differs) {
        None => Ok(()),
        Some(path) => Err(format!(
            "{path}: its own server has\n  {:?}\nthe other\n  {:?}",
            one.get(path),
            other.get(path)
        )),
    }
}

/// Checks that the acknowledged state is there.
fn check(expected: &Expected, there: &Znodes) -> Result<(), String> {
    for (path, data) in expected {
        let found = there.get(path).map(|(data, ..)| data);
        if found != data.as_ref() {
            let lengths = [data.as_ref(), found].map(|data| data.map(Bytes::len));
            return Err(format!("{path} was acknowledged and is lost, its bytes: {lengths:?}"));
        }
    }
    Ok(())
}

fn copy_files(from: &Path, to: &Path) -> Outcome<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_files(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
