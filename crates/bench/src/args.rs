//! The command line of `scalebricks-bench`.

use crate::error::BenchError;
use crate::kinds::MEASURED;
use crate::options::Options;
use crate::structures::native;
use crate::timing::Clock;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use scalebricks_console::ResultArgs;
use scalebricks_tables::isa::Isa;
use std::path::PathBuf;

/// Selects all benchmarks.
pub const ALL: &str = "all";

/// The benchmarks in the order in which `all` runs them, and `all`.
pub const NAMES: [&str; 19] = [
    "setsep-build",
    "setsep-lookup",
    "turned-over",
    "setsep-update",
    "othello-update",
    "concise",
    "choice",
    "setsep-space",
    "scale",
    "fib",
    "lpm",
    "dhash",
    "setsep-figures",
    "capacity",
    "router",
    "cluster-scale",
    "gateway",
    "control",
    ALL,
];

/// Maximum bits per value for every benchmark but `concise`.
const MAX_VALUE_BITS: u8 = 8;

/// The benchmark that takes as many value bits as Othello.
const CONCISE: &str = "concise";

/// What the command does and which benchmarks there are.
pub const ABOUT: &str = "\
Measures the tables of ScaleBricks and the structures that could replace them. All of them run in one process, take \
turns, use huge pages and pinned threads, and every answer is checked. Each figure is the median of five runs (three \
with --quick), with the minimum and maximum beside it. docs/benchmarks.md describes each measurement.

  setsep-build    keys per second when a table is built from keys and values
  setsep-lookup   keys per second, each key looked up once in random order
  turned-over     the same in tables all of whose values were changed; Othello at SetSep's bytes, and with checksums
  setsep-update   changes, inserts and deletes per second with a concurrent reader, and ten full turnovers
  setsep-space    bits per key, fallback keys, fullest group
  scale           tables of up to a billion keys, built, looked up and changed one partition at a time
  fib             the exact table: lookups and inserts at 95 % load
  lpm             longest-prefix match on full BGP tables: load, lookups and updates
  dhash           reproduces tables of the DHash paper: sessions that packets add, find and delete, beside other tables
  othello-update  the updates of Othello, in four sizings, with bits per key
  concise         reproduces figures and tables of the Concise paper; --part selects some
  choice          SetSep, Othello or a full copy: memory, lookups and changes by flows and nodes
  setsep-figures  reproduces the SetSep figures and tables of the ScaleBricks paper
  capacity        flows that fit in a cluster, by nodes
  router          reproduces RouteBricks' experiments: one server and four nodes, packets from memory; --part selects some
  cluster-scale   64 nodes in this process with 16 M flows, and with one partition of 64 that has as many
  gateway         one node by stage, latencies by load, packets per second through a cluster
  control         the control plane: updates per second, recovery of a dead node's flows, joining
  all             all of them";

/// Examples and exit statuses of the help text.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks-bench all --quick --json-file out/bench.json
      All benchmarks at small sizes: less than ten minutes on two cores.
  scalebricks-bench setsep-lookup --keys 1M,16M --value-bits 2 --batch 1,8,17,32,64,256
      Compare batch sizes.
  scalebricks-bench turned-over fib --keys 1M,16M --also turned-over=64M,fib=8M
      Measure each benchmark with one size more.
  scalebricks-bench setsep-build --format paper,linear --threads 1,2 --structure setsep
      Build SetSep in two formats with one and two threads.
  scalebricks-bench setsep-update --keys 16M --svg out
      Also draw one picture per kind of rate.
  scalebricks-bench concise --part figure-3,figure-8 --keys 1M,16M --value-bits 2
      Reproduce two figures of the Concise paper for these sizes.
  scalebricks-bench control --flows 100k --nodes 1,4 --seconds 5 --directory /var/lib/scalebricks
      Run the nodes in one process, with their log on that disk.
  scalebricks-bench control --quick --nats nats://127.0.0.1:4222
      Use three NATS servers instead.
  scalebricks-bench choice --page choosing
      Store the results in docs/data and show them in docs/choosing.md beside those of other processors.
  scalebricks-bench pages --check
      Check that all pages match the data in docs/data.
  scalebricks-bench lpm --routes bgp-ipv4.txt.gz,bgp-ipv6.mrt.gz --batch 64
      Compare tables for longest-prefix match on two BGP tables.

