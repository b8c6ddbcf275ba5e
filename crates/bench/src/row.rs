//! Rows of results as they are stored in JSON.

use crate::pair;
use scalebricks_report::exhibit::Point;
use scalebricks_report::stats::Summary;
use scalebricks_report::stored::{self, Interned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

macro_rules! metrics {
    ($($(#[$doc:meta])* $metric:ident = $name:literal, $unit:literal;)*) => {
        /// What a row measures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Metric {
            $($(#[$doc])* #[serde(rename = $name)] $metric,)*
        }

        impl Metric {
            /// Its name in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$metric => $name,)* }
            }

            /// Its unit.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$metric => $unit,)* }
            }
        }
    };
}

metrics! {
    /// Keys built into a table.
    BuildRate = "build_rate", "1/s";
    /// Keys looked up.
    LookupRate = "lookup_rate", "1/s";
    /// Values changed, or keys replaced.
    UpdateRate = "update_rate", "1/s";
    /// Keys inserted.
    InsertRate = "insert_rate", "1/s";
    /// Keys deleted.
    DeleteRate = "delete_rate", "1/s";
    /// Time to fill an empty table.
    LoadTime = "load_time", "ns";
    /// Packets forwarded.
    PacketRate = "packet_rate", "1/s";
    /// Share of the packets sent that did not come back.
    PacketLoss = "packet_loss", "share";
    /// Time per packet, without generator and sink.
    PacketTime = "packet_time", "ns";
    /// Bits of these packets, FCS included.
    BitRate = "bit_rate", "bit/s";
    /// Time per packet of generator and sink alone.
    PortTime = "port_time", "ns";
    /// Time of a poll that finds no packet.
    PollTime = "poll_time", "ns";
    /// Processor time per packet at a load, without empty polls.
    BusyTime = "busy_time", "ns";
    /// Time per packet, without plain forwarding.
    WorkTime = "work_time", "ns";
    /// Lookup rate divided by the rate of its memory loads alone, prefetched.
    ShareOfLimit = "share_of_limit", "share";
    /// Rate divided by that of another structure.
    Ratio = "ratio", "times";
    /// Fsyncs of a growing file.
    FsyncRate = "fsync_rate", "1/s";
    /// Mean time from when a packet is due until it leaves.
    LatencyMean = "latency_mean", "ns";
    /// Median of those times, or of call times.
    LatencyP50 = "latency_p50", "ns";
    /// 99th percentile of the same.
    LatencyP99 = "latency_p99", "ns";
    /// 99.9th percentile of the same.
    LatencyP999 = "latency_p999", "ns";
    /// Maximum of the same.
    LatencyMax = "latency_max", "ns";
    /// Time from a node's death until another node declares it dead.
    DetectionTime = "detection_time", "ns";
    /// Time from then until no living node's table maps a flow to it.
    RepinTime = "repin_time", "ns";
    /// Sum of both.
    RecoveryTime = "recovery_time", "ns";
    /// Time until a node that starts with empty tables has caught up.
    JoinTime = "join_time", "ns";
    /// Flows that a node handles.
    NodeFlows = "node_flows", "flows";
    /// GPT delta bytes per changed key.
    DeltaBytes = "delta_bytes", "bytes";
    /// Bits that such a delta must carry, by the entropy of what it changes.
    DeltaEntropy = "delta_entropy", "bits";
    /// How much slower lookups are while something else runs.
    Loss = "loss", "percent";
    /// Share of unknown names that are taken for known ones.
    AlienShare = "alien_share", "share";
    /// Time to generate a name.
    NameTime = "name_time", "ns";
    /// Ranges rebuilt with another seed.
    Reseeded = "reseeded", "ranges";
    /// Share of insertions that rebuilt a range with another seed.
    ReseedShare = "reseed_share", "share";
    /// Time spent rebuilding ranges, per insertion.
    ReseedTime = "reseed_time", "ns";
    /// Memory per key.
    BitsPerKey = "bits_per_key", "bits";
    /// Memory per key at the owner of the table.
    ControlBytes = "control_bytes", "bytes";
    /// Cache lines that a query reads.
    CacheLines = "cache_lines", "lines";
    /// Keys for which several values fit.
    AmbiguousNames = "ambiguous_names", "keys";
    /// Keys that the fallback answers.
    FallbackKeys = "fallback_keys", "keys";
    /// Keys in the fullest group.
    MaxGroupLoad = "max_group_load", "keys";
    /// Share of a table that is on huge pages.
    HugePages = "huge_pages", "share";
    /// Hash functions tried for a group.
    Iterations = "iterations", "functions";
    /// Cycles of the clock.
    ClockRate = "clock_rate", "1/s";
    /// Bytes that all threads read or write.
    Bandwidth = "bandwidth", "B/s";
    /// Instructions per packet, without generator and sink.
    Instructions = "instructions", "instructions";
    /// Links between nodes that a packet passes.
    LinksPerPacket = "links_per_packet", "links";
    /// Flows that fit in a cluster.
    Flows = "flows", "flows";
    /// Share of the sessions that are in conflict lists.
    ListedShare = "listed_share", "share";
    /// Signatures of other sessions that equal the sought one, per lookup.
    FalsePositives = "false_positives", "share";
    /// Share of the sessions whose lookups meet such a signature.
    FalselyMatched = "falsely_matched", "share";
    /// Share of the lookups that find their session at the first slot compared.
    FirstHit = "first_hit", "share";
    /// Signatures compared one by one, per lookup.
    Comparisons = "comparisons", "slots";
    /// Memory.
    MemoryBytes = "memory_bytes", "bytes";
}

impl Metric {
    /// Whether each run times it anew, so that it varies between runs. Latencies are already distributions
    /// over many packets or calls.
    pub const fn is_timed(self) -> bool {
        self.is_rate()
            || matches!(
                self,
                Self::PacketTime
                    | Self::PortTime
                    | Self::NameTime
                    | Self::ReseedTime
                    | Self::WorkTime
                    | Self::LoadTime
            )
    }

    /// Whether it is a rate per second.
    pub const fn is_rate(self) -> bool {
        matches!(self.unit().as_bytes(), b"1/s")
    }
}

/// What a row measures: everything but the figures. Fields that do not apply are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Case {
    /// The benchmark.
    #[serde(deserialize_with = "stored::interned")]
    pub bench: Interned,
    /// The structure or architecture.
    pub structure: String,
    /// The group format of SetSep, the sizing of Othello, or the structure of a GPT.
    #[serde(deserialize_with = "stored::interned_or_none")]
    pub format: Option<Interned>,
    /// Instructions used, or the mode of operation.
    pub variant: Option<String>,
    /// Keys in the table.
    pub keys: u64,
    /// Bits per value.
    pub value_bits: Option<u8>,
    /// Threads that did the timed work.
    pub threads: Option<usize>,
    /// Keys or operations per call.
    pub batch: Option<usize>,
    /// Nodes of a cluster.
    pub nodes: Option<usize>,
    /// Callers, each with one call outstanding.
    pub callers: Option<usize>,
    /// Share of the slots in use.
    pub load: Option<f64>,
    /// Bytes of the table.
    pub table_bytes: Option<u64>,
}

/// Builder methods that set one field each.
macro_rules! setters {
    ($($field:ident: $kind:ty),*) => {
        $(
            #[doc = concat!("The same case with this `", stringify!($field), "`.")]
            #[must_use]
            pub fn $field(mut self, $field: impl Into<Option<$kind>>) -> Self {
                self.$field = $field.into();
                self
            }
        )*
    };
}

impl Case {
    setters!(
        format: Interned, variant: String, value_bits: u8, threads: usize, batch: usize, nodes: usize,
        callers: usize, load: f64, table_bytes: u64
    );

    /// Whether the variant is this one.
    pub fn is_variant(&self, variant: &str) -> bool {
        self.variant.as_deref() == Some(variant)
    }

    /// Its variant, or an empty string.
    pub fn variant_text(&self) -> &str {
        self.variant.as_deref().unwrap_or_default()
    }
}

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it measures.
    #[serde(flatten)]
    pub case: Case,
    /// Set if its threads did not have a core each: `oversubscribed`, or `one core` if two cores scale as
    /// one.
    #[serde(default, deserialize_with = "stored::interned_or_none")]
    pub mark: Option<Interned>,
    /// The metric.
    pub metric: Metric,
    /// The unit of the metric.
    #[serde(deserialize_with = "stored::interned")]
    pub unit: Interned,
    /// The median of the runs.
    #[serde(deserialize_with = "stored::f64_or_nan")]
    pub median: f64,
    /// The minimum.
    #[serde(deserialize_with = "stored::f64_or_nan")]
    pub min: f64,
    /// The maximum.
    #[serde(deserialize_with = "stored::f64_or_nan")]
    pub max: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Row {
    /// A row.
    pub fn new(case: Case, metric: Metric, figures: Summary) -> Self {
        let Summary { median, min, max, runs } = figures;
        let mark = pair::mark(case.threads);
        Self { case, mark, metric, unit: metric.unit(), median, min, max, runs }
    }

    /// The median with minimum and maximum in brackets, each divided by `unit`.
    pub fn spread(&self, unit: f64, digits: usize) -> String {
        let [median, least, most] = [self.median, self.min, self.max].map(|figure| figure / unit);
        format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
    }

    /// The row with another metric of the same case.
    pub fn beside<'r>(&self, rows: &'r [Self], metric: Metric) -> Option<&'r Self> {
        rows.iter().find(|row| row.metric == metric && row.case == self.case)
    }

    /// Its median at a horizontal position, with the range of the runs, divided by `unit`.
    pub fn point(&self, x: f64, unit: f64) -> Point {
        Point::measured(x, self.summary(), unit)
    }

    /// The figures without the case.
    pub const fn summary(&self) -> Summary {
        Summary { median: self.median, min: self.min, max: self.max, runs: self.runs }
    }
}

