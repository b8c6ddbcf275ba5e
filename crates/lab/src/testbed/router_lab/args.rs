//! The command line of `scalebricks lab router`.

use super::Scenario;
use crate::testbed::args::NameArgs;
use clap::Args;
use scalebricks_console::ResultArgs;
use std::path::PathBuf;

/// Arguments of `lab router`.
#[derive(Debug, Args)]
pub struct RouterArgs {
    /// Which lab
    #[command(flatten)]
    pub lab: NameArgs,

    /// The scenarios to check; all if none is named
    #[arg(value_name = "SCENARIO", value_enum, value_delimiter = ',')]
    pub scenarios: Vec<Scenario>,

    /// Smaller files, and fewer forms of each router
    #[arg(long)]
    pub quick: bool,

    /// Program of the NATS server that stores a cluster's log (`scripts/nats.sh path` prints one); without it, there is no cluster
    #[arg(long, value_name = "PROGRAM")]
    pub nats_server: Option<PathBuf>,

    /// What is printed, and a file for it.
    #[command(flatten)]
    pub result: ResultArgs,

    /// Directory for logs and captures if a check fails
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,

    /// Install programs that are missing, with apt-get
    #[arg(long)]
    pub install: bool,

    /// Print only the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}
