//! What was measured, as it is written to JSON.

use crate::pair;
use crate::stats::Summary;
use scalebricks_report::stored::{self, Word};
use serde::{Deserialize, Serialize};

/// What a row tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Keys built into a table.
    BuildRate,
    /// Keys looked up.
    LookupRate,
    /// Values changed, or keys replaced.
    UpdateRate,
    /// Keys added.
    InsertRate,
    /// Keys taken out.
    DeleteRate,
    /// Packets forwarded.
    PacketRate,
    /// The share of the packets sent that did not come back.
    PacketLoss,
    /// Time a packet takes, without generator and sink.
    PacketTime,
    /// Time a packet takes, without plain forwarding.
    WorkTime,
    /// The rate of lookups over that of their loads alone, prefetched.
    ShareOfLimit,
    /// How many times the rate of another.
    Ratio,
    /// Fsyncs of a file that grows.
    FsyncRate,
    /// Time from when packets are due until they leave, on average.
    LatencyMean,
    /// The time that half of them took at the most: packets as above, or calls.
    LatencyP50,
    /// The same of the slowest but one in a hundred.
    LatencyP99,
    /// The time of the slowest.
    LatencyMax,
    /// Time from a node's death until another has given it up.
    DetectionTime,
    /// Time from then until no living node's table names it for a flow.
    RepinTime,
    /// Both together.
    RecoveryTime,
    /// Time until a node that starts with empty tables has caught up.
    JoinTime,
    /// Bytes of GPT deltas for a changed key.
    DeltaBytes,
    /// Bits of what such a delta must tell, by the entropy of what it changes.
    DeltaEntropy,
    /// How much slower lookups are beside something else, in percent.
    Loss,
    /// The share of unknown names that are taken for known ones.
    AlienShare,
    /// Time that making a name takes.
    NameTime,
    /// Ranges that were given another seed.
    Reseeded,
    /// The share of additions that gave a range another seed.
    ReseedShare,
    /// Time in which ranges were given another seed, an addition.
    ReseedTime,
    /// Bits of memory a key takes.
    BitsPerKey,
    /// Bytes of memory that a key takes at the owner of the table.
    ControlBytes,
    /// Cache lines that a query reads.
    CacheLines,
    /// Keys for which several values fit.
    AmbiguousNames,
    /// Keys that the fallback answers.
    FallbackKeys,
    /// Keys in the fullest group.
    MaxGroupLoad,
    /// The share of a table that lies on huge pages.
    HugePages,
    /// Hash functions tried for a group.
    Iterations,
    /// Flows that fit in a cluster.
    Flows,
}

