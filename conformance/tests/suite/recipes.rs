//! Our recipes over TCP, on our server, on Apache ZooKeeper, on an ensemble of it, and on the test
//! kit's ensemble: what happens when sessions end, znodes are deleted, connections are cut and
//! waiters give up. After each scenario no ephemeral and no watch is left, although all its clients
//! are still connected.

mod atomic_scenarios;
mod barriers;
mod cache_scenarios;
mod caches;
mod counters;
mod curators_cache;
mod discovery;
mod leader_killed;
mod leaders;
mod multi_lock;
mod mutex;
mod node_scenarios;
mod nodes;
mod options;
mod queue_scenarios;
mod queues;
mod read_write;
mod scene;
mod semaphore;
mod shared_values;
mod watches;

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use scene::Scene;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::harness::{InTurn, Section};
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::{Wire, WireEnsemble};
use zoolet_server::Config;

/// The result of a scenario.
type Outcome = Result<(), Failed>;

type Scenario = fn(Arc<Scene>) -> Pin<Box<dyn Future<Output = Outcome>>>;

/// A scenario in which the leader is killed.
type WithLeader = fn(&mut Server) -> Outcome;

/// Longer than any scenario takes.
const PATIENCE: Duration = Duration::from_secs(180);

macro_rules! scenarios {
    ($($recipe:ident: $($name:ident)*;)*) => {
        [$($((
            concat!(stringify!($recipe), "::", stringify!($name)),
            (|scene| Box::pin($recipe::$name(scene))) as Scenario,
        ),)*)*]
    };
}

