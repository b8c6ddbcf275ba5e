//! Figure 12: unknown names taken for known ones, measured and by theory, for checksums of r bits in the
//! slots and for Bloom filters.

use super::fibs::{BATCH, Fib, NameFib, UNKNOWN};
use super::{conclusions, goals, megabytes, millions, paper};
use crate::baselines::bloom::{self, ClassicFilter};
use crate::error::BenchError;
use crate::names::population::{Kind, Population};
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric};
use crate::session::Session;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};
use scalebricks_report::stats::Summary;
use scalebricks_tables::filter::{BloomFilter, FilterParams, FilterParamsError};
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
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.first_value_bits(4);
    let names = options.first_keys(100_000, 1_000_000);
    let heads = [
        "names",
        "unknown names asked",
        "how",
        "paper",
        "theory",
        "measured",
        "off by, standard deviations",
        "bits a name for it",
        "MB for it",
        "unknown names, M/s",
    ];
    let mut sheet = PageTable::new("concise-figure-12", &heads);
    let chart = |name, title: &str, up| Chart::new(name, title, ("bits a name", Scale::Linear), up);
    let share = ("share of unknown names", Scale::Decades);
    let title = format!("Unknown names taken for known ones, {} names", short_count(names));
    let mut shares = chart("concise-figure-12", &title, share);
    let rate = ("million names a second", Scale::Linear);
    let mut rates = chart("concise-figure-12-rate", "Unknown names asked for, one core", rate);
    if session.fits(names, NAME_BYTES)? {
        let busy = session.busy("making names");
        let set = Population::of(Kind::Mac, names, value_bits);
        let aliens = Kind::Mac.hashes(set.len(), ALIENS * set.len());
        drop(busy);
        let candidates = [checksums(session, &set)?, filters(session, &set)?].concat();
        let found = ask(session, &set, &aliens, &candidates)?;
        for at in &found {
            add(session, &mut sheet, &set, at)?;
        }
        draw(&mut shares, &mut rates, &found);
        conclusions::unknown_names(session);
    }
    session.add_table(sheet);
    session.add_chart(shares);
    session.add_chart(rates);
    Ok(())
}

/// What detects unknown names.
#[derive(Clone)]
enum NameFilter {
    Table(std::sync::Arc<dyn NameFib>),
    Blocked(std::sync::Arc<BloomFilter>),
    Classic(std::sync::Arc<ClassicFilter>),
}

impl NameFilter {
    /// Looks up names in batches; returns how many are taken for known ones.
    fn known(&self, names: &[KeyHash]) -> usize {
        match self {
            Self::Table(table) => {
                let (mut reader, mut answers) = (table.reader(), [0; BATCH]);
                let of = |names: &[KeyHash]| {
                    let answers = &mut answers[..names.len()];
                    reader.lookup(names, answers);
                    answers.iter().filter(|&&answer| answer != UNKNOWN).count()
                };
                names.chunks(BATCH).map(of).sum()
            }
            Self::Blocked(filter) => passed(names, |names, answers| filter.contains_batch(names, answers)),
            Self::Classic(filter) => passed(names, |names, answers| filter.contains_batch(names, answers)),
        }
    }
}

/// How many names pass a filter that is asked in batches.
fn passed(names: &[KeyHash], contains: impl Fn(&[KeyHash], &mut [bool])) -> usize {
    let mut answers = [false; BATCH];
    let of = |names: &[KeyHash]| {
        let answers = &mut answers[..names.len()];
        contains(names, answers);
        answers.iter().filter(|&&is_in| is_in).count()
    };
    names.chunks(BATCH).map(of).sum()
}

/// A filter to be measured.
#[derive(Clone)]
struct FilterUnderTest {
    structure: &'static str,
    how: String,
    /// Series in the chart.
    kind: &'static str,
    filter: NameFilter,
    /// Bytes spent on detecting unknown names.
    bytes: u64,
    theory: f64,
    /// Relative uncertainty of the theory: the set bits of a filter vary between sets of names.
    spread: f64,
}

/// The result for one filter.
#[derive(Debug, Clone)]
struct Filtered {
    structure: &'static str,
    how: String,
    kind: &'static str,
    bytes: u64,
    names: usize,
    theory: f64,
    spread: f64,
    let_through: usize,
    /// Unknown names looked up.
    aliens: usize,
    /// Unknown names per second.
    rate: Summary,
}

