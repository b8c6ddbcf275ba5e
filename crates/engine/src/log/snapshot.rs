//! Reads the newest snapshot of a partition.

use scalebricks_control::engine::{Engine, EngineError, ReadError, Snapshot};
use scalebricks_types::{PartitionId, Position};

/// Why there is no usable snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The snapshot cannot be read.
    #[error(transparent)]
    Snapshot(EngineError),
    /// The end of the log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The snapshot holds entries that the log does not have.
    #[error(
        "the snapshot is of position {}, but the log ends at {}: remove the snapshot, or restore both from one backup",
        .snapshot.0, .last.0
    )]
    OtherLog {
        /// The position of the snapshot.
        snapshot: Position,
        /// The end of the log.
        last: Position,
    },
}

impl LoadError {
    /// Whether stored data is damaged or does not fit together, so that time alone does not help.
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Snapshot(error) => !matches!(error, EngineError::Unavailable(_)),
            Self::Log(error) => matches!(error, ReadError::Damaged { .. }),
            Self::OtherLog { .. } => true,
        }
    }
}

/// The newest snapshot of a partition if there is one, and the position at which the log ended afterwards.
///
/// # Errors
/// [`LoadError`].
pub async fn load_snapshot(
    engine: &dyn Engine,
    partition: PartitionId,
) -> Result<(Option<Snapshot>, Position), LoadError> {
    let snapshot = engine.snapshot(partition).await.map_err(LoadError::Snapshot)?;
    // Read after the snapshot: in between the log may have grown, and a newer snapshot with it.
    let last = engine.last(partition).await?;
    match snapshot {
        Some(Snapshot { position, .. }) if position > last => {
            Err(LoadError::OtherLog { snapshot: position, last })
        }
        snapshot => Ok((snapshot, last)),
    }
}
