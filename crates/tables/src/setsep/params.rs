//! The parameters of a table: everything that two nodes must agree on to exchange its bits.

use super::format::Format;
use scalebricks_types::{MAX_PAYLOAD_BYTES, PartitionCount, PartitionId};

/// The maximum number of blocks of a table: 2^24, about 17 billion keys.
pub const MAX_BLOCKS: u32 = 1 << 24;

/// Fallback keys that share one 64-byte line.
pub(super) const KEYS_PER_LINE: usize = 6;

/// Encoded size of [`Params`] in bytes, on the wire and in snapshots.
pub const PARAMS_BYTES: usize = 28;

/// Why parameters are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Values have 1 to 8 bits.
    #[error("a value has 1 to 8 bits, not {0}")]
    ValueBits(u8),
    /// The blocks do not divide evenly: every partition needs the same whole number of blocks, at least one.
    #[error("{blocks} blocks do not cut into {partitions} partitions")]
    Blocks {
        /// Number of blocks requested.
        blocks: u64,
        /// Number of partitions.
        partitions: u32,
    },
    /// More blocks than [`MAX_BLOCKS`].
    #[error("{0} blocks are more than {MAX_BLOCKS}")]
    TooManyBlocks(u64),
    /// A completely full partition would not fit in one delta: use more partitions.
    #[error(
        "a partition could need a delta of {bytes} bytes, over the limit of {MAX_PAYLOAD_BYTES}: use more partitions"
    )]
    PartitionTooLarge {
        /// The largest payload in bytes that a partition could need.
        bytes: u64,
    },
    /// There is no format with this number.
    #[error("unknown group format {0}")]
    Format(u8),
}

/// The parameters of a SetSep table. Equal parameters and equal keys give equal bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Params {
    format: Format,
    value_bits: u8,
    blocks: u32,
    partitions: PartitionCount,
    seed: u64,
    fallback_lines: u32,
}

