//! Push and pull: determines agnostic ports, and finds conflicts.

use super::catalog::{FlowCode, Processing, ProcessingCode};
use crate::problem::Side;
use std::collections::{HashSet, VecDeque};

/// An element's ports.
#[derive(Debug)]
pub(super) struct Ports {
    /// Inputs, outputs.
    pub(super) count: [u32; 2],
    pub(super) processing: ProcessingCode,
    pub(super) flow: FlowCode,
    /// Whether ports may stay unconnected.
    pub(super) holes: bool,
}

/// Both ends of a connection: element, port.
pub(super) type Wire = ((usize, u32), (usize, u32));

/// Push meets pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Conflict {
    /// At the connection of this number.
    Wire(usize),
    /// Inside an agnostic element.
    Inside { element: usize, input: u32, output: u32 },
}

/// The processing of each port, and the conflicts.
#[derive(Debug)]
pub(super) struct Resolved {
    /// By element: inputs, outputs.
    pub(super) ports: Vec<[Vec<Processing>; 2]>,
    pub(super) conflicts: Vec<Conflict>,
}

/// An edge along which processing spreads.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    /// The connection; `None` inside an element.
    wire: Option<usize>,
}

/// The graph along which processing spreads. Its nodes are ports, and a hub for each pair of parts of a flow code, so
/// that an element with many ports does not need an edge for each pair of them.
struct Propagation {
    first: Vec<[usize; 2]>,
    states: Vec<Processing>,
    edges: Vec<Vec<Edge>>,
    /// The element of each node, its side and number; a hub has those of the port that determined it.
    owners: Vec<(usize, Side, u32)>,
}

/// Spreads push and pull over connections and through agnostic elements, as Click does. Takes O(ports + connections).
/// All ports of connections must exist.
pub(super) fn resolve(elements: &[Ports], wires: &[Wire]) -> Resolved {
    let mut spread = Propagation::new(elements);
    for (wire, &(from, to)) in wires.iter().enumerate() {
        let from = spread.first[from.0][Side::Output as usize] + from.1 as usize;
        let to = spread.first[to.0][Side::Input as usize] + to.1 as usize;
        spread.join(from, to, Some(wire));
    }
    let conflicts = spread.run();
    let port = |first: usize, count: u32| spread.states[first..first + count as usize].to_vec();
    let ports = elements
        .iter()
        .zip(&spread.first)
        .map(|(element, first)| [port(first[0], element.count[0]), port(first[1], element.count[1])])
        .collect();
    Resolved { ports, conflicts }
}

impl Propagation {
    fn new(elements: &[Ports]) -> Self {
        let mut spread =
            Self { first: Vec::new(), states: Vec::new(), edges: Vec::new(), owners: Vec::new() };
        for (index, element) in elements.iter().enumerate() {
            let first = [Side::Input, Side::Output].map(|side| {
                let first = spread.states.len();
                for port in 0..element.count[side as usize] {
                    spread.node(element.processing.of(side, port), (index, side, port));
                }
                first
            });
            spread.first.push(first);
            spread.inside(index, element);
        }
        spread
    }

    fn node(&mut self, state: Processing, owner: (usize, Side, u32)) -> usize {
        self.states.push(state);
        self.edges.push(Vec::new());
        self.owners.push(owner);
        self.states.len() - 1
    }

    fn join(&mut self, left: usize, right: usize, wire: Option<usize>) {
        self.edges[left].push(Edge { to: right, wire });
        self.edges[right].push(Edge { to: left, wire });
    }

