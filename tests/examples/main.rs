//! Each example has a test of what it shows. They are one program here, since each program takes time to link.

#![allow(clippy::duplicate_mod, reason = "examples share their stage")]

#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/bank_transfer.rs"]
mod bank_transfer;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/client_acl.rs"]
mod client_acl;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/client_transaction.rs"]
mod client_transaction;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/client_watch.rs"]
mod client_watch;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/discovery.rs"]
mod discovery;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/fencing.rs"]
mod fencing;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/leader.rs"]
mod leader;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/mutex.rs"]
mod mutex;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/own_recipe.rs"]
mod own_recipe;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/queue.rs"]
mod queue;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/read_write_lock.rs"]
mod read_write_lock;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/registration.rs"]
mod registration;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/revocation.rs"]
mod revocation;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/semaphore.rs"]
mod semaphore;
#[allow(dead_code, reason = "the program itself")]
#[path = "../../examples/testing_faults.rs"]
mod testing_faults;
