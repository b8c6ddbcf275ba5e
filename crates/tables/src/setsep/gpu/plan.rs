//! What the host and the kernels agree on: constants, sizes of arrays, and numbers of threads.

use crate::setsep::balance::{ROUNDS, TOLERANCE};
use crate::setsep::format::Format;
use crate::setsep::geometry::{BUCKETS, GROUPS, OFFSETS};
use crate::setsep::kernels::balance::{FARTHEST, LOAD, RUNS, SIZES};
use crate::setsep::layout::CHOICE_WORDS;
use crate::setsep::linear::{
    FINAL_32, FINAL_64, FieldLayout, MULTIPLIER_32, MULTIPLIER_64, Rows, SEED_STEP_32, SEED_STEP_64,
};
use crate::setsep::params::Params;

/// The kernels. They need [`Plan::macros`] in front.
pub(super) const KERNELS: &str = include_str!("kernels.cu");

/// Threads per thread block, in all kernels.
pub(super) const THREADS: usize = 256;

/// Threads that execute one instruction together.
#[cfg(test)]
pub(super) const WARP: usize = 32;

/// Numbers that one thread block sums up in a prefix sum.
pub(super) const TILE: usize = 1024;

#[cfg(feature = "cuda")]
/// The maximum number of keys: their numbers and places have 32 bits on the device.
pub(super) const MAX_KEYS: usize = u32::MAX as usize;

/// A status word while nothing is wrong.
pub(super) const NOTHING_WRONG: u64 = u64::MAX;

/// The kernels of one table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) params: Params,
}

impl Plan {
    /// A plan for these parameters, or their format if the kernels do not build it.
    pub(super) fn new(params: Params) -> Result<Self, Format> {
        match params.format() {
            Format::Linear | Format::Dense => Ok(Self { params }),
            format => Err(format),
        }
    }

    /// Number of tiles of the prefix sum over all blocks.
    pub(super) const fn tiles(&self) -> usize {
        (self.params.blocks() as usize).div_ceil(TILE)
    }

    /// Words of all blocks.
    pub(super) const fn table_words(&self) -> usize {
        self.params.blocks() as usize * self.params.slot_words()
    }

    /// Bytes of device memory that a build of this many hashed keys takes, its input included: 20 per key, and 16 per
    /// block beside its words.
    ///
    /// Per key: hash 8, value 1, rank 2, moved hash 8, moved value 1. Per block: count 4, first key 4, marks 8. Per
    /// tile: 4. Status: 16.
    #[cfg(feature = "cuda")]
    pub(super) const fn device_bytes(&self, keys: usize) -> usize {
        let blocks = self.params.blocks() as usize;
        keys * 20 + blocks * 16 + self.table_words() * 8 + self.tiles() * 4 + 16
    }

    /// Bytes that a build of this many keys reads and writes if every kernel moves each byte once: 40 per key.
    ///
    /// Per key: `histogram` 9 + 2, `scatter` 11 + 9, `build_blocks` 9. Per block: its words, and 4 to 8 bytes of
    /// counts, first keys and marks per use.
    #[cfg(feature = "cuda")]
    pub(super) const fn traffic_bytes(&self, keys: usize) -> usize {
        let blocks = self.params.blocks() as usize;
        keys * 40 + self.table_words() * 8 + blocks * 36
    }

    /// The macros in front of [`KERNELS`].
    pub(super) fn macros(&self) -> String {
        let Self { params } = self;
        let shape = FieldLayout::of(params);
        let (multiplier, step, last) = match shape.width {
            32 => (MULTIPLIER_32.into(), SEED_STEP_32.into(), FINAL_32.into()),
            _ => (MULTIPLIER_64, SEED_STEP_64, FINAL_64),
        };
        let suffix = if shape.width == 32 { "u" } else { "ull" };
        let offsets = OFFSETS.map(|offset| offset.to_string()).join(", ");
        let numbers: [(&str, u64); 21] = [
            ("THREADS", THREADS as u64),
            ("TILE", TILE as u64),
            ("BLOCKS", params.blocks().into()),
            ("BUCKETS", BUCKETS as u64),
            ("GROUPS", GROUPS as u64),
            ("BLOCK_CAPACITY", params.format().block_capacity() as u64),
            ("CHOICE_WORDS", CHOICE_WORDS as u64),
            ("SLOT_WORDS", params.slot_words() as u64),
            ("VALUE_BITS", params.value_bits().into()),
            ("FIELD_BITS", shape.width.into()),
            ("COLUMNS", shape.columns.into()),
            ("SEEDS", shape.seeds().into()),
            ("SEED_BITS", shape.seed_bits.into()),
            ("SEED_FIELDS", shape.seed_fields.into()),
            ("RUNS", RUNS as u64),
            ("SIZES", SIZES as u64),
            ("LOAD_SHIFT", LOAD.into()),
            ("FARTHEST", FARTHEST.into()),
            ("TARGET_LOAD", params.format().target_load().into()),
            ("TOLERANCE", TOLERANCE.into()),
            ("ROUNDS", ROUNDS as u64),
        ];
        let line = |(name, number): (&str, u64)| format!("#define {name} {number}u\n");
        let word = |(name, number): (&str, u64)| format!("#define {name} {number:#x}{suffix}\n");
        let words = [("MULTIPLIER", multiplier), ("SEED_STEP", step), ("FINAL", last)].map(word).concat();
        let key = format!("#define ROW_KEY {:#x}ull\n#define OFFSETS {offsets}\n", Rows::of(params).key());
        [numbers.map(line).concat(), words, key].concat()
    }
}
