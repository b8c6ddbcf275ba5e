//! The command `scalebricks plan`.

use crate::figure3::figure3;
use crate::flows::{self, CostError, Costs};
use crate::rate::{Nic, Rate};
use crate::report;
use crate::router::{Inputs, LinkRule, Parts, PlanError, plan};
use clap::{Args, Subcommand, ValueEnum};
use scalebricks_console::output::json;
use scalebricks_console::{Console, OutputError, status};
use std::path::PathBuf;

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
  scalebricks plan flows --paper
      Cores for a tracker of flows, with the costs of DHash's Table III.
  scalebricks plan flows --capture 20 --balance 25 --fifo 15 --l3 20 --tcp 120 --cores 12
      The same with costs in nanoseconds.

Exit status:
  0 the plan is printed    1 there is no such plan, or it cannot be printed    2 wrong usage";

/// What `scalebricks plan flows` is, for its help.
pub const FLOWS_ABOUT: &str = "\
Computes how many packets per second a tracker of flows can take at most on several cores, and which core is the limit: \
the core formula of the DHash paper. One core reads packets and balances them by flow over rings (FIFOs), the others track \
flows. The bounds leave out what cores share: caches, memory, and the clock. docs/flows.md has an example.";

/// What to plan.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// A router of servers: topology, servers, links, cables, cost, power, latency
    #[command(long_about = ABOUT, after_long_help = EXAMPLES, after_help = "See --help for examples.")]
    Router(Box<RouterArgs>),
    /// Cores for a tracker of flows: one for input, and how many for the rest
    #[command(long_about = FLOWS_ABOUT)]
    Flows(FlowsArgs),
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
    /// The costs do not make a plan.
    #[error(transparent)]
    Costs(#[from] CostError),
    /// The result of the benchmark cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Inputs are missing, which the command line refuses.
    #[error("inputs are missing: see --help")]
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

/// Inputs of a plan of cores.
#[derive(Debug, Args)]
pub struct FlowsArgs {
    /// Take the paper's Table III: cycles at 2.4 GHz, with 262,144 sessions
    #[arg(long, conflicts_with_all = ["from", "capture", "balance", "fifo", "l3", "tcp", "ghz"])]
    pub paper: bool,

    /// Take the stages of a result of `scalebricks-bench dhash --json-file FILE`, nanoseconds
    #[arg(long, value_name = "FILE", conflicts_with_all = ["capture", "balance", "fifo", "l3", "tcp", "ghz"])]
    pub from: Option<PathBuf>,

    /// Cost of reading a packet, in nanoseconds, or in cycles with --ghz
    #[arg(long, value_name = "COST", value_parser = amount, required_unless_present_any = ["paper", "from"])]
    pub capture: Option<f64>,

    /// Cost of choosing a core
    #[arg(long, value_name = "COST", value_parser = amount, required_unless_present_any = ["paper", "from"])]
    pub balance: Option<f64>,

    /// Cost of a ring at one of its ends
    #[arg(long, value_name = "COST", value_parser = amount, required_unless_present_any = ["paper", "from"])]
    pub fifo: Option<f64>,

    /// Cost of IP: validation and fragments
    #[arg(long, value_name = "COST", value_parser = amount, required_unless_present_any = ["paper", "from"])]
    pub l3: Option<f64>,

    /// Cost of the rest: lookup, TCP, streams
    #[arg(long, value_name = "COST", value_parser = amount, required_unless_present_any = ["paper", "from"])]
    pub tcp: Option<f64>,

    /// Clock rate in GHz: the costs are cycles
    #[arg(long, value_name = "GHZ", value_parser = amount)]
    pub ghz: Option<f64>,

    /// Most cores, the input core included
    #[arg(long, value_name = "CORES", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cores: u32,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl FlowsArgs {
    /// The costs of the stages.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn costs(&self) -> Result<Costs, CommandError> {
        if self.paper {
            return Ok(Costs::PAPER);
        }
        if let Some(path) = &self.from {
            let read = std::fs::read_to_string(path);
            let json = read.map_err(|error| CommandError::File { path: path.clone(), error })?;
            return Ok(flows::measured(&json)?);
        }
        let all = (self.capture, self.balance, self.fifo, self.l3, self.tcp);
        let (Some(capture), Some(balance), Some(fifo), Some(l3), Some(tcp)) = all else {
            return Err(CommandError::Incomplete);
        };
        let units_per_second = self.ghz.map_or(1e9, |ghz| ghz * 1e9);
        Ok(Costs { capture, balance, fifo, l3, tcp, units_per_second })
    }

    /// What the command prints.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn output(&self) -> Result<String, CommandError> {
        let plan = flows::plan(&self.costs()?, self.cores)?;
        let unit = if self.paper || self.ghz.is_some() { "cycles" } else { "ns" };
        Ok(if self.json { json(&plan)? } else { report::flows(&plan, unit, self.paper) })
    }
}

impl PlanCommand {
    /// What the command prints.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn output(&self) -> Result<String, CommandError> {
        match self {
            Self::Router(args) => args.output(),
            Self::Flows(args) => args.output(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`].
pub fn run(command: &PlanCommand, console: &Console) -> Result<(), CommandError> {
    Ok(console.result(command.output()?.trim_end())?)
}

#[cfg(test)]
mod tests;
