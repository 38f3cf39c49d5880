//! The variables in the environment of the command.

/// The variables with the address of the server. Each is one that a program, a library or a test
/// harness reads; the first is ours.
pub(super) const ADDRESS_VARIABLES: [&str; 8] = [
    "ZOOLET_CONNECT_STRING",
    // `zoolet cli`, `zoolet lock` and `zoolet health`.
    "ZOOLET_SERVER",
    "ZOOKEEPER_CONNECT",
    "ZOOKEEPER_CONNECT_STRING",
    "ZOOKEEPER_HOSTS",
    "ZOOKEEPER_SERVERS",
    "ZK_HOSTS",
    "ZK_HOST",
];

/// The variable with the id of the fault. The run without a fault does not have it.
pub(super) const FAULT_VARIABLE: &str = "ZOOLET_SWEEP_FAULT";
