//! Makes a table from what the device returns, and the fallback lists of its marked groups.

use super::plan::NOTHING_WRONG;
use crate::published::{BuildError, Full};
use crate::reclaim::cache_line::Line;
use crate::setsep::builder::{no_duplicate, with_lists};
use crate::setsep::layout::group_of;
use crate::setsep::params::Params;
use crate::setsep::structure::{Generation, SetSep};

/// The error that the status words report: for a value that is too wide, the key's number times 256 plus the value;
/// for a block that is too full, the block in the upper half and its keys in the lower. Each is the lowest of its kind.
pub(super) fn check(params: &Params, [value, block]: [u64; 2]) -> Result<(), BuildError> {
    if value != NOTHING_WRONG {
        return Err(BuildError::Value { value: (value & 0xFF) as u16, bits: params.value_bits() });
    }
    if block != NOTHING_WRONG {
        let (block, need) = ((block >> 32) as u32, (block & u64::from(u32::MAX)) as usize);
        return Err(Full::Block { block, need, limit: params.format().block_capacity() }.into());
    }
    Ok(())
}

/// The table of these blocks. `marks` has one bit per group without a solution, one word per block; `keys_of` returns
/// the keys of such a block with their values.
pub(super) fn table<E: From<BuildError>>(
    params: Params,
    words: &[u64],
    marks: &[u64],
    mut keys_of: impl FnMut(u32) -> Result<Vec<(u64, u8)>, E>,
) -> Result<SetSep, E> {
    let mut memory = Generation::memory(&params);
    for (line, words) in memory.iter_mut().zip(words.as_chunks::<8>().0) {
        *line = Line::new(*words);
    }
    let blocks = words.chunks_exact(params.slot_words());
    let mut lists = Vec::new();
    for (number, (words, marks)) in (0..).zip(blocks.zip(marks)).filter(|(_, (_, marks))| **marks != 0) {
        let mut list = keys_of(number)?;
        list.retain(|&(hash, _)| marks >> group_of(words, hash, params.blocks()) & 1 == 1);
        list.sort_unstable();
        no_duplicate(&list)?;
        lists.push((number, list));
    }
    Ok(with_lists(params, memory, lists)?)
}
