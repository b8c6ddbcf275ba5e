//! Options of the benchmarks, with their limits and defaults.

use crate::figures::concise;
use crate::pin;
use crate::router;
use crate::structures::Structure;
use clap::Args;
use scalebricks_console::quantity::{self, QuantityError};
use scalebricks_tables::isa::Isa;
use scalebricks_tables::setsep::Format;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum keys of a benchmark.
const MAX_KEYS: u64 = 1_000_000_000;

/// Maximum keys per call.
const MAX_BATCH: u64 = 1 << 20;

/// Maximum threads.
const MAX_THREADS: u64 = 1024;

/// Maximum runs.
const MAX_RUNS: u64 = 1000;

/// Maximum nodes.
const MAX_NODES: u64 = 256;

/// Longest run in seconds.
const MAX_SECONDS: u64 = 3600;

/// Help of `--structure`.
const STRUCTURES: &str = "Structure to measure: setsep, othello, full-copy, cuckoo, hashbrown, ptr_hash, sux, efd or rte_hash [default: all]";

/// Options of the benchmarks. `None` leaves the choice to the benchmark.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// Keys per table, or flows of a gateway or cluster, as in 1M or 250k [default: depends on the benchmark]
    #[arg(long, visible_alias = "flows", value_name = "N", value_delimiter = ',', value_parser = count::<MAX_KEYS>)]
    pub keys: Option<Vec<u64>>,

    /// More sizes for single benchmarks, as in turned-over=64M,fib=8M
    #[arg(long, value_name = "NAME=N", value_delimiter = ',', value_parser = more_keys, requires = "keys")]
    pub also: Vec<(String, u64)>,

    /// Bits per value, 1 to 8, for concise 1 to 16 [default: depends on the benchmark]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=16))]
    pub value_bits: Option<Vec<u8>>,

    /// Group format of SetSep [default: all]
    #[arg(long = "format", value_name = "NAME", value_delimiter = ',', value_parser = named(Format::ALL, Format::name))]
    pub formats: Option<Vec<Format>>,

    /// Threads that do the timed work [default: 1 and 2 for lookups and builds, else 1]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = size::<MAX_THREADS>)]
    pub threads: Option<Vec<usize>>,

    /// Keys per call [default: 1, 32, 64 and 1024; for updates 65536]
    #[arg(long = "batch", value_name = "N", value_delimiter = ',', value_parser = size::<MAX_BATCH>)]
    pub batches: Option<Vec<usize>>,

    /// Structure to measure [default: all]
    #[arg(long = "structure", help = STRUCTURES, value_name = "NAME", value_delimiter = ',', value_parser = named(Structure::ALL, Structure::name))]
    pub structures: Option<Vec<Structure>>,

    /// Instructions that SetSep may use: portable, avx2, avx512 or avx512-gfni [default: the best available]
    #[arg(long = "isa", value_name = "NAME", value_delimiter = ',', value_parser = named(Isa::ALL, Isa::name))]
    pub isas: Option<Vec<Isa>>,

    /// Nodes of the control plane [default: 1,2,4; with --quick 1,4]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = size::<MAX_NODES>)]
    pub nodes: Option<Vec<usize>>,

    /// Runs per measurement [default: 5; with --quick 3]
    #[arg(long, value_name = "N", value_parser = size::<MAX_RUNS>)]
    pub runs: Option<usize>,

    /// Seconds per run of the control plane [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    pub seconds: Option<u64>,

    /// Directory for the control plane's log [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// NATS servers that hold the control plane's log instead: nats://HOST:PORT,… with JetStream
    /// (scripts/nats.sh starts three). The log remains on the servers
    #[arg(long, value_name = "SERVERS", value_delimiter = ',')]
    pub nats: Vec<String>,

    /// Part of concise: table-1 to table-3, figure-3 to figure-9, reconstruction, figure-12, balancer or
    /// goals; or of router: table-1 to table-3, figure-6 to figure-9, testpmd, latency, timeout or nodes [default: all]
    #[arg(long = "part", value_name = "NAME", value_delimiter = ',', value_parser = part)]
    pub parts: Option<Vec<&'static str>>,

    /// Full BGP tables for lpm: text (PREFIX ORIGIN) or MRT, plain or gzipped [default: generated tables]
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub routes: Vec<PathBuf>,

    /// Capture file whose packet gaps drive the queue simulation of concise [default: random arrivals]
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,

    /// Counts of instructions for router, made by scripts/instructions router --json FILE [default: none]
    #[arg(long, value_name = "FILE")]
    pub instructions: Option<PathBuf>,

    /// Use small tables and three runs
    #[arg(long)]
    pub quick: bool,
}

impl Options {
    /// Number of runs per measurement.
    pub fn runs(&self) -> usize {
        self.runs.unwrap_or(if self.quick { 3 } else { 5 })
    }

