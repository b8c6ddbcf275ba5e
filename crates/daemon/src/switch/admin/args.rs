//! What the commands that ask a switch are told.

use clap::{Args, Subcommand};
use scalebricks_admin::commands::RemoteArgs;
use std::path::PathBuf;

/// Examples of `scalebricks switch names`.
pub const NAMES_EXAMPLES: &str = "\
Examples:
  scalebricks switch names add 02:00:00:00:07:01 'forward rack7'
  scalebricks switch names alter 02:00:00:00:07:01 drop
  scalebricks switch names remove 02:00:00:00:07:01 02:00:00:00:07:02
      Both are there and go, or neither.
  scalebricks switch names lookup 02:00:00:00:07:01
  scalebricks switch names list --socket /run/scalebricks/switch.sock > names.csv
  scalebricks switch names list --tcp switch2.example.net:9471 --ca ca.pem --token-file token

Where names come from a file, changes last until it is read again. Where they come from a log, they are accepted when the log has \
them, and all switches that follow it make them.

Exit status:
  0 done    1 refused, or no switch answered    2 wrong usage";

/// Where a switch is reached.
#[derive(Debug, Clone, Args)]
pub struct Reach {
    /// Its admin socket [default: the only /run/scalebricks/switch*.sock that answers]
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    pub socket: Option<PathBuf>,

    /// Elsewhere.
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// What `status` is told.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// As JSON; with --watch a line each time
    #[arg(long)]
    pub json: bool,

    /// Again every so many seconds, with rates, until Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub watch: Option<u32>,

    /// The switch.
    #[command(flatten)]
    pub reach: Reach,
}

/// What is done with names.
#[derive(Debug, Subcommand)]
pub enum NamesCommand {
    /// Add a name that is not there
    Add(OneArgs),

    /// Give a name that is there another action
    Alter(OneArgs),

    /// Take names out that are there
    Remove(RemoveArgs),

    /// List all names, as a file has them
    List(ListArgs),

    /// Say what becomes of frames with a name
    Lookup(LookupArgs),
}

/// A name and its action.
#[derive(Debug, Args)]
pub struct OneArgs {
    /// The name, as in a file of names
    #[arg(value_name = "NAME")]
    pub name: String,

    /// 'forward PORT', 'route PORT NEXT-HOP-MAC SOURCE-MAC', 'drop' or 'flood'
    #[arg(value_name = "ACTION", required = true, num_args = 1..=4)]
    pub action: Vec<String>,

    /// The switch.
    #[command(flatten)]
    pub reach: Reach,
}

/// Names.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The names, as in a file of names
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// The switch.
    #[command(flatten)]
    pub reach: Reach,
}

/// What `list` is told.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The switch.
    #[command(flatten)]
    pub reach: Reach,
}

/// A name.
#[derive(Debug, Args)]
pub struct LookupArgs {
    /// The name, as in a file of names
    #[arg(value_name = "NAME")]
    pub name: String,

    /// As JSON
    #[arg(long)]
    pub json: bool,

    /// The switch.
    #[command(flatten)]
    pub reach: Reach,
}
