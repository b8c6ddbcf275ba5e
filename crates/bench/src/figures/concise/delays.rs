//! Figure 6: delays of packets that are looked up by their destination, by event simulation: arrivals as in a capture, times of
//! batches as measured.

use super::arrivals::Gaps;
use super::fibs::{self, Asker, Fib, NameFib};
use super::{paper, queue};
use crate::error::BenchError;
use crate::figures::exhibit::{Chart, Mark, Point, Scale, Series, Sheet};
use crate::keys::mix;
use crate::names::population::{Kind, Population, SEED};
use crate::names::{NameHasher, macs};
use crate::pin;
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::{Summary, percentile};
use crate::timing::{self, Clock};
use scalebricks_console::quantity::short_count;
use scalebricks_types::KeyHash;

/// Most packets taken at once, as ports give them out.
const BURST: usize = 32;
/// Sizes of batches that are timed; others count as the next larger one.
const BATCHES: [usize; 6] = [1, 2, 4, 8, 16, BURST];
/// Times taken of each size.
const SAMPLES: usize = 8192;
/// How much faster than the capture.
const SPEEDS: [f64; 3] = [1.0, 10.0, 100.0];
/// Bytes a name, all structures in turn.
const NAME_BYTES: u64 = 130;
const STRUCTURES: [Fib; 5] = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo, Fib::Buffalo, Fib::Sorted];

/// Times of batches in nanoseconds, by size.
struct Times(Vec<(usize, Vec<f64>)>);

/// Measures, simulates, draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let gaps = options.capture.as_deref().map_or_else(|| Ok(Gaps::sample()), Gaps::of_capture)?;
    let packets = options.pick(100_000, 2_000_000);
    let heads = [
        "names",
        "structure",
        "arrivals",
        "mean gap, ns",
        "paper",
        "busy",
        "mean, ns",
        "median, ns",
        "99 %, ns",
        "99.9 %, ns",
    ];
    let mut sheet = Sheet::new("concise-figure-6", &heads);
    let sizes = options.keys(&[262_144], &[1_000_000, 4_000_000]);
    let last = sizes.last().copied();
    for names in sizes {
        if !session.fits(names, NAME_BYTES)? {
            continue;
        }
        let value_bits = options.value_bits(&[2], &[2]).first().copied().unwrap_or(2);
        let title = format!("Delays of packets, {} names, {}", short_count(names), gaps.name);
        let mut chart = Chart::new(
            "concise-figure-6",
            &title,
            ("ns", Scale::Decades),
            ("share of packets", Scale::Linear),
        );
        let busy = session.busy("making names");
        let set = Population::of(Kind::Mac, names, value_bits);
        drop(busy);
        for (colour, fib) in STRUCTURES.into_iter().enumerate() {
            if fib == Fib::SetSep && value_bits > 8 {
                continue;
            }
            session.check()?;
            let busy = session.busy("timing batches");
            let table = fib.build(&set, pin::cores())?;
            let times = measure(fib, &*table, &set)?;
            drop(busy);
            for speed in SPEEDS {
                let is_fastest = Some(&speed) == SPEEDS.last();
                let arrivals = gaps.times(packets, speed);
                let mut seed = 0;
                let outcome = queue::simulate(&arrivals, BURST, |batch| times.draw(batch, &mut seed));
                let mut delays = outcome.delays;
                delays.sort_by(f64::total_cmp);
                let arrivals = format!("{}, {speed}x", gaps.name);
                let mark = if is_fastest { Mark::Dashes } else { Mark::Line };
                let name = format!("{}, {speed}x", fib.name());
                // At its own speed a capture's packets hardly ever wait: two lines a structure are enough.
                if speed > 1.0 {
                    chart.series.push(Series::new(name, mark, colour, distribution(&delays)));
                }
                add(
                    session,
                    &mut sheet,
                    fib,
                    (names, value_bits),
                    (&arrivals, gaps.mean_ns() / speed),
                    (&delays, outcome.busy),
                );
            }
        }
        if Some(names) == last {
            session.show(chart);
        }
    }
    session.tabulate(sheet);
    Ok(())
}

impl Times {
    /// One of those measured for the least size that is large enough.
    fn draw(&self, batch: usize, seed: &mut u64) -> f64 {
        *seed += 1;
        let of = self.0.iter().find(|(size, _)| *size >= batch).or(self.0.last());
        of.map_or(0.0, |(_, times)| times[mix(*seed) as usize % times.len().max(1)])
    }
}

