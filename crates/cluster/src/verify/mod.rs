//! Compares the tables of nodes with the logs. Each node compares its own tables, one partition at a time, with a RIB that it
//! builds itself; one node asks all living nodes for the whole cluster.
//!
//! ```text
//! engine ─▶ RIB at R ─▶ wait until the tables are at R ─▶ compare all keys ─▶ suspects
//!             ▲                                                                  │
//!            └── read on to R' ◀── keys that were changed meanwhile ◀────────────┴─▶ the others differ
//! ```
//!
//! While updates arrive, tables and RIB are never at the same entry. But the tables were read between R and R', the end of the log
//! after the reading: a key that no entry between the two changes must be as in the RIB. Other keys are compared again, and
//! finally left out and counted.

mod asking;
mod compare;
mod verdict;

pub(super) use asking::Verifications;
pub use verdict::{Difference, DifferenceKind, Verdict};

use super::event::Event;
use super::rib::{LogReader, RibError, blocking};
use compare::Suspect;
use scalebricks_control::partition::Partition;
use scalebricks_tables::FibValue;
use scalebricks_types::{FlowKey, NodeId, PartitionCount, PartitionId};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Time between two checks of the tables' positions.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Tables that do not reach their log's end within this time are reported as behind.
const BEHIND: Duration = Duration::from_secs(5);

/// How often keys that were changed meanwhile are compared again.
const ROUNDS: usize = 4;

/// How often the whole FIB is read: the keys of one part of the partitions are in memory at a time.
const SCANS: usize = 8;

/// A node's tables, readable beside their updates.
pub trait Readable: Send + Sync {
    /// The nodes that the GPT names for these keys, one each.
    fn named(&self, keys: &[FlowKey]) -> Vec<u8>;

    /// The FIB's values of these keys, as the log has them; one each.
    fn held(&self, keys: &[FlowKey]) -> Vec<Option<FibValue>>;

    /// The FIB's keys of some partitions. Cost: reads all of the FIB.
    fn keys_in(&self, partitions: Range<usize>) -> Vec<FlowKey>;
}

/// Compares a node's tables with the logs.
pub(super) struct Comparison {
    pub(super) node: NodeId,
    pub(super) partitions: PartitionCount,
    pub(super) reading: LogReader,
    pub(super) tables: Arc<dyn Readable>,
    pub(super) events: mpsc::Sender<Event>,
    /// Most differences to list; the others are counted.
    pub(super) told: usize,
}

impl Comparison {
    /// Compares all partitions.
    pub(super) async fn run(self) -> Verdict {
        let mut verdict = Verdict::default();
        if let Err(error) = self.compare_all(&mut verdict).await {
            verdict.problem = Some(error.to_string());
        }
        verdict
    }

    async fn compare_all(&self, verdict: &mut Verdict) -> Result<(), RibError> {
        let count = self.partitions.get() as usize;
        let each = count.div_ceil(SCANS);
        for first in (0..count).step_by(each) {
            let range = first..(first + each).min(count);
            let mut by_partition = self.scan(range.clone()).await?;
            for at in range {
                let partition = PartitionId(at as u16); // at most 2^16
                let held = by_partition.remove(&partition).unwrap_or_default();
                self.compare(partition, held, verdict).await?;
            }
        }
        Ok(())
    }

    /// The FIB's keys of some partitions.
    async fn scan(&self, range: Range<usize>) -> Result<HashMap<PartitionId, Vec<FlowKey>>, RibError> {
        let (tables, partitions, hasher) = (Arc::clone(&self.tables), self.partitions, self.reading.hasher);
        blocking(move || {
            let mut by_partition: HashMap<PartitionId, Vec<FlowKey>> = HashMap::new();
            for key in tables.keys_in(range) {
                by_partition.entry(partitions.of(hasher.hash(&key))).or_default().push(key);
            }
            by_partition
        })
        .await
    }

