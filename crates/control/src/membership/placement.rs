//! What the controller says of nodes: who is to get no flows, and who takes whose.

use super::view::View;
use crate::record::codec::{Reader, put_words};
use crate::record::{DecodeError, Heirs};
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Version of the record's form.
const VERSION: u16 = 1;

/// Most entries of a record, of each kind: one a node.
const MAX_ENTRIES: u64 = 1 << 8;

/// Who takes the flows of a node that dies or is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standby {
    /// All others, evenly.
    All,
    /// This one, while it is alive and not drained; else all.
    One(NodeId),
}

/// What the controller says of nodes. One record, changed by compare-and-set, which all nodes act on. It decides only what is
/// appended to the logs, which name the heirs: nodes that know different records do no harm.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    drained: BTreeSet<NodeId>,
    /// Those whose standby is not [`Standby::All`].
    standbys: BTreeMap<NodeId, NodeId>,
}

/// Why bytes are no placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what the controller says of nodes cannot be read: {0}")]
pub struct PlacementError(String);

impl From<DecodeError> for PlacementError {
    fn from(error: DecodeError) -> Self {
        Self(error.to_string())
    }
}

impl Placement {
    /// Whether a node is to get no flows, and to give away those it has.
    pub fn is_drained(&self, node: NodeId) -> bool {
        self.drained.contains(&node)
    }

    /// Drains a node, or ends that.
    pub fn set_drained(&mut self, node: NodeId, is_drained: bool) {
        if is_drained {
            self.drained.insert(node);
        } else {
            self.drained.remove(&node);
        }
    }

    /// Nodes that are to get no flows, ascending.
    pub fn drained(&self) -> impl Iterator<Item = NodeId> {
        self.drained.iter().copied()
    }

    /// Nodes whose flows one other takes, with that one, ascending.
    pub fn standbys(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.standbys.iter().map(|(node, one)| (*node, *one))
    }

    /// Who takes a node's flows.
    pub fn standby(&self, node: NodeId) -> Standby {
        self.standbys.get(&node).map_or(Standby::All, |one| Standby::One(*one))
    }

    /// Sets who takes a node's flows.
    pub fn set_standby(&mut self, node: NodeId, standby: Standby) {
        match standby {
            Standby::All => self.standbys.remove(&node),
            Standby::One(one) => self.standbys.insert(node, one),
        };
    }

    /// Who takes a node's flows, of those alive that `can_be` heirs: the standby, or all that are neither suspended nor drained. If there is no
    /// such node, a drained one takes flows of dead and suspended nodes, and a suspended one those of the dead. Flows of a node
    /// that is only drained stay where they are, as it would be the other way round next. `None` if nobody is there.
    pub fn heirs(&self, node: NodeId, view: &View, can_be: impl Fn(NodeId) -> bool) -> Option<Heirs> {
        let alive = || view.alive().filter(|other| *other != node && can_be(*other));
        let able = || alive().filter(|other| view.is_able(*other));
        let willing = || able().filter(|other| !self.is_drained(*other));
        if let Standby::One(one) = self.standby(node)
            && willing().any(|other| other == one)
        {
            return Heirs::new([one]).ok();
        }
        let drained = || Heirs::new(able()).ok().filter(|_| !view.is_able(node));
        let suspended = || Heirs::new(alive()).ok().filter(|_| !view.is_alive(node));
        Heirs::new(willing()).ok().or_else(drained).or_else(suspended)
    }

