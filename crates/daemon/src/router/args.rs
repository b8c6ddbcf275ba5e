//! The command line of `scalebricks router`.

use super::node::admin::args::RoutesArgs;
use crate::graph::args::{RunOptions, parse_variable};
use clap::{Args, Subcommand, ValueEnum};
use scalebricks_admin::commands::{AskArgs, StatsArgs};
use scalebricks_apps::router::server::Interface;
use std::path::PathBuf;

/// Description of `scalebricks router`.
pub const ABOUT: &str = "\
Makes this server a router: minimal forwarding; or IP routing with header checks, longest-prefix match, ARP, neighbour \
discovery and ICMP errors, IPv4 and IPv6; or the end of ESP tunnels over IPv4 between an inside and an outside. A run is one of \
`scalebricks graph`, by a configuration in the Click language or one that is generated for its ports; `scalebricks graph \
show`, `read`, `write` and `reload` ask it.

Makes several servers one router: `node` runs one of them. docs/router.md explains how it works, docs/router-howto.md has the \
configuration.";

/// Examples of `scalebricks router`.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks router run --app route --interface eth0=192.0.2.1/24,02:00:00:00:00:10,2001:db8::1/64 \\
      --interface eth1=198.51.100.1/24,02:00:00:00:01:10 --routes routes.txt.gz --port eth0=0000:01:00.0 --port eth1=0000:01:00.1
      Routes between two ports, with a program built with --features dpdk. A line of routes.txt.gz: 203.0.113.0/24 192.0.2.254 1
  scalebricks router run --app forward --device a --device b --pcap in:a=in.pcap --pcap in:b=- --pcap out:a=- --pcap out:b=out.pcap
      Forwards a capture.
  scalebricks router config --app route --click --interface … --interface … > r.click
      Writes the configuration without the loop that handles bursts, to be changed and run.
  scalebricks router run --app ipsec --interface eth0=10.0.1.1/24,02:00:00:00:01:00 --interface eth1=192.0.2.1/24,02:00:00:00:01:01 \\
      --keys sa.toml --send left-to-right --receive right-to-left --port eth0=… --port eth1=…
      Encrypts what leaves by eth1, and lets in by eth1 only what is encrypted.
  scalebricks router run examples/router/route.click --routes table.txt --port eth0=… --port eth1=…
  scalebricks router check --config node.toml
      Summarises a node of a cluster router, or lists all problems of its configuration.
  scalebricks router node --config node.toml
      Runs it, with a program built with --features dpdk.
  scalebricks router status
  scalebricks router routes 203.0.113.9
      Shows the only node of a router on this machine, and its route to an address.

Exit status:
  0 success, or the run ended
  1 an error, or a file cannot be read    2 wrong usage    130 interrupted";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum RouterCommand {
    /// Run a router over devices, or over captures in their place
    Run(Box<RouterRunArgs>),

    /// Print the configuration of an application
    Config(ConfigArgs),

    /// Run a node of a cluster router until SIGTERM; SIGHUP reads the static routes again
    Node(NodeArgs),

    /// Check the configuration of a node and all files it names: refuse what `node` would refuse, except devices
    Check(CheckArgs),

    /// Show the status of a running node
    Status(StatsArgs),

    /// Show the routes of a running node, with all their paths
    Routes(RoutesArgs),

    /// Show the next hops at the ports of a running node
    NextHops(AskArgs),

    /// Show the links of a running node to the others
    Links(AskArgs),
}

/// Arguments of `router node`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// Arguments of `router check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// The node will run on another machine: do not check addresses, ports in use and directories of this one
    #[arg(long)]
    pub elsewhere: bool,
}

impl RouterCommand {
    /// Whether it runs until it is asked to stop, and logs.
    pub const fn is_daemon(&self) -> bool {
        matches!(self, Self::Node(_))
    }

    /// Whether only results and errors are printed.
    pub const fn is_quiet(&self) -> bool {
        match self {
            Self::Run(args) => args.options.quiet,
            _ => false,
        }
    }
}

/// An application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum App {
    /// What arrives at a port leaves by a fixed other one, untouched
    Forward,
    /// IP routing
    Route,
    /// The end of ESP tunnels: the first interface is inside, the second outside
    Ipsec,
}

impl App {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Route => "route",
            Self::Ipsec => "ipsec",
        }
    }
}

/// What an application is configured with.
#[derive(Debug, Args)]
pub struct AppArgs {
    /// A device of `forward`, in order; repeat it for each
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,

    /// A port of `route` or `ipsec`: its device and addresses; repeat it for each. Routes with output N leave by the Nth
    #[arg(long, value_name = "NAME=IP/LENGTH,MAC[,IPV6/LENGTH]")]
    pub interface: Vec<Interface>,

    /// IPv4 routes, `PREFIX GATEWAY OUTPUT` per line, plain or gzipped; in a configuration, the variable ROUTES
    #[arg(long, value_name = "FILE")]
    pub routes: Option<String>,

    /// IPv6 routes; in a configuration, the variable ROUTES6
    #[arg(long, value_name = "FILE")]
    pub routes6: Option<String>,

    /// The file with the security associations of `ipsec`, readable by its owner only; in a configuration, the variable KEYS
    #[arg(long, value_name = "FILE")]
    pub keys: Option<String>,

    /// An association that `ipsec` sends by; repeat it for several, in order of preference
    #[arg(long, value_name = "NAME")]
    pub send: Vec<String>,

    /// An association that `ipsec` receives by; repeat it for several
    #[arg(long, value_name = "NAME")]
    pub receive: Vec<String>,

    /// Longest packet that `route` and `ipsec` forward whole
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(1_280..))]
    pub mtu: u16,

    /// Pass all packets through single elements, not ordinary ones through one loop
    #[arg(long)]
    pub click: bool,
}

/// Arguments of `router run`.
#[derive(Debug, Args)]
pub struct RouterRunArgs {
    /// The configuration, in the Click language
    #[arg(value_name = "FILE", required_unless_present = "app", conflicts_with = "app")]
    pub file: Option<PathBuf>,

    /// An application in place of a configuration
    #[arg(long, value_enum)]
    pub app: Option<App>,

    /// The application.
    #[command(flatten)]
    pub of: AppArgs,

    /// The value of a variable of the configuration; repeat it for several
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub variables: Vec<(String, String)>,

    /// The run.
    #[command(flatten)]
    pub options: RunOptions,
}

/// Arguments of `router config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The application
    #[arg(long, value_enum)]
    pub app: App,

    /// What it is configured with.
    #[command(flatten)]
    pub of: AppArgs,
}
