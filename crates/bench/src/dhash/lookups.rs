//! Rates of all tables in one run, in turns.

use super::chained::{Chained, LIBNIDS_BUCKETS};
use super::contender::{ABSENT, BATCH, Contender, SECRET, check, fill, read, space};
use super::exact::{Cuckoo, HashBrown};
use super::ours::Ours;
use super::trace::{Frame, Ids, PACKETS_OF_A_SESSION, Trace};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, ensure};
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric};
use crate::timing;
use scalebricks_tables::dhash::{FlowHasher, Signature};
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Variants of rows: what is done with each packet.
pub(crate) const FOUND: &str = "find";
pub(crate) const COUNTED: &str = "find and count";
pub(crate) const WHOLE_TRACE: &str = "whole trace";

/// The structure of rows for reading and hashing packets alone.
pub(crate) const PACKETS_ALONE: &str = "packets alone";

/// Formats of rows of chained hashing that do not take part in the comparison.
pub(crate) const SEARCH: &str = "search for the best";
pub(crate) const LIBNIDS: &str = "default of Libnids";

/// Format of rows for Table I.
pub(crate) const TABLE_1_ROWS: &str = "Table I";

/// Rounds of a timed run of lookups.
const ROUNDS: usize = 4;

/// Buckets per session with which chained hashing is tried; the best takes part.
const BUCKETS_PER_SESSION: [f64; 6] = [0.125, 0.5, 1.0, 1.5, 2.0, 4.0];

/// Lookups of a table with as few buckets as Libnids has by default.
const FEW_LOOKUPS: usize = 1 << 14;

/// A measurement; the state is unused.
type Turn<'a> = Measurement<'a, ()>;

/// Makes an empty table for so many sessions.
type Make = Box<dyn Fn(usize) -> Result<Box<dyn Contender>, BenchError>>;

/// A table with all sessions of a trace, or the first ones.
struct Filled {
    table: Box<dyn Contender>,
    /// The record that each session was given.
    records: Vec<u32>,
    /// Packets counted in each record.
    counted: u64,
}

/// Such a table, used by one measurement at a time.
type Shared = Arc<Mutex<Filled>>;

fn lock(filled: &Shared) -> MutexGuard<'_, Filled> {
    filled.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all measurements have in common.
#[derive(Clone, Copy)]
struct Bed<'a> {
    trace: &'a Trace,
    hasher: FlowHasher,
    /// Sessions, of the trace's first ones.
    sessions: usize,
}

impl<'a> Bed<'a> {
    fn frames(&self, round: usize) -> &'a [Frame] {
        &self.trace.round(round)[..self.sessions]
    }

    fn fill(&self, make: &Make) -> Result<Shared, BenchError> {
        let mut table = make(self.sessions)?;
        let records = fill(table.as_mut(), &self.hasher, self.frames(0))?;
        Ok(Arc::new(Mutex::new(Filled { table, records, counted: 0 })))
    }
}

/// Measures all rates.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub(super) fn run(bench: &mut BenchRun<'_>, traces: &[Trace]) -> Result<(), BenchError> {
    let Some(trace) = traces.iter().find(|trace| trace.ids == Ids::Structured) else { return Ok(()) };
    let all = Bed { trace, hasher: FlowHasher::new(Signature::Keyed, SECRET), sessions: trace.sessions() };
    let per_session = best_buckets(bench, all)?;
    for sessions in files(all.sessions) {
        let bed = Bed { sessions, ..all };
        let mut turns = vec![packets_alone(bench, bed)];
        for make in contenders(per_session) {
            let filled = bed.fill(&make)?;
            turns.push(lookups(bench, bed, &filled, None));
            if sessions == all.sessions {
                turns.push(counting(bench, bed, filled));
                turns.push(whole_trace(bench, bed, make(sessions)?));
            }
        }
        interleave(bench, &mut (), turns)?;
    }
    by_signature(bench, all)?;
    libnids_default(bench, all)?;
    table_1(bench, all)
}

/// The sessions of File-1 to File-3.
fn files(sessions: usize) -> [usize; 3] {
    [sessions / 4, sessions / 2, sessions].map(|sessions| sessions.max(1))
}

