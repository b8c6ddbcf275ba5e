//! From a checked plan to a graph that runs.

use super::error::{BuildError, BuildErrors};
use super::{Link, Shape, order};
use crate::column::Columns;
use crate::count::Ledger;
use crate::element::{Binder, Element};
use crate::graph::{Edge, EdgeInfo, Graph, Node, Part, Port, PullEdge};
use crate::registry::Fusion;
use crate::slot::Lanes;
use crate::spec::Hook;
use crate::tap::Taps;
use scalebricks_io::PacketBuf;
use std::collections::HashMap;
use std::sync::Arc;

/// Elements and links without faults.
pub(super) struct Plan<P> {
    pub(super) shapes: Vec<Shape>,
    pub(super) made: Vec<Box<dyn Element<P>>>,
    pub(super) links: Vec<Link>,
    pub(super) snap: usize,
}

/// Where an element and its ports are in the graph.
#[derive(Debug, Clone, Copy)]
struct Seat {
    node: usize,
    part: usize,
    /// Where its outputs from 1 on begin among the node's.
    sides: usize,
    /// Whether its output 0 is the node's.
    is_last: bool,
}

impl Seat {
    const fn output(self, output: usize) -> Option<usize> {
        match output {
            0 if self.is_last => Some(0),
            0 => None,
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
        let places = order::places(self.shapes.len(), &self.links);
        let mut rows = self.rows(fusions);
        rows.sort_by_key(|(row, _)| places[row[0]]);
        let pressures = self.pressures();
        let begins: Vec<bool> = (0..self.shapes.len()).map(|at| self.begins(at)).collect();
        let watches = self.watches(&pressures, &begins);
        let seats = self.seats(&rows);
        let mut made: Vec<Option<Box<dyn Element<P>>>> = self.made.into_iter().map(Some).collect();
        let mut graph = Graph {
            nodes: Vec::with_capacity(rows.len()),
            pending: Vec::new(),
            begins: vec![0; rows.len().div_ceil(64)],
            ends: Vec::new(),
            columns,
            taps: Arc::new(Taps::new(self.links.len(), self.snap)),
            names: HashMap::new(),
            edges: Vec::new(),
            pressures: pressures.iter().flatten().count(),
        };
        for (at, (row, fusion)) in rows.iter().enumerate() {
            let shapes: Vec<&Shape> = row.iter().map(|&element| &self.shapes[element]).collect();
            let part = |shape: &&Shape| Part {
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
            let ports = ports(&outputs);
            let element = join(elements, *fusion, &outputs, &parts);
            let first = shapes[0];
            if begins[row[0]] {
                graph.begins[at / 64] |= 1 << (at % 64);
            }
            if first.spec.has(Hook::End) {
                graph.ends.push(at as u16);
            }
            graph.nodes.push(Node {
                element,
                parts,
                outs: ports.iter().map(|_| Lanes::new()).collect(),
                ports,
                pulls: vec![None; first.inputs].into(),
                first_input: graph.pending.len() as u32,
                inputs: first.inputs as u16,
                watches: watches[row[0]].clone(),
                pressure: pressures[row[0]],
            });
            graph.pending.extend((0..first.inputs).map(|_| Lanes::new()));
        }
        connect(&mut graph, &self.links, &self.shapes, &seats);
        Ok(graph)
    }

    /// Tells every element its place; the columns that the graph has.
    fn bind(&mut self) -> Result<Columns, BuildErrors> {
        let mut columns = Columns::default();
        let specs = self.shapes.iter().flat_map(|shape| shape.spec.reads.iter().chain(shape.spec.writes));
        specs.for_each(|spec| columns.add(spec));
        let mut errors = Vec::new();
        let mut connected: Vec<Vec<bool>> =
            self.shapes.iter().map(|shape| vec![false; shape.outputs]).collect();
        self.links.iter().for_each(|link| connected[link.from][link.output] = true);
        for ((element, shape), connected) in self.made.iter_mut().zip(&self.shapes).zip(&connected) {
            let Shape { spec, inputs, outputs, .. } = *shape;
            if let Err(error) = element.bind(&Binder { columns: &columns, spec, inputs, outputs, connected })
            {
                errors.push(BuildError::Bind { element: shape.name.to_string(), error });
            }
        }
        if errors.is_empty() { Ok(columns) } else { Err(BuildErrors(errors)) }
    }

    /// Every element in a row of its own, but for those that are fused.
    fn rows<'a>(&self, fusions: &'a [Fusion<P>]) -> Vec<(Vec<usize>, Option<&'a Fusion<P>>)> {
        let mut is_taken = vec![false; self.shapes.len()];
        let mut rows = Vec::new();
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
                rows.push((row, Some(fusion)));
            }
        }
        rows.extend((0..self.shapes.len()).filter(|&at| !is_taken[at]).map(|at| (vec![at], None)));
        rows
    }

    /// How many links lead to each element.
    fn arriving(&self) -> Vec<usize> {
        let mut arriving = vec![0; self.shapes.len()];
        self.links.iter().for_each(|link| arriving[link.to] += 1);
        arriving
    }

    /// The elements from `start` on that a fusion can take the place of.
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

    /// Numbers those that raise back-pressure.
    fn pressures(&self) -> Vec<Option<u16>> {
        let mut count = 0;
        let mut number = |shape: &Shape| {
            let number = shape.spec.has(Hook::Pressure).then_some(count);
            count += u16::from(number.is_some());
            number
        };
        self.shapes.iter().map(&mut number).collect()
    }

    /// Whose back-pressure each source sees: of all that its packets are pushed to.
    fn watches(&self, pressures: &[Option<u16>], begins: &[bool]) -> Vec<Box<[u64]>> {
        let words = pressures.iter().flatten().count().div_ceil(64);
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); self.shapes.len()];
        for link in self.links.iter().filter(|link| !link.is_pull) {
            next[link.from].push(link.to);
        }
        let watched = |start: usize| {
            let mut bits = vec![0u64; words].into_boxed_slice();
            if words == 0 || !begins[start] {
                return bits;
            }
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

    fn seats(&self, rows: &[(Vec<usize>, Option<&Fusion<P>>)]) -> Vec<Seat> {
        let mut seats = vec![Seat { node: 0, part: 0, sides: 1, is_last: true }; self.shapes.len()];
        for (node, (row, _)) in rows.iter().enumerate() {
            let mut sides = 1;
            for (part, &at) in row.iter().enumerate() {
                seats[at] = Seat { node, part, sides, is_last: part + 1 == row.len() };
                sides += self.shapes[at].outputs.saturating_sub(1);
            }
        }
        seats
    }
}

