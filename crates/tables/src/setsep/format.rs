//! The formats in which a group can store its keys' values, and the cost of each.
//!
//! | format | bits per group and value bit | keys per group | bits per key, l = 1 / 2 / 4 | how a group is solved |
//! |---|---|---|---|---|
//! | [`Linear`](Format::Linear) | 32 | 23 | 1.8 / 3.2 / 6.0 | linear equations over GF(2), 28 to 30 unknowns |
//! | [`Dense`](Format::Dense) | 64 | 53 | 1.4 / 2.6 / 5.0 | the same with 60 to 62 unknowns |
//! | [`Paper16x8`](Format::Paper16x8) | 24 | 16 | 2.1 / 3.6 / 6.6 | search for a hash function, as in the paper |
//! | [`Paper8x16`](Format::Paper8x16) | 24 | 16 | the same, and a fallback of 1 % and more | the same, fewer functions, more cells |
//! | [`Paper16x16`](Format::Paper16x16) | 32 | 16 | 2.6 / 4.6 / 8.6 | the same with most room |
//! | [`Brute`](Format::Brute) | 24 | 16 | 2.1 / 3.6 / 6.6 | as `Paper16x8`, but searches 4096 functions at once |
//!
//! All formats share the block layout: 256 buckets that each choose one of four candidates among 64 groups,
//! 512 bits of choices.

use super::geometry::GROUPS;

/// How a group stores its values: see the table in the source. The papers' formats are named `x+y`: `x` bits
/// of hash index and an array of `y` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Format {
    /// 32 bits per group and value bit, which solve a system of linear equations: fastest to build, to change
    /// and to look up, and smaller than the paper's. 23 keys per group.
    #[default]
    Linear = 4,
    /// The same with 64 bits and 53 keys per group: the smallest format, slower to build and change.
    Dense = 5,
    /// 16+8: the paper's choice. 24 bits per group and value bit; fewer than one group in a million fails.
    Paper16x8 = 7,
    /// 8+16: the fastest of the paper's formats to build; about one key in a hundred (per value bit) ends in
    /// the fallback.
    Paper8x16 = 8,
    /// 16+16: 32 bits per group and value bit; of the paper's formats, the one with the fullest groups.
    Paper16x16 = 9,
    /// 16+8 as in the paper, but with hash functions designed for vector instructions: the search is several
    /// times as fast.
    Brute = 6,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 6] =
        [Self::Linear, Self::Dense, Self::Paper16x8, Self::Paper8x16, Self::Paper16x16, Self::Brute];

    /// The format with this number. Numbers 1 to 3 were the paper's formats with 15-bit hashes; such tables
    /// are refused.
    pub const fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            4 => Self::Linear,
            5 => Self::Dense,
            6 => Self::Brute,
            7 => Self::Paper16x8,
            8 => Self::Paper8x16,
            9 => Self::Paper16x16,
            _ => return None,
        })
    }

    /// The name that the command line and the measurements use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Dense => "dense",
            Self::Paper16x8 => "paper",
            Self::Paper8x16 => "paper8x16",
            Self::Paper16x16 => "paper16x16",
            Self::Brute => "brute",
        }
    }

    /// Whether a group is stored as a solution of linear equations.
    pub const fn is_linear(self) -> bool {
        matches!(self, Self::Linear | Self::Dense)
    }

    /// Whether a group's hash functions are those of the paper, `G1 + i·G2`.
    pub const fn is_papers(self) -> bool {
        matches!(self, Self::Paper16x8 | Self::Paper8x16 | Self::Paper16x16)
    }

    /// Bits per group and value bit.
    pub const fn field_bits(self) -> u32 {
        match self {
            Self::Paper16x8 | Self::Paper8x16 | Self::Brute => 24,
            Self::Linear | Self::Paper16x16 => 32,
            Self::Dense => 64,
        }
    }

    /// Keys that a block is sized for (1024 in the paper, §4.4).
    pub const fn keys_per_block(self) -> u64 {
        match self {
            Self::Linear => 23 * GROUPS as u64,
            Self::Dense => 3400,
            _ => 16 * GROUPS as u64,
        }
    }

    /// The maximum number of keys in a block. At that size most of its groups have no solution.
    pub const fn block_capacity(self) -> usize {
        GROUPS
            * match self {
                Self::Linear => 31,
                Self::Dense => 63,
                _ => 20,
            }
    }

    /// The maximum number of keys in a group that can have a solution. A group with more is unsolved by
    /// definition.
    pub const fn group_slots(self) -> usize {
        match self {
            Self::Dense => 64,
            _ => 32,
        }
    }

    /// The load that a group should not exceed while its buckets can still move to other groups.
    pub(super) const fn target_load(self) -> u16 {
        match self {
            Self::Linear => 26,
            Self::Dense => 58,
            Self::Paper16x8 | Self::Brute => 18,
            Self::Paper8x16 => 17,
            Self::Paper16x16 => 22,
        }
    }

    /// Default number of fallback lines per block.
    pub(super) const fn lines_per_block(self, value_bits: u8) -> u32 {
        match self {
            Self::Linear | Self::Paper16x8 | Self::Paper16x16 | Self::Brute => 1,
            Self::Dense => 2,
            Self::Paper8x16 => 2 + 4 * value_bits as u32,
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
