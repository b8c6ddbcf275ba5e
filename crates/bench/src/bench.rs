//! One benchmark, and how those that were asked for are run.

use crate::args::BenchArgs;
use crate::error::BenchError;
use crate::huge::HugePages;
use crate::row::Report;
use crate::session::Session;
use crate::{svg, table};
use scalebricks_console::{Console, Interrupt, atomic_file};
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
    HugePages::turn_on();
    args.clock().choose();
    let options = args.options();
    let mut rows = Vec::new();
    for bench in benches.iter().filter(|bench| args.wants(bench.name())) {
        console.note(&format!("{}: measuring", bench.name()));
        let mut session = Session::new(bench.name(), &options, console, interrupt);
        bench.run(&mut session)?;
        let found = session.into_rows();
        console.result(&table::render(bench.name(), &found))?;
        rows.extend(found);
    }
    let report = Report::here(rows);
    if let Some(path) = &args.json {
        keep(path, report.json()?.as_bytes(), console)?;
    }
    if let Some(directory) = &args.svg {
        for (name, document) in svg::render(&report)? {
            keep(&directory.join(name), document.as_bytes(), console)?;
        }
    }
    console.result(&format!("{}\n{}, commit {}", report.cpu, report.machine, report.commit))?;
    Ok(())
}

fn keep(path: &Path, content: &[u8], console: &Console) -> Result<(), BenchError> {
    atomic_file::write(path, content)?;
    console.note(&format!("wrote {}", path.display()));
    Ok(())
}