    /// Connects an element's agnostic inputs with the agnostic outputs that their packets may leave by.
    fn inside(&mut self, index: usize, element: &Ports) {
        let ports = |spread: &Self, side: Side| -> Vec<Vec<(u32, usize)>> {
            let parts = element.flow.parts(side);
            let mut all = vec![Vec::new(); parts];
            for port in 0..element.count[side as usize] {
                let node = spread.first[index][side as usize] + port as usize;
                if spread.states[node] == Processing::Agnostic {
                    all[(port as usize).min(parts - 1)].push((port, node));
                }
            }
            all
        };
        let inputs = ports(self, Side::Input);
        let outputs = ports(self, Side::Output);
        for (i, inputs) in inputs.iter().enumerate() {
            for (o, outputs) in outputs.iter().enumerate() {
                if inputs.is_empty() || outputs.is_empty() {
                    continue;
                }
                if element.flow.joins(i, o) {
                    let hub = self.node(Processing::Agnostic, (index, Side::Input, 0));
                    for &(_, node) in inputs.iter().chain(outputs) {
                        self.join(node, hub, None);
                    }
                } else if element.flow.joins_same(i, o) {
                    self.same(inputs, outputs, index);
                }
            }
        }
    }

    fn same(&mut self, inputs: &[(u32, usize)], outputs: &[(u32, usize)], index: usize) {
        for &(port, input) in inputs {
            if let Ok(at) = outputs.binary_search_by_key(&port, |output| output.0) {
                let hub = self.node(Processing::Agnostic, (index, Side::Input, 0));
                self.join(input, hub, None);
                self.join(outputs[at].1, hub, None);
            }
        }
    }

    /// Breadth-first search from all ports that are not agnostic.
    fn run(&mut self) -> Vec<Conflict> {
        let mut told = HashSet::new();
        let mut conflicts = Vec::new();
        let fixed = (0..self.states.len()).filter(|&node| self.states[node] != Processing::Agnostic);
        let mut queue: VecDeque<usize> = fixed.collect();
        let is_hub = self.hubs();
        while let Some(node) = queue.pop_front() {
            for edge in std::mem::take(&mut self.edges[node]) {
                let state = self.states[node];
                if self.states[edge.to] == Processing::Agnostic {
                    self.states[edge.to] = state;
                    if is_hub[edge.to] {
                        self.owners[edge.to] = self.owners[node];
                    }
                    queue.push_back(edge.to);
                } else if self.states[edge.to] != state {
                    let conflict = self.conflict(node, edge);
                    if told.insert(conflict) {
                        conflicts.push(conflict);
                    }
                }
            }
        }
        conflicts
    }

    fn hubs(&self) -> Vec<bool> {
        let is_port = |node: &usize| {
            let (element, side, port) = self.owners[*node];
            self.first[element][side as usize] + port as usize == *node
        };
        (0..self.states.len()).map(|node| !is_port(&node)).collect()
    }