pub(crate) fn tests() -> Section {
    let mut section = Section::new("recipes", 1);
    let scenarios = scenarios! {
        mutex:
            one_client_holds_the_mutex_at_a_time_and_tokens_grow
            the_holder_learns_that_its_session_has_expired
            a_waiter_enters_again_in_a_new_session
            the_holder_learns_that_its_znode_was_deleted
            a_waiter_enters_again_when_its_znode_was_deleted
            a_cut_connection_keeps_the_place
            changes_during_a_disconnect_are_noticed_afterwards
            a_lost_reply_leaves_one_znode
            a_waiter_that_times_out_admits_nobody
            a_waiter_that_times_out_while_disconnected_leaves_nothing
            acquire_within_times_out_with_and_without_a_connection
            a_waiter_behind_an_unreadable_znode_acquires_the_lock;
        read_write:
            a_writer_holds_the_lock_alone
            a_reader_behind_a_waiting_writer_waits
            a_downgraded_lock_admits_no_writer
            readers_acquire_when_the_session_of_the_writer_has_ended
            readers_acquire_when_the_writer_ahead_times_out
            a_writer_does_not_wait_for_a_deleted_reader
            a_cut_connection_keeps_the_place;
        semaphore:
            clients_never_hold_more_permits_than_the_maximum
            the_permits_of_an_ended_session_are_free
            a_deleted_permit_is_free
            the_next_waiter_acquires_when_the_one_in_front_times_out
            a_cut_connection_keeps_the_place
            a_lost_reply_does_not_take_permits_twice;
        multi_lock:
            opposite_orders_do_not_deadlock
            all_locks_are_free_when_the_session_has_ended
            a_deleted_znode_makes_the_lock_enter_all_lines_again
            a_timeout_leaves_all_lines
            a_lost_reply_leaves_one_znode_in_each_line;
        leaders:
            one_client_leads_after_another
            the_next_leads_when_the_session_has_ended
            the_next_leads_when_the_znode_was_deleted
            a_cut_connection_keeps_the_leadership
            the_selector_uses_the_line_of_the_mutex;
        counters:
            concurrent_increments_all_count
            no_change_is_made_twice_over_cut_connections
            all_copies_receive_the_last_count;
        barriers:
            removing_the_barrier_releases_all_waiters
            a_wait_continues_after_a_disconnect_and_after_expiry
            a_wait_that_times_out_leaves_nothing;
        caches:
            a_cache_is_the_tree_after_cuts_and_expiry
            a_cache_of_one_znode_takes_no_events_from_one_of_its_tree
            a_cache_is_suspended_without_a_connection;
        cache_scenarios:
            tree_cache_startup
            tree_cache_depth
            tree_cache_selector
            tree_cache_start_empty
            tree_cache_in_namespace
            update_when_not_caching_data
            basics_on_two_caches
            killed_session
            node_cache_basics
            path_children_cache_without_parent
            event_ordering;
        atomic_scenarios:
            basic
            compare_and_set
            force_set
            simulation
            cached_counter;
        nodes:
            a_node_survives_a_cut_an_expiry_and_a_deletion
            a_sequential_node_keeps_its_name
            a_node_waits_for_the_ephemeral_of_another_session
            a_lost_reply_leaves_one_znode
            a_refusal_is_told_and_tried_again
            members_join_again_in_their_next_session
            a_set_is_shared_out_anew_when_a_session_ends
            a_lease_has_one_holder_and_outlives_the_session;
        node_scenarios:
            listeners_reconnected_is_fast
            no_server_at_start
            setting_data
            deletes_node_when_closed
            recreates_node_when_session_reconnects
            recreates_node_when_ephemeral_owner_session_expires
            recreates_node_when_it_gets_deleted
            nodes_create_unique_paths
            set_data_when_node_exists
            set_data_when_disconnected
            protected_reconnection
            no_write_permission
            quick_set_data
            basic
            creation_with_parent_creation_off
            quick_close
            ttl_node
            group_member_basic;
        shared_values:
            a_shared_value_survives_disconnects_and_expiry
            an_unseen_value_is_not_overwritten;
        queues:
            at_most_once_loses_nothing_over_cut_connections
            at_least_once_ends_each_item_over_cut_connections
            the_item_of_an_ended_session_is_delivered_again
            a_waiting_consumer_survives_a_cut_and_the_end_of_its_session
            a_take_that_times_out_leaves_nothing
            kazoos_locking_queue_delivers_each_entry
            done_of_a_lost_lease_ends_nothing
            an_item_that_may_not_be_read_is_passed_over
            an_item_that_could_not_be_put_back_stays;
        queue_scenarios:
            safety_basic
            safety_with_crash
            error_mode
            put_multi
            multi_putter_single_getter
            no_duplicate_processing
            bounded
            ids_with_locks
            requeue_with_lock
            sorting_with_negative_priorities
            min_items_before_refresh
            late_addition
            sharder_distribution
            simple_queue
            hang_from_container_loss;
        options:
            one_client_replaces_a_value
            numbers_of_32_bits_and_reserved_ones_are_unique
            a_disconnect_ends_a_term_by_the_policy_connection
            participants_have_data
            a_session_goes_on_in_another_client
            no_migration_runs_twice_over_cut_connections
            a_tree_is_deleted_over_a_cut_connection;
        discovery:
            instances_are_found_over_disconnects_and_expiry
            multiple_instances
            crashed_instance
            disabled_instances_are_not_chosen;
        watches:
            dropping_a_one_shot_watch_keeps_a_persistent_one
            a_one_shot_watch_does_not_replace_a_persistent_one
            a_pending_watch_survives_the_drop_of_another
            a_place_in_line_keeps_a_persistent_watch;
    };
    let servers = [Kind::Zoolet, Kind::Apache, Kind::Ensemble, Kind::TestEnsemble].map(|kind| {
        Lazy { kind, servers: std::array::from_fn(|_| InTurn::new(None)), trials: Cell::default() }
    });
    for (name, scenario) in scenarios {
        for server in &servers {
            server.add(&mut section, name, &[], move |server| play(server, name, scenario));
        }
    }
    for server in &servers[..2] {
        let name = "curators_cache::curators_cache_goes_stale_where_ours_does_not";
        let scenario: Scenario =
            |scene| Box::pin(curators_cache::curators_cache_goes_stale_where_ours_does_not(scene));
        let test = move |server: &mut Server| play(server, name, scenario);
        server.add(&mut section, name, &[Peer::Curator], test);
    }
    let with_a_leader: [(_, WithLeader); 5] = [
        ("leader_killed::locks_survive_it", leader_killed::locks_survive_it),
        (
            "cache_scenarios::consistency_after_simulation",
            cache_scenarios::consistency_after_simulation,
        ),
        ("discovery::crashed_leader", discovery::crashed_leader),
        ("node_scenarios::crashed_leader", node_scenarios::crashed_leader),
        ("queue_scenarios::queues_over_a_lost_leader", queue_scenarios::queues_over_a_lost_leader),
    ];
    for ensemble in &servers[2..] {
        for (name, test) in with_a_leader {
            ensemble.add(&mut section, name, &[], test);
        }
    }
    section
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zoolet,
    Apache,
    Ensemble,
    TestEnsemble,
}

