//! The command `fleet-member`: the member of a fleet that uses our recipes. See
//! [`zoolet_conformance::fleet`].

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zoolet_client::Client;
use zoolet_conformance::fleet_queue::AnyQueue;
use zoolet_protocol::Zxid;
use zoolet_recipes::{
    DistributedAtomicLong, DistributedBarrier, DistributedDoubleBarrier, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, KazooLine,
    LeaderLatch, LockError, Permits, SharedCount, ValueError,
};

use crate::{cost_shell, group_shell, lock_shell, recorded_member};

/// The arguments of `fleet-member`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(value_enum)]
    pub(crate) recipe: Recipe,
    /// `HOST:PORT` of the server.
    address: String,
    /// The path of the recipe.
    pub(crate) path: String,
    /// The folder with the files of the fleet.
    pub(crate) folder: PathBuf,
    /// The name of this member.
    pub(crate) name: String,
    /// The capacity of the recipe.
    pub(crate) capacity: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Recipe {
    Mutex,
    /// Beside kazoo's lock as it is.
    StockMutex,
    /// Beside kazoo's lock with a pattern.
    PatternMutex,
    ReadWrite,
    Semaphore,
    SemaphoreMutex,
    Latch,
    Count,
    Long,
    Queue,
    LeasedQueue,
    IdQueue,
    PriorityQueue,
    DelayQueue,
    KazooQueue,
    KazooLockingQueue,
    Barrier,
    DoubleBarrier,
    Copy,
    Shell,
    Costs,
    Group,
    RecordedMutex,
    RecordedReadWrite,
    RecordedSemaphore,
}

impl Recipe {
    /// Whether members are killed while others wait for what they have.
    fn has_short_sessions(self) -> bool {
        use Recipe::{Group, RecordedMutex, RecordedReadWrite, RecordedSemaphore};
        matches!(self, Group | RecordedMutex | RecordedReadWrite | RecordedSemaphore)
    }
}

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The longest time for which a member holds a lock.
const INSIDE_US_MAX: u64 = 2_000;
/// The longest time for which an impatient attempt waits.
const HURRY_MS_MAX: u64 = 20;
/// How long a take from a queue waits at most.
const TAKE_WITHIN: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(45);
/// How long the ephemerals of a member last that is killed.
const SHORT_SESSION: Duration = Duration::from_secs(5);

/// One of this many attempts is impatient; one of this many writes, keeps the lock to read, or
/// wants all permits.
const SELDOM: u32 = 4;

/// Runs the member until the standard input ends.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    // By default the seed is the time: members that start together may draw the same numbers.
    fastrand::seed(RandomState::new().hash_one(()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut builder = Client::builder();
        if arguments.recipe.has_short_sessions() {
            builder = builder.session_timeout(SHORT_SESSION);
        }
        let client = builder.connect(arguments.address.as_str()).await?;
        let mut told = told();
        println!("ready");
        match arguments.recipe {
            Recipe::Barrier => obey(&client, &arguments.path, told).await?,
            Recipe::DoubleBarrier => enter_and_leave(&client, arguments, told).await?,
            Recipe::Copy => set_and_await(&client, &arguments.path, told).await?,
            Recipe::Shell => lock_shell::obey(&client, &arguments.path, told).await?,
            Recipe::Costs => cost_shell::obey(&client, told).await?,
            Recipe::Group => {
                group_shell::obey(&client, &arguments.path, &arguments.name, told).await?;
            }
            _ if told.recv().await.is_none() => {}
            Recipe::RecordedMutex | Recipe::RecordedReadWrite | Recipe::RecordedSemaphore => {
                recorded_member::contend(arguments, &client, told).await?;
            }
            _ => contend(arguments, &client, told).await?,
        }
        client.close().await?;
        Ok(())
    })
}

/// The lines of the standard input, up to its end.
fn told() -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            // Fails when the process is about to end.
            let _ = sender.send(line);
        }
    });
    receiver
}

/// Sets, removes or awaits a barrier as each line says, and prints the line when it is done.
async fn obey(client: &Client, path: &str, mut told: UnboundedReceiver<String>) -> Outcome<()> {
    let barrier = DistributedBarrier::new(client, path)?;
    while let Some(line) = told.recv().await {
        match line.as_str() {
            "set" => barrier.set().await?,
            "remove" => barrier.remove().await?,
            "wait" => barrier.wait_within(PATIENCE).await?,
            other => return Err(format!("unknown line {other:?}").into()),
        }
        println!("{line}");
    }
    Ok(())
}

