//! The command line of `scalebricks graph` and `scalebricks elements`.

use crate::node::config::AdminTcp;
use clap::{Args, Subcommand};
use scalebricks_admin::commands::{AskArgs, ReachArgs};
use std::path::PathBuf;
use std::time::Duration;

/// Description of `scalebricks graph`.
pub const ABOUT: &str = "\
Processes packets by a configuration in the Click language: elements and their connections. It runs over devices, or over \
captures in their place. `scalebricks elements` lists the elements. `show`, `read`, `write` and `reload` ask a run that has \
--admin. Nodes and switches run such graphs too, one per worker: `show`, `read` and `write` ask them as well.";

/// Examples of `scalebricks graph`.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks graph check router.click
      Summarises the configuration, or lists its faults, by file, line and column.
  scalebricks graph run examples/count.click --pcap in=in.pcap --pcap out=out.pcap
      Runs it over captures: the input of its only FromDevice, and the output of its only ToDevice.
  scalebricks elements Queue
      Describes an element: its ports, parameters, counters and handlers.
  scalebricks graph run router.click --port eth0=net_af_packet0,iface=eth0 --admin /run/scalebricks/graph.sock
  scalebricks graph show
      The elements of the only run on this machine, and their counters.
  scalebricks graph read q.length
  scalebricks graph write q.capacity 500
  scalebricks graph read steer.packets --worker 1 --socket /run/scalebricks/node.sock
      A counter of one worker of a node. Without --worker counters are summed over all workers.
  scalebricks graph reload
      Makes it read its configuration again, and switch to it without losing a packet.

Exit status:
  0 success, or the run ended
  1 an error, a file cannot be read, or no run answered    2 wrong usage    130 interrupted";

/// Examples of `scalebricks graph run`.
pub const RUN_EXAMPLES: &str = "\
Examples:
  scalebricks graph run r.click --pcap in=a.pcap --pcap out=b.pcap
      One device receives and one sends; captures replace them.
  scalebricks graph run router.click --pcap in:eth0=a.pcap --pcap in:eth1=- --pcap out:eth0=x.pcap --pcap out:eth1=y.pcap
      Several devices, by name. Nothing is received from eth1.
  scalebricks graph run router.click --port eth0=net_af_packet0,iface=eth0 --port eth1=0000:01:00.1 --duration 60
      Real devices, with a program built with --features dpdk, for a minute.
  scalebricks graph run router.click --port eth0=enp1s0 --port eth1=enp2s0
      Interfaces of Linux, without DPDK.
  scalebricks graph run r.click --set RATE=1000 --read c.count --json
  scalebricks graph run r.click --admin /run/scalebricks/graph.sock
      Answers `scalebricks graph show`, `read`, `write` and `reload`, and serves /metrics for Prometheus.
  scalebricks graph run r.click --admin graph.sock --admin-tcp 192.0.2.1:9443 --admin-certificate cert.pem --admin-key key.pem \
    --admin-token token
      The same, also over TLS for clients with the token.

Over captures alone, the clock is that of the captures: a run is as fast as the machine allows, and gives the same result each \
time. Ctrl-C ends a run: captures are completed, and counters are printed. SIGHUP makes it read its configuration again: \
elements of the same name and class keep their packets, devices and state. If the new configuration is wrong, the old one \
keeps running.";

/// Examples of `scalebricks elements`.
pub const ELEMENTS_EXAMPLES: &str = "\
Examples:
  scalebricks elements
  scalebricks elements Queue
  scalebricks elements --json | jq -r '.[].class'";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum GraphCommand {
    /// Check a configuration and its graph, without opening anything
    Check(FileArgs),

    /// Run a configuration over devices, or over captures in their place
    #[command(after_long_help = RUN_EXAMPLES, after_help = "See --help for examples.")]
    Run(RunArgs),

    /// Show the elements of a run, a node or a switch and their counters, or one element with its handlers
    Show(ShowArgs),

    /// Read a handler of an element of a run, a node or a switch
    Read(ReadArgs),

    /// Write a handler of an element of a run, a node or a switch, on all its workers
    Write(WriteArgs),

    /// Make a run read its configuration again, or replace it, without losing a packet
    Reload(ReloadArgs),
}

