//! The watchdog: a process beside the command, which stops the command when `zoolet lock` no longer can.
//!
//! It holds the reading end of a pipe whose writing end only `zoolet lock` has, and reads from it until when the
//! lock is proved. When the pipe ends, `zoolet lock` is gone; when that time comes near and no later one is told,
//! `zoolet lock` stands still. In both cases the watchdog stops the command before the servers can give the lock
//! to another.

use std::convert::Infallible;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::time::ClockId;
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;
use zoolet_client::Client;

use super::failure::Failure;
use crate::complain;

/// The first argument of the watchdog. No help names it, since nobody calls it by hand.
pub(crate) const ARGUMENT: &str = "lock-watchdog";

/// How often `zoolet lock` looks whether the lock is proved for longer, as a part of the session timeout. It is
/// less than [`GRACE_PART`] of the default of `--kill-after`.
const TELL_PART: u32 = 30;

/// How much later than `zoolet lock` the watchdog stops the command, as a part of the time that the command may
/// take to end: `zoolet lock` does it itself if it can.
const GRACE_PART: u32 = 4;

/// The signals that the watchdog does not obey.
const BLOCKED: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

/// How long the watchdog waits for a stderr that takes nothing, when it has done its work.
const TIME_TO_COMPLAIN: Duration = Duration::from_secs(1);

/// How often to look whether the process group still has a process.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The watchdog as `zoolet lock` sees it.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    pipe: ChildStdin,
    /// Until when it was told that the lock is proved.
    told: Option<Instant>,
}

impl Watchdog {
    /// Starts it. It has nothing to watch yet, and ends with this process.
    pub(super) fn start() -> Result<Self, Failure> {
        let program = program();
        let started = Command::new(&program)
            .arg0("zoolet")
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // What the terminal sends to this process does not reach it.
            .process_group(0)
            .spawn();
        let mut process = started.map_err(|error| {
            let program = program.display();
            let text = format!("{program} cannot be started to watch over the command: {error}");
            Failure::System(io::Error::new(error.kind(), text))
        })?;
        let pipe = process.stdin.take().expect("it is piped");
        Ok(Self { process, pipe, told: None })
    }

    /// Tells it what to watch, before the command begins. It returns whether the lock is still proved for longer
    /// than the command may take to end: not if this process has stood still until now. If it stands still from
    /// now on, the watchdog stops the command.
    ///
    /// If the watchdog is gone, the command begins nevertheless, and [`Watchdog::keep_told`] warns.
    pub(super) async fn is_told_in_time(
        &mut self,
        group: Pid,
        client: &Client,
        time_to_end: Duration,
    ) -> bool {
        let told = self.tell(group, client, time_to_end).await;
        told.map_or(true, |until| until.saturating_duration_since(now()) > time_to_end)
    }

    /// Tells it until when the lock is proved, again and again.
    ///
    /// # Cancellation
    ///
    /// The future is to be polled as long as the command runs.
    pub(super) async fn keep_told(
        &mut self,
        group: Pid,
        client: &Client,
        time_to_end: Duration,
    ) -> Infallible {
        let look_every = client.session_timeout() / TELL_PART;
        loop {
            let Ok(until) = self.tell(group, client, time_to_end).await else { break };
            let now = now();
            let last_moment = until.checked_sub(time_to_end).filter(|&moment| moment > now);
            let next = now + look_every;
            tokio::select! {
                () = tokio::time::sleep_until(last_moment.map_or(next, |moment| moment.min(next))) => {}
                _ = self.process.wait() => break,
            }
        }
        tracing::warn!(
            "the watchdog is gone: if this process is killed or stopped, the command runs on"
        );
        std::future::pending().await
    }

