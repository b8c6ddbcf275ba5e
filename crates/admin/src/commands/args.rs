//! Arguments of the commands.

use crate::client::sockets::{Daemon, only_socket};
use crate::client::{Client, ClientError, Target};
use crate::model::{Direction, MAX_SNAP_BYTES, PortRole};
use clap::{Arg, Args, Command};
use scalebricks_wire::protocol;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// Examples of `scalebricks status`.
pub const STATUS_EXAMPLES: &str = "\
Examples:
  scalebricks status
      Shows the only node on this machine; if there are several, lists them.
  scalebricks status --socket /run/scalebricks/node2.sock --json
  scalebricks status --tcp gw2.example.net:9470 --ca ca.pem --token-file token

Exit status:
  0 answered    1 not answered    2 wrong usage";

/// Examples of `scalebricks stats`.
pub const STATS_EXAMPLES: &str = "\
Examples:
  scalebricks stats
      Counters since the node started.
  scalebricks stats --watch 5
      Rates per second, every five seconds.
  scalebricks stats --json --watch 1 | jq .total.dropped.unknown_flow

Exit status:
  0 answered    1 not answered    2 wrong usage    130 interrupted";

/// Description of `scalebricks trace`.
pub const TRACE_ABOUT: &str = "\
Shows where the node would send a packet, and why. The node's own forwarding code answers, with the tables in use; \
nothing is sent or counted. The state of earlier packets is not used: a later fragment finds no first fragment, and \
one of VLB's detours is shown.

The packet is a frame (hexadecimal digits, or a frame of a capture file), or is built from addresses.";

/// Examples of `scalebricks trace`.
pub const TRACE_EXAMPLES: &str = "\
Examples:
  scalebricks trace --src 192.0.2.10 --dst 10.45.0.7 --proto udp --sport 53 --dport 40000
      From the Internet to a UE.
  scalebricks trace --teid 0x10001 --inner-src 10.45.0.7 --inner-dst 192.0.2.10 --sport 40000 --dport 53
      From a UE, in its tunnel.
  scalebricks trace capture.pcapng --frame 17 --port internet --readdress
      The 17th frame of a capture, addressed to this node.
  scalebricks trace 0200000000010016... --port base-station

Exit status:
  0 answered    1 not answered    2 wrong usage";

/// Description of `scalebricks capture`.
pub const CAPTURE_ABOUT: &str = "\
Copies frames at the node's ports, and dropped packets with their reasons, into a pcapng file. Captures do not slow \
down the node: frames that the reader is too slow for are missing from the capture, and counted.

Without --drops, frames at ports are captured; with --drops, dropped packets; with --drops and --port or --direction, \
both. All given conditions must hold for the outer or the inner headers.";

/// Examples of `scalebricks capture`.
pub const CAPTURE_EXAMPLES: &str = "\
Examples:
  scalebricks capture -w all.pcapng --seconds 10
  scalebricks capture -w - --host 10.45.0.7 | tshark -r -
      One UE, outside and in its tunnel.
  scalebricks capture -w drops.pcapng --drops=unknown_flow,not_gtpu --count 100
  scalebricks capture -w both.pcapng --drops --port base-station --direction rx --teid 0x10001

Exit status:
  0 captured, also if Ctrl-C ended it    1 failed    2 wrong usage";

/// Heading of [`ReachArgs`] until [`speak_of`] names the process.
const ASKED: &str = "The process";

/// Makes the help of a command and its subcommands name the kind of process that they ask.
pub fn speak_of(command: Command, asked: Daemon) -> Command {
    let heading = match asked {
        Daemon::Node => "The node",
        Daemon::Switch => "The switch",
        Daemon::Router => "The router",
        Daemon::Graph => "The process with the graph",
    };
    let sockets: Vec<String> = asked.prefixes().iter().map(|prefix| format!("{prefix}*.sock")).collect();
    let socket = format!(
        "Its admin socket [default: the only {} in /run/scalebricks that answers]",
        sockets.join(" or ")
    );
    let name = |arg: Arg| match (arg.get_id().as_str(), arg.get_help_heading()) {
        ("socket", Some(ASKED)) => arg.help_heading(heading).help(socket.clone()),
        (_, Some(ASKED)) => arg.help_heading(heading),
        ("watch", _) if asked == Daemon::Switch => {
            arg.help("Show it again every so many seconds until Ctrl-C; with --json one line each time")
        }
        _ => arg,
    };
    command.mut_args(name).mut_subcommands(|subcommand| speak_of(subcommand, asked))
}

/// How a process is reached, and how long to wait for it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = ASKED)]
pub struct ReachArgs {
    /// Its admin socket [default: the only one in /run/scalebricks that answers]
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    pub socket: Option<PathBuf>,

    /// Its admin address, over TLS
    #[arg(long, value_name = "HOST:PORT", requires = "ca", requires = "token_file")]
    pub tcp: Option<String>,

    /// The trusted certificates, PEM
    #[arg(long, value_name = "FILE", requires = "tcp")]
    pub ca: Option<PathBuf>,

    /// The file with the token
    #[arg(long, value_name = "FILE", requires = "tcp")]
    pub token_file: Option<PathBuf>,

    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub timeout: u16,
}