    /// The record as bytes: version `u16`, the number of drained nodes and each, the number of standbys and each pair, words
    /// little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        let word = |node: &NodeId| u64::from(node.get());
        put_words(&mut out, &[self.drained.len() as u64]);
        self.drained.iter().for_each(|node| put_words(&mut out, &[word(node)]));
        put_words(&mut out, &[self.standbys.len() as u64]);
        self.standbys.iter().for_each(|(node, one)| put_words(&mut out, &[word(node), word(one)]));
        out
    }

    /// The record in exactly these bytes.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, PlacementError> {
        let mut reader = Reader::new(bytes);
        let version = u16::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(PlacementError(format!("its version {version} is not {VERSION}")));
        }
        let node = |word: u64| {
            let node = u8::try_from(word).map_err(|_| PlacementError(format!("there is no node {word}")))?;
            Ok::<_, PlacementError>(NodeId::new(node))
        };
        let mut placement = Self::default();
        let [count] = reader.words()?;
        for _ in 0..count.min(MAX_ENTRIES) {
            let [drained] = reader.words()?;
            placement.set_drained(node(drained)?, true);
        }
        let [count] = reader.words()?;
        for _ in 0..count.min(MAX_ENTRIES) {
            let [of, one] = reader.words()?;
            placement.set_standby(node(of)?, Standby::One(node(one)?));
        }
        if reader.rest().is_empty() {
            Ok(placement)
        } else {
            Err(PlacementError("it is too long".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::{Fitness, Suspension, Unfitness};
    use crate::version::Version;
    use proptest::prelude::*;
    use scalebricks_types::PartitionCount;

    fn node(number: u8) -> NodeId {
        NodeId::new(number)
    }

    fn heirs(placement: &Placement, of: u8, view: &View) -> Option<Vec<u8>> {
        Some(placement.heirs(node(of), view, |_| true)?.nodes().iter().map(|heir| heir.get()).collect())
    }

    #[test]
    fn who_takes_whose_flows() {
        let nobody = View::empty(PartitionCount::new(4).unwrap());
        let all = (0..4).fold(nobody, |view, number| view.with(node(number), 1, Version::NEWEST));
        let mut placement = Placement::default();
        placement.set_standby(node(1), Standby::One(node(3)));
        let dead = all.without(node(1));
        assert_eq!(heirs(&placement, 1, &dead), Some(vec![3]));
        assert_eq!(heirs(&placement, 2, &dead), Some(vec![0, 3]));
        assert_eq!(heirs(&placement, 1, &dead.without(node(3))), Some(vec![0, 2]), "the standby is dead");
        placement.set_drained(node(3), true);
        assert_eq!(heirs(&placement, 1, &dead), Some(vec![0, 2]), "the standby is drained");
        assert_eq!(heirs(&placement, 3, &dead), Some(vec![0, 2]), "its own flows");
        placement.set_drained(node(0), true);
        placement.set_drained(node(2), true);
        assert_eq!(heirs(&placement, 1, &dead), Some(vec![0, 2, 3]), "drained ones rather than nobody");
        assert_eq!(heirs(&placement, 3, &dead), None, "drained ones do not pass flows round");
        let unfit = Suspension::Unfit(Fitness::FIT.with(Unfitness::Worker));
        let suspended = dead.with_suspended(node(3), unfit);
        assert_eq!(
            heirs(&placement, 3, &suspended),
            Some(vec![0, 2]),
            "drained ones rather than an unfit one"
        );
        assert_eq!(heirs(&placement, 1, &suspended), Some(vec![0, 2]));
        let all_unfit =
            [0, 2].iter().fold(suspended, |view, number| view.with_suspended(node(*number), unfit));
        assert_eq!(heirs(&placement, 3, &all_unfit), None, "unfit ones do not pass flows round");
        assert_eq!(heirs(&placement, 1, &all_unfit), Some(vec![0, 2, 3]), "unfit ones rather than nobody");
        placement.set_drained(node(3), false);
        assert_eq!(heirs(&placement, 1, &dead), Some(vec![3]));
        assert_eq!(heirs(&placement, 1, &dead.with_suspended(node(3), unfit)), Some(vec![0, 2]));
        placement.set_standby(node(1), Standby::All);
        assert_eq!(placement.standby(node(1)), Standby::All);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_record_survives(drained: Vec<u8>, standbys: Vec<(u8, u8)>) {
            let mut placement = Placement::default();
            for number in drained {
                placement.set_drained(node(number), true);
            }
            for (of, one) in standbys {
                placement.set_standby(node(of), Standby::One(node(one)));
            }
            prop_assert_eq!(Placement::decode(&placement.encode()), Ok(placement));
        }

        #[test]
        fn any_bytes_are_a_placement_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(placement) = Placement::decode(&bytes) {
                prop_assert_eq!(Placement::decode(&placement.encode()), Ok(placement));
            }
        }
    }
}