    async fn compare(
        &self,
        partition: PartitionId,
        held: Vec<FlowKey>,
        verdict: &mut Verdict,
    ) -> Result<(), RibError> {
        let rib = self.reading.load(partition).await?;
        verdict.partitions += 1;
        if let Some(behind) = self.behind(&rib).await? {
            verdict.differ(self.told, behind);
            return Ok(());
        }
        let (tables, node) = (Arc::clone(&self.tables), self.node);
        let (mut rib, compared) = blocking(move || {
            let compared = compare::all(&rib, node, &held, &*tables);
            (rib, compared)
        })
        .await?;
        verdict.keys += compared.keys;
        verdict.keys_here += compared.keys_here;
        let mut suspects = compared.suspects;
        for round in 0..=ROUNDS {
            suspects = self.without_leaving(partition, suspects).await?;
            if suspects.is_empty() {
                return Ok(());
            }
            let (next, touched) = self.reading.advance(rib).await?;
            rib = next;
            let (again, different): (Vec<Suspect>, Vec<Suspect>) =
                suspects.into_iter().partition(|suspect| touched.contains(&suspect.key));
            for suspect in different {
                verdict.differ(self.told, suspect.difference(partition));
            }
            if again.is_empty() {
                return Ok(());
            }
            let keys: HashSet<FlowKey> = again.into_iter().map(|suspect| suspect.key).collect();
            if round == ROUNDS || self.behind(&rib).await?.is_some() {
                verdict.in_flight += keys.len() as u64;
                return Ok(());
            }
            let tables = Arc::clone(&self.tables);
            (rib, suspects) = blocking(move || {
                let suspects = compare::some(&rib, node, keys, &*tables);
                (rib, suspects)
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until this node's tables are at the RIB's positions; returns how far behind they are if that takes too long.
    async fn behind(&self, rib: &Partition) -> Result<Option<Difference>, RibError> {
        let began = Instant::now();
        let (fib, gpt) = (rib.fib_position(self.node), rib.gpt_position());
        loop {
            let (answer, report) = oneshot::channel();
            self.ask(Event::Where(rib.id(), answer)).await?;
            let report = report.await.map_err(|_| RibError::Stopping)?;
            if report.is_some_and(|report| report.fib >= fib && report.gpt >= gpt) {
                return Ok(None);
            }
            if began.elapsed() >= BEHIND {
                let found = report.map_or((0, 0), |report| (report.fib.0, report.gpt.0));
                return Ok(Some(Difference::behind(rib.id(), (fib.0, gpt.0), found)));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Removes keys that the node holds deliberately until all others know that they have left.
    async fn without_leaving(
        &self,
        partition: PartitionId,
        suspects: Vec<Suspect>,
    ) -> Result<Vec<Suspect>, RibError> {
        let (surplus, mut others): (Vec<Suspect>, Vec<Suspect>) =
            suspects.into_iter().partition(|suspect| suspect.kind == DifferenceKind::FibSurplus);
        if surplus.is_empty() {
            return Ok(others);
        }
        let keys: Vec<FlowKey> = surplus.iter().map(|suspect| suspect.key).collect();
        let (answer, leaving) = oneshot::channel();
        self.ask(Event::Leaving(partition, keys.clone(), answer)).await?;
        let leaving = leaving.await.map_err(|_| RibError::Stopping)?;
        // A key that has been removed since is not leaving any more, and not in the FIB either.
        let tables = Arc::clone(&self.tables);
        let held = blocking(move || tables.held(&keys)).await?;
        let still = surplus.into_iter().zip(leaving).zip(held);
        others.extend(
            still.filter(|((_, leaving), held)| !leaving && held.is_some()).map(|((suspect, _), _)| suspect),
        );
        Ok(others)
    }

    async fn ask(&self, event: Event) -> Result<(), RibError> {
        self.events.send(event).await.map_err(|_| RibError::Stopping)
    }
}
