//! Builds tables from many names at once, in two passes: [`crate::partition_pass`], then range by range in
//! the cache.

use super::colour::Colouring;
use super::control::{OthelloControl, RangeKeys};
use super::layout::Layout;
use super::params::Params;
use super::store::{Store, StoreSlice};
use super::structure::{Generation, Othello};
use crate::partition_pass::{PartitionedRecords, RecordMemory, RecordPacking, TwoPassBuild};
use crate::published::BuildError;
use crate::published::marked;
use crate::reclaim::cache_line::Line;
use crate::threads::threads_or_all;
use scalebricks_types::{KeyHash, PartitionId, Position};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Approximate number of names per stretch: their records and graphs stay in a private cache.
const STRETCH_NAMES: u64 = 1 << 14;

/// Builds an [`OthelloControl`], or only an [`Othello`], from names. Each range uses the lowest seed that
/// gives a graph without cycles. So the bits do not depend on the order of names or the number of threads.
///
/// Memory for names in transit (9 bytes per name) is reused by later builds of the same builder.
#[derive(Debug, Clone)]
pub struct OthelloBuilder {
    params: Params,
    threads: usize,
    held: Vec<bool>,
    may_grow: bool,
    regions: Arc<Mutex<RecordMemory>>,
}

/// How the ranges of a table are divided into stretches: a number of stretches per partition, of 2^`shift`
/// ranges each.
#[derive(Debug, Clone, Copy)]
struct Stretches {
    params: Params,
    each: usize,
    shift: u32,
}

impl Stretches {
    fn of(params: &Params) -> Self {
        let shift = (STRETCH_NAMES / params.names_per_range()).max(1).ilog2();
        let each = (params.ranges_per_partition() as usize).div_ceil(1 << shift);
        Self { params: *params, each, shift }
    }

    /// The stretch of a name.
    #[inline(always)]
    fn stretch(&self, hash: KeyHash) -> usize {
        let (partition, range) = self.params.locate(hash);
        usize::from(partition.0) * self.each + (range >> self.shift) as usize
    }

    /// Number of stretches.
    const fn len(&self) -> usize {
        self.each * self.params.partitions().get() as usize
    }

    /// For each stretch, the number in the table of its first range.
    fn firsts(&self) -> Vec<u32> {
        let ranges = self.params.ranges_per_partition();
        let partitions = 0..self.params.partitions().get();
        partitions
            .flat_map(|partition| (0..ranges).step_by(1 << self.shift).map(move |at| partition * ranges + at))
            .collect()
    }

    /// The ranges of a stretch, numbered within its partition.
    fn ranges(&self, stretch: usize) -> Range<u32> {
        let first = (stretch % self.each) << self.shift;
        let end = (first + (1 << self.shift)).min(self.params.ranges_per_partition() as usize);
        first as u32..end as u32 // fewer than 2^24
    }
}

impl OthelloBuilder {
    /// A builder for all partitions, with one thread.
    pub fn new(params: Params) -> Self {
        let held = vec![true; params.partitions().get() as usize];
        Self { params, threads: 1, held, may_grow: false, regions: Arc::default() }
    }

