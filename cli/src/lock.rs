//! `zoolet lock`: a command that runs while a lock is held.

mod failure;
pub(crate) mod gate;
mod held_lock;
mod job;
mod signals;
mod terminal;
pub(crate) mod watchdog;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use zoolet_client::{Client, ConnectionState, Error};

use self::failure::{Failure, Loss};
use self::held_lock::{HeldLock, LockKind};
use self::job::{Ending, Job};
use self::signals::Signals;
use crate::connect_options::ConnectOptions;
use crate::connecting::Attempts;
use crate::logging::{self, LogLevel};
use crate::server_options::values;
use crate::{complain, notice};

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Lock {
    /// The znode that names the lock; it is created if it is missing
    #[arg(value_name = "PATH", value_parser = znode)]
    path: String,

    /// The command, and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,

    /// Share the lock with others who share it, to read say
    #[arg(long, help_heading = KIND)]
    #[arg(group = "kind")]
    shared: bool,

    /// Hold the lock alone: the default
    #[arg(long, short = 'x', group = "kind", help_heading = KIND)]
    exclusive: bool,

    /// Take the mutex of programs that use InterProcessMutex
    #[arg(long, group = "kind", help_heading = KIND)]
    mutex: bool,

    /// Take one of N permits; everyone must name the same number
    #[arg(long, value_name = "N", group = "kind", help_heading = KIND)]
    #[arg(value_parser = values::number::<u32>(1..=values::INT_MAX))]
    semaphore: Option<u32>,

    /// Give up after this time, connecting included; 0 is as --nonblock [default: never]
    #[arg(long, short, value_name = "TIME", value_parser = values::time, help_heading = WAITING)]
    wait: Option<Duration>,

    /// Give up at once if the lock is held, and after 15 seconds if no server can be reached
    #[arg(long, short, conflicts_with = "wait", help_heading = WAITING)]
    nonblock: bool,

    /// The exit status when the lock was not had
    #[arg(long, short = 'E', value_name = "STATUS", default_value_t = 1, help_heading = WAITING)]
    #[arg(value_parser = values::number::<u8>(0..=255))]
    conflict_exit_code: u8,

    /// How long a command may take to end after SIGTERM when the lock is lost, before SIGKILL
    /// [default: 5s, or a sixth of the session timeout if that is less]
    #[arg(long, short, value_name = "TIME", value_parser = values::time)]
    kill_after: Option<Duration>,

    #[command(flatten)]
    server: ConnectOptions,

    /// How much to log [default: warn, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

impl Lock {
    /// Runs the command under the lock, and returns the exit status.
    pub(crate) fn run(self) -> ExitCode {
        logging::start(self.log_level, LogLevel::Warn);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(self.run_locked()),
            Err(error) => Err(Failure::System(error)),
        };
        match result {
            Ok(code) => ExitCode::from(code),
            Err(failure) => {
                if failure.is_told() {
                    complain(&failure);
                }
                ExitCode::from(failure.exit_code(self.conflict_exit_code))
            }
        }
    }

    async fn run_locked(&self) -> Result<u8, Failure> {
        // Before the lock is acquired, so that no signal ends this process without a release.
        let mut signals = Signals::new().map_err(Failure::System)?;
        let mut deadline = std::pin::pin!(self.deadline());
        let attempts = Attempts::default();
        let told = attempts.tell_meanwhile(&self.server.server, self.patience(), notice);
        let client = tokio::select! {
            // What takes long is told before the wait is over, even if both are due.
            biased;
            client = self.connect(&attempts) => client?,
            never = told => match never {},
            () = &mut deadline => {
                return Err(self.no_server(format!(" in time{}", attempts.last())));
            }
            signal = signals.next() => return Err(Failure::Signal(signal)),
        };
        let is_patient = !self.nonblock && self.wait.is_none_or(|wait| !wait.is_zero());
        let held = HeldLock::acquire(&client, self.kind(), is_patient, &self.path, &self.command);
        let acquired = tokio::select! {
            acquired = held => acquired,
            () = deadline => Err(self.waited_in_vain(&client)),
            signal = signals.next() => Err(Failure::Signal(signal)),
        };
        let result = match acquired {
            Ok(held) => self.run_under(held, &client, &mut signals).await,
            Err(failure) => Err(failure),
        };
        // The server deletes a znode that is left in line when the session ends.
        let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
        result
    }

    /// How long to wait for a server and the lock, if there is a limit for both.
    fn patience(&self) -> Option<Duration> {
        self.wait.filter(|wait| !wait.is_zero())
    }

    /// The deadline for the lock.
    async fn deadline(&self) {
        match self.patience() {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    }

    async fn connect(&self, attempts: &Attempts) -> Result<Client, Failure> {
        // A little later than the deadline, so that the deadline ends the wait.
        let limit = self.wait.unwrap_or_default() + Duration::from_secs(1);
        let builder = self.server.builder(limit.max(CONNECT_WITHIN)).map_err(Failure::Security)?;
        let builder = attempts.of(builder);
        let builder = builder.proven_ahead(self.kill_after.unwrap_or(KILL_AFTER));
        builder.connect(self.server.server.as_str()).await.map_err(|error| match error {
            Error::Unreachable(cause) => self.no_server(format!(" ({cause})")),
            error => self.no_server(format!(" ({error})")),
        })
    }

    fn no_server(&self, why: String) -> Failure {
        Failure::NoServer { server: self.server.server.clone(), why }
    }

    fn lost(&self, how: Loss) -> Failure {
        Failure::Lost { path: self.path.clone(), how }
    }

    fn waited_in_vain(&self, client: &Client) -> Failure {
        let is_connected = client.state().borrow().is_some_and(ConnectionState::is_connected);
        if is_connected {
            Failure::Conflict(self.path.clone())
        } else {
            self.no_server(" in time".to_owned())
        }
    }

    fn kind(&self) -> LockKind {
        match self.semaphore {
            Some(permits) => LockKind::Semaphore { permits: permits as usize },
            None if self.shared => LockKind::Shared,
            None if self.mutex => LockKind::Mutex,
            None => LockKind::Exclusive,
        }
    }

    /// Runs the command under a lock, and releases it.
    async fn run_under(
        &self,
        held: HeldLock,
        client: &Client,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        let timeout = client.session_timeout();
        let notice = timeout / NOTICE_MAX;
        let kill_after = self.kill_after.unwrap_or_else(|| KILL_AFTER.min(notice));
        if kill_after > notice {
            tracing::warn!(
                "--kill-after is longer than a sixth of the session timeout, of which the \
                 server grants {timeout:?}: when the server is silent, others may have the lock \
                 before the command is gone"
            );
        }
        signals.take_stops().map_err(Failure::System)?;
        let job = Job::start(&self.command, &held)?;
        match job.run(&held, client, signals, kill_after).await? {
            Ending::Ended(code) if held.release(client).await => Ok(code),
            Ending::Ended(code) => Err(self.lost(Loss::Ended(code))),
            Ending::NotBegun(failure) => Err(failure),
            Ending::Stopped(loss) => Err(self.lost(loss)),
        }
    }
}

fn znode(path: &str) -> Result<String, zoolet_protocol::PathError> {
    zoolet_protocol::ZPath::check(path).map(|()| path.to_owned())
}

/// The largest part of the session timeout that a command may take to end after the lock was lost. The
/// client keeps the lock proved that far ahead
/// ([`Builder::proven_ahead`](zoolet_client::Builder::proven_ahead)).
const NOTICE_MAX: u32 = 6;

/// How long a command may take to end by default, if the session timeout allows it.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// How long to look for a server without a deadline: the client's own default.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// How long to wait for the server to end the session. If the request is lost, the session expires.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

const KIND: &str = "Kind of lock";
const WAITING: &str = "Waiting";

const AFTER_HELP: &str = "\
By itself and with --shared the command takes the two sides of Curator's InterProcessReadWriteLock:
many may share the lock, or one holds it alone. --mutex is Curator's InterProcessMutex, --semaphore
its InterProcessSemaphoreV2. A path is for one of the three: they do not see each other, and a
mixture is refused where it is noticed.

TIME is a number of seconds, or one with units: 10s, 500ms, 1m30s.

The command has in its environment
  ZOOLET_FENCING_TOKEN  a number that grows with each holder. Hand it to what the lock protects, and
                        have that refuse what comes with a smaller one.
  ZOOLET_LOCK_PATH      the znode by which the lock is held. Its data is HOST:PID COMMAND, which
                        `zoolet cli locks PATH` shows to others.

The command runs in a process group of its own. SIGINT, SIGTERM, SIGHUP and SIGTSTP are passed on to
it. When the lock is lost, or cannot be vouched for any longer than --kill-after because the servers
do not prove that the session lives, the group gets SIGTERM, and after --kill-after SIGKILL: the
command is gone before anyone else can have the lock. Choose --kill-after no longer than a sixth of
--session-timeout: the servers are asked once in a third of that, and a command is never stopped
more than a sixth ahead. What it leaves in the background when it ends by itself is not waited for.

A second process, the watchdog, does the same when zoolet is killed with SIGKILL, and in time when
zoolet is stopped with SIGSTOP. Nothing stops the command in time when both are killed or stopped,
when a process has left the group or runs as another user, or when the machine stands still as a
whole. Then the fencing token is what protects: only what checks it is safe in each case.

Exit status: that of the command, or 128 and the number of the signal that killed it, and
    1  the lock was not had: it is held, and --nonblock or --wait said so (--conflict-exit-code)
    2  the arguments are wrong, or a file that they name cannot be used
   69  no server: after --wait, or without it, or with --wait 0, after 15 seconds
   70  the server refused
   71  the system refused what this needs
   75  the lock was lost, and the command stopped if it still ran
   77  the access control lists do not allow it
   78  the path is used for a lock of another kind
  126  the command cannot be executed
  127  there is no such command
  128 and more  a signal came before the command was started

Examples:
  zoolet lock /locks/backup -- backup.sh --full        one backup at a time, in all the cluster
  zoolet lock /locks/backup --nonblock -- backup.sh    or none
  zoolet lock /locks/site --shared -- rsync site: .    many who read, while nobody holds it alone
  zoolet lock /locks/mail --semaphore 3 -- send-mail   three at a time";
