//! The arguments of the demonstration.

use super::config::{DemoConfig, GATEWAY, MAX_FLOWS, NODES};
use clap::{Args, ValueEnum};
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{ResultArgs, quantity};
use scalebricks_elements::gateway::packet::policy::MIN_MTU;
use scalebricks_elements::gateway::{Oversize, Policy};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, IdError, KeyProfile};
use std::path::PathBuf;

/// Fewest and most nodes of a demonstration.
const NODE_RANGE: std::ops::RangeInclusive<i64> = 2..=64;

/// Most packets per architecture of a synthetic run.
const MAX_PACKETS: u64 = 1_000_000_000_000;

/// Describes the command.
pub const ABOUT: &str = "\
Forwards packets through a mobile gateway: a cluster of nodes in this process, joined by a switch in memory. The same \
packets go through four architectures, and every packet that leaves is compared with the expected one.

By default the packets are synthetic: flows pinned to nodes by the region of their UE, three in four packets \
downstream, the others upstream in GTP-U, sizes by the simple IMIX (7:4:1 of 64, 594 and 1518-byte frames). With \
--pcap they come from a capture. With --app router, four nodes route a table's traffic by Valiant load balancing, \
Direct VLB, and Direct VLB with flowlets. Needs no root, no network and no interface.";

/// Examples and exit statuses.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks demo
      One million flows on four nodes, five million packets per architecture: about a minute.
  scalebricks demo --nodes 16 --flows 250k --packets 1M
      A larger cluster, a shorter run.
  scalebricks demo --arch scalebricks --arch full-duplication --key ue --skew
      Two architectures, UE addresses as keys, most regions on few nodes.
  scalebricks demo --arch scalebricks --gpt othello
      The other compact table.
  scalebricks demo --base-station-mtu 1500 --oversize icmp
      Drop packets that do not fit the tunnel, and send an ICMP error to the sender.
  scalebricks demo --pcap capture.pcap.gz --ignore-checksums --out out/replay
      Replay a capture taken with checksum offload; write the frames that each node sent.
  scalebricks demo --app router --routes table.txt.gz
      The cluster router, with a table of lines PREFIX ORIGIN: reordering, fairness and nodes a packet.
  scalebricks demo --json --svg run.svg --quiet | jq .architectures
      Results for scripts.

Exit status:
  0 all packets accounted for    1 packets lost or misdelivered, or the run failed
  2 wrong usage                  130 interrupted";

/// The arguments of the demonstration.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct DemoArgs {
    /// What to demonstrate: the mobile gateway, or the cluster router of RouteBricks
    #[arg(long, value_name = "NAME", value_enum, default_value_t = AppChoice::Gateway)]
    pub app: AppChoice,

    /// Routes of the router, lines of PREFIX ORIGIN, also .gz [default: 512,000 generated ones]
    #[arg(long, value_name = "FILE", conflicts_with = "page")]
    pub routes: Option<PathBuf>,

    /// Nodes in the cluster, 2 to 64
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = clap::value_parser!(u16).range(NODE_RANGE))]
    pub nodes: u16,

    /// Flows pinned to the nodes, up to 16M
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = parse_flows, conflicts_with = "pcap")]
    pub flows: u32,

    /// Packets per architecture, or per run of the router (default 500k)
    #[arg(long, value_name = "COUNT", default_value = "5M", default_value_if("app", "router", "500k"), value_parser = parse_packets, conflicts_with = "pcap")]
    pub packets: u64,

    /// Architecture to run; repeat it for several
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',', default_value = "all")]
    pub arch: Vec<ArchChoice>,

    /// Structure of the GPT of ScaleBricks: setsep (fewer bits) or othello (cheaper changes)
    #[arg(long, value_name = "NAME", default_value_t)]
    pub gpt: Structure,

    /// Key of a downstream packet: the five-tuple, or the UE's address
    #[arg(long, value_name = "PROFILE", value_enum, default_value_t = KeyChoice::Flow5)]
    pub key: KeyChoice,

    /// Threads of the nodes [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// Seed of all random choices: the same seed gives the same flows and packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Pin half as many regions to the second node as to the first, a third to the third, and so on
    #[arg(long, conflicts_with = "pcap")]
    pub skew: bool,

    /// Treatment of packets that do not fit the base-station link with their tunnel headers
    #[arg(long, value_name = "HOW", value_enum, default_value_t = OversizeChoice::Fragment)]
    pub oversize: OversizeChoice,

    /// Largest IP packet on the base-station link, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1600,
        value_parser = clap::value_parser!(u16).range(i64::from(MIN_MTU)..))]
    pub base_station_mtu: u16,

    /// Forward packets with a wrong IPv4 header checksum, which captures taken with checksum offload contain
    #[arg(long, requires = "pcap")]
    pub ignore_checksums: bool,

    /// Replay this capture (pcap or pcapng, also .gz) in place of synthetic traffic
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,

    /// Directory for one capture per node of the frames that it sent
    #[arg(long, value_name = "DIR", requires = "pcap")]
    pub out: Option<PathBuf>,

    /// What is printed, and a file for it [default: out/demo.json; out/router.json with --app router].
    #[command(flatten)]
    pub result: ResultArgs,

    /// File for the results as a picture
    #[arg(long, value_name = "FILE", default_value = "out/demo.svg")]
    pub svg: PathBuf,

    /// Keep the results in docs/data, for the documentation. Refused if sources have uncommitted changes; pages show no run
    /// with fewer flows or packets than by default
    #[arg(long, conflicts_with = "pcap")]
    pub page: bool,

    /// Print only the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// An application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AppChoice {
    /// The mobile gateway, in four architectures
    Gateway,
    /// The cluster router, with three ways of spreading
    Router,
}

