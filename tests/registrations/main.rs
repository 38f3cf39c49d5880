//! Nodes, memberships, leases and partitions on a server and an ensemble of the test kit.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod blocking;
mod curator_scenarios;
mod leader_loss;
mod leases;
mod memberships;
mod own_znode;
mod persistent_node;
mod set_partitioner;
mod stage;
