//! Reading a log to say how it is, without changing it.

use super::options::{OpenError, OpenReport, Options};
use super::recover::read_back;
use super::snapshots::Snapshots;
use super::state::State;
use super::storage::{Directory, Storage};
use scalebricks_types::{PartitionId, Position};
use std::path::Path;
use std::sync::Arc;

/// What is found in a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionReport {
    /// Whose.
    pub partition: PartitionId,
    /// The oldest position that is not trimmed.
    pub first: Position,
    /// The newest.
    pub last: Position,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Of which partition.
    pub partition: PartitionId,
    /// At which position.
    pub position: Position,
    /// Whether every byte is what was written.
    pub is_whole: bool,
}

/// Something that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A place of the log. What comes behind it was not read.
    #[error("{file}, offset {offset}: {what}")]
    Log {
        /// The segment.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A snapshot.
    #[error("{0}")]
    Snapshot(String),
    /// A partition whose entries are trimmed and in no whole snapshot.
    #[error(
        "partition {}: the entries before {} are trimmed, and no whole snapshot holds them",
        .partition.0, .first.0
    )]
    NoSnapshot {
        /// Which.
        partition: PartitionId,
        /// The oldest entry there is.
        first: Position,
    },
}

/// How a log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// What opening would find and do. With damage in the log, what was read before it.
    pub log: OpenReport,
    /// The partitions, in order.
    pub partitions: Vec<PartitionReport>,
    /// The snapshots, in order.
    pub snapshots: Vec<SnapshotReport>,
    /// What is wrong.
    pub damage: Vec<Damage>,
}

/// Reads the log of a directory, every byte of it, and changes nothing.
///
/// # Errors
/// [`OpenError`], except for damage, which is reported: a process has the directory open, or it cannot be read.
pub fn check(directory: &Path) -> Result<CheckReport, OpenError> {
    let path = directory.display().to_string();
    let (directory, _lock) = Directory::lock_for_reading(directory).map_err(|error| match error {
        None => OpenError::InUse(path.clone()),
        Some(source) => OpenError::io("open", &path)(source),
    })?;
    check_on(&(Arc::new(directory) as Arc<dyn Storage>))
}

/// Reads the log in a storage that nobody changes meanwhile.
///
/// # Errors
/// As [`check`].
pub fn check_on(storage: &Arc<dyn Storage>) -> Result<CheckReport, OpenError> {
    let mut state = State::new(Options::default().limits());
    let mut log = OpenReport::default();
    let mut damage = Vec::new();
    match read_back(storage, &mut state, &mut log) {
        Ok(_) => {}
        Err(OpenError::Damaged { file, offset, what }) => damage.push(Damage::Log { file, offset, what }),
        Err(error) => return Err(error),
    }
    let (snapshots, unfinished) = Snapshots::list(storage)?;
    log.removed.extend(unfinished);
    let mut reports = Vec::new();
    for (partition, position, problem) in snapshots.check_all() {
        reports.push(SnapshotReport { partition, position, is_whole: problem.is_none() });
        damage.extend(problem.map(Damage::Snapshot));
    }
    let mut partitions = Vec::new();
    for (partition, (first, last)) in state.positions() {
        partitions.push(PartitionReport { partition, first, last });
        let holds =
            |s: &SnapshotReport| s.partition == partition && s.is_whole && s.position.0 + 1 >= first.0;
        if first.0 > 1 && !reports.iter().any(holds) {
            damage.push(Damage::NoSnapshot { partition, first });
        }
    }
    Ok(CheckReport { log, partitions, snapshots: reports, damage })
}
