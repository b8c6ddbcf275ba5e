//! Closures of tenures: which nodes inherit the flows of a node.
//!
//! A pin names a node and an [`Epoch`] of the view in which that node took flows. A [`Closure`] assigns the flows that were pinned
//! to a node before the closure's epoch to heirs. The time between two closures of a node is a *tenure* of that node.
//!
//! The node that a pin leads to depends only on the pin, the flow and the closures, not on their order in a log: see
//! [`Closures::lead`].

use super::Heirs;
use crate::codec::checked;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

/// An epoch of the view of membership.
///
/// [`Epoch::UNKNOWN`] is before all others. Pins that were logged before version 3 have it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, BorshSerialize, BorshDeserialize,
)]
pub struct Epoch(u32);

impl Epoch {
    /// Before all closures.
    pub const UNKNOWN: Self = Self(0);

    /// The epoch of a view. Views are counted in 64 bits; after 2^32 - 1 changes all have the last epoch.
    pub const fn of_view(epoch: u64) -> Self {
        if epoch < u32::MAX as u64 { Self(epoch as u32) } else { Self(u32::MAX) }
    }

    /// The epoch with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The name of a flow, which all its keys share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub struct FlowId(pub u64);

/// The flows that were pinned to a node before an epoch go to heirs.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct Closure {
    /// The node.
    pub node: NodeId,
    /// The epoch of the view that closed the node's tenure.
    pub epoch: Epoch,
    /// The nodes that take its flows. All of them took flows in the view of that epoch, so the node is not among them.
    pub heirs: Heirs,
}

impl BorshDeserialize for Closure {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |(node, epoch, heirs): (NodeId, Epoch, Heirs)| {
            if epoch == Epoch::UNKNOWN {
                Err("a closure without an epoch")
            } else if heirs.nodes().contains(&node) {
                Err("a node is its own heir")
            } else {
                Ok(Self { node, epoch, heirs })
            }
        })
    }
}

/// Most closures that are remembered: the newest of each node, and the newest of the others.
pub const MAX_CLOSURES: usize = 512;

/// Closures, in their order. Memory: at most [`MAX_CLOSURES`], with up to 255 heirs each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Closures {
    all: BTreeMap<(Epoch, NodeId), Heirs>,
    newest: BTreeMap<NodeId, Epoch>,
}

