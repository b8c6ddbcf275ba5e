//! What `flow` is told.

use super::{AskArgs, ReachArgs};
use crate::model::FlowRecord;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What `scalebricks flow` does.
pub const FLOW_ABOUT: &str = "\
Pins flows to nodes, through the control plane of any node of the cluster. What is accepted is in the cluster's log and will \
be in the tables of all nodes; --wait returns when it is.

A flow is named by its UE's address where these are the keys (key = \"ue\" in node.toml), and by its five-tuple where those are.";

/// Examples of `scalebricks flow`.
pub const FLOW_EXAMPLES: &str = "\
Examples:
  scalebricks flow add --ue 10.45.0.7 --node 2 --base-station 10.9.0.1 --uplink-teid 0x10007 --downlink-teid 0x20007 --wait
  scalebricks flow move --ue 10.45.0.7 --node 3
  scalebricks flow show --ue 10.45.0.7 --remote 192.0.2.1 --remote-port 53 --ue-port 4000 --protocol udp
  scalebricks flow show --uplink-teid 0x10007 --json
  scalebricks flow del --ue 10.45.0.7
  scalebricks flow import flows.csv
      All flows of a file as `node.toml` names one, a million and more.
  scalebricks flow export flows.csv
  scalebricks flow export - | gzip > flows.csv.gz

Exit status:
  0 accepted, and applied by all with --wait; exported    1 not    2 wrong usage    130 interrupted";

/// What can be done with flows.
#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Pin a flow to a node, whether it is there or not
    Add(FlowAddArgs),

    /// Take a flow out
    Del(FlowDelArgs),

    /// Pin a flow that is there to another node
    Move(FlowMoveArgs),

    /// Say where a flow is pinned, and what is done with it there
    Show(FlowShowArgs),

    /// Pin all flows of a CSV file
    #[command(long_about = IMPORT_ABOUT)]
    Import(FlowImportArgs),

    /// Write all flows of the cluster to a CSV file
    #[command(long_about = EXPORT_ABOUT)]
    Export(FlowExportArgs),
}

const EXPORT_ABOUT: &str = "\
Writes all flows of the cluster to a CSV file that `flow import` reads, and a node whose configuration names it.

The node that is asked makes them of the cluster's log, a share of the flows at a time: no other node has to answer. Flows \
come in an order that depends on the cluster's secret, and is the same each time. What changes meanwhile is as it was before \
or after.";

const IMPORT_ABOUT: &str = "\
Pins all flows of a CSV file, whether they are there or not.

The whole file is read first: if a line cannot be used it is named with its number, and nothing is sent. Then the flows go \
out in calls of some thousands, several at a time, each accepted as a whole. A call that the cluster cannot take now is \
sent again, for a minute. Ctrl-C ends it when those under way are answered. However it ends, it says how many flows were \
accepted; to import the same file again does no harm.";

/// The name of a flow.
#[derive(Debug, Args)]
#[command(next_help_heading = "The flow")]
pub struct FlowName {
    /// Address of the UE
    #[arg(long, value_name = "ADDRESS")]
    pub ue: String,

    /// The rest of the five-tuple.
    #[command(flatten)]
    pub tuple: TupleArgs,
}

impl FlowName {
    /// The columns that name the flow.
    pub fn record(&self) -> FlowRecord {
        self.tuple.record(Some(&self.ue))
    }
}

/// The five-tuple of a flow without the UE's address.
#[derive(Debug, Args)]
pub struct TupleArgs {
    /// Where five-tuples are the keys: address of the remote end
    #[arg(long, value_name = "ADDRESS", requires = "ue")]
    pub remote: Option<String>,

    /// Port of the remote end
    #[arg(long, value_name = "PORT", requires = "remote")]
    pub remote_port: Option<String>,

    /// Port of the UE
    #[arg(long, value_name = "PORT", requires = "remote")]
    pub ue_port: Option<String>,

    /// tcp, udp or a number
    #[arg(long, value_name = "PROTOCOL", requires = "remote")]
    pub protocol: Option<String>,
}

impl TupleArgs {
    fn record(&self, ue: Option<&String>) -> FlowRecord {
        FlowRecord {
            ue: ue.into(),
            remote: self.remote.as_ref().into(),
            remote_port: self.remote_port.as_ref().into(),
            ue_port: self.ue_port.as_ref().into(),
            protocol: self.protocol.as_ref().into(),
            ..FlowRecord::default()
        }
    }
}

/// How a change is told.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// Wait until all living nodes have applied it
    #[arg(long)]
    pub wait: bool,

    /// The node to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// What `flow add` is told.
#[derive(Debug, Args)]
pub struct FlowAddArgs {
    /// The flow.
    #[command(flatten)]
    pub name: FlowName,

    /// Number of the handling node
    #[arg(long = "node", value_name = "N")]
    pub at: u16,

    /// Tunnel address of the base station
    #[arg(long, value_name = "ADDRESS")]
    pub base_station: String,

    /// The tunnel at the gateway's end, decimal or 0x...
    #[arg(long, value_name = "TEID")]
    pub uplink_teid: String,

    /// The tunnel at the base station's end, decimal or 0x...
    #[arg(long, value_name = "TEID")]
    pub downlink_teid: String,

    /// QoS flow, 0 to 63
    #[arg(long, value_name = "QFI")]
    pub qfi: Option<String>,

    /// How it is told.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What `flow del` is told.
#[derive(Debug, Args)]
pub struct FlowDelArgs {
    /// The flow.
    #[command(flatten)]
    pub name: FlowName,

    /// How it is told.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What `flow move` is told.
#[derive(Debug, Args)]
pub struct FlowMoveArgs {
    /// The flow.
    #[command(flatten)]
    pub name: FlowName,

    /// Number of the node that is to handle it
    #[arg(long = "node", value_name = "N")]
    pub at: u16,

    /// How it is told.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What `flow show` is told.
#[derive(Debug, Args)]
pub struct FlowShowArgs {
    /// Address of the UE
    #[arg(long, value_name = "ADDRESS", required_unless_present = "uplink_teid")]
    pub ue: Option<String>,

    /// The rest of the five-tuple.
    #[command(flatten)]
    pub tuple: TupleArgs,

    /// By its tunnel at the gateway's end, decimal or 0x...
    #[arg(long, value_name = "TEID", conflicts_with = "ue")]
    pub uplink_teid: Option<String>,

    /// The node to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

impl FlowShowArgs {
    /// The columns that name the flow.
    pub fn record(&self) -> FlowRecord {
        FlowRecord { uplink_teid: self.uplink_teid.as_ref().into(), ..self.tuple.record(self.ue.as_ref()) }
    }
}

/// What `flow import` is told.
#[derive(Debug, Args)]
pub struct FlowImportArgs {
    /// The file; docs/node.md has its columns
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The flows are not there yet, or keep their uplink TEIDs: do not look for what they replace, which takes longer
    #[arg(long)]
    pub new: bool,

    /// Calls under way at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub in_flight: u8,

    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,

    /// How it is told.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What `flow export` is told.
#[derive(Debug, Args)]
pub struct FlowExportArgs {
    /// The file, which is there whole or not at all; - is standard output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,

    /// The node to ask.
    #[command(flatten)]
    pub reach: ReachArgs,
}

impl FlowCommand {
    /// Whether no progress is to be shown.
    pub const fn is_quiet(&self) -> bool {
        matches!(
            self,
            Self::Import(FlowImportArgs { quiet: true, .. })
                | Self::Export(FlowExportArgs { quiet: true, .. })
        )
    }
}
