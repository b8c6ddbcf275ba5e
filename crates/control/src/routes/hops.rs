//! Numbers of next hops.
//!
//! A frame between nodes carries the output node, its port, and the number of the next hop in that node's table. All
//! nodes must know the same numbers. So they are a function of the log: an exit gets a number when the first path
//! announces it, and loses it with the last one, in the order of the records. Whether the node is alive does not matter.
//!
//! A node's unused numbers come first, from 0 up; then those freed longest ago. So a number gets another meaning only
//! after all 65,535 were in use, and a node that lags behind the log does not send to the wrong neighbour.

use super::record::Exit;
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most next hops of a node.
pub const MAX_NEXT_HOPS: usize = CONNECTED as usize;

/// The number of exits without a next hop: the packet's destination is itself the neighbour.
pub const CONNECTED: u16 = u16::MAX;

/// An exit, and its number among those of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumberedExit {
    /// The exit.
    pub exit: Exit,
    /// Its number.
    pub number: u16,
}

/// A number was given to an exit, or taken from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopChange {
    /// The exit and its number.
    pub hop: NumberedExit,
    /// Whether it has the number from now on.
    pub is_used: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    number: u16,
    /// Paths that leave here.
    paths: u64,
}

/// The numbers of one node that have been in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Supply {
    /// Numbers from here on were never in use.
    unused: u16,
    /// Freed numbers, the one freed longest ago first.
    freed: VecDeque<u16>,
}

impl Supply {
    fn take(&mut self) -> Option<u16> {
        if self.unused < CONNECTED {
            self.unused += 1;
            return Some(self.unused - 1);
        }
        self.freed.pop_front()
    }
}

/// The numbers of all nodes' exits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HopNumbers {
    exits: BTreeMap<Exit, Use>,
    nodes: BTreeMap<NodeId, Supply>,
}

/// The stored form: exits with their numbers, and each node's supply. Both ascend.
pub(super) type StoredHops = (Vec<(Exit, u16)>, Vec<(NodeId, StoredSupply)>);

/// The stored form of a supply: the first number never used, and the freed ones.
pub(super) type StoredSupply = (u16, Vec<u16>);

impl HopNumbers {
    /// The number of an exit with at least one path.
    pub(super) fn get(&self, exit: Exit) -> Option<NumberedExit> {
        if exit.next_hop.is_none() {
            return Some(NumberedExit { exit, number: CONNECTED });
        }
        self.exits.get(&exit).map(|used| NumberedExit { exit, number: used.number })
    }

