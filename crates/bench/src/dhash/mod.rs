//! The DHash paper's measurements of its table, with ours and with others: sessions that packets add, find and delete.
//!
//! | module | contents |
//! |---|---|
//! | `trace` | Table II: packets of N sessions in the worst order |
//! | `properties` | conflict entries; Table IV: false positives; Table V: first hits and comparisons; memory |
//! | `contender`, `ours`, `chained`, `exact`, `dpdk` | tables behind one interface |
//! | `conversation`, `stack` | Tables I and III, Figures 6 and 7: the packets as TCP connections, the whole stack, its stages, two cores |
//! | `lookups` | rates: lookups, lookups that count in the record, whole traces, signatures |
//!
//! All tables have the same sessions, hash (keyed, equal for both directions), records of 64 bytes, and answer: the
//! record, and whether the packet goes as the session's first one. Each packet is a frame in memory. Its key is read
//! from it and hashed within the timed part, and a row of its own says what that costs.

mod chained;
mod contender;
mod conversation;
#[cfg(feature = "dpdk")]
mod dpdk;
mod exact;
mod lookups;
mod ours;
mod properties;
mod stack;
#[cfg(test)]
mod tests;
mod trace;

use crate::bench_run::BenchRun;
use crate::benches::lpm::pages::EqualPages;
use crate::error::BenchError;
use crate::figures;
use trace::{Ids, Trace};

// Names of rows, for the figures.
pub(crate) use chained::NAME as CHAINED;
pub(crate) use exact::{CUCKOO, HASHBROWN};
pub(crate) use lookups::{COUNTED, FOUND, LIBNIDS, PACKETS_ALONE, SEARCH, TABLE_1_ROWS, WHOLE_TRACE};
pub(crate) use ours::NAME as DHASH;
pub(crate) use properties::{MEMORY_PARTS, WITH_MAJOR, WITHOUT_MAJOR};
pub(crate) use stack::{ONE_CORE, PIPELINE, STACK, STAGE, STAGES, TABLE_1, TWO_CORES};
pub(crate) use trace::PACKETS_OF_A_SESSION;

/// The names of both kinds of sessions, as variants of rows.
pub(crate) const IDS: [&str; 2] = [Ids::Structured.name(), Ids::Random.name()];

/// Sessions of File-3, the largest of the paper's traces.
pub(crate) const FILE_3: u64 = 1 << 20;

/// Sessions of the paper's trace, and its buckets.
pub(crate) const PAPER_BUCKETS: u64 = 100_000;

/// Approximate bytes per session of all that is in memory at once: frames, tables, records, answers.
const SESSION_BYTES: u64 = 2000;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let first = bench.rows().len();
    let sessions = bench.options.first_keys(8192, FILE_3);
    if !bench.fits(sessions, SESSION_BYTES)? {
        return Ok(());
    }
    let _equal = EqualPages::settle("dhash", bench.console)?;
    let busy = bench.busy("making packets");
    let traces = [Ids::Structured, Ids::Random].map(|ids| Trace::new(sessions as usize, ids));
    drop(busy);
    properties::run(bench, &traces)?;
    lookups::run(bench, &traces)?;
    stack::run(bench, &traces)?;
    figures::dhash::show(bench, first);
    Ok(())
}

/// The paper's buckets for so many sessions: 100,000 for those of File-3.
pub(crate) fn buckets_for(sessions: usize) -> u32 {
    (sessions as u64 * PAPER_BUCKETS).div_ceil(FILE_3).max(1) as u32 // below 2^30 sessions
}
