//! The control plane's counters.

use super::{Labels, Snapshot, Value, label, one};
use crate::model::{ControlStats, PeerView};
use scalebricks_cluster::stats::{COUNTERS, Kind};

/// Names of a peer's counters of bytes.
const BYTES: [(&str, &str); 2] = [("in", "bytes_received"), ("out", "bytes_sent")];

impl Snapshot {
    pub(super) fn control(&mut self, stats: &ControlStats) {
        for counter in COUNTERS {
            let value = one((counter.value)(&stats.counters));
            match counter.kind {
                Kind::Counter => self.counter(counter.metric, counter.doc, value),
                Kind::Gauge => self.gauge(counter.metric, counter.doc, value),
            }
        }
        let lease = stats.lease.iter().map(|lease| (Labels::new(), (lease.forwards_ms / 1_000).into()));
        let help = "Seconds for which the node forwards if its lease is not renewed.";
        self.gauge("control_lease_seconds", help, lease);
        self.members(stats);
        self.mesh(stats);
    }

    fn members(&mut self, stats: &ControlStats) {
        let member = |node: u16| ("member", node.to_string());
        let fit = stats
            .members
            .iter()
            .map(|of| (vec![member(of.node)], u64::from(of.suspended_for.is_empty()).into()));
        let help =
            "Whether a living member takes flows and answers for its addresses, as the cluster agreed.";
        self.gauge("control_member_fit", help, fit);
        let reasons = stats.members.iter().flat_map(|of| {
            let reasons = of.suspended_for.iter();
            reasons.map(move |reason| (vec![member(of.node), ("reason", reason.clone())], 1_u64.into()))
        });
        self.gauge(
            "control_member_suspended",
            "Why a living member is suspended; 1 for each reason.",
            reasons,
        );
    }

    fn mesh(&mut self, stats: &ControlStats) {
        let peer = |peer: &PeerView| label("peer", &peer.node.to_string());
        let peers = || stats.peers.iter();
        let connected = peers().map(|p| (peer(p), u64::from(p.is_connected).into()));
        self.gauge("mesh_connected", "Whether messages can go to another node.", connected);
        let waiting = peers().map(|p| (peer(p), p.waiting.into()));
        self.gauge("mesh_waiting_messages", "Messages waiting to be sent to another node.", waiting);
        let bytes =
            peers().flat_map(|p| BYTES.map(|(direction, name)| both(p, "direction", direction, name)));
        self.counter("mesh_bytes", "Bytes of messages from and to another node.", bytes);
        let is_event = |name: &&String| BYTES.iter().all(|(_, bytes)| *bytes != name.as_str());
        let events = peers()
            .flat_map(|p| p.counts.keys().filter(is_event).map(move |name| both(p, "event", name, name)));
        self.counter(
            "mesh_peer_events",
            "Heartbeats, messages and connections from and to another node.",
            events,
        );
        let strangers = stats.strangers.iter().map(|(name, &n)| (label("event", name), n.into()));
        let help = "Datagrams and connections that were not authenticated.";
        self.counter("mesh_stranger_events", help, strangers);
    }
}

/// A counter of a peer with a label.
fn both(peer: &PeerView, of: &'static str, value: &str, name: &str) -> (Labels, Value) {
    let labels = vec![("peer", peer.node.to_string()), (of, value.to_owned())];
    (labels, peer.counts.get(name).copied().unwrap_or(0).into())
}
