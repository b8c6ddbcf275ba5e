//! The first pass of a build. It sends every key to its *stretch* of the table (sixteen blocks, about a dozen
//! ranges), so that the second pass works on one stretch at a time within the processor's own cache.
//!
//! Keys arrive in random order and go to hundreds of stretches. Each thread collects eight records per
//! stretch, one cache line, and then writes the line with stores that bypass the caches. So no line of the
//! output is read in to be completed. A record is one word where possible: the hash relative to the first
//! hash of its stretch, with the value in the bits this frees. Each stretch has room for slightly more than
//! its fair share. Records that do not fit (keys that are not hashed well, or hostile keys) go to a list.

use crate::huge::HugeSlice;
use crate::streaming_store::StreamingWriter;
use crate::threads::{SpawnError, on_threads};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Where stretches lie in the hash range, and how a key is packed into a record.
#[derive(Debug)]
pub(crate) struct RecordPacking {
    /// The lowest hash of each stretch, or zeros if records are two words.
    bases: Vec<u64>,
    value_bits: u32,
    wide: bool,
}

impl RecordPacking {
    /// The packing for a table that divides the hash range into `parts` equal parts. Each stretch begins with
    /// one of the parts in `firsts`, which ascend. `all_held` says whether the table holds all parts.
    pub(crate) fn new(firsts: &[u32], parts: u32, value_bits: u8, all_held: bool) -> Self {
        let base = |first: u32| (u128::from(first) << 64).div_ceil(parts.into());
        // The width of the widest relative hash; the bits above it are left for the value.
        let ends = firsts.iter().skip(1).chain([&parts]);
        let widest = firsts.iter().zip(ends).map(|(&first, &end)| base(end) - base(first)).max().unwrap_or(0);
        let widest = widest.min(u128::from(u64::MAX)) as u64;
        let wide = !all_held || widest.leading_zeros() < u32::from(value_bits);
        let bases = firsts.iter().map(|&first| if wide { 0 } else { base(first) as u64 }).collect();
        Self { bases, value_bits: value_bits.into(), wide }
    }

    /// Words per record: 1 or 2.
    pub(crate) const fn words(&self) -> usize {
        1 + self.wide as usize
    }

    /// Calls `each` with the hash and value of every record.
    #[inline(always)]
    pub(crate) fn unpack(&self, stretch: usize, records: &[u64], mut each: impl FnMut(u64, u16)) {
        if self.wide {
            for &[hash, value] in records.as_chunks::<2>().0 {
                each(hash, value as u16);
            }
        } else {
            let (base, mask) = (self.bases[stretch], (1u64 << self.value_bits) - 1);
            for &record in records {
                each(base + (record >> self.value_bits), (record & mask) as u16);
            }
        }
    }
}

/// A cache line of records that is being filled.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Pending([u64; 8]);

/// The records of one thread: one region per stretch.
#[derive(Debug)]
pub(crate) struct PartitionedRecords<'a> {
    region: &'a mut [u64],
    /// Writes to the region. Dropping it early makes the written records visible.
    out: StreamingWriter,
    /// Words of each stretch's region, a multiple of 8.
    room: usize,
    pending: Vec<Pending>,
    /// Per stretch: its lowest hash (as in [`RecordPacking`]), and the number of words written to it, without
    /// those in the list.
    bins: Vec<(u64, usize)>,
    /// Records that did not fit: stretch, hash, value.
    list: Vec<(u32, u64, u16)>,
}

/// Words of a region: the fair share of `keys` keys over `stretches`, plus six standard deviations.
fn room(keys: usize, stretches: usize, words: usize) -> usize {
    let fair = keys.div_ceil(stretches.max(1));
    ((fair + 6 * fair.isqrt() + 16) * words).next_multiple_of(8)
}

impl<'a> PartitionedRecords<'a> {
    fn new(region: &'a mut [u64], room: usize, packing: &RecordPacking) -> Self {
        let bins: Vec<_> = packing.bases.iter().map(|&base| (base, 0)).collect();
        let pending = vec![Pending([0; 8]); bins.len()];
        Self { region, out: StreamingWriter::default(), room, pending, bins, list: Vec::new() }
    }

    /// Adds a key to a stretch.
    #[inline(always)]
    pub(crate) fn add(&mut self, packing: &RecordPacking, stretch: usize, hash: u64, value: u16) {
        if packing.wide {
            self.word(packing, stretch, hash);
            self.word(packing, stretch, value.into());
        } else {
            let record = (hash - self.bins[stretch].0) << packing.value_bits | u64::from(value);
            self.word(packing, stretch, record);
        }
    }

    #[inline(always)]
    fn word(&mut self, packing: &RecordPacking, stretch: usize, word: u64) {
        let words = &mut self.bins[stretch].1;
        let at = *words;
        *words += 1;
        self.pending[stretch].0[at % 8] = word;
        if at % 8 == 7 {
            self.write_out(packing, stretch, at - 7);
        }
    }

