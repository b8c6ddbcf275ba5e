//! `/metrics` of a switch: docs/switch.md has the list.

use super::{Labels, Snapshot, Value, label, one};
use crate::admin::model::NodeState;
use crate::switch::view::{PortView, SwitchView};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// The metrics of a switch as text.
///
/// # Errors
/// None in practice: memory takes everything.
pub fn render(view: &SwitchView) -> Result<String, fmt::Error> {
    let mut snapshot = Snapshot::default();
    let labels =
        vec![("version", view.version.clone()), ("kind", view.kind.clone()), ("source", view.source.clone())];
    snapshot.add(MetricType::Info, "switch", "What the switch is.", [(labels, Value::Whole(1))]);
    snapshot.gauge("uptime_seconds", "Time since the switch started.", one(view.uptime_s));
    let states = NodeState::ALL
        .map(|state| (label("state", state.name()), Value::Whole(u64::from(state == view.state))));
    snapshot.gauge("state", "1 for the state the switch is in, 0 for the others.", states);
    snapshot.gauge("ready", "Whether the switch forwards by all its names.", one(u64::from(view.is_ready)));
    snapshot.names(view);
    snapshot.switch_ports(&view.ports);
    let help = "Frames dropped as they were of none of the VLANs of a device's ports.";
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
        let help = "Memory of the control side, names apart.";
        self.gauge("control_size_bytes", help, one(view.control_bytes));
        let help = "How often the table was given another shape.";
        self.counter("reshapings", help, one(view.reshaped));
        let position = view.position.map(|position| (Labels::new(), position.into()));
        self.gauge("log_position", "The log's entry that was applied last.", position);
        let readable = view.position.map(|_| (Labels::new(), u64::from(view.fault.is_none()).into()));
        self.gauge("log_readable", "Whether the log can be read.", readable);
        let reloads = view.position.map(|_| (Labels::new(), view.log_reloads.into()));
        let help = "Times that all names were read again, as the log had lost entries that were applied.";
        self.counter("log_reloads", help, reloads);
    }

    fn switch_ports(&mut self, ports: &[PortView]) {
        type Pick = fn(&PortView) -> u64;
        let both = |rx: Pick, tx: Pick| {
            let directions = [("in", rx), ("out", tx)];
            let series = ports.iter().flat_map(move |port| {
                directions.map(|(direction, pick)| {
                    let labels = vec![("port", port.name.clone()), ("direction", direction.to_owned())];
                    (labels, Value::Whole(pick(port)))
                })
            });
            series.collect::<Vec<_>>()
        };
        let of = |pick: Pick| ports.iter().map(move |port| (label("port", &port.name), pick(port).into()));
        self.counter("frames", "Frames that came and left.", both(|p| p.rx_frames, |p| p.tx_frames));
        self.counter("bytes", "Bytes in such frames.", both(|p| p.rx_bytes, |p| p.tx_bytes));
        self.counter("flooded_frames", "Frames that came and were flooded.", of(|port| port.flooded));
        let help = "Frames that came with a name that is not known.";
        self.counter("unknown_frames", help, of(|port| port.unknown));
        let drops = ports.iter().flat_map(|port| {
            port.dropped.iter().map(|(reason, &count)| {
                let labels = vec![("port", port.name.clone()), ("reason", reason.clone())];
                (labels, Value::Whole(count))
            })
        });
        self.counter("dropped_frames", "Frames dropped, by reason.", drops);
    }
}