/// All tables; chained hashing with so many buckets per session.
fn contenders(buckets_per_session: f64) -> Vec<Make> {
    let chained = move |sessions: usize, in_order: bool| -> Result<Box<dyn Contender>, BenchError> {
        Ok(Box::new(Chained::new(sessions, buckets(sessions, buckets_per_session), in_order)))
    };
    vec![
        Box::new(|sessions| Ok(Box::new(Ours::new(sessions, Signature::Keyed)?))),
        Box::new(move |sessions| chained(sessions, false)),
        Box::new(move |sessions| chained(sessions, true)),
        Box::new(|sessions| Ok(Box::new(Cuckoo::new(sessions)))),
        Box::new(|sessions| Ok(Box::new(HashBrown::new(sessions)))),
        #[cfg(feature = "dpdk")]
        Box::new(|sessions| Ok(Box::new(super::dpdk::RteHash::new(sessions)?))),
    ]
}

#[expect(clippy::cast_sign_loss, reason = "a count is not negative")]
fn buckets(sessions: usize, per_session: f64) -> usize {
    (sessions as f64 * per_session).ceil() as usize
}

/// The case of a table.
fn case(bench: &BenchRun<'_>, table: &dyn Contender, sessions: usize, what: &str) -> Case {
    let note = table.variant();
    let variant = note.map_or_else(|| what.to_owned(), |note| format!("{what}, {note}"));
    bench
        .case(table.name(), sessions as u64)
        .variant(variant)
        .threads(1)
        .batch(BATCH)
        .table_bytes(table.table_bytes())
}

/// Looks up packets and writes the answers.
fn find_all(table: &dyn Contender, hasher: &FlowHasher, frames: &[Frame], answers: &mut [u32]) {
    let (mut keys, mut hashes) = space();
    for (frames, answers) in frames.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        let (keys, hashes) = read(hasher, frames, &mut keys, &mut hashes);
        table.find(keys, hashes, answers);
    }
}

/// Answers for several rounds, wrong ones at first.
fn unanswered(sessions: usize, rounds: usize) -> Vec<u32> {
    vec![ABSENT - 1; sessions * rounds]
}

/// Reads and hashes the packets of a run.
fn packets_alone<'a>(bench: &BenchRun<'_>, bed: Bed<'a>) -> Turn<'a> {
    let case =
        bench.case(PACKETS_ALONE, bed.sessions as u64).variant(FOUND.to_owned()).threads(1).batch(BATCH);
    Measurement::new(case, Metric::LookupRate, move |()| {
        let ((), seconds) = timing::pinned(|| {
            let (mut keys, mut hashes) = space();
            for round in 0..ROUNDS {
                for frames in bed.frames(round).chunks(BATCH) {
                    black_box(read(&bed.hasher, frames, &mut keys, &mut hashes));
                }
            }
        })?;
        timing::rate(PACKETS_ALONE, bed.sessions * ROUNDS, seconds).map(Into::into)
    })
}

/// Lookups of all sessions in a full table, in alternating directions, every answer checked.
fn lookups<'a>(
    bench: &BenchRun<'_>,
    bed: Bed<'a>,
    filled: &Shared,
    format: Option<&'static str>,
) -> Turn<'a> {
    let case = case(bench, lock(filled).table.as_ref(), bed.sessions, FOUND).format(format);
    let filled = Arc::clone(filled);
    Measurement::new(case, Metric::LookupRate, move |()| {
        let filled = lock(&filled);
        rate_of_lookups(filled.table.as_ref(), bed, &filled.records).map(Into::into)
    })
}

/// The rate of lookups of the first sessions, which have these records.
fn rate_of_lookups(table: &dyn Contender, bed: Bed<'_>, records: &[u32]) -> Result<f64, BenchError> {
    let sessions = records.len();
    let mut answers = unanswered(sessions, ROUNDS);
    let ((), seconds) = timing::pinned(|| {
        for (round, answers) in answers.chunks_mut(sessions).enumerate() {
            find_all(table, &bed.hasher, &bed.frames(round)[..sessions], answers);
        }
    })?;
    for (round, answers) in answers.chunks(sessions).enumerate() {
        check(table.name(), round, records, answers)?;
    }
    timing::rate(table.name(), sessions * ROUNDS, seconds)
}

