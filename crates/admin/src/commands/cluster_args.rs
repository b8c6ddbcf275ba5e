//! What `cluster` is told.

use super::AskArgs;
use super::flow_args::ChangeArgs;
use clap::{Args, Subcommand};

/// What `scalebricks cluster` does.
pub const CLUSTER_ABOUT: &str = "\
The cluster as one of its nodes knows it, and what is done with a node as a whole.";

/// Examples of `scalebricks cluster`.
pub const CLUSTER_EXAMPLES: &str = "\
Examples:
  scalebricks cluster status
  scalebricks cluster status --socket /run/scalebricks/node2.sock --json
  scalebricks cluster drain 2 --wait
      Node 2 gets no flows any more, and those it has go to others. It stays a member, and forwards.
  scalebricks cluster undrain 2
      It may get flows again. Those that went stay where they are.
  scalebricks cluster forget 2
      Node 2 does not come back as it was. For when so many died at once that the rest gives nobody up.
  scalebricks cluster standby 2 --to 3
      When node 2 dies or is drained its flows go to node 3 alone; with --to all to all others, evenly, as at first.
  scalebricks cluster verify
      Every living node compares its tables with the log, and says where they differ.

Exit status:
  0 it answered; done, and applied by all with --wait; no table differs
  1 not, or a node did not answer    2 wrong usage    130 interrupted";

/// What can be done with the cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Say who is in the cluster and owns what, as the node knows it
    Status(AskArgs),

    /// Let a node get no flows any more, and pin those it has to others
    Drain(ClusterDrainArgs),

    /// Let a drained node get flows again
    Undrain(ClusterNodeArgs),

    /// Give up a node that does not come back as it was
    #[command(long_about = FORGET_ABOUT)]
    Forget(ClusterNodeArgs),

    /// Set who takes a node's flows when it dies or is drained
    Standby(ClusterStandbyArgs),

    /// Compare the tables of all living nodes with the log
    #[command(long_about = VERIFY_ABOUT)]
    Verify(ClusterVerifyArgs),
}

const FORGET_ABOUT: &str = "\
Gives a node up, whether the others can tell that it is dead or not; its flows go to others. Nodes give up by themselves whom they \
do not hear, unless more than half are silent at once: that may be a cut of their own. And as long as a dead node may come \
back with older software, all speak what that one knows.

A node that lives comes back by itself, in another life, with its flows elsewhere.";

const VERIFY_ABOUT: &str = "\
Has all living nodes compare their tables with the cluster's log: what the GPT answers for every key of the cluster, and what \
the FIB holds. Each makes the RIB of the log itself, a share of the keys at a time, while it forwards and takes updates.

Keys that change while they are looked at are looked at again, and left out at last, and counted. What differs:

  gpt-node     the GPT names another node for a key
  fib-missing  a key that is pinned to the node is not in its FIB
  fib-value    the FIB holds another value for a key
  fib-surplus  the FIB holds a key that is not pinned to the node
  behind       the tables did not come to where the log was, within five seconds";

/// What `cluster drain` is told.
#[derive(Debug, Args)]
pub struct ClusterDrainArgs {
    /// Number of the node to be emptied
    #[arg(value_name = "NODE")]
    pub drained: u16,

    /// How it is told.
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

/// What `cluster standby` is told.
#[derive(Debug, Args)]
pub struct ClusterStandbyArgs {
    /// Number of the node whose flows are meant
    #[arg(value_name = "NODE")]
    pub of: u16,

    /// Who takes them, while it is alive and not drained: the number of a node, or all
    #[arg(long, value_name = "NODE|all", value_parser = parse_standby)]
    pub to: StandbyArg,

    /// The node to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Who takes a node's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandbyArg {
    /// All others.
    All,
    /// One of them.
    One(u16),
}

impl StandbyArg {
    /// The one, if it is one.
    pub const fn one(self) -> Option<u16> {
        match self {
            Self::All => None,
            Self::One(one) => Some(one),
        }
    }
}

/// What `cluster verify` is told.
#[derive(Debug, Args)]
pub struct ClusterVerifyArgs {
    /// Differences that each node names; all are counted
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub differences: u32,

    /// Seconds in which nodes have to answer
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
            number.parse().map(StandbyArg::One).map_err(|_| "not all, nor the number of a node".to_owned())
        }
    }
}
