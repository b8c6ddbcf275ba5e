//! Builds a partition's RIB from its log: it is a function of the log, so no owner has to be asked.

use super::plane::ControlPlane;
use scalebricks_control::engine::{Engine, EngineError, Entry, ReadError, Snapshot};
use scalebricks_control::partition::Partition;
use scalebricks_engine::log::{LoadError, load_snapshot};
use scalebricks_tables::compact::Params;
use scalebricks_tables::fib::FibOp;
use scalebricks_types::{FlowKey, KeyHasher, PartitionId, Position};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::RuntimeFlavor;

/// Bytes of a log per read.
const READ_BYTES: usize = 1 << 20;

/// Most attempts to read a log that is trimmed meanwhile.
const TRIES: usize = 3;

/// Time limit for a partition: an engine that cannot be reached may never answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a partition's state could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RibError {
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The snapshot is unusable.
    #[error("the snapshot of partition {}: {what}", .partition.0)]
    Snapshot {
        /// The partition.
        partition: PartitionId,
        /// What is wrong with it.
        what: String,
    },
    /// It took too long.
    #[error("partition {} could not be read within {} s", .0.0, PATIENCE.as_secs())]
    TimedOut(PartitionId),
    /// The process is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Builds partitions' states from an engine's snapshots and logs.
#[derive(Debug, Clone)]
pub(super) struct LogReader {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) params: Params,
    pub(super) hasher: KeyHasher,
}

impl LogReader {
    /// A partition in the present state of its log: the newest snapshot, and all later entries.
    ///
    /// Cost: memory of one partition's owner; the time to apply the entries after the newest snapshot, at most
    /// [`REPLAY`](scalebricks_control::agent::REPLAY) while its owner can store snapshots.
    pub(super) async fn load(&self, partition: PartitionId) -> Result<Partition, RibError> {
        let load = async {
            let mut tries = 1;
            loop {
                let rib = self.restore(partition).await?;
                match self.advance(rib).await {
                    // A newer snapshot was stored and the entries between the two are gone, or an older log replaced this one.
                    Err(RibError::Log(ReadError::Trimmed { .. } | ReadError::Ahead { .. }))
                        if tries < TRIES =>
                    {
                        tries += 1;
                    }
                    done => return done.map(|(rib, _)| rib),
                }
            }
        };
        tokio::time::timeout(PATIENCE, load).await.map_err(|_| RibError::TimedOut(partition))?
    }

    /// The state of the newest snapshot, or an empty partition.
    async fn restore(&self, partition: PartitionId) -> Result<Partition, RibError> {
        let loaded = load_snapshot(&*self.engine, partition).await;
        let (snapshot, _) = loaded.map_err(|error| match error {
            LoadError::Log(error) => RibError::Log(error),
            LoadError::Snapshot(EngineError::Unavailable(why)) => RibError::Log(ReadError::Unavailable(why)),
            other => RibError::Snapshot { partition, what: other.to_string() },
        })?;
        self.build(partition, snapshot).await
    }

    /// The state of a snapshot; without one, an empty partition.
    pub(super) async fn build(
        &self,
        partition: PartitionId,
        snapshot: Option<Snapshot>,
    ) -> Result<Partition, RibError> {
        let hasher = self.hasher;
        let Some(snapshot) = snapshot else {
            return Ok(Partition::new(partition, self.params, hasher));
        };
        let restored = blocking(move || Partition::restore(&snapshot.bytes, hasher)).await?;
        restored.map_err(|error| RibError::Snapshot { partition, what: error.to_string() })
    }

    /// Applies the log up to its present end, and returns the keys that changed.
    pub(super) async fn advance(
        &self,
        mut rib: Partition,
    ) -> Result<(Partition, HashSet<FlowKey>), RibError> {
        let partition = rib.id();
        let advance = async {
            let last = self.engine.last(partition).await?;
            let mut touched = HashSet::new();
            while rib.position() < last {
                let from = Position(rib.position().0 + 1);
                let entries = self.engine.read(partition, from, READ_BYTES).await?;
                if entries.is_empty() {
                    let what = "the log is shorter than the engine reported".to_owned();
                    return Err(RibError::Log(ReadError::Unavailable(what)));
                }
                let (next, keys) = blocking(move || apply(rib, &entries)).await??;
                rib = next;
                touched.extend(keys);
            }
            Ok((rib, touched))
        };
        tokio::time::timeout(PATIENCE, advance).await.map_err(|_| RibError::TimedOut(partition))?
    }
}

/// Applies entries. Every change of a key's session changes some node's FIB.
fn apply(mut rib: Partition, entries: &[Entry]) -> Result<(Partition, Vec<FlowKey>), RibError> {
    let mut touched = Vec::new();
    for entry in entries {
        let effects = rib.apply(entry).map_err(|error| {
            let (partition, position) = (rib.id(), entry.position);
            RibError::Log(ReadError::Damaged { partition, position, what: error.to_string() })
        })?;
        let ops = effects.fib.iter().flat_map(|(_, update)| &update.ops);
        touched.extend(ops.map(|op| match op {
            FibOp::Set(key, _) | FibOp::Delete(key) => *key,
        }));
    }
    Ok((rib, touched))
}

/// Runs long work outside the runtime's own threads, or in place on a runtime of one thread, so that a simulation is deterministic.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RibError> {
    if tokio::runtime::Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|_| RibError::Stopping)
}

impl ControlPlane {
    /// The partitions of the key space.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.shared.partitions.get()).map(|at| PartitionId(at as u16)) // at most 2^16
    }

    /// A partition's state from its present log, built here from the engine's snapshot and log without asking an owner. Takes the
    /// memory of one partition at its owner.
    ///
    /// # Errors
    /// [`RibError`].
    pub async fn rib(&self, partition: PartitionId) -> Result<Partition, RibError> {
        let reading = self.reading.clone();
        self.runtime
            .spawn(async move { reading.load(partition).await })
            .await
            .map_err(|_| RibError::Stopping)?
    }
}
