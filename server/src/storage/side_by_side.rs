//! Lets several works wait for the disk at the same time: syncs that do not depend on each other take
//! as long as the longest of them, and a journal of a file system records all of them at once.

use std::path::Path;
use std::thread;

use super::disk::Disk;
use super::error::StorageError;

/// Something that waits for the disk.
pub(super) type Work<'a> = &'a mut (dyn FnMut() -> Result<(), StorageError> + Send);

/// Carries out works side by side, each once, and waits for all of them. On a disk that never waits
/// they are carried out in order up to the first that fails, so that a run repeats.
///
/// # Errors
///
/// The error of the first work in the order that has failed. Others may have succeeded. If the system
/// can start no thread, which it reports with `path`, some were not carried out.
pub(super) fn side_by_side(
    disk: &dyn Disk,
    path: &Path,
    works: &mut [Work<'_>],
) -> Result<(), StorageError> {
    if disk.is_immediate() {
        return works.iter_mut().try_for_each(|work| work());
    }
    let Some((last, others)) = works.split_last_mut() else { return Ok(()) };
    thread::scope(|scope| {
        let start = |work| {
            let thread = thread::Builder::new().name("zoolet-start".to_owned());
            thread.spawn_scoped(scope, work)
        };
        let threads: Vec<_> = others.iter_mut().map(start).collect();
        let last = last();
        for thread in threads {
            let thread = thread.map_err(StorageError::io("start a thread that syncs", path))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        last
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Barrier;

    use super::*;
    use crate::storage::{FsDisk, MemDisk};

    fn failure(what: &'static str) -> StorageError {
        StorageError::io(what, Path::new("/data"))(io::Error::other("the disk fails"))
    }

    fn told(result: Result<(), StorageError>) -> String {
        result.expect_err("one has failed").to_string()
    }

    #[test]
    fn works_wait_at_the_same_time_and_the_first_error_in_order_is_told() {
        // Each waits until all three have begun.
        let barrier = Barrier::new(3);
        let (mut whole, mut first, mut second) = (0, 0, 0);
        let mut succeeds = || {
            barrier.wait();
            whole += 1;
            Ok(())
        };
        let mut fails = || {
            barrier.wait();
            first += 1;
            Err(failure("sync one"))
        };
        let mut fails_too = || {
            barrier.wait();
            second += 1;
            Err(failure("sync two"))
        };
        let works: &mut [Work<'_>] = &mut [&mut succeeds, &mut fails, &mut fails_too];
        let error = told(side_by_side(&FsDisk, Path::new("/data"), works));
        assert_eq!(error, "cannot sync one /data: the disk fails");
        assert_eq!((whole, first, second), (1, 1, 1));
    }

    #[test]
    fn on_a_disk_that_never_waits_they_are_in_order_and_end_with_the_first_that_fails() {
        let (mut count, mut after) = (0, 0);
        let thread = thread::current().id();
        let mut succeeds = || {
            assert_eq!(thread::current().id(), thread);
            count += 1;
            Ok(())
        };
        let mut fails = || Err(failure("sync"));
        let mut never = || {
            after += 1;
            Ok(())
        };
        let works: &mut [Work<'_>] = &mut [&mut succeeds, &mut fails, &mut never];
        told(side_by_side(&MemDisk::default(), Path::new("/data"), works));
        assert_eq!((count, after), (1, 0));
        side_by_side(&FsDisk, Path::new("/data"), &mut []).expect("there is nothing to do");
    }
}
