//! The simulation of programs that use ZooKeeper: correct locks pass, wrong ones are found and
//! explained.

mod caches;
mod calm;
mod checks;
mod correct;
mod discovery;
mod invariants;
mod machines;
mod one_client;
mod queues;
mod refused;
mod registrations;
mod told;
mod waits;
mod wrong;

/// How often a run is repeated, to show that nothing differs.
fn repeats() -> usize {
    const DEFAULT: usize = 5;
    let variable = std::env::var("ZOOLET_SIM_REPEATS").ok();
    variable.map_or(DEFAULT, |text| text.parse().expect("ZOOLET_SIM_REPEATS is a number"))
}
