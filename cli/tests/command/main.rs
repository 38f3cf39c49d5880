//! The `zoolet` command, as a person, a script or a service manager runs it.

mod admin;
mod authentication;
mod bench;
mod certs;
mod cli;
mod cli_json;
mod cli_terminal;
mod cli_words;
mod cli_zkcli;
mod container;
mod data;
mod described;
mod doctor;
mod health;
mod lock;
mod logs;
mod manual;
mod process;
mod serve;
mod service_manager;
mod stage;
mod sweep;
mod test_control;
mod test_ensemble;
mod tls;
mod zoo_cfg;
