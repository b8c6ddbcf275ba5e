//! The query structure in one shape: ranges that readers look names up in, and how one writer changes them.

use super::arena::{Arena, Spares};
use super::changes::Changes;
use super::image::Layout;
use super::params::Params;
use crate::publish::epoch::Epochs;
use crate::publish::line::Line;
use crate::publish::sync::{Arc, Memory};
use scalebricks_types::PartitionId;

/// What readers see of a table in one shape.
#[derive(Debug)]
pub(super) struct Face {
    pub(super) layout: Layout,
    pub(super) arena: Arena,
}

/// What only whoever changes a [`Face`] needs.
#[derive(Debug)]
pub(super) struct FaceWriter {
    spares: Spares,
    words: Vec<u64>,
}

/// Ranges asked for ahead of the one to be replaced.
const RANGES_AHEAD: usize = 4;

impl Face {
    /// A face without names.
    pub(super) fn empty(params: Params, epochs: Arc<Epochs>) -> (Self, FaceWriter) {
        let seeds = vec![0; params.ranges() as usize];
        Self::with_memory(params, Self::memory(&params), &seeds, epochs)
    }

    /// Zeroed lines for a face of these parameters: those of all its ranges, in their order, which the caller may fill
    /// before it gives the memory to [`with_memory`](Self::with_memory), and more behind.
    pub(super) fn memory(params: &Params) -> Memory<Line> {
        Arena::memory(params.ranges() as usize, Layout::of(params).words / 8)
    }

    /// A face of the ranges in a [`memory`](Self::memory) made for the same parameters, with these seeds.
    pub(super) fn with_memory(
        params: Params,
        memory: Memory<Line>,
        seeds: &[u8],
        epochs: Arc<Epochs>,
    ) -> (Self, FaceWriter) {
        let layout = Layout::of(&params);
        let (arena, spares) = Arena::new(memory, seeds, layout.words / 8, epochs);
        (Self { layout, arena }, FaceWriter { spares, words: vec![0; layout.words] })
    }

    /// Asks for what the next change will write.
    pub(super) fn prefetch_spare(&self, writer: &FaceWriter) {
        self.arena.prefetch_spare(&writer.spares);
    }

    /// Copies one range out, and its seed. The caller holds the writer's lock, so that it stays.
    pub(super) fn state(&self, range: u32, words: &mut Vec<u64>) -> u8 {
        let (slot, seed) = self.arena.find(range);
        words.resize(self.layout.words, 0);
        self.arena.copy(slot, words);
        seed
    }

    /// Publishes what changes in a partition.
    pub(super) fn publish(&self, writer: &mut FaceWriter, partition: PartitionId, changes: &Changes) {
        let FaceWriter { spares, words } = writer;
        let first = u32::from(partition.0) * self.layout.params.ranges_per_partition();
        for at in 0..changes.len() {
            if let Some(ahead) = changes.number(at + RANGES_AHEAD) {
                self.arena.prefetch(first + ahead);
            }
            let change = changes.get(at);
            let range = first + change.range;
            if let Some((seed, whole)) = change.whole {
                self.arena.publish(spares, range, whole, seed);
                continue;
            }
            let (slot, seed) = self.arena.find(range);
            self.arena.copy(slot, words);
            for &(slot, value) in change.slots {
                let difference = self.layout.get(words, slot) ^ value;
                self.layout.flip(words, slot, difference);
            }
            self.arena.publish(spares, range, words, seed);
        }
    }

    /// Publishes a range as its control structure has it.
    pub(super) fn publish_own(&self, writer: &mut FaceWriter, range: u32, words: &[u64], seed: u8) {
        self.arena.publish(&mut writer.spares, range, words, seed);
    }
}
