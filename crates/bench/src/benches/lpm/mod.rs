//! `lpm`: longest-prefix match on full BGP tables, compared with DPDK's `rte_lpm`, `rte_fib`, `rte_lpm6` and
//! `rte_fib6`.

#[cfg(feature = "dpdk")]
mod dpdk;
pub mod family;
mod ours;
pub(crate) mod pages;
pub mod routes;
mod table;
#[cfg(test)]
mod tests;

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric};
use crate::structures::BATCHES;
use crate::timing;
use family::{Family, OURS};
use routes::Routes;
use scalebricks_console::quantity::short_count;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::{Contender, Task};

/// Next hops of a table.
const NEXT_HOPS: u32 = 256;

/// Keys per call beside a writer.
const READER_BATCH: usize = 64;

/// Rates of the round, by contender, set of destinations and keys per call.
type Rates = HashMap<(usize, usize, usize), f64>;

/// A measurement; the state is the round's rates.
type Turn<'a> = Measurement<'a, Rates>;

/// A contender, used by one measurement at a time.
type Shared = Mutex<Box<dyn Contender>>;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let quick = bench.options.quick;
    let (v4, v6) = routes::read(&bench.options.routes)?;
    let is_generated = bench.options.routes.is_empty();
    let v4 = if is_generated { generated(if quick { 50_000 } else { 500_000 }) } else { v4 };
    let v6 = if is_generated { generated(if quick { 10_000 } else { 50_000 }) } else { v6 };
    let _equal = pages::EqualPages::settle("lpm", bench.console)?;
    one::<Ipv4Addr>(bench, v4)?;
    one::<Ipv6Addr>(bench, v6)
}

fn generated<A: Family>(count: usize) -> Routes<A> {
    routes::generated(count, |_| true)
}

/// Measures the tables of one family.
fn one<A: Family>(bench: &mut BenchRun<'_>, routes: Routes<A>) -> Result<(), BenchError> {
    if routes.is_empty() {
        return Ok(());
    }
    let busy = bench.busy("making destinations and tables");
    let (sets, lookups, changes) =
        bench.options.pick(([1 << 12, 1 << 16], 1 << 18, 500), ([1 << 16, 1 << 22], 1 << 24, 50_000));
    let task = Arc::new(Task::new(routes, &sets, changes)?);
    let mut notes = Vec::new();
    let contenders: Vec<Shared> = A::contenders(&task, &mut notes)?.into_iter().map(Mutex::new).collect();
    drop(busy);
    for note in notes {
        bench.console.note(&format!("lpm: {}: {note}", A::NAME));
    }
    let cases: Vec<Case> = contenders.iter().map(|contender| case(bench, contender, &task)).collect();
    let mut loads = Vec::new();
    for (case, contender) in cases.iter().zip(&contenders) {
        if let Some(share) = lock(contender).huge_share() {
            bench.add_exact(case.clone(), Metric::HugePages, share);
        }
        match lock(contender).only_fill_ns() {
            Some(time) => bench.add_exact(case.clone(), Metric::LoadTime, time),
            None => loads.push(load(case.clone(), contender)),
        }
    }
    interleave(bench, &mut Rates::new(), loads)?;
    let first = contenders.iter().take(OURS);
    let ours: Vec<String> = first.filter_map(|contender| lock(contender).variant()).collect();
    let mut turns = Vec::new();
    for (set, &destinations) in sets.iter().enumerate() {
        for batch in bench.options.batches(&BATCHES) {
            for (number, contender) in contenders.iter().enumerate() {
                let run = LookupRun { number, set, batch, times: (lookups / destinations).max(1) };
                let case = noted(
                    cases[number].clone(),
                    &format!("{} destinations", short_count(destinations as u64)),
                );
                turns.push(lookup(case, contender, &task, run, &ours));
            }
        }
    }
    for (number, contender) in contenders.iter().enumerate() {
        if lock(contender).can_change() {
            turns.push(update(cases[number].clone(), contender, &task));
        }
        if lock(contender).reads_beside_writer() {
            turns.push(update_beside_reader(cases[number].clone(), contender, &task));
        }
    }
    interleave(bench, &mut Rates::new(), turns)
}