/// The same, and each packet is counted in its session's record. All counts are checked.
fn counting<'a>(bench: &BenchRun<'_>, bed: Bed<'a>, filled: Shared) -> Turn<'a> {
    let case = case(bench, lock(&filled).table.as_ref(), bed.sessions, COUNTED);
    Measurement::new(case, Metric::PacketRate, move |()| {
        let mut guard = lock(&filled);
        let Filled { table, records, counted } = &mut *guard;
        let mut answers = unanswered(bed.sessions, ROUNDS);
        let (done, seconds) = timing::pinned(|| play(table.as_mut(), bed, 1, records, &mut answers))?;
        done?;
        for (round, answers) in answers.chunks(bed.sessions).enumerate() {
            check(table.name(), round + 1, records, answers)?;
        }
        *counted += ROUNDS as u64;
        let is_right = records.iter().all(|&record| table.counted(record) == *counted);
        ensure(is_right, table.name(), || "a record has another number of packets")?;
        timing::rate(table.name(), answers.len(), seconds).map(Into::into)
    })
}

/// The trace from its first packet to its last: a failed lookup and an insertion per session, 18 lookups, and one with a
/// deletion. Every packet is counted. The table is empty before and after: a session that is left would be refused as
/// already there in the next run.
fn whole_trace<'a>(bench: &BenchRun<'_>, bed: Bed<'a>, mut table: Box<dyn Contender>) -> Turn<'a> {
    let case = case(bench, table.as_ref(), bed.sessions, WHOLE_TRACE);
    Measurement::new(case, Metric::PacketRate, move |()| {
        let mut records = vec![ABSENT; bed.sessions];
        let mut answers = unanswered(bed.sessions, PACKETS_OF_A_SESSION);
        let (done, seconds) = timing::pinned(|| play(table.as_mut(), bed, 0, &mut records, &mut answers))?;
        done?;
        for (round, answers) in answers.chunks(bed.sessions).enumerate() {
            check(table.name(), round, &records, answers)?;
        }
        timing::rate(table.name(), answers.len(), seconds).map(Into::into)
    })
}

/// Plays as many rounds as there are answers for, from round `first` on, and counts all packets. Round 0 adds sessions,
/// and writes their records; round 19 deletes them.
fn play(
    table: &mut dyn Contender,
    bed: Bed<'_>,
    first: usize,
    records: &mut [u32],
    answers: &mut [u32],
) -> Result<(), BenchError> {
    let (mut keys, mut hashes) = space();
    for (round, answers) in answers.chunks_mut(bed.sessions).enumerate() {
        let round = first + round;
        let batches = bed.frames(round).chunks(BATCH).zip(answers.chunks_mut(BATCH));
        for ((frames, answers), records) in batches.zip(records.chunks_mut(BATCH)) {
            let (keys, hashes) = read(&bed.hasher, frames, &mut keys, &mut hashes);
            if round == 0 {
                table.add(keys, hashes, records)?; // which looks for them first
                answers.copy_from_slice(records); // forward
            } else {
                table.find(keys, hashes, answers);
            }
            table.count(answers);
            if round + 1 == PACKETS_OF_A_SESSION {
                table.remove(keys, hashes, answers)?;
            }
        }
    }
    Ok(())
}

/// The rate of chained hashing by buckets; returns the best number per session.
fn best_buckets(bench: &mut BenchRun<'_>, bed: Bed<'_>) -> Result<f64, BenchError> {
    let first = bench.rows().len();
    let mut turns = Vec::new();
    for per_session in BUCKETS_PER_SESSION {
        let make = move |sessions: usize| -> Result<Box<dyn Contender>, BenchError> {
            Ok(Box::new(Chained::new(sessions, buckets(sessions, per_session), false)))
        };
        turns.push(lookups(bench, bed, &bed.fill(&(Box::new(make) as Make))?, Some(SEARCH)));
    }
    interleave(bench, &mut (), turns)?;
    let rates = bench.rows()[first..].iter().map(|row| row.median).zip(BUCKETS_PER_SESSION);
    Ok(rates.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(1.0, |(_, per_session)| per_session))
}

