//! Who takes the flows of a node, agreed once.
//!
//! A pin names a node and an [`Epoch`] of the view in which that node took flows. A [`Closure`] says that, as of its own epoch,
//! the flows pinned to a node before go to heirs. The time between two closures of a node is a *tenure* of that node.
//!
//! Where a pin leads is a function of the pin, the flow and the closures alone, so it does not matter in which order a log has
//! them: see [`Closures::lead`].

use super::codec::Reader;
use super::{DecodeError, Heirs};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;

/// An epoch of the view of membership.
///
/// [`Epoch::UNKNOWN`] is before all others. Pins that were logged before version 3 have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId(pub u64);

/// The flows that were pinned to a node before an epoch go to heirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The node.
    pub node: NodeId,
    /// The epoch of the view that closed the node's tenure.
    pub epoch: Epoch,
    /// Who takes its flows. All of them took flows in the view of that epoch, so the node is not among them.
    pub heirs: Heirs,
}

/// A bit for each node.
const BITMAP_BYTES: usize = 256 / 8;

impl Closure {
    /// Epoch (4 octets), node (1), heirs as a bitmap (32): bit n mod 8 of octet n / 8 for node n.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.push(self.node.get());
        let mut bitmap = [0_u8; BITMAP_BYTES];
        for heir in self.heirs.nodes() {
            bitmap[heir.index() / 8] |= 1 << (heir.index() % 8);
        }
        out.extend_from_slice(&bitmap);
    }

    /// Reads what [`Closure::put`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`], also if a node is its own heir.
    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let epoch = Self::epoch_of(reader)?;
        let [node] = reader.take()?;
        let bitmap: [u8; BITMAP_BYTES] = reader.take()?;
        let is_set = |number: &u8| bitmap[usize::from(*number / 8)] >> (number % 8) & 1 == 1;
        let heirs = Heirs::new((0..=u8::MAX).filter(is_set).map(NodeId::new));
        let heirs = heirs.map_err(|_| reader.malformed("a closure without heirs"))?;
        let node = NodeId::new(node);
        if heirs.nodes().contains(&node) {
            return Err(reader.malformed("a node is its own heir"));
        }
        Ok(Self { node, epoch, heirs })
    }

    fn epoch_of(reader: &mut Reader<'_>) -> Result<Epoch, DecodeError> {
        match Epoch(u32::from_le_bytes(reader.take()?)) {
            Epoch::UNKNOWN => Err(reader.malformed("a closure without epoch")),
            epoch => Ok(epoch),
        }
    }
}

/// Closures that are remembered, at most: the newest of each node, and of the others the newest.
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

    /// Where a pin leads: while the tenure that it names is closed, to the heir of that closure, in the epoch of the closure.
    /// `can_be` says which nodes can be pinned to. The node with the highest hash of itself and the flow is the heir: rendezvous
    /// hashing (Thaler and Ravishankar, 1998).
    ///
    /// Each step leads to a later epoch, so there is an end.
    /// Cost: nothing for a pin of the newest epoch, else a look at each later closure for each step.
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

    /// Number (2 octets) and each, in their order.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.all.len() as u16).to_le_bytes()); // at most MAX_CLOSURES
        self.iter().for_each(|closure| closure.put(out));
    }

    /// Reads what [`Closures::put`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`], also if they are too many or not in their order.
    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = usize::from(u16::from_le_bytes(reader.take()?));
        if count > MAX_CLOSURES {
            return Err(reader.malformed("too many closures"));
        }
        let mut closures = Self::default();
        let mut last = None;
        for _ in 0..count {
            let closure = Closure::take(reader)?;
            let place = Some((closure.epoch, closure.node));
            if last >= place || !closures.add(closure) {
                return Err(reader.malformed("closures are not in their order"));
            }
            last = place;
        }
        Ok(closures)
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

    /// Histories in which heirs took flows when they became heirs: node, and who else is closed.
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

        /// The closures of one node come in their order, those of different nodes in any: a pin ends at the same node, and in
        /// whatever state between the two it is led on.
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
                // From here on the pin is there, and follows each closure.
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
            let mut bytes = Vec::new();
            closures.put(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Closures::take(&mut reader), Ok(closures));
            prop_assert!(reader.rest().is_empty());
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
    fn what_cannot_be_is_refused() {
        let take = |closure: Closure| {
            let mut bytes = Vec::new();
            closure.put(&mut bytes);
            assert_eq!(bytes.len(), 4 + 1 + BITMAP_BYTES);
            Closure::take(&mut Reader::new(&bytes))
        };
        assert_eq!(take(closure(1, 5, &[0, 255])), Ok(closure(1, 5, &[0, 255])));
        assert!(take(closure(1, 0, &[2])).is_err(), "no epoch");
        assert!(take(closure(1, 5, &[1, 2])).is_err(), "its own heir");
        let mut empty = vec![5, 0, 0, 0, 1];
        empty.extend([0; BITMAP_BYTES]);
        assert!(Closure::take(&mut Reader::new(&empty)).is_err(), "no heirs");
    }
}
