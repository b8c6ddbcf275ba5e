//! Figure 6: packet delays with lookups by destination, by event simulation with arrivals of a capture and
//! measured batch times.
//!
//! The paper simulates one thread with two cache levels. Here each batch time is one that the real table took
//! on one core for random names: the time to hash and look up, minus the time to read the clock.

use super::arrivals::ArrivalGaps;
use super::fibs::{self, Fib, FibReader, NameFib};
use super::{paper, queue};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::mix;
use crate::names::population::{Kind, Population, SEED};
use crate::names::{NameHasher, macs};
use crate::pin;
use crate::rounds::retry_rejected;
use crate::row::Metric;
use crate::sheet::Sheet;
use crate::timing::{self, Clock};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, Mark, Point, Scale, Series};
use scalebricks_report::stats::percentile;
use scalebricks_types::KeyHash;

/// Maximum packets per batch, as ports deliver them.
const BURST: usize = 32;
/// Batch sizes that are timed. Other sizes count as the next larger one.
const BATCHES: [usize; 6] = [1, 2, 4, 8, 16, BURST];
/// Times per batch size.
const SAMPLES: usize = 8192;
/// Additional times to replace disturbed ones.
const SPARES: usize = SAMPLES / 16;
/// Packets per second: the paper's trace, and a hundred times as many.
const RATES_PPS: [(f64, &str); 2] = [(210e3, "210 Kpps"), (21e6, "21 Mpps")];
/// Bytes per name, with one structure at a time.
const NAME_BYTES: u64 = 170;
const STRUCTURES: [Fib; 6] =
    [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo, Fib::Buffalo, Fib::Orthogonal, Fib::Sorted];
/// The cell of a structure whose queue only grew.
const SATURATED: &str = "saturated";

/// Batch times in nanoseconds, by batch size.
struct Times(Vec<(usize, Vec<f64>)>);

/// Packet delays for one number of names, structure and rate.
struct Delays {
    names: u64,
    fib: Fib,
    rate: usize,
    load: f64,
    /// Sorted delays; `None` if the queue only grew.
    sorted: Option<Vec<f64>>,
}

/// Measures, simulates and draws the figure.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let gaps = options.capture.as_deref().map_or_else(|| Ok(ArrivalGaps::made()), ArrivalGaps::of_capture)?;
    let mut all = Vec::new();
    for names in bench.sizes(&[262_144], &[1_000_000, 4_000_000], NAME_BYTES)? {
        all.push((names, one(bench, names, options.first_value_bits(8), &gaps)?));
    }
    if let Some((names, delays)) = all.last() {
        bench.add_chart(chart(*names, &gaps, delays));
        if !delays.is_empty() {
            bench.add_conclusion("concise-figure-6-conclusion", conclusion(*names, &gaps, delays));
        }
    }
    bench.add_table(delay_table(&gaps, all.iter().flat_map(|(_, delays)| delays)));
    let others = all.iter().flat_map(|(_, delays)| {
        let by_rate = (0..RATES_PPS.len()).flat_map(|rate| delays.iter().filter(move |of| of.rate == rate));
        by_rate
            .filter(|other| other.fib != Fib::OTHELLO)
            .map(|other| (of(delays, Fib::OTHELLO, other.rate), other))
    });
    let crossings = Sheet::new("concise-figure-6-crossings", others)
        .column("names", |(_, other)| short_count(other.names))
        .column("rate", |(_, other)| RATES_PPS[other.rate].1)
        .column("beside", |(_, other)| other.fib.name())
        .column("paper", |(_, other)| match other.fib {
            Fib::Cuckoo => paper::DELAY_CROSSINGS[other.rate],
            _ => paper::NOT_GIVEN,
        })
        .column("no later up to", |(own, other)| match (own, &other.sorted) {
            (None, _) => "othello is saturated".to_owned(),
            (Some(_), None) => SATURATED.to_owned(),
            (Some(own), Some(other)) => crossing(own, other).map_or_else(|| "none".to_owned(), percent),
        })
        .column("within 1 µs", |(own, _)| {
            own.map_or_else(|| SATURATED.to_owned(), |own| percent(within(own, 1000.0)))
        });
    bench.add_table(crossings);
    Ok(())
}

