//! Records runs with the test kit and repeats them as golden scripts: on the state machine, on our
//! server over TCP and on Apache ZooKeeper. The traces must be equal.

mod runs;

use std::pin::Pin;

use libtest_mimic::Failed;
use similar::TextDiff;
use zoolet_conformance::harness::{InTurn, Section};
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::{self, Setting};
use zoolet_conformance::servers::{ScriptServers, ServerKind};

/// A recorded script.
type Recorded = Result<String, Box<dyn std::error::Error>>;
type Run = fn() -> Pin<Box<dyn Future<Output = Recorded>>>;

macro_rules! runs {
    ($($name:ident)*) => {
        [$((stringify!($name), (|| Box::pin(runs::$name())) as Run),)*]
    };
}

pub(crate) fn tests() -> Section {
    let mut section = Section::new("recordings", 1);
    let runs = runs! {
        a_mutex_with_three_waiters
        a_lock_with_readers_and_writers
        a_semaphore_and_a_leader
        every_operation
        odd_values
        a_client_that_reconnects_with_its_watches
        a_session_that_expires_and_its_watchers
        a_session_that_expires_while_it_is_connected
        sequential_znodes_below_the_root
        a_container_that_is_swept
        a_mutex_of_several_threads
        a_cut_connection_that_receives_nothing
    };
    // Scripts on one server run one after the other, because zxids are counted from the start of
    // each.
    let apache = InTurn::new(ScriptServers::new(ServerKind::Apache));
    for (name, run) in runs {
        for kind in [ServerKind::Core, ServerKind::Wire] {
            let test = move || repeat(run, &mut ScriptServers::new(kind));
            section.test(&[], &format!("{name} ({kind:?})"), test);
        }
        let test = move |servers: &mut ScriptServers| repeat(run, servers);
        section.test_in_turn(&apache, &[Peer::Apache], &format!("{name} (Apache)"), test);
    }
    section.test(&[], "a_script_marks_what_happened_before_it", || {
        told(
            runs::from_the_middle,
            &[
                "# Left out: 1 pings.",
                "# Not repeated: create2 /a, in a session from before (z+2)",
                "# a received: event NodeCreated /a",
                "# Not repeated: the server was started again.",
            ],
        )
    });
    section.test(&[], "a_script_marks_faults", || {
        told(
            runs::with_faults,
            &[
                "# Not repeated, a fault refused it with NoAuth (z+3): a: create2 /refused",
                "# Not repeated, a fault lost it: a: exists /lost",
                "# The answer to the next did not arrive:",
                "b: > cut",
            ],
        )
    });
    section
}

/// Records a run and repeats it.
fn repeat(run: Run, servers: &mut ScriptServers) -> Result<(), Failed> {
    let recorded = record(run())?;
    let is_fresh = recorded.lines().next().is_some_and(|line| line.contains("area fresh"));
    let setting = if is_fresh {
        Setting::Fresh
    } else if recorded.contains("# For the area sweep.") {
        Setting::Sweeping
    } else {
        Setting::Shared
    };
    let repeated = servers.with(setting, |target| script::run(target, &recorded, is_fresh));
    let repeated = repeated
        .and_then(|repeated| repeated)
        .map_err(|error| format!("{error}, in the script:\n{recorded}"))?;
    if repeated == recorded {
        return Ok(());
    }
    let diff = TextDiff::from_lines(&recorded, &repeated);
    let diff = diff.unified_diff().context_radius(6).to_string();
    Err(Failed::from(format!(
        "the trace differs; - is recorded, + is new\n{diff}\nin the script:\n{recorded}"
    )))
}

fn record(run: Pin<Box<dyn Future<Output = Recorded>>>) -> Result<String, Failed> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build()?;
    runtime.block_on(run).map_err(|error| Failed::from(error.to_string()))
}

/// Checks that the script of a run has these lines, which tell what cannot be repeated.
fn told<F: Future<Output = Recorded> + 'static>(
    run: fn() -> F,
    lines: &[&str],
) -> Result<(), Failed> {
    let script = record(Box::pin(run()))?;
    for line in lines {
        if !script.lines().any(|other| other == *line) {
            return Err(Failed::from(format!("{line} is missing in\n{script}")));
        }
    }
    Ok(())
}
