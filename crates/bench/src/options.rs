//! What was asked for, checked, with what each benchmark takes where nothing was said.

use crate::contestants::Structure;
use crate::figures::concise::Part;
use crate::pin;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::setsep::Format;
use std::path::PathBuf;
use std::time::Duration;

/// What was asked for. `None` leaves the choice to the benchmark.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Keys in a table, one measurement each.
    pub keys: Option<Vec<u64>>,
    /// Bits of a value.
    pub value_bits: Option<Vec<u8>>,
    /// Group formats of SetSep.
    pub formats: Option<Vec<Format>>,
    /// Threads that do what is timed.
    pub threads: Option<Vec<usize>>,
    /// Keys a call.
    pub batches: Option<Vec<usize>>,
    /// Instructions SetSep may use.
    pub isas: Option<Vec<Isa>>,
    /// Structures to measure.
    pub structures: Option<Vec<Structure>>,
    /// Nodes of a cluster.
    pub nodes: Option<Vec<usize>>,
    /// Runs of each measurement.
    pub runs: Option<usize>,
    /// Seconds of a run that lasts as long as it is told to.
    pub seconds: Option<u64>,
    /// Where files are made.
    pub directory: Option<PathBuf>,
    /// NATS servers that keep the log, in place of a file.
    pub nats: Vec<String>,
    /// Parts of the Concise paper's evaluation.
    pub parts: Option<Vec<Part>>,
    /// Capture whose gaps between packets queues are simulated with.
    pub capture: Option<PathBuf>,
    /// Small tables and few runs.
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