    /// Writes out a full line, or moves it to the list if the region has no room.
    #[inline(always)]
    fn write_out(&mut self, packing: &RecordPacking, stretch: usize, at: usize) {
        if at == self.room {
            self.bins[stretch].1 = at;
            self.list_line(packing, stretch, 8);
            return;
        }
        if let Some(line) = self.region[stretch * self.room + at..].first_chunk_mut::<8>() {
            self.out.line(line, &self.pending[stretch].0);
        }
    }

    /// Moves the first words of the pending line to the list.
    #[cold]
    #[inline(never)]
    fn list_line(&mut self, packing: &RecordPacking, stretch: usize, words: usize) {
        let Self { pending, list, .. } = self;
        packing.unpack(stretch, &pending[stretch].0[..words], |hash, value| {
            list.push((stretch as u32, hash, value));
        });
    }

    /// Writes out the remaining records.
    fn finish(&mut self, packing: &RecordPacking) {
        for stretch in 0..self.bins.len() {
            let words = self.bins[stretch].1;
            let (rest, at) = (words % 8, words - words % 8);
            if at == self.room {
                self.bins[stretch].1 = at;
                self.list_line(packing, stretch, rest);
            } else {
                let to = stretch * self.room + at;
                self.region[to..to + rest].copy_from_slice(&self.pending[stretch].0[..rest]);
            }
        }
        self.list.sort_unstable();
        self.out.finish();
    }

    /// The records of a stretch.
    pub(crate) fn records(&self, stretch: usize) -> &[u64] {
        &self.region[stretch * self.room..][..self.bins[stretch].1]
    }

    /// The number of keys of a stretch.
    pub(crate) fn keys(&self, packing: &RecordPacking, stretch: usize) -> usize {
        self.bins[stretch].1 / packing.words() + self.listed(stretch).count()
    }

    /// The keys of a stretch that did not fit its region.
    pub(crate) fn listed(&self, stretch: usize) -> impl Iterator<Item = (u64, u16)> + '_ {
        let first = self.list.partition_point(|entry| (entry.0 as usize) < stretch);
        let run = self.list[first..].iter().take_while(move |entry| entry.0 as usize == stretch);
        run.map(|&(_, hash, value)| (hash, value))
    }
}

/// A build in two passes, both run by all threads.
pub(crate) struct TwoPassBuild<'a> {
    pub(crate) packing: &'a RecordPacking,
    pub(crate) regions: &'a Mutex<RecordMemory>,
    pub(crate) threads: usize,
    pub(crate) stretches: usize,
    /// Number of keys to build from.
    pub(crate) keys: usize,
}

impl TwoPassBuild<'_> {
    /// `partition` sends each thread's share of the keys to their stretches. Then `act` is called for each
    /// stretch, with the records of all threads, one of `outputs`, and the state that its thread keeps from
    /// one stretch to the next.
    pub(crate) fn run<O: Send, W, E: Send + From<SpawnError>>(
        &self,
        outputs: Vec<O>,
        partition: impl Fn(Range<usize>, &mut PartitionedRecords<'_>) -> Result<(), E> + Sync,
        work: impl Fn() -> W + Sync,
        act: impl Fn(usize, &[PartitionedRecords<'_>], O, &mut W) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let Self { packing, stretches, keys, .. } = *self;
        let share = keys.div_ceil(self.threads);
        let room = room(share, stretches, packing.words());
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let words = regions.words(self.threads * stretches * room);
        let shares = words.chunks_mut((stretches * room).max(1)).enumerate().collect();
        let records = on_threads(shares, |(at, region)| -> Result<_, E> {
            let mut records = PartitionedRecords::new(region, room, packing);
            partition((at * share).min(keys)..((at + 1) * share).min(keys), &mut records)?;
            records.finish(packing);
            Ok(records)
        })?;
        let jobs = Mutex::new(outputs.into_iter().enumerate());
        on_threads(vec![(); self.threads], |()| -> Result<(), E> {
            let mut work = work();
            loop {
                let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((stretch, output)) = next else { return Ok(()) };
                act(stretch, &records, output, &mut work)?;
            }
        })?;
        Ok(())
    }
}

/// Memory for records, reused from one build to the next.
#[derive(Debug, Default)]
pub(crate) struct RecordMemory(Option<HugeSlice<u64>>);

impl RecordMemory {
    /// A slice of `words` words with arbitrary content.
    fn words(&mut self, words: usize) -> &mut [u64] {
        let memory = self.0.take().filter(|memory| memory.len() >= words);
        &mut self.0.insert(memory.unwrap_or_else(|| HugeSlice::zeroed(words)))[..words]
    }
}