    /// All exits with their numbers, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = NumberedExit> + '_ {
        self.exits.iter().map(|(exit, used)| NumberedExit { exit: *exit, number: used.number })
    }

    /// Number of exits.
    pub(super) fn len(&self) -> usize {
        self.exits.len()
    }

    /// Counts a path to each of these exits. If a node has no number left for its new ones, counts none; `false` then.
    pub(super) fn add(&mut self, exits: &[Exit], changes: &mut Vec<HopChange>) -> bool {
        let exits = || exits.iter().filter(|exit| exit.next_hop.is_some());
        let new: BTreeSet<Exit> = exits().copied().filter(|exit| !self.exits.contains_key(exit)).collect();
        let of_node = |node| new.iter().filter(|exit| exit.node == node).count();
        if new.iter().any(|exit| of_node(exit.node) > self.left(exit.node)) {
            return false;
        }
        for exit in exits() {
            if let Some(used) = self.exits.get_mut(exit) {
                used.paths += 1;
                continue;
            }
            let supply = self.nodes.entry(exit.node).or_default();
            let Some(number) = supply.take() else { unreachable!("counted above") };
            self.exits.insert(*exit, Use { number, paths: 1 });
            changes.push(HopChange { hop: NumberedExit { exit: *exit, number }, is_used: true });
        }
        true
    }

    /// Numbers that a node has left.
    fn left(&self, node: NodeId) -> usize {
        self.nodes.get(&node).map_or(MAX_NEXT_HOPS, |supply| {
            MAX_NEXT_HOPS.saturating_sub(supply.unused.into()) + supply.freed.len()
        })
    }

    /// A path to this exit is gone.
    pub(super) fn remove(&mut self, exit: Exit, changes: &mut Vec<HopChange>) {
        let Some(used) = self.exits.get_mut(&exit) else { return };
        used.paths = used.paths.saturating_sub(1);
        if used.paths > 0 {
            return;
        }
        let number = used.number;
        self.exits.remove(&exit);
        self.nodes.entry(exit.node).or_default().freed.push_back(number);
        changes.push(HopChange { hop: NumberedExit { exit, number }, is_used: false });
    }

    /// The stored form.
    pub(super) fn stored(&self) -> StoredHops {
        let exits = self.exits.iter().map(|(exit, used)| (*exit, used.number)).collect();
        let supply = |(node, supply): (&NodeId, &Supply)| {
            (*node, (supply.unused, supply.freed.iter().copied().collect()))
        };
        (exits, self.nodes.iter().map(supply).collect())
    }

    /// The numbers of a stored form, with the paths counted anew; an error says what is wrong.
    pub(super) fn restore(
        (exits, nodes): StoredHops,
        paths: impl Iterator<Item = Exit>,
    ) -> Result<Self, &'static str> {
        let is_sorted =
            exits.is_sorted_by(|one, next| one.0 < next.0) && nodes.is_sorted_by(|one, next| one.0 < next.0);
        if !is_sorted {
            return Err("next hops that are not in ascending order");
        }
        let mut numbers: BTreeMap<NodeId, BTreeSet<u16>> = BTreeMap::new();
        for (exit, number) in &exits {
            if !numbers.entry(exit.node).or_default().insert(*number) {
                return Err("a number of two next hops");
            }
        }
        for (node, (unused, freed)) in &nodes {
            let used = numbers.entry(*node).or_default();
            let is_new = freed.iter().all(|number| used.insert(*number));
            let is_complete = used.iter().copied().eq(0..*unused);
            if !is_new || !is_complete {
                return Err("next hops that do not have all of their numbers");
            }
        }
        if numbers.len() != nodes.len() {
            return Err("next hops of a node without numbers");
        }
        let supply =
            |(node, (unused, freed)): (NodeId, StoredSupply)| (node, Supply { unused, freed: freed.into() });
        let uses = exits.into_iter().map(|(exit, number)| (exit, Use { number, paths: 0 }));
        let mut restored = Self { exits: uses.collect(), nodes: nodes.into_iter().map(supply).collect() };
        for exit in paths.filter(|exit| exit.next_hop.is_some()) {
            match restored.exits.get_mut(&exit) {
                Some(used) => used.paths += 1,
                None => return Err("a path whose next hop has no number"),
            }
        }
        // Such as one of an exit without a next hop.
        if restored.exits.values().any(|used| used.paths == 0) {
            return Err("a next hop without a path");
        }
        Ok(restored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(node: u8, host: u32) -> Exit {
        Exit { node: NodeId::new(node), port: 0, next_hop: Some(std::net::Ipv4Addr::from(host).into()) }
    }

    fn number(hops: &HopNumbers, of: Exit) -> u16 {
        hops.get(of).unwrap().number
    }

    #[test]
    fn numbers_are_counted_per_node_and_the_one_freed_longest_ago_is_the_next_after_all_others() {
        let (mut hops, mut changes) = (HopNumbers::default(), Vec::new());
        assert!(hops.add(&[exit(0, 1), exit(0, 2), exit(1, 1), exit(0, 1)], &mut changes));
        let given = [exit(0, 1), exit(0, 2), exit(1, 1)].map(|exit| number(&hops, exit));
        assert_eq!((given, changes.len()), ([0, 1, 0], 3));
        hops.remove(exit(0, 2), &mut changes);
        hops.remove(exit(0, 1), &mut changes);
        assert_eq!(number(&hops, exit(0, 1)), 0, "one path is left");
        hops.remove(exit(0, 1), &mut changes);
        assert_eq!(hops.get(exit(0, 1)), None);
        for host in 10..(1 << 16) + 7 {
            assert!(hops.add(&[exit(0, host)], &mut changes), "{host}");
        }
        assert_eq!(number(&hops, exit(0, 10)), 2, "unused ones first");
        assert!(hops.add(&[exit(0, 5)], &mut changes));
        assert_eq!(number(&hops, exit(0, 5)), 1, "the one that was freed first");
        assert_eq!(hops.len(), MAX_NEXT_HOPS);
    }

    #[test]
    fn without_a_number_left_nothing_changes() {
        let (mut hops, mut changes) = (HopNumbers::default(), Vec::new());
        for host in 0..(1 << 16) - 2 {
            assert!(hops.add(&[exit(3, host)], &mut changes));
        }
        let (before, events) = (hops.clone(), changes.len());
        assert!(!hops.add(&[exit(4, 1), exit(3, 1), exit(3, 1 << 20), exit(3, 1 << 21)], &mut changes));
        assert_eq!((hops.exits == before.exits, changes.len()), (true, events));
        assert_eq!(hops.nodes[&NodeId::new(3)], before.nodes[&NodeId::new(3)]);
        assert!(hops.add(&[exit(3, 1 << 20)], &mut changes), "one is left");
        assert!(!hops.add(&[exit(3, 1 << 21)], &mut changes));
        hops.remove(exit(3, 7), &mut changes);
        let before = hops.clone();
        assert!(!hops.add(&[exit(3, 1 << 21), exit(3, 1 << 22)], &mut changes));
        assert_eq!(hops, before, "the freed number went back");
        assert!(hops.add(&[exit(3, 1 << 21)], &mut changes));
        assert_eq!(number(&hops, exit(3, 1 << 21)), 7);
    }

    #[test]
    fn an_exit_without_a_next_hop_has_the_reserved_number_and_takes_none() {
        let (mut hops, mut changes) = (HopNumbers::default(), Vec::new());
        let connected = Exit { next_hop: None, ..exit(0, 1) };
        assert!(hops.add(&[connected], &mut changes));
        assert_eq!((number(&hops, connected), hops.len(), changes.len()), (CONNECTED, 0, 0));
        hops.remove(connected, &mut changes);
        assert_eq!(hops, HopNumbers::default());
    }

    #[test]
    fn wrong_stored_numbers_are_refused() {
        let (one, two) = (exit(0, 1), exit(0, 2));
        let node = NodeId::new(0);
        let restore = |exits: &[(Exit, u16)], nodes: &[(NodeId, StoredSupply)], paths: &[Exit]| {
            HopNumbers::restore((exits.to_vec(), nodes.to_vec()), paths.iter().copied()).map(drop)
        };
        assert_eq!(restore(&[(one, 0), (two, 2)], &[(node, (3, vec![1]))], &[one, two, one]), Ok(()));
        for (exits, nodes, paths) in [
            (vec![(two, 2), (one, 0)], vec![(node, (3, vec![1]))], vec![one, two]),
            (vec![(one, 0), (two, 0)], vec![(node, (3, vec![1]))], vec![one, two]),
            (vec![(one, 0), (two, 2)], vec![(node, (3, vec![]))], vec![one, two]),
            (vec![(one, 0), (two, 2)], vec![(node, (3, vec![2]))], vec![one, two]),
            (vec![(one, 0), (two, 2)], vec![(node, (2, vec![1]))], vec![one, two]),
            (vec![(one, 0), (two, 2)], vec![], vec![one, two]),
            (vec![(one, 0), (two, 2)], vec![(node, (3, vec![1]))], vec![one]),
            (vec![(one, 0)], vec![(node, (1, vec![]))], vec![one, two]),
        ] {
            assert!(restore(&exits, &nodes, &paths).is_err(), "{exits:?} {nodes:?} {paths:?}");
        }
    }
}
