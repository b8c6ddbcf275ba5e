//! A node of a full mesh: which neighbours it can use, and random choices among them.

use super::links::LinkMap;
use super::mac::RouterMac;
use super::picker::Picker;
use scalebricks_graph::element::HandlerError;
use scalebricks_types::{ClusterSize, IdError, NodeId, NodeSet};
use scalebricks_wire::ethernet;

/// The links of one node of a full mesh. A link is up unless control marks it as down, or the node's
/// [hellos](super::links) find that it is; so is each link between two other nodes, so that no packet takes a way that ends
/// at a failed link.
#[derive(Debug, Clone)]
pub struct Mesh {
    id: NodeId,
    size: ClusterSize,
    /// Neighbours whose link is up.
    up: NodeSet,
    /// By output node: the intermediates whose link to it is down. Empty until one is.
    cut: Vec<NodeSet>,
    marked: Marks,
    found: Marks,
    random: Picker,
}

/// Links that are down: those of this node, and by output node those of others to it. `cut` is empty until one is.
#[derive(Debug, Clone, Default)]
struct Marks {
    down: NodeSet,
    cut: Vec<NodeSet>,
}

impl Marks {
    fn cut_of(&self, output: usize) -> NodeSet {
        self.cut.get(output).copied().unwrap_or_default()
    }
}

impl Mesh {
    /// Node `id` of a mesh whose links are all up.
    ///
    /// # Errors
    /// [`IdError`] if the mesh has no such node.
    pub fn new(id: NodeId, size: ClusterSize, seed: u64) -> Result<Self, IdError> {
        size.node(u16::from(id.get()))?;
        let up = size.nodes().filter(|&node| node != id).collect();
        let (marked, found, random) = (Marks::default(), Marks::default(), Picker::of_node(id.get(), seed));
        Ok(Self { id, size, up, cut: Vec::new(), marked, found, random })
    }

    /// The same from numbers, as parameters give them.
    pub(crate) fn of_numbers(id: u16, size: u16, seed: u64) -> Result<Self, String> {
        let size = ClusterSize::new(usize::from(size)).map_err(|error| error.to_string())?;
        let id = size.node(id).map_err(|error| error.to_string())?;
        Self::new(id, size, seed).map_err(|error| error.to_string())
    }

    /// This node.
    #[inline(always)]
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// Number of nodes.
    #[inline(always)]
    pub const fn size(&self) -> ClusterSize {
        self.size
    }

    /// Whether the link to a neighbour is up.
    #[inline(always)]
    pub const fn is_up(&self, node: NodeId) -> bool {
        self.up.contains(node)
    }

    /// Marks the link to a neighbour up or down.
    pub fn set_link(&mut self, node: NodeId, is_up: bool) {
        let down = &mut self.marked.down;
        if is_up {
            down.remove(node);
        } else {
            down.insert(node);
        }
        self.combine();
    }

    /// Marks the link from another node to an output node up or down.
    pub fn set_far_link(&mut self, from: NodeId, to: NodeId, is_up: bool) {
        let cut = &mut self.marked.cut;
        if cut.is_empty() {
            cut.resize(self.size.get(), NodeSet::EMPTY);
        }
        if let Some(cut) = cut.get_mut(to.index()) {
            if is_up { cut.remove(from) } else { cut.insert(from) }
        }
        self.combine();
    }

    /// Uses the links that hellos found to be up, except those that are marked as down.
    pub(crate) fn follow(&mut self, map: &LinkMap) {
        self.found.down = self.size.nodes().filter(|&node| !map.is_up(node)).collect();
        self.found.cut.clear();
        self.found.cut.extend(self.size.nodes().map(|to| map.cut_to(to)));
        self.combine();
    }

    /// What is neither marked nor found to be down.
    fn combine(&mut self) {
        let Self { id, size, up, cut, marked, found, .. } = self;
        let is_up = |node: &NodeId| node != id && !marked.down.contains(*node) && !found.down.contains(*node);
        *up = size.nodes().filter(is_up).collect();
        cut.clear();
        if !marked.cut.is_empty() || !found.cut.is_empty() {
            cut.extend((0..size.get()).map(|to| marked.cut_of(to).union(&found.cut_of(to))));
        }
    }

    /// Executes a write handler: `N` for the link to a neighbour, `N M` for the link from node N to node M.
    pub(crate) fn write(&mut self, text: &str, is_up: bool) -> Result<(), HandlerError> {
        let wrong = || HandlerError::Value(format!("expected `NODE` or `NODE NODE`, not `{text}`"));
        let mut words = text.split_whitespace();
        let mut node = || -> Option<Result<NodeId, HandlerError>> {
            let number = words.next()?.parse().map_err(|_| wrong());
            Some(number.and_then(|number: u16| {
                self.size.node(number).map_err(|error| HandlerError::Value(error.to_string()))
            }))
        };
        let (first, second, more) = (node().ok_or_else(wrong)??, node().transpose()?, node().is_some());
        match second {
            _ if more => return Err(wrong()),
            Some(to) if first == self.id => self.set_link(to, is_up),
            Some(to) => self.set_far_link(first, to, is_up),
            None => self.set_link(first, is_up),
        }
        Ok(())
    }