/// Times all structures, simulates both rates with each, and adds the rows.
fn one(
    bench: &mut BenchRun<'_>,
    names: u64,
    value_bits: u8,
    gaps: &ArrivalGaps,
) -> Result<Vec<Delays>, BenchError> {
    let packets = bench.options.pick(50_000, 2_000_000);
    let busy = bench.busy("making names");
    let set = Population::of(Kind::Mac, names, value_bits);
    drop(busy);
    let mut all = Vec::new();
    for fib in STRUCTURES.into_iter().filter(|&fib| fib != Fib::SetSep || value_bits <= 8) {
        bench.check()?;
        let busy = bench.busy("timing batches");
        let table = fib.build(&set, pin::cores())?;
        let times = measure(bench, fib, &*table, &set)?;
        drop(busy);
        for (rate, &(rate_pps, _)) in RATES_PPS.iter().enumerate() {
            let mut seed = 0;
            let arrivals = gaps.times(packets, rate_pps);
            let outcome = queue::simulate(&arrivals, BURST, |batch| times.draw(batch, &mut seed));
            let load = times.load(rate_pps);
            let is_saturated = load >= 1.0 || outcome.is_saturated();
            let mut sorted = outcome.delays;
            sorted.sort_by(f64::total_cmp);
            let delays = Delays { names, fib, rate, load, sorted: (!is_saturated).then_some(sorted) };
            add_rows(bench, value_bits, gaps, &delays);
            all.push(delays);
        }
    }
    Ok(all)
}

/// Adds the rows of a queue that is not saturated.
fn add_rows(bench: &mut BenchRun<'_>, value_bits: u8, gaps: &ArrivalGaps, delays: &Delays) {
    let Some(sorted) = &delays.sorted else { return };
    let case = bench
        .case(delays.fib.name(), delays.names)
        .format(delays.fib.format())
        .variant(format!("delays simulated: {}, {}", gaps.name, RATES_PPS[delays.rate].1))
        .value_bits(value_bits)
        .threads(1)
        .batch(BURST);
    bench.add_exact(case.clone(), Metric::LatencyMean, mean(sorted));
    bench.add_exact(case.clone(), Metric::LatencyP50, percentile(sorted, 0.5));
    bench.add_exact(case, Metric::LatencyP99, percentile(sorted, 0.99));
}

fn mean(times: &[f64]) -> f64 {
    times.iter().fold(0.0, |sum, time| sum + time) / times.len().max(1) as f64
}

/// A statistic of sorted delays.
type Statistic = fn(&[f64]) -> f64;

/// The table of all delays.
fn delay_table<'a>(gaps: &ArrivalGaps, all: impl IntoIterator<Item = &'a Delays>) -> Sheet<&'a Delays> {
    let sheet = Sheet::new("concise-figure-6", all)
        .column("names", |of| short_count(of.names))
        .column("structure", |of| of.fib.name())
        .column("arrivals", |_| gaps.name.clone())
        .column("rate", |of| RATES_PPS[of.rate].1)
        .column("paper", |of| if of.fib == Fib::OTHELLO { paper::DELAY } else { paper::NOT_GIVEN })
        .column("load", |of| percent(of.load));
    let figures: [(&str, Statistic); 6] = [
        ("mean, ns", mean),
        ("median, ns", |sorted| percentile(sorted, 0.5)),
        ("60 %, ns", |sorted| percentile(sorted, 0.6)),
        ("90 %, ns", |sorted| percentile(sorted, 0.9)),
        ("99 %, ns", |sorted| percentile(sorted, 0.99)),
        ("99.9 %, ns", |sorted| percentile(sorted, 0.999)),
    ];
    figures.into_iter().fold(sheet, |sheet, (head, figure)| {
        sheet.column(head, |of| {
            of.sorted.as_ref().map_or_else(|| SATURATED.to_owned(), |of| format!("{:.0}", figure(of)))
        })
    })
}

/// The share of packets up to which `one` is no later than `other`; `None` if it is later from the start.
fn crossing(one: &[f64], other: &[f64]) -> Option<f64> {
    let shares = (1..=1000).map(|permille| f64::from(permille) / 1000.0);
    shares.take_while(|&share| percentile(one, share) <= percentile(other, share)).last()
}

