//! The command line of `scalebricks flows`.

use super::live::Order;
use crate::graph::args::parse_seconds;
use clap::{Args, ValueEnum};
use scalebricks_flows::reassembly::Overlap;
use scalebricks_flows::tracker::Config;
use scalebricks_flows::{reassembly, tcp};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// Seconds between two records of a flow that lasts, over ports.
const ACTIVE_TIMEOUT_S: u32 = 60;

/// Description.
pub const ABOUT: &str = "\
Tracks the flows of a capture, or of ports as their packets come: TCP connections with their states, checked by sequence numbers and windows, their streams \
reassembled, IP packets defragmented; UDP, ICMP, SCTP and other protocols by timeouts. Prints totals, what was dropped and \
why, and the flows with most bytes; writes a log with one JSON object per flow. Over ports, a terminal shows the flows with most traffic every second.

A TCP segment that an attacker could have sent blindly changes no state: it is refused by name (RFC 9293, RFC 5961, RFC \
7323). Packets inside tunnels are flows of the tunnel. VLANs do not matter. docs/flows.md describes the log.";

/// Examples.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks flows --pcap examples/flows/sample.pcap.gz
      Totals, and the ten flows with most bytes.
  scalebricks flows --pcap in.pcapng --log flows.jsonl --streams streams
      A log, and the bytes of each direction of each connection as a file.
  scalebricks flows --pcap in.pcap --log - -q | jq -r 'select(.tcp.reset_by) | .source'
      The log on standard output, without the summary: who sent connections that were reset.
  scalebricks flows --pcap in.pcap --ipfix flows.ipfix
      For a collector, or `tshark -V -r flows.ipfix`.
  scalebricks flows --pcap in.pcap --timeout established=600 --timeout udp=60
  scalebricks flows --pcap large.pcap --cores 6 --log flows.jsonl
      One core reads, six track; `scalebricks plan flows` says how many are of use.
  scalebricks flows --port eth0
      The flows of an interface, in and out, as a table that is renewed every second, until Ctrl-C.
  scalebricks flows --port eth0 --port eth1 --log /var/log/flows.jsonl --interval 60
      For a service: a line per minute on standard error; records when flows end, and every minute of those that last.
  scalebricks flows --port lo --duration 10 --log - -q | jq -r .destination_port
  scalebricks flows --port 0000:01:00.0
      A device of DPDK, with a program built with --features dpdk.

Packets of an interface are copied to this program, and reach their destination all the same. That needs the right \
CAP_NET_RAW: run as root, or grant it once by `setcap cap_net_raw+ep PROGRAM`. Ctrl-C and SIGTERM end a run over ports: all \
flows are written, and the summary is printed.

Exit status:
  0 success, also of a run over ports that Ctrl-C or SIGTERM ended
  1 an error, or the capture is cut or damaged: its flows are logged first    2 wrong usage    130 interrupted";

/// Arguments.
#[derive(Debug, Args)]
pub struct FlowsArgs {
    /// The capture: pcap or pcapng, plain or gzipped
    #[arg(long, value_name = "FILE", required_unless_present = "port", conflicts_with = "port")]
    pub pcap: Option<PathBuf>,

    /// Packets as they come to a port and leave it; repeat it for several. An interface of Linux (eth0), or a device of DPDK:
    /// a PCI address (0000:01:00.0), or a virtual device (`net_tap0`)
    #[arg(long, value_name = "PORT")]
    pub port: Vec<String>,

    /// Stop after this many seconds, on the clock of the capture or of the machine
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<Duration>,

    /// Stop after this many frames
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Over ports: print a line with rates at this interval, in place of the table, which a terminal shows every second.
    /// [default without a terminal: 10]
    #[arg(long, value_name = "SECONDS", conflicts_with = "pcap", value_parser = parse_seconds)]
    pub interval: Option<Duration>,

    /// Order of the table
    #[arg(long, value_name = "RATE", value_enum, conflicts_with = "pcap", default_value_t = Order::Bytes)]
    pub top_by: Order,

    /// Write a JSON object per flow to this file, in order of the flows' ends; `-` is standard output, and the summary then
    /// goes to standard error
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Write the flows to an IPFIX file (RFC 5655), with both directions in a record (RFC 5103)
    #[arg(long, value_name = "FILE")]
    pub ipfix: Option<PathBuf>,

    /// Write the bytes of each direction of each TCP connection to a file in this folder, which must be empty or not exist;
    /// missing bytes are left out, and counted in the log
    #[arg(long, value_name = "DIR")]
    pub streams: Option<PathBuf>,

    /// Number of flows in the table and in the list of those with most bytes, and of addresses
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub top: u32,

