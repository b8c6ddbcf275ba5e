//! Figure 12: unknown names taken for known ones, measured and by theory, for checksums of r bits in the
//! slots and for Bloom filters.

use super::fibs::{BATCH, Fib, UNKNOWN};
use super::{goals, megabytes, met, millions, paper};
use crate::baselines::bloom::{self, ClassicFilter};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::names::population::{Kind, Population};
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric, Row, SelectRows};
use crate::sheet::Sheet;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, Mark, Point, Scale, Series};
use scalebricks_tables::filter::{BloomFilter, FilterParams};
use scalebricks_tables::othello::Sizing;
use scalebricks_types::KeyHash;

/// Checksum bits. A slot has at most 24 bits, so all of these fit with 16 actions, and 16 bits fit with 256.
const CHECKS: [u8; 9] = [1, 2, 4, 6, 8, 10, 12, 14, 17];
/// Bits per slot.
const SLOT_BITS: u8 = 24;
/// Target rates of the filters.
const RATES: [f64; 5] = [0.1, 0.01, 1e-3, 1e-4, 1e-5];
/// Bytes per name, with unknown names and all tables.
const NAME_BYTES: u64 = 500;
/// Unknown names per known name.
const ALIENS: usize = 16;
/// Maximum deviation of a measurement in standard deviations.
const SIGMAS: f64 = 6.0;

/// Counts unknown names that pass, and draws the figure.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let value_bits = bench.options.first_value_bits(4);
    let names = bench.options.first_keys(100_000, 1_000_000);
    let mut found = Vec::new();
    if bench.fits(names, NAME_BYTES)? {
        let busy = bench.busy("making names");
        let set = Population::of(Kind::Mac, names, value_bits);
        let aliens = Kind::Mac.hashes(set.len(), ALIENS * set.len());
        drop(busy);
        let filters: Vec<NameFilter> =
            checksums(bench, &set)?.into_iter().chain(bloom_filters(bench, &set)?).collect();
        found = ask(bench, &set, &aliens, filters)?;
        found.iter().try_for_each(|found| add(bench, found))?;
    }
    let (rate, megabytes_stated) = paper::ALIENS;
    let sheet = Sheet::new("concise-figure-12", &found)
        .column("names", |of| short_count(of.row.case.keys))
        .column("unknown names asked", |of| short_count(of.aliens as u64))
        .column("how", |of| of.filter.how.clone())
        .column("paper", |of| match of.filter.structure {
            _ if of.filter.theory <= rate => format!("{rate:e} for less than {megabytes_stated} MB (C16)"),
            "othello" => paper::PLOTTED.to_owned(),
            _ => paper::NOT_GIVEN.to_owned(),
        })
        .column("theory", |of| format!("{:.3e}", of.filter.theory))
        .column("measured", |of| format!("{:.3e}", of.share()))
        .column("off by, standard deviations", |of| format!("{:.1}", of.off()))
        .column("bits a name for it", |of| format!("{:.2}", of.bits_per_name()))
        .column("MB for it", |of| megabytes(of.filter.bytes))
        .column("unknown names, M/s", |of| millions(&of.row));
    bench.add_table(sheet);
    draw(bench, names, &found);
    conclude(bench);
    Ok(())
}

/// Looks up names in batches; returns how many are taken for known ones.
type CountKnown = Box<dyn Fn(&[KeyHash]) -> usize + Send + Sync>;

/// A filter of unknown names.
struct NameFilter {
    structure: &'static str,
    how: String,
    /// Series in the chart.
    kind: &'static str,
    known: CountKnown,
    /// Bytes spent on detecting unknown names.
    bytes: u64,
    theory: f64,
    /// Relative uncertainty of the theory: the set bits of a filter vary between sets of names.
    spread: f64,
}

/// The result for one filter.
struct Filtered {
    filter: NameFilter,
    /// Unknown names that passed.
    passed: usize,
    /// Unknown names looked up.
    aliens: usize,
    /// Unknown names per second.
    row: Row,
}

impl Filtered {
    /// Deviation of the count, in standard deviations of the binomial and of the theory.
    fn off(&self) -> f64 {
        let want = self.filter.theory * self.aliens as f64;
        let variance = want * (1.0 - self.filter.theory) + (self.filter.spread * want).powi(2);
        (self.passed as f64 - want) / variance.max(1.0).sqrt()
    }

    fn bits_per_name(&self) -> f64 {
        self.filter.bytes as f64 * 8.0 / self.row.case.keys.max(1) as f64
    }

    fn share(&self) -> f64 {
        self.passed as f64 / self.aliens.max(1) as f64
    }
}