impl GraphCommand {
    /// Whether only results and errors are printed.
    pub const fn is_quiet(&self) -> bool {
        matches!(self, Self::Run(RunArgs { options: RunOptions { quiet: true, .. }, .. }))
    }
}

/// A configuration.
#[derive(Debug, Clone, Args)]
pub struct FileArgs {
    /// The configuration, in the Click language
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The value of a variable, which overrides that of the configuration; repeat it for several
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub variables: Vec<(String, String)>,

    /// The configuration itself, if it was generated; the file then only names it.
    #[arg(skip)]
    pub text: Option<String>,
}

impl FileArgs {
    /// The configuration's text.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> std::io::Result<Vec<u8>> {
        self.text.as_ref().map_or_else(|| std::fs::read(&self.file), |text| Ok(text.clone().into_bytes()))
    }
}

/// Arguments of `graph run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The configuration.
    #[command(flatten)]
    pub file: FileArgs,

    /// Everything else.
    #[command(flatten)]
    pub options: RunOptions,
}

/// Options of a run, whatever its configuration.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// A capture in place of a device: in:eth0=FILE is the input of eth0, out:eth0=FILE its output; `-` for nothing;
    /// without a name, the only device that has none
    #[arg(long, value_name = "in[:DEVICE]|out[:DEVICE]=FILE", value_parser = parse_capture)]
    pub pcap: Vec<Capture>,

    /// A device: an interface of Linux (eth1), or a PCI address (0000:01:00.0) or a virtual device (`net_tap0`) of DPDK.
    /// Interfaces need no DPDK, and are slower; see docs/click.md on offloads
    #[arg(long, value_name = "NAME=DEVICE", value_parser = parse_port)]
    pub port: Vec<(String, String)>,

    /// Stop after this many seconds, on the clock of the run
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<Duration>,

    /// Use the wall clock also over captures, which are then replayed in real time
    #[arg(long)]
    pub wall_clock: bool,

    /// Serve the admin interface at this unix socket (docs/click.md)
    #[arg(long, value_name = "SOCKET")]
    pub admin: Option<PathBuf>,

    /// The admin interface over TCP.
    #[command(flatten)]
    pub admin_tcp: Option<AdminTcp>,

    /// A handler to read at the end; repeat it for several
    #[arg(long, value_name = "ELEMENT.HANDLER", value_parser = parse_handler)]
    pub read: Vec<(String, String)>,

    /// Number of packet buffers [default: 4096, and 8192 more for each device]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(64..=4_000_000))]
    pub buffers: Option<u32>,

    /// Size of a buffer: the longest packet
    #[arg(long, value_name = "BYTES", default_value_t = 9_216, value_parser = clap::value_parser!(u32).range(64..=65_535))]
    pub packet_bytes: u32,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// Print only the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

impl RunOptions {
    /// Number of packet buffers. By default, receive queues cannot hold all of them: that of an XDP socket takes 4,096,
    /// and a device that cannot fill its queue receives nothing.
    pub fn buffers(&self) -> u32 {
        let devices = u32::try_from(self.port.len()).unwrap_or(u32::MAX);
        self.buffers.unwrap_or_else(|| devices.saturating_mul(8_192).saturating_add(4_096).min(4_000_000))
    }
}

/// Arguments of `graph show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// An element [default: all]
    #[arg(value_name = "ELEMENT")]
    pub element: Option<String>,

    /// Counters of this worker, from 0 [default: summed over all workers]
    #[arg(long, value_name = "NUMBER")]
    pub worker: Option<usize>,

    /// The run.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `graph read`.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The handler; counters and drop reasons are handlers too
    #[arg(value_name = "ELEMENT.HANDLER", value_parser = parse_handler)]
    pub handler: (String, String),

    /// The parameter, if the handler has one
    #[arg(value_name = "PARAMETER")]
    pub parameter: Vec<String>,

    /// The worker to ask, from 0 [default: the sum of all for counters and drop reasons; else worker 0]
    #[arg(long, value_name = "NUMBER")]
    pub worker: Option<usize>,

    /// The run.
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Arguments of `graph write`.
#[derive(Debug, Args)]
pub struct WriteArgs {
    /// The handler
    #[arg(value_name = "ELEMENT.HANDLER", value_parser = parse_handler)]
    pub handler: (String, String),