    /// Where the packets were seen
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = Vantage::Capture)]
    pub vantage: Vantage,

    /// Ignore TCP connections whose handshake is not in the capture
    #[arg(long)]
    pub no_pick_up: bool,

    /// Refuse packets with wrong checksums, which captures taken with checksum offload contain
    #[arg(long)]
    pub verify_checksums: bool,

    /// Which bytes count where TCP segments overlap that wait for others
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = OverlapPolicy::First)]
    pub overlap: OverlapPolicy,

    /// Most bytes that wait for others in all streams, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub reassembly_mib: u32,

    /// Most flows of each IP version
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub flows: u32,

    /// Most half-open and unanswered flows of each IP version: the oldest go first
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 16, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub young_flows: u32,

    /// Lifetime of flows without packets, by state; repeat it for several. States: syn-sent, syn-received, established,
    /// half-closed, closing, time-wait, reset; udp-one-way, udp, icmp, sctp-opening, sctp, other
    #[arg(long = "timeout", value_name = "STATE=SECONDS", value_parser = parse_timeout)]
    pub timeouts: Vec<(&'static str, Duration)>,

    /// Also write a record of a flow that lasts each time this many seconds have passed, if it had packets; counters are
    /// those since its begin. 0 for never [default: 60 over ports, never for captures]
    #[arg(long, value_name = "SECONDS")]
    pub active_timeout: Option<u32>,

    /// Track on so many cores, each with flows and limits of its own, and read the capture on one more. Log, streams and
    /// summary are those of one core, as long as no limit is reached
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub cores: Option<u32>,

    /// No summary, no table and no lines
    #[arg(long, short)]
    pub quiet: bool,
}

/// Where packets were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Vantage {
    /// On the path of every packet: an acknowledgment of data that was not seen is refused
    InPath,
    /// Beside it: packets may be missing
    Capture,
}

/// What happens to overlapping bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OverlapPolicy {
    /// Those that came first count
    First,
    /// Those that came last count
    Last,
}

/// A lifetime of flows: its name in [`Config::lifetimes`], and its length.
fn parse_timeout(text: &str) -> Result<(&'static str, Duration), String> {
    let (state, seconds) = text.split_once('=').ok_or("expected STATE=SECONDS")?;
    let mut config = Config::default();
    let mut names = config.lifetimes().map(|(name, _)| name);
    let name = names.find(|name| name.replace('_', "-") == state).ok_or_else(|| {
        let mut config = Config::default();
        let known: Vec<_> = config.lifetimes().map(|(name, _)| name.replace('_', "-")).collect();
        format!("no state '{state}'; there are {}", known.join(", "))
    })?;
    let seconds: u32 = seconds.parse().map_err(|_| format!("'{seconds}' is not a number of seconds"))?;
    Ok((name, Duration::from_secs(u64::from(seconds))))
}

impl FlowsArgs {
    /// Whether lines of the log appear on a terminal.
    pub(super) fn log_is_terminal(&self) -> bool {
        self.log.as_deref().is_some_and(|path| path.as_os_str() == "-") && std::io::stdout().is_terminal()
    }

    /// Time between two records of a flow that lasts.
    fn active_timeout(&self) -> Option<Duration> {
        let default = if self.port.is_empty() { 0 } else { ACTIVE_TIMEOUT_S };
        let seconds = self.active_timeout.unwrap_or(default);
        (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
    }

    /// The configuration of the tracker.
    pub fn config(&self) -> Config {
        let vantage = match self.vantage {
            Vantage::InPath => tcp::Vantage::InPath,
            Vantage::Capture => tcp::Vantage::Capture,
        };
        let overlap = match self.overlap {
            OverlapPolicy::First => Overlap::FirstWins,
            OverlapPolicy::Last => Overlap::LastWins,
        };
        let total_bytes = u64::from(self.reassembly_mib) << 20;
        let mut config = Config {
            tcp: tcp::Config { vantage, pick_up: !self.no_pick_up, ..tcp::Config::default() },
            reassembly: Some(reassembly::Config { overlap, total_bytes, ..reassembly::Config::default() }),
            verify_checksums: self.verify_checksums,
            flows: self.flows,
            young_flows: self.young_flows,
            active_timeout: self.active_timeout(),
            ..Config::default()
        };
        for (name, lifetime) in &self.timeouts {
            let named = config.lifetimes().filter(|(known, _)| known == name);
            named.for_each(|(_, own)| *own = *lifetime);
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_named_by_state() {
        assert_eq!(parse_timeout("half-closed=7"), Ok(("half_closed", Duration::from_secs(7))));
        assert_eq!(parse_timeout("udp=60"), Ok(("udp", Duration::from_secs(60))));
        let unknown = parse_timeout("new=1").unwrap_err();
        assert!(unknown.starts_with("no state 'new'; there are syn-sent, "), "{unknown}");
        assert!(["udp", "udp=", "udp=-1", "half_closed=1"].iter().all(|text| parse_timeout(text).is_err()));
    }
}
