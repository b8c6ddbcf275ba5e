//! The parameters on which a control structure and its query structures must agree.

use scalebricks_types::{KeyHash, MAX_PAYLOAD_BYTES, PartitionCount, PartitionId};

/// Size of encoded parameters in bytes.
pub const PARAMS_BYTES: usize = 32;

/// The maximum number of ranges of a table: their slots, including spare ones, are numbered in 24 bits.
pub const MAX_RANGES: u32 = (1 << 24) - (1 << 18);

/// The maximum number of slots in one of the two arrays of a range.
const MAX_SLOTS: u32 = 1 << 30;

/// The maximum number of bits per slot: a slot may begin at any bit of a byte and is read by one 32-bit load.
const MAX_WIDTH: u8 = 24;

/// The maximum number of bits per value.
const MAX_VALUE_BITS: u8 = 16;

/// How large a table is for a number of names.
///
/// | sizing | ranges | slots per name | as |
/// |---|---|---|---|
/// | `sharded` | of 255 + 255 slots | 2.33 | measured best, `docs/adr/0021-othello-ranges.md` |
/// | `tight` | one per partition | 2.33 | the paper's average |
/// | `option-1` | one per partition | 2.67 to 5.33 | the paper's option 1, proven O(1) |
/// | `option-2` | one per partition | 2.33 to 4.67 | the paper's option 2 |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Sizing {
    /// Many small ranges, each copied and published as a whole.
    #[default]
    Sharded,
    /// One range per partition, with 1.167 slots per name in each array.
    Tight,
    /// One range per partition: the size of both arrays is the least power of two that is at least 1.33 n.
    Option1,
    /// As option 1, but the size of the second array is the least power of two that is at least n.
    Option2,
}

impl Sizing {
    /// All sizings.
    pub const ALL: [Self; 4] = [Self::Sharded, Self::Tight, Self::Option1, Self::Option2];

    /// The name that the command line and the measurements use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sharded => "sharded",
            Self::Tight => "tight",
            Self::Option1 => "option-1",
            Self::Option2 => "option-2",
        }
    }
}

impl std::fmt::Display for Sizing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Slots in each array of a range of the default sizing: as many as a byte can number, with one value left
/// for "none".
const SHARD_SLOTS: u32 = 255;

/// Number of names for which a range of this many slots is intended: 2.33 slots per name, at which half of
/// all seeds give a graph without cycles.
const fn names_for(slots: u64) -> u64 {
    slots * 3 / 7
}

/// The parameters of a table: number of ranges, number of slots in each, and bits per slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Params {
    partitions: PartitionCount,
    ranges: u32,
    slots: [u32; 2],
    value_bits: u8,
    check_bits: u8,
    seed: u64,
}

/// Why parameters are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Values of 0 bits, or of more than 16.
    #[error("{0} value bits are not 1 to 16")]
    ValueBits(u8),
    /// Slots too wide to be read by one load.
    #[error("{value_bits} value bits and {check_bits} check bits are more than 24")]
    Width {
        /// Bits per value.
        value_bits: u8,
        /// Bits per checksum.
        check_bits: u8,
    },
    /// No ranges, or more than [`MAX_RANGES`].
    #[error("{0} ranges are not 1 to {MAX_RANGES}")]
    Ranges(u64),
    /// An array without slots, or with more than 2^30.
    #[error("{0} slots are not 1 to 2^30")]
    Slots(u64),
    /// A partition does not fit one delta.
    #[error("a partition of {bytes} bytes is over the limit of {MAX_PAYLOAD_BYTES}: take more partitions")]
    PartitionTooLarge {
        /// Size of a partition in bytes.
        bytes: u64,
    },
}

