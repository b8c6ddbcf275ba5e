//! What the ScaleBricks paper reports (Table 1, §4.4, Figures 7 and 11): 64 M keys, Xeon E5-2680.

use scalebricks_tables::setsep::Format;

/// A row of Table 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Construction {
    /// The setting, `x+y`.
    pub format: Format,
    /// Bits of a value.
    pub value_bits: u8,
    /// Threads.
    pub threads: usize,
    /// Millions of keys a second.
    pub mkeys_per_second: f64,
    /// Share of the keys that ended in the fallback, where the paper tells one.
    pub fallback: Option<f64>,
}

const fn row(format: Format, value_bits: u8, threads: usize, mkeys_per_second: f64) -> Construction {
    Construction { format, value_bits, threads, mkeys_per_second, fallback: None }
}

/// Table 1.
pub const CONSTRUCTION: [Construction; 7] = [
    row(Format::Paper16x8, 1, 1, 0.54),
    row(Format::Paper16x8, 2, 1, 0.24),
    row(Format::Paper16x8, 3, 1, 0.18),
    row(Format::Paper16x8, 4, 1, 0.14),
    row(Format::Paper16x8, 1, 16, 2.97),
    Construction { fallback: Some(0.0115), ..row(Format::Paper8x16, 1, 1, 2.42) },
    row(Format::Paper16x16, 1, 1, 2.47),
];

/// Bits a key of 16+8: 0.5 of choices, and 1.5 for each value bit.
pub const fn bits_per_key(value_bits: u8) -> f64 {
    0.5 + 1.5 * value_bits as f64
}

/// Keys of the paper's tables.
pub const KEYS: u64 = 64_000_000;

/// Keys a group on average.
pub const KEYS_PER_GROUP: u32 = 16;

/// Keys in the fullest group at 16 M keys.
pub const MAX_GROUP_LOAD: u32 = 21;

/// The same where keys are hashed straight to groups: more than this.
pub const MAX_GROUP_LOAD_DIRECT: u32 = 40;

/// Millions of lookups a second: 64 M keys, 2-bit values, 16 threads, batches of [`LOOKUP_BATCH`].
pub const MLOOKUPS_PER_SECOND: f64 = 520.0;

/// Keys a batch of that rate.
pub const LOOKUP_BATCH: usize = 17;

/// Most that batches gained.
pub const BATCH_GAIN: f64 = 1.8;

/// Bits of a FIB entry in the paper's counting of flows.
pub const ENTRY_BITS: f64 = 64.0;

/// What the paper gives as the gain in flows, without deriving it.
pub const PRINTED_CAPACITY_GAIN: f64 = 5.7;
