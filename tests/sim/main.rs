//! The simulation of programs that use ZooKeeper: correct locks pass, wrong ones are found and
//! explained.

mod correct;
mod wrong;
