//! The ScaleBricks command line.

#![forbid(unsafe_code)]

mod cli;
mod manual;
mod version;

use cli::{Cli, Command, EngineCommand, LogFormat, NodeCommand};
use scalebricks_admin::{commands, dashboard};
use scalebricks_allocator::HugePages;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_daemon::switch::args::SwitchCommand;
use scalebricks_daemon::{engine, flows, graph, node, router, switch};
use scalebricks_lab::{demo, testbed};
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Asks for huge pages once a benchmark wants them, so that no table is measured on larger pages than another.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Logs to standard error from now on: what `SCALEBRICKS_LOG` says, such as `warn` or `info,scalebricks_cluster=debug`;
/// by default, what an operator wants to know.
fn log(format: LogFormat) {
    let wanted = std::env::var("SCALEBRICKS_LOG").ok().map(|text| text.parse::<Targets>());
    let info = || Targets::new().with_default(LevelFilter::INFO);
    let filter = wanted.as_ref().and_then(|wanted| wanted.as_ref().ok().cloned()).unwrap_or_else(info);
    let lines = fmt::layer().with_writer(std::io::stderr);
    // https://no-color.org
    let is_coloured =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    let log = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => log.with(lines.with_ansi(is_coloured)).init(),
        LogFormat::Json => log.with(lines.json()).init(),
    }
    if let Some(Err(error)) = wanted {
        tracing::warn!(%error, "SCALEBRICKS_LOG is not understood");
    }
}

fn main() -> ExitCode {
    let command = Cli::read().command;
    let console = Console::new(command.is_quiet());
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
        Command::Node(node) => match node.command() {
            NodeCommand::Check(args) => node::check(&args.node.config, !args.elsewhere, &console),
            NodeCommand::Macs(args) => node::macs(&args.config, &console),
            NodeCommand::Run(args) => {
                log(args.output.log);
                node::run(&args.config, &console)
            }
        }
        .map_err(|error| (error.to_string(), status::FAILURE)),
        Command::Engine(call) => match call.command {
            EngineCommand::Check { directory } => engine::check(&directory, &console),
        }
        .map_err(|error| (error.to_string(), status::FAILURE)),
        Command::Switch(call) => match call.command() {
            SwitchCommand::Check(args) => switch::check(&args, &console),
            SwitchCommand::Run(args) => {
                log(LogFormat::Text);
                switch::run(&args.config)
            }
            SwitchCommand::Replay(args) => switch::replay::run(&args, &console, &interrupt),
            SwitchCommand::Status(args) => {
                switch::admin::status(&args, &console, &interrupt).map_err(Into::into)
            }
            SwitchCommand::Names(command) => switch::admin::names(&command, &console).map_err(Into::into),
        }
        .map_err(|error| (error.to_string(), error.exit_code())),
        Command::Graph(command) => graph::graph(&command, &console, &interrupt)
            .map_err(|error| (error.to_string(), error.exit_code())),
        Command::Router(command) => {
            if command.is_daemon() {
                log(LogFormat::Text);
            }
            router::router(command, &console, &interrupt)
                .map_err(|error| (error.to_string(), error.exit_code()))
        }
        Command::Flows(args) => {
            flows::run(&args, &console, &interrupt).map_err(|error| (error.to_string(), error.exit_code()))
        }
        Command::Elements(args) => {
            graph::elements(&args, &console).map_err(|error| (error.to_string(), error.exit_code()))
        }
        Command::Plan(command) => scalebricks_plan::args::run(&command, &console)
            .map(|()| 0)
            .map_err(|error| (error.to_string(), error.exit_code())),
        Command::Lab(command) => testbed::run(&command, &console, &interrupt)
            .map_err(|error| (error.to_string(), error.exit_code())),
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
        Command::Flow(command) => {
            commands::flow(&command, &console, &interrupt).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Cluster(command) => {
            commands::cluster(&command, &console, &interrupt).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Dashboard(args) => {
            dashboard::run(&args, &console, &interrupt).map_err(|e| (e.to_string(), e.exit_code()))
        }
        Command::Completions(args) => manual::completions(&args, &console)
            .map(|()| 0)
            .map_err(|error| (error.to_string(), status::FAILURE)),
        Command::Man(args) => {
            manual::man(&args, &console).map(|()| 0).map_err(|error| (error.to_string(), status::FAILURE))
        }
    };
    let code = done.unwrap_or_else(|(problem, code)| {
        console.error(&problem);
        code
    });
    ExitCode::from(code)
}
