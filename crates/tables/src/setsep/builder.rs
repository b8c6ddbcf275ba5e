//! Fresh builds from many keys at once.

use super::block::{Block, Moves};
use super::control::SetSepControl;
use super::geometry::bucket_of;
use super::ops::Full;
use super::params::Params;
use super::solver::GroupKeys;
use scalebricks_types::{KeyHash, PartitionId, Position};
use std::panic::resume_unwind;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Why nothing was built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Two entries have the same hash.
    #[error("two entries have the hash {:#018x}", .0.get())]
    Duplicate(KeyHash),
    /// A value does not fit the value bits.
    #[error("value {value} has more than {bits} bits")]
    Value {
        /// The value.
        value: u8,
        /// [`Params::value_bits`].
        bits: u8,
    },
    /// A key lies in a partition that is not to be built here.
    #[error("{0:?} is not held here")]
    NotMine(PartitionId),
    /// Too many keys for the parameters.
    #[error(transparent)]
    Full(#[from] Full),
    /// The cancellation flag was raised.
    #[error("cancelled")]
    Cancelled,
    /// The worker threads could not be started.
    #[error("cannot start worker threads: {0}")]
    Threads(String),
}

/// How far a build has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Keys placed and solved.
    pub done_keys: u64,
    /// Keys in all.
    pub total_keys: u64,
}

type Callback<'a> = &'a (dyn Fn(Progress) + Sync);

/// Builds a [`SetSepControl`] from keys: the same bits whatever the order of keys and the number of threads.
#[derive(Clone)]
pub struct SetSepBuilder<'a> {
    params: Params,
    threads: usize,
    progress: Option<Callback<'a>>,
    cancel: Option<&'a AtomicBool>,
    mine: Vec<bool>,
}

impl std::fmt::Debug for SetSepBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetSepBuilder").field("params", &self.params).field("threads", &self.threads).finish()
    }
}

/// What is left to build.
struct Work<'a> {
    tasks: Mutex<ChunksMut<'a, Block>>,
    done: AtomicU64,
    total_keys: u64,
}

impl<'a> Work<'a> {
    fn next(&self) -> Option<&'a mut [Block]> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    fn stop(&self) {
        *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = [].chunks_mut(1);
    }
}

/// Blocks between two looks at the cancellation flag, and between two progress reports.
const BLOCKS_PER_TASK: usize = 16;

impl<'a> SetSepBuilder<'a> {
    /// A builder for all partitions, with one thread.
    pub fn new(params: Params) -> Self {
        let mine = vec![true; params.partitions().get() as usize];
        Self { params, threads: 1, progress: None, cancel: None, mine }
    }

    /// Uses this many threads; 0 means one for each core.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Calls `progress` every few thousand keys, from any of the threads, several at once.
    pub fn progress(self, progress: Callback<'a>) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// Gives up soon after the flag is raised.
    pub fn cancel(self, flag: &'a AtomicBool) -> Self {
        Self { cancel: Some(flag), ..self }
    }

    /// Builds for these partitions only.
    pub fn partitions(mut self, partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        self.mine.fill(false);
        for partition in partitions {
            if let Some(mine) = self.mine.get_mut(usize::from(partition.0)) {
                *mine = true;
            }
        }
        self
    }

    /// As [`build`](Self::build), from an iterator; its items are collected first.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_from_iter(
        &self,
        entries: impl IntoIterator<Item = (KeyHash, u8)>,
    ) -> Result<SetSepControl, BuildError> {
        self.build(&entries.into_iter().collect::<Vec<_>>())
    }