/// Hashes and asks for batches of every size, at random names; every answer is compared afterwards.
fn measure(fib: Fib, table: &dyn NameFib, names: &Population) -> Result<Times, BenchError> {
    let addresses: Vec<[u8; 6]> = macs(1).take(names.len()).collect();
    let mut all = Vec::new();
    let mut places = vec![0; SAMPLES * BURST];
    for size in BATCHES {
        places
            .iter_mut()
            .zip(size as u64..)
            .for_each(|(place, n)| *place = mix(n << 8) as usize % names.len());
        let asked: Vec<[u8; 6]> = places.iter().map(|&place| addresses[place]).collect();
        let mut answers = vec![fibs::UNKNOWN; asked.len()];
        let (times, _) = timing::pinned(|| time(&mut *table.asker(), &asked, &mut answers, size))?;
        let right: Vec<u16> = places.iter().map(|&place| names.actions[place]).collect();
        let hashes: Vec<KeyHash> = places.iter().map(|&place| names.hashes[place]).collect();
        fibs::check(fib.name(), table, &hashes, (&right, &answers))?;
        all.push((size, times));
    }
    Ok(Times(all))
}

/// Nanoseconds a batch: each time is of a burst of packets in batches of this size, without what reading the clock takes.
fn time(asker: &mut dyn Asker, names: &[[u8; 6]], answers: &mut [u16], size: usize) -> Vec<f64> {
    let (clock, hasher) = (Clock::Wall, NameHasher::new(SEED));
    let since = |start| clock.now().saturating_sub(start).as_nanos() as f64;
    let overhead = (0..1000).map(|_| since(clock.now())).fold(f64::INFINITY, f64::min);
    let mut hashes = [KeyHash::new(0); BURST];
    let mut times = Vec::with_capacity(names.len() / BURST);
    for (names, answers) in names.chunks_exact(BURST).zip(answers.chunks_exact_mut(BURST)) {
        let start = clock.now();
        for (names, answers) in names.chunks(size).zip(answers.chunks_mut(size)) {
            let hashes = &mut hashes[..names.len()];
            hashes.iter_mut().zip(names).for_each(|(hash, name)| *hash = hasher.hash(name));
            asker.ask(hashes, answers);
        }
        let batches = (BURST / size) as f64;
        times.push((since(start) - overhead).max(0.0) / batches);
    }
    times
}

/// The distribution of sorted figures, at so many points that a picture does not need more.
fn distribution(sorted: &[f64]) -> Vec<Point> {
    (1..=100)
        .map(|percent| {
            Point::exact(percentile(sorted, f64::from(percent) / 100.0).max(1.0), f64::from(percent) / 100.0)
        })
        .collect()
}

fn add(
    session: &mut Session<'_>,
    sheet: &mut Sheet,
    fib: Fib,
    (names, value_bits): (u64, u8),
    (arrivals, gap): (&str, f64),
    (delays, busy): (&[f64], f64),
) {
    let mean = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
    let subject = Subject {
        format: fib.format(),
        variant: Some(format!("delays simulated: {arrivals}")),
        value_bits: Some(value_bits),
        threads: Some(1),
        batch: Some(BURST),
        ..session.subject(fib.name(), names)
    };
    let of = |share| percentile(delays, share);
    for (metric, figure) in
        [(Metric::LatencyMean, mean), (Metric::LatencyP50, of(0.5)), (Metric::LatencyP99, of(0.99))]
    {
        session.add(subject.clone(), metric, Summary::exact(figure));
    }
    let mut cells = vec![
        short_count(names),
        fib.name().to_owned(),
        arrivals.to_owned(),
        format!("{gap:.1}"),
        paper::NOT_GIVEN.to_owned(),
        if busy > 0.999 { "all the time".to_owned() } else { format!("{:.1} %", 100.0 * busy) },
    ];
    cells.extend([mean, of(0.5), of(0.99), of(0.999)].map(|figure| format!("{figure:.0}")));
    sheet.rows.push(cells);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_rise() {
        let figures: Vec<f64> = (1..=200).map(f64::from).collect();
        assert!(
            distribution(&figures).windows(2).all(|pair| pair[0].x <= pair[1].x && pair[0].y < pair[1].y)
        );
    }

    #[test]
    fn times_are_those_of_the_next_larger_batch() {
        let times = Times(vec![(1, vec![10.0]), (8, vec![50.0, 60.0]), (32, vec![99.0])]);
        let mut seed = 0;
        assert!((times.draw(1, &mut seed) - 10.0).abs() < 1e-9);
        assert!((0..20).all(|_| [50.0, 60.0].contains(&times.draw(3, &mut seed))));
        assert!((times.draw(31, &mut seed) - 99.0).abs() < 1e-9);
    }

    #[test]
    fn every_batch_is_timed_and_right() {
        let names = Population::of(Kind::Mac, 500, 2);
        for fib in STRUCTURES {
            let times = measure(fib, &*fib.build(&names, 1).unwrap(), &names).unwrap();
            assert!(times.0.iter().all(|(_, times)| times.len() == SAMPLES), "{}", fib.name());
        }
    }
}
