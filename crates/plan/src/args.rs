//! The command `scalebricks plan`.

use crate::figure3::figure3;
use crate::rate::{Nic, Rate};
use crate::report;
use crate::router::{Inputs, LinkRule, Parts, PlanError, plan};
use clap::{Args, Subcommand, ValueEnum};
use scalebricks_console::output::json;
use scalebricks_console::{Console, OutputError, status};

/// What `scalebricks plan` is, for its help.
pub const ABOUT: &str = "\
Computes what a cluster needs before anybody buys it. A plan is a formula over its inputs; it measures nothing. \
docs/router.md explains the rules, docs/router-howto.md the options.";

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks plan router --ports 4 --rate 10G --nic 2x10G --nics 2 --server-usd 3625
      RB4, the paper's prototype: external and internal ports on the same cards.
  scalebricks plan router --ports 1024 --rate 10G --nic 8x1G --nics 5 --external-nic 2x10G
      The first configuration of the paper's Figure 3: no mesh fits, so an n-fly.
  scalebricks plan router --ports 1024 --rate 400G --nic 8x100G --nics 5 --external-nic 1x400G --json
  scalebricks plan router --figure3
      The paper's Figure 3, and where it contradicts itself.

Exit status:
  0 the plan is printed    1 there is no such plan, or it cannot be printed    2 wrong usage";

/// What to plan.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// A router of servers: topology, servers, links, cables, cost, power, latency
    #[command(long_about = ABOUT, after_long_help = EXAMPLES, after_help = "See --help for examples.")]
    Router(Box<RouterArgs>),
}

/// The rule of mesh links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// 3R/N: safe with Direct VLB
    #[value(name = "3")]
    Safe,
    /// 2R/N: the paper's; safe with classic VLB only
    #[value(name = "2")]
    Paper,
}

/// A price, power, latency or height: a finite number, at least 0.
fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=1e12).contains(&value) => Ok(value),
        _ => Err("write a number from 0 to 1e12".to_owned()),
    }
}

/// Inputs of a plan of a router.
#[derive(Debug, Args)]
pub struct RouterArgs {
    /// External ports, N
    #[arg(long, value_name = "N", required_unless_present = "figure3")]
    pub ports: Option<u64>,

    /// Rate of an external port, R, full duplex: 10G, 400G
    #[arg(long, value_name = "RATE", required_unless_present = "figure3")]
    pub rate: Option<Rate>,

    /// Network card of internal links, ports x rate: 2x10G, 8x1G
    #[arg(long, value_name = "PORTSxRATE", required_unless_present = "figure3")]
    pub nic: Option<Nic>,

    /// Network cards per server, those of external ports included
    #[arg(long, value_name = "CARDS", default_value_t = 5)]
    pub nics: u32,

    /// Network card of external ports; without it, external ports are on the same cards as internal links
    #[arg(long, value_name = "PORTSxRATE")]
    pub external_nic: Option<Nic>,

    /// External ports per server, s
    #[arg(long, value_name = "PORTS", default_value_t = 1)]
    pub ports_per_server: u32,

    /// What a server can process; it must process 3 s R in the worst case. Without it, this is not checked
    #[arg(long, value_name = "RATE")]
    pub server_rate: Option<Rate>,

    /// Capacity of a link of a full mesh, in R/N
    #[arg(long, value_enum, value_name = "MULTIPLE", default_value_t = Rule::Safe)]
    pub link_rule: Rule,

    /// Price of a server in US dollars [default: the paper's of 2009, cards included]
    #[arg(long, value_name = "USD", value_parser = amount)]
    pub server_usd: Option<f64>,

    /// Price of a network card in US dollars [default: included in the server]
    #[arg(long, value_name = "USD", value_parser = amount)]
    pub nic_usd: Option<f64>,

    /// Price of a cable in US dollars [default: not counted, as in the paper]
    #[arg(long, value_name = "USD", value_parser = amount)]
    pub cable_usd: Option<f64>,

    /// Power of a server with its cards in watts [default: a quarter of RB4's]
    #[arg(long, value_name = "WATTS", value_parser = amount)]
    pub server_watts: Option<f64>,

    /// Time of a packet in a server in microseconds [default: the paper's]
    #[arg(long, value_name = "US", value_parser = amount)]
    pub server_latency_us: Option<f64>,

    /// Height of a server in rack units [default: 1]
    #[arg(long, value_name = "UNITS", value_parser = amount)]
    pub server_rack_units: Option<f64>,

    /// Print Figure 3 of the paper instead of a plan
    #[arg(long, conflicts_with_all = ["ports", "rate", "nic"])]
    pub figure3: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Why nothing was printed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no such plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The output failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Inputs are missing, which the command line refuses.
    #[error("--ports, --rate and --nic are needed")]
    Incomplete,
}

impl CommandError {
    /// The program's exit status.
    pub const fn exit_code(&self) -> u8 {
        status::FAILURE
    }
}

impl RouterArgs {
    /// The inputs of the plan; `None` if one that only `--figure3` can spare is missing.
    pub fn inputs(&self) -> Option<Inputs> {
        let parts = Parts::default();
        Some(Inputs {
            ports: self.ports?,
            rate: self.rate?,
            ports_per_server: self.ports_per_server,
            nic: self.nic?,
            nics: self.nics,
            external_nic: self.external_nic,
            server_rate: self.server_rate,
            link_rule: match self.link_rule {
                Rule::Safe => LinkRule::Safe,
                Rule::Paper => LinkRule::Paper,
            },
            parts: Parts {
                server_usd: self.server_usd.unwrap_or(parts.server_usd),
                nic_usd: self.nic_usd.unwrap_or(parts.nic_usd),
                cable_usd: self.cable_usd.unwrap_or(parts.cable_usd),
                server_watts: self.server_watts.unwrap_or(parts.server_watts),
                server_latency_us: self.server_latency_us.unwrap_or(parts.server_latency_us),
                server_rack_units: self.server_rack_units.unwrap_or(parts.server_rack_units),
            },
        })
    }

    /// What the command prints.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn output(&self) -> Result<String, CommandError> {
        if self.figure3 {
            let figure = figure3();
            return Ok(if self.json { json(&figure)? } else { report::figure3(&figure) });
        }
        let plan = plan(&self.inputs().ok_or(CommandError::Incomplete)?)?;
        Ok(if self.json { json(&plan)? } else { report::plan(&plan) })
    }
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`].
pub fn run(command: &PlanCommand, console: &Console) -> Result<(), CommandError> {
    let PlanCommand::Router(args) = command;
    Ok(console.result(args.output()?.trim_end())?)
}

#[cfg(test)]
mod tests;