impl Filtered {
    /// Deviation of the count, in standard deviations of the binomial and of the theory.
    fn off(&self) -> f64 {
        let want = self.theory * self.aliens as f64;
        let variance = want * (1.0 - self.theory) + (self.spread * want).powi(2);
        (self.let_through as f64 - want) / variance.max(1.0).sqrt()
    }

    fn bits_per_name(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.names.max(1) as f64
    }

    fn share(&self) -> f64 {
        self.let_through as f64 / self.aliens.max(1) as f64
    }
}

fn checksums(session: &Session<'_>, set: &Population) -> Result<Vec<FilterUnderTest>, BenchError> {
    let plain = Fib::OTHELLO.build(set, pin::cores())?.table_bytes();
    let mut made = Vec::new();
    for bits in CHECKS.map(|bits| bits.min(SLOT_BITS - set.value_bits)) {
        session.check()?;
        let busy = session.busy("building");
        let table = Fib::Othello(Sizing::Sharded, bits).build(set, pin::cores())?;
        known(&*table, set)?;
        drop(busy);
        made.push(FilterUnderTest {
            structure: "othello",
            how: format!("{bits}-bit checksums"),
            kind: "checksums in the slots",
            bytes: table.table_bytes().saturating_sub(plain),
            filter: NameFilter::Table(table.into()),
            theory: (-f64::from(bits)).exp2(),
            spread: 0.0,
        });
    }
    made.dedup_by(|a, b| a.how == b.how);
    Ok(made)
}

/// Checks that no known name is rejected.
fn known(table: &dyn NameFib, set: &Population) -> Result<(), BenchError> {
    let mut answers = vec![UNKNOWN; set.len()];
    table.reader().lookup(&set.hashes, &mut answers);
    if answers == set.actions {
        return Ok(());
    }
    Err(BenchError::check("othello", "a known name was refused, or has another action"))
}

fn filters(session: &Session<'_>, set: &Population) -> Result<Vec<FilterUnderTest>, BenchError> {
    let names = set.len() as u64;
    let mut made = Vec::new();
    for kind in ["classic Bloom filter", "Bloom filter of a line"] {
        for rate in RATES {
            session.check()?;
            let busy = session.busy("building");
            let refused = |error: FilterParamsError| BenchError::of("bloom", error);
            let (params, filter, theory) = if kind == "classic Bloom filter" {
                let params = bloom::params_for(names, rate).map_err(refused)?.with_seed(1);
                let mut filter = ClassicFilter::new(params);
                set.hashes.iter().for_each(|&name| filter.insert(name));
                (params, NameFilter::Classic(filter.into()), bloom::rate_of(&params, names))
            } else {
                let params = FilterParams::for_names(names, rate).map_err(refused)?.with_seed(1);
                let filter = BloomFilter::new(params);
                set.hashes.iter().for_each(|&name| filter.insert(name));
                (params, NameFilter::Blocked(filter.into()), params.false_positive_rate(names))
            };
            if filter.known(&set.hashes) != set.len() {
                return Err(BenchError::check("bloom", "a known name was refused"));
            }
            drop(busy);
            made.push(FilterUnderTest {
                structure: "bloom",
                how: format!("{kind} for {rate}"),
                kind,
                filter,
                bytes: params.bits() / 8,
                theory,
                // The number of set bits varies by about 1/sqrt(bits), and the rate is its k-th power.
                spread: 2.0 * f64::from(params.hashes()) / (params.bits() as f64).sqrt(),
            });
        }
    }
    Ok(made)
}

/// Interleaves all filters on one core.
fn ask(
    session: &mut Session<'_>,
    set: &Population,
    aliens: &[KeyHash],
    candidates: &[FilterUnderTest],
) -> Result<Vec<Filtered>, BenchError> {
    let mut through = vec![0; candidates.len()];
    let first = session.rows().len();
    let mut turns = Vec::new();
    for (place, candidate) in candidates.iter().enumerate() {
        let case = case(session, set, candidate.structure, &candidate.how);
        turns.push(Measurement::new(case, Metric::LookupRate, move |through: &mut Vec<usize>| {
            let (found, seconds) = timing::pinned(|| candidate.filter.known(aliens))?;
            through[place] = found;
            Ok(timing::rate(candidate.structure, aliens.len(), seconds)?.into())
        }));
    }
    interleave(session, &mut through, turns)?;
    let rates = session.rows()[first..].iter();
    let found = candidates.iter().zip(through).zip(rates).map(|((candidate, let_through), row)| {
        let FilterUnderTest { structure, how, kind, bytes, theory, spread, .. } = candidate.clone();
        let (names, aliens, rate) = (set.len(), aliens.len(), row.summary());
        Filtered { structure, how, kind, bytes, names, theory, spread, let_through, aliens, rate }
    });
    Ok(found.collect())
}