    /// Tells it until when the lock is proved, unless it knows, and returns that.
    async fn tell(
        &mut self,
        group: Pid,
        client: &Client,
        time_to_end: Duration,
    ) -> io::Result<Instant> {
        let until = client.session_valid_until();
        if self.told != Some(until) {
            let order = Order { group, until: on_the_clock(until), time_to_end };
            self.pipe.write_all(order.line().as_bytes()).await?;
            self.told = Some(until);
        }
        Ok(until)
    }

    /// Tells it that this process stops the command now, and how long that takes.
    pub(super) async fn leave_to_this_process(&mut self, group: Pid, kill_after: Duration) {
        let order = Order::of_last_resort(group, clock(), kill_after, self.told.map(on_the_clock));
        let line = order.line();
        let told = self.pipe.write_all(line.as_bytes());
        // The pipe has room, unless the watchdog has stood still for hours.
        let _ = tokio::time::timeout(LOOK_EVERY, told).await;
    }

    /// Ends it, when the command needs none any more.
    pub(super) async fn end(mut self) {
        let _ = self.process.kill().await;
    }
}

/// This program, even if another version has taken its place in the file system.
pub(super) fn program() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() {
        return running;
    }
    std::env::current_exe().unwrap_or(running)
}

/// What the watchdog is to do, as a line of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    /// The process group of the command.
    group: Pid,
    /// Until when the lock is proved, on the clock of [`on_the_clock`].
    until: Duration,
    /// How long the command may take to end.
    time_to_end: Duration,
}

impl Order {
    fn line(self) -> String {
        let (until, time_to_end) = (self.until.as_millis(), self.time_to_end.as_millis());
        format!("{} {until} {time_to_end}\n", self.group)
    }

    /// To kill what `zoolet lock` has not killed in its time: somewhat later, but not after the lock is proved
    /// no more, unless the command was given more time than that.
    fn of_last_resort(
        group: Pid,
        now: Duration,
        kill_after: Duration,
        proved: Option<Duration>,
    ) -> Self {
        let killed = now + kill_after;
        let latest = proved.map_or(killed, |proved| proved.max(killed));
        let until = latest.min(killed + kill_after / GRACE_PART);
        Self { group, until, time_to_end: Duration::ZERO }
    }

    /// Until when the next order is awaited.
    fn deadline(self) -> Duration {
        (self.until + self.time_to_end / GRACE_PART).saturating_sub(self.time_to_end)
    }
}

impl FromStr for Order {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let mut numbers = line.split(' ').map(|word| word.parse::<u64>().map_err(drop));
        let mut next = || numbers.next().ok_or(())?;
        let group = next()?.try_into().map_err(drop)?;
        let [until, time_to_end] = [next()?, next()?].map(Duration::from_millis);
        // To signal the groups 0 and 1 means to signal one's own group, and all processes.
        match group > 1 && next().is_err() {
            true => Ok(Self { group: Pid::from_raw(group), until, time_to_end }),
            false => Err(()),
        }
    }
}

/// A moment on a clock that two processes share, and that counts the time in which the machine is suspended
/// where there is such a clock.
fn on_the_clock(moment: Instant) -> Duration {
    clock() + moment.saturating_duration_since(now())
}

fn clock() -> Duration {
    #[cfg(target_os = "linux")]
    let id = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    let id = ClockId::CLOCK_MONOTONIC;
    id.now().map(Duration::from).unwrap_or_default()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the watchdog, a process of its own, reads the same clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// The watchdog itself.
pub(crate) fn run() -> ExitCode {
    // So that `pkill zoolet` ends what it is meant for, and not what watches over it.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"lock-watchdog");
    // All threads have this mask. What ends `zoolet lock` ends the pipe, and nothing else is to end or stop it: no
    // signal to all processes of a service, and no terminal that lets no process in the background write.
    let _ = BLOCKED.into_iter().collect::<SigSet>().thread_block();
    let (sender, orders) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(order) = line.parse() else { return };
            if sender.send(order).is_err() {
                return;
            }
        }
    });
    // Without an order the command does not begin: see `gate`.
    let Ok(first) = orders.recv() else { return ExitCode::SUCCESS };
    let (last, why) = watch(first, &orders);
    // By another thread: stderr may be a pipe that nobody reads, or a terminal that stands still.
    let (done, is_told) = channel();
    thread::spawn(move || {
        complain(&format!("{why}, so the command is stopped before another can have the lock"));
        let _ = done.send(());
    });
    stop(last);
    let _ = is_told.recv_timeout(TIME_TO_COMPLAIN);
    ExitCode::SUCCESS
}

