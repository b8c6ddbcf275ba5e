//! Batches of operations: a batch is applied completely or not at all. `single` handles one operation alone
//! without this machinery.
//!
//! 1. The operations are sorted by range (and keep their order within a range), so that a range's memory is
//!    fetched once, and prefetched.
//! 2. They are applied range by range, with an undo log and a list of the slots they changed.
//! 3. If all succeed, the list becomes deltas. Otherwise all is undone.

use super::graph::{GraphError, GraphScratch, SlotLink};
use super::payload::PayloadWriter;
use super::store::{PrefetchStage, Ranges, Store, with};
use super::structure::{LocalTable, Op};
use crate::huge::Zeroable;
use crate::op_order::{OrderedOp, sort};
use crate::prefetch::prefetch_read;
use crate::published::UpdateError;
use scalebricks_types::{PartitionCount, PartitionId};
use std::ops::Range;

/// How many operations ahead of the current one memory is prefetched, for each prefetch stage.
const AHEAD: [usize; 2] = [40, 24];

/// One step of the undo log.
#[derive(Debug, Clone, Copy)]
enum Undo {
    Take(u64),
    Put(u64, u16),
    Set(u64, u16),
    Seed(u8),
}

/// A range that a batch has changed.
#[derive(Debug)]
struct Touched {
    partition: PartitionId,
    range: u32,
    undo: Range<u32>,
    /// The changed slots of this range, as a range of indices into the list of all changed slots.
    slots: Range<u32>,
    /// Whether the range has a new seed, and therefore new bits everywhere.
    reseeded: bool,
}

/// A batch in progress. It is reused to avoid allocating for each batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    order: Vec<OrderedOp>,
    spare: Vec<OrderedOp>,
    touched: Vec<Touched>,
    undo: Vec<Undo>,
    slots: Vec<u32>,
    pub(super) work: GraphScratch,
    /// Number of ranges that got a new seed.
    pub(super) reseeded: u64,
}

