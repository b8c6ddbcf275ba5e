//! `/metrics` of a node of a cluster router: docs/router-howto.md has the list.

use super::{Labels, Snapshot, Value, label, one};
use crate::model::NodeState;
use crate::model::router::{FeederView, LinkView, RouterView};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// The metrics of a node as text.
///
/// # Errors
/// None in practice, as writing to memory succeeds.
pub fn render(view: &RouterView, links: &[LinkView]) -> Result<String, fmt::Error> {
    let mut snapshot = Snapshot::default();
    let labels = vec![
        ("version", view.version.clone()),
        ("node", view.node.to_string()),
        ("steering", view.steering.clone()),
    ];
    snapshot.add(MetricType::Info, "node", "Properties of the node.", [(labels, Value::Whole(1))]);
    snapshot.gauge("uptime_seconds", "Time since the node started.", one(view.uptime_s));
    let states = NodeState::ALL
        .map(|state| (label("state", state.name()), Value::Whole(u64::from(state == view.state))));
    snapshot.gauge("state", "1 for the state the node is in, 0 for the others.", states);
    let ready = u64::from(view.is_ready);
    snapshot.gauge("ready", "Whether the node forwards and has all routes of the log.", one(ready));
    snapshot.log_of_routes(view);
    snapshot.router_tables(view);
    snapshot.feeders(&view.feeders);
    let up = links.iter().map(|link| (label("peer", &link.node.to_string()), u64::from(link.is_up).into()));
    snapshot.gauge("link_up", "Whether hellos arrive in both directions of a link.", up);
    let alive =
        links.iter().map(|link| (label("peer", &link.node.to_string()), u64::from(link.is_reachable).into()));
    snapshot.gauge("peer_reachable", "Whether packets reach the other node.", alive);
    let help = "Frames dropped because their VLAN is none of their device.";
    snapshot.counter("other_vlan_frames", help, one(view.other_vlan));
    snapshot.encode_all("scalebricks_router")
}

impl Snapshot {
    fn log_of_routes(&mut self, view: &RouterView) {
        self.gauge("log_position", "The log's entry that was applied last.", one(view.position));
        let readable = u64::from(view.fault.is_none());
        self.gauge("log_readable", "Whether the log can be read.", one(readable));
        let help = "How often all routes were read again because the log had lost applied entries.";
        self.counter("log_reloads", help, one(view.log_reloads));
    }

    fn router_tables(&mut self, view: &RouterView) {
        self.gauge("prefixes", "Prefixes with at least one path.", one(view.prefixes));
        let routes = [("ipv4", view.routes_ipv4), ("ipv6", view.routes_ipv6)]
            .map(|(family, count)| (label("family", family), count.into()));
        self.gauge("routes", "Routes in the tables of the workers.", routes);
        let help = "Selected routes that are in no table, because it is full.";
        self.gauge("missing_routes", help, one(view.missing_routes));
        let refused = [("prefixes", view.refused_prefixes), ("next_hops", view.refused_next_hops)]
            .map(|(reason, count)| (label("reason", reason), count.into()));
        self.counter(
            "refused_announcements",
            "Announcements beyond a limit, by what there are too many of.",
            refused,
        );
        self.gauge("next_hops", "Next hops of all nodes.", one(view.next_hops));
        self.gauge("own_next_hops", "Next hops of this node.", one(view.own_next_hops));
        let help = "Next hops of this node whose MAC address is known.";
        self.gauge("resolved_next_hops", help, one(view.resolved_next_hops));
        self.gauge("table_size_bytes", "Memory that lookups may touch.", one(view.table_bytes));
        self.gauge("alive_nodes", "Nodes that are alive, with this one.", one(view.alive.len() as u64));
        self.counter("alive_changes", "How often other nodes were alive than before.", one(view.walks));
        let help = "Duration of the last change of all routes after a node died or came back.";
        self.gauge("last_walk_milliseconds", help, one(view.last_walk_ms));
    }

    fn feeders(&mut self, feeders: &[FeederView]) {
        let each = |of: fn(&FeederView) -> u64| {
            feeders
                .iter()
                .map(move |feeder| (label("feeder", feeder.name.as_str()), Value::Whole(of(feeder))))
        };
        self.gauge("feeder_routes", "Routes of a source of this node.", each(|feeder| feeder.routes));
        let help = "Next hops of a source that are in no network of a port.";
        self.gauge("feeder_unresolved", help, each(|feeder| feeder.unresolved));
        self.gauge(
            "feeder_ok",
            "Whether a source can work.",
            each(|feeder| u64::from(feeder.fault.is_none())),
        );
        self.counter("feeder_records", "Records that a source logged.", each(|feeder| feeder.logged));
        let messages = feeders.iter().flat_map(|feeder| {
            feeder.messages.iter().map(|(kind, count)| {
                let labels: Labels = vec![("feeder", feeder.name.clone()), ("kind", kind.clone())];
                (labels, Value::Whole(*count))
            })
        });
        self.counter("feeder_messages", "Messages of a BGP speaker, by kind.", messages);
    }
}