    /// Builds from keys and values. Every partition held is then at position 1.
    ///
    /// Cost: 9 bytes a key while the keys are dealt to their blocks, then solving, in parallel by block.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(&self, entries: &[(KeyHash, u8)]) -> Result<SetSepControl, BuildError> {
        let mut blocks = self.deal(entries)?;
        self.build_blocks(&mut blocks, entries.len() as u64)?;
        let positions = self.mine.iter().map(|&mine| Position(mine.into())).collect();
        let control =
            SetSepControl::with_blocks(self.params, &self.mine, blocks, positions, Moves::default());
        let limit = self.params.fallback_lines();
        if let Some(partition) = control.lines_used.iter().position(|&lines| lines > limit) {
            let need = control.lines_used[partition];
            return Err(Full::Fallback { partition: PartitionId(partition as u16), need, limit }.into());
        }
        Ok(control)
    }

    /// Builds all blocks: the calling thread and its helpers take the next few from a common queue.
    fn build_blocks(&self, blocks: &mut [Block], total_keys: u64) -> Result<(), BuildError> {
        let threads = match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let work = Work {
            tasks: Mutex::new(blocks.chunks_mut(BLOCKS_PER_TASK)),
            done: AtomicU64::new(0),
            total_keys,
        };
        std::thread::scope(|scope| {
            let spawn = || {
                let spawned = std::thread::Builder::new().spawn_scoped(scope, || self.work(&work));
                spawned.map_err(|error| BuildError::Threads(error.to_string()))
            };
            let helpers: Vec<_> = (1..threads).map(|_| spawn()).collect();
            let mut outcome = self.work(&work);
            for helper in helpers {
                let joined = helper.map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
                outcome = outcome.and(joined.flatten());
            }
            outcome
        })
    }

    /// Takes blocks from the queue until it is empty; on an error, empties it.
    fn work(&self, work: &Work<'_>) -> Result<(), BuildError> {
        let (mut scratch, mut pairs) = (GroupKeys::default(), Vec::new());
        while let Some(blocks) = work.next() {
            let mut keys = 0;
            for block in blocks {
                if let Err(error) = self.build_block(block, &mut pairs, &mut scratch) {
                    work.stop();
                    return Err(error);
                }
                keys += block.keys.len() as u64;
            }
            let done_keys = work.done.fetch_add(keys, Ordering::Relaxed) + keys;
            if let Some(progress) = self.progress {
                progress(Progress { done_keys, total_keys: work.total_keys });
            }
            if self.is_cancelled() {
                work.stop();
                return Err(BuildError::Cancelled);
            }
        }
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Deals the entries to blocks that have keys, in the order given, and nothing else yet.
    fn deal(&self, entries: &[(KeyHash, u8)]) -> Result<Vec<Block>, BuildError> {
        let params = &self.params;
        let each = params.blocks_per_partition();
        let mut counts = vec![0u32; params.blocks() as usize];
        for &(hash, value) in entries {
            if !params.is_value(value) {
                return Err(BuildError::Value { value, bits: params.value_bits() });
            }
            counts[bucket_of(hash.get(), params.blocks()).0 as usize] += 1;
        }
        let mut blocks = Vec::new();
        let mut slots = vec![u32::MAX; counts.len()];
        for (number, &count) in (0..params.blocks()).zip(&counts) {
            let (need, limit) = (count as usize, params.format().block_capacity());
            if !self.mine[(number / each) as usize] {
                if count > 0 {
                    return Err(BuildError::NotMine(params.partition_of_block(number)));
                }
                continue;
            }
            if need > limit {
                return Err(Full::Block { block: number, need, limit }.into());
            }
            slots[number as usize] = blocks.len() as u32; // at most all blocks
            let mut block = Block::empty(params, number);
            block.keys.reserve_exact(need);
            block.values.reserve_exact(need);
            blocks.push(block);
        }
        for (at, &(hash, value)) in entries.iter().enumerate() {
            if at.is_multiple_of(1 << 16) && self.is_cancelled() {
                return Err(BuildError::Cancelled);
            }
            let slot = slots[bucket_of(hash.get(), params.blocks()).0 as usize];
            let block = &mut blocks[slot as usize];
            block.keys.push(hash.get());
            block.values.push(value);
        }
        Ok(blocks)
    }

    /// Orders a block's keys, then balances and solves it.
    fn build_block(
        &self,
        block: &mut Block,
        pairs: &mut Vec<(u64, u8)>,
        scratch: &mut GroupKeys,
    ) -> Result<(), BuildError> {
        pairs.clear();
        pairs.extend(block.keys.iter().copied().zip(block.values.iter().copied()));
        pairs.sort_unstable();
        if let Some(twice) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(BuildError::Duplicate(KeyHash::new(twice[0].0)));
        }
        let (mut keys, mut values) = (std::mem::take(&mut block.keys), std::mem::take(&mut block.values));
        for (at, &pair) in pairs.iter().enumerate() {
            (keys[at], values[at]) = pair;
        }
        *block = Block::with_keys(&self.params, block.number, keys, values);
        block.build(&self.params, scratch);
        Ok(())
    }
}
