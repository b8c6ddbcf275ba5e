//! Definite assignment: proves that every column is written before it is read, on every path.

use super::error::BuildError;
use super::{ElementPorts, IndexedConnection};
use crate::column::ColumnSpec;
use crate::spec::{PortSpec, Spec};
use std::any::TypeId;

/// The set of columns that a packet has, by index.
type Set = Vec<bool>;

struct Ids(Vec<TypeId>);

impl Ids {
    fn of(shapes: &[ElementPorts]) -> Self {
        let mut ids = Vec::new();
        for column in shapes.iter().flat_map(|shape| shape.spec.reads.iter().chain(shape.spec.writes)) {
            let id = (column.id)();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Self(ids)
    }

    fn place(&self, column: &ColumnSpec) -> Option<usize> {
        self.0.iter().position(|id| *id == (column.id)())
    }
}

fn name(ports: &[PortSpec], number: usize) -> &'static str {
    ports.get(number).or(ports.last()).map_or("", |port| port.name)
}

/// The columns of a packet that leaves by an output, given those it arrived with.
fn leaving(ids: &Ids, spec: &Spec, output: usize, had: &[bool]) -> Set {
    let name = name(spec.outputs, output);
    let mut has = if spec.fresh.contains(&name) { vec![false; had.len()] } else { had.to_vec() };
    for column in spec.writes.iter().filter(|column| column.on.is_none_or(|on| on == name)) {
        if let Some(place) = ids.place(column) {
            has[place] = true;
        }
    }
    has
}

/// The columns of a packet at the other end of a connection. Packets by value have none.
fn passing(ids: &Ids, shapes: &[ElementPorts], link: &IndexedConnection, had: &[bool]) -> Set {
    let (from, to) = (shapes[link.from].spec, shapes[link.to].spec);
    let by_value = |ports, number| Spec::port(ports, number).is_some_and(|port| port.by_value);
    if by_value(from.outputs, link.output) || by_value(to.inputs, link.input) {
        return vec![false; had.len()];
    }
    leaving(ids, from, link.output, had)
}

/// Checks every element's columns. `arrives` of an element is what all packets that reach it have: it starts with all
/// columns, and loses those that are missing over some connection, until nothing changes.
pub(super) fn check(shapes: &[ElementPorts], links: &[IndexedConnection], errors: &mut Vec<BuildError>) {
    let ids = Ids::of(shapes);
    if ids.0.is_empty() {
        return;
    }
    let has_source: Vec<bool> = (0..shapes.len()).map(|at| links.iter().any(|link| link.to == at)).collect();
    let mut arrives: Vec<Set> = has_source.iter().map(|&has| vec![has; ids.0.len()]).collect();
    let mut by_source: Vec<Vec<&IndexedConnection>> = vec![Vec::new(); shapes.len()];
    for link in links {
        by_source[link.from].push(link);
    }
    let mut changed: Vec<usize> = (0..shapes.len()).collect();
    while let Some(at) = changed.pop() {
        for link in &by_source[at] {
            let has = passing(&ids, shapes, link, &arrives[at]);
            let mut is_less = false;
            for (there, has) in arrives[link.to].iter_mut().zip(&has) {
                is_less |= *there && !has;
                *there &= has;
            }
            if is_less {
                changed.push(link.to);
            }
        }
    }
    for (at, shape) in shapes.iter().enumerate() {
        for column in shape.spec.reads {
            let Some(place) = ids.place(column).filter(|&place| !arrives[at][place]) else { continue };
            let is_meant = |link: &&IndexedConnection| {
                link.to == at && column.on.is_none_or(|on| name(shape.spec.inputs, link.input) == on)
            };
            let lacks = |link: &&IndexedConnection| !passing(&ids, shapes, link, &arrives[link.from])[place];
            let from = links.iter().filter(is_meant).find(lacks);
            if column.on.is_some() && from.is_none() {
                continue;
            }
            errors.push(BuildError::Column {
                element: shape.name.to_string(),
                column: column.name,
                from: from.map_or_else(String::new, |link| shapes[link.from].name.to_string()),
            });
        }
    }
}
