//! `/metrics`: the counters of a node, for Prometheus.
//!
//! Names follow Prometheus' rules: the unit comes last, followed by `_total` for counters. The list is in
//! docs/admin.md, and a test compares it with this code.

mod control;
mod graph;
mod router;
mod switch;

use super::model::{DEVICE_COUNTERS, DeviceMetric, NodeCounters, NodeState, Stats, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use scalebricks_apps::gateway::counters::{COUNTERS, Family};
use scalebricks_cluster::moved::{MOVED_COUNTERS, MovedCounter};
use scalebricks_cluster::stats::Kind;
use scalebricks_control::membership::Unfitness;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Content type of the `OpenMetrics` format, which Prometheus prefers.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub use graph::render as render_graph;
pub use router::render as render_router;
pub use switch::render as render_switch;

type Labels = Vec<(&'static str, String)>;

/// A metric with all its series.
#[derive(Debug)]
struct Metric {
    name: Cow<'static, str>,
    help: Cow<'static, str>,
    kind: MetricType,
    series: Vec<(Labels, Value)>,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// The metrics of a process at one moment.
#[derive(Debug, Default)]
struct Snapshot {
    families: Vec<Metric>,
}

/// The metrics as text.
///
/// # Errors
/// None in practice, as writing to memory succeeds.
pub fn render(status: &Status, stats: &Stats, is_ready: bool) -> Result<String, fmt::Error> {
    let mut snapshot = Snapshot::default();
    snapshot.node(status, is_ready);
    snapshot.tables(status);
    snapshot.packets(stats);
    snapshot.moved_counters(stats);
    snapshot.ports(status, stats);
    snapshot.workers(stats);
    snapshot.rest(status, stats);
    if let Some(control) = &stats.control {
        snapshot.control(control);
    }
    snapshot.encode_all("scalebricks")
}

impl Snapshot {
    /// All metrics, with this prefix of their names.
    fn encode_all(self, prefix: &str) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix(prefix);
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }

    fn add(
        &mut self,
        kind: MetricType,
        name: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
        series: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        let series: Vec<_> = series.into_iter().collect();
        if !series.is_empty() {
            self.families.push(Metric { name: name.into(), help: help.into(), kind, series });
        }
    }

    fn gauge(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
        series: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        self.add(MetricType::Gauge, name, help, series);
    }

    /// The library adds `_total` to the name.
    fn counter(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
        series: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        self.add(MetricType::Counter, name, help, series);
    }

    fn node(&mut self, status: &Status, is_ready: bool) {
        let labels = vec![
            ("version", status.version.clone()),
            ("node", status.node.to_string()),
            ("nodes", status.nodes.to_string()),
            ("architecture", status.architecture.clone()),
            ("key", status.key.clone()),
        ];
        self.add(MetricType::Info, "node", "Properties of the node.", [(labels, Value::Whole(1))]);
        self.gauge("uptime_seconds", "Time since the node started.", one(status.uptime_s));
        let states = NodeState::ALL
            .map(|state| (label("state", state.name()), Value::Whole(u64::from(state == status.state))));
        self.gauge("state", "1 for the state the node is in, 0 for the others.", states);
        self.gauge("ready", "Whether the node forwards packets.", one(u64::from(is_ready)));
        let is_fit = |reason: &Unfitness| status.reasons.iter().all(|of| of.reason != reason.name());
        let fit = Unfitness::ALL
            .map(|reason| (label("reason", reason.name()), Value::Whole(u64::from(is_fit(&reason)))));
        self.gauge("node_fit", "0 for each reason why the node is unfit, 1 for the others.", fit);
    }

    fn tables(&mut self, status: &Status) {
        let flows = [("cluster", status.flows.in_cluster), ("here", status.flows.here)];
        let flows = flows.map(|(scope, count)| (label("scope", scope), count.into()));
        self.gauge("flows", "Flows in the whole cluster, and pinned to this node.", flows);
        let help = "How often the flow file was loaded.";
        self.counter("flow_file_loads", help, one(status.flows.generation));
        let loaded = status.flows.loaded_unix_s.map(|time| (Labels::new(), time.into()));
        let help = "When the flow file was loaded last, since 1970-01-01 UTC.";
        self.gauge("flow_file_loaded_timestamp_seconds", help, loaded);
        let tables = status.tables.iter();
        let bytes = tables.clone().map(|t| (label("table", t.table.name()), t.table_bytes.into()));
        self.gauge("table_size_bytes", "Memory of a table.", bytes);
        let keys = tables.filter_map(|t| Some((label("table", t.table.name()), t.keys?.into())));
        self.gauge("table_keys", "Keys in a table, two per flow.", keys);
    }

    fn packets(&mut self, stats: &Stats) {
        let mut families: Vec<&'static Family> = Vec::new();
        for spec in COUNTERS {
            if !families.contains(&spec.family) {
                families.push(spec.family);
            }
        }
        let (by_worker, of_all): (Vec<_>, Vec<_>) =
            families.into_iter().partition(|family| family.is_by_worker);
        for family in by_worker {
            let series = stats.workers.iter().flat_map(|worker| {
                let of = vec![("worker", worker.worker.worker.to_string())];
                of_family(family, &worker.counters, of)
            });
            self.counter(family.name, family.help, series);
        }
        let drops =
            stats.total.dropped.iter().map(|(reason, &count)| (label("reason", reason), count.into()));
        self.counter("dropped_packets", "Packets dropped, by reason.", drops);
        for family in of_all {
            self.counter(family.name, family.help, of_family(family, &stats.total, Labels::new()));
        }
    }

    /// Nothing if flows come from a file.
    fn moved_counters(&mut self, stats: &Stats) {
        let Some(moved) = stats.moved_counters else { return };
        let series = |counter: &MovedCounter| {
            let (metric, label) = counter.series?;
            let labels = label.map(|(name, value)| (name, value.to_owned())).into_iter().collect();
            Some((metric, (labels, Value::Whole((counter.value)(&moved)))))
        };
        let all: Vec<_> = MOVED_COUNTERS.iter().filter_map(series).collect();
        for same in all.chunk_by(|one, next| one.0 == next.0) {
            let metric = same[0].0;
            let series = same.iter().map(|(_, series)| series.clone());
            match metric.kind {
                Kind::Counter => self.counter(metric.name, metric.help, series),
                Kind::Gauge => self.gauge(metric.name, metric.help, series),
            }
        }
    }

    fn ports(&mut self, status: &Status, stats: &Stats) {
        let mut metrics: Vec<&DeviceMetric> = Vec::new();
        for counter in DEVICE_COUNTERS {
            if !metrics.contains(&counter.metric) {
                metrics.push(counter.metric);
            }
        }
        for metric in metrics {
            let series = stats.ports.iter().flat_map(|port| {
                let of = DEVICE_COUNTERS.iter().filter(|counter| counter.metric == metric);
                of.map(|counter| {
                    let own = counter.label.map(|(name, value)| (name, value.to_owned()));
                    let labels = label("port", port.role.name()).into_iter().chain(own).collect();
                    (labels, Value::Whole((counter.value)(port)))
                })
            });
            self.counter(metric.name, metric.help, series);
        }
        let ports = status.ports.iter();
        let up = ports.clone().map(|p| (label("port", p.role.name()), u64::from(p.is_link_up).into()));
        self.gauge("port_link_up", "Whether packets can pass the port.", up);
        let speed = ports.filter_map(|p| {
            Some((label("port", p.role.name()), (u64::from(p.speed_mbps?) * 1_000_000).into()))
        });
        self.gauge("port_speed_bits_per_second", "Speed of the link, if the driver knows it.", speed);
    }

    fn workers(&mut self, stats: &Stats) {
        let workers =
            || stats.workers.iter().map(|w| (label("worker", &w.worker.worker.to_string()), &w.worker));
        let help = "Time spent on turns that moved packets.";
        self.counter("worker_busy_seconds", help, workers().map(|(l, w)| (l, w.busy_s.into())));
        let help = "Share of recent time spent on such turns.";
        self.gauge("worker_busy_ratio", help, workers().map(|(l, w)| (l, w.busy_share.into())));
        self.counter("worker_turns", "Turns of work.", workers().map(|(l, w)| (l, w.turns.into())));
        let help = "Average packets per turn that moved any.";
        self.gauge("worker_batch_fill_packets", help, workers().map(|(l, w)| (l, w.mean_batch_fill.into())));
    }

    fn rest(&mut self, status: &Status, stats: &Stats) {
        let events = stats.slow_path.iter().map(|(event, &count)| (label("event", event), count.into()));
        let help = "Events of the slow path: ARP, neighbour discovery, echo and the like.";
        self.counter("slow_path_events", help, events);
        let buffers = [("free", stats.pool.free), ("in-use", stats.pool.in_use)];
        let buffers = buffers.map(|(state, count)| (label("state", state), count.into()));
        self.gauge("pool_buffers", "Packet buffers.", buffers);
        let mut neighbours: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for neighbour in &status.neighbours {
            *neighbours.entry((neighbour.port.name(), &neighbour.state)).or_default() += 1;
        }
        let neighbours = neighbours.into_iter().map(|((port, state), count)| {
            (vec![("port", port.to_owned()), ("state", state.to_owned())], count.into())
        });
        self.gauge("neighbours", "Next hops on the outside links.", neighbours);
        let ways = ["direct", "relayed", "none"].map(|way| {
            let count = status.fabric.iter().filter(|peer| peer.way() == way).count() as u64;
            (label("way", way), count.into())
        });
        self.gauge("fabric_peers", "Other nodes, by how frames reach them over the fabric.", ways);
    }
}

/// The series of a metric, with these labels first.
fn of_family(
    family: &'static Family,
    counters: &NodeCounters,
    labels: Labels,
) -> impl Iterator<Item = (Labels, Value)> {
    let series = counters.iter().filter(move |(spec, _)| spec.family == family);
    series.map(move |(spec, count)| {
        let own = spec.labels.iter().map(|&(name, value)| (name, value.to_owned()));
        (labels.iter().cloned().chain(own).collect(), count.into())
    })
}

fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}

fn one(value: impl Into<Value>) -> [(Labels, Value); 1] {
    [(Labels::new(), value.into())]
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.families {
            let mut metric = encoder.encode_descriptor(&family.name, &family.help, None, family.kind)?;
            for (labels, value) in &family.series {
                match family.kind {
                    MetricType::Info => metric.encode_info(labels)?,
                    _ if labels.is_empty() => encode(&mut metric, family.kind, *value)?,
                    _ => encode(&mut metric.encode_family(labels)?, family.kind, *value)?,
                }
            }
        }
        Ok(())
    }
}

fn encode(metric: &mut MetricEncoder<'_>, kind: MetricType, value: Value) -> fmt::Result {
    const NO_EXEMPLAR: Option<&Exemplar<Labels, f64>> = None;
    match (kind, value) {
        (MetricType::Counter, Value::Whole(value)) => metric.encode_counter(&value, NO_EXEMPLAR),
        (MetricType::Counter, Value::Real(value)) => metric.encode_counter(&value, NO_EXEMPLAR),
        (_, Value::Whole(value)) => metric.encode_gauge(&value),
        (_, Value::Real(value)) => metric.encode_gauge(&value),
    }
}

#[cfg(test)]
mod tests;
