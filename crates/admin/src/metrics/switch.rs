//! `/metrics` of a switch: docs/switch.md has the list.

use super::{Labels, Snapshot, Value, label, one};
use crate::model::NodeState;
use crate::model::switch::{PortView, SwitchView};
use prometheus_client::metrics::MetricType;
use scalebricks_apps::switch::counts::counters;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

type Series = Vec<(Labels, Value)>;

/// The metrics of a switch as text.
///
/// # Errors
/// None in practice, as writing to memory succeeds.
pub fn render(view: &SwitchView) -> Result<String, fmt::Error> {
    let mut snapshot = Snapshot::default();
    let labels =
        vec![("version", view.version.clone()), ("kind", view.kind.clone()), ("source", view.source.clone())];
    snapshot.add(MetricType::Info, "switch", "Properties of the switch.", [(labels, Value::Whole(1))]);
    snapshot.gauge("uptime_seconds", "Time since the switch started.", one(view.uptime_s));
    let states = NodeState::ALL
        .map(|state| (label("state", state.name()), Value::Whole(u64::from(state == view.state))));
    snapshot.gauge("state", "1 for the state the switch is in, 0 for the others.", states);
    snapshot.gauge(
        "ready",
        "Whether the switch forwards and has all its names.",
        one(u64::from(view.is_ready)),
    );
    snapshot.names(view);
    snapshot.switch_ports(&view.ports);
    let help = "Frames dropped because their VLAN is none of the ports of their device.";
    snapshot.counter("other_vlan_frames", help, one(view.other_vlan));
    snapshot.encode_all("scalebricks_switch")
}

impl Snapshot {
    fn names(&mut self, view: &SwitchView) {
        self.gauge("names", "Names in the table.", one(view.names));
        self.gauge("actions", "Different actions of names.", one(view.actions));
        self.gauge("value_bits", "Bits of an action's number in a slot.", one(u64::from(view.value_bits)));
        let help = "Memory that lookups may touch.";
        self.gauge("table_size_bytes", help, one(view.table_bytes));
        let help = "Memory of the control side, without the names.";
        self.gauge("control_size_bytes", help, one(view.control_bytes));
        let help = "How often the table was reshaped.";
        self.counter("reshapings", help, one(view.reshaped));
        let position = view.position.map(|position| (Labels::new(), position.into()));
        self.gauge("log_position", "The log's entry that was applied last.", position);
        let readable = view.position.map(|_| (Labels::new(), u64::from(view.fault.is_none()).into()));
        self.gauge("log_readable", "Whether the log can be read.", readable);
        let reloads = view.position.map(|_| (Labels::new(), view.log_reloads.into()));
        let help = "How often all names were read again because the log had lost applied entries.";
        self.counter("log_reloads", help, reloads);
    }

    /// Counters and drops of the elements of ports. Counters of the two directions are one metric.
    fn switch_ports(&mut self, ports: &[PortView]) {
        let mut families: BTreeMap<Cow<'static, str>, (Vec<&str>, Series)> = BTreeMap::new();
        for spec in counters() {
            let (name, direction) = metric(spec.name);
            let (help, series) = families.entry(name).or_default();
            help.push(spec.doc);
            series.extend(ports.iter().map(|port| {
                let direction = direction.map(|direction| ("direction", direction.to_owned()));
                let labels = std::iter::once(("port", port.name.clone())).chain(direction);
                (labels.collect(), port.counters.get(spec.name).into())
            }));
        }
        for (name, (help, series)) in families {
            self.counter(name, help.join(" "), series);
        }
        let drops = ports.iter().flat_map(|port| {
            port.dropped.iter().map(|(reason, &count)| {
                let labels = vec![("port", port.name.clone()), ("reason", reason.clone())];
                (labels, Value::Whole(count))
            })
        });
        self.counter("dropped_frames", "Frames dropped, by reason.", drops);
    }
}

/// The metric of a counter, and its label of the direction.
fn metric(counter: &'static str) -> (Cow<'static, str>, Option<&'static str>) {
    match counter.split_once('_') {
        Some(("rx", what)) => (what.into(), Some("in")),
        Some(("tx", what)) => (what.into(), Some("out")),
        _ => (format!("{counter}_frames").into(), None),
    }
}
