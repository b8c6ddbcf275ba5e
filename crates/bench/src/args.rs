//! The command line of `scalebricks-bench`.

use crate::contestants::{Structure, native};
use crate::error::BenchError;
use crate::figures::concise::Part;
use crate::kinds::MEASURED;
use crate::options::Options;
use crate::timing::Clock;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use scalebricks_console::quantity::{self, QuantityError};
use scalebricks_tables::isa::Isa;
use scalebricks_tables::setsep::Format;
use std::path::PathBuf;

/// What runs them all.
pub const ALL: &str = "all";

/// The benchmarks there are, in the order in which `all` runs them, and `all`.
pub const NAMES: [&str; 13] = [
    "setsep-build",
    "setsep-lookup",
    "setsep-update",
    "othello-update",
    "concise",
    "choice",
    "setsep-space",
    "fib",
    "setsep-figures",
    "capacity",
    "gateway",
    "control",
    ALL,
];

/// Most keys of a benchmark.
const MAX_KEYS: u64 = 1_000_000_000;

/// Most keys a call.
const MAX_BATCH: u64 = 1 << 20;

/// Most threads.
const MAX_THREADS: u64 = 1024;

/// Most runs.
const MAX_RUNS: u64 = 1000;

/// Most nodes.
const MAX_NODES: u64 = 256;

/// Longest run.
const MAX_SECONDS: u64 = 3600;

/// Most bits of a value, of all benchmarks but one.
const MAX_VALUE_BITS: u8 = 8;

/// The one that takes as many as Othello.
const CONCISE: &str = "concise";

/// The command, in a few sentences.
pub const ABOUT: &str = "\
Measures the tables of ScaleBricks and the structures one might use in their place, in one process and in turn, on huge \
pages and pinned threads, and checks every answer. Each figure is the median of five runs (three with --quick), with \
the least and the most beside it. docs/benchmarks.md says how each is measured.

  setsep-build    keys a second, from keys and values to a table
  setsep-lookup   keys a second, each key asked for once in random order
  setsep-update   changes, inserts and deletes a second beside a reader, and ten full turnovers
  setsep-space    bits a key, fallback keys, fullest group
  fib             the exact table: lookups and inserts at 95 % load
  othello-update  the same of Othello, in four sizings, with bits a key
  concise         the figures and tables of the Concise paper, run again; --part chooses
  choice          SetSep, Othello or a full copy: memory, lookups, changes, by flows and nodes
  setsep-figures  the SetSep figures and tables of the paper, run again
  capacity        flows that fit in a cluster, by nodes
  gateway         one node alone by stage, latencies by load, packets a second through a cluster
  control         the control plane: updates a second, recovery of a dead node's flows, joining
  all             all of them";

/// What `--structure` takes.
const STRUCTURES: &str = "Structure to measure: setsep, othello, full-copy, cuckoo, hashbrown, ptr_hash, sux, efd or rte_hash [default: all]";

/// Examples and exit statuses.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks-bench all --quick --json out/bench.json
      Everything in small: less than ten minutes on two cores.
  scalebricks-bench setsep-lookup --keys 1M,16M --value-bits 2 --batch 1,8,17,32,64,256
      How much a batch is worth.
  scalebricks-bench setsep-build --format paper,linear --threads 1,2 --structure setsep
      Two formats, one and two threads, without the others.
  scalebricks-bench setsep-update --keys 16M --svg out
      With a picture for each kind of rate.
  scalebricks-bench concise --part figure-3,figure-8 --keys 1M,16M --value-bits 2
      Two figures of the Concise paper, for these sizes.
  scalebricks-bench control --flows 100k --nodes 1,4 --seconds 5 --directory /var/lib/scalebricks
      Nodes in one process over a log on that disk.
  scalebricks-bench control --quick --nats nats://127.0.0.1:4222
      The same over three NATS servers.
  scalebricks-bench choice --page choosing
      For docs/choosing.md: kept in docs/data, and shown in the page beside other processors.
  scalebricks-bench pages --check
      Whether all pages are what the data in docs/data make of them.

