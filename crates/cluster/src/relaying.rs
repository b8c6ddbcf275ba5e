//! Messages go round a broken pair of nodes by way of one that has contact with both.

use super::plane::Link;
use super::wire::Envelope;
use arc_swap::ArcSwap;
use scalebricks_control::membership::Beat;
use scalebricks_control::version::Version;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A link that sends through another node what is for a member without contact to this one.
pub(super) struct Relaying {
    direct: Arc<dyn Link>,
    /// The members to reach through another, and through which.
    through: ArcSwap<BTreeMap<NodeId, NodeId>>,
}

impl Relaying {
    pub(super) fn new(direct: Arc<dyn Link>) -> Self {
        Self { direct, through: ArcSwap::default() }
    }

    /// From now on messages go these ways; the others directly.
    pub(super) fn route(&self, through: BTreeMap<NodeId, NodeId>) {
        if **self.through.load() != through {
            tracing::info!(?through, "members that are reached through others");
            self.through.store(Arc::new(through));
        }
    }

    /// Passes a message on for another node. It goes directly, so that none goes in circles.
    pub(super) fn pass_on(&self, from: NodeId, to: NodeId, bytes: Vec<u8>) {
        self.direct.send(to, Envelope::Relayed(from, bytes).encode(Version::WITNESSES));
    }
}

impl Link for Relaying {
    fn beat(&self, beat: Beat) {
        self.direct.beat(beat);
    }

    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        match self.through.load().get(&to) {
            Some(through) => {
                self.direct.send(*through, Envelope::Relay(to, bytes).encode(Version::WITNESSES));
            }
            None => self.direct.send(to, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Sent(Mutex<Vec<(NodeId, Vec<u8>)>>);

    impl Link for Sent {
        fn beat(&self, _: Beat) {}

        fn send(&self, to: NodeId, bytes: Vec<u8>) {
            self.0.lock().unwrap().push((to, bytes));
        }
    }

    #[test]
    fn a_message_takes_one_hop_more_and_no_second() {
        let (sent, [a, b, c]) = (Arc::<Sent>::default(), [1, 2, 3].map(NodeId::new));
        let link = Relaying::new(Arc::clone(&sent) as Arc<dyn Link>);
        link.send(b, vec![7]);
        link.route([(b, c)].into());
        link.send(b, vec![8]);
        // Passed on for another, it goes directly, whatever the way of own messages is.
        link.pass_on(a, b, vec![9]);
        let sent = sent.0.lock().unwrap();
        let decode = |at: usize| Envelope::decode(&sent[at].1);
        assert_eq!(sent[0], (b, vec![7]));
        assert_eq!((sent[1].0, decode(1)), (c, Ok(Envelope::Relay(b, vec![8]))));
        assert_eq!((sent[2].0, decode(2)), (b, Ok(Envelope::Relayed(a, vec![9]))));
    }
}
