//! The `zoolet` command, as a person, a script or a service manager runs it.

mod bench;
mod cli;
mod cli_terminal;
mod data;
mod lock;
mod process;
mod serve;
mod test_control;
mod zoo_cfg;
