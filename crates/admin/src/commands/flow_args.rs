//! Arguments of `flow`.

use super::{AskArgs, ReachArgs};
use crate::model::FlowRecord;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Description of `scalebricks flow`.
pub const FLOW_ABOUT: &str = "\
Pins flows to nodes, through the control plane of any node of the cluster. An accepted change is in the cluster's log, and all \
nodes will apply it; --wait returns when they have.

A flow is named by its UE's address if UE addresses are the keys (key = \"ue\" in node.toml), else by its five-tuple.";

/// Examples of `scalebricks flow`.
pub const FLOW_EXAMPLES: &str = "\
Examples:
  scalebricks flow add --ue 10.45.0.7 --node 2 --base-station 10.9.0.1 --uplink-teid 0x10007 --downlink-teid 0x20007 --wait
  scalebricks flow move --ue 10.45.0.7 --node 3
  scalebricks flow show --ue 10.45.0.7 --remote 192.0.2.1 --remote-port 53 --ue-port 4000 --protocol udp
  scalebricks flow show --uplink-teid 0x10007 --json
  scalebricks flow del --ue 10.45.0.7
  scalebricks flow import flows.csv
      Pins all flows of a flow file, which may have millions.
  scalebricks flow export flows.csv
  scalebricks flow export - | gzip > flows.csv.gz

Exit status:
  0 accepted, and applied by all with --wait; exported    1 failed    2 wrong usage    130 interrupted";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Pin a flow to a node, whether it exists or not
    Add(FlowAddArgs),

    /// Delete a flow
    Del(FlowDelArgs),

    /// Pin an existing flow to another node
    Move(FlowMoveArgs),

    /// Show where a flow is pinned, and its counters
    Show(FlowShowArgs),

    /// Pin all flows of a CSV file
    #[command(long_about = IMPORT_ABOUT)]
    Import(FlowImportArgs),

    /// Write all flows of the cluster to a CSV file
    #[command(long_about = EXPORT_ABOUT)]
    Export(FlowExportArgs),
}

const EXPORT_ABOUT: &str = "\
Writes all flows of the cluster to a CSV file. `flow import` reads such files, and nodes whose configuration names one.

The asked node computes the flows from the cluster's log, a part at a time: no other node has to answer. The order of the flows \
depends on the cluster's secret, and is the same each time. A flow that changes during the export is written as it was before \
or after the change.";

const IMPORT_ABOUT: &str = "\
Pins all flows of a CSV file, whether they exist or not.

The whole file is checked first: bad lines are listed with their numbers, and nothing is sent. Then the flows are sent in calls \
of some thousands, several at a time. A call that the cluster cannot accept now is retried for a minute. Ctrl-C ends the \
import after the calls in flight. At its end it reports how many flows were accepted. Importing the same file again is \
harmless.";

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

/// Options of a change.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// Wait until all living nodes have applied the change
    #[arg(long)]
    pub wait: bool,

    /// The node to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `flow add`.
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

    /// TEID at the gateway, decimal or 0x...
    #[arg(long, value_name = "TEID")]
    pub uplink_teid: String,

    /// TEID at the base station, decimal or 0x...
    #[arg(long, value_name = "TEID")]
    pub downlink_teid: String,

    /// QoS flow, 0 to 63
    #[arg(long, value_name = "QFI")]
    pub qfi: Option<String>,

    /// Options of the change.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `flow del`.
#[derive(Debug, Args)]
pub struct FlowDelArgs {
    /// The flow.
    #[command(flatten)]
    pub name: FlowName,

    /// Options of the change.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `flow move`.
#[derive(Debug, Args)]
pub struct FlowMoveArgs {
    /// The flow.
    #[command(flatten)]
    pub name: FlowName,

    /// Number of the new handling node
    #[arg(long = "node", value_name = "N")]
    pub at: u16,

    /// Options of the change.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `flow show`.
#[derive(Debug, Args)]
pub struct FlowShowArgs {
    /// Address of the UE
    #[arg(long, value_name = "ADDRESS", required_unless_present = "uplink_teid")]
    pub ue: Option<String>,

    /// The rest of the five-tuple.
    #[command(flatten)]
    pub tuple: TupleArgs,

    /// TEID at the gateway instead of all others, decimal or 0x...
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

/// Arguments of `flow import`.
#[derive(Debug, Args)]
pub struct FlowImportArgs {
    /// The file; its columns are in docs/node.md
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The flows are new or keep their uplink TEIDs: skip the lookup of the flows that they replace, which takes longer
    #[arg(long)]
    pub new: bool,

    /// Calls in flight
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub in_flight: u8,

    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,

    /// Options of the change.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `flow export`.
#[derive(Debug, Args)]
pub struct FlowExportArgs {
    /// The file, written completely or not at all; - is standard output
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
    /// Whether progress is hidden.
    pub const fn is_quiet(&self) -> bool {
        matches!(
            self,
            Self::Import(FlowImportArgs { quiet: true, .. })
                | Self::Export(FlowExportArgs { quiet: true, .. })
        )
    }
}