/// An architecture, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArchChoice {
    /// All four
    All,
    /// Every node has the whole FIB
    FullDuplication,
    /// A lookup node between ingress and handling node
    HashPartition,
    /// The whole FIB everywhere, and a detour over a random node
    Vlb,
    /// A compact table everywhere, the FIB entry at the handling node only
    Scalebricks,
}

/// A key profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyChoice {
    /// Addresses, protocol and ports
    Flow5,
    /// The UE's IPv4 address or IPv6 /64
    Ue,
}

/// The treatment of packets that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OversizeChoice {
    /// The outer packet is fragmented
    Fragment,
    /// The packet is dropped with an ICMP error if it has DF, or is IPv6 and 1,280 bytes fit; otherwise fragmented
    Icmp,
}

impl ArchChoice {
    /// The chosen architectures, each once, in the order of the ScaleBricks paper's Figure 2.
    pub fn architectures(choices: &[Self]) -> Vec<Architecture> {
        let is_chosen = |architecture: &Architecture| {
            choices.iter().any(|choice| match choice {
                Self::All => true,
                Self::FullDuplication => *architecture == Architecture::FullDuplication,
                Self::HashPartition => *architecture == Architecture::HashPartition,
                Self::Vlb => *architecture == Architecture::Vlb,
                Self::Scalebricks => *architecture == Architecture::ScaleBricks,
            })
        };
        Architecture::ALL.into_iter().filter(is_chosen).collect()
    }
}

impl DemoArgs {
    /// The configuration of the run.
    ///
    /// # Errors
    /// [`IdError`] for an impossible number of nodes.
    pub fn config(&self) -> Result<DemoConfig, IdError> {
        let all_cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(DemoConfig {
            size: ClusterSize::new(usize::from(self.nodes))?,
            architectures: ArchChoice::architectures(&self.arch),
            policy: Policy {
                key_profile: match self.key {
                    KeyChoice::Flow5 => KeyProfile::Flow5,
                    KeyChoice::Ue => KeyProfile::Ue,
                },
                verify_ipv4_checksum: !self.ignore_checksums,
                oversize: match self.oversize {
                    OversizeChoice::Fragment => Oversize::FragmentOuter,
                    OversizeChoice::Icmp => Oversize::Icmp,
                },
                base_station_mtu: self.base_station_mtu,
                gateway_address: GATEWAY,
                ..Policy::default()
            },
            gpt: self.gpt,
            threads: self.threads.map_or_else(all_cores, usize::from),
            seed: self.seed,
            skew: self.skew,
            flows: self.flows,
            packets: self.packets,
        })
    }
}

fn parse_flows(text: &str) -> Result<u32, quantity::QuantityError> {
    quantity::parse(text, 1..=MAX_FLOWS).map(|flows| flows as u32) // at most MAX_FLOWS
}

fn parse_packets(text: &str) -> Result<u64, quantity::QuantityError> {
    quantity::parse(text, 1..=MAX_PACKETS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn demo(args: &[&str]) -> Result<DemoArgs, clap::Error> {
        #[derive(Parser)]
        struct Program {
            #[command(flatten)]
            args: DemoArgs,
        }
        Ok(Program::try_parse_from([&["demo"], args].concat())?.args)
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let config = demo(&[]).unwrap().config().unwrap();
        assert_eq!((config.size.get(), config.flows, config.packets), (4, 1_000_000, 5_000_000));
        assert_eq!((config.architectures, config.gpt), (Architecture::ALL.to_vec(), Structure::SetSep));
        assert_eq!(demo(&["--gpt", "othello"]).unwrap().config().unwrap().gpt, Structure::Othello);
    }

    #[test]
    fn the_router_has_shorter_runs_by_default() {
        assert_eq!(demo(&["--app", "router"]).unwrap().packets, 500_000);
        assert_eq!(demo(&["--app", "router", "--packets", "7k"]).unwrap().packets, 7_000);
        assert_eq!(demo(&["--app", "gateway"]).unwrap().packets, 5_000_000);
    }

    #[test]
    fn architectures_are_listed_once_and_in_order() {
        let args = demo(&["--arch", "scalebricks", "--arch", "vlb,scalebricks"]).unwrap();
        assert_eq!(args.config().unwrap().architectures, [Architecture::Vlb, Architecture::ScaleBricks]);
    }

    #[test]
    fn impossible_arguments_are_refused() {
        for args in [
            &["--nodes", "1"][..],
            &["--nodes", "65"],
            &["--flows", "17M"],
            &["--flows", "0"],
            &["--arch", "clos"],
            &["--gpt", "bloom"],
            &["--out", "x"],
            &["--pcap", "x", "--flows", "5"],
            &["--base-station-mtu", "575"],
            &["--threads", "0"],
            &["--app", "switch"],
            &["--app", "router", "--routes", "x", "--page"],
        ] {
            assert!(demo(args).is_err(), "{args:?}");
        }
    }
}