Exit status:
  0 measured, all answers right    1 a wrong answer, or the run failed
  2 wrong usage                    130 interrupted";

/// What is done with what was measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Write README.md, the pages of docs and their pictures anew from docs/data, without measuring
    Pages {
        /// Write nothing: say what differs from what the data make, and which data no page may show
        #[arg(long)]
        check: bool,
    },
}

/// What a benchmark can be asked for.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Benchmarks to run
    #[arg(value_name = "NAME", required = true, value_parser = PossibleValuesParser::new(NAMES))]
    pub names: Vec<String>,

    /// Keys in a table, flows of a gateway or a cluster, as in 1M or 250k [default: by benchmark]
    #[arg(long, visible_alias = "flows", value_name = "N", value_delimiter = ',', value_parser = parse_keys)]
    pub keys: Vec<u64>,

    /// Bits of a value, 1 to 8, of concise 1 to 16 [default: by benchmark]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=16))]
    pub value_bits: Vec<u8>,

    /// Group format of SetSep [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_format)]
    pub format: Vec<Format>,

    /// Threads that do what is timed [default: 1 and 2 for lookups and builds, else 1]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_threads)]
    pub threads: Vec<usize>,

    /// Keys a call [default: 1, 32, 64 and 1024; for updates 65536]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_batch)]
    pub batch: Vec<usize>,

    /// Structure to measure [default: all there are]
    #[arg(long, help = STRUCTURES, value_name = "NAME", value_delimiter = ',', value_parser = parse_structure)]
    pub structure: Vec<Structure>,

    /// Instructions SetSep may use: portable, avx2, avx512 or avx512-gfni [default: the best there are]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_isa)]
    pub isa: Vec<Isa>,

    /// Nodes of a control plane [default: 1,2,4; with --quick 1,4]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_nodes)]
    pub nodes: Vec<usize>,

    /// Runs of each measurement [default: 5; with --quick 3]
    #[arg(long, value_name = "N", value_parser = parse_runs)]
    pub runs: Option<usize>,

    /// Seconds of one run of a control plane [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    pub seconds: Option<u64>,

    /// Directory on the disk that a control plane's log is to be on [default: that of temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// NATS servers that keep a control plane's log instead: nats://HOST:PORT,… with JetStream (scripts/nats.sh starts three). What
    /// is written there stays
    #[arg(long, value_name = "SERVERS", value_delimiter = ',')]
    pub nats: Vec<String>,

    /// What single threads are timed by: the wall clock, or the time they had a core, on a machine that others use
    #[arg(long, value_name = "CLOCK", default_value = "wall", value_parser = PossibleValuesParser::new(["wall", "cpu"]))]
    pub clock: String,

    /// Part of concise: table-1 to table-3, figure-3 to figure-9, reconstruction, figure-12, balancer or goals [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_part)]
    pub part: Vec<Part>,

    /// Capture whose gaps between packets concise simulates queues with [default: a packet each 1,003 ns, as in the sample capture]
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,

    /// Small tables and three runs
    #[arg(long)]
    pub quick: bool,

    /// Where the results go as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Directory for a picture of each benchmark's rates
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,

    /// Keep the results in docs/data for the pages that show them, and write these anew: tables, choosing, figures,
    /// concise-figures, gateway-figures or control. Refused with changed sources, --quick or fewer than three runs
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(MEASURED.map(|kind| kind.name)))]
    pub page: Option<String>,

    /// With --page: replace data that another command measured, for instance with more sizes. Without, that is refused
    #[arg(long, requires = "page")]
    pub replace: bool,

    /// Tell nothing but the results and errors
    #[arg(long, short)]
    pub quiet: bool,
}

impl BenchArgs {
    /// What was asked for.
    pub fn options(&self) -> Options {
        Options {
            keys: some(&self.keys),
            value_bits: some(&self.value_bits),
            formats: some(&self.format),
            threads: some(&self.threads),
            batches: some(&self.batch),
            isas: some(&self.isa),
            structures: some(&self.structure),
            nodes: some(&self.nodes),
            runs: self.runs,
            seconds: self.seconds,
            directory: self.directory.clone(),
            nats: self.nats.clone(),
            parts: some(&self.part),
            capture: self.capture.clone(),
            quick: self.quick,
        }
    }

