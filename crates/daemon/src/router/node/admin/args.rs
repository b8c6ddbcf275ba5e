//! Arguments of the commands that ask a node.

use clap::Args;
use scalebricks_admin::commands::AskArgs;

/// Arguments of `router routes`.
#[derive(Debug, Args)]
pub struct RoutesArgs {
    /// Only the route to this address
    #[arg(value_name = "ADDRESS", conflicts_with_all = ["after", "limit"])]
    pub address: Option<String>,

    /// Only prefixes behind this one
    #[arg(long, value_name = "PREFIX")]
    pub after: Option<String>,

    /// Most routes
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,

    /// The node.
    #[command(flatten)]
    pub ask: AskArgs,
}
