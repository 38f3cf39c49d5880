//! Our parties, leases and partitions beside kazoo's, on our server and on Apache ZooKeeper: each library
//! sees the members of the other, has no lease that the other has, and takes its part of a set.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::runtime::Builder;
use zoolet_client::Client;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::{Peer, conformance_folder, kazoo_python};
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_recipes::{NonBlockingLease, Party, SetPartitioner, ShallowParty};

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(120);
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn tests() -> Section {
    let mut section = Section::new("kazoo_registrations", 1);
    on_both(&mut section, "parties", |address| run(address, parties));
    on_both(&mut section, "leases", |address| run(address, leases));
    on_both(&mut section, "partitions", |address| run(address, partitions));
    section
}

type Test = fn(SocketAddr) -> Result<(), Failed>;

/// One test on our server and one on Apache ZooKeeper.
fn on_both(section: &mut Section, name: &str, test: Test) {
    section.test(&[Peer::Kazoo], &format!("zoolet::{name}"), move || {
        let server = Wire::start(servers::config(Setting::Steady))?;
        test(server.address())
    });
    section.test(&[Peer::Kazoo, Peer::Apache], &format!("apache::{name}"), move || {
        let server = Apache::start(&servers::properties(Setting::Steady))?;
        test(server.address())
    });
}

/// Runs a test with a client of ours and one of kazoo.
fn run<F>(address: SocketAddr, test: impl FnOnce(Client, Kazoo) -> F) -> Result<(), Failed>
where
    F: Future<Output = Result<(), Failed>>,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(address.to_string().as_str()).await?;
        let test = test(client, Kazoo::start(address)?);
        tokio::time::timeout(PATIENCE, test).await.map_err(|_| "it takes too long")?
    })
}

/// A process that uses kazoo. Dropping it ends the process.
#[derive(Clone)]
struct Kazoo(Arc<Mutex<Process>>);

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn line(&mut self) -> Result<String, Failed> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("kazoo has ended; its errors are above".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Kazoo {
    fn start(address: SocketAddr) -> Result<Self, Failed> {
        let mut child = Command::new(kazoo_python())
            .arg(conformance_folder().join("foreign/kazoo-registrations"))
            .arg(address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().expect("stdin is piped");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut process = Process { child, input, output };
        assert_eq!(process.line()?, "ready");
        Ok(Self(Arc::new(Mutex::new(process))))
    }

    /// Has kazoo do what a line says, and returns what it prints.
    async fn ask(&self, what: &str) -> Result<String, Failed> {
        let (process, what) = (Arc::clone(&self.0), what.to_owned());
        let asking = move || {
            let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(process.input, "{what}")?;
            process.line()
        };
        tokio::task::spawn_blocking(asking).await?
    }
}

async fn parties(client: Client, kazoo: Kazoo) -> Result<(), Failed> {
    let party = Party::new(&client, "/party")?;
    let shallow = ShallowParty::new(&client, "/shallow")?;
    kazoo.ask("join party /party theirs").await?;
    kazoo.ask("join shallow /shallow their-host").await?;
    let (one, two) = (party.join("ours").await?, shallow.join("our-host").await?);
    let mut participants = party.participants().await?;
    participants.sort_unstable();
    assert_eq!(participants, ["ours", "theirs"]);
    let mut participants = shallow.participants().await?;
    participants.sort_unstable();
    assert_eq!(participants, ["our-host", "their-host"]);
    assert_eq!(kazoo.ask("participants party /party").await?, "ours,theirs");
    assert_eq!(kazoo.ask("participants shallow /shallow").await?, "our-host,their-host");
    kazoo.ask("leave").await?;
    assert_eq!((party.count().await?, shallow.count().await?), (1, 1));
    one.leave().await?;
    two.leave().await?;
    assert_eq!(kazoo.ask("participants party /party").await?, "");
    Ok(())
}

async fn leases(client: Client, kazoo: Kazoo) -> Result<(), Failed> {
    let lease = NonBlockingLease::new(&client, "/lease", "ours")?;
    let first = lease.obtain(HOUR).await?.ok_or("nobody has it")?;
    assert_eq!(kazoo.ask("lease /lease theirs 3600").await?, "no");
    assert_eq!(kazoo.ask("lease /lease ours 3600").await?, "yes", "the same identifier renews it");
    let renewed = lease.obtain(HOUR).await?.ok_or("it is ours")?;
    assert!(renewed.fencing_token() > first.fencing_token());
    assert!(lease.give_up(&renewed).await?);
    assert_eq!(kazoo.ask("lease /lease theirs 3600").await?, "yes");
    assert_eq!(lease.obtain(HOUR).await?, None);
    let holder = lease.holder().await?.ok_or("kazoo has it")?;
    assert_eq!(holder.identifier, "theirs");
    assert!(holder.token > renewed.fencing_token());
    // A lease of no time is over at once.
    assert_eq!(kazoo.ask("lease /short theirs 0").await?, "yes");
    let short = NonBlockingLease::new(&client, "/short", "ours")?;
    let next = short.obtain(HOUR).await?.ok_or("kazoo's is over")?;
    assert!(next.fencing_token() > holder.token);
    Ok(())
}

async fn partitions(client: Client, kazoo: Kazoo) -> Result<(), Failed> {
    assert_eq!(kazoo.ask("partition /work host-1 a,b,c,d,e").await?, "a,b,c,d,e");
    let items = ["e", "d", "c", "b", "a"];
    let builder = SetPartitioner::builder(&client, "/work", "host-2", items);
    let ours = builder.time_boundary(Duration::from_secs(1)).start().await?;
    let (share, theirs) = tokio::join!(ours.acquire(), kazoo.ask("repartition"));
    let share = share?;
    assert_eq!(theirs?, "a,c,e");
    assert_eq!(share.items().collect::<Vec<_>>(), ["b", "d"]);
    kazoo.ask("finish").await?;
    share.change_requested().await;
    share.release().await?;
    let share = ours.acquire().await?;
    assert_eq!(share.items().len(), 5);
    share.release().await?;
    ours.finish().await?;
    Ok(())
}