    fn conflict(&self, node: usize, edge: Edge) -> Conflict {
        if let Some(wire) = edge.wire {
            return Conflict::Wire(wire);
        }
        // One of the two is a hub, determined by another port of the element.
        let (element, left, left_port) = self.owners[node];
        let (_, right, right_port) = self.owners[edge.to];
        let (input, output) = match (left, right) {
            (Side::Input, Side::Output) => (left_port, right_port),
            (Side::Output, Side::Input) => (right_port, left_port),
            (Side::Input, Side::Input) => (left_port.max(right_port), 0),
            (Side::Output, Side::Output) => (0, left_port.max(right_port)),
        };
        Conflict::Inside { element, input, output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Click's own algorithm: examines every pair of ports repeatedly until nothing changes. Returns whether there is a
    /// conflict, and the ports' processing.
    fn slow(elements: &[Ports], wires: &[Wire]) -> (bool, Vec<[Vec<Processing>; 2]>) {
        let mut ports: Vec<[Vec<Processing>; 2]> = elements
            .iter()
            .map(|element| {
                [Side::Input, Side::Output].map(|side| {
                    (0..element.count[side as usize]).map(|port| element.processing.of(side, port)).collect()
                })
            })
            .collect();
        let mut pairs = wires.to_vec();
        for (index, element) in elements.iter().enumerate() {
            let part = |side, port: u32| (port as usize).min(element.flow.parts(side) - 1);
            for input in 0..element.count[0] {
                for output in 0..element.count[1] {
                    let (i, o) = (part(Side::Input, input), part(Side::Output, output));
                    let flows =
                        element.flow.joins(i, o) || (element.flow.joins_same(i, o) && input == output);
                    let agnostic = ports[index][0][input as usize] == Processing::Agnostic
                        && ports[index][1][output as usize] == Processing::Agnostic;
                    if flows && agnostic {
                        pairs.push(((index, output), (index, input)));
                    }
                }
            }
        }
        let mut conflict = false;
        loop {
            let mut changed = false;
            for &((from, output), (to, input)) in &pairs {
                let (left, right) = (ports[from][1][output as usize], ports[to][0][input as usize]);
                match (left, right) {
                    (Processing::Agnostic, Processing::Agnostic) => {}
                    (Processing::Agnostic, decided) => {
                        ports[from][1][output as usize] = decided;
                        changed = true;
                    }
                    (decided, Processing::Agnostic) => {
                        ports[to][0][input as usize] = decided;
                        changed = true;
                    }
                    _ => conflict |= left != right,
                }
            }
            if !changed {
                return (conflict, ports);
            }
        }
    }

    fn ports(count: [u32; 2], processing: &str, flow: &str) -> Ports {
        Ports {
            count,
            processing: ProcessingCode::parse(processing).unwrap(),
            flow: FlowCode::parse(flow).unwrap(),
            holes: false,
        }
    }

    #[test]
    fn a_conflict_is_told_once_and_where_it_is() {
        let source = || ports([0, 1], "h", "x/x");
        let puller = || ports([1, 0], "l", "x/x");
        let null = || ports([1, 1], "a", "x/x");
        let direct = resolve(&[source(), puller()], &[((0, 0), (1, 0))]);
        assert_eq!(direct.conflicts, [Conflict::Wire(0)]);
        let through = resolve(&[source(), null(), puller()], &[((0, 0), (1, 0)), ((1, 0), (2, 0))]);
        assert_eq!(through.conflicts, [Conflict::Inside { element: 1, input: 0, output: 0 }]);
        let apart =
            resolve(&[source(), ports([1, 1], "a", "x/y"), puller()], &[((0, 0), (1, 0)), ((1, 0), (2, 0))]);
        assert!(apart.conflicts.is_empty());
        let alone = resolve(&[null(), null()], &[((0, 0), (1, 0))]);
        assert_eq!(alone.ports[1], [vec![Processing::Agnostic], vec![Processing::Agnostic]]);
    }

    proptest! {
        #[test]
        fn ports_become_what_click_makes_of_them(
            kinds in proptest::collection::vec((0_u32..4, 0_u32..4, 0_usize..7, 0_usize..5), 1..8),
            wires in proptest::collection::vec((0_usize..8, 0_u32..4, 0_usize..8, 0_u32..4), 0..16),
        ) {
            let processing = ["h/h", "l/l", "a/a", "a/ah", "h/l", "l/h", "al/ha"];
            let flow = ["x/x", "x/y", "#/#", "xy/x", "[^x]/yx"];
            let elements: Vec<Ports> = kinds
                .iter()
                .map(|&(inputs, outputs, code, flows)| ports([inputs, outputs], processing[code], flow[flows]))
                .collect();
            let exists = |element: usize, port: u32, side: Side| {
                elements.get(element).is_some_and(|element| port < element.count[side as usize])
            };
            let wires: Vec<Wire> = wires
                .into_iter()
                .filter(|&(from, output, to, input)| exists(from, output, Side::Output) && exists(to, input, Side::Input))
                .map(|(from, output, to, input)| ((from, output), (to, input)))
                .collect();
            let fast = resolve(&elements, &wires);
            let (conflict, ports) = slow(&elements, &wires);
            prop_assert_eq!(!fast.conflicts.is_empty(), conflict);
            if !conflict {
                prop_assert_eq!(fast.ports, ports);
            }
        }
    }
}
