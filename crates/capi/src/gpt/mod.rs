//! GPTs: SetSep or Othello.

pub mod control;
pub mod table;

use crate::ffi::given;
use crate::status::Failure;
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::PartitionCount;

/// SetSep: the fewest bits per key.
pub const SB_SETSEP: u8 = 0;
/// Othello: more bits per key, cheaper changes.
pub const SB_OTHELLO: u8 = 1;

/// Parameters of a GPT. 0 in any field except `value_bits` stands for the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sb_gpt_params {
    /// Number of keys that the table is made for; 0: those it is built from. Somewhat more fit.
    pub capacity: u64,
    /// A seed of the table's own hash functions. Tables that exchange deltas have the same.
    pub seed: u64,
    /// Number of partitions of the keys, each with its own stream of deltas: a power of two up to 65,536;
    /// 0: one. Use more for more than 20 million keys.
    pub partitions: u32,
    /// Number of threads of the build; 0: one per core.
    pub threads: u32,
    /// `SB_SETSEP` or `SB_OTHELLO`.
    pub structure: u8,
    /// Bits of a value, 1 to 8.
    pub value_bits: u8,
}

impl sb_gpt_params {
    fn checked(parameters: Option<&Self>, keys: usize) -> Result<(&Self, Params), Failure> {
        let given = given(parameters, "params")?;
        let structure = match given.structure {
            SB_SETSEP => Structure::SetSep,
            SB_OTHELLO => Structure::Othello,
            other => {
                return Err(Failure::argument(format!("structure is {other}, not SB_SETSEP or SB_OTHELLO")));
            }
        };
        if !(1..=8).contains(&given.value_bits) {
            return Err(Failure::argument(format!("value_bits is {}, not 1 to 8", given.value_bits)));
        }
        let keys = if given.capacity == 0 { keys as u64 } else { given.capacity };
        let partitions = PartitionCount::new(given.partitions.max(1))?;
        let params = Params::for_keys(structure, keys, given.value_bits, partitions)?;
        Ok((given, params.with_seed(given.seed)))
    }
}
