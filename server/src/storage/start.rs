//! What a start makes durable before the server serves anyone, in two rounds of syncs.
//!
//! In the first round the contents become durable, side by side: of the files that were read, and
//! of the new ones, which have temporary names; with them the names of directories that were
//! created. The new files are written before, so that a journal of a file system records all of them
//! at once. Then they get their names, and the second round makes these durable.
//!
//! So a name that is found after a power loss has all of its content, whichever of the names are
//! there: the mark is never ahead of the files that were read, and the snapshot is of the state that
//! these contain as well. In a new directory both tell of nothing; a start that finds one of them
//! or none makes it anew.

use std::path::PathBuf;

use super::config::{Durability, StorageConfig};
use super::directory::{Directory, Locked, OnRefusal};
use super::durable::Durable;
use super::error::StorageError;
use super::logs_note;
use super::mark::{MarkFile, NewMark};
use super::recovery::Recovered;
use super::side_by_side::{Work, side_by_side};
use super::snapshot_file::Unpublished;
use super::stats::StorageStats;
use crate::clock::{ms_since, now};

/// Makes durable what was read, and writes a mark and, if the state needs one, a snapshot. Returns the
/// mark's file, if records are to be synced.
pub(crate) fn make_durable(
    directory: &Directory,
    config: &StorageConfig,
    locked: &Locked,
    recovered: &Recovered,
    durable: &Durable,
    stats: &StorageStats,
) -> Result<Option<MarkFile>, StorageError> {
    let is_synced = config.durability == Durability::Synced;
    recovered.mend(directory)?;

    let begin = now();
    let mut snapshot = match recovered.needs_snapshot {
        true => {
            let frozen = recovered.core.freeze();
            let unfinished = directory.unfinished_path(frozen.zxid);
            let compression = config.snapshot_compression;
            Some(Unpublished::write(directory, unfinished, &frozen, compression, is_synced)?)
        }
        false => None,
    };
    let mut mark =
        is_synced.then(|| NewMark::write(directory, recovered.new_mark())).transpose()?;

    let mut sync_snapshot = || recovered.sync_snapshot(directory);
    let mut sync_logs = || recovered.sync_logs(directory);
    let mut sync_new_mark = || mark.as_mut().map_or(Ok(()), |mark| mark.sync(directory));
    let mut sync_new_snapshot = || {
        let Some(snapshot) = &mut snapshot else { return Ok(()) };
        snapshot.sync()?;
        // Without its name, which is synced with that of the mark.
        stats.snapshot_time.record(ms_since(begin));
        Ok(())
    };
    let mut note_logs = || logs_note::update(directory);
    let created = locked.to_sync.iter().map(PathBuf::as_path);
    let mut sync_created = || directory.sync_directories(created.clone(), OnRefusal::Fail);
    // A start that was killed may have created the directories, or somebody has copied them. Where
    // there is a snapshot and a mark, a start has synced the names of all directories before.
    let was_started = recovered.snapshot.is_some() && recovered.mark.is_some();
    let others = || directory.above().into_iter().filter(|above| !locked.to_sync.contains(*above));
    let mut sync_others = || directory.sync_directories(others(), OnRefusal::GoOn);

    let has_note = directory.logs != directory.snapshots;
    let needed: [(bool, Work<'_>); 7] = [
        (recovered.snapshot.is_some(), &mut sync_snapshot),
        (recovered.has_logs(), &mut sync_logs),
        (!locked.to_sync.is_empty(), &mut sync_created),
        (is_synced && !was_started, &mut sync_others),
        (is_synced, &mut sync_new_mark),
        (has_note, &mut note_logs),
        (recovered.needs_snapshot, &mut sync_new_snapshot),
    ];
    let mut contents: Vec<_> =
        needed.into_iter().filter_map(|(is_needed, work)| is_needed.then_some(work)).collect();
    side_by_side(&*directory.disk, &directory.logs, &mut contents)?;
    if !has_note {
        logs_note::update(directory)?;
    }

    let mark = mark.map(|mark| mark.publish(directory, durable)).transpose()?;
    snapshot.map(Unpublished::rename).transpose()?;
    directory.sync_names()?;
    Ok(mark)
}
