//! The locks: `InterProcessMutex` and those with its znodes, kazoo's, semaphores and locks of several paths; what their
//! holders prove, and what they lose.

mod any_lock;
mod behind;
mod held_back;
mod herd_lock;
mod lock_losses;
mod lock_scenarios;
mod lock_shape;
mod multi_lock;
mod mutex;
mod owners;
mod proof;
mod proof_before_hold;
mod read_write_lock;
mod revocation;
mod semaphore;
mod semaphore_scenarios;