fn join<P: PacketBuf>(
    mut elements: Vec<Box<dyn Element<P>>>,
    fusion: Option<&Fusion<P>>,
    outputs: &[usize],
    parts: &[Part],
) -> Box<dyn Element<P>> {
    let joined = match fusion {
        Some(fusion) => (fusion.join)(elements, outputs, parts).ok(),
        None => elements.pop(),
    };
    joined.unwrap_or_else(|| unreachable!("a class has one type of element"))
}

/// The outputs of a row of elements that have so many each: output 0 of the last, then all further ones.
fn ports(outputs: &[usize]) -> Box<[Port]> {
    let port = |part: usize| Port { part: part as u8, edge: None };
    let first = outputs.last().is_some_and(|&outputs| outputs > 0).then(|| port(outputs.len() - 1));
    let sides = outputs.iter().enumerate().flat_map(|(part, &outputs)| (1..outputs).map(move |_| port(part)));
    first.into_iter().chain(sides).collect()
}

/// Leads every output to its input.
fn connect<P>(graph: &mut Graph<P>, links: &[Link], shapes: &[Shape], seats: &[Seat]) {
    for link in links {
        let (from, to) = (seats[link.from], seats[link.to]);
        let is_back = to.node <= from.node;
        // The links inside a fusion are gone.
        let Some(output) = from.output(link.output).filter(|_| to.part == 0) else { continue };
        if link.is_pull {
            let edge = PullEdge { node: from.node as u16, output: output as u16, is_back };
            graph.nodes[to.node].pulls[link.input] = Some(edge);
            continue;
        }
        graph.nodes[from.node].ports[output].edge = Some(Edge {
            id: graph.edges.len() as u32,
            target: graph.nodes[to.node].first_input + link.input as u32,
            node: to.node as u16,
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
