//! Runs the selected benchmarks.

use crate::args::BenchArgs;
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::figures::chart;
use crate::pair::CorePair;
use crate::report::Report;
use crate::{svg, table};
use scalebricks_allocator::HugePages;
use scalebricks_console::machine::Processor;
use scalebricks_console::{Console, Interrupt, OutputError, output};
use scalebricks_report::exhibit::Exhibits;
use scalebricks_report::pages::{self, PagesError};
use scalebricks_report::provenance;

/// A benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Bench {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// Measures and adds its rows to the bench. A wrong answer is an error.
    pub run: fn(&mut BenchRun<'_>) -> Result<(), BenchError>,
    /// Whether it adds its own charts to the bench; if not, its rows are drawn as bars.
    pub draws_itself: bool,
}

/// Runs the benchmarks that the arguments select, in the order of `benches`, and prints and stores their
/// results.
///
/// # Errors
/// The [`BenchError`] of the first benchmark that fails. Results of earlier benchmarks are then on standard
/// output only.
pub fn run(
    args: &BenchArgs,
    benches: &[Bench],
    console: &Console,
    interrupt: &Interrupt,
) -> Result<(), BenchError> {
    args.validate()?;
    let options = &args.options;
    if let Some(kind) = &args.page {
        // Fail before measuring for half an hour.
        provenance::ensure_reproducible(options.runs(), options.quick)?;
        if !args.replace {
            ensure_as_wide(kind)?;
        }
    }
    if !HugePages::turn_on() {
        console.note(
            "cannot turn on huge pages for all memory: structures that do not request them are handicapped",
        );
    }
    args.clock().choose();
    CorePair::settle()?;
    let mut rejected = 0;
    // With --json, standard output is for the whole result alone.
    let say = |text: &str| {
        if args.result.is_json() {
            console.note(text);
            return Ok(());
        }
        console.result(text)
    };
    let (mut rows, mut exhibits, mut bars) = (Vec::new(), Exhibits::default(), Vec::new());
    for bench in benches.iter().filter(|bench| args.wants(bench.name)) {
        console.note(&format!("{}: measuring", bench.name));
        let options = options.of(bench.name);
        let mut run = BenchRun::new(bench.name, &options, console, interrupt);
        (bench.run)(&mut run)?;
        rejected += run.rejected();
        let (found, shown) = run.finish();
        say(&table::render(bench.name, &found))?;
        rows.extend(found);
        exhibits.extend(shown);
        if !bench.draws_itself {
            bars.push(bench.name);
        }
    }
    let report = Report::here(rows, exhibits, options);
    keep(args, &report, &bars, console)?;
    say(&format!("{}\n{}, commit {}", report.cpu, report.machine, report.commit))?;
    if let Some(pair) = &report.pair {
        say(&pair.to_string())?;
    }
    if rejected > 0 {
        say(&format!("{rejected} runs rejected and repeated"))?;
    }
    if args.result.is_json() { Ok(console.result(output::json(&report)?.trim_end())?) } else { Ok(()) }
}

/// Refuses to replace a page's data by those of another command, which may measure less.
fn ensure_as_wide(kind: &str) -> Result<(), PagesError> {
    let file = pages::data_file(kind, &Processor::here());
    let Ok(json) = std::fs::read_to_string(&file) else { return Ok(()) };
    let Ok(known) = serde_json::from_str::<Report>(&json) else { return Ok(()) };
    let asked = provenance::command_line(std::env::args());
    other_command(&known.command, &asked)
        .map_or(Ok(()), |problem| Err(PagesError::Refused(format!("{}: {problem}", file.display()))))
}

/// Why `asked` cannot replace `known`: it measures something else. The number of runs may differ.
fn other_command(known: &str, asked: &str) -> Option<String> {
    let measured = |line: &str| {
        // Older data name the command that ran the benchmarks until they became a program.
        let line = line.replace("scalebricks bench ", "scalebricks-bench ");
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        while let Some(place) = words.iter().position(|word| word == "--runs") {
            words.drain(place..words.len().min(place + 2));
        }
        words.retain(|word| !word.starts_with("--runs="));
        words
    };
    (measured(known) != measured(asked)).then(|| {
        format!("measured by `{known}`, not by `{asked}`: repeat that command, or replace its results with --replace")
    })
}

/// Writes the requested files: the report, bars for its rows, and the charts that benchmarks added.
fn keep(args: &BenchArgs, report: &Report, bars: &[&str], console: &Console) -> Result<(), OutputError> {
    let data = args.page.as_ref().map(|kind| pages::data_file(kind, &report.processor()));
    args.result.write(report, None, console)?;
    if let Some(path) = &data {
        console.keep(path, &output::json(report)?)?;
    }
    if let Some(directory) = &args.svg {
        let pictures = svg::render(report, bars)?.into_iter();
        let pictures = pictures.chain(chart::render(report, &report.exhibits.charts)?);
        for (name, document) in pictures.chain(report.exhibits.csv()) {
            console.keep(&directory.join(name), &document)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_not_put_in_the_place_of_more() {
        let known = "scalebricks bench choice --page choosing";
        for same in [
            known,
            "scalebricks-bench choice --page choosing --runs 7",
            "scalebricks-bench choice --runs=3 --page choosing",
        ] {
            assert_eq!(other_command(known, same), None);
        }
        for other in
            ["scalebricks-bench choice --keys 1k --page choosing", "scalebricks-bench fib --page choosing"]
        {
            assert!(
                other_command(known, other).is_some_and(|problem| problem.contains("--replace")),
                "{other}"
            );
        }
    }
}
