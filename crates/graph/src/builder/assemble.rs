//! Assembles a runnable graph from a checked plan.

use super::error::{BuildError, BuildErrors};
use super::{ElementPorts, IndexedConnection, order};
use crate::bursts::Bursts;
use crate::column::Columns;
use crate::count::Ledger;
use crate::element::{Binder, Control, Element};
use crate::graph::{Connection, Edge, EdgeInfo, Graph, Node, Part, Port, PullEdge};
use crate::passing::waiting_bit;
use crate::registry::Fusion;
use crate::slot::SlotList;
use crate::spec::{Hook, PortSpec, Spec};
use scalebricks_io::PacketBuf;
use std::collections::HashMap;
use std::sync::Arc;

/// Checked elements and connections.
pub(super) struct Plan<P> {
    pub(super) shapes: Vec<ElementPorts>,
    /// `None` for parts of other elements.
    pub(super) made: Vec<Option<Box<dyn Element<P>>>>,
    pub(super) links: Vec<IndexedConnection>,
}

/// How the elements of a run unit are combined.
enum RunUnit<'a, P> {
    /// A single element.
    Alone,
    /// A fused chain of per-packet elements.
    Fused(&'a Fusion<P>),
    /// The parts of a joined element.
    Joined,
}

/// The position of an element and its ports in the graph.
#[derive(Debug, Clone, Copy)]
struct Placement {
    node: usize,
    /// The index of its first input at the node; `None` if only its own chain leads to it.
    first_input: Option<usize>,
    /// The index of its output 1 at the node.
    sides: usize,
    /// The index of its output 0 at the node; `None` inside a chain.
    first_output: Option<usize>,
}

impl Placement {
    const fn output(self, output: usize) -> Option<usize> {
        match output {
            0 => self.first_output,
            side => Some(self.sides + side - 1),
        }
    }
}

