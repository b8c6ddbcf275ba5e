//! Figure 12: how many unknown names are taken for known ones, measured and by theory: checksums of r bits in the slots, and
//! Bloom filters.

use super::fibs::{Fib, NameFib, UNKNOWN};
use super::paper;
use crate::error::BenchError;
use crate::figures::exhibit::{Chart, Mark, Point, Scale, Series, Sheet};
use crate::names::population::{Kind, Population};
use crate::pin;
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;
use scalebricks_console::quantity::short_count;
use scalebricks_tables::filter::{BloomFilter, FilterParams, Layout};
use scalebricks_tables::othello::Sizing;
use scalebricks_types::KeyHash;

/// Bits of checksums.
const CHECKS: [u8; 8] = [1, 2, 3, 4, 6, 8, 10, 12];
/// Rates that filters are made for.
const RATES: [f64; 5] = [0.3, 0.1, 0.01, 1e-3, 1e-4];
/// Bytes a name, unknown ones included.
const NAME_BYTES: u64 = 200;
/// Unknown names for each known one.
const ALIENS: usize = 4;
/// Standard deviations that a measurement may be off.
const SIGMAS: f64 = 6.0;

/// Counts and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.value_bits(&[2], &[2]).first().copied().unwrap_or(2);
    let names = options.keys(&[100_000], &[1_000_000]).first().copied().unwrap_or(1);
    let heads = [
        "names",
        "unknown names asked",
        "how",
        "bits a name for it",
        "paper",
        "theory",
        "measured",
        "off by, standard deviations",
    ];
    let mut sheet = Sheet::new("concise-figure-12", &heads);
    let title = format!("Unknown names taken for known ones, {} names", short_count(names));
    let across = ("bits a name", Scale::Linear);
    let mut chart =
        Chart::new("concise-figure-12", &title, across, ("share of unknown names", Scale::Decades));
    if session.fits(names, NAME_BYTES)? {
        let busy = session.busy("making names");
        let set = Population::of(Kind::Mac, names, value_bits);
        let aliens = Kind::Mac.hashes(set.len(), ALIENS * set.len());
        drop(busy);
        let found = [checksums(session, &set, &aliens)?, filters(session, &set, &aliens)?].concat();
        for at in &found {
            add(session, &mut sheet, &set, at)?;
        }
        draw(&mut chart, &found);
    }
    session.tabulate(sheet);
    session.show(chart);
    Ok(())
}

/// One measurement.
#[derive(Debug, Clone)]
struct Found {
    structure: &'static str,
    how: String,
    /// What is drawn as one line.
    kind: &'static str,
    bits_per_name: f64,
    theory: f64,
    /// Of theory itself, what it may be off: a filter's own bits vary from one set of names to another.
    spread: f64,
    let_through: usize,
    /// Of so many.
    aliens: usize,
}

impl Found {
    /// How far the count is off, in standard deviations of a binomial and of what theory averages over.
    fn off(&self) -> f64 {
        let want = self.theory * self.aliens as f64;
        let variance = want * (1.0 - self.theory) + (self.spread * want).powi(2);
        (self.let_through as f64 - want) / variance.max(1.0).sqrt()
    }

    fn share(&self) -> f64 {
        self.let_through as f64 / self.aliens.max(1) as f64
    }
}

fn checksums(session: &Session<'_>, set: &Population, aliens: &[KeyHash]) -> Result<Vec<Found>, BenchError> {
    let plain = Fib::OTHELLO.build(set, pin::cores())?.table_bytes();
    let mut found = Vec::new();
    for bits in CHECKS {
        session.check()?;
        let busy = session.busy("asking for unknown names");
        let table = Fib::Othello(Sizing::Sharded, bits).build(set, pin::cores())?;
        known(&*table, set)?;
        let mut answers = vec![0; aliens.len()];
        table.asker().ask(aliens, &mut answers);
        drop(busy);
        found.push(Found {
            structure: "othello",
            how: format!("{bits}-bit checksums"),
            kind: "checksums in the slots",
            bits_per_name: (table.table_bytes().saturating_sub(plain)) as f64 * 8.0 / set.len().max(1) as f64,
            theory: (-f64::from(bits)).exp2(),
            spread: 0.0,
            let_through: answers.iter().filter(|&&answer| answer != UNKNOWN).count(),
            aliens: aliens.len(),
        });
    }
    Ok(found)
}

/// No known name may be refused.
fn known(table: &dyn NameFib, set: &Population) -> Result<(), BenchError> {
    let mut answers = vec![UNKNOWN; set.len()];
    table.asker().ask(&set.hashes, &mut answers);
    if answers == set.actions {
        return Ok(());
    }
    Err(BenchError::check("othello", "a known name was refused, or has another action"))
}