    /// Uses this many threads; 0 means one per core.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads_or_all(threads), ..self }
    }

    /// If the names do not fit the parameters' ranges, builds with an eighth more ranges, repeatedly. The
    /// parameters of the result contain the final number.
    pub fn may_grow(self) -> Self {
        Self { may_grow: true, ..self }
    }

    /// Builds for these partitions only.
    pub fn partitions(self, partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        Self { held: marked(partitions, self.params.partitions()), ..self }
    }

    /// Builds from names and values. Every partition held is then at position 1.
    ///
    /// Cost: two passes over the names and two attempts per range, in parallel; the memory of the control
    /// structure.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(&self, entries: &[(KeyHash, u16)]) -> Result<OthelloControl, BuildError> {
        self.build_of(entries.len(), |at| entries[at])
    }

    /// As [`build`](Self::build), from names and values that lie apart.
    ///
    /// # Errors
    /// [`BuildError`].
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn build_from(&self, hashes: &[KeyHash], values: &[u16]) -> Result<OthelloControl, BuildError> {
        assert_eq!(hashes.len(), values.len(), "one value a name");
        self.build_of(hashes.len(), |at| (hashes[at], values[at]))
    }

    fn build_of(
        &self,
        count: usize,
        source: impl Fn(usize) -> (KeyHash, u16) + Sync,
    ) -> Result<OthelloControl, BuildError> {
        self.growing(|params| {
            let stretches = Stretches::of(params);
            let mut parts: Vec<Option<Store>> =
                self.held.iter().map(|&held| held.then(|| Store::new(params))).collect();
            let spans = parts.iter_mut().flat_map(|part| match part {
                Some(store) => store.spans(1 << stretches.shift).into_iter().map(Some).collect(),
                None => (0..stretches.each).map(|_| None).collect::<Vec<_>>(),
            });
            let spans = spans.collect();
            self.run(&stretches, count, &source, spans, |job, span, work| match span {
                Some(span) => job.fill(span, work),
                None => Ok(()),
            })?;
            let positions = self.held.iter().map(|&held| Position(held.into())).collect();
            Ok(OthelloControl::of(RangeKeys::new(*params, None, parts), positions))
        })
    }

    /// Builds only the query structure, for names whose control structure is elsewhere or does not exist.
    /// Partitions held are at position 1.
    ///
    /// Cost: as [`build`](Self::build), without the memory of the control structure.
    ///
    /// # Errors
    /// [`BuildError`].
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn build_table(&self, hashes: &[KeyHash], values: &[u16]) -> Result<Othello, BuildError> {
        assert_eq!(hashes.len(), values.len(), "one value a name");
        if self.held.contains(&false) {
            let entries: Vec<_> = hashes.iter().copied().zip(values.iter().copied()).collect();
            return Ok(self.build(&entries)?.export());
        }
        self.growing(|params| {
            let stretches = Stretches::of(params);
            let (each, span) = (params.ranges_per_partition() as usize, 1 << stretches.shift);
            let slot_lines = Layout::of(params).words / 8;
            let mut memory = Generation::memory(params);
            let mut seeds = vec![0; params.ranges() as usize];
            let lines = memory[..params.ranges() as usize * slot_lines].chunks_mut(each * slot_lines);
            let outputs = lines
                .zip(seeds.chunks_mut(each))
                .flat_map(|(lines, seeds)| lines.chunks_mut(span * slot_lines).zip(seeds.chunks_mut(span)));
            let outputs = outputs.collect();
            let source = |at: usize| (hashes[at], values[at]);
            self.run(&stretches, hashes.len(), source, outputs, |job, (lines, seeds), work| {
                let ranges = seeds.len();
                let store = work.store.get_or_insert_with(|| Store::of_ranges(params, span));
                store.forget();
                let Some(mut span) = store.spans(ranges).into_iter().next() else { return Ok(()) };
                job.fill_with(&mut span, &mut work.colouring)?;
                for (line, words) in lines.iter_mut().zip(store.all_words().as_chunks::<8>().0) {
                    *line = Line::new(*words);
                }
                seeds.iter_mut().zip(store.heads()).for_each(|(seed, head)| *seed = head.seed);
                Ok(())
            })?;
            Ok(Othello::with_memory(*params, vec![Position(1); self.held.len()], memory, (0..).zip(seeds)))
        })
    }

    /// Runs a build, and repeats it with more ranges if that is allowed.
    fn growing<T>(&self, build: impl Fn(&Params) -> Result<T, BuildError>) -> Result<T, BuildError> {
        let mut params = self.params;
        loop {
            match build(&params) {
                Err(BuildError::Full(full)) if self.may_grow => {
                    let ranges = params.ranges_per_partition();
                    params = params.with_ranges(ranges + ranges / 8 + 1).map_err(|_| full)?;
                }
                done => return done,
            }
        }
    }

    /// Partitions the names, then calls `act` for each stretch with one of `outputs`.
    fn run<O: Send>(
        &self,
        stretches: &Stretches,
        count: usize,
        source: impl Fn(usize) -> (KeyHash, u16) + Sync,
        outputs: Vec<O>,
        act: impl Fn(Job<'_>, &mut O, &mut BuildScratch) -> Result<(), BuildError> + Sync,
    ) -> Result<(), BuildError> {
        let params = &stretches.params;
        let all_held = !self.held.contains(&false);
        let packing = RecordPacking::new(&stretches.firsts(), params.ranges(), params.value_bits(), all_held);
        let passes = TwoPassBuild {
            packing: &packing,
            regions: &self.regions,
            threads: self.threads,
            stretches: stretches.len(),
            keys: count,
        };
        passes.run(
            outputs,
            |names, records| self.partition_names(stretches, &packing, names, &source, records),
            BuildScratch::default,
            |stretch, records, mut output, work| {
                act(Job { stretches, stretch, packing: &packing, records }, &mut output, work)
            },
        )
    }

    fn partition_names(
        &self,
        stretches: &Stretches,
        packing: &RecordPacking,
        names: Range<usize>,
        source: &impl Fn(usize) -> (KeyHash, u16),
        records: &mut PartitionedRecords<'_>,
    ) -> Result<(), BuildError> {
        let (params, all_held) = (&stretches.params, !self.held.contains(&false));
        let mut wide = 0;
        for at in names.clone() {
            let (hash, value) = source(at);
            wide |= value;
            let partition = params.partitions().of(hash);
            if !all_held && !self.held[usize::from(partition.0)] {
                return Err(BuildError::NotHeld(partition));
            }
            records.add(packing, stretches.stretch(hash), hash.get(), value);
        }
        if !params.is_value(wide) {
            let value = names.map(|at| source(at).1).find(|&value| !params.is_value(value)).unwrap_or(wide);
            return Err(BuildError::Value { value, bits: params.value_bits() });
        }
        Ok(())
    }
}

