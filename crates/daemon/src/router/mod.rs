//! `scalebricks router`: a server as a router, or a node of a router of several servers ([`node`]).
//!
//! A run of one server is a run of `scalebricks graph` with the configuration of a file, or one that is generated for its ports.

pub mod args;
pub mod node;

use crate::error::ProcessError;
use crate::graph::{self, args::FileArgs, args::RunArgs};
use args::{App, AppArgs, ConfigArgs, RouterCommand, RouterRunArgs};
use scalebricks_apps::router::server::{Form, IpRouter, forward};
use scalebricks_apps::router::tunnel::TunnelEnd;
use scalebricks_console::{Console, Interrupt, status};

/// Runs a `scalebricks router` command.
///
/// # Errors
/// [`ProcessError`].
pub fn router(command: RouterCommand, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
    match command {
        RouterCommand::Run(args) => run(*args, console, interrupt),
        RouterCommand::Config(args) => config(&args, console),
        RouterCommand::Node(args) => node::run(&args.config),
        RouterCommand::Check(args) => node::check(&args.config, args.elsewhere, console),
        RouterCommand::Status(args) => node::admin::status(&args, console, interrupt).map_err(Into::into),
        RouterCommand::Routes(args) => node::admin::routes(&args, console).map_err(Into::into),
        RouterCommand::NextHops(args) => node::admin::next_hops(&args, console).map_err(Into::into),
        RouterCommand::Links(args) => node::admin::links(&args, console).map_err(Into::into),
    }
}

fn config(ConfigArgs { app, of }: &ConfigArgs, console: &Console) -> Result<u8, ProcessError> {
    console.result(configuration(*app, of)?.trim_end())?;
    Ok(status::SUCCESS)
}

fn run(args: RouterRunArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
    let RouterRunArgs { file, app, of, mut variables, options } = args;
    let (file, text) = match (file, app) {
        (Some(file), _) => {
            // The configuration says what the files are for.
            for (name, path) in [("ROUTES", &of.routes), ("ROUTES6", &of.routes6), ("KEYS", &of.keys)] {
                variables.extend(path.as_ref().map(|path| (name.to_owned(), path.clone())));
            }
            (file, None)
        }
        (None, Some(app)) => (app.name().into(), Some(configuration(app, &of)?)),
        (None, None) => return Err(ProcessError::Usage("a file or --app is needed".to_owned())),
    };
    graph::run(&RunArgs { file: FileArgs { file, variables, text }, options }, console, interrupt)
}

/// The configuration of an application.
fn configuration(app: App, args: &AppArgs) -> Result<String, ProcessError> {
    let form = if args.click { Form::Click } else { Form::Fused };
    let text = match app {
        App::Forward => forward(&args.device, form),
        App::Route => {
            let (routes, routes6) = (args.routes.clone(), args.routes6.clone());
            IpRouter { ports: args.interface.clone(), routes, routes6, mtu: args.mtu }.configuration(form)
        }
        App::Ipsec => {
            let [inside, outside] = args.interface.as_slice() else {
                return Err(ProcessError::Usage(
                    "--app ipsec has two interfaces, inside and outside".to_owned(),
                ));
            };
            let Some(keys) = args.keys.clone() else {
                return Err(ProcessError::Usage("--app ipsec needs --keys".to_owned()));
            };
            let (sends, receives) = (args.send.clone(), args.receive.clone());
            let (routes, routes6) = (args.routes.clone(), args.routes6.clone());
            let (inside, outside, mtu) = (inside.clone(), outside.clone(), args.mtu);
            TunnelEnd { inside, outside, keys, sends, receives, routes, routes6, mtu }.configuration(form)
        }
    };
    text.map_err(|error| ProcessError::Usage(error.to_string()))
}
