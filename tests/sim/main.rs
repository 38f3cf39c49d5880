//! The simulation of programs that use ZooKeeper: correct locks pass, wrong ones are found and
//! explained.

mod checks;
mod correct;
mod wrong;
