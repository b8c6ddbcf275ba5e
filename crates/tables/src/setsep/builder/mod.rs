//! Builds tables from many keys at once, in two passes: [`crate::partition_pass`] and [`assemble`].

mod assemble;
mod passes;

use super::block::Moves;
use super::control::{BlockKeys, SetSepControl};
use super::control_blocks::ControlBlocks;
use super::fallback::lines_for;
use super::kernels::search::SearchBits;
use super::params::Params;
use super::store::Store;
use super::structure::{Generation, SetSep};
use crate::isa::Isa;
use crate::partition_pass::RecordMemory;
use crate::published::marked;
use crate::published::{BuildError, Full};
use crate::reclaim::cache_line::Line;
use crate::reclaim::sync::Memory;
use passes::Passes;
use scalebricks_types::{KeyHash, PartitionId, Position};
use std::sync::{Arc, Mutex, PoisonError};

/// Blocks per stretch.
const STRETCH: usize = 16;

/// A source of keys and values to build from.
trait KeySource: Sync {
    fn len(&self) -> usize;
    fn get(&self, at: usize) -> (u64, u8);
    fn each(&self, range: std::ops::Range<usize>, act: impl FnMut(u64, u8));
}

impl KeySource for [(KeyHash, u8)] {
    fn len(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn get(&self, at: usize) -> (u64, u8) {
        (self[at].0.get(), self[at].1)
    }
    #[inline(always)]
    fn each(&self, range: std::ops::Range<usize>, mut act: impl FnMut(u64, u8)) {
        self[range].iter().for_each(|&(hash, value)| act(hash.get(), value));
    }
}

impl KeySource for (&[KeyHash], &[u8]) {
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn get(&self, at: usize) -> (u64, u8) {
        (self.0[at].get(), self.1[at])
    }
    #[inline(always)]
    fn each(&self, range: std::ops::Range<usize>, mut act: impl FnMut(u64, u8)) {
        self.0[range.clone()].iter().zip(&self.1[range]).for_each(|(&hash, &value)| act(hash.get(), value));
    }
}

/// Builds a [`SetSepControl`], or only a [`SetSep`], from keys. The bits do not depend on the order of keys
/// or the number of threads.
///
/// Memory for keys in transit (9 bytes per key) is reused by later builds of the same builder.
#[derive(Clone)]
pub struct SetSepBuilder {
    params: Params,
    threads: usize,
    held: Vec<bool>,
    isa: Isa,
    bits: SearchBits,
    regions: Arc<Mutex<RecordMemory>>,
}

impl std::fmt::Debug for SetSepBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetSepBuilder")
            .field("params", &self.params)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl SetSepBuilder {
    /// A builder for all partitions, with one thread.
    pub fn new(params: Params) -> Self {
        let held = vec![true; params.partitions().get() as usize];
        Self {
            params,
            threads: 1,
            held,
            isa: Isa::best(),
            bits: SearchBits::default(),
            regions: Arc::default(),
        }
    }

    /// Uses this many threads; 0 means one per core.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Uses kernels of this instruction set, or of the best one below it that this processor supports. The
    /// bits do not depend on it.
    pub fn isa(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }

    /// Searches for the hash functions of the paper's formats for this many value bits at once. The bits do
    /// not depend on it.
    pub fn bits_at_once(self, bits: SearchBits) -> Self {
        Self { bits, ..self }
    }

    /// Builds for these partitions only.
    pub fn partitions(self, partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        Self { held: marked(partitions, self.params.partitions()), ..self }
    }

    /// Builds from keys and values. Every partition held is then at position 1.
    ///
    /// Cost: two passes over the keys and one solution per group, in parallel; the memory of the control
    /// structure.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(&self, entries: &[(KeyHash, u8)]) -> Result<SetSepControl, BuildError> {
        self.build_of(entries)
    }

    /// As [`build`](Self::build), from keys and values that lie apart.
    ///
    /// # Errors
    /// [`BuildError`].
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn build_from(&self, hashes: &[KeyHash], values: &[u8]) -> Result<SetSepControl, BuildError> {
        assert_eq!(hashes.len(), values.len(), "one value a key");
        self.build_of(&(hashes, values))
    }

