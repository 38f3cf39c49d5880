//! The examples do what they say.

#![allow(dead_code, reason = "an example's own main is not called here")]
#![allow(clippy::duplicate_mod, reason = "each example is a program with the shared part in it")]

#[path = "../examples/bank_transfer.rs"]
mod bank_transfer;
#[path = "../examples/fencing.rs"]
mod fencing;
#[path = "../examples/leader.rs"]
mod leader;
#[path = "../examples/mutex.rs"]
mod mutex;
#[path = "../examples/read_write_lock.rs"]
mod read_write_lock;
#[path = "../examples/revocation.rs"]
mod revocation;
#[path = "../examples/semaphore.rs"]
mod semaphore;
#[path = "../examples/testing_faults.rs"]
mod testing_faults;

#[tokio::test]
async fn with_the_mutex_no_count_is_lost() {
    let (count, counted) = mutex::run(Default::default()).await.unwrap();
    assert_eq!(count, counted);
}

#[tokio::test]
async fn readers_are_inside_together_and_the_writer_alone() {
    assert_eq!(read_write_lock::run(Default::default()).await.unwrap(), (3, 0));
}

#[tokio::test]
async fn no_more_are_inside_than_there_are_permits() {
    let most = semaphore::run(Default::default()).await.unwrap();
    assert!((1..=semaphore::PERMITS).contains(&most), "{most}");
}

#[tokio::test]
async fn transfers_keep_the_sum() {
    let (before, after) = bank_transfer::run(Default::default()).await.unwrap();
    assert_eq!((before, after), (4_000, 4_000));
}

#[tokio::test]
async fn the_late_write_of_a_paused_holder_is_refused() {
    assert_eq!(fencing::run(Default::default()).await.unwrap(), ("the second", false));
}

#[tokio::test]
async fn the_holder_that_is_asked_finishes_its_part_and_gives_the_lock_up() {
    let (parts, is_urgent_done) = revocation::run(Default::default()).await.unwrap();
    assert!((1..revocation::PARTS).contains(&parts), "{parts}");
    assert!(is_urgent_done);
}

#[tokio::test]
async fn each_job_is_done_once_by_whoever_leads() {
    let (written, workers) = leader::run(Default::default()).await.unwrap();
    assert_eq!(usize::try_from(written), Ok(leader::JOBS));
    assert!(workers > 1, "{workers}");
}

#[tokio::test(start_paused = true)]
async fn whatever_a_test_does_to_the_server_each_owner_has_a_later_token() {
    let tokens = testing_faults::run().await.unwrap();
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}
