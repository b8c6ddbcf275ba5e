//! The ScaleBricks command line.

#![forbid(unsafe_code)]

mod atomic_file;
mod capacity;
mod cli;
mod demo;
mod interrupt;
mod ledger;
mod memory;
mod output;
mod quantity;
mod replay;
mod report;

use clap::Parser;
use cli::{Cli, Command};
use interrupt::Interrupt;
use output::Console;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Cli { command: Command::Demo(args) } = Cli::parse();
    let console = Console::new(args.quiet);
    let interrupt = match Interrupt::listen() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            console.error(&format!("cannot listen for Ctrl-C: {error}"));
            return ExitCode::from(demo::EXIT_FAILURE);
        }
    };
    match demo::run(&args, &console, &interrupt) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            console.error(&error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}
