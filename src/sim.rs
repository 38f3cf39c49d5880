//! Runs programs that use ZooKeeper in a simulated world, in which everything goes wrong, and explains
//! what breaks them.
//!
//! A [`Sim`] has machines. Each runs a program: a closure that gets a [`World`], connects clients and
//! does its work. One seed decides everything that happens: connections that are cut, replies that are
//! lost, messages that are late, machines that stand still or crash, clocks that jump, a server that
//! is killed or whose disk loses power while it writes. Time is virtual, so that minutes take
//! milliseconds.
//!
//! # Testing a lock in ten lines
//!
//! ```
//! use std::time::Duration;
//!
//! use zoolet::recipes::InterProcessMutex;
//! use zoolet::sim::Sim;
//!
//! Sim::new()
//!     .machine("worker", 3, |world| async move {
//!         let client = world.connect().await?;
//!         let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
//!         while world.goes_on() {
//!             let section = world.enter("stock", mutex.acquire().await?);
//!             world.sleep_up_to(Duration::from_millis(300)).await;
//!             section.leave().release().await?;
//!         }
//!         Ok(())
//!     })
//!     .sweep(0..10); // in a test: 0..1_000
//! ```
//!
//! [`Sim::sweep`] runs the seeds on all cores. It panics if one of them fails, so a test is this and
//! `#[test]`; [`sim_test!`](crate::sim_test) is the same in one line.
//!
//! # What is checked
//!
//! - **Exclusion.** [`World::enter`] enters a critical section with what permits it: a guard, a closure
//!   that tells whether the lock is held, or `()` for a lock that does not tell. Two machines that run
//!   must not be in a section while both believe to hold the lock, and fencing tokens must increase. A
//!   machine that stood still while another took the lock must notice before it
//!   [leaves](Section::leave). [`World::enter_shared`] and [`World::enter_with_permits`] are for locks
//!   with several holders; a [`LeaderLatch`](crate::recipes::LeaderLatch) can be held as well, which
//!   checks that at most one leads.
//! - **Invariants** over a znode ([`Sim::invariant`]), checked after each write, once a crash cannot undo
//!   it. The znode must exist in one of the runs at least.
//! - **Everybody finishes.** The faults end. From then on each machine must have a whole round of its
//!   work without faults. So a lock that nobody can acquire any more is found.
//! - **Nobody waits in vain**, if the programs wait for nothing but locks, and enter a section whenever
//!   they hold one: with [`Sim::nobody_waits_in_vain`] a machine is found that waits for a lock which nobody holds, for
//!   example since a wakeup was lost. Without it a machine may wait for what nobody sends any more, a
//!   job say. [`Sim::sweep`] warns of a lock that nobody acquires in any of ten runs, if it is an
//!   ephemeral znode and the programs check nothing else; with the option it fails.
//! - **No panic, and no error that faults do not explain.** A lost connection, session or lock may end
//!   a program, which is then started again, as by a supervisor. A `NodeExists` that the program did
//!   not expect is a violation.
//! - **What a program checks itself**, by [`World::check`] and [`World::fail`].
//! - **The end** ([`Sim::at_end`]): what must be true when all is done.
//!
//! # What a failure tells
//!
//! A lock without a look at the session. `holds_on` takes it by an ephemeral znode, and believes to
//! hold it until it deletes that:
//!
//! ```
//! # use std::time::Duration;
//! # use zoolet::client::Error;
//! # use zoolet::protocol::{CreateMode, ErrorCode};
//! # use zoolet::sim::{FaultKind, Sim};
//! let sim = Sim::new().machine("worker", 2, |world| async move {
//!     let client = world.connect().await?;
//!     while world.goes_on() {
//!         match client.create("/lock").mode(CreateMode::Ephemeral).await {
//!             Ok(_) => {}
//!             Err(Error::Refused { code: ErrorCode::NODE_EXISTS, .. }) => {
//!                 world.sleep_up_to(Duration::from_millis(100)).await;
//!                 continue;
//!             }
//!             Err(error) => return Err(error.into()),
//!         }
//!         let section = world.enter("stock", ());
//!         world.sleep_up_to(Duration::from_millis(500)).await;
//!         section.leave();
//!         client.delete("/lock").await?;
//!     }
//!     Ok(())
//! });
//! # let sim = sim.only(&[FaultKind::Pauses]);
//! let failure = sim.search(0..1_000).unwrap_err();
//! println!("{failure}");
//! # let text = failure.to_string();
//! # assert!(text.contains("FAULT: it stands still for"), "{text}");
//! # assert!(text.contains("ZOOLET_SIM_REPLAY=0:faults=2:hurry=256"), "{text}");
//! ```
//!
//! The run that failed had many faults. The smallest one that still fails has one. Of its story:
//!
//! ```text
//! seed 0 fails: worker-0 believes that it still holds "stock", and worker-1 has entered it since
//! the smallest run that fails in the same way:
//!      447 ms  worker-0    ENTERS "stock"
//!      580 ms  worker-0    FAULT: it stands still for 2445 ms
//!     2448 ms  worker-1    reply to create2 /lock (ephemeral): NodeExists (57 times)
//!     2500 ms  worker-0    the server expires its session 0x18bcfe568000001
//!     2532 ms  worker-1    ENTERS "stock"
//!     3025 ms  worker-0    VIOLATION: worker-0 believes that it still holds "stock", and worker-1 has ..
//! hash 98a64b38d2851883; again: ZOOLET_SIM_REPLAY=0:faults=2:hurry=256
//! timeline: target/zoolet-sim/the_lock_excludes-0.html
//! ```
//!
//! The page shows the machines as lanes, with sections as bars, faults, requests, and the moment of the
//! violation. `ZOOLET_SIM_REPLAY=.. cargo test the_lock_excludes -- --exact` runs the same again, message by
//! message, as does [`Sim::replay`]; [`Sim::try_replay`] returns the failure.
//! `ZOOLET_SIM_SEEDS=0..100000` runs more seeds.
//!
//! # What goes wrong, and how often
//!
//! [`FaultKind`] lists the kinds. [`Sim::rate`] says how often one happens, [`Sim::without`] and
//! [`Sim::only`] choose. Each seed has about half of the kinds, and those more often: a run in which
//! everything goes wrong gets nowhere. Half of the faults wait until their machine is in a critical
//! section, where they do the most harm.
//!
//! The work between the requests is [`World::sleep`] and [`World::sleep_up_to`]. It takes seconds
//! longer at times ([`FaultKind::SlowWork`]), so that a lock is held for longer than a session lasts
//! without its client.
//!
//! # On an ensemble
//!
//! [`Sim::ensemble`] puts three servers in the place of one. Followers lag, and servers are cut off from
//! each other with their clients, which they may go on to serve until they notice. A follower answers
//! reads from its own state, which may be old; a
//! client that reconnects may get to another server. It is a test double of an ensemble, in one process
//! and one thread, and clients see what they see of a real one:
//!
//! ```
//! use std::time::Duration;
//!
//! use zoolet::recipes::LeaderLatch;
//! use zoolet::sim::Sim;
//!
//! Sim::new()
//!     .ensemble()
//!     .machine("candidate", 3, |world| async move {
//!         let client = world.connect().await?;
//!         while world.goes_on() {
//!             let latch = LeaderLatch::start(&client, "/leader", world.name())?;
//!             let section = world.enter("leadership", latch);   // at most one leads
//!             section.await_leadership().await?;
//!             world.sleep_up_to(Duration::from_millis(300)).await;
//!             section.leave().close().await?;
//!         }
//!         Ok(())
//!     })
//!     .sweep(0..5);
//! ```
//!
//! # What a program must not do
//!
//! A run repeats only if all that happens follows from its seed. So a program takes random numbers from
//! [`World::random`], starts tasks with [`World::spawn`], reads the time from tokio's clock or
//! [`World::wall_clock`], writes `biased;` into each `select!`, and lets no two tasks wait for one
//! `tokio::sync::watch`, which wakes them in a random order (what clients and recipes return does not).
//! [`Sim::sweep`] runs the first seed twice, and shows where two runs differ.
//!
//! It is for async programs, and for clients that `World` makes. Threads and sockets are not
//! simulated.

pub use zoolet_testkit::sim::{
    Failure, FaultKind, Held, MachineResult, RunResult, Schedule, Section, Sim, Violation,
    ViolationKind, World,
};
