//! A simulated disk that loses power at the step that a test chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};

use super::memory::{names_in, write_at};
use super::{DirectoryLock, Disk, DiskFile, LockError};

/// The bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// A disk in memory that can lose power: then a seed decides which changes survive that were not
/// synced, also in part or out of order. It can also be full, and fail to sync or to read.
///
/// Each change takes steps: one for each written byte, and one for each other change. So
/// [`SimDisk::lose_power_after`] can stop a workload anywhere. The directories below the root are
/// there from the beginning, as if each was a disk that is mounted there; others are created, and
/// are lost with all that is in them if the one above was not synced. Clones share the disk.
///
/// ```
/// use std::path::Path;
/// use zoolet_server::storage::{Disk, SimDisk};
///
/// # fn main() -> std::io::Result<()> {
/// let disk = SimDisk::default();
/// let mut file = disk.create(Path::new("/data/a"))?;
/// file.write_all(b"text")?;
/// disk.lose_power_after(disk.steps());
/// assert!(file.sync().is_err(), "the power went before");
/// disk.restore_power(7);
/// assert!(disk.list(Path::new("/data"))?.len() <= 1, "the name was not synced either");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<Sim>>);

#[derive(Debug, Default)]
struct Sim {
    files: BTreeMap<FileId, File>,
    names: Names,
    durable_names: Names,
    /// The changes of names since their directories were synced, in order.
    pending_names: Vec<NameChange>,
    /// The directories that were created.
    directories: BTreeSet<PathBuf>,
    /// Those of them whose names were not synced.
    pending_directories: BTreeSet<PathBuf>,
    last_file: u64,
    locked: BTreeSet<PathBuf>,
    /// Incremented when the power is back: files that were opened before can no longer be written.
    life: u64,
    steps: u64,
    power_until: Option<u64>,
    free_bytes: Option<u64>,
    fails_to_sync: bool,
    unreadable: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileId(u64);

type Names = BTreeMap<PathBuf, FileId>;

/// Names that get or lose a file atomically.
type NameChange = Vec<(PathBuf, Option<FileId>)>;

#[derive(Debug, Clone, Default)]
struct File {
    content: Vec<u8>,
    durable: Vec<u8>,
    /// The changes since it was synced, in order.
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Bytes(usize, Vec<u8>),
    Length(usize),
}

impl SimDisk {
    /// The number of steps so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.0.lock().steps
    }

    /// Cuts the power after this total number of steps: later changes fail, and a write is carried
    /// out as far as the steps last.
    pub fn lose_power_after(&self, steps: u64) {
        self.0.lock().power_until = Some(steps);
    }

    /// Whether the power was cut.
    #[must_use]
    pub fn has_lost_power(&self) -> bool {
        let sim = self.0.lock();
        sim.power_until.is_some_and(|until| sim.steps >= until)
    }

    /// Restores the power. The seed decides which changes survived that were not synced.
    pub fn restore_power(&self, seed: u64) {
        let mut sim = self.0.lock();
        let mut rng = Rng::with_seed(seed);
        for file in sim.files.values_mut() {
            file.survive(&mut rng);
        }
        let mut names = std::mem::take(&mut sim.durable_names);
        let keeps_all = rng.u8(..4) == 0;
        for change in std::mem::take(&mut sim.pending_names) {
            if keeps_all || rng.bool() {
                rename(&mut names, change);
            }
        }
        for directory in std::mem::take(&mut sim.pending_directories) {
            if !keeps_all && rng.bool() {
                names.retain(|path, _| !path.starts_with(&directory));
                sim.directories.retain(|path| !path.starts_with(&directory));
            }
        }
        sim.durable_names = names.clone();
        sim.names = names;
        sim.start_again();
    }

    /// Acts as if the process was killed: all changes survive, synced or not.
    pub fn kill_process(&self) {
        self.0.lock().start_again();
    }

    /// Limits the bytes that still fit on the disk; `None` for no limit.
    pub fn set_free_bytes(&self, free: Option<u64>) {
        self.0.lock().free_bytes = free;
    }

    /// Lets every sync fail, or ends that.
    pub fn fail_to_sync(&self, fails: bool) {
        self.0.lock().fails_to_sync = fails;
    }

    /// Lets every read of a file fail from now on.
    pub fn fail_to_read(&self, path: &Path) {
        self.0.lock().unreadable.insert(path.to_owned());
    }