    /// Duration of a run that has no fixed amount of work.
    pub fn run_time(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 1 } else { 3 }))
    }

    /// Directory for files.
    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// The requested numbers of nodes, or one of these lists.
    pub fn nodes(&self, quick: &[usize], full: &[usize]) -> Vec<usize> {
        self.nodes.clone().unwrap_or_else(|| self.pick(quick, full).to_vec())
    }

    /// `quick` in a quick run, else `full`.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The requested sizes, or one of these lists.
    pub fn keys(&self, quick: &[u64], full: &[u64]) -> Vec<u64> {
        self.keys.clone().unwrap_or_else(|| self.pick(quick, full).to_vec())
    }

    /// The options of one benchmark: its keys include those that `--also` adds.
    pub fn of(&self, bench: &str) -> Self {
        let more = self.also.iter().filter(|(name, _)| name == bench).map(|&(_, keys)| keys);
        let mut of = self.clone();
        if let Some(keys) = &mut of.keys {
            keys.extend(more);
            keys.sort_unstable();
            keys.dedup();
        }
        of
    }

    /// The requested value bits, or one of these lists.
    pub fn value_bits(&self, quick: &[u8], full: &[u8]) -> Vec<u8> {
        self.value_bits.clone().unwrap_or_else(|| self.pick(quick, full).to_vec())
    }

    /// The first requested size, or one of these.
    pub fn first_keys(&self, quick: u64, full: u64) -> u64 {
        self.keys(&[quick], &[full]).first().copied().unwrap_or(1)
    }

    /// The first requested number of value bits, or this one.
    pub fn first_value_bits(&self, default: u8) -> u8 {
        self.value_bits(&[default], &[default]).first().copied().unwrap_or(default)
    }

    /// The requested formats, or all.
    pub fn formats(&self) -> Vec<Format> {
        self.formats.clone().unwrap_or_else(|| Format::ALL.to_vec())
    }

    /// The requested numbers of threads, or one of these lists.
    pub fn threads(&self, quick: &[usize], full: &[usize]) -> Vec<usize> {
        self.threads.clone().unwrap_or_else(|| self.pick(quick, full).to_vec())
    }

    /// The requested numbers of threads; otherwise one and two, or one on a single core.
    pub fn threads_or_pair(&self) -> Vec<usize> {
        let pair = || if pin::cores() > 1 { vec![1, 2] } else { vec![1] };
        self.threads.clone().unwrap_or_else(pair)
    }

    /// The requested batch sizes, or these.
    pub fn batches(&self, default: &[usize]) -> Vec<usize> {
        self.batches.clone().unwrap_or_else(|| default.to_vec())
    }

    /// The requested instruction sets, or the best available one.
    pub fn isas(&self) -> Vec<Isa> {
        self.isas.clone().unwrap_or_else(|| vec![Isa::best()])
    }

    /// The structures of `there` that were requested, or all of them.
    pub fn structures(&self, there: &[Structure]) -> Vec<Structure> {
        let wanted = |structure: &Structure| match &self.structures {
            Some(asked) => asked.contains(structure),
            None => true,
        };
        there.iter().copied().filter(wanted).collect()
    }
}

/// The name of a part of a benchmark that has parts.
fn part(name: &str) -> Result<&'static str, String> {
    concise::part(name).or_else(|_| router::part(name)).map_err(|of_router| {
        let of_concise = concise::part(name).err().unwrap_or_default();
        format!("of concise: {of_concise}; of router: {of_router}")
    })
}

/// Parses a count of at most `MOST`.
fn count<const MOST: u64>(text: &str) -> Result<u64, QuantityError> {
    quantity::parse(text, 1..=MOST)
}

/// Parses the name of a benchmark and a number of keys.
fn more_keys(text: &str) -> Result<(String, u64), String> {
    let (name, keys) = text.split_once('=').ok_or("not NAME=N, as in fib=8M")?;
    Ok((name.to_owned(), count::<MAX_KEYS>(keys).map_err(|error| error.to_string())?))
}

/// Parses a `usize` of at most `MOST`.
fn size<const MOST: u64>(text: &str) -> Result<usize, QuantityError> {
    count::<MOST>(text).map(|size| size as usize) // at most `MOST`
}

/// A parser for the names of `all`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_measures_its_own_sizes_too() {
        let also = ["fib=8M", "turned-over=64M", "fib=1M"].map(|text| more_keys(text).unwrap());
        let options =
            Options { keys: Some(vec![16_000_000, 1_000_000]), also: also.into(), ..Options::default() };
        assert_eq!(options.of("fib").keys, Some(vec![1_000_000, 8_000_000, 16_000_000]));
        assert_eq!(options.of("setsep-build").keys, Some(vec![1_000_000, 16_000_000]));
        assert!(more_keys("fib").unwrap_err().contains("NAME=N"));
        assert!(more_keys("fib=0").is_err());
    }
}