Exit status:
  0 measured, all answers correct  1 a wrong answer, or the run failed
  2 wrong usage                    130 interrupted";

/// Commands that use stored results.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Regenerate README.md, the pages of docs and their pictures from docs/data, without measuring
    Pages {
        /// Write nothing: report what differs from the data, and which data no page may show
        #[arg(long)]
        check: bool,
    },
    /// Build SetSep tables on an NVIDIA GPU and compare them with the processor's
    #[cfg(feature = "cuda")]
    GpuBuild(crate::gpu::GpuBuild),
    /// Forward packets by one router and time nothing, for scripts/instructions
    #[command(hide = true)]
    Count {
        /// What it does
        work: String,
        /// Its name
        by: String,
        /// Packets
        packets: usize,
        /// Only let them pass through its ports
        #[arg(long)]
        ports: bool,
    },
}

/// Arguments of a measurement.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Benchmarks to run
    #[arg(value_name = "NAME", required = true, value_parser = PossibleValuesParser::new(NAMES))]
    pub names: Vec<String>,

    /// Options of the benchmarks.
    #[command(flatten)]
    pub options: Options,

    /// Clock that times single threads: wall for elapsed time, cpu for CPU time on a shared machine
    #[arg(long, value_name = "CLOCK", default_value = "wall", value_parser = PossibleValuesParser::new(["wall", "cpu"]))]
    pub clock: String,

    /// What is printed, and a file for it.
    #[command(flatten)]
    pub result: ResultArgs,

    /// Directory for a picture of the rates of each benchmark
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,

    /// Store the results in docs/data and regenerate the pages that show them. KIND is tables, choosing,
    /// figures, concise-figures, gateway-figures, router-figures, dhash-figures or control. Refused with changed sources, with --quick and
    /// with fewer than three runs
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(MEASURED.map(|kind| kind.name)))]
    pub page: Option<String>,

    /// With --page: replace data that another command measured, for instance with more sizes. Refused without
    /// this option
    #[arg(long, requires = "page")]
    pub replace: bool,

    /// Print results and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

impl BenchArgs {
    /// Whether to run this benchmark.
    pub fn wants(&self, name: &str) -> bool {
        self.names.iter().any(|wanted| wanted == name || wanted == ALL)
    }

    /// The clock that times single threads.
    pub fn clock(&self) -> Clock {
        if self.clock == "cpu" { Clock::Cpu } else { Clock::Wall }
    }

    /// Rejects options that this machine or this binary does not support.
    ///
    /// # Errors
    /// [`BenchError::Usage`].
    pub fn validate(&self) -> Result<(), BenchError> {
        let Options { isas, value_bits, structures, also, .. } = &self.options;
        if let Some((name, _)) = also.iter().find(|(name, _)| name == ALL || !self.wants(name)) {
            return Err(BenchError::Usage(format!("--also: this command does not run '{name}'")));
        }
        if let Some(isa) = isas.iter().flatten().find(|isa| !isa.is_available()) {
            let there: Vec<_> = Isa::available().map(Isa::name).collect();
            return Err(BenchError::Usage(format!(
                "this processor lacks {isa}; it has {}",
                there.join(", ")
            )));
        }
        if let Some(bits) = value_bits.iter().flatten().find(|&&bits| bits > MAX_VALUE_BITS)
            && self.names.iter().any(|name| name != CONCISE)
        {
            return Err(BenchError::Usage(format!(
                "--value-bits: {bits} is not in 1..={MAX_VALUE_BITS}, which all but {CONCISE} take"
            )));
        }
        if let Some(structure) = structures.iter().flatten().find(|structure| !structure.is_built_in()) {
            return Err(BenchError::Usage(structure.missing()));
        }
        if self.page.is_some() && !self.options.quick && cfg!(feature = "peers") && !native::is_native() {
            let (what, how) =
                (native::compiled_for(), "scripts/bench.sh compiles it for the processor it runs on");
            return Err(BenchError::Usage(format!(
                "--page: this binary was {what}, which handicaps others: {how}"
            )));
        }
        Ok(())
    }
}