/// The case of a contender.
fn case<A: Family>(bench: &BenchRun<'_>, contender: &Shared, task: &Task<A>) -> Case {
    let contender = lock(contender);
    bench
        .case(contender.name(), task.routes.len() as u64)
        .format(A::NAME)
        .threads(1)
        .variant(contender.variant())
        .table_bytes(contender.table_bytes())
}

fn lock(contender: &Shared) -> MutexGuard<'_, Box<dyn Contender>> {
    contender.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The case with a note after its variant.
fn noted(case: Case, note: &str) -> Case {
    let variant = [case.variant.clone().unwrap_or_default(), note.to_owned()];
    let variant = variant.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    case.variant(variant)
}

/// Fills an empty table with all routes.
fn load(case: Case, contender: &Shared) -> Turn<'_> {
    Measurement::new(case, Metric::LoadTime, move |_| {
        let mut guard = lock(contender);
        let contender = guard.as_mut();
        contender.clear()?;
        let (done, seconds) = timing::pinned(|| contender.fill())?;
        done.map(|()| (seconds * 1e9).into())
    })
}

/// What a measurement of lookups does.
#[derive(Clone, Copy)]
struct LookupRun {
    number: usize,
    set: usize,
    batch: usize,
    times: usize,
}

/// Checks the answers for all destinations, then times lookups of them. Contenders after the first get more rows: how
/// many times as fast our first tables, whose names are `ours`, were in the same round.
fn lookup<'a>(
    case: Case,
    contender: &'a Shared,
    task: &'a Task<impl Family>,
    run: LookupRun,
    ours: &[String],
) -> Turn<'a> {
    let LookupRun { number, set, batch, times } = run;
    let case = case.batch(batch);
    let mut rows = vec![(case.clone(), Metric::LookupRate)];
    for name in ours.iter().take(number) {
        rows.push((noted(case.clone(), &format!("lpm ({name}) in units of this")), Metric::Ratio));
    }
    let ours = 0..ours.len().min(number);
    Measurement::several(rows, move |rates: &mut Rates| {
        let mut guard = lock(contender);
        let contender = guard.as_mut();
        task.check(set, contender.name(), &contender.answers(set, batch))?;
        let ((), seconds) = timing::pinned(|| contender.rotate(set, batch, times))?;
        let rate = timing::rate(contender.name(), task.destinations[set].len() * times, seconds)?;
        rates.insert((number, set, batch), rate);
        let ratios = ours.clone().filter_map(|ours| Some(rates.get(&(ours, set, batch))? / rate));
        Ok(std::iter::once(rate).chain(ratios).collect::<Vec<_>>().into())
    })
}

/// Removes routes and adds them again, one after the other. Two updates a route.
fn update<'a>(case: Case, contender: &'a Shared, task: &'a Task<impl Family>) -> Turn<'a> {
    Measurement::new(noted(case, "no reader"), Metric::UpdateRate, move |_| {
        let mut guard = lock(contender);
        let contender = guard.as_mut();
        let (done, seconds) = timing::pinned(|| contender.change())?;
        done?;
        timing::rate(contender.name(), 2 * task.changes.len(), seconds).map(Into::into)
    })
}

/// The same while another thread looks up. The second row is the reader's rate.
fn update_beside_reader<'a>(case: Case, contender: &'a Shared, task: &'a Task<impl Family>) -> Turn<'a> {
    let case = noted(case, "beside a reader");
    let rows = vec![(case.clone(), Metric::UpdateRate), (case.batch(READER_BATCH), Metric::LookupRate)];
    Measurement::several(rows, move |_| {
        let mut guard = lock(contender);
        let contender = guard.as_mut();
        let name = contender.name();
        let ((done, seconds), reading) = contender.change_beside_reader(READER_BATCH)?;
        done?;
        Ok(vec![timing::rate(name, 2 * task.changes.len(), seconds)?, reading].into())
    })
}
