//! Tests of what Curator's locks, leaders and values offer beside their algorithm: other types of
//! values, options of leaders, the data of participants, the defaults of a client, sessions that one
//! client hands over to another, trees that are deleted, migrations, and compressed data.

mod atomic_values;
mod client_defaults;
mod compression;
mod delete_tree;
mod for_threads;
mod hand_over;
mod leader_options;
mod migrations;
mod participants;
