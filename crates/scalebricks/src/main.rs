//! The ScaleBricks command line.

#![forbid(unsafe_code)]

mod bench;
mod capacity;
mod cli;
mod demo;
mod ledger;
mod node;
mod replay;
mod report;

use clap::Parser;
use cli::{Cli, Command, NodeCommand};
use scalebricks_bench::huge::HugePages;
use scalebricks_console::{Console, Interrupt, status};
use std::process::ExitCode;

/// Asks for huge pages once a benchmark wants them, so that no table is measured on larger pages than another.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let console = Console::new(match &command {
        Command::Demo(args) => args.quiet,
        Command::Bench(args) => args.quiet,
        Command::Node(NodeCommand::Check(args)) => args.quiet,
    });
    let interrupt = match Interrupt::listen() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            console.error(&format!("cannot listen for Ctrl-C: {error}"));
            return ExitCode::from(status::FAILURE);
        }
    };
    let done = match command {
        Command::Demo(args) => {
            demo::run(&args, &console, &interrupt).map_err(|error| (error.to_string(), error.exit_code()))
        }
        Command::Bench(args) => {
            bench::run(&args, &console, &interrupt).map_err(|error| (error.to_string(), error.exit_code()))
        }
        Command::Node(NodeCommand::Check(args)) => {
            node::check(&args, &console).map_err(|error| (error.to_string(), status::FAILURE))
        }
    };
    let code = done.unwrap_or_else(|(problem, code)| {
        console.error(&problem);
        code
    });
    ExitCode::from(code)
}