    /// The bytes of a file, as a reader sees them now.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let sim = self.0.lock();
        sim.names.get(path).map(|id| sim.files[id].content.clone())
    }

    /// Sets the bytes of a file, synced, for example to damage it.
    pub fn put(&self, path: &Path, content: Vec<u8>) {
        let mut sim = self.0.lock();
        let above = path.parent().into_iter().flat_map(Path::ancestors);
        sim.directories.extend(above.map(Path::to_owned));
        sim.pending_directories.retain(|created| !path.starts_with(created));
        let id = sim.next_file();
        let durable = content.clone();
        sim.files.insert(id, File { content, durable, pending: Vec::new() });
        sim.names.insert(path.to_owned(), id);
        sim.durable_names.insert(path.to_owned(), id);
    }

    /// The disk, for a change that takes one step.
    fn step(&self) -> io::Result<MutexGuard<'_, Sim>> {
        let mut sim = self.0.lock();
        sim.spend(1)?;
        Ok(sim)
    }
}

impl Sim {
    fn start_again(&mut self) {
        self.life += 1;
        self.power_until = None;
        self.locked.clear();
    }

    fn next_file(&mut self) -> FileId {
        self.last_file += 1;
        FileId(self.last_file)
    }

    fn spend(&mut self, steps: u64) -> io::Result<()> {
        let ends = self.steps + steps;
        if let Some(until) = self.power_until.filter(|&until| ends > until) {
            self.steps = self.steps.max(until);
            return Err(io::Error::other("the power is lost"));
        }
        self.steps = ends;
        Ok(())
    }

    fn change_names(&mut self, change: NameChange) {
        rename(&mut self.names, change.clone());
        self.pending_names.push(change);
    }

    fn named(&self, path: &Path) -> io::Result<FileId> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&mut self, id: FileId) -> io::Result<()> {
        self.spend(1)?;
        let file = self.files.get_mut(&id).expect("a file is never forgotten");
        let pending = std::mem::take(&mut file.pending);
        if self.fails_to_sync {
            // As on Linux: bytes that could not be written can still be read, and count as written.
            return Err(io::Error::other("the disk does not sync"));
        }
        pending.iter().for_each(|change| apply(&mut file.durable, change));
        Ok(())
    }

    /// Overwrites bytes as far as the power lasts. That takes no space.
    fn write_over(&mut self, id: FileId, position: usize, bytes: &[u8]) -> io::Result<()> {
        let free_bytes = self.free_bytes.take();
        let (mut written, mut result) = (0, Ok(()));
        while written < bytes.len() && result.is_ok() {
            match self.write(id, position + written, &bytes[written..]) {
                Ok(count) => written += count,
                Err(error) => result = Err(error),
            }
        }
        self.free_bytes = free_bytes;
        result
    }

    /// Appends bytes as far as the power and the space last.
    fn write(&mut self, id: FileId, position: usize, bytes: &[u8]) -> io::Result<usize> {
        let room = self.free_bytes.unwrap_or(u64::MAX);
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let power = self.power_until.map_or(u64::MAX, |until| until.saturating_sub(self.steps));
        let count = bytes.len().min(usize::try_from(room.min(power.max(1))).unwrap_or(usize::MAX));
        self.spend(count as u64)?;
        if let Some(free) = &mut self.free_bytes {
            *free -= count as u64;
        }
        let file = self.files.get_mut(&id).expect("a file is never forgotten");
        file.change(Change::Bytes(position, bytes[..count].to_vec()));
        Ok(count)
    }
}

fn rename(names: &mut Names, change: NameChange) {
    for (path, file) in change {
        match file {
            Some(file) => names.insert(path, file),
            None => names.remove(&path),
        };
    }
}

impl File {
    fn change(&mut self, change: Change) {
        apply(&mut self.content, &change);
        self.pending.push(change);
    }

    /// The changes that survive of those that were not synced.
    fn survive(&mut self, rng: &mut Rng) {
        let pending = std::mem::take(&mut self.pending);
        match rng.u8(..4) {
            // Nothing.
            0 => {}
            // Everything.
            1 => pending.iter().for_each(|change| apply(&mut self.durable, change)),
            // All changes up to a byte.
            2 => {
                let total: usize = pending.iter().map(Change::bytes).sum();
                let mut left = rng.usize(..=total);
                for change in &pending {
                    match change {
                        Change::Bytes(at, bytes) => {
                            let count = left.min(bytes.len());
                            apply(&mut self.durable, &Change::Bytes(*at, bytes[..count].to_vec()));
                            left -= count;
                        }
                        length @ Change::Length(_) => apply(&mut self.durable, length),
                    }
                    if left == 0 {
                        break;
                    }
                }
            }
            // Some sectors, in any order.
            _ => pending.iter().flat_map(Change::sectors).for_each(|change| {
                if rng.bool() {
                    apply(&mut self.durable, &change);
                }
            }),
        }
        self.content.clone_from(&self.durable);
    }
}