    fn build_of(&self, entries: &(impl KeySource + ?Sized)) -> Result<SetSepControl, BuildError> {
        let mut blocks = ControlBlocks::new(self.params, &self.held, true);
        let passes = Passes::new(self, &blocks);
        let layout = blocks.layout;
        let spans = blocks.store.spans(layout, STRETCH).collect();
        passes.run(
            entries,
            spans,
            || (),
            |assembler, (), job, span| {
                assembler.assemble(job, span, true)?;
                assembler.check_duplicates(span)
            },
        )?;
        blocks.count_lines();
        check_fallback(&self.params, &blocks.lines_used)?;
        let positions = self.held.iter().map(|&held| Position(held.into())).collect();
        let keys = BlockKeys::new(blocks, None, Moves::default());
        Ok(SetSepControl::of(keys, positions).with_isa(self.isa))
    }

    /// Builds only the query structure, for keys whose control structure is elsewhere or does not exist.
    /// Partitions held are at position 1. A key given twice with the same value counts as one; with two
    /// values it is an error.
    ///
    /// Cost: as [`build`](Self::build), but faster and without the memory of the control structure.
    ///
    /// # Errors
    /// [`BuildError`].
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn build_table(&self, hashes: &[KeyHash], values: &[u8]) -> Result<SetSep, BuildError> {
        assert_eq!(hashes.len(), values.len(), "one value a key");
        if self.held.contains(&false) {
            let entries: Vec<_> = hashes.iter().copied().zip(values.iter().copied()).collect();
            return Ok(self.build(&entries)?.export());
        }
        let blocks = ControlBlocks::new(self.params, &self.held, false);
        let slot_lines = self.params.slot_words() / 8;
        let mut memory = Generation::memory(&self.params);
        let lines = &mut memory[..self.params.blocks() as usize * slot_lines];
        let lists = Mutex::new(Vec::new());
        let jobs = lines.chunks_mut(STRETCH * slot_lines).collect();
        let scratch = || Store::empty(&self.params, STRETCH);
        Passes::new(self, &blocks).run(
            &(hashes, values),
            jobs,
            scratch,
            |assembler, store, job, lines| {
                let Some(mut span) = store.spans(blocks.layout, job.numbers.len()).next() else {
                    return Ok(());
                };
                assembler.assemble(job, &mut span, false)?;
                let marked = assembler.lists(job, &span);
                for (at, lines) in lines.chunks_mut(slot_lines).enumerate() {
                    for (line, words) in lines.iter_mut().zip(span.view(at).words.as_chunks::<8>().0) {
                        *line = Line::new(*words);
                    }
                }
                marked.iter().try_for_each(|(_, list)| no_duplicate(list))?;
                if !marked.is_empty() {
                    lists.lock().unwrap_or_else(PoisonError::into_inner).extend(marked);
                }
                Ok(())
            },
        )?;
        with_lists(self.params, memory, lists.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A table of the blocks in `memory`, every partition at position 1, with the fallback lists of its marked groups.
pub(super) fn with_lists(
    params: Params,
    memory: Memory<Line>,
    lists: Vec<(u32, Vec<(u64, u8)>)>,
) -> Result<SetSep, BuildError> {
    let partitions = params.partitions().get() as usize;
    let mut used = vec![0; partitions];
    for (number, list) in &lists {
        used[usize::from(params.partition_of_block(*number).0)] += lines_for(list.len());
    }
    check_fallback(&params, &used)?;
    Ok(SetSep::with_memory(params, vec![Position(1); partitions], memory, lists))
}

fn check_fallback(params: &Params, used: &[u32]) -> Result<(), BuildError> {
    let limit = params.fallback_lines();
    match used.iter().position(|&lines| lines > limit) {
        Some(at) => Err(Full::Fallback { partition: PartitionId(at as u16), need: used[at], limit }.into()),
        None => Ok(()),
    }
}

/// An error if a hash is twice in a sorted list.
pub(super) fn no_duplicate(list: &[(u64, u8)]) -> Result<(), BuildError> {
    let twice = list.windows(2).find(|pair| pair[0].0 == pair[1].0);
    twice.map_or(Ok(()), |pair| Err(BuildError::Duplicate(KeyHash::new(pair[0].0))))
}