/// Enters or leaves a double barrier as each line says, and prints the line when it is done.
async fn enter_and_leave(
    client: &Client,
    arguments: &Arguments,
    mut told: UnboundedReceiver<String>,
) -> Outcome<()> {
    let members = arguments.capacity as usize;
    let barrier = DistributedDoubleBarrier::new(client, &arguments.path, members)?;
    let mut membership = None;
    while let Some(line) = told.recv().await {
        match line.as_str() {
            "enter" => membership = Some(barrier.enter_within(PATIENCE).await?),
            "leave" => {
                let membership = membership.take().ok_or("it has not entered")?;
                membership.leave_within(PATIENCE).await?;
            }
            other => return Err(format!("unknown line {other:?}").into()),
        }
        println!("{line}");
    }
    Ok(())
}

/// Sets a shared count or waits for a value of it as each line says, and prints the line when it is
/// done.
async fn set_and_await(
    client: &Client,
    path: &str,
    mut told: UnboundedReceiver<String>,
) -> Outcome<()> {
    let count = SharedCount::start(client, path, 0).await?;
    while let Some(line) = told.recv().await {
        match line.split_once(' ') {
            Some(("set", number)) => count.set(number.parse()?).await?,
            Some(("await", number)) => {
                let number: i32 = number.parse()?;
                let mut now = count.count()?;
                while now != number {
                    now = count.changed(now).await?;
                }
            }
            _ => return Err(format!("unknown line {line:?}").into()),
        }
        println!("{line}");
    }
    Ok(())
}

async fn contend(
    arguments: &Arguments,
    client: &Client,
    mut told: UnboundedReceiver<String>,
) -> Outcome<()> {
    let Arguments { path, capacity, .. } = arguments;
    let mut log = Log::open(arguments)?;
    let mutex = InterProcessMutex::new(client, path)?;
    let stock = mutex.clone().beside_kazoo(KazooLine::Stock);
    let pattern = mutex.clone().beside_kazoo(KazooLine::WithPattern);
    let lock = InterProcessReadWriteLock::new(client, path)?;
    let semaphore = InterProcessSemaphoreV2::new(client, path, *capacity as usize)?;
    let semaphore_mutex = InterProcessSemaphoreMutex::new(client, path)?;
    let long = DistributedAtomicLong::new(client, path)?;
    let count = match arguments.recipe {
        Recipe::Count => Some(SharedCount::start(client, path, 0).await?),
        _ => None,
    };
    let queue = match clap::ValueEnum::to_possible_value(&arguments.recipe) {
        Some(recipe) if recipe.get_name().ends_with("queue") => {
            let queue = AnyQueue::new(client, recipe.get_name(), path);
            Some(queue.map_err(|error| error.to_string())?)
        }
        _ => None,
    };
    while told.try_recv() != Err(TryRecvError::Disconnected) {
        if let Some(queue) = &queue {
            put_and_take(&mut log, queue).await?;
            continue;
        }
        match (arguments.recipe, &count) {
            (Recipe::Mutex, _) => hold(&mut log, &mutex).await?,
            (Recipe::StockMutex, _) => hold(&mut log, &stock).await?,
            (Recipe::PatternMutex, _) => hold(&mut log, &pattern).await?,
            (Recipe::ReadWrite, _) => read_or_write(&mut log, &lock).await?,
            (Recipe::SemaphoreMutex, _) => hold_permit(&mut log, &semaphore_mutex).await?,
            (Recipe::Latch, _) => lead(&mut log, client, path).await?,
            (Recipe::Semaphore, _) => hold_permits(&mut log, &semaphore).await?,
            (Recipe::Long, _) => match long.increment().await {
                // Other members changed the number before each attempt.
                Err(ValueError::Contended { .. }) => {}
                change => log.note_number(change?.after)?,
            },
            (Recipe::Count, Some(count)) => {
                let before = count.count()?;
                if count.try_set(before, before + 1).await? {
                    log.note_number((before + 1).into())?;
                }
            }
            // The other recipes take one line at a time, and the count was started above.
            (recipe, _) => unreachable!("members do not contend for {recipe:?}"),
        }
    }
    if let Some(queue) = &queue {
        // Otherwise the end of the client could lose an item that is put back.
        queue.settled().await;
    }
    Ok(())
}

/// Puts an item and takes one. The token of both notes is the item, and a put has the weight 1.
async fn put_and_take(log: &mut Log, queue: &AnyQueue) -> Outcome<()> {
    let item = fastrand::i64(1..);
    log.note(1, item, now())?;
    queue.put(item).await?;
    let taken = queue.take_within(TAKE_WITHIN).await;
    if let Some(item) = taken.map_err(|error| error.to_string())? {
        log.note(0, item, now())?;
    }
    Ok(())
}

pub(crate) fn is_seldom() -> bool {
    fastrand::u32(..SELDOM) == 0
}

/// How long the next attempt may wait. Most attempts wait until they succeed.
pub(crate) fn time_to_wait() -> Duration {
    if is_seldom() { Duration::from_millis(fastrand::u64(1..=HURRY_MS_MAX)) } else { PATIENCE }
}