impl Metric {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuildRate => "build_rate",
            Self::LookupRate => "lookup_rate",
            Self::UpdateRate => "update_rate",
            Self::InsertRate => "insert_rate",
            Self::DeleteRate => "delete_rate",
            Self::PacketRate => "packet_rate",
            Self::PacketLoss => "packet_loss",
            Self::PacketTime => "packet_time",
            Self::WorkTime => "work_time",
            Self::ShareOfLimit => "share_of_limit",
            Self::Ratio => "ratio",
            Self::FsyncRate => "fsync_rate",
            Self::LatencyMean => "latency_mean",
            Self::LatencyP50 => "latency_p50",
            Self::LatencyP99 => "latency_p99",
            Self::LatencyMax => "latency_max",
            Self::DetectionTime => "detection_time",
            Self::RepinTime => "repin_time",
            Self::RecoveryTime => "recovery_time",
            Self::JoinTime => "join_time",
            Self::DeltaBytes => "delta_bytes",
            Self::DeltaEntropy => "delta_entropy",
            Self::Loss => "loss",
            Self::AlienShare => "alien_share",
            Self::NameTime => "name_time",
            Self::Reseeded => "reseeded",
            Self::ReseedShare => "reseed_share",
            Self::ReseedTime => "reseed_time",
            Self::BitsPerKey => "bits_per_key",
            Self::ControlBytes => "control_bytes",
            Self::CacheLines => "cache_lines",
            Self::AmbiguousNames => "ambiguous_names",
            Self::FallbackKeys => "fallback_keys",
            Self::MaxGroupLoad => "max_group_load",
            Self::HugePages => "huge_pages",
            Self::Iterations => "iterations",
            Self::Flows => "flows",
        }
    }

    /// Its unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::BitsPerKey | Self::DeltaEntropy => "bits",
            Self::Loss => "percent",
            Self::AlienShare
            | Self::ReseedShare
            | Self::ShareOfLimit
            | Self::PacketLoss
            | Self::HugePages => "share",
            Self::Reseeded => "ranges",
            Self::CacheLines => "lines",
            Self::AmbiguousNames | Self::FallbackKeys | Self::MaxGroupLoad => "keys",
            Self::Iterations => "functions",
            Self::Flows => "flows",
            Self::PacketTime
            | Self::NameTime
            | Self::ReseedTime
            | Self::WorkTime
            | Self::LatencyMean
            | Self::LatencyP50
            | Self::LatencyP99
            | Self::LatencyMax
            | Self::DetectionTime
            | Self::RepinTime
            | Self::RecoveryTime
            | Self::JoinTime => "ns",
            Self::DeltaBytes | Self::ControlBytes => "bytes",
            Self::Ratio => "times",
            _ => "1/s",
        }
    }

    /// Whether it is timed anew in each run, and so varies from run to run. Latencies are distributions of many packets or
    /// calls already.
    pub const fn is_timed(self) -> bool {
        self.is_rate()
            || matches!(self, Self::PacketTime | Self::NameTime | Self::ReseedTime | Self::WorkTime)
    }

    /// Whether it counts things a second.
    pub const fn is_rate(self) -> bool {
        matches!(self.unit().as_bytes(), b"1/s")
    }
}

/// What is measured: everything of a row but the figures. What does not apply is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Subject {
    /// The benchmark.
    #[serde(deserialize_with = "stored::word")]
    pub bench: Word,
    /// The structure, or the architecture.
    pub structure: String,
    /// The group format of SetSep, the sizes of Othello, or what a GPT is made of.
    #[serde(deserialize_with = "stored::word_or_none")]
    pub format: Option<Word>,
    /// Instructions used, or mode of operation.
    pub variant: Option<String>,
    /// Keys in the table.
    pub keys: u64,
    /// Bits of a value.
    pub value_bits: Option<u8>,
    /// Threads that did what was timed.
    pub threads: Option<usize>,
    /// Keys or operations a call.
    pub batch: Option<usize>,
    /// Nodes of a cluster.
    pub nodes: Option<usize>,
    /// Callers, each of which waits for its call before it makes the next.
    pub callers: Option<usize>,
    /// Share of the slots in use.
    pub load: Option<f64>,
    /// Bytes of memory the table holds.
    pub table_bytes: Option<u64>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What is measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// Whether its threads had no core each: `oversubscribed`, or `one core` if two cores scale as one.
    #[serde(default, deserialize_with = "stored::word_or_none")]
    pub mark: Option<Word>,
    /// What the figure tells.
    pub metric: Metric,
    /// Its unit.
    #[serde(deserialize_with = "stored::word")]
    pub unit: Word,
    /// The median run.
    #[serde(deserialize_with = "stored::number")]
    pub median: f64,
    /// The least.
    #[serde(deserialize_with = "stored::number")]
    pub min: f64,
    /// The most.
    #[serde(deserialize_with = "stored::number")]
    pub max: f64,
    /// How many runs.
    pub runs: usize,
}

impl Row {
    /// A row.
    pub fn new(subject: Subject, metric: Metric, figures: Summary) -> Self {
        let Summary { median, min, max, runs } = figures;
        let mark = pair::mark(subject.threads);
        Self { subject, mark, metric, unit: metric.unit(), median, min, max, runs }
    }

    /// The figures alone.
    pub const fn summary(&self) -> Summary {
        Summary { median: self.median, min: self.min, max: self.max, runs: self.runs }
    }
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
        let subject = Subject { bench: "fib", structure: "cuckoo".to_owned(), keys: 7, ..Subject::default() };
        let rows = vec![Row::new(subject, Metric::InsertRate, Summary::exact(2.0))];
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
