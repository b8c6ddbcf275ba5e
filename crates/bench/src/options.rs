//! What was asked for, checked, with what each benchmark takes where nothing was said.

use crate::figures::concise::Part;
use crate::pin;
use crate::structures::Structure;
use clap::Args;
use scalebricks_console::quantity::{self, QuantityError};
use scalebricks_tables::isa::Isa;
use scalebricks_tables::setsep::Format;
use std::path::PathBuf;
use std::time::Duration;

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

/// What `--structure` takes.
const STRUCTURES: &str = "Structure to measure: setsep, othello, full-copy, cuckoo, hashbrown, ptr_hash, sux, efd or rte_hash [default: all]";

/// What was asked for. `None` leaves the choice to the benchmark.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// Keys in a table, flows of a gateway or a cluster, as in 1M or 250k [default: by benchmark]
    #[arg(long, visible_alias = "flows", value_name = "N", value_delimiter = ',', value_parser = count::<MAX_KEYS>)]
    pub keys: Option<Vec<u64>>,

    /// Bits of a value, 1 to 8, of concise 1 to 16 [default: by benchmark]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=16))]
    pub value_bits: Option<Vec<u8>>,

    /// Group format of SetSep [default: all]
    #[arg(long = "format", value_name = "NAME", value_delimiter = ',', value_parser = named(Format::ALL, Format::name))]
    pub formats: Option<Vec<Format>>,

    /// Threads that do what is timed [default: 1 and 2 for lookups and builds, else 1]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = size::<MAX_THREADS>)]
    pub threads: Option<Vec<usize>>,

    /// Keys a call [default: 1, 32, 64 and 1024; for updates 65536]
    #[arg(long = "batch", value_name = "N", value_delimiter = ',', value_parser = size::<MAX_BATCH>)]
    pub batches: Option<Vec<usize>>,

    /// Structure to measure [default: all there are]
    #[arg(long = "structure", help = STRUCTURES, value_name = "NAME", value_delimiter = ',', value_parser = named(Structure::ALL, Structure::name))]
    pub structures: Option<Vec<Structure>>,

    /// Instructions SetSep may use: portable, avx2, avx512 or avx512-gfni [default: the best there are]
    #[arg(long = "isa", value_name = "NAME", value_delimiter = ',', value_parser = named(Isa::ALL, Isa::name))]
    pub isas: Option<Vec<Isa>>,

    /// Nodes of a control plane [default: 1,2,4; with --quick 1,4]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = size::<MAX_NODES>)]
    pub nodes: Option<Vec<usize>>,

    /// Runs of each measurement [default: 5; with --quick 3]
    #[arg(long, value_name = "N", value_parser = size::<MAX_RUNS>)]
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

    /// Part of concise: table-1 to table-3, figure-3 to figure-9, reconstruction, figure-12, balancer or goals [default: all]
    #[arg(long = "part", value_name = "NAME", value_delimiter = ',', value_parser = Part::parse)]
    pub parts: Option<Vec<Part>>,

    /// Capture whose gaps between packets concise simulates queues with [default: a packet each 1,003 ns, as in the sample capture]
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,

    /// Small tables and three runs
    #[arg(long)]
    pub quick: bool,
}

impl Options {
    /// Runs of each measurement.
    pub fn runs(&self) -> usize {
        self.runs.unwrap_or(if self.quick { 3 } else { 5 })
    }

    /// How long a run lasts that lasts as long as it is told to.
    pub fn run_time(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 1 } else { 3 }))
    }

    /// Where files are made.
    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// The numbers of nodes asked for, else one of these lists.
    pub fn nodes(&self, quick: &[usize], full: &[usize]) -> Vec<usize> {
        self.nodes.clone().unwrap_or_else(|| self.pick(quick, full).to_vec())
    }

    /// One of two, by whether the run is to be quick.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The sizes asked for, else one of these lists.
    pub fn keys(&self, quick: &[u64], full: &[u64]) -> Vec<u64> {
        self.keys.clone().unwrap_or_else(|| self.pick(quick, full).to_vec())
    }

    /// The value bits asked for, else one of these lists.
    pub fn value_bits(&self, quick: &[u8], full: &[u8]) -> Vec<u8> {
        self.value_bits.clone().unwrap_or_else(|| self.pick(quick, full).to_vec())
    }

    /// The first size asked for, else one of these.
    pub fn first_keys(&self, quick: u64, full: u64) -> u64 {
        self.keys(&[quick], &[full]).first().copied().unwrap_or(1)
    }

    /// The first number of value bits asked for, else this.
    pub fn first_value_bits(&self, default: u8) -> u8 {
        self.value_bits(&[default], &[default]).first().copied().unwrap_or(default)
    }

    /// The formats asked for, else all.
    pub fn formats(&self) -> Vec<Format> {
        self.formats.clone().unwrap_or_else(|| Format::ALL.to_vec())
    }

    /// The numbers of threads asked for, else one of these lists.
    pub fn threads(&self, quick: &[usize], full: &[usize]) -> Vec<usize> {
        self.threads.clone().unwrap_or_else(|| self.pick(quick, full).to_vec())
    }

    /// The numbers of threads asked for, else one and two; one alone where there is one core.
    pub fn threads_or_pair(&self) -> Vec<usize> {
        let pair = || if pin::cores() > 1 { vec![1, 2] } else { vec![1] };
        self.threads.clone().unwrap_or_else(pair)
    }

    /// The batch sizes asked for, else these.
    pub fn batches(&self, default: &[usize]) -> Vec<usize> {
        self.batches.clone().unwrap_or_else(|| default.to_vec())
    }

    /// The instructions asked for, else the best there are.
    pub fn isas(&self) -> Vec<Isa> {
        self.isas.clone().unwrap_or_else(|| vec![Isa::best()])
    }

    /// Whether a part of the Concise paper's evaluation is wanted: all are if nothing was said.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.contains(&part))
    }

    /// Those of `there` that were asked for; all of them if nothing was said.
    pub fn structures(&self, there: &[Structure]) -> Vec<Structure> {
        let wanted = |structure: &Structure| match &self.structures {
            Some(asked) => asked.contains(structure),
            None => true,
        };
        there.iter().copied().filter(wanted).collect()
    }
}

/// Reads a count of at most `MOST`.
fn count<const MOST: u64>(text: &str) -> Result<u64, QuantityError> {
    quantity::parse(text, 1..=MOST)
}

/// The same as a `usize`.
fn size<const MOST: u64>(text: &str) -> Result<usize, QuantityError> {
    count::<MOST>(text).map(|size| size as usize) // at most `MOST`
}

/// Reads the name of one of `all`.
pub fn named<T: Copy + 'static>(
    all: impl IntoIterator<Item = T> + Clone + Send + Sync + 'static,
    name: fn(T) -> &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync {
    move |text| {
        all.clone().into_iter().find(|&one| name(one) == text).ok_or_else(|| {
            let names: Vec<_> = all.clone().into_iter().map(name).collect();
            format!("unknown name; choose {}", names.join(", "))
        })
    }
}
