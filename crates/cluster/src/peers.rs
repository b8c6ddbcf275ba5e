//! Sends messages to other nodes. A message to a node without a working link is relayed by a node that has contact with both.

use super::plane::PeerLink;
use super::wire::{Envelope, Message};
use arc_swap::ArcSwap;
use scalebricks_control::codec::Encoded;
use scalebricks_control::membership::Beat;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The other nodes.
pub(super) struct Peers {
    link: Arc<dyn PeerLink>,
    /// The relay of each member without contact to this node.
    relays: ArcSwap<BTreeMap<NodeId, NodeId>>,
}

impl Peers {
    pub(super) fn new(link: Arc<dyn PeerLink>) -> Self {
        Self { link, relays: ArcSwap::default() }
    }

    /// Sets the relays; all other members are reached directly.
    pub(super) fn set_relays(&self, relays: BTreeMap<NodeId, NodeId>) {
        if **self.relays.load() != relays {
            tracing::info!(?relays, "members that are reached through a relay changed");
            self.relays.store(Arc::new(relays));
        }
    }

    /// Sends a heartbeat to all other nodes.
    pub(super) fn beat(&self, beat: Beat) {
        self.link.beat(beat);
    }

    /// Sends a message.
    pub(super) fn send(&self, to: NodeId, message: Message) {
        match self.relays.load().get(&to) {
            Some(relay) => self.link.send(*relay, Envelope::Relay(to, message).encode()),
            None => self.link.send(to, Envelope::Direct(message).encode()),
        }
    }

    /// Passes a message on as its relay. It goes directly, so that none goes in circles.
    pub(super) fn pass_on(&self, from: NodeId, to: NodeId, message: Message) {
        self.link.send(to, Envelope::Relayed(from, message).encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Sent(Mutex<Vec<(NodeId, Vec<u8>)>>);

    impl PeerLink for Sent {
        fn beat(&self, _: Beat) {}

        fn send(&self, to: NodeId, bytes: Vec<u8>) {
            self.0.lock().unwrap().push((to, bytes));
        }
    }

    #[test]
    fn a_message_is_relayed_at_most_once() {
        let (sent, [a, b, c]) = (Arc::<Sent>::default(), [1, 2, 3].map(NodeId::new));
        let peers = Peers::new(Arc::clone(&sent) as Arc<dyn PeerLink>);
        let message = |number| Message::Tallied(number, None);
        peers.send(b, message(7));
        peers.set_relays([(b, c)].into());
        peers.send(b, message(8));
        // A message of another node goes directly, whatever the relays of this node are.
        peers.pass_on(a, b, message(9));
        let sent = sent.0.lock().unwrap();
        let decoded: Vec<_> =
            sent.iter().map(|(to, bytes)| (*to, Envelope::decode(bytes).unwrap())).collect();
        let direct = (b, Envelope::Direct(message(7)));
        let relay = (c, Envelope::Relay(b, message(8)));
        assert_eq!(decoded, [direct, relay, (b, Envelope::Relayed(a, message(9)))]);
    }
}
