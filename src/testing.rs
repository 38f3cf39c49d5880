//! Servers for tests, what may go wrong with them, and what is seen of them.
//!
//! [`TestServer::start`] starts a server in this process in less than a millisecond, with ZooKeeper's
//! behaviour and a disk in memory. It needs no port and no Java, and hundreds of them run beside each
//! other. [`TestServer::connect`] gives a client of it; programs in other languages and processes come
//! over TCP ([`TestServerBuilder::tcp`]).
//!
//! The faults are methods of an [`Aim`]: [`TestServer::everyone`], [`TestServer::session`] or
//! [`TestServer::connection`]. What one says holds when it returns, so a test need not wait for it, and
//! never sleeps. It stays until its [`Fault`] is lifted, or [`TestServer::heal`] ends all of them.
//!
//! # Testing a lock in ten lines
//!
//! ```
//! use zoolet::InterProcessMutex;
//! use zoolet::testing::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let (one, other) = (server.connect().await?, server.connect().await?);
//! let guard = InterProcessMutex::new(&one, "/locks/stock")?.acquire().await?;
//! let mutex = InterProcessMutex::new(&other, "/locks/stock")?;
//! assert!(mutex.try_acquire().await?.is_none(), "the other has it");
//! guard.release().await?;
//! assert!(mutex.try_acquire().await?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Expiry in no time
//!
//! A session that is to be over is ended by hand. Its ephemerals are gone when that returns, and whoever
//! waits for them is next:
//!
//! ```
//! use zoolet::InterProcessMutex;
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
//! Where the way to it matters too, the silence, the time-out and the retries, let time pass for all with
//! tokio's paused clock (`#[tokio::test(start_paused = true)]`, with tokio's feature `test-util`): it
//! jumps whenever everybody waits. Half a minute takes some milliseconds:
//!
//! ```
//! use std::time::Duration;
//! use zoolet::testing::TestServer;
//! use zoolet::{Client, InterProcessMutex};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let builder = Client::builder().session_timeout(Duration::from_secs(30));
//! let (owner, other) = (builder.connect(server.dialer()).await?, server.connect().await?);
//! let guard = InterProcessMutex::new(&owner, "/locks/stock")?.acquire().await?;
//! server.session(owner.session_id()).freeze()?;   // as if its network was gone
//! let begun = tokio::time::Instant::now();
//! let next = InterProcessMutex::new(&other, "/locks/stock")?.acquire().await?;
//! assert!(begun.elapsed() >= Duration::from_secs(30));
//! assert!(next.fencing_token() > guard.fencing_token());
//! # Ok(())
//! # }
//! ```
//!
//! Where the clock cannot be paused, as with clients over TCP, [`TestServer::advance`] moves that of the
//! server alone: sessions that were not heard of for so long expire, and containers and TTL znodes go
//! whose time has come. The clients' clocks stay. [`TestServer::skew_wall_time`] moves only the time that
//! is in a Stat, and lets sessions alone.
//!
//! # Losing the reply to a create
//!
//! A client that sends a create and loses its connection cannot know whether the znode is there. A
//! protected create finds it again, and so do the locks, so that no place is left behind that nobody
//! gives up:
//!
//! ```
//! use zoolet::InterProcessMutex;
//! use zoolet::testing::{RequestFilter, TestServer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let client = server.connect().await?;
//! let create = RequestFilter::next(1).creates().below("/locks/stock");
//! let fault = server.everyone().cut_before_reply(create)?;
//! let guard = InterProcessMutex::new(&client, "/locks/stock")?.acquire().await?;
//! assert_eq!(fault.hits(), 1, "the create was carried out, and not answered");
//! assert_eq!(client.children("/locks/stock").await?.len(), 1, "there is one place");
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Two processes and a frozen owner
//!
//! An owner that stands still, since its machine swaps, say, does not know that its session is over. Only
//! who is written to can tell, by the fencing token. Here the owner's connection stands still, and so it
//! still believes what it believed:
//!
//! ```
//! use zoolet::testing::TestServer;
//! use zoolet::{Client, InterProcessMutex, LockState};
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
//! assert_eq!(stale.state(), LockState::Held, "it has heard of nothing");
//! let last_token = guard.fencing_token();   // what the store has seen with the last write
//! assert!(stale.fencing_token() < last_token, "so the store refuses the late write");
//! frozen.lift();
//! stale.lost().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`TestServer::freeze`] is the other side of it: the server stands still, as with `SIGSTOP`, and
//! [`TestServer::thaw`] lets it go on.
//!
//! # What it cost, and who waits for whom
//!
//! Requests, events, bytes and watches are counted by session and by path. Two looks can be subtracted
//! from each other, and [`TestServer::wait_until`] returns as soon as the numbers are as they should be:
//!
//! ```
//! use zoolet::InterProcessMutex;
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
//! for place in server.watch_graph().line("/locks/stock") {
//!     println!("{place}");   // whose it is, and who waits for it
//! }
//! guard.release().await?;
//! waiting.await??.release().await?;
//! let cost = server.session_stats(other.session_id()) - before;
//! assert_eq!((cost.requests.total(), cost.events), (4, 2), "{}", cost.requests);
//! println!("{}", recorder.script());   // all of it, to be repeated
//! # Ok(())
//! # }
//! ```
//!
//! [`TestServer::watch_graph`] shows a herd as many watchers on one path, and draws itself for Graphviz.
//! [`TestServer::record`] gives the trace of a run as a golden script, which can be repeated on any
//! ZooKeeper server, so that a test that failed becomes one that is kept. All this is there for every
//! server: [`Server::observe`](crate::Server::observe).
//!
//! # Without async
//!
//! [`Faults`] go with every server that [`Builder::faults`](crate::Builder::faults) gives them to, that of
//! [`zoolet::blocking`](crate::blocking) too:
//!
//! ```
//! use zoolet::blocking::{Client, InterProcessMutex, Server};
//! use zoolet::testing::Faults;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let faults = Faults::default();
//! let server = Server::start(zoolet::Server::builder().faults(&faults))?;
//! let (owner, other) = (Client::connect(server.dialer())?, Client::connect(server.dialer())?);
//! let _guard = InterProcessMutex::new(&owner, "/locks/stock")?.acquire()?;
//! let first = faults.connections()?[0];
//! faults.at(first.session).expire()?;
//! assert!(InterProcessMutex::new(&other, "/locks/stock")?.try_acquire()?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Where is what I know from elsewhere?
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
//! | `ELECTNEWLEADER` | one server elects nobody; its clients see the same with [`TestServer::restart`] |
//!
//! | Curator's kit | here |
//! |---|---|
//! | `new TestingServer()` | [`TestServer::start`], or [`TestServerBuilder::tcp`] for a port |
//! | `getConnectString()`, `getPort()` | [`TestServer::connect_string`], [`TestServer::address`] |
//! | `getTempDirectory()` | [`TestServerBuilder::temp_dir`] |
//! | `stop()`, `start()`, `restart()` | [`TestServer::stop`], [`TestServer::restart`]: same port, same data |
//! | `close()` | the end of the last clone |
//! | `KillSession2.kill(client)` | [`Aim::expire`], which ends the session on the server too |
//! | `Timing2` | not needed: no time passes |

mod builder;
mod dialer;
mod error;
mod observation;
mod port;
mod server;

pub use zoolet_core::ConnectionId;
pub use zoolet_server::faults::{
    Aim, ConnectionInfo, Fault, FaultError, Faults, RequestFilter, Scope,
};
pub use zoolet_server::observe::{
    Observer, PathStats, Place, Recorder, Requests, SessionStats, Stats, WatchGraph, WatchedPath,
    Watcher,
};

pub use self::builder::TestServerBuilder;
pub use self::dialer::TestDialer;
pub use self::error::TestServerError;
pub use self::server::TestServer;
