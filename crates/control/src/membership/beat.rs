//! Heartbeats: a node's state and the nodes that it hears.

use super::fitness::Fitness;
use crate::codec::Encoded;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::NodeSet;

/// The state in a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub struct HearingReport {
    /// Epoch of the newest view that the sender has read.
    pub epoch: u64,
    /// Nodes whose heartbeats the sender received in the last [`HEARING`](super::HEARING), in any life.
    pub hears: NodeSet,
    /// Whether the sender can do its work, and if not, why.
    pub fitness: Fitness,
    /// Nodes to which the sender grants their leases: members that are alive in that view, in the life in which the sender hears
    /// them. See [`crate::lease`].
    pub grants: NodeSet,
}

/// A heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Beat {
    /// The sender's life.
    pub life: u64,
    /// The sender's state.
    pub report: HearingReport,
}

impl Encoded for Beat {
    const NAME: &'static str = "heartbeat";
}

#[cfg(test)]
mod tests {
    use super::super::fitness::Unfitness;
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::NodeId;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_beat_survives_its_bytes(life: u64, epoch: u64, fitness: u8, nodes: Vec<u8>, granted: Vec<u8>) {
            let hears: NodeSet = nodes.iter().copied().map(NodeId::new).collect();
            prop_assert!((0..=255).all(|node| hears.contains(NodeId::new(node)) == nodes.contains(&node)));
            let fitness = Fitness::from_bits(fitness);
            let grants = granted.iter().copied().map(NodeId::new).collect();
            let beat = Beat { life, report: HearingReport { epoch, hears, fitness, grants } };
            prop_assert_eq!(Beat::decode(&beat.encode()), Ok(beat));
        }

        #[test]
        fn any_bytes_are_a_beat_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let is_beat = bytes.len() == 83 && bytes[..2] == [4, 0];
            prop_assert_eq!(Beat::decode(&bytes).is_ok(), is_beat);
        }
    }

    #[test]
    fn the_encoding_does_not_change() {
        let hears = [NodeId::new(1), NodeId::new(64), NodeId::new(255)].into_iter().collect();
        let grants = [NodeId::new(8), NodeId::new(200)].into_iter().collect();
        let fitness = Fitness::FIT.with(Unfitness::Fabric);
        let beat = Beat { life: 2, report: HearingReport { epoch: 3, hears, fitness, grants } };
        let mut bytes = [0; 83];
        (bytes[0], bytes[2], bytes[10], bytes[50]) = (4, 2, 3, 4);
        (bytes[18], bytes[26], bytes[49]) = (2, 1, 0x80);
        (bytes[52], bytes[76]) = (1, 1);
        assert_eq!(beat.encode(), bytes);
    }
}