/// What a thread reuses from one stretch to the next.
#[derive(Debug, Default)]
struct BuildScratch {
    colouring: Colouring,
    /// The ranges of a stretch, if no control structure stores them.
    store: Option<Store>,
}

/// One stretch to build.
#[derive(Debug, Clone, Copy)]
struct Job<'a> {
    stretches: &'a Stretches,
    stretch: usize,
    packing: &'a RecordPacking,
    /// The records that each thread wrote in the first pass.
    records: &'a [PartitionedRecords<'a>],
}

impl Job<'_> {
    fn fill(self, span: &mut StoreSlice<'_>, work: &mut BuildScratch) -> Result<(), BuildError> {
        self.fill_with(span, &mut work.colouring)
    }

    /// Puts the names of the stretch into its ranges, and computes the graphs and bits of the ranges.
    fn fill_with(self, span: &mut StoreSlice<'_>, colouring: &mut Colouring) -> Result<(), BuildError> {
        let params = &self.stretches.params;
        let ranges = self.stretches.ranges(self.stretch);
        let first =
            (self.stretch / self.stretches.each) as u32 * params.ranges_per_partition() + ranges.start;
        let mut refused = Ok(());
        let mut add = |hash, value| {
            let (_, range) = params.locate(KeyHash::new(hash));
            if let Err(full) = span.add(first, range - ranges.start, hash, value) {
                refused = Err(full);
            }
        };
        for records in self.records {
            self.packing.unpack(self.stretch, records.records(self.stretch), &mut add);
            records.listed(self.stretch).for_each(|(hash, value)| add(hash, value));
        }
        refused?;
        for range in 0..ranges.end - ranges.start {
            if let Err(full) = span.settle(first, range, colouring) {
                // A name that occurs twice closes a cycle under every seed.
                let twice = colouring.twice().map(KeyHash::new);
                return Err(twice.map_or_else(|| full.into(), BuildError::Duplicate));
            }
        }
        Ok(())
    }
}
