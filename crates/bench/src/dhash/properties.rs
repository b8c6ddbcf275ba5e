//! What does not depend on time: conflict entries, false positives, comparisons, memory.

use super::ours::{NAME, config};
use super::trace::{Ids, PACKETS_OF_A_SESSION, Trace};
use super::{FILE_3, buckets_for};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::row::{Case, Metric};
use scalebricks_report::stats::Summary;
use scalebricks_tables::dhash::{Config, DHash, FlowHasher, FlowKey, Key4, Records, Signature};
use scalebricks_types::HashSeed;

/// Table V's variants.
pub(crate) const WITH_MAJOR: &str = "with major location";
pub(crate) const WITHOUT_MAJOR: &str = "without major location";

/// The parts of memory, as variants of [`Metric::MemoryBytes`].
pub(crate) const MEMORY_PARTS: [&str; 5] =
    ["signatures", "list heads", "conflict entries", "keys", "records of 64 bytes"];

/// Secrets of which the share in lists is measured.
const SECRETS: u64 = 5;

/// Measures them all.
///
/// # Errors
/// [`BenchError`]; a lookup with a wrong answer is one.
pub(super) fn run(bench: &mut BenchRun<'_>, traces: &[Trace]) -> Result<(), BenchError> {
    let Some(trace) = traces.iter().find(|trace| trace.ids == Ids::Structured) else { return Ok(()) };
    in_lists(bench, trace)?;
    for trace in traces {
        for signature in Signature::ALL {
            bench.check()?;
            false_positives(bench, trace, signature)?;
        }
    }
    for has_major_location in [true, false] {
        bench.check()?;
        comparisons(bench, trace, has_major_location)?;
    }
    Ok(())
}

/// A table with these sessions.
fn filled(config: &Config, keys: &[Key4]) -> Result<DHash<Key4>, BenchError> {
    let mut table = DHash::new(config, Records::new()).of(NAME)?;
    for key in keys {
        let record = table.add(key).of(NAME)?;
        ensure(record.is_some(), NAME, || format!("{key:?} was already there"))?;
    }
    Ok(table)
}

/// Sessions in lists at the paper's 100,000 buckets, for 1.0 M and for 1,048,576 sessions, and the memory of the
/// latter; smaller traces in proportion.
fn in_lists(bench: &mut BenchRun<'_>, trace: &Trace) -> Result<(), BenchError> {
    let all = trace.sessions();
    let million = (all as u64 * 1_000_000 / FILE_3) as usize;
    for sessions in [million, all] {
        let mut shares = Vec::new();
        for secret in 0..SECRETS {
            bench.check()?;
            let config = config(all, Signature::Keyed, HashSeed::from_u64(secret));
            let table = filled(&config, &trace.keys[..sessions])?;
            shares.push(table.in_lists() as f64 / sessions as f64);
            if (sessions, secret) == (all, 0) {
                memory(bench, &table);
            }
        }
        let case = bench.case(NAME, sessions as u64).variant(format!("{} buckets", buckets_for(all)));
        bench.add(case, Metric::ListedShare, Summary::of(&shares));
    }
    Ok(())
}

fn memory(bench: &mut BenchRun<'_>, table: &DHash<Key4>) {
    let memory = table.memory();
    let records = table.capacity() * 64;
    let parts = [memory.table_bytes, memory.heads_bytes, memory.pool_bytes, memory.keys_bytes, records];
    for (part, bytes) in MEMORY_PARTS.into_iter().zip(parts) {
        let case = bench.case(NAME, table.len() as u64).variant(part.to_owned());
        bench.add_exact(case, Metric::MemoryBytes, bytes as f64);
    }
}

/// Table IV: signatures of others that equal the sought one, in lookups of all sessions in both directions.
fn false_positives(bench: &mut BenchRun<'_>, trace: &Trace, signature: Signature) -> Result<(), BenchError> {
    let config = config(trace.sessions(), signature, super::contender::SECRET);
    let table = filled(&config, &trace.keys)?;
    let (mut false_positives, mut sessions) = (0_u64, 0_u64);
    for key in &trace.keys {
        let mut of_session = 0;
        for key in [*key, key.reversed()] {
            let probe = table.probe(&key, table.hash(&key));
            ensure(probe.found.is_some() && probe.found == table.find(&key), NAME, || {
                format!("{key:?} is not found")
            })?;
            of_session += u64::from(probe.false_positives);
        }
        false_positives += of_session;
        sessions += u64::from(of_session > 0);
    }
    let all = trace.sessions() as f64;
    let case = bench
        .case(NAME, trace.sessions() as u64)
        .format(signature.name())
        .variant(trace.ids.name().to_owned());
    bench.add_exact(case.clone(), Metric::FalsePositives, false_positives as f64 / (2.0 * all));
    bench.add_exact(case, Metric::FalselyMatched, sessions as f64 / all);
    Ok(())
}

/// Lookups, and what they compared.
#[derive(Default)]
struct Counted {
    lookups: usize,
    comparisons: usize,
    hits: usize,
    first_hits: usize,
    of_hits: usize,
}

impl Counted {
    /// A lookup of this key, counted `times` times.
    fn probe(&mut self, table: &DHash<Key4>, hasher: &FlowHasher, key: &Key4, times: usize) {
        let probe = table.probe(key, hasher.hash(key));
        let comparisons = times * probe.comparisons as usize;
        self.lookups += times;
        self.comparisons += comparisons;
        if probe.found.is_some() {
            self.hits += times;
            self.of_hits += comparisons;
            self.first_hits += if probe.comparisons == 1 { times } else { 0 };
        }
    }
}

/// A quotient of counts.
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// Table V: comparisons slot by slot over a whole trace: a failed search per session, 18 searches in the full table
/// and one in a table that becomes empty.
fn comparisons(bench: &mut BenchRun<'_>, trace: &Trace, has_major_location: bool) -> Result<(), BenchError> {
    let config =
        Config { has_major_location, ..config(trace.sessions(), Signature::Keyed, super::contender::SECRET) };
    let hasher = FlowHasher::new(config.signature, config.secret);
    let mut table = DHash::new(&config, Records::new()).of(NAME)?;
    let mut counted = Counted::default();
    for key in &trace.keys {
        counted.probe(&table, &hasher, key, 1);
        table.add(key).of(NAME)?;
    }
    for key in &trace.keys {
        counted.probe(&table, &hasher, key, PACKETS_OF_A_SESSION - 2);
    }
    for key in &trace.keys {
        counted.probe(&table, &hasher, key, 1);
        ensure(table.remove(key), NAME, || format!("{key:?} is missing"))?;
    }
    let (sessions, packets) = (trace.sessions(), PACKETS_OF_A_SESSION);
    let is_whole = (counted.lookups, counted.hits) == (sessions * packets, sessions * (packets - 1));
    ensure(is_whole && table.is_empty(), NAME, || "a lookup of the trace is wrong")?;
    let variant = if has_major_location { WITH_MAJOR } else { WITHOUT_MAJOR };
    let case = |what: &str| -> Case {
        bench.case(NAME, trace.sessions() as u64).variant(if what.is_empty() {
            variant.to_owned()
        } else {
            format!("{variant}, {what}")
        })
    };
    let (hits, all) = (case("hits"), case(""));
    bench.add_exact(hits.clone(), Metric::FirstHit, share(counted.first_hits, counted.hits));
    bench.add_exact(hits, Metric::Comparisons, share(counted.of_hits, counted.hits));
    bench.add_exact(all, Metric::Comparisons, share(counted.comparisons, counted.lookups));
    Ok(())
}
