//! `/metrics` of a graph of elements: docs/click.md has the list.

use super::{Labels, Snapshot, Value, one};
use crate::model::GraphView;
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;

/// The name and class of an element, and its counters.
type Counted<'a> = (&'a str, &'a str, &'a BTreeMap<String, u64>);

/// The metrics of a graph as text.
///
/// # Errors
/// None in practice, as writing to memory succeeds.
pub fn render(view: &GraphView) -> Result<String, fmt::Error> {
    let mut snapshot = Snapshot::default();
    let labels = vec![("version", view.version.clone()), ("file", view.file.clone())];
    snapshot.add(MetricType::Info, "run", "Properties of the run.", [(labels, Value::Whole(1))]);
    snapshot.gauge("uptime_seconds", "Time since the run began.", one(view.uptime_s));
    snapshot.gauge("elements", "Elements of the configuration.", one(view.elements.len() as u64));
    let help = "How often the configuration was replaced.";
    snapshot.counter("replacements", help, one(view.replacements));
    let counters = view.elements.iter().map(|one| (&*one.name, &*one.class, &one.counters));
    let former = view.former.iter().map(|one| (&*one.name, &*one.class, &one.counters));
    let help = "Counters of elements, by name.";
    snapshot.counter("element_events", help, series("event", counters.chain(former)));
    let dropped = view.elements.iter().map(|one| (&*one.name, &*one.class, &one.dropped));
    let former = view.former.iter().map(|one| (&*one.name, &*one.class, &one.dropped));
    let help = "Packets that elements dropped, by reason.";
    snapshot.counter("element_dropped_packets", help, series("reason", dropped.chain(former)));
    snapshot.encode_all("scalebricks_graph")
}

fn series<'a>(
    label: &'static str,
    elements: impl Iterator<Item = Counted<'a>>,
) -> impl Iterator<Item = (Labels, Value)> {
    elements.flat_map(move |(name, class, counts)| {
        counts.iter().map(move |(what, &count)| {
            let labels =
                vec![("element", name.to_owned()), ("class", class.to_owned()), (label, what.clone())];
            (labels, count.into())
        })
    })
}
