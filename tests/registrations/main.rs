//! Nodes, memberships, leases and partitions on a server of the test kit.

mod blocking;
mod leases;
mod memberships;
mod persistent_node;
mod set_partitioner;
