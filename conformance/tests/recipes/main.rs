//! Our recipes over TCP, on our server, on Apache's, and on an ensemble of Apache's: what happens
//! when sessions end, znodes are deleted, connections are cut and waiting is given up. After each
//! scenario no ephemeral znode and no watch is left, though all its clients are connected.

mod barriers;
mod counters;
mod leader_killed;
mod leaders;
mod multi_lock;
mod mutex;
mod read_write;
mod scene;
mod semaphore;
mod shared_values;
mod watches;

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use scene::Scene;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::harness;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_server::Config;

/// What came of a scenario.
type Outcome = Result<(), Failed>;

type Scenario = fn(Arc<Scene>) -> Pin<Box<dyn Future<Output = Outcome>>>;

/// Longer than any scenario takes.
const PATIENCE: Duration = Duration::from_secs(60);

macro_rules! scenarios {
    ($($recipe:ident: $($name:ident)*;)*) => {
        [$($((
            concat!(stringify!($recipe), "::", stringify!($name)),
            (|scene| Box::pin($recipe::$name(scene))) as Scenario,
        ),)*)*]
    };
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Watches are counted for the whole server.
    arguments.test_threads = Some(1);
    let scenarios = scenarios! {
        mutex:
            one_at_a_time_in_the_order_of_their_tokens
            who_holds_it_is_told_that_its_session_is_over
            who_waits_takes_a_new_place_in_a_new_session
            who_holds_it_is_told_that_its_znode_is_gone
            who_waits_takes_a_new_place_when_its_znode_is_gone
            a_cut_connection_costs_no_place
            what_happened_without_a_connection_is_heard_after
            a_lost_answer_leaves_one_place
            who_gives_up_lets_nobody_in
            who_gives_up_without_a_connection_leaves_nothing
            a_deadline_holds_with_and_without_a_connection
            who_must_not_read_the_znode_ahead_is_let_in;
        read_write:
            who_writes_is_alone
            who_comes_after_a_waiting_writer_waits
            who_keeps_reading_keeps_writers_out
            a_writer_whose_session_is_over_lets_readers_in
            a_writer_that_gives_up_lets_the_readers_behind_it_in
            a_deleted_reader_is_not_waited_for
            a_cut_connection_costs_no_place;
        semaphore:
            never_more_than_there_are
            the_permits_of_a_session_that_is_over_are_free
            a_deleted_permit_is_free
            who_gives_up_in_front_lets_the_next_one_look
            a_cut_connection_costs_no_place
            a_lost_answer_takes_no_permits_twice;
        multi_lock:
            opposite_orders_do_not_wait_for_each_other
            all_are_free_when_the_session_is_over
            a_deleted_place_costs_all_places_and_no_exclusion
            who_gives_up_leaves_all_lines
            a_lost_answer_leaves_one_place_in_each_line;
        leaders:
            one_leads_after_another
            the_next_leads_when_the_session_is_over
            the_next_leads_when_the_znode_is_gone
            a_cut_connection_costs_no_leadership
            who_is_selected_stands_in_the_line_of_the_mutex;
        counters:
            each_number_is_reached_once
            no_change_is_made_twice_over_cut_connections
            all_copies_come_to_the_last_count;
        barriers:
            all_wait_until_it_is_removed
            a_wait_outlives_its_connection_and_its_session
            a_wait_that_is_given_up_leaves_nothing;
        shared_values:
            a_copy_follows_over_cut_connections_and_sessions
            a_value_that_was_not_seen_is_not_overwritten;
        watches:
            a_dropped_one_shot_watch_takes_no_lasting_one_with_it
            a_one_shot_watch_replaces_no_lasting_one
            a_watch_under_way_outlives_the_drop_of_another
            places_in_line_leave_a_lasting_watch_alone;
    };
    let servers = [Kind::Zoolet, Kind::Apache, Kind::Ensemble]
        .map(|kind| Lazy { kind, server: Arc::default() });
    let mut trials = Vec::new();
    for server in &servers {
        for (name, scenario) in scenarios {
            trials.push(server.trial(name, move |server| play(server, name, scenario)));
        }
    }
    let ensemble = &servers[2];
    trials.push(ensemble.trial("leader_killed::locks_outlive_it", leader_killed::locks_outlive_it));
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers go before the process does.
    drop(servers);
    conclusion.exit_code()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zoolet,
    Apache,
    Ensemble,
}

/// A server, started when the first test needs it.
struct Lazy {
    kind: Kind,
    server: Arc<Mutex<Option<Server>>>,
}

/// A running server.
enum Server {
    Zoolet(Wire),
    Apache(Apache),
    Ensemble(Ensemble),
}

impl Lazy {
    fn trial(
        &self,
        name: &str,
        test: impl FnOnce(&mut Server) -> Outcome + Send + 'static,
    ) -> Trial {
        let (kind, server) = (self.kind, Arc::clone(&self.server));
        let (peers, prefix): (&[Peer], _) = match kind {
            Kind::Zoolet => (&[], "zoolet"),
            Kind::Apache => (&[Peer::Apache], "apache"),
            Kind::Ensemble => (&[Peer::Apache], "ensemble"),
        };
        harness::needs(peers, &format!("{prefix}::{name}"), move || {
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            if server.is_none() {
                *server = Some(Server::start(kind)?);
            }
            test(server.as_mut().expect("it was just started"))
        })
    }
}

impl Server {
    fn start(kind: Kind) -> std::io::Result<Self> {
        Ok(match kind {
            Kind::Zoolet => {
                let four_letter_words = "*".parse().expect("all words");
                let config = Config { four_letter_words, ..servers::config(Setting::Steady) };
                Self::Zoolet(Wire::start(config)?)
            }
            Kind::Apache => Self::Apache(Apache::start(&servers::properties(Setting::Steady))?),
            Kind::Ensemble => Self::Ensemble(Ensemble::start()?),
        })
    }

    fn scene(&self, name: &str) -> Scene {
        let servers = match self {
            Self::Zoolet(server) => vec![server.address()],
            Self::Apache(server) => vec![server.address()],
            Self::Ensemble(ensemble) => ensemble.addresses(),
        };
        Scene::new(servers, name)
    }
}

/// Plays a scenario, and sees to it that nothing is left of it.
fn play(server: &Server, name: &str, scenario: Scenario) -> Outcome {
    let scene = Arc::new(server.scene(name));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let played = tokio::time::timeout(PATIENCE, scenario(Arc::clone(&scene)));
        played.await.map_err(|_| format!("it is still going on after {PATIENCE:?}"))??;
        scene.assert_clean().await
    })
}
