//! The metrics of a switch: public names, which are stable when elements change.

use super::program::example;
use scalebricks_admin::metrics::render_switch;
use scalebricks_apps::switch::counts::drops;
use scalebricks_daemon::switch::load::Configuration;
use scalebricks_daemon::switch::running::Running;
use scalebricks_io::{Burst, Packet, Pool, RxPort, TxPort};
use std::collections::BTreeSet;
use std::time::Instant;

/// Names with their labels.
const SERIES: [&str; 19] = [
    "scalebricks_switch_actions",
    "scalebricks_switch_bytes_total port direction",
    "scalebricks_switch_control_size_bytes",
    "scalebricks_switch_dropped_frames_total port reason",
    "scalebricks_switch_flooded_frames_total port",
    "scalebricks_switch_frames_total port direction",
    "scalebricks_switch_switch_info version kind source",
    "scalebricks_switch_log_position",
    "scalebricks_switch_log_readable",
    "scalebricks_switch_log_reloads_total",
    "scalebricks_switch_names",
    "scalebricks_switch_other_vlan_frames_total",
    "scalebricks_switch_ready",
    "scalebricks_switch_reshapings_total",
    "scalebricks_switch_state state",
    "scalebricks_switch_table_size_bytes",
    "scalebricks_switch_unknown_frames_total port",
    "scalebricks_switch_uptime_seconds",
    "scalebricks_switch_value_bits",
];

/// The JSON fields of a port.
const FIELDS: [&str; 8] =
    ["dropped", "flooded", "name", "rx_bytes", "rx_frames", "tx_bytes", "tx_frames", "unknown"];

/// Reasons of the switch's own elements.
const REASONS: [&str; 16] = [
    "bad_ipv4_checksum",
    "bad_name",
    "by_action",
    "expired",
    "later_fragment",
    "link_local",
    "malformed",
    "no_buffer",
    "no_name",
    "no_such_port",
    "not_routable",
    "port_full",
    "split_horizon",
    "storm",
    "truncated",
    "unknown_name",
];

/// A line as a name and its labels, without their values.
fn series(line: &str) -> String {
    let (name, labels) = line.split_once('{').unwrap_or_else(|| line.split_once(' ').unwrap());
    if !line.contains('{') {
        return name.to_owned();
    }
    let labels = labels.split_once('}').unwrap().0.split("\",").map(|label| label.split_once('=').unwrap().0);
    std::iter::once(name).chain(labels).collect::<Vec<_>>().join(" ")
}

#[test]
fn names_and_labels_stay() {
    let folder = tempfile::tempdir().unwrap();
    example(folder.path());
    let configuration = Configuration::read(&folder.path().join("switch.toml")).unwrap();
    let table = configuration.table().unwrap();
    let switch = Running::new(configuration, table, Instant::now());
    let ports = switch.configuration.file.ports.len();
    let nothing = || (Box::new(Nothing) as _, Box::new(Nothing) as _);
    let pool = Pool::new(1, 64).unwrap();
    let _worker = switch.worker::<Packet>((0..ports).map(|_| nothing()), Box::new(pool)).unwrap();
    let mut view = switch.view();
    let json = serde_json::to_value(&view.ports[0]).unwrap();
    let fields: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, FIELDS.into());
    (view.position, view.fault) = (Some(1), Some("none".to_owned()));
    view.ports[0].dropped = drops().map(|spec| (spec.name.to_owned(), 1)).collect();
    let text = render_switch(&view).unwrap();
    let there: BTreeSet<String> = text.lines().filter(|line| !line.starts_with('#')).map(series).collect();
    let expected: BTreeSet<String> = SERIES.map(str::to_owned).into_iter().collect();
    assert_eq!(there, expected);
    for direction in ["in", "out"] {
        for name in ["frames", "bytes"] {
            let line =
                format!("scalebricks_switch_{name}_total{{port=\"rack1\",direction=\"{direction}\"}} 0");
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }
}

#[test]
fn reasons_stay() {
    let of_the_runner = scalebricks_graph::spec::RUN_DROPS.iter().map(|spec| spec.name);
    let expected: BTreeSet<&str> = REASONS.into_iter().chain(of_the_runner).collect();
    assert_eq!(drops().map(|spec| spec.name).collect::<BTreeSet<_>>(), expected);
}

/// A port that receives nothing.
struct Nothing;

impl RxPort<Packet> for Nothing {
    fn rx_burst(&mut self, _: &mut Burst<Packet>) -> usize {
        0
    }
}

impl TxPort<Packet> for Nothing {
    fn tx_burst(&mut self, _: &mut Burst<Packet>) -> usize {
        0
    }
}
