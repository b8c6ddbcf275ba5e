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

use admin::commands;
use clap::Parser;
use cli::{Cli, Command, NodeCommand};
use scalebricks::admin;
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
        Command::Capture(args) => args.quiet,
        Command::Status(_) | Command::Stats(_) | Command::Trace(_) => false,
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
        Command::Status(args) => {
            commands::status(&args, &console).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Stats(args) => {
            commands::stats(&args, &console, &interrupt).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Trace(args) => commands::trace(&args, &console).map_err(|e| (e.to_string(), e.exit_code())),
        Command::Capture(args) => {
            commands::capture(&args, &console, &interrupt).map_err(|e| (e.to_string(), e.exit_code()))
        }
    };
    let code = done.unwrap_or_else(|(problem, code)| {
        console.error(&problem);
        code
    });
    ExitCode::from(code)
}