/// How many servers there are of a kind. Scenarios wait much more than they compute. One server
/// cannot play two of them at a time, because the check counts the watches of the whole server.
const SERVERS_OF_A_KIND: usize = 2;

/// The servers of a kind, each of which is started when the first test needs it.
struct Lazy {
    kind: Kind,
    servers: [Arc<InTurn<Option<Server>>>; SERVERS_OF_A_KIND],
    /// How many tests they have.
    trials: Cell<usize>,
}

/// A running server.
enum Server {
    Zoolet(Wire),
    Apache(Apache),
    Ensemble(Ensemble),
    TestEnsemble(WireEnsemble),
}

impl Lazy {
    fn add(
        &self,
        section: &mut Section,
        name: &str,
        peers: &[Peer],
        test: impl FnOnce(&mut Server) -> Outcome + Send + 'static,
    ) {
        let number = self.trials.replace(self.trials.get() + 1);
        let (kind, server) = (self.kind, &self.servers[number % SERVERS_OF_A_KIND]);
        let (server_peers, prefix): (&[Peer], _) = match kind {
            Kind::Zoolet => (&[], "zoolet"),
            Kind::Apache => (&[Peer::Apache], "apache"),
            Kind::Ensemble => (&[Peer::Apache], "ensemble"),
            Kind::TestEnsemble => (&[], "test_ensemble"),
        };
        let (peers, name) = ([server_peers, peers].concat(), format!("{prefix}::{name}"));
        section.test_in_turn(server, &peers, &name, move |server| {
            let mut running = server.take().map_or_else(|| Server::start(kind), Ok)?;
            test(&mut running)?;
            // A test that fails may leave a member dead, so the next one begins with a new server.
            *server = Some(running);
            Ok(())
        });
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
            Kind::TestEnsemble => Self::TestEnsemble(WireEnsemble::start()?),
        })
    }

    fn scene(&self, name: &str) -> Scene {
        let servers = match self {
            Self::Zoolet(server) => vec![server.address()],
            Self::Apache(server) => vec![server.address()],
            Self::Ensemble(ensemble) => ensemble.addresses(),
            Self::TestEnsemble(ensemble) => ensemble.addresses(),
        };
        Scene::new(servers, name)
    }

    /// Kills the leader, and returns its number.
    fn kill_leader(&mut self) -> Result<usize, Failed> {
        match self {
            Self::Ensemble(ensemble) => {
                let leader = ensemble.leader().ok_or("there is no leader")?;
                ensemble.kill(leader);
                Ok(leader)
            }
            Self::TestEnsemble(ensemble) => Ok(ensemble.ensemble().lose_leader()?),
            Self::Zoolet(_) | Self::Apache(_) => Err("one server has no leader".into()),
        }
    }

    /// Starts a killed server again, and waits until all serve.
    fn restart(&mut self, server: usize) -> Outcome {
        match self {
            Self::Ensemble(ensemble) => {
                ensemble.restart(server)?;
                ensemble.await_all()?;
            }
            Self::TestEnsemble(ensemble) => ensemble.ensemble().server(server).start(),
            Self::Zoolet(_) | Self::Apache(_) => return Err("one server is not killed".into()),
        }
        Ok(())
    }
}

/// Runs a scenario and checks that nothing is left of it.
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