/// Selects rows.
pub trait SelectRows<'r>: Iterator<Item = &'r Row> + Sized {
    /// Rows of this metric.
    fn metric(self, metric: Metric) -> impl Iterator<Item = &'r Row> {
        self.filter(move |row| row.metric == metric)
    }

    /// Rows of this structure.
    fn structure(self, structure: &str) -> impl Iterator<Item = &'r Row> {
        self.filter(move |row| row.case.structure == structure)
    }

    /// Rows of this variant.
    fn variant(self, variant: &str) -> impl Iterator<Item = &'r Row> {
        self.filter(move |row| row.case.is_variant(variant))
    }

    /// Rows of this format, or of a structure without formats.
    fn format(self, format: &str) -> impl Iterator<Item = &'r Row> {
        self.filter(move |row| row.case.format.is_none_or(|of| of == format))
    }

    /// Rows with this many keys.
    fn keys(self, keys: u64) -> impl Iterator<Item = &'r Row> {
        self.filter(move |row| row.case.keys == keys)
    }

    /// Rows with this many threads.
    fn threads(self, threads: usize) -> impl Iterator<Item = &'r Row> {
        self.filter(move |row| row.case.threads == Some(threads))
    }

    /// The first of the rows whose number of keys is closest.
    fn nearest(self, keys: u64) -> Option<&'r Row> {
        self.min_by_key(|row| row.case.keys.abs_diff(keys))
    }
}

