//! Arguments of `cluster`.

use super::AskArgs;
use super::flow_args::ChangeArgs;
use clap::{Args, Subcommand};

/// Description of `scalebricks cluster`.
pub const CLUSTER_ABOUT: &str = "\
Shows the cluster as one of its nodes knows it, and drains, forgets and verifies nodes.";

/// Examples of `scalebricks cluster`.
pub const CLUSTER_EXAMPLES: &str = "\
Examples:
  scalebricks cluster status
  scalebricks cluster status --socket /run/scalebricks/node2.sock --json
  scalebricks cluster drain 2 --wait
      Node 2 gets no new flows, and its flows move to others. It stays a member, and forwards.
  scalebricks cluster undrain 2
      Node 2 may get flows again. Flows that moved away do not move back.
  scalebricks cluster forget 2
      Gives up node 2. Needed only if so many nodes died at once that the others give none up.
  scalebricks cluster standby 2 --to 3
      If node 2 dies or is drained, its flows move to node 3; with --to all (the default) to all others, evenly.
  scalebricks cluster verify
      Every living node compares its tables with the log, and reports differences.

Exit status:
  0 answered; done, and applied by all with --wait; no table differs
  1 failed, or a node did not answer    2 wrong usage    130 interrupted";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the members and the partitions that they own
    Status(AskArgs),

    /// Move the flows of a node to others, and give it no new ones
    Drain(ClusterDrainArgs),

    /// Let a drained node get flows again
    Undrain(ClusterNodeArgs),

    /// Give up a node that will not return in its present incarnation
    #[command(long_about = FORGET_ABOUT)]
    Forget(ClusterNodeArgs),

    /// Set the node that takes a node's flows when it dies or is drained
    Standby(ClusterStandbyArgs),

    /// Compare the tables of all living nodes with the log
    #[command(long_about = VERIFY_ABOUT)]
    Verify(ClusterVerifyArgs),
}

const FORGET_ABOUT: &str = "\
Gives up a node, even if the others have not detected that it is dead; its flows move to others. Nodes give up silent nodes by \
themselves, unless more than half are silent at once, which may be a failure of their own network. While a dead node may \
return with older software, all nodes use the protocol version that it knows.

A living node that is given up joins again in a new incarnation, without its flows.";

const VERIFY_ABOUT: &str = "\
Makes all living nodes compare their tables with the cluster's log: the GPT's answer for every key of the cluster, and the \
contents of the FIB. Each node computes the RIB from the log, a part of the keys at a time, while it forwards and applies updates.

Keys that change during the comparison are compared again. Keys that keep changing are skipped and counted. Differences:

  gpt-node     the GPT returns another node for a key
  fib-missing  a key that is pinned to the node is not in its FIB
  fib-value    the FIB holds another value for a key
  fib-surplus  the FIB holds a key that is not pinned to the node
  behind       the tables did not reach the log's position within five seconds";

/// Arguments of `cluster drain`.
#[derive(Debug, Args)]
pub struct ClusterDrainArgs {
    /// Number of the node to drain
    #[arg(value_name = "NODE")]
    pub drained: u16,

    /// Options of the change.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `cluster undrain` and `cluster forget`.
#[derive(Debug, Args)]
pub struct ClusterNodeArgs {
    /// Number of the node
    #[arg(value_name = "NODE")]
    pub number: u16,

    /// The node to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `cluster standby`.
#[derive(Debug, Args)]
pub struct ClusterStandbyArgs {
    /// Number of the node whose flows move
    #[arg(value_name = "NODE")]
    pub of: u16,

    /// The node that takes them, while it is alive and not drained: its number, or all
    #[arg(long, value_name = "NODE|all", value_parser = parse_standby)]
    pub to: StandbyArg,

    /// The node to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// The nodes that take a node's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandbyArg {
    /// All others.
    All,
    /// One of them.
    One(u16),
}

impl StandbyArg {
    /// The node; `None`: all others.
    pub const fn one(self) -> Option<u16> {
        match self {
            Self::All => None,
            Self::One(one) => Some(one),
        }
    }
}

/// Arguments of `cluster verify`.
#[derive(Debug, Args)]
pub struct ClusterVerifyArgs {
    /// Differences that each node lists; all are counted
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub differences: u32,

    /// Seconds in which nodes must answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub patience: u32,

    /// The node to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

fn parse_standby(text: &str) -> Result<StandbyArg, String> {
    match text {
        "all" => Ok(StandbyArg::All),
        number => {
            number.parse().map(StandbyArg::One).map_err(|_| "not 'all' or the number of a node".to_owned())
        }
    }
}