impl ReachArgs {
    /// A client for the address or the socket; without either, for the only process of this kind on this machine.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn client(&self, daemon: Daemon) -> Result<Client, ClientError> {
        let target = match (&self.tcp, &self.ca, &self.token_file, &self.socket) {
            (Some(address), Some(ca), Some(token), _) => {
                Target::Tls { address: address.clone(), ca: ca.clone(), token: token.clone() }
            }
            (_, _, _, Some(socket)) => Target::Unix(socket.clone()),
            _ => Target::Unix(only_socket(daemon)?),
        };
        Client::new(target, Duration::from_secs(u64::from(self.timeout)))
    }
}

/// Arguments of a command that shows an answer.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Show the answer as JSON
    #[arg(long)]
    pub json: bool,

    /// The process.
    #[command(flatten)]
    pub reach: ReachArgs,
}

impl AskArgs {
    /// A client for a node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn node(&self) -> Result<Client, ClientError> {
        self.reach.client(Daemon::Node)
    }
}

/// Arguments of a command that shows counters.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Show them again every so many seconds, with rates, until Ctrl-C; with --json one line each time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub watch: Option<u32>,

    /// The process.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[group(id = "made", multiple = true)]
pub struct TraceArgs {
    /// A frame in hexadecimal digits, or a capture file (pcap or pcapng, also .gz)
    #[arg(value_name = "PACKET", requires = "port")]
    pub packet: Option<String>,

    /// Which frame of the capture file, from 1
    #[arg(long, value_name = "N", requires = "packet", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub frame: u64,

    /// The port where the frame arrives
    #[arg(long, value_name = "PORT", value_enum, requires = "packet")]
    pub port: Option<PortRole>,

    /// Address the frame to this node
    #[arg(long, requires = "packet")]
    pub readdress: bool,

    /// From the Internet: the remote end
    #[arg(long, value_name = "ADDRESS", requires = "dst", conflicts_with = "packet")]
    pub src: Option<IpAddr>,

    /// From the Internet: the UE
    #[arg(long, value_name = "ADDRESS", requires = "src", conflicts_with = "packet")]
    pub dst: Option<IpAddr>,

    /// From a UE: the TEID at the gateway, decimal or 0x...
    #[arg(long, value_name = "TEID", value_parser = parse_teid, requires = "inner_src", requires = "inner_dst",
        conflicts_with_all = ["packet", "src", "dst"])]
    pub teid: Option<u32>,

    /// From a UE: the UE
    #[arg(long, value_name = "ADDRESS", requires = "teid")]
    pub inner_src: Option<IpAddr>,

    /// From a UE: the remote end
    #[arg(long, value_name = "ADDRESS", requires = "teid")]
    pub inner_dst: Option<IpAddr>,

    /// From a UE: its base station
    #[arg(long, value_name = "ADDRESS", requires = "teid")]
    pub base_station: Option<Ipv4Addr>,

    /// Protocol: tcp, udp, icmp, icmpv6, sctp or a number
    #[arg(long, value_name = "PROTOCOL", value_parser = parse_protocol, default_value = "udp", conflicts_with = "packet")]
    pub proto: u8,

    /// Source port
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "packet")]
    pub sport: u16,

    /// Destination port
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "packet")]
    pub dport: u16,

    /// Bytes after the transport header
    #[arg(long, value_name = "BYTES", default_value_t = 0, conflicts_with = "packet")]
    pub payload: u16,

    /// The node.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// The pcapng file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub write: PathBuf,

    /// Only at this port; repeat it for several [default: all]
    #[arg(long, value_name = "PORT", value_enum, value_delimiter = ',')]
    pub port: Vec<PortRole>,

    /// Direction at ports [default: both, or none with --drops or --edge alone]
    #[arg(long, value_name = "WAY", value_enum)]
    pub direction: Option<Direction>,

    /// Also dropped packets: all, or those with these reasons
    #[arg(long, value_name = "REASON", num_args = 0..=1, require_equals = true, default_missing_value = "all",
        value_delimiter = ',')]
    pub drops: Option<Vec<String>>,

    /// Also packets on the edge that starts at this output of an element of the node's graph: steer.0 (repeatable)
    #[arg(long, value_name = "ELEMENT.OUTPUT")]
    pub edge: Vec<String>,

    /// Only packets from or to this address, outer or inner
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<IpAddr>,

    /// Only packets in the tunnel with this TEID, decimal or 0x...
    #[arg(long, value_name = "TEID", value_parser = parse_teid)]
    pub teid: Option<u32>,

    /// Only packets from or to this UDP port, outer or inner
    #[arg(long, value_name = "PORT")]
    pub udp_port: Option<u16>,

    /// Stop after this many frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Stop after this many seconds
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: Option<u32>,

    /// Bytes kept of each frame [default: all]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SNAP_BYTES)))]
    pub snap_len: Option<u32>,

    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,

    /// The node.
    #[command(flatten)]
    pub reach: ReachArgs,
}

fn parse_teid(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.ok_or_else(|| "not 0 to 4294967295 or 0x0 to 0xffffffff".to_owned())
}

fn parse_protocol(text: &str) -> Result<u8, String> {
    Ok(match text {
        "tcp" => protocol::TCP,
        "udp" => protocol::UDP,
        "icmp" => protocol::ICMPV4,
        "icmpv6" => protocol::ICMPV6,
        "sctp" => protocol::SCTP,
        number => number.parse().map_err(|_| "not tcp, udp, icmp, icmpv6, sctp or a number up to 255")?,
    })
}