impl Closures {
    /// All, by epoch and node.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Closure> {
        self.all.iter().map(|(&(epoch, node), heirs)| Closure { node, epoch, heirs: heirs.clone() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// When a node's tenure was closed last; [`Epoch::UNKNOWN`] if it never was.
    pub fn newest_of(&self, node: NodeId) -> Epoch {
        self.newest.get(&node).copied().unwrap_or_default()
    }

    /// The newest of all; [`Epoch::UNKNOWN`] if there is none.
    pub fn newest(&self) -> Epoch {
        self.all.last_key_value().map_or(Epoch::UNKNOWN, |(&(epoch, _), _)| epoch)
    }

    /// Takes in a closure. False, and nothing changes, if the node has one that is as new.
    pub fn add(&mut self, closure: Closure) -> bool {
        let Closure { node, epoch, heirs } = closure;
        if epoch <= self.newest_of(node) {
            return false;
        }
        self.newest.insert(node, epoch);
        self.all.insert((epoch, node), heirs);
        if self.all.len() > MAX_CLOSURES {
            let is_old = |(epoch, node): &&(Epoch, NodeId)| self.newest_of(*node) != *epoch;
            if let Some(oldest) = self.all.keys().find(is_old).copied() {
                self.all.remove(&oldest);
            }
        }
        true
    }

    /// The node that a pin leads to: while the tenure that the pin names is closed, the pin moves to the heir of that closure, in the
    /// closure's epoch. `can_be` tells which nodes can be pinned to. The heir is the node with the highest hash of itself and the
    /// flow: rendezvous hashing (Thaler and Ravishankar, 1998).
    ///
    /// Each step leads to a later epoch, so it ends.
    /// Cost: nothing for a pin of the newest epoch, else a comparison with each later closure per step.
    pub fn lead(
        &self,
        flow: FlowId,
        mut pin: (NodeId, Epoch),
        can_be: impl Fn(NodeId) -> bool,
    ) -> (NodeId, Epoch) {
        while let Some((epoch, heirs)) = self.closing(pin)
            && let Some(heir) = heirs.of_flow(flow, &can_be)
        {
            pin = (heir, epoch);
        }
        pin
    }

    /// The closure of the tenure that a pin names, if it is closed.
    fn closing(&self, (node, epoch): (NodeId, Epoch)) -> Option<(Epoch, &Heirs)> {
        if self.newest_of(node) <= epoch {
            return None;
        }
        let later = self.all.range((Epoch(epoch.0.saturating_add(1)), NodeId::new(0))..);
        later.filter(|((_, closed), _)| *closed == node).map(|((epoch, _), heirs)| (*epoch, heirs)).next()
    }
}

impl BorshSerialize for Closures {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        self.iter().collect::<Vec<Closure>>().serialize(writer)
    }
}

impl BorshDeserialize for Closures {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |closures: Vec<Closure>| {
            let place = |closure: &Closure| (closure.epoch, closure.node);
            if closures.len() > MAX_CLOSURES {
                Err("too many closures")
            } else if !closures.is_sorted_by(|one, next| place(one) < place(next)) {
                Err("closures are not in ascending order")
            } else {
                let mut all = Self::default();
                for closure in closures {
                    all.add(closure);
                }
                Ok(all)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(number: u8) -> NodeId {
        NodeId::new(number)
    }

    fn closure(number: u8, epoch: u32, heirs: &[u8]) -> Closure {
        Closure {
            node: node(number),
            epoch: Epoch(epoch),
            heirs: Heirs::new(heirs.iter().copied().map(node)).unwrap(),
        }
    }

    /// Histories in which heirs took flows when they became heirs: the node, and the other closed nodes.
    fn histories() -> impl Strategy<Value = Vec<Closure>> {
        prop::collection::vec((0..6_u8, prop::collection::btree_set(0..6_u8, 1..5)), 0..30).prop_map(
            |steps| {
                let step = |(at, (closed, heirs)): (usize, (u8, std::collections::BTreeSet<u8>))| {
                    let heirs: Vec<u8> = heirs.into_iter().filter(|heir| *heir != closed).collect();
                    (!heirs.is_empty()).then(|| closure(closed, at as u32 + 1, &heirs))
                };
                steps.into_iter().enumerate().filter_map(step).collect()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The closures of one node are added in order, those of different nodes in any order: a pin ends at the same node, from whatever
        /// intermediate state it is led on.
        #[test]
        fn a_pin_ends_at_one_node_in_any_order(
            history in histories(), picks: Vec<prop::sample::Index>, flow: u64, at in 0..6_u8, epoch in 0..30_u32, then: prop::sample::Index,
        ) {
            let mut picks = picks.iter();
            let mut left = history.clone();
            let mut shuffled = Closures::default();
            let pin = (node(at), Epoch(epoch));
            let (mut walked, then) = (pin, then.index(history.len() + 1));
            while !left.is_empty() {
                let pick = picks.next().map_or(0, |pick| pick.index(left.len()));
                let first = left.iter().position(|other| other.node == left[pick].node).unwrap();
                prop_assert!(shuffled.add(left.remove(first)));
                // The pin exists from here on, and follows each closure.
                if shuffled.len() > then {
                    walked = shuffled.lead(FlowId(flow), walked, |_| true);
                }
            }
            walked = shuffled.lead(FlowId(flow), walked, |_| true);
            let mut ordered = Closures::default();
            for closure in history {
                prop_assert!(ordered.add(closure));
            }
            prop_assert_eq!(&ordered, &shuffled);
            let end = ordered.lead(FlowId(flow), pin, |_| true);
            prop_assert_eq!(end, walked);
            prop_assert!(ordered.newest_of(end.0) <= end.1, "it ends at an open tenure");
        }

        #[test]
        fn closures_survive_their_bytes(history in histories()) {
            let mut closures = Closures::default();
            for closure in history {
                prop_assert!(closures.add(closure));
            }
            let bytes = borsh::to_vec(&closures).unwrap();
            prop_assert_eq!(borsh::from_slice::<Closures>(&bytes).unwrap(), closures);
        }
    }

    #[test]
    fn as_few_flows_move_as_can_be() {
        let heirs = |nodes: &[u8]| closure(9, 1, nodes).heirs;
        let (four, three) = (heirs(&[0, 1, 2, 3]), heirs(&[0, 1, 3]));
        let mut shares = [0; 4];
        for flow in (0..40_000).map(FlowId) {
            let (before, after) =
                (four.of_flow(flow, |_| true).unwrap(), three.of_flow(flow, |_| true).unwrap());
            shares[before.index()] += 1;
            assert!(before == after || before == node(2), "only flows of the node that is missing move");
        }
        assert!(shares.iter().all(|share| (9_500..10_500).contains(share)), "{shares:?}");
    }

    #[test]
    fn memory_is_bounded_and_the_newest_of_each_node_stays() {
        let mut closures = Closures::default();
        assert!(closures.add(closure(7, 1, &[1])));
        for epoch in 2..3_000 {
            assert!(closures.add(closure((epoch % 2) as u8, epoch, &[2])));
        }
        assert_eq!(closures.len(), MAX_CLOSURES);
        assert_eq!(closures.lead(FlowId(1), (node(7), Epoch::UNKNOWN), |_| true).0, node(2));
        assert!(!closures.add(closure(7, 1, &[3])), "it is there already");
        for number in 0..=255 {
            closures.add(closure(number, 4_000, &[if number == 255 { 0 } else { 255 }]));
        }
        assert!((0..=255).all(|number| closures.newest_of(node(number)) == Epoch(4_000)));
        assert_eq!(closures.len(), MAX_CLOSURES);
    }

    #[test]
    fn malformed_closures_are_refused() {
        let take = |closure: Closure| {
            let bytes = borsh::to_vec(&closure).unwrap();
            assert_eq!(bytes.len(), 1 + 4 + 32);
            borsh::from_slice::<Closure>(&bytes).ok()
        };
        assert_eq!(take(closure(1, 5, &[0, 255])), Some(closure(1, 5, &[0, 255])));
        assert_eq!(take(closure(1, 0, &[2])), None, "no epoch");
        assert_eq!(take(closure(1, 5, &[1, 2])), None, "its own heir");
        let empty = [&[1, 5, 0, 0, 0][..], &[0; 32]].concat();
        assert!(borsh::from_slice::<Closure>(&empty).is_err(), "no heirs");
    }
}
