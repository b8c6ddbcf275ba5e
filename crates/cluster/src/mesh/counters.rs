//! Counters by peer and by reason.

use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Defines an enum of counters, its list, and its names.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The counter's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

counted! {
    /// Counters of each peer.
    PeerCount {
        /// Heartbeats sent to it.
        BeatsSent = "beats_sent",
        /// Heartbeats that the system did not accept.
        BeatsNotSent = "beats_not_sent",
        /// Datagrams that asked it to prove itself, or proved this node.
        GreetingsSent = "greetings_sent",
        /// Accepted heartbeats.
        BeatsReceived = "beats_received",
        /// Heartbeats that a newer one replaced before they were taken.
        BeatsReplaced = "beats_replaced",
        /// Replayed or reordered datagrams.
        DatagramsStale = "datagrams_stale",
        /// Datagrams that may be old: the peer has just started, or does not hear this node, or they are replayed.
        DatagramsUnproven = "datagrams_unproven",
        /// Messages that were written to a connection.
        MessagesSent = "messages_sent",
        /// Their bytes.
        BytesSent = "bytes_sent",
        /// Messages received.
        MessagesReceived = "messages_received",
        /// Their bytes.
        BytesReceived = "bytes_received",
        /// Messages for which its queue had no room.
        DroppedFull = "dropped_full",
        /// Messages that were longer than a frame may be, or empty.
        DroppedTooLong = "dropped_too_long",
        /// Messages that waited for a connection that broke, or that could not be made.
        DroppedUnconnected = "dropped_unconnected",
        /// Connections to it.
        Connected = "connected",
        /// Connections to it that could not be made.
        ConnectFailed = "connect_failed",
        /// A server at its address does not have the key.
        ConnectWrongKey = "connect_wrong_key",
        /// Connections from it.
        Accepted = "accepted",
        /// Connections from it that it closed, or that broke.
        Broken = "broken",
        /// Connections from it that were closed because nothing arrived over them.
        Silent = "silent",
        /// Connections from it that were closed because a message was altered.
        FrameWrongKey = "frame_wrong_key",
        /// Connections from it that were closed because a message was too large.
        FrameTooLarge = "frame_too_large",
    }
}

counted! {
    /// Counters of senders that have not proven to be peers.
    StrangerCount {
        /// Malformed datagrams.
        DatagramMalformed = "datagram_malformed",
        /// Datagrams that were altered, or whose sender does not have the key.
        DatagramWrongKey = "datagram_wrong_key",
        /// Datagrams of the cluster from a node that is not a peer, or for another node.
        DatagramMisdirected = "datagram_misdirected",
        /// Connections that began with other bytes.
        ConnectionMalformed = "connection_malformed",
        /// Connections of senders without the key.
        ConnectionWrongKey = "connection_wrong_key",
        /// Connections from a node that is not a peer, or to another node.
        ConnectionMisdirected = "connection_misdirected",
        /// Connections that ended before their peer was identified.
        ConnectionUnfinished = "connection_unfinished",
        /// Connections whose peer was not identified in time.
        ConnectionTimedOut = "connection_timed_out",
        /// Connections that were closed because too many newer ones were unidentified.
        ConnectionCrowdedOut = "connection_crowded_out",
        /// The system accepted no connection.
        AcceptFailed = "accept_failed",
    }
}

/// Counters shared by many tasks.
pub(super) struct Counters<const N: usize>([AtomicU64; N]);

/// The counters of a peer.
pub(super) type PeerCounters = Counters<{ PeerCount::ALL.len() }>;

/// The counters of strangers.
pub(super) type StrangerCounters = Counters<{ StrangerCount::ALL.len() }>;

impl<const N: usize> Counters<N> {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn add_at(&self, index: usize, more: u64) {
        if let Some(counter) = self.0.get(index) {
            counter.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn get_at(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

impl PeerCounters {
    pub(super) fn add(&self, what: PeerCount, more: usize) {
        self.add_at(what as usize, more as u64);
    }

    pub(super) fn one(&self, what: PeerCount) {
        self.add(what, 1);
    }

    pub(super) fn read(&self) -> BTreeMap<PeerCount, u64> {
        PeerCount::ALL.iter().map(|what| (*what, self.get_at(*what as usize))).collect()
    }
}

impl StrangerCounters {
    pub(super) fn one(&self, what: StrangerCount) {
        self.add_at(what as usize, 1);
    }

    pub(super) fn read(&self) -> BTreeMap<StrangerCount, u64> {
        StrangerCount::ALL.iter().map(|what| (*what, self.get_at(*what as usize))).collect()
    }
}

/// The counters of a mesh, read one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshStats {
    /// For each peer.
    pub peers: BTreeMap<NodeId, PeerStats>,
    /// Of senders that have not proven to be peers.
    pub strangers: BTreeMap<StrangerCount, u64>,
}

/// State of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStats {
    /// Whether there is a connection over which messages go to it.
    pub is_connected: bool,
    /// Messages that wait to be sent to it.
    pub waiting: usize,
    /// Its counters.
    pub counts: BTreeMap<PeerCount, u64>,
}

impl MeshStats {
    /// A counter of a peer; 0 for an unknown node.
    pub fn of(&self, peer: NodeId, what: PeerCount) -> u64 {
        self.peers.get(&peer).and_then(|peer| peer.counts.get(&what)).copied().unwrap_or(0)
    }

    /// A counter of senders that have not proven to be peers.
    pub fn strangers(&self, what: StrangerCount) -> u64 {
        self.strangers.get(&what).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_for_itself() {
        let (peer, strangers) = (PeerCounters::new(), StrangerCounters::new());
        for (times, what) in PeerCount::ALL.iter().enumerate() {
            peer.add(*what, times);
        }
        for what in StrangerCount::ALL {
            strangers.one(*what);
        }
        assert!(peer.read().values().copied().eq(0..PeerCount::ALL.len() as u64));
        assert!(strangers.read().values().all(|count| *count == 1));
        let names = PeerCount::ALL.iter().map(|what| what.name());
        let names: std::collections::BTreeSet<_> =
            names.chain(StrangerCount::ALL.iter().map(|what| what.name())).collect();
        assert_eq!(names.len(), PeerCount::ALL.len() + StrangerCount::ALL.len());
    }
}
