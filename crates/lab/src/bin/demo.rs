//! The demonstration as a program of its own. `make demo` builds it without the crates that only the testbed needs.
//! `scalebricks demo` runs the same code.

#![forbid(unsafe_code)]

use clap::{CommandFactory, FromArgMatches, Parser};
use scalebricks_allocator::HugePages;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_lab::demo::{self, args::DemoArgs};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

#[derive(Debug, Parser)]
#[command(name = "demo", version, about = demo::args::ABOUT, after_help = demo::args::EXAMPLES)]
struct Demo {
    #[command(flatten)]
    args: DemoArgs,
}

fn main() -> ExitCode {
    let mut command = Demo::command();
    let matches = command.get_matches_mut();
    demo::useless::refuse(&matches, &mut command).unwrap_or_else(|error| error.exit());
    let Demo { args } = Demo::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let console = Console::new(args.quiet);
    let done = Interrupt::listen()
        .map_err(|error| (format!("cannot listen for Ctrl-C: {error}"), status::FAILURE))
        .and_then(|interrupt| {
            demo::run(&args, &console, &interrupt).map_err(|error| (error.to_string(), error.exit_code()))
        });
    ExitCode::from(done.unwrap_or_else(|(problem, code)| {
        console.error(&problem);
        code
    }))
}