fn checksums(bench: &BenchRun<'_>, set: &Population) -> Result<Vec<NameFilter>, BenchError> {
    let plain = Fib::OTHELLO.build(set, pin::cores())?.table_bytes();
    let mut made = Vec::new();
    for bits in CHECKS.map(|bits| bits.min(SLOT_BITS - set.value_bits)) {
        bench.check()?;
        let _busy = bench.busy("building");
        let table = Fib::Othello(Sizing::Sharded, bits).build(set, pin::cores())?;
        let mut answers = vec![UNKNOWN; set.len()];
        table.reader()(&set.hashes, &mut answers);
        ensure(answers == set.actions, "othello", || "a known name was refused, or has another action")?;
        made.push(NameFilter {
            structure: "othello",
            how: format!("{bits}-bit checksums"),
            kind: "checksums in the slots",
            bytes: table.table_bytes().saturating_sub(plain),
            known: Box::new(move |names| {
                let (mut reader, mut answers) = (table.reader(), [0; BATCH]);
                let known = names.chunks(BATCH).map(|names| {
                    let answers = &mut answers[..names.len()];
                    reader(names, answers);
                    answers.iter().filter(|&&answer| answer != UNKNOWN).count()
                });
                known.sum()
            }),
            theory: (-f64::from(bits)).exp2(),
            spread: 0.0,
        });
    }
    made.dedup_by(|a, b| a.how == b.how);
    Ok(made)
}

fn bloom_filters(bench: &BenchRun<'_>, set: &Population) -> Result<Vec<NameFilter>, BenchError> {
    let names = set.len() as u64;
    let mut made = Vec::new();
    for kind in ["classic Bloom filter", "Bloom filter of a line"] {
        for rate in RATES {
            bench.check()?;
            let _busy = bench.busy("building");
            let (params, known, theory): (_, CountKnown, _) = if kind == "classic Bloom filter" {
                let params = bloom::params_for(names, rate).of("bloom")?.with_seed(1);
                let mut filter = ClassicFilter::new(params);
                set.hashes.iter().for_each(|&name| filter.insert(name));
                let known = count_known(move |names, answers| filter.contains_batch(names, answers));
                (params, known, bloom::rate_of(&params, names))
            } else {
                let params = FilterParams::for_names(names, rate).of("bloom")?.with_seed(1);
                let filter = BloomFilter::new(params);
                set.hashes.iter().for_each(|&name| filter.insert(name));
                let known = count_known(move |names, answers| filter.contains_batch(names, answers));
                (params, known, params.false_positive_rate(names))
            };
            ensure(known(&set.hashes) == set.len(), "bloom", || "a known name was refused")?;
            made.push(NameFilter {
                structure: "bloom",
                how: format!("{kind} for {rate}"),
                kind,
                known,
                bytes: params.bits() / 8,
                theory,
                // The number of set bits varies by about 1/sqrt(bits), and the rate is its k-th power.
                spread: 2.0 * f64::from(params.hashes()) / (params.bits() as f64).sqrt(),
            });
        }
    }
    Ok(made)
}

/// Counts the names that pass a filter queried in batches.
fn count_known(contains: impl Fn(&[KeyHash], &mut [bool]) + Send + Sync + 'static) -> CountKnown {
    Box::new(move |names| {
        let mut answers = [false; BATCH];
        let known = names.chunks(BATCH).map(|names| {
            let answers = &mut answers[..names.len()];
            contains(names, answers);
            answers.iter().filter(|&&is_in| is_in).count()
        });
        known.sum()
    })
}

/// Interleaves all filters on one core.
fn ask(
    bench: &mut BenchRun<'_>,
    set: &Population,
    aliens: &[KeyHash],
    filters: Vec<NameFilter>,
) -> Result<Vec<Filtered>, BenchError> {
    let mut passed = vec![0; filters.len()];
    let first = bench.rows().len();
    let turns = filters.iter().enumerate().map(|(place, filter)| {
        let case = bench
            .case(filter.structure, set.len() as u64)
            .format((filter.structure == "othello").then_some(Sizing::Sharded.name()))
            .variant(filter.how.clone())
            .value_bits(set.value_bits)
            .threads(1)
            .batch(BATCH);
        Measurement::new(case, Metric::LookupRate, move |passed: &mut Vec<usize>| {
            let (known, seconds) = timing::pinned(|| (filter.known)(aliens))?;
            passed[place] = known;
            Ok(timing::rate(filter.structure, aliens.len(), seconds)?.into())
        })
    });
    let turns = turns.collect();
    interleave(bench, &mut passed, turns)?;
    let found = filters.into_iter().zip(passed).zip(&bench.rows()[first..]);
    let found = found.map(|((filter, passed), row)| Filtered {
        filter,
        passed,
        aliens: aliens.len(),
        row: row.clone(),
    });
    Ok(found.collect())
}

/// Checks a result and adds its rows.
fn add(bench: &mut BenchRun<'_>, found: &Filtered) -> Result<(), BenchError> {
    let NameFilter { how, theory, structure, .. } = &found.filter;
    ensure(found.off().abs() <= SIGMAS, how, || {
        format!("{} of {} unknown names let through, {theory:.2e} expected", found.passed, found.aliens)
    })?;
    let case: &Case = &found.row.case;
    bench.add_exact(case.clone(), Metric::AlienShare, found.share());
    bench.add_exact(case.clone(), Metric::BitsPerKey, found.bits_per_name());
    if *theory <= paper::ALIENS.0 && *structure == "othello" {
        let case = case.clone().variant(goals::CHECKS_FOR_RATE.to_owned());
        bench.add_exact(case, Metric::BitsPerKey, found.bits_per_name());
    }
    Ok(())
}

