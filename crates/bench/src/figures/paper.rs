//! All numbers of the ScaleBricks paper (Table 1, §4.4, Figures 7 and 11), measured with 64 M keys on a Xeon
//! E5-2680.

use scalebricks_tables::setsep::Format;

/// A row of Table 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Construction {
    /// The setting, `x+y`.
    pub format: Format,
    /// Bits per value.
    pub value_bits: u8,
    /// Threads.
    pub threads: usize,
    /// Million keys per second.
    pub mkeys_per_second: f64,
    /// Share of the keys in the fallback.
    pub fallback: f64,
    /// Bits per key.
    pub bits_per_key: f64,
}

const fn row(
    format: Format,
    value_bits: u8,
    threads: usize,
    mkeys_per_second: f64,
    (fallback, bits_per_key): (f64, f64),
) -> Construction {
    Construction { format, value_bits, threads, mkeys_per_second, fallback, bits_per_key }
}

/// Table 1.
pub const CONSTRUCTION: [Construction; 10] = [
    row(Format::Paper16x8, 1, 1, 0.54, (0.0, 2.0)),
    row(Format::Paper8x16, 1, 1, 2.42, (0.0115, 2.08)),
    row(Format::Paper16x16, 1, 1, 2.47, (0.0, 2.5)),
    row(Format::Paper16x8, 2, 1, 0.24, (0.0, 3.5)),
    row(Format::Paper16x8, 3, 1, 0.18, (0.0, 5.0)),
    row(Format::Paper16x8, 4, 1, 0.14, (0.0, 6.5)),
    row(Format::Paper16x8, 1, 2, 0.93, (0.0, 2.0)),
    row(Format::Paper16x8, 1, 4, 1.56, (0.0, 2.0)),
    row(Format::Paper16x8, 1, 8, 2.28, (0.0, 2.0)),
    row(Format::Paper16x8, 1, 16, 2.97, (0.0, 2.0)),
];

/// Bits per key of 16+8: 0.5 for choices, and 1.5 per value bit.
pub const fn bits_per_key(value_bits: u8) -> f64 {
    0.5 + 1.5 * value_bits as f64
}

/// Figure 3a: what the text says about the functions to try with this many cells and 16 keys per group.
pub const fn functions_to_try(cells: u32) -> &'static str {
    match cells {
        2 => "over 10,000",
        6 => "a tenth of that",
        12.. => "under 100",
        _ => "plotted only",
    }
}

/// Figure 3b: bits per group, at the minimum and at twelve cells.
pub const GROUP_BITS: (f64, f64) = (16.0, 20.0);

/// Figure 4: the largest ratio of functions tried, one function for a 2-bit value over one per bit.
pub const JOINT_SEARCH: f64 = 65_536.0;

/// Keys of the paper's tables.
pub const KEYS: u64 = 64_000_000;

/// Mean keys per group.
pub const KEYS_PER_GROUP: u32 = 16;

/// Keys in the fullest group at 16 M keys.
pub const MAX_GROUP_LOAD: u32 = 21;

/// The lower bound for the same if keys are hashed directly to groups.
pub const MAX_GROUP_LOAD_DIRECT: u32 = 40;

/// Million lookups per second with 64 M keys, 2-bit values, 16 threads and batches of [`LOOKUP_BATCH`].
pub const MLOOKUPS_PER_SECOND: f64 = 520.0;

/// Keys per batch at that rate.
pub const LOOKUP_BATCH: usize = 17;

/// Threads at that rate.
pub const LOOKUP_THREADS: usize = 16;

/// Largest gain of batches.
pub const BATCH_GAIN: f64 = 1.8;

/// Bits per FIB entry in the paper's flow counts.
pub const ENTRY_BITS: f64 = 64.0;

/// The gain in flows that the paper states without a derivation.
pub const PRINTED_CAPACITY_GAIN: f64 = 5.7;