fn case(session: &Session<'_>, set: &Population, structure: &str, how: &str) -> Case {
    session
        .case(structure, set.len() as u64)
        .format((structure == "othello").then_some(Sizing::Sharded.name()))
        .variant(how.to_owned())
        .value_bits(set.value_bits)
        .threads(1)
        .batch(BATCH)
}

fn add(
    session: &mut Session<'_>,
    sheet: &mut PageTable,
    set: &Population,
    found: &Filtered,
) -> Result<(), BenchError> {
    let (off, measured, aliens) = (found.off(), found.share(), found.aliens);
    if off.abs() > SIGMAS {
        let problem = format!(
            "{} of {aliens} unknown names let through, {:.2e} expected",
            found.let_through, found.theory
        );
        return Err(BenchError::check(&found.how, problem));
    }
    let of = case(session, set, found.structure, &found.how);
    session.add(of.clone(), Metric::AlienShare, Summary::exact(measured));
    session.add(of.clone(), Metric::BitsPerKey, Summary::exact(found.bits_per_name()));
    let (rate, megabytes_said) = paper::ALIENS;
    let is_enough = found.theory <= rate;
    if is_enough && found.structure == "othello" {
        let variant = Some(goals::CHECKS_FOR_RATE.to_owned());
        session.add(of.variant(variant), Metric::BitsPerKey, Summary::exact(found.bits_per_name()));
    }
    let said = match (found.structure, is_enough) {
        (_, true) => format!("{rate:e} for less than {megabytes_said} MB (C16)"),
        ("othello", false) => paper::PLOTTED.to_owned(),
        _ => paper::NOT_GIVEN.to_owned(),
    };
    sheet.rows.push(vec![
        short_count(set.len() as u64),
        short_count(aliens as u64),
        found.how.clone(),
        said,
        format!("{:.3e}", found.theory),
        format!("{measured:.3e}"),
        format!("{off:.1}"),
        format!("{:.2}", found.bits_per_name()),
        megabytes(found.bytes),
        millions(&found.rate),
    ]);
    Ok(())
}

fn draw(shares: &mut Chart, rates: &mut Chart, found: &[Filtered]) {
    for (colour, of) in found.chunk_by(|a, b| a.kind == b.kind).enumerate() {
        let Some(first) = of.first() else { continue };
        let theory = of.iter().map(|found| Point::exact(found.bits_per_name(), found.theory)).collect();
        // A logarithmic axis has no place for zero.
        let seen = of.iter().filter(|found| found.let_through > 0);
        let seen = seen.map(|found| Point::exact(found.bits_per_name(), found.share())).collect();
        shares.series.push(Series::new(format!("{}, theory", first.kind), Mark::Line, colour, theory));
        shares.series.push(Series::new(first.kind, Mark::Dots, colour, seen));
        let asked = of.iter().map(|found| Point::measured(found.bits_per_name(), found.rate, 1e6));
        rates.series.push(Series::new(first.kind, Mark::Dotted, colour, asked.collect()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn what_is_let_through_is_what_theory_says() {
        let options = Options { keys: Some(vec![20_000]), quick: true, ..Options::default() };
        let mut session = Session::for_test("concise", options);
        run(&mut session).unwrap();
        let share = |how: &str| {
            let mut of = session.rows().iter().filter(|row| row.metric == Metric::AlienShare);
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
        let mut session = Session::for_test("concise", options);
        let set = Population::of(Kind::Mac, 10, 2);
        let mut found = Filtered {
            structure: "othello",
            how: "4-bit checksums".to_owned(),
            kind: "",
            bytes: 12,
            names: 10,
            theory: 1.0 / 16.0,
            spread: 0.0,
            let_through: 62_600,
            aliens: 1_000_000,
            rate: Summary::exact(1e6),
        };
        let mut sheet = PageTable::new("s", &[]);
        add(&mut session, &mut sheet, &set, &found).unwrap();
        found.let_through = 65_000;
        assert!(add(&mut session, &mut sheet, &set, &found).is_err());
    }
}