impl Params {
    /// Parameters for about `keys` keys with values of `value_bits` bits in the default format, seed 0.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn for_keys(keys: u64, value_bits: u8, partitions: PartitionCount) -> Result<Self, ParamsError> {
        Self::for_keys_in(Format::default(), keys, value_bits, partitions)
    }

    /// Parameters for about `keys` keys in this format: one block for each [`Format::keys_per_block`],
    /// rounded up to a multiple of `partitions`; seed 0.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn for_keys_in(
        format: Format,
        keys: u64,
        value_bits: u8,
        partitions: PartitionCount,
    ) -> Result<Self, ParamsError> {
        let step = u64::from(partitions.get());
        let blocks = keys.div_ceil(format.keys_per_block()).max(1).div_ceil(step).saturating_mul(step);
        Self::new(blocks, value_bits, partitions)?.with_format(format)
    }

    /// Parameters with this many blocks, a multiple of `partitions`, in the default format.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn new(blocks: u64, value_bits: u8, partitions: PartitionCount) -> Result<Self, ParamsError> {
        let small = u32::try_from(blocks).ok().filter(|&b| b <= MAX_BLOCKS);
        let blocks = small.ok_or(ParamsError::TooManyBlocks(blocks))?;
        let format = Format::default();
        Self { format, value_bits, blocks, partitions, seed: 0, fallback_lines: 0 }.with_format(format)
    }

    /// The same parameters with another group format, the same number of blocks, and that format's default
    /// fallback size.
    ///
    /// # Errors
    /// [`ParamsError::PartitionTooLarge`].
    pub fn with_format(self, format: Format) -> Result<Self, ParamsError> {
        let per_partition = self.blocks / self.partitions.get();
        let fallback_lines = 64 + per_partition * format.lines_per_block(self.value_bits);
        Self { format, fallback_lines, ..self }.check()
    }

    /// The same parameters with this many blocks, a multiple of the partitions, and the format's default
    /// fallback size.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn with_blocks(self, blocks: u32) -> Result<Self, ParamsError> {
        Self { blocks, ..self }.with_format(self.format)
    }

    /// The same parameters with values of this many bits.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn with_value_bits(self, value_bits: u8) -> Result<Self, ParamsError> {
        Self { value_bits, ..self }.check()
    }

    /// The same parameters with another seed for the group hashes. All nodes share it.
    pub const fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same parameters with room for this many 64-byte fallback lines per partition. A line holds six
    /// keys of one block. Memory is allocated only as the fallback fills.
    ///
    /// # Errors
    /// [`ParamsError::PartitionTooLarge`].
    pub fn with_fallback_lines(self, fallback_lines: u32) -> Result<Self, ParamsError> {
        Self { fallback_lines, ..self }.check()
    }

    fn check(self) -> Result<Self, ParamsError> {
        if !(1..=8).contains(&self.value_bits) {
            return Err(ParamsError::ValueBits(self.value_bits));
        }
        let partitions = self.partitions.get();
        if self.blocks == 0 || !self.blocks.is_multiple_of(partitions) {
            return Err(ParamsError::Blocks { blocks: self.blocks.into(), partitions });
        }
        if self.blocks > MAX_BLOCKS {
            return Err(ParamsError::TooManyBlocks(self.blocks.into()));
        }
        let lists = u64::from(self.fallback_lines) * KEYS_PER_LINE as u64 * 9;
        let bytes = u64::from(self.blocks_per_partition()) * (self.slot_words() as u64 * 8 + 8) + lists + 64;
        if bytes > MAX_PAYLOAD_BYTES as u64 {
            return Err(ParamsError::PartitionTooLarge { bytes });
        }
        Ok(self)
    }

    /// The format in which groups store their bits.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Bits of a value, 1 to 8.
    pub const fn value_bits(&self) -> u8 {
        self.value_bits
    }

    /// Number of blocks, each of 256 buckets and 64 groups.
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Number of partitions of the key space, each with its own update stream.
    pub const fn partitions(&self) -> PartitionCount {
        self.partitions
    }

    /// The seed of the group hashes.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The maximum number of fallback lines, of six keys each, per partition.
    pub const fn fallback_lines(&self) -> u32 {
        self.fallback_lines
    }

    /// Blocks in each partition.
    pub const fn blocks_per_partition(&self) -> u32 {
        self.blocks / self.partitions.get()
    }

    /// The partition that contains a block.
    pub(super) const fn partition_of_block(&self, block: u32) -> PartitionId {
        PartitionId((block / self.blocks_per_partition()) as u16) // fewer than 2^16 partitions
    }

    /// 64-bit words per block: 8 words of choices, then one word for each bit of a group.
    pub(super) const fn slot_words(&self) -> usize {
        8 + self.group_bits()
    }

    /// Bits per group.
    pub(super) const fn group_bits(&self) -> usize {
        self.value_bits as usize * self.format.field_bits() as usize
    }

    /// Whether a value fits the value bits.
    pub(super) const fn is_value(&self, value: u8) -> bool {
        (value as u32) >> self.value_bits == 0
    }

    /// The encoded parameters: format u8, value bits u8, zero u16, blocks u32, partitions u32, seed u64,
    /// fallback lines u32, zero u32; little-endian.
    pub fn encode(&self) -> [u8; PARAMS_BYTES] {
        let mut out = [0; PARAMS_BYTES];
        out[0] = self.format as u8;
        out[1] = self.value_bits;
        out[4..8].copy_from_slice(&self.blocks.to_le_bytes());
        out[8..12].copy_from_slice(&self.partitions.get().to_le_bytes());
        out[12..20].copy_from_slice(&self.seed.to_le_bytes());
        out[20..24].copy_from_slice(&self.fallback_lines.to_le_bytes());
        out
    }

    /// Decodes parameters. Returns `None` if reserved bytes are not zero or the number of partitions is not a
    /// power of two.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn decode(bytes: &[u8; PARAMS_BYTES]) -> Option<Result<Self, ParamsError>> {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let partitions = PartitionCount::new(u32_at(8)).ok()?;
        if bytes[2..4] != [0; 2] || bytes[24..] != [0; 4] {
            return None;
        }
        let Some(format) = Format::from_u8(bytes[0]) else {
            return Some(Err(ParamsError::Format(bytes[0])));
        };
        let seed = u64::from_le_bytes(std::array::from_fn(|i| bytes[12 + i]));
        let (value_bits, blocks, fallback_lines) = (bytes[1], u32_at(4), u32_at(20));
        Some(Self { format, value_bits, blocks, partitions, seed, fallback_lines }.check())
    }

    /// A number that differs for different parameters. Every delta payload carries it.
    pub fn fingerprint(&self) -> u32 {
        crc32fast::hash(&self.encode())
    }
}
