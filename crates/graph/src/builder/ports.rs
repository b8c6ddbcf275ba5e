//! Checks which ports are connected, and decides between push and pull.

use super::error::{BuildError, PortName};
use super::{ElementPorts, IndexedConnection, PORTS, PULL_DEPTH};
use crate::spec::{PortArity, PortKind, PortSpec, Spec};
use std::collections::HashMap;

fn specs(shape: &ElementPorts, is_output: bool) -> &'static [PortSpec] {
    if is_output { shape.spec.outputs } else { shape.spec.inputs }
}

/// A port as errors name it.
pub(super) fn named(shape: &ElementPorts, is_output: bool, number: usize) -> PortName {
    let name = Spec::port(specs(shape, is_output), number).map_or("", |port| port.name);
    PortName { element: shape.name.to_string(), is_output, number, name }
}

/// Drops connections to ports that do not exist, counts each element's ports, and finds unconnected ones.
pub(super) fn count(
    shapes: &mut [ElementPorts],
    links: &mut Vec<IndexedConnection>,
    errors: &mut Vec<BuildError>,
) {
    let has = |shape: &ElementPorts, is_output: bool, number: usize| {
        number < PORTS && Spec::port(specs(shape, is_output), number).is_some()
    };
    links.retain(|link| {
        let ends = [(link.from, true, link.output), (link.to, false, link.input)];
        let wrong = ends.into_iter().find(|&(at, is_output, number)| !has(&shapes[at], is_output, number));
        if let Some((at, is_output, number)) = wrong {
            errors.push(BuildError::NoPort { port: named(&shapes[at], is_output, number) });
        }
        wrong.is_none()
    });
    for (at, shape) in shapes.iter_mut().enumerate() {
        let outputs = links.iter().filter(|link| link.from == at).map(|link| link.output);
        let inputs = links.iter().filter(|link| link.to == at).map(|link| link.input);
        let (outputs, inputs): (Vec<usize>, Vec<usize>) = (outputs.collect(), inputs.collect());
        shape.outputs = check_side(shape, true, &outputs, errors);
        shape.inputs = check_side(shape, false, &inputs, errors);
    }
}

/// The number of ports of one side of an element: required ones, `burst` ports, and optional ones up to the last
/// connected.
fn check_side(shape: &ElementPorts, is_output: bool, used: &[usize], errors: &mut Vec<BuildError>) -> usize {
    let specs = specs(shape, is_output);
    let always =
        specs.iter().filter(|port| matches!(port.many, PortArity::One | PortArity::OneOrMore)).count();
    // A port that sends by value needs its buffer even if it is unconnected.
    let always = specs.iter().rposition(|port| port.by_value).map_or(always, |last| always.max(last + 1));
    // A joined element numbers all ports of its parts.
    let always = if shape.part_of.is_some() { specs.len() } else { always };
    let count = used.iter().map(|number| number + 1).max().unwrap_or(0).max(always);
    let mut is_used = vec![false; count];
    for &number in used {
        is_used[number] = true;
    }
    for number in (0..count).filter(|&number| !is_used[number]) {
        if Spec::port(specs, number)
            .is_some_and(|port| matches!(port.many, PortArity::One | PortArity::OneOrMore))
        {
            errors.push(BuildError::Unconnected { port: named(shape, is_output, number) });
        }
    }
    count
}

fn flow(shape: &ElementPorts, is_output: bool, number: usize) -> PortKind {
    Spec::port(specs(shape, is_output), number).map_or(PortKind::Push, |port| port.flow)
}

/// Union-find of agnostic ports that must be of one kind.
struct PortKinds {
    parent: Vec<usize>,
    kind: Vec<Option<PortKind>>,
}

impl PortKinds {
    fn root(&mut self, mut at: usize) -> usize {
        while self.parent[at] != at {
            self.parent[at] = self.parent[self.parent[at]];
            at = self.parent[at];
        }
        at
    }

    /// Whether the set can have the kind.
    fn set(&mut self, at: usize, kind: PortKind) -> bool {
        let root = self.root(at);
        *self.kind[root].get_or_insert(kind) == kind
    }
}

