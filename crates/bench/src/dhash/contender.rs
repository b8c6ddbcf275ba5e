//! Tables of sessions behind one interface.

use super::trace::{Frame, direction, key_of};
use crate::error::BenchError;
use scalebricks_tables::dhash::{Direction, FlowHash, FlowHasher, FlowKey, Key4};
use scalebricks_types::HashSeed;
use scalebricks_types::mix::SplitMix64;

/// Packets per call.
pub(super) const BATCH: usize = 64;

/// The answer for a packet without a session.
pub(super) const ABSENT: u32 = u32::MAX;

/// The secret of all tables.
pub(super) const SECRET: HashSeed = HashSeed::from_u64(0x0D4A);

/// An answer: a record, with the direction in the highest bit.
pub(super) const fn answer(record: u32, direction: Direction) -> u32 {
    record | (matches!(direction, Direction::Reverse) as u32) << 31
}

/// The record of an answer that is not [`ABSENT`].
pub(super) const fn record_of(answer: u32) -> u32 {
    answer & !(1 << 31)
}

/// A record: what a flow log keeps of a session.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Counts {
    pub(super) packets: u64,
    _others: [u64; 7],
}

/// A table that takes part. All calls have up to [`BATCH`] packets and as many hashes and answers.
pub(super) trait Contender: Send + Sync {
    fn name(&self) -> &'static str;

    /// What distinguishes it from others of its name.
    fn variant(&self) -> Option<String> {
        None
    }

    /// Bytes that lookups may read, without records.
    fn table_bytes(&self) -> u64;

    /// The sessions of packets, in either direction.
    fn find(&self, keys: &[Key4], hashes: &[FlowHash], answers: &mut [u32]);

    /// Adds sessions after looking for them; writes their records.
    fn add(&mut self, keys: &[Key4], hashes: &[FlowHash], records: &mut [u32]) -> Result<(), BenchError>;

    /// Deletes the sessions of packets of either direction, which a lookup has just found.
    fn remove(&mut self, keys: &[Key4], hashes: &[FlowHash], answers: &[u32]) -> Result<(), BenchError>;

    /// Counts a packet in each record that was found.
    fn count(&mut self, answers: &[u32]);

    /// Packets counted in a record.
    fn counted(&self, record: u32) -> u64;
}

/// Records of tables that have none of their own, and the free ones.
#[derive(Debug)]
pub(super) struct RecordPool {
    counts: Vec<Counts>,
    free: Vec<u32>,
}

impl RecordPool {
    /// So many records, which are given out in random order, as in a table that has run for a while, or in order.
    pub(super) fn new(records: usize, in_order: bool) -> Self {
        let mut free: Vec<u32> = (0..records as u32).rev().collect(); // at most 2^30
        if !in_order {
            let mut random = SplitMix64(99);
            for at in (1..free.len()).rev() {
                free.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
            }
        }
        Self { counts: vec![Counts::default(); records], free }
    }

    pub(super) fn take(&mut self, name: &str) -> Result<u32, BenchError> {
        self.free.pop().ok_or_else(|| BenchError::check(name, "no record is left"))
    }

    pub(super) fn give_back(&mut self, record: u32) {
        self.counts[record as usize] = Counts::default();
        self.free.push(record);
    }

    pub(super) fn count(&mut self, answers: &[u32]) {
        for &answer in answers.iter().filter(|&&answer| answer != ABSENT) {
            scalebricks_tables::prefetch_read(&self.counts[record_of(answer) as usize]);
        }
        for &answer in answers.iter().filter(|&&answer| answer != ABSENT) {
            self.counts[record_of(answer) as usize].packets += 1;
        }
    }

    pub(super) fn counted(&self, record: u32) -> u64 {
        self.counts[record as usize].packets
    }
}

/// Keys and hashes of up to [`BATCH`] frames.
#[inline(always)]
pub(super) fn read<'a>(
    hasher: &FlowHasher,
    frames: &[Frame],
    keys: &'a mut [Key4; BATCH],
    hashes: &'a mut [FlowHash; BATCH],
) -> (&'a [Key4], &'a [FlowHash]) {
    for (frame, key) in frames.iter().zip(keys.iter_mut()) {
        *key = key_of(frame);
    }
    hasher.hash_batch(&keys[..frames.len()], hashes);
    (&keys[..frames.len()], &hashes[..frames.len()])
}

/// Space for the keys and hashes of a batch.
pub(super) fn space() -> ([Key4; BATCH], [FlowHash; BATCH]) {
    ([Key4::ZERO; BATCH], [FlowHash::default(); BATCH])
}

/// Fills a table with the sessions of a round's packets; returns their records.
///
/// # Errors
/// [`BenchError`] if it refuses one.
pub(super) fn fill(
    table: &mut dyn Contender,
    hasher: &FlowHasher,
    frames: &[Frame],
) -> Result<Vec<u32>, BenchError> {
    let mut records = vec![ABSENT; frames.len()];
    let (mut keys, mut hashes) = space();
    for (frames, records) in frames.chunks(BATCH).zip(records.chunks_mut(BATCH)) {
        let (keys, hashes) = read(hasher, frames, &mut keys, &mut hashes);
        table.add(keys, hashes, records)?;
    }
    Ok(records)
}

/// Compares the answers for a round's packets with the records that the sessions were given.
///
/// # Errors
/// [`BenchError::Check`] for the first difference.
pub(super) fn check(name: &str, round: usize, records: &[u32], answers: &[u32]) -> Result<(), BenchError> {
    let right = |record: u32| if record == ABSENT { ABSENT } else { answer(record, direction(round)) };
    let wrong = records.iter().zip(answers).position(|(&record, &got)| got != right(record));
    match wrong {
        Some(session) => Err(BenchError::check(
            name,
            format!(
                "round {round}, session {session}: answer {:#x}, not {:#x}",
                answers[session],
                right(records[session])
            ),
        )),
        None if records.len() == answers.len() => Ok(()),
        None => Err(BenchError::check(name, "a packet has no answer")),
    }
}