/// The result of an attempt. An impatient one may get nothing.
pub(crate) fn got<T>(time: Duration, result: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match result {
        Err(LockError::TimedOut(_)) if time < PATIENCE => Ok(None),
        result => result.map(Some),
    }
}

pub(crate) async fn stay() {
    tokio::time::sleep(Duration::from_micros(fastrand::u64(..INSIDE_US_MAX))).await;
}

async fn hold(log: &mut Log, mutex: &InterProcessMutex) -> Outcome<()> {
    let time = time_to_wait();
    let Some(guard) = got(time, mutex.acquire_within(time).await)? else { return Ok(()) };
    stay_alone(log, guard.fencing_token()).await?;
    guard.release().await?;
    Ok(())
}

async fn stay_alone(log: &mut Log, token: Zxid) -> Outcome<()> {
    let inside = log.enter(log.capacity)?;
    stay().await;
    log.leave(inside, token.0)
}

async fn hold_permit(log: &mut Log, mutex: &InterProcessSemaphoreMutex) -> Outcome<()> {
    let time = time_to_wait();
    let Some(permit) = got(time, mutex.acquire_within(time).await)? else { return Ok(()) };
    stay_alone(log, permit.fencing_token()).await?;
    permit.release().await?;
    Ok(())
}

async fn lead(log: &mut Log, client: &Client, path: &str) -> Outcome<()> {
    let time = time_to_wait();
    let latch = LeaderLatch::start(client, path, &log.name)?;
    if let Some(term) = got(time, latch.await_leadership_within(time).await)? {
        stay_alone(log, term.fencing_token()).await?;
    }
    latch.close().await?;
    Ok(())
}

async fn read_or_write(log: &mut Log, lock: &InterProcessReadWriteLock) -> Outcome<()> {
    let (time, read, write) = (time_to_wait(), lock.read_lock(), lock.write_lock());
    let reading = if is_seldom() {
        let Some(writing) = got(time, write.acquire_within(time).await)? else { return Ok(()) };
        stay_alone(log, writing.fencing_token()).await?;
        let kept = if is_seldom() { Some(read.acquire_beside(&writing).await?) } else { None };
        writing.release().await?;
        kept
    } else {
        got(time, read.acquire_within(time).await)?
    };
    let Some(reading) = reading else { return Ok(()) };
    let inside = log.enter(1)?;
    stay().await;
    log.leave(inside, reading.fencing_token().0)?;
    reading.release().await?;
    Ok(())
}

async fn hold_permits(log: &mut Log, semaphore: &InterProcessSemaphoreV2) -> Outcome<()> {
    let time = time_to_wait();
    let count = if is_seldom() { log.capacity } else { fastrand::u32(1..log.capacity) };
    let acquired = semaphore.acquire_within(count as usize, time).await;
    let Some(permits): Option<Permits> = got(time, acquired)? else { return Ok(()) };
    let inside = log.enter(count)?;
    stay().await;
    log.leave(inside, permits.fencing_token().0)?;
    permits.release().await?;
    Ok(())
}

/// The file to which holds are written, and the file lock that shows whether exclusion is violated.
struct Log {
    name: String,
    capacity: u32,
    entries: File,
    inside: File,
}

/// A hold that has not ended.
struct Inside {
    weight: u32,
    start: u64,
}

impl Log {
    fn open(arguments: &Arguments) -> io::Result<Self> {
        let open =
            |name| OpenOptions::new().read(true).append(true).open(arguments.folder.join(name));
        Ok(Self {
            name: arguments.name.clone(),
            capacity: arguments.capacity,
            entries: open("entries")?,
            inside: open("inside")?,
        })
    }

    fn enter(&self, weight: u32) -> Outcome<Inside> {
        let operation = if weight == self.capacity {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        fcntl_lock(&self.inside, operation).map_err(|error| {
            format!("exclusion is violated, another process has the file lock: {error}")
        })?;
        Ok(Inside { weight, start: now() })
    }

    fn leave(&mut self, inside: Inside, token: i64) -> Outcome<()> {
        self.note(inside.weight, token, inside.start)?;
        Ok(fcntl_lock(&self.inside, FlockOperation::Unlock)?)
    }

    /// Writes the value to which this member has set a counter.
    fn note_number(&mut self, number: i64) -> Outcome<()> {
        self.note(0, number, now())
    }

    fn note(&mut self, weight: u32, token: i64, start: u64) -> Outcome<()> {
        // One write for the whole line, so that lines of several processes do not mix.
        let line = format!("{} {weight} {token} {start} {}\n", self.name, now());
        Ok(self.entries.write_all(line.as_bytes())?)
    }
}

/// The time in nanoseconds of the monotonic clock, which all processes of the machine share.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let nanoseconds = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    u64::try_from(nanoseconds).expect("the monotonic clock is not negative")
}