/// Decides for each connection between push and pull, and checks that each port has no more connections than that
/// allows.
pub(super) fn decide(shapes: &[ElementPorts], links: &mut [IndexedConnection], errors: &mut Vec<BuildError>) {
    let mut kinds = PortKinds { parent: (0..shapes.len()).collect(), kind: vec![None; shapes.len()] };
    let ends = |link: &IndexedConnection| {
        (flow(&shapes[link.from], true, link.output), flow(&shapes[link.to], false, link.input))
    };
    for link in links.iter() {
        if ends(link) == (PortKind::Agnostic, PortKind::Agnostic) {
            let (a, b) = (kinds.root(link.from), kinds.root(link.to));
            kinds.parent[b] = a;
        }
    }
    for link in links.iter() {
        let is_right = match ends(link) {
            (PortKind::Agnostic, PortKind::Agnostic) => true,
            (PortKind::Agnostic, kind) => kinds.set(link.from, kind),
            (kind, PortKind::Agnostic) => kinds.set(link.to, kind),
            (a, b) => a == b,
        };
        if !is_right {
            let (from, to) = (&shapes[link.from], &shapes[link.to]);
            let (from, to) = (named(from, true, link.output), named(to, false, link.input));
            errors.push(BuildError::Conflict { from, to });
        }
    }
    for link in links.iter_mut() {
        let kind = match flow(&shapes[link.from], true, link.output) {
            PortKind::Agnostic => {
                let root = kinds.root(link.from);
                kinds.kind[root].unwrap_or(PortKind::Push)
            }
            kind => kind,
        };
        link.is_pull = kind == PortKind::Pull;
    }
    check_links(shapes, links, errors);
    check_pulls(shapes, links, errors);
}

fn check_links(shapes: &[ElementPorts], links: &[IndexedConnection], errors: &mut Vec<BuildError>) {
    let mut leaving: HashMap<(usize, usize), &IndexedConnection> = HashMap::new();
    let mut arriving: HashMap<(usize, usize), &IndexedConnection> = HashMap::new();
    for link in links {
        let before = leaving.insert((link.from, link.output), link);
        let port = || named(&shapes[link.from], true, link.output);
        match before {
            Some(first) if link.is_pull => {
                let [first, second] = [first.to, link.to].map(|at| shapes[at].name.to_string());
                errors.push(BuildError::PulledTwice { port: port(), first, second });
            }
            Some(_) => errors.push(BuildError::Twice { port: port() }),
            None => {}
        }
        if arriving.insert((link.to, link.input), link).is_some() && link.is_pull {
            errors.push(BuildError::Twice { port: named(&shapes[link.to], false, link.input) });
        }
    }
}

/// Finds cycles of pulls, and pull chains that are too long.
fn check_pulls(shapes: &[ElementPorts], links: &[IndexedConnection], errors: &mut Vec<BuildError>) {
    let mut asks = vec![0usize; shapes.len()];
    let mut asked_by: Vec<Vec<usize>> = vec![Vec::new(); shapes.len()];
    for link in links.iter().filter(|link| link.is_pull) {
        asks[link.to] += 1;
        asked_by[link.from].push(link.to);
    }
    let mut depth = vec![0; shapes.len()];
    let mut known: Vec<usize> = (0..shapes.len()).filter(|&at| asks[at] == 0).collect();
    while let Some(at) = known.pop() {
        for &by in &asked_by[at] {
            depth[by] = depth[by].max(depth[at] + 1);
            asks[by] -= 1;
            if asks[by] == 0 {
                known.push(by);
            }
        }
    }
    // What remains are all elements of a cycle and those that pull from it. One error is enough.
    if let Some(at) = asks.iter().position(|&asks| asks > 0) {
        errors.push(BuildError::PullLoop { element: shapes[at].name.to_string() });
    }
    if let Some(at) = depth.iter().position(|&depth| depth > PULL_DEPTH) {
        errors.push(BuildError::PullDepth { element: shapes[at].name.to_string() });
    }
}