    /// Whether this benchmark is to run.
    pub fn wants(&self, name: &str) -> bool {
        self.names.iter().any(|wanted| wanted == name || wanted == ALL)
    }

    /// What single threads are timed by.
    pub fn clock(&self) -> Clock {
        if self.clock == "cpu" { Clock::Cpu } else { Clock::Wall }
    }

    /// Refuses what this machine or this binary cannot do.
    ///
    /// # Errors
    /// [`BenchError::Usage`].
    pub fn validate(&self) -> Result<(), BenchError> {
        if let Some(isa) = self.isa.iter().find(|isa| !isa.is_available()) {
            let there: Vec<_> = Isa::available().map(Isa::name).collect();
            return Err(BenchError::Usage(format!(
                "this processor lacks {isa}; it has {}",
                there.join(", ")
            )));
        }
        if let Some(bits) = self.value_bits.iter().find(|&&bits| bits > MAX_VALUE_BITS)
            && self.names.iter().any(|name| name != CONCISE)
        {
            return Err(BenchError::Usage(format!(
                "--value-bits: {bits} is not in 1..={MAX_VALUE_BITS}, which all but {CONCISE} take"
            )));
        }
        if let Some(structure) = self.structure.iter().find(|structure| !structure.is_built_in()) {
            return Err(BenchError::Usage(structure.missing()));
        }
        if self.page.is_some() && cfg!(feature = "peers") && !native::is_native() {
            let (what, how) =
                (native::compiled_for(), "scripts/bench.sh compiles it for the processor it runs on");
            return Err(BenchError::Usage(format!(
                "--page: this binary was {what}, which handicaps others: {how}"
            )));
        }
        Ok(())
    }
}

/// Nothing said is `None`.
fn some<T: Clone>(given: &[T]) -> Option<Vec<T>> {
    (!given.is_empty()).then(|| given.to_vec())
}

fn parse_keys(text: &str) -> Result<u64, QuantityError> {
    quantity::parse(text, 1..=MAX_KEYS)
}

fn parse_threads(text: &str) -> Result<usize, QuantityError> {
    quantity::parse(text, 1..=MAX_THREADS).map(|threads| threads as usize) // at most MAX_THREADS
}

fn parse_nodes(text: &str) -> Result<usize, QuantityError> {
    quantity::parse(text, 1..=MAX_NODES).map(|nodes| nodes as usize) // at most MAX_NODES
}

fn parse_runs(text: &str) -> Result<usize, QuantityError> {
    quantity::parse(text, 1..=MAX_RUNS).map(|runs| runs as usize) // at most MAX_RUNS
}

fn parse_batch(text: &str) -> Result<usize, QuantityError> {
    quantity::parse(text, 1..=MAX_BATCH).map(|keys| keys as usize) // at most MAX_BATCH
}

fn parse_format(text: &str) -> Result<Format, String> {
    Format::from_name(text).ok_or_else(|| {
        let names: Vec<_> = Format::ALL.into_iter().map(Format::name).collect();
        format!("there is no such format: choose {}", names.join(", "))
    })
}

fn parse_structure(text: &str) -> Result<Structure, String> {
    Structure::from_name(text).ok_or_else(|| {
        let names: Vec<_> = Structure::ALL.into_iter().map(Structure::name).collect();
        format!("there is no such structure: choose {}", names.join(", "))
    })
}

fn parse_part(text: &str) -> Result<Part, String> {
    Part::from_name(text).ok_or_else(|| {
        let names: Vec<_> = Part::ALL.into_iter().map(Part::name).collect();
        format!("there is no such part: choose {}", names.join(", "))
    })
}

fn parse_isa(text: &str) -> Result<Isa, String> {
    Isa::from_name(text).ok_or_else(|| {
        let names: Vec<_> = Isa::ALL.into_iter().map(Isa::name).collect();
        format!("there are no such instructions: choose {}", names.join(", "))
    })
}
