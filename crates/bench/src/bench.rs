//! One benchmark, and how those that were asked for are run.

use crate::args::BenchArgs;
use crate::error::BenchError;
use crate::figures::exhibit::Exhibits;
use crate::figures::{chart, page};
use crate::huge::HugePages;
use crate::pair::Pair;
use crate::row::Report;
use crate::session::Session;
use crate::{svg, table};
use scalebricks_console::{Console, Interrupt, OutputError, output};
use std::path::Path;

/// A benchmark.
pub trait Bench {
    /// Its name in the command line and in results.
    fn name(&self) -> &'static str;

    /// Measures, leaving rows in the session.
    ///
    /// # Errors
    /// [`BenchError`]; a wrong answer is one.
    fn run(&self, session: &mut Session<'_>) -> Result<(), BenchError>;

    /// Whether it leaves charts of its own in the session, in place of bars for its rows.
    fn draws_itself(&self) -> bool {
        false
    }
}

/// Runs those of `benches` that the arguments name, in the order given, and tells what they found.
///
/// # Errors
/// [`BenchError`] of the first that fails. Its results and those of later ones are lost; of earlier ones, only the
/// tables on standard output remain.
pub fn run(
    args: &BenchArgs,
    benches: &[&dyn Bench],
    console: &Console,
    interrupt: &Interrupt,
) -> Result<(), BenchError> {
    args.validate()?;
    if let Some(path) = &args.page {
        read(path)?; // rather now than after half an hour
    }
    HugePages::turn_on();
    args.clock().choose();
    Pair::settle()?;
    let options = args.options();
    let mut rejected = 0;
    let (mut rows, mut exhibits, mut bars) = (Vec::new(), Exhibits::default(), Vec::new());
    for bench in benches.iter().filter(|bench| args.wants(bench.name())) {
        console.note(&format!("{}: measuring", bench.name()));
        let mut session = Session::new(bench.name(), &options, console, interrupt);
        bench.run(&mut session)?;
        rejected += session.rejected();
        let (found, shown) = session.finish();
        console.result(&table::render(bench.name(), &found))?;
        rows.extend(found);
        exhibits.extend(shown);
        if !bench.draws_itself() {
            bars.push(bench.name());
        }
    }
    let report = Report::here(rows);
    keep(args, &report, &exhibits, &bars, console)?;
    if let Some(path) = &args.page {
        exhibits.sheets.push(report.sheet(options.runs(), options.quick));
        let failed = |problem: String| BenchError::Page { path: path.clone(), problem };
        let filled = page::fill(&read(path)?, &exhibits);
        let filled = filled.map_err(|name| failed(format!("it has no place for {name}")))?;
        console.keep(path, &filled)?;
    }
    console.result(&format!("{}\n{}, commit {}", report.cpu, report.machine, report.commit))?;
    if let Some(pair) = &report.pair {
        console.result(&pair.to_string())?;
    }
    if rejected > 0 {
        console.result(&format!("{rejected} runs rejected and made again"))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, BenchError> {
    let failed =
        |error: std::io::Error| BenchError::Page { path: path.to_owned(), problem: error.to_string() };
    std::fs::read_to_string(path).map_err(failed)
}

/// Writes the files that were asked for: the rows, their bars, and what the benchmarks drew themselves.
fn keep(
    args: &BenchArgs,
    report: &Report,
    exhibits: &Exhibits,
    bars: &[&str],
    console: &Console,
) -> Result<(), OutputError> {
    if let Some(path) = &args.json {
        console.keep(path, &output::json(report)?)?;
    }
    if let Some(directory) = &args.svg {
        let pictures = svg::render(report, bars)?.into_iter();
        let pictures = pictures.chain(chart::render(report, &exhibits.charts)?);
        for (name, document) in pictures.chain(exhibits.csv()) {
            console.keep(&directory.join(name), &document)?;
        }
    }
    Ok(())
}
