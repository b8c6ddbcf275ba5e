//! Figure 6: packet delays with lookups by destination, by event simulation with arrivals of a capture and
//! measured batch times.
//!
//! The paper simulates one thread with two cache levels. Here each batch time is one that the real table took
//! on one core for random names: the time to hash and look up, minus the time to read the clock.

use super::arrivals::ArrivalGaps;
use super::fibs::{self, Fib, FibReader, NameFib};
use super::{paper, queue};
use crate::error::BenchError;
use crate::keys::mix;
use crate::names::population::{Kind, Population, SEED};
use crate::names::{NameHasher, macs};
use crate::pin;
use crate::rounds::retry_rejected;
use crate::row::Metric;
use crate::session::Session;
use crate::timing::{self, Clock};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};
use scalebricks_report::stats::{Summary, percentile};
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

/// Batch times in nanoseconds, by batch size.
struct Times(Vec<(usize, Vec<f64>)>);

/// Sorted packet delays for one structure and rate; `None` if the queue only grew.
struct Delays {
    fib: Fib,
    rate: usize,
    sorted: Option<Vec<f64>>,
}

/// Measures, simulates and draws the figure.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let gaps = options.capture.as_deref().map_or_else(|| Ok(ArrivalGaps::made()), ArrivalGaps::of_capture)?;
    let heads = [
        "names",
        "structure",
        "arrivals",
        "rate",
        "paper",
        "load",
        "mean, ns",
        "median, ns",
        "60 %, ns",
        "90 %, ns",
        "99 %, ns",
        "99.9 %, ns",
    ];
    let mut sheet = PageTable::new("concise-figure-6", &heads);
    let heads = ["names", "rate", "beside", "paper", "no later up to", "within 1 µs"];
    let mut crossings = PageTable::new("concise-figure-6-crossings", &heads);
    let value_bits = options.first_value_bits(8);
    let mut last = None;
    for names in options.keys(&[262_144], &[1_000_000, 4_000_000]) {
        if !session.fits(names, NAME_BYTES)? {
            continue;
        }
        let delays = one(session, &mut sheet, (names, value_bits), &gaps)?;
        compare(&mut crossings, names, &delays);
        last = Some((names, delays));
    }
    if let Some((names, delays)) = last {
        session.add_chart(chart(names, &gaps, &delays));
        if let Some(sentence) = conclusion(names, &gaps, &delays) {
            session.add_conclusion("concise-figure-6-conclusion", sentence);
        }
    }
    session.add_table(sheet);
    session.add_table(crossings);
    Ok(())
}