/// Table IV's rates: our table with each function.
fn by_signature(bench: &mut BenchRun<'_>, bed: Bed<'_>) -> Result<(), BenchError> {
    let mut turns = Vec::new();
    for signature in Signature::ALL {
        let bed = Bed { hasher: FlowHasher::new(signature, SECRET), ..bed };
        let make = move |sessions: usize| -> Result<Box<dyn Contender>, BenchError> {
            Ok(Box::new(Ours::new(sessions, signature)?))
        };
        turns.push(lookups(bench, bed, &bed.fill(&(Box::new(make) as Make))?, Some(signature.name())));
    }
    interleave(bench, &mut (), turns)
}

/// Chained hashing with the buckets that Libnids has by default: a few lookups, as each walks a chain of a thousand
/// entries.
fn libnids_default(bench: &mut BenchRun<'_>, bed: Bed<'_>) -> Result<(), BenchError> {
    let mut table = Chained::new(bed.sessions, LIBNIDS_BUCKETS, false);
    let few = FEW_LOOKUPS.min(bed.sessions);
    let mut records = Vec::with_capacity(bed.sessions);
    for key in &bed.trace.keys {
        records.push(table.add_absent(key, bed.hasher.hash(key))?);
    }
    let case = case(bench, &table, bed.sessions, FOUND).format(LIBNIDS);
    let turn = Measurement::new(case, Metric::LookupRate, move |()| {
        rate_of_lookups(&table, bed, &records[..few]).map(Into::into)
    });
    interleave(bench, &mut (), vec![turn])
}

/// Table I's lookups: ours, and chained hashing with the buckets of Libnids, and packets alone. Few sessions are looked up
/// again and again, so that a run is long enough to time.
fn table_1(bench: &mut BenchRun<'_>, all: Bed<'_>) -> Result<(), BenchError> {
    let mut turns = Vec::new();
    for sessions in super::TABLE_1.map(|sessions| (sessions as usize).min(all.sessions)) {
        let bed = Bed { sessions, ..all };
        let makes: [Make; 2] = [
            Box::new(|sessions| Ok(Box::new(Ours::new(sessions, Signature::Keyed)?))),
            Box::new(|sessions| Ok(Box::new(Chained::new(sessions, LIBNIDS_BUCKETS, false)))),
        ];
        let few = FEW_LOOKUPS.min(sessions);
        let times = (FEW_LOOKUPS / few).max(1);
        for make in makes {
            let filled = bed.fill(&make)?;
            let case = case(bench, lock(&filled).table.as_ref(), sessions, FOUND).format(TABLE_1_ROWS);
            turns.push(Measurement::new(case, Metric::LookupRate, move |()| {
                let filled = lock(&filled);
                let (table, mut answers) = (filled.table.as_ref(), unanswered(few, 1));
                let ((), seconds) = timing::pinned(|| {
                    for _ in 0..times {
                        find_all(table, &bed.hasher, &bed.frames(0)[..few], black_box(&mut answers));
                    }
                })?;
                check(table.name(), 0, &filled.records[..few], &answers)?;
                timing::rate(table.name(), few * times, seconds).map(Into::into)
            }));
        }
        let case = bench.case(PACKETS_ALONE, sessions as u64).variant(FOUND.to_owned()).format(TABLE_1_ROWS);
        turns.push(Measurement::new(case.threads(1).batch(BATCH), Metric::LookupRate, move |()| {
            let ((), seconds) = timing::pinned(|| {
                let (mut keys, mut hashes) = space();
                for frames in (0..times).flat_map(|_| bed.frames(0)[..few].chunks(BATCH)) {
                    black_box(read(&bed.hasher, frames, &mut keys, &mut hashes));
                }
            })?;
            timing::rate(PACKETS_ALONE, few * times, seconds).map(Into::into)
        }));
    }
    interleave(bench, &mut (), turns)
}