/// Returns when the command is to be stopped, and why.
fn watch(mut order: Order, orders: &Receiver<Order>) -> (Order, &'static str) {
    loop {
        match orders.recv_timeout(order.deadline().saturating_sub(clock())) {
            Ok(next) => order = next,
            Err(RecvTimeoutError::Disconnected) => return (order, "zoolet lock was killed"),
            Err(RecvTimeoutError::Timeout) => return (order, "zoolet lock stands still"),
        }
    }
}

/// Stops the process group: with SIGTERM, and with SIGKILL after the time it may take, or when the lock is not
/// proved any more.
#[expect(clippy::disallowed_methods, reason = "the watchdog has nothing else to do")]
fn stop(order: Order) {
    let _ = killpg(order.group, Signal::SIGTERM);
    // A process that was stopped by SIGSTOP handles SIGTERM only after SIGCONT.
    let _ = killpg(order.group, Signal::SIGCONT);
    let kill_at = order.until.min(clock() + order.time_to_end);
    while killpg(order.group, None) != Err(Errno::ESRCH) {
        let left = kill_at.saturating_sub(clock());
        if left.is_zero() {
            let _ = killpg(order.group, Signal::SIGKILL);
            return;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(until: u64) -> Order {
        let (until, time_to_end) = (Duration::from_millis(until), Duration::from_millis(400));
        Order { group: Pid::from_raw(7), until, time_to_end }
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        assert_eq!(order(10_000).line(), "7 10000 400\n");
        assert_eq!("7 10000 400".parse(), Ok(order(10_000)));
        for wrong in
            ["7 10000", "7 10000 400 1", "0 10000 400", "1 10000 400", "-7 1 1", "", "7  1"]
        {
            assert_eq!(wrong.parse::<Order>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn the_last_resort_is_not_later_than_the_proof_unless_the_command_has_longer() {
        let until = |kill_after, proved: Option<u64>| {
            let [now, kill_after] = [10_000, kill_after].map(Duration::from_millis);
            let proved = proved.map(Duration::from_millis);
            Order::of_last_resort(Pid::from_raw(7), now, kill_after, proved).until.as_millis()
        };
        assert_eq!(until(400, Some(20_000)), 10_500);
        assert_eq!(until(400, Some(10_410)), 10_410);
        assert_eq!(until(400, Some(10_400)), 10_400);
        assert_eq!(until(4_000, Some(10_400)), 14_000);
        assert_eq!(until(400, None), 10_400);
    }

    #[test]
    fn the_watchdog_is_later_than_the_lock_and_earlier_than_the_end_of_the_proof() {
        assert_eq!(order(10_000).deadline(), Duration::from_millis(9_700));
        assert_eq!(order(0).deadline(), Duration::ZERO);
    }

    #[test]
    fn a_later_order_is_waited_for_until_the_pipe_ends_or_the_time_has_come() {
        let now = u64::try_from(clock().as_millis()).expect("the machine runs for less");
        let later = order(now + 100_000);
        let (sender, orders) = channel();
        sender.send(later).expect("it is received");
        drop(sender);
        assert_eq!(watch(order(now + 50_000), &orders), (later, "zoolet lock was killed"));

        let (_sender, orders) = channel();
        let near = order(now);
        assert_eq!(watch(near, &orders), (near, "zoolet lock stands still"));
    }
}