impl Params {
    /// Parameters with this many ranges in each partition, and `slots` slots in the two arrays of each range.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub const fn new(
        partitions: PartitionCount,
        ranges: u32,
        slots: [u32; 2],
        value_bits: u8,
    ) -> Result<Self, ParamsError> {
        Self { partitions, ranges, slots, value_bits, check_bits: 0, seed: 0 }.check()
    }

    /// Parameters of the default sizing for this many names.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn for_keys(keys: u64, value_bits: u8, partitions: PartitionCount) -> Result<Self, ParamsError> {
        Self::sharded(keys, value_bits, partitions, [SHARD_SLOTS; 2])
    }

    /// Parameters for this many names in ranges of these numbers of slots.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn sharded(
        keys: u64,
        value_bits: u8,
        partitions: PartitionCount,
        slots: [u32; 2],
    ) -> Result<Self, ParamsError> {
        let names = names_for(u64::from(slots[0]) + u64::from(slots[1])).max(1);
        let each = keys.div_ceil(u64::from(partitions.get())).div_ceil(names).max(1);
        let ranges = u32::try_from(each).map_err(|_| ParamsError::Ranges(each))?;
        Self::new(partitions, ranges, slots, value_bits)
    }

    /// Parameters for this many names with this sizing.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn sized(
        sizing: Sizing,
        keys: u64,
        value_bits: u8,
        partitions: PartitionCount,
    ) -> Result<Self, ParamsError> {
        // A partition's share of the names, which varies like any other share of hashed names.
        let share = keys.div_ceil(partitions.get().into());
        let share = if partitions.get() == 1 { share } else { share + 5 * share.isqrt() };
        let one = |slots: [u64; 2]| {
            let slots_of = |slots: u64| u32::try_from(slots).map_err(|_| ParamsError::Slots(slots));
            Self::new(partitions, 1, [slots_of(slots[0])?, slots_of(slots[1])?], value_bits)
        };
        let a = share.saturating_mul(4).div_ceil(3).next_power_of_two();
        match sizing {
            Sizing::Sharded => Self::for_keys(keys, value_bits, partitions),
            Sizing::Tight => one([share.saturating_mul(7).div_ceil(6).max(4); 2]),
            Sizing::Option1 => one([a; 2]),
            Sizing::Option2 => one([a, share.max(1).next_power_of_two()]),
        }
    }

    const fn check(self) -> Result<Self, ParamsError> {
        let Self { value_bits, check_bits, ranges, slots, .. } = self;
        if value_bits == 0 || value_bits > MAX_VALUE_BITS {
            return Err(ParamsError::ValueBits(value_bits));
        }
        if check_bits > MAX_WIDTH || value_bits + check_bits > MAX_WIDTH {
            return Err(ParamsError::Width { value_bits, check_bits });
        }
        let all = ranges as u64 * self.partitions.get() as u64;
        if all == 0 || all > MAX_RANGES as u64 {
            return Err(ParamsError::Ranges(all));
        }
        if slots[0] == 0 || slots[0] > MAX_SLOTS {
            return Err(ParamsError::Slots(slots[0] as u64));
        }
        if slots[1] == 0 || slots[1] > MAX_SLOTS {
            return Err(ParamsError::Slots(slots[1] as u64));
        }
        let bits = self.range_bits().saturating_add(64).saturating_mul(ranges as u64);
        if bits / 8 + 64 > MAX_PAYLOAD_BYTES as u64 {
            return Err(ParamsError::PartitionTooLarge { bytes: bits / 8 });
        }
        Ok(self)
    }

    /// The same parameters with checksums of this many bits beside each value. Of 2^`check_bits` names that
    /// are not in the table, all except one are detected.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub const fn with_check_bits(self, check_bits: u8) -> Result<Self, ParamsError> {
        Self { check_bits, ..self }.check()
    }

    /// The same parameters with values of this many bits.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub const fn with_value_bits(self, value_bits: u8) -> Result<Self, ParamsError> {
        Self { value_bits, ..self }.check()
    }

    /// The same parameters with this many ranges in each partition.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub const fn with_ranges(self, ranges: u32) -> Result<Self, ParamsError> {
        Self { ranges, ..self }.check()
    }

    /// The same parameters with another seed of the positions.
    pub const fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Number of partitions of the key space, each with its own update stream.
    pub const fn partitions(&self) -> PartitionCount {
        self.partitions
    }

    /// Ranges in each partition.
    pub const fn ranges_per_partition(&self) -> u32 {
        self.ranges
    }

    /// Total number of ranges.
    pub const fn ranges(&self) -> u32 {
        self.ranges * self.partitions.get()
    }

    /// Number of slots in the two arrays of a range.
    pub const fn slots(&self) -> [u32; 2] {
        self.slots
    }

    /// Bits per value.
    pub const fn value_bits(&self) -> u8 {
        self.value_bits
    }

    /// Bits per checksum; 0 for a table that returns some value for every name.
    pub const fn check_bits(&self) -> u8 {
        self.check_bits
    }

    /// Bits per slot: value and checksum.
    pub const fn width(&self) -> u32 {
        self.value_bits as u32 + self.check_bits as u32
    }

    /// The seed of the positions, in addition to the seeds of the ranges.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of slots of a range in both arrays.
    pub(super) const fn slots_per_range(&self) -> u32 {
        self.slots[0] + self.slots[1]
    }

    /// Bits per range.
    pub(super) const fn range_bits(&self) -> u64 {
        self.slots_per_range() as u64 * self.width() as u64
    }

    /// Number of names that a range is intended for.
    pub const fn names_per_range(&self) -> u64 {
        let names = names_for(self.slots_per_range() as u64);
        if names == 0 { 1 } else { names }
    }

    /// The maximum number of names in a range. With m the geometric mean of the sizes of its arrays, a random
    /// graph of more than m edges has a cycle with certainty if m is large, and only with near certainty
    /// while the excess is in the order of m^(2/3). So that many more are allowed, and 256 seeds still place
    /// all of them. Whether names can be placed depends on the seeds, not on this limit.
    pub fn capacity(&self) -> usize {
        let m = (u64::from(self.slots[0]) * u64::from(self.slots[1])).isqrt();
        let root = cube_root(m);
        (m + root * root * 7 / 5) as usize
    }

    /// The partition of a hash, and the number of its range there. Ranges are ranges of the hash, and a
    /// partition is a whole number of them: this is `Placement::range`, split in two.
    #[inline(always)]
    pub(super) fn locate(&self, hash: KeyHash) -> (PartitionId, u32) {
        let bits = self.partitions.get().trailing_zeros();
        let rest = hash.get() << bits; // fewer than 64
        (self.partitions.of(hash), range_of(rest, self.ranges))
    }

    /// Whether a value fits the value bits.
    pub(super) const fn is_value(&self, value: u16) -> bool {
        (value as u32) >> self.value_bits == 0
    }

    /// The encoded parameters: value bits u8, check bits u8, zero u16, partitions u32, ranges u32, slots 2 x
    /// u32, seed u64, zero u32; little-endian.
    pub fn encode(&self) -> [u8; PARAMS_BYTES] {
        let mut out = [0; PARAMS_BYTES];
        (out[0], out[1]) = (self.value_bits, self.check_bits);
        out[4..8].copy_from_slice(&self.partitions.get().to_le_bytes());
        out[8..12].copy_from_slice(&self.ranges.to_le_bytes());
        out[12..16].copy_from_slice(&self.slots[0].to_le_bytes());
        out[16..20].copy_from_slice(&self.slots[1].to_le_bytes());
        out[20..28].copy_from_slice(&self.seed.to_le_bytes());
        out
    }

    /// Decodes parameters. Returns `None` if reserved bytes are not zero or the number of partitions is not a
    /// power of two.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn decode(bytes: &[u8; PARAMS_BYTES]) -> Option<Result<Self, ParamsError>> {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let partitions = PartitionCount::new(u32_at(4)).ok()?;
        if bytes[2..4] != [0; 2] || bytes[28..] != [0; 4] {
            return None;
        }
        let seed = u64::from_le_bytes(std::array::from_fn(|i| bytes[20 + i]));
        let (ranges, slots, value_bits, check_bits) =
            (u32_at(8), [u32_at(12), u32_at(16)], bytes[0], bytes[1]);
        Some(Self { partitions, ranges, slots, value_bits, check_bits, seed }.check())
    }

    /// A number that differs for different parameters. Every delta payload carries it.
    pub fn fingerprint(&self) -> u32 {
        crc32fast::hash(&self.encode())
    }
}

/// The number of a hash's range, out of `ranges`.
#[inline(always)]
pub(super) const fn range_of(hash: u64, ranges: u32) -> u32 {
    ((hash as u128 * ranges as u128) >> 64) as u32 // below `ranges`
}

/// The largest number whose cube is at most `of`.
fn cube_root(of: u64) -> u64 {
    let fits = |root: &u64| root.checked_pow(3).is_some_and(|cube| cube <= of);
    (0..21).rev().fold(0, |root, bit| Some(root | 1 << bit).filter(fits).unwrap_or(root))
}