impl<P: PacketBuf + 'static> Plan<P> {
    pub(super) fn assemble(
        mut self,
        fusions: &[Fusion<P>],
        ledger: &mut Ledger,
    ) -> Result<Graph<P>, BuildErrors> {
        let columns = self.bind()?;
        let places = order::places(self.shapes.len(), &self.links_between());
        let mut rows = self.rows(fusions);
        rows.sort_by_key(|(row, _)| places[row[0]]);
        let pressures = self.pressures();
        let begins: Vec<bool> = (0..self.shapes.len()).map(|at| self.begins(at)).collect();
        let watches = self.watches(&pressures, &begins);
        let seats = self.seats(&rows);
        let connections = self.links.iter().map(|link| self.connection(link)).collect();
        let mut made = self.made;
        let mut graph = Graph {
            nodes: Vec::with_capacity(rows.len()),
            pending: Vec::new(),
            carried: Vec::new(),
            homes: Vec::new(),
            begins: vec![0; rows.len().div_ceil(64)],
            ends: Vec::new(),
            betweens: Vec::new(),
            columns,
            names: HashMap::new(),
            edges: Vec::new(),
            connections,
            pressures: pressures.iter().flatten().count(),
        };
        for (at, (row, kind)) in rows.iter().enumerate() {
            let shapes: Vec<&ElementPorts> = row.iter().map(|&element| &self.shapes[element]).collect();
            let part = |shape: &&ElementPorts| Part {
                name: Arc::clone(&shape.name),
                spec: shape.spec,
                cells: ledger.cells(&shape.name, shape.spec),
            };
            let parts: Box<[Part]> = shapes.iter().map(part).collect();
            for (place, part) in parts.iter().enumerate() {
                graph.names.insert(Arc::clone(&part.name), (at as u16, place as u8));
            }
            let outputs: Vec<usize> = shapes.iter().map(|shape| shape.outputs).collect();
            let elements: Vec<Box<dyn Element<P>>> = row.iter().filter_map(|&at| made[at].take()).collect();
            let ports = match kind {
                RunUnit::Joined => own_ports(&outputs),
                _ => chain_ports(&outputs),
            };
            let inputs: Vec<bool> = match kind {
                RunUnit::Joined => {
                    shapes.iter().flat_map(|shape| by_value(shape.spec.inputs, shape.inputs)).collect()
                }
                _ => by_value(shapes[0].spec.inputs, shapes[0].inputs).collect(),
            };
            let sends: Vec<bool> =
                shapes.iter().flat_map(|shape| by_value(shape.spec.outputs, shape.outputs)).collect();
            let element = join(elements, kind, &outputs, &parts);
            if row.iter().any(|&at| begins[at]) {
                graph.begins[at / 64] |= 1 << (at % 64);
            }
            if shapes.iter().any(|shape| shape.spec.has(Hook::End)) {
                graph.ends.push(at as u16);
            }
            if shapes.iter().any(|shape| shape.spec.has(Hook::Between)) {
                let name = parts.first().map_or_else(|| Arc::from(""), |part| Arc::clone(&part.name));
                graph.betweens.push((at as u16, name));
            }
            let mut next = graph.carried.len() as u32..;
            let carried: Box<[Option<u32>]> =
                inputs.iter().map(|by_value| by_value.then(|| next.next()).flatten()).collect();
            graph.carried.extend(carried.iter().flatten().map(|_| Bursts::default()));
            graph.homes.resize(graph.carried.len(), (u16::MAX, 0));
            graph.nodes.push(Node {
                element,
                parts,
                outs: ports.iter().map(|_| SlotList::new()).collect(),
                senders: (0u16..).zip(&sends).filter(|(_, by_value)| **by_value).map(|(at, _)| at).collect(),
                sent: if sends.contains(&true) {
                    sends.iter().map(|_| Bursts::default()).collect()
                } else {
                    Box::default()
                },
                carried: if inputs.contains(&true) { carried } else { Box::default() },
                by_value: (0..)
                    .zip(&inputs)
                    .filter(|(_, is)| **is)
                    .fold(0, |all, (at, _)| all | waiting_bit(at)),
                ports,
                pulls: vec![None; inputs.len()].into(),
                first_input: graph.pending.len() as u32,
                inputs: inputs.len() as u16,
                watches: watches[row[0]].clone(),
                pressure: pressures[row[0]],
            });
            graph.pending.extend(inputs.iter().map(|_| SlotList::new()));
        }
        connect(&mut graph, &self.links, &self.shapes, &seats);
        Ok(graph)
    }

    fn connection(&self, link: &IndexedConnection) -> Connection {
        let name = |at: usize| Arc::clone(&self.shapes[at].name);
        Connection { from: name(link.from), output: link.output, to: name(link.to), input: link.input }
    }

    /// Binds every element; returns the graph's columns.
    fn bind(&mut self) -> Result<Columns, BuildErrors> {
        let mut columns = Columns::default();
        let specs = self.shapes.iter().flat_map(|shape| shape.spec.reads.iter().chain(shape.spec.writes));
        specs.for_each(|spec| columns.add(spec));
        let mut errors = Vec::new();
        let mut connected: Vec<Vec<Option<bool>>> =
            self.shapes.iter().map(|shape| vec![None; shape.outputs]).collect();
        for link in &self.links {
            let input = Spec::port(self.shapes[link.to].spec.inputs, link.input);
            connected[link.from][link.output] = Some(input.is_some_and(|port| port.by_value));
        }
        for (at, (shape, connected)) in self.shapes.iter().zip(&connected).enumerate() {
            let ElementPorts { spec, inputs, outputs, part_of, .. } = *shape;
            let (owner, part) = part_of.unwrap_or((at, 0));
            let Some(element) = &mut self.made[owner] else { continue };
            let binder = Binder { columns: &columns, spec, inputs, outputs, connected };
            let bind =
                |control: &mut dyn Control| control.bind_fields(&binder).and_then(|()| control.bind(&binder));
            let bound = match part_of {
                None => bind(&mut **element),
                Some(_) => element.part(part).map_or(Ok(()), bind),
            };
            if let Err(error) = bound {
                errors.push(BuildError::Bind { element: shape.name.to_string(), error });
            }
        }
        if errors.is_empty() { Ok(columns) } else { Err(BuildErrors(errors)) }
    }

    /// The connections between run units; a joined element's parts count as its first.
    fn links_between(&self) -> Vec<IndexedConnection> {
        let whole = |at: usize| self.shapes[at].part_of.map_or(at, |(owner, _)| owner);
        let links = self.links.iter().map(|link| IndexedConnection {
            from: whole(link.from),
            to: whole(link.to),
            ..*link
        });
        links.filter(|link| link.from != link.to || self.shapes[link.from].part_of.is_none()).collect()
    }

    /// Groups elements into run units; most run alone.
    fn rows<'a>(&self, fusions: &'a [Fusion<P>]) -> Vec<(Vec<usize>, RunUnit<'a, P>)> {
        let mut is_taken: Vec<bool> = self.shapes.iter().map(|shape| shape.part_of.is_some()).collect();
        let mut rows: Vec<(Vec<usize>, RunUnit<'a, P>)> = Vec::new();
        for at in 0..self.shapes.len() {
            let parts = (0..self.shapes.len())
                .filter(|&part| self.shapes[part].part_of.is_some_and(|(owner, _)| owner == at));
            let row: Vec<usize> = parts.collect();
            if !row.is_empty() {
                rows.push((row, RunUnit::Joined));
            }
        }
        let arriving = self.arriving();
        for fusion in fusions {
            for start in 0..self.shapes.len() {
                let Some(row) = self.sequence(start, fusion, &arriving) else { continue };
                if row.iter().any(|&at| is_taken[at]) {
                    continue;
                }
                for &at in &row {
                    is_taken[at] = true;
                }
                rows.push((row, RunUnit::Fused(fusion)));
            }
        }
        rows.extend((0..self.shapes.len()).filter(|&at| !is_taken[at]).map(|at| (vec![at], RunUnit::Alone)));
        rows
    }

    /// Number of connections to each element.
    fn arriving(&self) -> Vec<usize> {
        let mut arriving = vec![0; self.shapes.len()];
        self.links.iter().for_each(|link| arriving[link.to] += 1);
        arriving
    }

    /// The elements from `start` on that a fusion can replace.
    fn sequence(&self, start: usize, fusion: &Fusion<P>, arriving: &[usize]) -> Option<Vec<usize>> {
        let fits =
            |at: usize, class: &str| self.shapes[at].spec.class == class && self.shapes[at].inputs == 1;
        let is_pulled =
            |at: usize| self.links.iter().any(|link| link.is_pull && (link.to == at || link.from == at));
        let mut row = Vec::with_capacity(fusion.classes.len());
        let mut at = start;
        for (place, class) in fusion.classes.iter().enumerate() {
            if !fits(at, class) || row.contains(&at) || (place > 0 && arriving[at] != 1) || is_pulled(at) {
                return None;
            }
            row.push(at);
            if place + 1 < fusion.classes.len() {
                at = self.links.iter().find(|link| link.from == at && link.output == 0)?.to;
            }
        }
        Some(row)
    }

    /// Whether an element is called at the beginning of a turn.
    fn begins(&self, at: usize) -> bool {
        let pulls = || self.links.iter().any(|link| link.is_pull && link.to == at);
        let spec = self.shapes[at].spec;
        spec.has(Hook::Begin) || (spec.has(Hook::Pulls) && pulls())
    }

    /// Numbers the elements that raise back-pressure.
    fn pressures(&self) -> Vec<Option<u16>> {
        let mut count = 0;
        let mut number = |shape: &ElementPorts| {
            let number = shape.spec.has(Hook::Pressure).then_some(count);
            count += u16::from(number.is_some());
            number
        };
        self.shapes.iter().map(&mut number).collect()
    }

    /// Which back-pressure each source sees, and whose packets a watcher counts: of all elements that its packets are
    /// pushed to. A watcher with a pull output watches those that it pulls from.
    fn watches(&self, pressures: &[Option<u16>], begins: &[bool]) -> Vec<Box<[u64]>> {
        let words = pressures.iter().flatten().count().div_ceil(64);
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); self.shapes.len()];
        for link in self.links.iter().filter(|link| !link.is_pull) {
            next[link.from].push(link.to);
        }
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.shapes.len()];
        for link in self.links.iter().filter(|link| link.is_pull) {
            before[link.to].push(link.from);
        }
        let watched = |start: usize| {
            let mut bits = vec![0u64; words].into_boxed_slice();
            let watches = self.shapes[start].spec.has(Hook::Watches);
            if words == 0 || !(begins[start] || watches) {
                return bits;
            }
            let next = if watches && !before[start].is_empty() { &before } else { &next };
            let mut seen = vec![false; self.shapes.len()];
            let mut open = next[start].clone();
            while let Some(at) = open.pop() {
                if std::mem::replace(&mut seen[at], true) {
                    continue;
                }
                if let Some(bit) = pressures[at] {
                    bits[usize::from(bit / 64)] |= 1 << (bit % 64);
                }
                open.extend(&next[at]);
            }
            bits
        };
        (0..self.shapes.len()).map(watched).collect()
    }

    fn seats(&self, rows: &[(Vec<usize>, RunUnit<'_, P>)]) -> Vec<Placement> {
        let none = Placement { node: 0, first_input: None, sides: 0, first_output: None };
        let mut seats = vec![none; self.shapes.len()];
        for (node, (row, kind)) in rows.iter().enumerate() {
            let (mut inputs, mut sides) = (0, usize::from(!matches!(kind, RunUnit::Joined)));
            for (part, &at) in row.iter().enumerate() {
                let shape = &self.shapes[at];
                if matches!(kind, RunUnit::Joined) {
                    let first_output = Some(sides);
                    seats[at] = Placement { node, first_input: Some(inputs), sides: sides + 1, first_output };
                    inputs += shape.inputs;
                    sides += shape.outputs;
                } else {
                    let first_output = (part + 1 == row.len()).then_some(0);
                    seats[at] =
                        Placement { node, first_input: (part == 0).then_some(0), sides, first_output };
                    sides += shape.outputs.saturating_sub(1);
                }
            }
        }
        seats
    }
}

/// For each port of one side, whether packets pass by value.
fn by_value(specs: &'static [PortSpec], ports: usize) -> impl Iterator<Item = bool> {
    (0..ports).map(move |number| Spec::port(specs, number).is_some_and(|port| port.by_value))
}

fn join<P: PacketBuf>(
    mut elements: Vec<Box<dyn Element<P>>>,
    kind: &RunUnit<'_, P>,
    outputs: &[usize],
    parts: &[Part],
) -> Box<dyn Element<P>> {
    let joined = match kind {
        RunUnit::Fused(fusion) => (fusion.join)(elements, outputs, parts).ok(),
        RunUnit::Alone | RunUnit::Joined => elements.pop(),
    };
    joined.unwrap_or_else(|| unreachable!("a class has one type of element"))
}

/// The outputs of a chain of elements with these numbers of outputs: output 0 of the last, then all others.
fn chain_ports(outputs: &[usize]) -> Box<[Port]> {
    let port = |part: usize| Port { part: part as u8, edge: None };
    let first = outputs.last().is_some_and(|&outputs| outputs > 0).then(|| port(outputs.len() - 1));
    let sides = outputs.iter().enumerate().flat_map(|(part, &outputs)| (1..outputs).map(move |_| port(part)));
    first.into_iter().chain(sides).collect()
}

/// The outputs of an element's parts, in order.
fn own_ports(outputs: &[usize]) -> Box<[Port]> {
    let ports =
        |(part, &outputs): (usize, &usize)| (0..outputs).map(move |_| Port { part: part as u8, edge: None });
    outputs.iter().enumerate().flat_map(ports).collect()
}

/// Connects every output to its input.
fn connect<P>(
    graph: &mut Graph<P>,
    links: &[IndexedConnection],
    shapes: &[ElementPorts],
    seats: &[Placement],
) {
    for link in links {
        let (from, to) = (seats[link.from], seats[link.to]);
        let is_back = to.node <= from.node;
        // Connections inside a unit need no edge.
        let is_inside = from.node == to.node && link.from != link.to;
        let (Some(output), Some(first)) = (from.output(link.output), to.first_input) else { continue };
        if is_inside {
            continue;
        }
        let input = first + link.input;
        if link.is_pull {
            let edge = PullEdge { node: from.node as u16, output: output as u16, is_back };
            graph.nodes[to.node].pulls[input] = Some(edge);
            continue;
        }
        graph.nodes[from.node].ports[output].edge = Some(Edge {
            id: graph.edges.len() as u32,
            target: graph.nodes[to.node].first_input + input as u32,
            node: to.node as u16,
            input: input as u16,
            carried: graph.nodes[to.node].carried.get(input).copied().flatten(),
            is_back,
        });
        graph.edges.push(EdgeInfo {
            from: Arc::clone(&shapes[link.from].name),
            output: link.output,
            to: Arc::clone(&shapes[link.to].name),
            input: link.input,
            is_back,
        });
    }
}