impl<'r, I: Iterator<Item = &'r Row>> SelectRows<'r> for I {}

/// All values, ascending.
pub fn distinct<T: Ord>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    values.into_iter().collect::<BTreeSet<T>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_console::output;
    use serde_json::Value;

    /// The fields of a row, in the order of the documentation.
    const FIELDS: [&str; 19] = [
        "bench",
        "structure",
        "format",
        "variant",
        "keys",
        "value_bits",
        "threads",
        "batch",
        "nodes",
        "callers",
        "load",
        "table_bytes",
        "mark",
        "metric",
        "unit",
        "median",
        "min",
        "max",
        "runs",
    ];

    #[test]
    fn the_names_are_the_documented_ones() {
        let case = Case { bench: "fib", structure: "cuckoo".to_owned(), keys: 7, ..Case::default() };
        let rows = vec![Row::new(case, Metric::InsertRate, Summary::exact(2.0))];
        let text = output::json(&rows).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let row = value[0].as_object().unwrap();
        assert_eq!(row.len(), FIELDS.len());
        let places: Vec<usize> =
            FIELDS.iter().map(|name| text.find(&format!("\"{name}\"")).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        assert_eq!((&row["metric"], &row["unit"]), (&"insert_rate".into(), &"1/s".into()));
        assert!(row["format"].is_null() && row["load"].is_null());
        assert_eq!(serde_json::from_str::<Vec<Row>>(&text).unwrap(), rows);
    }

    #[test]
    fn metrics_are_named_once() {
        for metric in [Metric::BuildRate, Metric::PacketRate, Metric::BitsPerKey, Metric::MaxGroupLoad] {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
        }
        assert!(Metric::LookupRate.is_rate() && !Metric::FallbackKeys.is_rate());
        assert!(Metric::PacketTime.is_timed() && !Metric::BitsPerKey.is_timed());
    }
}
