//! The ways a group can store its keys' values, and what each costs.
//!
//! | format | bits a group and value bit | keys a group | bits a key, l = 1 / 2 / 4 | how a group is solved |
//! |---|---|---|---|---|
//! | [`Linear`](Format::Linear) | 32 | 23 | 1.8 / 3.2 / 6.0 | linear equations over GF(2), 28 to 30 unknowns |
//! | [`Dense`](Format::Dense) | 64 | 50 | 1.5 / 2.8 / 5.3 | the same with 60 to 62 unknowns |
//! | [`Paper16x8`](Format::Paper16x8) | 24 | 16 | 2.1 / 3.6 / 6.6 | a hash function is searched, as in the paper |
//! | [`Paper8x16`](Format::Paper8x16) | 24 | 16 | the same and a fallback of 1 % and more | the same, fewer functions, more cells |
//! | [`Paper16x16`](Format::Paper16x16) | 32 | 16 | 2.6 / 4.6 / 8.6 | the same with most room |
//! | [`Brute`](Format::Brute) | 24 | 16 | 2.1 / 3.6 / 6.6 | as `Paper16x8`, among functions that are searched 4096 at once |
//!
//! All share the blocks: 256 buckets that each choose one of four among 64 groups, 512 bits of choices.

use super::geometry::GROUPS;

/// How a group stores its values: see the table in the source. The papers' formats are named `x+y`: `x` bits of hash
/// index and an array of `y` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Format {
    /// 32 bits a group and value bit that solve a system of linear equations: fastest to build, to change and to look
    /// up, and smaller than the paper's. 23 keys a group.
    #[default]
    Linear = 4,
    /// The same in 64 bits: 50 keys a group, smallest, slower to build and change.
    Dense = 5,
    /// 16+8: the paper's choice. 24 bits a group and value bit; fewer than one group in a million fails.
    Paper16x8 = 7,
    /// 8+16: of the paper's, builds fastest; about one key in a hundred (and value bit) ends in the fallback.
    Paper8x16 = 8,
    /// 16+16: 32 bits a group and value bit; of the paper's, carries the fullest groups.
    Paper16x16 = 9,
    /// 16+8 as in the paper, but of hash functions made for vector instructions: found several times as fast.
    Brute = 6,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Linear, Self::Dense, Self::Paper16x8, Self::Paper8x16, Self::Paper16x16, Self::Brute];

    /// The format with this number. 1 to 3 were the paper's with hashes of 15 bits: tables of those are refused.
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

    /// Its name, as in the command line and in measurements.
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

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Whether a group is a solution of linear equations.
    pub const fn is_linear(self) -> bool {
        matches!(self, Self::Linear | Self::Dense)
    }

    /// Whether a group's functions are those of the paper, `G1 + i·G2`.
    pub const fn is_papers(self) -> bool {
        matches!(self, Self::Paper16x8 | Self::Paper8x16 | Self::Paper16x16)
    }

    /// Bits a group spends on each value bit.
    pub const fn field_bits(self) -> u32 {
        match self {
            Self::Paper16x8 | Self::Paper8x16 | Self::Brute => 24,
            Self::Linear | Self::Paper16x16 => 32,
            Self::Dense => 64,
        }
    }

    /// Keys a block is sized for (1024 in the paper, §4.4).
    pub const fn keys_per_block(self) -> u64 {
        GROUPS as u64
            * match self {
                Self::Linear => 23,
                Self::Dense => 50,
                _ => 16,
            }
    }

    /// Most keys a block can hold. By then most of its groups have no solution.
    pub const fn block_capacity(self) -> usize {
        GROUPS
            * match self {
                Self::Linear => 31,
                Self::Dense => 63,
                _ => 20,
            }
    }

    /// Most keys of a group that may have a solution: groups with more are unsolved by definition.
    pub const fn group_slots(self) -> usize {
        match self {
            Self::Dense => 64,
            _ => 32,
        }
    }

    /// The load a group should not pass while its buckets can still move elsewhere.
    pub(super) const fn target_load(self) -> u16 {
        match self {
            Self::Linear => 26,
            Self::Dense => 58,
            Self::Paper16x8 | Self::Brute => 18,
            Self::Paper8x16 => 17,
            Self::Paper16x16 => 22,
        }
    }

    /// Fallback lines granted for each block by default.
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
