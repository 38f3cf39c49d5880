//! Servers for tests, the faults that a test injects, and what it observes.
//!
//! [`TestServer::start`] starts a server in this process in less than a millisecond, with
//! ZooKeeper's behaviour and a disk in memory. It needs no port and no Java, and hundreds of them
//! run side by side; [`TestServer::reset`] makes one like new for the next test.
//! [`TestServer::connect`] connects a client to it; programs in other languages and processes connect
//! over TCP ([`TestServerBuilder::tcp`]). The repository's `docs/testing.md` is a guide: it tests a lock
//! step by step, and lists published bugs with their tests.
//!
//! Faults are methods of an [`Aim`]: [`TestServer::everyone`], [`TestServer::session`] or
//! [`TestServer::connection`]. The effect of a fault is complete when its method returns, so a test
//! need not wait for it and never sleeps. A fault stays until its [`Fault`] is lifted, or
//! [`TestServer::heal`] ends all faults.
//!
//! # Testing a lock in ten lines
//!
//! ```
//! use zoolet::recipes::InterProcessMutex;
//! use zoolet::testing::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let (one, other) = (server.connect().await?, server.connect().await?);
//! let guard = InterProcessMutex::new(&one, "/locks/stock")?.acquire().await?;
//! let mutex = InterProcessMutex::new(&other, "/locks/stock")?;
//! assert!(mutex.try_acquire().await?.is_none(), "another client holds it");
//! guard.release().await?;
//! assert!(mutex.try_acquire().await?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! Such a test shows one order of events. [`zoolet::sim`](crate::sim) runs the same lock on several
//! machines in thousands of orders, with faults at every moment, and explains the shortest one that
//! breaks it.
//!
//! # Session expiry at once
//!
//! [`Aim::expire`] expires a session. When it returns, the session's ephemeral znodes are deleted
//! and the watches on them have fired:
//!
//! ```
//! use zoolet::recipes::InterProcessMutex;
//! use zoolet::testing::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let (owner, other) = (server.connect().await?, server.connect().await?);
//! let guard = InterProcessMutex::new(&owner, "/locks/stock")?.acquire().await?;
//! server.session(owner.session_id()).expire()?;
//! let next = InterProcessMutex::new(&other, "/locks/stock")?.try_acquire().await?;
//! assert!(next.is_some(), "the lock is free");
//! guard.lost().await;
//! # Ok(())
//! # }
//! ```
//!
//! To test the way to the expiry as well, with its silence, timeout and retries, let time pass for
//! server and clients with tokio's paused clock (`#[tokio::test(start_paused = true)]`, with
//! tokio's feature `test-util`): it jumps forward whenever all tasks wait. Half a minute takes some
//! milliseconds:
//!
//! ```
//! use std::time::Duration;
//! use zoolet::client::Client;
//! use zoolet::recipes::InterProcessMutex;
//! use zoolet::testing::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let builder = Client::builder().session_timeout(Duration::from_secs(30));
//! let (owner, other) = (builder.connect(server.dialer()).await?, server.connect().await?);
//! let guard = InterProcessMutex::new(&owner, "/locks/stock")?.acquire().await?;
//! server.session(owner.session_id()).freeze()?;   // as if its network were gone
//! let begun = tokio::time::Instant::now();
//! let next = InterProcessMutex::new(&other, "/locks/stock")?.acquire().await?;
//! assert!(begun.elapsed() >= Duration::from_secs(30));
//! assert!(next.fencing_token() > guard.fencing_token());
//! # Ok(())
//! # }
//! ```
//!
//! Where the clock cannot be paused, as with clients over TCP, [`TestServer::advance`] moves the
//! clock of the server alone: sessions expire whose timeouts have passed by it, and due containers
//! and TTL znodes are deleted. The clients' clocks stay where they are.
//! [`TestServer::skew_wall_time`] moves only the wall time, which a Stat shows; sessions do not
//! expire by it.
//!
//! # Losing the reply to a create
//!
//! A client that sends a create and loses its connection cannot know whether the server created the
//! znode. A protected create finds the znode again, and so do the locks, so that no znode is left
//! behind in a lock's queue:
//!
//! ```
//! use zoolet::recipes::InterProcessMutex;
//! use zoolet::testing::{RequestFilter, TestServer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let client = server.connect().await?;
//! let create = RequestFilter::next(1).creates().below("/locks/stock");
//! let fault = server.everyone().cut_before_reply(create)?;
//! let guard = InterProcessMutex::new(&client, "/locks/stock")?.acquire().await?;
//! assert_eq!(fault.hits(), 1, "the server created the znode and did not reply");
//! assert_eq!(client.children("/locks/stock").await?.len(), 1, "there is one znode");
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Aim::decide`] asks the test about each request, and [`Fate`] has what can happen to one. The
//! command `zoolet sweep -- COMMAND` does this for every request of a test in any language.
//!
//! # Two processes and a frozen owner
//!
//! The owner of a lock whose process stands still, because its machine swaps, for example, does not
//! know that its session has expired. Only the store that it writes to can tell, by the fencing
//! token. Here the owner's connection is frozen, so the owner still takes the lock for its own:
//!
//! ```
//! use zoolet::client::Client;
//! use zoolet::recipes::{InterProcessMutex, LockState};
//! use zoolet::testing::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::builder().tcp().start().await?;
//! let address = server.connect_string().expect("it listens");   // for other processes
//! let (owner, other) =
//!     (Client::connect(address.as_str()).await?, Client::connect(address.as_str()).await?);
//! let stale = InterProcessMutex::new(&owner, "/locks/stock")?.acquire().await?;
//! let frozen = server.session(owner.session_id()).freeze()?;
//! server.session(owner.session_id()).expire()?;
//! let guard = InterProcessMutex::new(&other, "/locks/stock")?.acquire().await?;
//! assert_eq!(stale.state(), LockState::Held, "it has not heard of the expiry");
//! let last_token = guard.fencing_token();   // what the store saw with the last write
//! assert!(stale.fencing_token() < last_token, "so the store refuses the late write");
//! frozen.lift();
//! stale.lost().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`TestServer::freeze`] freezes the server instead, as `SIGSTOP` does, until
//! [`TestServer::thaw`].
//!
//! # An ensemble whose followers lag and whose leader is lost
//!
//! What one server never shows: a follower that has not applied a write yet, a server that is cut
//! off and still answers reads, and an election. [`TestEnsemble`] is an ensemble of as many servers
//! as a test asks for, in this process. It is a test double, made for tests and nothing else: its
//! servers are views of one list of transactions, and nothing is replicated.
//!
//! ```
//! use std::time::Duration;
//! use zoolet::client::Client;
//! use zoolet::recipes::{InterProcessMutex, LockState};
//! use zoolet::testing::TestEnsemble;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ensemble = TestEnsemble::builder().sync_limit(60).start().await?;   // half a minute
//! let builder = || Client::builder().session_timeout(Duration::from_secs(4));
//! let owner = builder().connect(ensemble.server(1).dialer()).await?;
//! let other = builder().connect(ensemble.server(2).dialer()).await?;
//! let guard = InterProcessMutex::new(&owner, "/locks/stock")?.acquire().await?;
//! ensemble.server(1).cut_off();   // it does not notice, and answers the owner's pings
//! let next = InterProcessMutex::new(&other, "/locks/stock")?.acquire().await?;
//! assert_ne!(guard.state(), LockState::Held, "the owner knows that it may have lost the lock");
//! assert!(next.fencing_token() > guard.fencing_token());
//!
//! ensemble.server(1).rejoin();
//! let old = ensemble.lose_leader()?;   // its process ends, and the others elect another
//! ensemble.serving().await;
//! assert_ne!(ensemble.leader(), Some(old));
//! # Ok(())
//! # }
//! ```
//!
//! [`EnsembleServer`] has the faults of one server: it applies late ([`EnsembleServer::lag_by`],
//! [`EnsembleServer::hold`]), hears nothing ([`EnsembleServer::hold_link`]), is cut off or stopped,
//! and has every fault of [`TestServer`]. With [`TestEnsembleBuilder::tcp`] each server has a port,
//! for clients in any language. `docs/differences.md` lists where it differs from a real ensemble.
//!
//! # Counting requests, and seeing who waits for whom
//!
//! The server counts requests, events, bytes and watches by session and by path. Two results can be
//! subtracted from each other, and [`TestServer::wait_until`] returns as soon as the numbers
//! satisfy a condition:
//!
//! ```
//! use zoolet::recipes::InterProcessMutex;
//! use zoolet::testing::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let recorder = server.record();
//! let (one, other) = (server.connect().await?, server.connect().await?);
//! let guard = InterProcessMutex::new(&one, "/locks/stock")?.acquire().await?;
//! let before = server.session_stats(other.session_id());
//! let mutex = InterProcessMutex::new(&other, "/locks/stock")?;
//! let waiting = tokio::spawn(async move { mutex.acquire().await });
//! server.wait_until(|stats| stats.session(other.session_id()).watches > 0).await;
//! for contender in server.watch_graph().line("/locks/stock") {
//!     println!("{contender}");   // its owner, and the sessions that wait for it
//! }
//! guard.release().await?;
//! waiting.await??.release().await?;
//! let cost = server.session_stats(other.session_id()) - before;
//! assert_eq!((cost.requests.total(), cost.events), (4, 2), "{}", cost.requests);
//! println!("{}", recorder.script());   // the whole run, which can be repeated
//! # Ok(())
//! # }
//! ```
//!
//! [`TestServer::watch_graph`] shows a herd as many watchers on one path, and exports the graph for
//! Graphviz. [`TestServer::record`] records a run as a golden script, which can be repeated on any
//! ZooKeeper server, so that a run that failed becomes a regression test.
//!
//! # Runs that repeat, and other simulators
//!
//! [`TestServerBuilder::seed`] decides the ids of sessions, the wall time and the seeds of the
//! clients of [`TestServer::connect`]; a client of one's own has
//! [`Builder::seed`](crate::client::Builder::seed). With tokio's paused clock, on a runtime with
//! one thread, a run then repeats to the byte. The server starts no thread unless it has a data
//! directory.
//!
//! Server and client also run over any stream of bytes, as that of a simulated network:
//! [`Server::serve_stream`](crate::server::Server::serve_stream) is the server's end and
//! [`StreamDialer`](crate::client::StreamDialer) the client's:
//!
//! ```
//! use zoolet::client::{Client, StreamDialer};
//! use zoolet::server::Server;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = std::sync::Arc::new(Server::builder().seed(7).start().await?);
//! let open = move |_server: String| {
//!     let (ours, theirs) = tokio::io::duplex(64 << 10);   // or a stream of a simulated network
//!     tokio::spawn(server.serve_stream(theirs, ([10, 0, 0, 7], 40_123).into()));
//!     std::future::ready(Ok(ours))
//! };
//! let client = Client::builder().seed(8).connect(StreamDialer::new("one", open)?).await?;
//! client.create("/a").await?;
//! # Ok(())
//! # }
//! ```
//!
//! The repository's `examples/turmoil` runs a lock under a partition on the hosts of turmoil.
//!
//! # Without async
//!
//! [`TestHooks`] connect [`Faults`] and an [`Observer`] with any server, that of
//! [`zoolet::server::blocking`](crate::server::blocking) too:
//!
//! ```
//! use zoolet::client::blocking::Client;
//! use zoolet::recipes::blocking::InterProcessMutex;
//! use zoolet::server::blocking::Server;
//! use zoolet::testing::{Faults, Observer, TestHooks};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (faults, observer) = (Faults::default(), Observer::default());
//! let hooks = TestHooks::new(&faults, &observer);
//! let server = Server::start(zoolet::server::Server::builder().hooks(hooks))?;
//! let (owner, other) = (Client::connect(server.dialer())?, Client::connect(server.dialer())?);
//! let _guard = InterProcessMutex::new(&owner, "/locks/stock")?.acquire()?;
//! let first = faults.connections()?[0];
//! faults.at(first.session).expire()?;
//! assert!(InterProcessMutex::new(&other, "/locks/stock")?.try_acquire()?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Coming from ZooKeeper's or Curator's test kit
//!
//! | ZooKeeper's `ControlCommand` | here |
//! |---|---|
//! | `SHUTDOWN` | [`TestServer::stop`] |
//! | `CLOSECONNECTION` | [`Aim::cut`] |
//! | `EXPIRESESSION` | [`Aim::expire`] |
//! | `REJECTCONNECTIONS` | [`Aim::refuse`] |
//! | `ADDDELAY` | [`Aim::delay`] |
//! | `FAILREQUESTS` | [`Aim::fail`] |
//! | `NORESPONSE` | [`Aim::drop_replies`] |
//! | `RESET` | [`TestServer::heal`] |
//! | `ELECTNEWLEADER` | [`TestEnsemble::elect`]; with a single server [`TestServer::restart`] |
//!
//! | Curator's kit | here |
//! |---|---|
//! | `new TestingServer()` | [`TestServer::start`], or [`TestServerBuilder::tcp`] for a port |
//! | `getConnectString()`, `getPort()` | [`TestServer::connect_string`], [`TestServer::address`] |
//! | `getTempDirectory()` | [`TestServerBuilder::temp_dir`] |
//! | `stop()`, `start()`, `restart()` | [`TestServer::stop`], [`TestServer::restart`]: same port, same data |
//! | `close()` | dropping the last clone |
//! | `new TestingCluster(3)`, `killServer(..)` | [`TestEnsemble::start`], [`EnsembleServer::stop`] |
//! | `KillSession2.kill(client)` | [`Aim::expire`], which expires the session on the server |
//! | `Timing2` | not needed: tests do not wait for real time |

pub use zoolet_testkit::{
    Aim, ConnectionId, ConnectionInfo, Contender, EnsembleDialer, EnsembleEvent, EnsembleServer,
    Fate, Fault, FaultError, Faults, Observer, PathStats, Recorder, RequestFilter, RequestInfo,
    Requests, Scope, ServerRole, SessionStats, Stats, TestDialer, TestEnsemble,
    TestEnsembleBuilder, TestEnsembleError, TestHooks, TestServer, TestServerBuilder,
    TestServerError, WatchGraph, WatchedPath, Watcher,
};
