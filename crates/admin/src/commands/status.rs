//! `scalebricks status`: formats the status of a node.

use super::{list, right, table, trimmed};
use crate::model::{FabricPeerView, NeighbourView, PortView, ReasonView, Status, WorkerView};
use scalebricks_console::quantity::{bytes, count};
use std::time::Duration;

pub(super) fn render(status: &Status) -> String {
    let Status { node, nodes, architecture, key, state, flows, tables, .. } = status;
    let generation = match flows.generation {
        0 => "not loaded yet".to_owned(),
        1 => "loaded once".to_owned(),
        times => format!("loaded {times} times"),
    };
    let mut rows = vec![
        ("node", format!("{node} of {nodes}, {architecture}, key {key}, version {}", status.version)),
        ("state", format!("{state}, up {}", time(status.uptime_s))),
    ];
    rows.extend(status.reasons.iter().map(|reason| ("not ready", reason_text(reason))));
    rows.extend([
        ("flows", format!("{} in the cluster, {} here", count(flows.in_cluster), count(flows.here))),
        ("flow file", format!("{}, {generation}", flows.file)),
    ]);
    for view in tables {
        let keys = view.keys.map_or_else(String::new, |keys| format!(", {} keys", count(keys)));
        rows.push((view.table.name(), format!("{}{keys}", bytes(view.table_bytes))));
    }
    let mut parts = vec![list(&rows)];
    if !status.ports.is_empty() {
        parts.push(ports(&status.ports));
    }
    if !status.neighbours.is_empty() {
        parts.push(neighbours(&status.neighbours));
    }
    if !status.fabric.is_empty() {
        parts.push(fabric(&status.fabric));
    }
    if !status.workers.is_empty() {
        parts.push(workers(status.workers.iter()));
    }
    parts.join("\n\n")
}

/// `internet_link: the internet link is down, for 3.2 s`.
fn reason_text(reason: &ReasonView) -> String {
    let detail = if reason.detail.is_empty() { &reason.meaning } else { &reason.detail };
    let since = reason.since_s.map_or_else(String::new, |since| format!(", for {}", time(since)));
    format!("{}: {detail}{since}", reason.reason)
}

fn ports(ports: &[PortView]) -> String {
    let mut table = table(["port", "device", "driver", "MAC", "addresses", "link"]);
    for port in ports {
        let link = match (port.is_link_up, port.speed_mbps) {
            (false, _) => "down".to_owned(),
            (true, None) => "up".to_owned(),
            (true, Some(speed)) => format!("up, {} Mbit/s", count(u64::from(speed))),
        };
        let addresses = port.addresses.join("\n");
        table.add_row(vec![port.role.name(), &port.device, &port.driver, &port.mac, &addresses, &link]);
    }
    trimmed(&table)
}

fn neighbours(neighbours: &[NeighbourView]) -> String {
    let mut table = table(["neighbour", "port", "MAC", "state", "last heard"]);
    for neighbour in neighbours {
        let age = neighbour.age_s.map_or_else(|| "never".to_owned(), |age| format!("{} ago", time(age)));
        let mac = neighbour.mac.as_deref().unwrap_or("unknown");
        let address = neighbour.address.to_string();
        table.add_row(vec![&address, neighbour.port.name(), mac, &neighbour.state, &age]);
    }
    trimmed(&table)
}

fn fabric(peers: &[FabricPeerView]) -> String {
    let mut table = table(["fabric", "heard", "reached", "round trip", "way"]);
    let yes_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    for peer in peers {
        let round_trip = peer.round_trip_us.map_or_else(|| "unknown".to_owned(), |us| format!("{us:.0} us"));
        let way = peer.via.map_or_else(|| peer.way().to_owned(), |via| format!("via node {via}"));
        let node = format!("node {}", peer.node);
        table.add_row(vec![node, yes_no(peer.is_heard), yes_no(peer.is_reached), round_trip, way]);
    }
    trimmed(&table)
}

pub(super) fn workers<'a>(workers: impl Iterator<Item = &'a WorkerView>) -> String {
    let mut table = table(["worker", "core", "mode", "busy", "turns", "packets per busy turn"]);
    for worker in workers {
        table.add_row(vec![
            right(worker.worker),
            right(worker.core.map_or_else(|| "any".to_owned(), |core| core.to_string())),
            right(&worker.mode),
            right(format!("{:.1} %", worker.busy_share * 100.0)),
            right(count(worker.turns)),
            right(format!("{:.2}", worker.mean_batch_fill)),
        ]);
    }
    trimmed(&table)
}

/// `3 d 4 h`, `5 min 6 s`, `0.8 s`: the two largest units.
pub(super) fn time(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_two_largest_units() {
        for (seconds, text) in [
            (0.84, "0.8 s"),
            (59.9, "59.9 s"),
            (306.0, "5 min 6 s"),
            (7_260.0, "2 h 1 min"),
            (273_700.0, "3 d 4 h"),
            (f64::NAN, "NaN s"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
