//! `scalebricks-bench`: the benchmarks of the tables, those that need a whole cluster, and the pages that show them all.

#![forbid(unsafe_code)]

mod cluster_benches;

use clap::Parser;
use scalebricks_allocator::HugePages;
use scalebricks_bench::args::{self, BenchArgs, BenchCommand};
use scalebricks_bench::bench_run::BenchRun;
use scalebricks_bench::kinds::MEASURED;
use scalebricks_bench::options::Options;
use scalebricks_bench::{Bench, BenchError, benches, router};
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_report::pages::{self, Kind, PagesError};
use std::path::Path;
use std::process::ExitCode;

/// Asks for huge pages once a benchmark wants them, so that no table is measured on larger pages than another.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Measure the tables beside other structures, every answer checked
#[derive(Debug, Parser)]
#[command(name = "scalebricks-bench", version, long_about = args::ABOUT, after_long_help = args::EXAMPLES)]
#[command(after_help = "See --help for examples.", args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true, arg_required_else_help = true)]
struct Cli {
    /// What is done in place of measuring.
    #[command(subcommand)]
    command: Option<BenchCommand>,

    /// What is measured.
    #[command(flatten)]
    args: BenchArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let console = Console::new(cli.args.quiet);
    let interrupt = match Interrupt::listen() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            console.error(&format!("cannot listen for Ctrl-C: {error}"));
            return ExitCode::from(status::FAILURE);
        }
    };
    match run(&cli, &console, &interrupt) {
        Ok(()) => ExitCode::from(status::SUCCESS),
        Err(error) => {
            console.error(&error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs the benchmarks that were asked for, or writes pages.
fn run(cli: &Cli, console: &Console, interrupt: &Interrupt) -> Result<(), BenchError> {
    match cli.command {
        Some(BenchCommand::Pages { check: true }) => Ok(pages::check(Path::new("."), &kinds(), console)?),
        Some(BenchCommand::Pages { check: false }) => Ok(write_pages(console)?),
        #[cfg(feature = "cuda")]
        Some(BenchCommand::GpuBuild(ref args)) => scalebricks_bench::gpu::run(args, console, interrupt),
        Some(BenchCommand::Count { ref work, ref by, packets, ports }) => {
            let options = Options { quick: true, ..Options::default() };
            let bench = BenchRun::new("router", &options, console, interrupt);
            router::count(&bench, [work, by], packets, ports)
        }
        None => {
            scalebricks_bench::run(&cli.args, &all(), console, interrupt)?;
            if cli.args.page.is_some() {
                write_pages(console)?;
            }
            Ok(())
        }
    }
}

fn write_pages(console: &Console) -> Result<(), PagesError> {
    pages::write(Path::new("."), &kinds(), console)
}

/// All kinds of data: those of benchmarks, of the demonstration and of the lab.
fn kinds() -> Vec<Kind> {
    MEASURED.into_iter().chain(scalebricks_lab::pages::MEASURED.iter().copied()).collect()
}

/// All benchmarks, in the order in which they run.
fn all() -> Vec<Bench> {
    let of_clusters = [
        Bench { name: "cluster-scale", run: cluster_benches::control::run_scale, draws_itself: false },
        Bench { name: "gateway", run: cluster_benches::gateway::run, draws_itself: true },
        Bench { name: "control", run: cluster_benches::control::run, draws_itself: false },
    ];
    benches::ALL.into_iter().chain(of_clusters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use scalebricks_bench::args::{ABOUT, ALL, NAMES};

    #[test]
    fn the_names_of_the_command_line_are_those_of_the_benchmarks() {
        let mut names: Vec<&str> = all().iter().map(|bench| bench.name).collect();
        names.push(ALL);
        assert_eq!(names, NAMES);
        assert!(NAMES.iter().all(|name| ABOUT.contains(&format!("\n  {name} "))), "the help names all");
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
