//! `scalebricks bench`: the benchmarks of the tables, and those that need a whole cluster.

mod control;
mod gateway;

use crate::pages;
use scalebricks_bench::args::{BenchCall, BenchCommand};
use scalebricks_bench::{Bench, BenchError, benches};
use scalebricks_console::{Console, Interrupt, status};

/// Runs the benchmarks that were asked for, or writes pages; the exit status.
///
/// # Errors
/// [`BenchError`] of the first that fails.
pub fn run(call: &BenchCall, console: &Console, interrupt: &Interrupt) -> Result<u8, BenchError> {
    match call.command {
        Some(BenchCommand::Pages { check: true }) => pages::check(console)?,
        Some(BenchCommand::Pages { check: false }) => pages::write(console)?,
        None => {
            scalebricks_bench::run(&call.args, &all(), console, interrupt)?;
            if call.args.page.is_some() {
                pages::write(console)?;
            }
        }
    }
    Ok(status::SUCCESS)
}

/// All benchmarks, in the order in which they run.
fn all() -> Vec<Bench> {
    let of_clusters = [
        Bench { name: "gateway", run: gateway::run, draws_itself: true },
        Bench { name: "control", run: control::run, draws_itself: false },
    ];
    benches::ALL.into_iter().chain(of_clusters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_bench::args::{ABOUT, NAMES};

    #[test]
    fn the_names_of_the_command_line_are_those_of_the_benchmarks() {
        let mut names: Vec<&str> = all().iter().map(|bench| bench.name).collect();
        names.push(scalebricks_bench::args::ALL);
        assert_eq!(names, NAMES);
        assert!(NAMES.iter().all(|name| ABOUT.contains(&format!("\n  {name} "))), "the help names all");
    }
}