impl Batch {
    /// Clears the previous batch.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.touched.clear();
        self.undo.clear();
        self.slots.clear();
        self.reseeded = 0;
    }

    /// Adds an operation, with the number of its range among all ranges.
    pub(super) fn add(&mut self, range: u32, op: usize, hash: u64) {
        self.order.push(OrderedOp { slot: range, op: op as u32, hash }); // a batch fits memory
    }

    /// The touched partitions, ascending.
    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.touched.chunk_by(|one, next| one.partition == next.partition).map(|run| run[0].partition)
    }

    /// Applies the operations. Returns the first error by position in the batch, if there is one before
    /// `limit`.
    pub(super) fn perform(
        &mut self,
        parts: &mut [Option<Store>],
        partitions: PartitionCount,
        ops: &[Op],
        limit: usize,
    ) -> Option<UpdateError> {
        sort(&mut self.order, &mut self.spare);
        let order = std::mem::take(&mut self.order);
        let mut limit = (limit, None);
        let mut at = 0;
        let of_first = order.first().and_then(|entry| {
            let partition = partitions.of(scalebricks_types::KeyHash::new(entry.hash));
            parts[usize::from(partition.0)].as_ref()
        });
        // If many operations share a range, the first one fetches what the others need.
        let are_many = of_first.is_some_and(|store| order.len() > store.layout().params.ranges() as usize);
        for ahead in 1..=AHEAD[0] {
            prefetch_ahead(parts, partitions, are_many, &order, ops, at, |distance| {
                (ahead + distance).checked_sub(AHEAD[0])
            });
        }
        for run in order.chunk_by(|one, next| one.slot == next.slot) {
            let hash = ops[run[0].op as usize].hash();
            let partition = partitions.of(hash);
            for step in 0..run.len() {
                prefetch_ahead(parts, partitions, are_many, &order, ops, at + step, Some);
            }
            at += run.len();
            let Some(store) = &mut parts[usize::from(partition.0)] else {
                unreachable!("only operations on partitions held here were added");
            };
            let range = store.layout().params.locate(hash).1;
            let from = (self.undo.len() as u32, self.slots.len() as u32, self.reseeded);
            self.work.changed.clear();
            let failed = with!(store, ranges => self.run(ranges, range, run, ops, limit.0));
            if let Some((op, refused)) = failed {
                let first = u32::from(partition.0) * store.layout().params.ranges_per_partition();
                limit = (op, Some(named(refused, store, (first, range), op)));
            }
            if run.len() > 1 || self.work.changed.len() > 1 {
                self.work.changed.sort_unstable();
                self.work.changed.dedup();
            }
            self.slots.extend_from_slice(&self.work.changed);
            self.touched.push(Touched {
                partition,
                range,
                undo: from.0..self.undo.len() as u32,
                slots: from.1..self.slots.len() as u32,
                reseeded: from.2 != self.reseeded,
            });
        }
        self.order = order;
        limit.1
    }

    /// Applies the operations on one range that are before `limit`. Returns the first error and its position.
    #[inline]
    fn run<L: SlotLink + Zeroable>(
        &mut self,
        ranges: &mut Ranges<L>,
        range: u32,
        run: &[OrderedOp],
        ops: &[Op],
        mut limit: usize,
    ) -> Option<(usize, GraphError)> {
        let mut graph = ranges.graph(range);
        let mut failed = None;
        for entry in run {
            let op = entry.op as usize;
            if op >= limit {
                continue;
            }
            let hash = entry.hash;
            let done = match ops[op] {
                Op::Insert(_, value) => graph.put(hash, value, &mut self.work).map(|seed| {
                    if let Some(seed) = seed {
                        self.undo.push(Undo::Seed(seed));
                        self.reseeded += 1;
                    }
                    Undo::Take(hash)
                }),
                Op::Update(_, value) => {
                    graph.set(hash, value, &mut self.work).map(|old| Undo::Set(hash, old))
                }
                Op::Remove(_) => graph.take(hash, &mut self.work).map(|old| Undo::Put(hash, old)),
            };
            match done {
                Ok(undo) => self.undo.push(undo),
                Err(refused) => {
                    limit = op;
                    failed = Some((op, refused));
                }
            }
        }
        failed
    }

    /// Restores the ranges to their state before the batch.
    pub(super) fn undo(&mut self, parts: &mut [Option<Store>]) {
        for touched in self.touched.drain(..).rev() {
            let Some(store) = &mut parts[usize::from(touched.partition.0)] else { continue };
            for step in self.undo.drain(touched.undo.start as usize..).rev() {
                let work = &mut self.work;
                let undone = with!(store, ranges => {
                    let mut graph = ranges.graph(touched.range);
                    match step {
                        Undo::Take(hash) => graph.take(hash, work).is_ok(),
                        Undo::Put(hash, value) => graph.put(hash, value, work) == Ok(None),
                        Undo::Set(hash, value) => graph.set(hash, value, work).is_ok(),
                        Undo::Seed(seed) => graph.recolour(seed, &mut work.colouring),
                    }
                });
                if !undone {
                    unreachable!("a step that was just done can be undone");
                }
            }
        }
    }

    /// The payload of the changes to a partition. Also applies them to the owner's table, if there is one.
    pub(super) fn commit(
        &self,
        store: &Store,
        partition: PartitionId,
        scratch: Vec<u64>,
        mut local: Option<&mut LocalTable<'_>>,
    ) -> PayloadWriter {
        let first = self.touched.partition_point(|touched| touched.partition < partition);
        let run = &self.touched[first..];
        let run = &run[..run.partition_point(|touched| touched.partition == partition)];
        let params = &store.layout().params;
        let from = u32::from(partition.0) * params.ranges_per_partition();
        let mut writer = PayloadWriter::of_changes(store.layout(), run.len() as u32, scratch); // at most all ranges
        for touched in run {
            let (words, seed) = (store.words(touched.range), store.head(touched.range).seed);
            let slots = &self.slots[touched.slots.start as usize..touched.slots.end as usize];
            if touched.reseeded {
                writer.range(touched.range, seed, words);
            } else {
                writer.slots(touched.range, slots, words);
            }
            if let Some(local) = &mut local
                && (touched.reseeded || !slots.is_empty())
            {
                local.publish(partition, from + touched.range, words, seed);
            }
        }
        writer
    }
}

/// Prefetches the memory of operations ahead of the one at this position.
#[inline]
fn prefetch_ahead(
    parts: &[Option<Store>],
    partitions: PartitionCount,
    are_many: bool,
    order: &[OrderedOp],
    ops: &[Op],
    at: usize,
    place: impl Fn(usize) -> Option<usize>,
) {
    for (step, distance) in [PrefetchStage::RangeHeader, PrefetchStage::Slots].into_iter().zip(AHEAD) {
        let Some(place) = place(distance).map(|ahead| at + ahead) else { continue };
        let Some(entry) = order.get(place) else { continue };
        let step = match step {
            PrefetchStage::Slots if are_many => {
                let is_first = place == 0 || order[place - 1].slot != entry.slot;
                if is_first { PrefetchStage::AllSlots } else { PrefetchStage::Names }
            }
            step => step,
        };
        if let PrefetchStage::RangeHeader = step {
            prefetch_read(&ops[entry.op as usize]);
        }
        let hash = scalebricks_types::KeyHash::new(entry.hash);
        if let Some(store) = &parts[usize::from(partitions.of(hash).0)] {
            store.prefetch(store.layout().params.locate(hash).1, entry.hash, step);
        }
    }
}

/// Converts the error of a range to that of the batch.
pub(super) fn named(
    refused: GraphError,
    store: &Store,
    (first, range): (u32, u32),
    op: usize,
) -> UpdateError {
    match refused {
        GraphError::Exists => UpdateError::Exists { op },
        GraphError::Missing => UpdateError::Missing { op },
        GraphError::Names | GraphError::Seeds => store.full(refused, first, range).into(),
    }
}