    /// The value
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    pub value: Vec<String>,

    /// The run.
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Arguments of `graph reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// Another configuration [default: the run's file, which is read again]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The run.
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Arguments of `elements`.
#[derive(Debug, Args)]
pub struct ElementsArgs {
    /// A class [default: all, one per line]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// A capture in place of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// Whether it is the output of the device.
    pub is_output: bool,
    /// The device; `None`: the only one.
    pub device: Option<String>,
    /// The file; `None`: nothing is received or stored.
    pub file: Option<PathBuf>,
}

fn pair(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())
}

fn parse_capture(text: &str) -> Result<Capture, String> {
    let parse = || {
        let (side, file) = pair(text)?;
        let (side, device) = match side.split_once(':') {
            Some((_, "")) => return None,
            Some((side, device)) => (side, Some(device.to_owned())),
            None => (side, None),
        };
        let is_output = match side {
            "in" => false,
            "out" => true,
            _ => return None,
        };
        Some(Capture { is_output, device, file: (file != "-").then(|| file.into()) })
    };
    parse().ok_or_else(|| "not in=FILE, out=FILE, in:DEVICE=FILE or out:DEVICE=FILE".to_owned())
}

fn parse_port(text: &str) -> Result<(String, String), String> {
    let (name, device) = pair(text).ok_or("not NAME=DEVICE")?;
    Ok((name.to_owned(), device.to_owned()))
}

pub(crate) fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_word { Ok((name.to_owned(), value.to_owned())) } else { Err("not NAME=VALUE".to_owned()) }
}

fn parse_handler(text: &str) -> Result<(String, String), String> {
    let split = text.rsplit_once('.').filter(|(element, handler)| !element.is_empty() && !handler.is_empty());
    let (element, handler) = split.ok_or("not ELEMENT.HANDLER")?;
    Ok((element.to_owned(), handler.to_owned()))
}

pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|seconds| !seconds.is_zero()).ok_or_else(|| "not a number of seconds above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_cannot_hold_all_buffers_of_the_default_number() {
        #[derive(clap::Parser)]
        struct Run {
            #[command(flatten)]
            options: RunOptions,
        }
        let buffers = |line: &str| <Run as clap::Parser>::parse_from(line.split(' ')).options.buffers();
        assert_eq!(buffers("run"), 4_096);
        assert_eq!(buffers("run --port a=net_af_xdp0,iface=a --port b=net_af_xdp1,iface=b"), 20_480);
        assert_eq!(buffers("run --port a=net_null0 --buffers 64"), 64);
    }

    #[test]
    fn captures_name_a_side_and_perhaps_a_device() {
        let capture = |is_output, device: Option<&str>, file: Option<&str>| {
            Ok(Capture { is_output, device: device.map(str::to_owned), file: file.map(PathBuf::from) })
        };
        assert_eq!(parse_capture("in=a=b.pcap"), capture(false, None, Some("a=b.pcap")));
        assert_eq!(parse_capture("out:eth0=-"), capture(true, Some("eth0"), None));
        for wrong in ["in", "in=", "in:=x", "eth0=x", "", "both=x"] {
            assert!(parse_capture(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn handlers_and_variables_have_names() {
        assert_eq!(parse_handler("a/b.count"), Ok(("a/b".into(), "count".into())));
        assert_eq!(parse_variable("RATE="), Ok(("RATE".into(), String::new())));
        assert!(parse_handler("count").is_err() && parse_handler("a.").is_err());
        assert!(parse_variable("a b=c").is_err() && parse_variable("=c").is_err());
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(["0", "-1", "x", "nan", "1e99"].iter().all(|text| parse_seconds(text).is_err()));
    }
}
