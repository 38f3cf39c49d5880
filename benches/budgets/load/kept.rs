//! The floor of a start on a new directory: the least that a server does whose files survive a crash.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;

/// As many bytes as a snapshot of an empty tree has.
const BYTES: [u8; 512] = [0; 512];

/// Creates a directory with a file whose content and name survive a crash. The file has its name only
/// once it is whole, so there are two rounds of syncs; the two syncs of the first run side by side.
pub(crate) fn keep(directory: &Path) -> io::Result<()> {
    let above = directory.parent().unwrap_or(directory);
    fs::create_dir_all(directory)?;
    let unfinished = directory.join("unfinished");
    let mut file = File::create(&unfinished)?;
    file.write_all(&BYTES)?;
    thread::scope(|scope| {
        let name = scope.spawn(|| File::open(above)?.sync_all());
        file.sync_data()?;
        name.join().map_err(|_| io::Error::other("the thread that syncs has panicked"))?
    })?;
    fs::rename(unfinished, directory.join("file"))?;
    File::open(directory)?.sync_all()
}