/// Draws shares and rates by the memory spent.
fn draw(bench: &mut BenchRun<'_>, names: u64, found: &[Filtered]) {
    let chart = |name, title: &str, y| Chart::new(name, title, ("bits a name", Scale::Linear), y);
    let title = format!("Unknown names taken for known ones, {} names", short_count(names));
    let mut shares = chart("concise-figure-12", &title, ("share of unknown names", Scale::Decades));
    let title = "Unknown names asked for, one core";
    let mut rates = chart("concise-figure-12-rate", title, ("million names a second", Scale::Linear));
    for (colour, of) in found.chunk_by(|a, b| a.filter.kind == b.filter.kind).enumerate() {
        let kind = of[0].filter.kind;
        let theory = of.iter().map(|found| Point::exact(found.bits_per_name(), found.filter.theory));
        // A logarithmic axis has no place for zero.
        let seen = of.iter().filter(|found| found.passed > 0);
        let seen = seen.map(|found| Point::exact(found.bits_per_name(), found.share()));
        let rate = of.iter().map(|found| found.row.point(found.bits_per_name(), 1e6));
        shares.series.push(Series::new(format!("{kind}, theory"), Mark::Line, colour, theory.collect()));
        shares.series.push(Series::new(kind, Mark::Dots, colour, seen.collect()));
        rates.series.push(Series::new(kind, Mark::Dotted, colour, rate.collect()));
    }
    bench.add_chart(shares);
    bench.add_chart(rates);
}

/// States memory and rate of checksums that let at most one in 100,000 unknown names pass.
fn conclude(bench: &mut BenchRun<'_>) {
    let rows = bench.rows();
    let Some(bits) = rows.iter().variant(goals::CHECKS_FOR_RATE).next() else { return };
    let shares = rows.iter().metric(Metric::AlienShare).structure("othello");
    let Some(share) = shares.min_by(|a, b| a.median.total_cmp(&b.median)) else { return };
    let rate = share.beside(rows, Metric::LookupRate).map_or(0.0, |row| row.median / 1e6);
    let megabytes = bits.median * bits.case.keys as f64 / 8e6;
    let (aim, stated) = paper::ALIENS;
    let sentence = format!(
        "{} let through {:.1e} of the unknown names for {megabytes:.2} MB, at {rate:.0} M names a second on one core; the paper's {aim:e} for \
         less than {stated} MB is {}, and below the least that any filter needs, {:.2} MB for a million names (C16).",
        share.case.variant_text(),
        share.median,
        met(megabytes < stated && share.median <= aim),
        -aim.log2() / 8.0,
    );
    bench.add_conclusion("concise-figure-12-conclusion", sentence);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use scalebricks_report::stats::Summary;

    #[test]
    fn what_is_let_through_is_what_theory_says() {
        let options = Options { keys: Some(vec![20_000]), quick: true, ..Options::default() };
        let mut bench = BenchRun::for_test("concise", options);
        run(&mut bench).unwrap();
        let share = |how: &str| {
            let mut of = bench.rows().iter().filter(|row| row.metric == Metric::AlienShare);
            of.find(|row| row.case.is_variant(how)).unwrap().median
        };
        // Independent of the table's formulas: 320,000 names, one in 2^r, within five standard deviations.
        for (how, want) in
            [("1-bit checksums", 0.5_f64), ("4-bit checksums", 1.0 / 16.0), ("8-bit checksums", 1.0 / 256.0)]
        {
            let deviation = (want * (1.0 - want) / 320_000.0).sqrt();
            assert!((share(how) - want).abs() < 5.0 * deviation, "{how}: {}", share(how));
        }
        assert!((0.008..0.012).contains(&share("classic Bloom filter for 0.01")));
        assert!((0.008..0.012).contains(&share("Bloom filter of a line for 0.01")));
    }

    #[test]
    fn a_count_far_off_is_an_error() {
        let options = Options { quick: true, ..Options::default() };
        let mut bench = BenchRun::for_test("concise", options);
        let case = bench.case("othello", 10).variant("4-bit checksums".to_owned());
        let mut found = Filtered {
            filter: NameFilter {
                structure: "othello",
                how: "4-bit checksums".to_owned(),
                kind: "",
                known: Box::new(<[KeyHash]>::len),
                bytes: 12,
                theory: 1.0 / 16.0,
                spread: 0.0,
            },
            passed: 62_600,
            aliens: 1_000_000,
            row: Row::new(case, Metric::LookupRate, Summary::exact(1e6)),
        };
        add(&mut bench, &found).unwrap();
        found.passed = 65_000;
        assert!(add(&mut bench, &found).is_err());
    }
}