impl Change {
    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(_, bytes) => bytes.len(),
            Self::Length(_) => 0,
        }
    }

    /// Splits a change into parts that survive atomically.
    fn sectors(&self) -> Vec<Self> {
        let Self::Bytes(at, bytes) = self else { return vec![self.clone()] };
        let mut sectors = Vec::new();
        let (mut at, mut rest) = (*at, bytes.as_slice());
        while !rest.is_empty() {
            let count = rest.len().min(SECTOR_BYTES - at % SECTOR_BYTES);
            let (sector, behind) = rest.split_at(count);
            sectors.push(Self::Bytes(at, sector.to_vec()));
            (at, rest) = (at + count, behind);
        }
        sectors
    }
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Bytes(_, bytes) if bytes.is_empty() => {}
        Change::Bytes(at, bytes) => write_at(content, *at, bytes),
        Change::Length(length) => content.resize(*length, 0),
    }
}

/// A directory that is not there from the beginning, and the one above it.
fn below_another(directory: &Path) -> Option<(&Path, &Path)> {
    let above = directory.parent()?;
    above.parent().map(|_root| (directory, above))
}

impl Disk for SimDisk {
    fn create_directory(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut sim = self.0.lock();
        let mut to_sync = Vec::new();
        let mut paths: Vec<_> = directory.ancestors().map_while(below_another).collect();
        while let Some((path, above)) = paths.pop() {
            if !sim.directories.contains(path) {
                sim.spend(1)?;
                sim.directories.insert(path.to_owned());
                sim.pending_directories.insert(path.to_owned());
                to_sync.push(above.to_owned());
            }
        }
        Ok(to_sync)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let sim = self.0.lock();
        Ok(names_in(directory, sim.names.keys()))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let sim = self.0.lock();
        if sim.unreadable.contains(path) {
            return Err(io::Error::other("the disk does not read"));
        }
        let content = sim.files[&sim.named(path)?].content.clone();
        Ok(Box::new(Cursor::new(content)))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        let sim = self.0.lock();
        Ok(sim.files[&sim.named(path)?].content.len() as u64)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut sim = self.step()?;
        let file = sim.next_file();
        sim.files.insert(file, File::default());
        sim.change_names(vec![(path.to_owned(), Some(file))]);
        let life = sim.life;
        Ok(Box::new(SimFile { disk: self.clone(), file, life, position: 0 }))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let mut sim = self.step()?;
        let id = sim.named(path)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let file = sim.files.get_mut(&id).expect("it has a name");
        if length < file.content.len() {
            file.change(Change::Length(length));
        }
        sim.sync(id)
    }

    fn rewrite(&self, path: &Path, part: Range<u64>) -> io::Result<()> {
        let mut sim = self.step()?;
        let id = sim.named(path)?;
        let length = sim.files[&id].content.len();
        let index = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(length);
        let (start, end) = (index(part.start), index(part.end));
        let bytes = sim.files[&id].content.get(start..end).unwrap_or_default().to_vec();
        sim.write_over(id, start, &bytes)?;
        sim.sync(id)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut sim = self.step()?;
        let file = sim.named(from)?;
        sim.change_names(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut sim = self.step()?;
        sim.named(path)?;
        sim.change_names(vec![(path.to_owned(), None)]);
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut sim = self.step()?;
        if sim.fails_to_sync {
            return Err(io::Error::other("the disk does not sync"));
        }
        let is_in =
            |change: &NameChange| change.iter().any(|(path, _)| path.parent() == Some(directory));
        let pending = std::mem::take(&mut sim.pending_names);
        let (now, later) = pending.into_iter().partition(is_in);
        sim.pending_names = later;
        let changes: Vec<NameChange> = now;
        for change in changes {
            rename(&mut sim.durable_names, change);
        }
        sim.pending_directories.retain(|created| created.parent() != Some(directory));
        Ok(())
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        let mut sim = self.0.lock();
        if !sim.locked.insert(directory.to_owned()) {
            return Err(LockError::Held { by: Some(std::process::id()) });
        }
        let life = sim.life;
        Ok(Box::new(SimLock { disk: self.clone(), directory: directory.to_owned(), life }))
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    file: FileId,
    life: u64,
    position: usize,
}

impl SimFile {
    fn sim(&self) -> io::Result<MutexGuard<'_, Sim>> {
        let sim = self.disk.0.lock();
        if sim.life == self.life { Ok(sim) } else { Err(io::Error::other("the power was lost")) }
    }
}

impl Write for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.sim()?.write(self.file, self.position, bytes)?;
        self.position += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let position = usize::try_from(position).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.sim()?.write_over(self.file, position, bytes)
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut sim = self.sim()?;
        sim.spend(1)?;
        let file = sim.files.get_mut(&self.file).expect("a file is never forgotten");
        file.change(Change::Length(length));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sim()?.sync(self.file)
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    directory: PathBuf,
    life: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut sim = self.disk.0.lock();
        if sim.life == self.life {
            sim.locked.remove(&self.directory);
        }
    }
}

impl DirectoryLock for SimLock {}
