//! Checks a log without changing it.

use super::options::{OpenError, OpenReport, Options};
use super::recover::read_back;
use super::snapshots::Snapshots;
use super::state::State;
use super::storage::{Directory, Storage};
use scalebricks_types::{PartitionId, Position};
use std::path::Path;
use std::sync::Arc;

/// The positions of a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionReport {
    /// The partition.
    pub partition: PartitionId,
    /// The oldest untrimmed position.
    pub first: Position,
    /// The newest position.
    pub last: Position,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The partition.
    pub partition: PartitionId,
    /// The position.
    pub position: Position,
    /// Whether it is undamaged.
    pub is_whole: bool,
}

/// Something that differs from what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Damage in the log. What follows was not read.
    #[error("{file}, offset {offset}: {what}")]
    Log {
        /// The segment file.
        file: String,
        /// Offset in the file.
        offset: u64,
        /// All damage.
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
        /// The partition.
        partition: PartitionId,
        /// The oldest entry.
        first: Position,
    },
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// What opening would find and do; with damage, only up to it.
    pub log: OpenReport,
    /// The partitions, in order.
    pub partitions: Vec<PartitionReport>,
    /// The snapshots, in order.
    pub snapshots: Vec<SnapshotReport>,
    /// All damage.
    pub damage: Vec<Damage>,
}

/// Reads the log of a directory, every byte of it, and changes nothing.
///
/// # Errors
/// [`OpenError`]: a process has the directory open, or it cannot be read. Damage is in the report.
pub fn check(directory: &Path) -> Result<CheckReport, OpenError> {
    let path = directory.display().to_string();
    let (directory, _lock) = Directory::lock_for_reading(directory).map_err(|error| match error {
        None => OpenError::InUse(path.clone()),
        Some(source) => OpenError::io("open", &path)(source),
    })?;
    check_on(&(Arc::new(directory) as Arc<dyn Storage>))
}

/// Checks the log in a storage that does not change meanwhile.
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
