//! Arguments of the commands that ask a switch.

use clap::{Args, Subcommand};
use scalebricks_admin::commands::{AskArgs, ReachArgs};

/// Examples of `scalebricks switch names`.
pub const NAMES_EXAMPLES: &str = "\
Examples:
  scalebricks switch names add 02:00:00:00:07:01 'forward rack7'
  scalebricks switch names alter 02:00:00:00:07:01 drop
  scalebricks switch names remove 02:00:00:00:07:01 02:00:00:00:07:02
      Removes both, or neither.
  scalebricks switch names lookup 02:00:00:00:07:01
  scalebricks switch names list --socket /run/scalebricks/switch.sock > names.csv
  scalebricks switch names list --tcp switch2.example.net:9471 --ca ca.pem --token-file token

If names come from a file, changes last until the file is read again. If they come from a log, a change is accepted when the log \
holds it, and all switches that follow the log apply it.

Exit status:
  0 done    1 refused, or no switch answered    2 wrong usage";

/// Operations on names.
#[derive(Debug, Subcommand)]
pub enum NamesCommand {
    /// Add a new name
    Add(OneArgs),

    /// Change the action of a name
    Alter(OneArgs),

    /// Remove names
    Remove(RemoveArgs),

    /// List all names in the format of a names file
    List(ReachArgs),

    /// Show the action for frames with a name
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
    pub reach: ReachArgs,
}

/// Names.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The names, as in a file of names
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// The switch.
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// A name.
#[derive(Debug, Args)]
pub struct LookupArgs {
    /// The name, as in a file of names
    #[arg(value_name = "NAME")]
    pub name: String,

    /// The switch.
    #[command(flatten)]
    pub ask: AskArgs,
}