    /// The neighbours whose link is down, for a read handler.
    pub(crate) fn down(&self) -> String {
        let down = self.size.nodes().filter(|&node| node != self.id && !self.is_up(node));
        down.map(|node| node.get().to_string()).collect::<Vec<_>>().join(" ")
    }

    /// The neighbours over which an output node is reached in two hops.
    #[inline]
    pub fn intermediates(&self, output: NodeId) -> NodeSet {
        let mut nodes = self.up;
        nodes.remove(output);
        if let Some(cut) = self.cut.get(output.index()) {
            nodes = nodes.difference(cut);
        }
        nodes
    }

    /// A node of a set, drawn uniformly. Cost: a few operations per word of the set.
    #[inline]
    pub fn draw(&mut self, nodes: NodeSet) -> Option<NodeId> {
        let number = self.random.below(nodes.len() as usize);
        nth(nodes, number as u32)
    }

    /// A number below `count`, drawn uniformly.
    #[inline]
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.random.below(count)
    }
}

/// The address of a frame, if a node of a cluster of this size can have written it.
#[inline(always)]
pub(crate) fn address(frame: &[u8], size: ClusterSize) -> Option<RouterMac> {
    let mac = ethernet::destination(frame).and_then(RouterMac::decode)?;
    (mac.output_node.index() < size.get()).then_some(mac)
}

/// The n-th node of a set, ascending from 0.
#[inline]
fn nth(nodes: NodeSet, mut number: u32) -> Option<NodeId> {
    for (at, word) in (0u8..).zip(nodes.words()) {
        let count = word.count_ones();
        if number < count {
            let rest = (0..number).fold(word, |word, _| word & (word - 1)); // clears the lowest bit
            return Some(NodeId::new(at * 64 + rest.trailing_zeros() as u8));
        }
        number -= count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_node_of_a_set_has_its_number(numbers: BTreeSet<u8>) {
            let set: NodeSet = numbers.iter().copied().map(NodeId::new).collect();
            for (at, number) in (0..).zip(&numbers) {
                prop_assert_eq!(nth(set, at), Some(NodeId::new(*number)));
            }
            prop_assert_eq!(nth(set, numbers.len() as u32), None);
        }

        #[test]
        fn only_usable_nodes_are_drawn_and_all_of_them(
            size in 2..=12u16, id: prop::sample::Index, output: prop::sample::Index,
            changes in prop::collection::vec((any::<u8>(), any::<Option<u8>>(), any::<bool>()), 0..20),
        ) {
            let size = ClusterSize::new(usize::from(size)).unwrap();
            let node = |number: u8| NodeId::new(number % size.get() as u8);
            let (id, output) = (node(id.index(size.get()) as u8), node(output.index(size.get()) as u8));
            let mut mesh = Mesh::new(id, size, 1).unwrap();
            let mut down = BTreeSet::new();
            for (from, to, is_up) in changes {
                let (text, link) = match to {
                    None => (node(from).get().to_string(), (id, node(from))),
                    Some(to) => (format!("{} {}", node(from).get(), node(to).get()), (node(from), node(to))),
                };
                mesh.write(&text, is_up).unwrap();
                if is_up { down.remove(&link); } else { down.insert(link); }
            }
            let usable: BTreeSet<NodeId> = size.nodes().filter(|&over| {
                over != id && over != output && !down.contains(&(id, over)) && !down.contains(&(over, output))
            }).collect();
            let set = mesh.intermediates(output);
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), usable.clone());
            let drawn: BTreeSet<NodeId> = (0..400).filter_map(|_| mesh.draw(set)).collect();
            prop_assert_eq!(drawn, usable);
        }
    }

    #[test]
    fn nodes_that_do_not_exist_are_refused() {
        let mut mesh = Mesh::of_numbers(1, 4, 0).unwrap();
        assert!(Mesh::of_numbers(4, 4, 0).is_err() && Mesh::of_numbers(0, 0, 0).is_err());
        for wrong in ["", "x", "4", "0 4", "0 1 2", "-1", "0 x"] {
            assert!(mesh.write(wrong, false).is_err(), "{wrong:?}");
        }
        mesh.write("1 3", false).unwrap();
        assert_eq!(mesh.down(), "3");
    }
}