fn filters(session: &Session<'_>, set: &Population, aliens: &[KeyHash]) -> Result<Vec<Found>, BenchError> {
    let mut found = Vec::new();
    for (layout, kind) in
        [(Layout::Classic, "classic Bloom filter"), (Layout::Blocked, "Bloom filter of a line")]
    {
        for rate in RATES {
            session.check()?;
            let busy = session.busy("asking for unknown names");
            let params = FilterParams::for_names(set.len() as u64, rate, layout);
            let params = params.map_err(|error| BenchError::of("bloom", error))?.with_seed(1);
            let filter = BloomFilter::new(params);
            set.hashes.iter().for_each(|&name| filter.insert(name));
            if !set.hashes.iter().all(|&name| filter.contains(name)) {
                return Err(BenchError::check("bloom", "a known name was refused"));
            }
            let mut answers = vec![false; aliens.len()];
            filter.contains_batch(aliens, &mut answers);
            drop(busy);
            found.push(Found {
                structure: "bloom",
                how: format!("{kind} for {rate}"),
                kind,
                bits_per_name: params.bits() as f64 / set.len().max(1) as f64,
                theory: params.false_positive_rate(set.len() as u64),
                // The bits that are set vary by about 1/sqrt(bits), and the rate by its k-th power.
                spread: 2.0 * f64::from(params.hashes()) / (params.bits() as f64).sqrt(),
                let_through: answers.iter().filter(|&&is_in| is_in).count(),
                aliens: aliens.len(),
            });
        }
    }
    Ok(found)
}

fn add(
    session: &mut Session<'_>,
    sheet: &mut Sheet,
    set: &Population,
    found: &Found,
) -> Result<(), BenchError> {
    let (off, measured, aliens) = (found.off(), found.share(), found.aliens);
    if off.abs() > SIGMAS {
        let problem = format!(
            "{} of {aliens} unknown names let through, {:.2e} expected",
            found.let_through, found.theory
        );
        return Err(BenchError::check(&found.how, problem));
    }
    let subject = Subject {
        variant: Some(found.how.clone()),
        value_bits: Some(set.value_bits),
        ..session.subject(found.structure, set.len() as u64)
    };
    session.add(subject, Metric::AlienShare, Summary::exact(measured));
    sheet.rows.push(vec![
        short_count(set.len() as u64),
        short_count(aliens as u64),
        found.how.clone(),
        format!("{:.2}", found.bits_per_name),
        paper::NOT_GIVEN.to_owned(),
        format!("{:.3e}", found.theory),
        format!("{measured:.3e}"),
        format!("{off:.1}"),
    ]);
    Ok(())
}

fn draw(chart: &mut Chart, found: &[Found]) {
    for (colour, of) in found.chunk_by(|a, b| a.kind == b.kind).enumerate() {
        let Some(first) = of.first() else { continue };
        let theory = of.iter().map(|found| Point::exact(found.bits_per_name, found.theory)).collect();
        // Nothing is at no place of a logarithmic axis.
        let seen = of.iter().filter(|found| found.let_through > 0);
        let seen = seen.map(|found| Point::exact(found.bits_per_name, found.share())).collect();
        chart.series.push(Series::new(format!("{}, theory", first.kind), Mark::Line, colour, theory));
        chart.series.push(Series::new(first.kind, Mark::Dots, colour, seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn what_is_let_through_is_what_theory_says() {
        let options = Options { keys: Some(vec![20_000]), quick: true, ..Options::default() };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new("concise", &options, &console, &interrupt);
        run(&mut session).unwrap();
        let share = |how: &str| {
            let of = session.rows().iter().find(|row| row.subject.variant.as_deref() == Some(how));
            of.unwrap().median
        };
        // Not by the formulas of the table: 80,000 names, one in 2^r, within five deviations.
        for (how, want) in
            [("1-bit checksums", 0.5_f64), ("4-bit checksums", 1.0 / 16.0), ("8-bit checksums", 1.0 / 256.0)]
        {
            let deviation = (want * (1.0 - want) / 80_000.0).sqrt();
            assert!((share(how) - want).abs() < 5.0 * deviation, "{how}: {}", share(how));
        }
        assert!((0.008..0.012).contains(&share("classic Bloom filter for 0.01")));
        assert!((0.008..0.012).contains(&share("Bloom filter of a line for 0.01")));
    }

    #[test]
    fn a_count_far_off_is_an_error() {
        let options = Options { quick: true, ..Options::default() };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new("concise", &options, &console, &interrupt);
        let set = Population::of(Kind::Mac, 10, 2);
        let mut found = Found {
            structure: "othello",
            how: "4-bit checksums".to_owned(),
            kind: "",
            bits_per_name: 9.3,
            theory: 1.0 / 16.0,
            spread: 0.0,
            let_through: 62_600,
            aliens: 1_000_000,
        };
        let mut sheet = Sheet::new("s", &[]);
        add(&mut session, &mut sheet, &set, &found).unwrap();
        found.let_through = 65_000;
        assert!(add(&mut session, &mut sheet, &set, &found).is_err());
    }
}