/// The share of packets delayed by at most `ns`.
fn within(sorted: &[f64], ns: f64) -> f64 {
    sorted.partition_point(|&delay| delay <= ns) as f64 / sorted.len().max(1) as f64
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn of(delays: &[Delays], fib: Fib, rate: usize) -> Option<&Vec<f64>> {
    delays.iter().find(|one| one.fib == fib && one.rate == rate)?.sorted.as_ref()
}

/// States what the figure shows.
fn conclusion(names: u64, gaps: &ArrivalGaps, delays: &[Delays]) -> String {
    let beside = |rate: usize| {
        let Some(own) = of(delays, Fib::OTHELLO, rate) else { return "is saturated".to_owned() };
        let than = match of(delays, Fib::Cuckoo, rate).map(|other| crossing(own, other)) {
            None => "cuckoo is saturated".to_owned(),
            Some(None) => "already the first packets are later than with cuckoo".to_owned(),
            Some(Some(share)) => {
                format!("no later than with cuckoo up to {} of the packets", percent(share))
            }
        };
        format!("forwards {} of the packets within 1 µs ({than})", percent(within(own, 1000.0)))
    };
    format!(
        "With {} names and {}, Othello {} at {}, and {} at {}; the paper says below 1 µs, and below cuckoo up to the 90th \
         and the 60th percentile.",
        short_count(names),
        gaps.name,
        beside(0),
        RATES_PPS[0].1,
        beside(1),
        RATES_PPS[1].1,
    )
}

/// Draws both rates of all structures that keep up.
fn chart(names: u64, gaps: &ArrivalGaps, delays: &[Delays]) -> Chart {
    let title = format!("Delays of packets, {} names, {}", short_count(names), gaps.name);
    let axes = (("ns", Scale::Decades), ("share of packets", Scale::Linear));
    let mut chart = Chart::new("concise-figure-6", &title, axes.0, axes.1);
    for one in delays {
        let Some(sorted) = &one.sorted else { continue };
        let colour = STRUCTURES.iter().position(|&fib| fib == one.fib).unwrap_or(0);
        let mark = if one.rate == 0 { Mark::Line } else { Mark::Dashes };
        let name = format!("{}, {}", one.fib.name(), RATES_PPS[one.rate].1);
        chart.series.push(Series::new(name, mark, colour, distribution(sorted)));
    }
    chart
}

impl Times {
    /// The load of a core at this packet rate if it always takes full batches.
    fn load(&self, rate_pps: f64) -> f64 {
        self.0.last().map_or(0.0, |(size, times)| mean(times) / *size as f64 * rate_pps / 1e9)
    }

    /// A measured time of the least sufficient batch size.
    fn draw(&self, batch: usize, seed: &mut u64) -> f64 {
        *seed += 1;
        let of = self.0.iter().find(|(size, _)| *size >= batch).or(self.0.last());
        of.map_or(0.0, |(_, times)| times[mix(*seed) as usize % times.len().max(1)])
    }
}

/// Hashes and looks up batches of every size for random names. Checks every answer afterwards.
fn measure(
    bench: &BenchRun<'_>,
    fib: Fib,
    table: &dyn NameFib,
    names: &Population,
) -> Result<Times, BenchError> {
    let addresses: Vec<[u8; 6]> = macs(1).take(names.len()).collect();
    let mut all = Vec::new();
    for size in BATCHES {
        let count = (SAMPLES + SPARES) * size;
        let places: Vec<usize> =
            (0..count).map(|n| mix(((n + size) as u64) << 8) as usize % names.len()).collect();
        let asked: Vec<[u8; 6]> = places.iter().map(|&place| addresses[place]).collect();
        let right: Vec<u16> = places.iter().map(|&place| names.actions[place]).collect();
        let hashes: Vec<KeyHash> = places.iter().map(|&place| names.hashes[place]).collect();
        let times = retry_rejected(bench, || {
            let mut answers = vec![fibs::UNKNOWN; asked.len()];
            let (times, _) = timing::pinned(|| time(&mut table.reader(), &asked, &mut answers, size))?;
            fibs::check(fib.name(), table, &hashes, (&right, &answers))?;
            undisturbed(bench, fib.name(), times)
        })?;
        all.push((size, times));
    }
    Ok(Times(all))
}

/// Selects the required number of times. A time that does not exceed the time to read the clock was
/// disturbed; it is rejected and counted, and a spare one replaces it.
///
/// # Errors
/// [`BenchError::Rejected`] if too few remain.
fn undisturbed(bench: &BenchRun<'_>, what: &str, mut times: Vec<f64>) -> Result<Vec<f64>, BenchError> {
    let all = times.len();
    times.retain(|&time| time > 0.0);
    let rejected = all - times.len();
    (0..rejected).for_each(|_| bench.reject());
    if times.len() < SAMPLES {
        let why = format!("{rejected} of {all} batches took no longer than reading the clock");
        return Err(BenchError::rejected(what, why));
    }
    times.truncate(SAMPLES);
    Ok(times)
}

/// Nanoseconds per batch minus the time to read the clock; zero or negative if disturbed.
fn time(reader: &mut FibReader<'_>, names: &[[u8; 6]], answers: &mut [u16], size: usize) -> Vec<f64> {
    let (clock, hasher) = (Clock::Wall, NameHasher::new(SEED));
    let since = |start| clock.now().saturating_sub(start).as_nanos() as f64;
    let mut idle: Vec<f64> = (0..1001).map(|_| since(clock.now())).collect();
    idle.sort_by(f64::total_cmp);
    let overhead = percentile(&idle, 0.5);
    let mut hashes = [KeyHash::new(0); BURST];
    let batches = names.chunks_exact(size).zip(answers.chunks_exact_mut(size));
    batches
        .map(|(names, answers)| {
            let start = clock.now();
            let hashes = &mut hashes[..size];
            hashes.iter_mut().zip(names).for_each(|(hash, name)| *hash = hasher.hash(name));
            reader(hashes, answers);
            since(start) - overhead
        })
        .collect()
}

/// The distribution of sorted figures, with no more points than a picture needs.
fn distribution(sorted: &[f64]) -> Vec<Point> {
    let shares = (1..=100).map(|percent| f64::from(percent) / 100.0);
    shares.map(|share| Point::exact(percentile(sorted, share), share)).collect()
}

#[cfg(test)]
mod tests;