/// Times all structures, and simulates both rates with each.
fn one(
    session: &mut Session<'_>,
    sheet: &mut PageTable,
    (names, value_bits): (u64, u8),
    gaps: &ArrivalGaps,
) -> Result<Vec<Delays>, BenchError> {
    let packets = session.options().pick(100_000, 2_000_000);
    let busy = session.busy("making names");
    let set = Population::of(Kind::Mac, names, value_bits);
    drop(busy);
    let mut all = Vec::new();
    for fib in STRUCTURES.into_iter().filter(|&fib| fib != Fib::SetSep || value_bits <= 8) {
        session.check()?;
        let busy = session.busy("timing batches");
        let table = fib.build(&set, pin::cores())?;
        let times = measure(session, fib, &*table, &set)?;
        drop(busy);
        for (rate, &(rate_pps, _)) in RATES_PPS.iter().enumerate() {
            let mut seed = 0;
            let arrivals = gaps.times(packets, rate_pps);
            let outcome = queue::simulate(&arrivals, BURST, |batch| times.draw(batch, &mut seed));
            let load = times.load(rate_pps);
            let is_saturated = load >= 1.0 || outcome.is_saturated();
            let mut sorted = outcome.delays;
            sorted.sort_by(f64::total_cmp);
            let delays = Delays { fib, rate, sorted: (!is_saturated).then_some(sorted) };
            add(session, sheet, (names, value_bits), (&gaps.name, load), &delays);
            all.push(delays);
        }
    }
    Ok(all)
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

/// Compares Othello with every other structure by percentiles.
fn compare(sheet: &mut PageTable, names: u64, delays: &[Delays]) {
    for (rate, (_, rate_name)) in RATES_PPS.into_iter().enumerate() {
        let own = of(delays, Fib::OTHELLO, rate);
        for other in delays.iter().filter(|other| other.rate == rate && other.fib != Fib::OTHELLO) {
            let up_to = match (own, &other.sorted) {
                (None, _) => "othello is saturated".to_owned(),
                (Some(_), None) => "saturated".to_owned(),
                (Some(own), Some(other)) => crossing(own, other).map_or_else(|| "none".to_owned(), percent),
            };
            let stated =
                if other.fib == Fib::Cuckoo { paper::DELAY_CROSSINGS[rate] } else { paper::NOT_GIVEN };
            sheet.rows.push(vec![
                short_count(names),
                rate_name.to_owned(),
                other.fib.name().to_owned(),
                stated.to_owned(),
                up_to,
                own.map_or_else(|| "saturated".to_owned(), |own| percent(within(own, 1000.0))),
            ]);
        }
    }
}

/// States what the figure shows.
fn conclusion(names: u64, gaps: &ArrivalGaps, delays: &[Delays]) -> Option<String> {
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
    delays.first().map(|_| {
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
    })
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
        let Some((size, times)) = self.0.last() else { return 0.0 };
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        mean / *size as f64 * rate_pps / 1e9
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
    session: &Session<'_>,
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
        let times = retry_rejected(session, || {
            let mut answers = vec![fibs::UNKNOWN; asked.len()];
            let (times, _) = timing::pinned(|| time(&mut *table.reader(), &asked, &mut answers, size))?;
            fibs::check(fib.name(), table, &hashes, (&right, &answers))?;
            undisturbed(session, fib.name(), times)
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
fn undisturbed(session: &Session<'_>, what: &str, times: Vec<f64>) -> Result<Vec<f64>, BenchError> {
    let all = times.len();
    let mut times: Vec<f64> = times.into_iter().filter(|&time| time > 0.0).collect();
    let rejected = all - times.len();
    (0..rejected).for_each(|_| session.reject());
    if times.len() < SAMPLES {
        let why = format!("{rejected} of {all} batches took no longer than reading the clock");
        return Err(BenchError::rejected(what, why));
    }
    times.truncate(SAMPLES);
    Ok(times)
}

/// Nanoseconds per batch minus the time to read the clock; zero or negative if disturbed.
fn time(reader: &mut dyn FibReader, names: &[[u8; 6]], answers: &mut [u16], size: usize) -> Vec<f64> {
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
            reader.lookup(hashes, answers);
            since(start) - overhead
        })
        .collect()
}

/// The distribution of sorted figures, with no more points than a picture needs.
fn distribution(sorted: &[f64]) -> Vec<Point> {
    (1..=100)
        .map(|percent| f64::from(percent) / 100.0)
        .map(|share| Point::exact(percentile(sorted, share), share))
        .collect()
}

fn add(
    session: &mut Session<'_>,
    sheet: &mut PageTable,
    (names, value_bits): (u64, u8),
    (arrivals, load): (&str, f64),
    delays: &Delays,
) {
    let (fib, rate) = (delays.fib, RATES_PPS[delays.rate].1);
    let stated = if fib == Fib::OTHELLO { paper::DELAY } else { paper::NOT_GIVEN };
    let mut cells = vec![
        short_count(names),
        fib.name().to_owned(),
        arrivals.to_owned(),
        rate.to_owned(),
        stated.to_owned(),
        percent(load),
    ];
    let Some(sorted) = &delays.sorted else {
        cells.resize(sheet.heads.len(), "saturated".to_owned());
        sheet.rows.push(cells);
        return;
    };
    let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
    let case = session
        .case(fib.name(), names)
        .format(fib.format())
        .variant(format!("delays simulated: {arrivals}, {rate}"))
        .value_bits(value_bits)
        .threads(1)
        .batch(BURST);
    let of = |share| percentile(sorted, share);
    for (metric, figure) in
        [(Metric::LatencyMean, mean), (Metric::LatencyP50, of(0.5)), (Metric::LatencyP99, of(0.99))]
    {
        session.add(case.clone(), metric, Summary::exact(figure));
    }
    cells.extend([mean, of(0.5), of(0.6), of(0.9), of(0.99), of(0.999)].map(|figure| format!("{figure:.0}")));
    sheet.rows.push(cells);
}

#[cfg(test)]
mod tests;
