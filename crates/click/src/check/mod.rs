//! Checks a configuration against a catalog of classes: everything that Click checks before it starts a router.

mod catalog;
mod processing;

pub use catalog::{Accepts, Catalog, ClassSpec, Processing};

use crate::arguments::Arguments;
use crate::configuration::{Configuration, Declaration, Port};
use crate::limits::Limits;
use crate::problem::{Diagnostic, Errors, Problem, Problems, Side, similar};
use crate::source::Span;
use crate::values::AddressInfo;
use catalog::{FlowCode, PortCount, ProcessingCode};
use processing::{Conflict, Ports, Wire};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The processing of each port of each element, by element index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wiring {
    /// Its inputs.
    pub inputs: Vec<Vec<Processing>>,
    /// Its outputs.
    pub outputs: Vec<Vec<Processing>>,
}

/// Most errors for which a similar name is searched, as that takes long.
const MAX_HINTS: usize = 16;
const MAX_NAMES: usize = 4096;

/// Checks classes, arguments, port numbers, push and pull, missing and excess connections, and packages.
///
/// Takes O(elements + connections), and once more for the arguments.
///
/// # Errors
///
/// All errors, up to the default of [`Limits::errors`].
pub fn check(configuration: &Configuration, catalog: &dyn Catalog) -> Result<Wiring, Errors> {
    let problems = Problems::new(Limits::default().errors);
    let mut checker = Checker { configuration, catalog, problems, hints: 0 };
    checker.packages();
    let elements = checker.elements();
    checker.arguments();
    let wiring = elements.map(|elements| checker.connections(&elements));
    match wiring {
        Some(wiring) if checker.problems.is_empty() => Ok(wiring),
        _ => Err(checker.problems.into_errors(Arc::clone(&configuration.source))),
    }
}

struct Checker<'a> {
    configuration: &'a Configuration,
    catalog: &'a dyn Catalog,
    problems: Problems,
    hints: usize,
}

impl Checker<'_> {
    fn packages(&mut self) {
        for requirement in &self.configuration.requirements {
            if !self.catalog.has_package(&requirement.package) {
                self.problems.report(requirement.span, Problem::NoPackage(requirement.package.clone()));
            }
        }
    }

    /// The ports of all elements; `None` if a class is unknown, since ports cannot be checked then.
    fn elements(&mut self) -> Option<Vec<Ports>> {
        let configuration = self.configuration;
        let mut used = vec![[0_u32; 2]; configuration.elements.len()];
        for connection in &configuration.connections {
            for (side, port) in [(0, connection.to), (1, connection.from)] {
                let most = &mut used[port.element][side];
                *most = (*most).max(port.port.saturating_add(1));
            }
        }
        let mut names: HashSet<&str> = HashSet::new();
        let mut all = Vec::with_capacity(used.len());
        for (element, used) in configuration.elements.iter().zip(used) {
            if !names.insert(&element.name) {
                self.problems.report(element.span, Problem::Redeclared(element.name.clone()));
            }
            if self.catalog.class(&element.name).is_some() {
                self.problems.report(element.span, Problem::ClassAsName(element.name.clone()));
            }
            let spec = self.catalog.class(&element.class);
            match spec.map(|spec| ports_of(element, &spec, used)) {
                Some(Ok(ports)) => all.push(ports),
                Some(Err(problem)) => self.problems.report(element.span, problem),
                None => self.unknown(element),
            }
        }
        (all.len() == configuration.elements.len()).then_some(all)
    }

    fn unknown(&mut self, element: &Declaration) {
        self.hints += 1;
        let (catalog, elements) = (self.catalog, &self.configuration.elements);
        let near = |names: &mut dyn Iterator<Item = &str>| {
            if self.hints > MAX_HINTS { None } else { similar(&element.class, names.take(MAX_NAMES)) }
        };
        let class = near(&mut catalog.names().into_iter());
        let name = element.class.clone();
        let problem = if element.bare {
            let declared = elements.iter().filter(|other| !other.bare).map(|other| other.name.as_str());
            let similar = near(&mut declared.into_iter());
            Problem::Undeclared { name, similar: similar.or(class) }
        } else {
            Problem::UnknownClass { name, similar: class }
        };
        let later = elements.iter().find(|other| element.bare && other.name == element.class);
        let diagnostic = Diagnostic::new(element.span, problem);
        self.problems.push(match later {
            Some(later) => diagnostic.noted(later.span, "declared here, after its use"),
            None => diagnostic,
        });
    }

    fn arguments(&mut self) {
        let info = match AddressInfo::of(self.configuration) {
            Ok(info) => info,
            Err(errors) => {
                for diagnostic in errors.list() {
                    self.problems.push(diagnostic.clone());
                }
                AddressInfo::default()
            }
        };
        for element in &self.configuration.elements {
            match self.catalog.class(&element.class).map(|spec| spec.arguments) {
                Some(Accepts::Parameters(parameters)) => {
                    let wrong = match Arguments::assign(element, parameters, info.names(&element.name)) {
                        Ok(arguments) => arguments.check(),
                        Err(wrong) => wrong,
                    };
                    for diagnostic in wrong {
                        self.problems.push(diagnostic);
                    }
                }
                Some(Accepts::Any(least)) if element.args.len() < least => {
                    let message = format!("needs at least {least} arguments, has {}", element.args.len());
                    self.problems
                        .report(element.span, Problem::Argument { element: element.name.clone(), message });
                }
                _ => {}
            }
        }
    }

    fn name(&self, element: usize) -> String {
        self.configuration.elements[element].name.clone()
    }

    /// Port numbers, processing, reuse and unused ports, in Click's order.
    fn connections(&mut self, elements: &[Ports]) -> Wiring {
        let configuration = self.configuration;
        let mut connected: HashSet<(usize, usize, u32)> = HashSet::new();
        let mut wires: Vec<Wire> = Vec::with_capacity(configuration.connections.len());
        let mut spans = Vec::with_capacity(configuration.connections.len());
        for connection in &configuration.connections {
            let sides = [(Side::Output, connection.from), (Side::Input, connection.to)];
            let strange = sides.map(|(side, port)| {
                (port.port >= elements[port.element].count[side as usize]).then_some((side, port))
            });
            for (side, port) in strange.into_iter().flatten() {
                let problem = self.no_port(side, port);
                self.problems.report(connection.span, problem);
            }
            if strange == [None, None] {
                let end = |port: Port| (port.element, port.port);
                wires.push((end(connection.from), end(connection.to)));
                spans.push(connection.span);
            } else {
                connected.extend(sides.map(|(side, port)| (side as usize, port.element, port.port)));
            }
        }
        let resolved = processing::resolve(elements, &wires);
        for conflict in &resolved.conflicts {
            let (span, problem) = match *conflict {
                Conflict::Wire(wire) => (spans[wire], self.wire_conflict(wires[wire], &resolved.ports)),
                Conflict::Inside { element, input, output } => {
                    let state = resolved.ports[element][0].get(input as usize);
                    let pull = state == Some(&Processing::Pull);
                    let [input_is, output_is] = if pull { ["pull", "push"] } else { ["push", "pull"] };
                    let problem = Problem::Agnostic {
                        element: self.name(element),
                        in_port: input,
                        input: input_is,
                        out_port: output,
                        output: output_is,
                    };
                    (configuration.elements[element].span, problem)
                }
            };
            self.problems.report(span, problem);
        }
        self.reuse(&wires, &spans, &resolved.ports);
        for (from, to) in wires {
            connected.extend([(1, from.0, from.1), (0, to.0, to.1)]);
        }
        self.unused(elements, &connected);
        let (inputs, outputs) = resolved.ports.into_iter().map(|[inputs, outputs]| (inputs, outputs)).unzip();
        Wiring { inputs, outputs }
    }

    fn no_port(&self, side: Side, port: Port) -> Problem {
        let element = &self.configuration.elements[port.element];
        let ports = self.catalog.class(&element.class).map_or("", |spec| spec.ports);
        let (class, ports) = (element.class.clone(), ports.to_owned());
        Problem::NoPort { element: element.name.clone(), class, ports, side, port: port.port }
    }

    fn wire_conflict(&self, wire: Wire, ports: &[[Vec<Processing>; 2]]) -> Problem {
        let ((from, from_port), (to, to_port)) = wire;
        Problem::Processing {
            from: self.name(from),
            from_port,
            output: ports[from][1][from_port as usize].name(),
            to: self.name(to),
            to_port,
            input: ports[to][0][to_port as usize].name(),
        }
    }

    /// Checks that push outputs and pull inputs have one connection each.
    fn reuse(&mut self, wires: &[Wire], spans: &[Span], ports: &[[Vec<Processing>; 2]]) {
        let mut first: HashMap<(usize, usize, u32), usize> = HashMap::new();
        for (index, wire) in wires.iter().enumerate() {
            for (side, (element, port)) in [(0, wire.1), (1, wire.0)] {
                let Some(&earlier) = first.get(&(side, element, port)) else {
                    first.insert((side, element, port), index);
                    continue;
                };
                let kind = match (side, ports[element][side][port as usize]) {
                    (0, Processing::Pull) => "pull input",
                    (1, Processing::Push) => "push output",
                    _ => continue,
                };
                let problem = Problem::Reused { element: self.name(element), kind, port };
                let diagnostic = Diagnostic::new(spans[index], problem);
                self.problems.push(diagnostic.noted(spans[earlier], "connected here too"));
            }
        }
    }

    /// Checks that every port is connected. `connected` has side, element and port of all connections, including wrong
    /// ones.
    fn unused(&mut self, elements: &[Ports], connected: &HashSet<(usize, usize, u32)>) {
        for (index, element) in elements.iter().enumerate() {
            if element.holes {
                continue;
            }
            for side in [Side::Input, Side::Output] {
                for port in 0..element.count[side as usize] {
                    if !connected.contains(&(side as usize, index, port)) {
                        let problem = Problem::Unused { element: self.name(index), side, port };
                        self.problems.report(self.configuration.elements[index].span, problem);
                    }
                }
            }
        }
    }
}

/// The ports of an element with these used ports.
fn ports_of(element: &Declaration, spec: &ClassSpec<'_>, used: [u32; 2]) -> Result<Ports, Problem> {
    let bad =
        |what, code: &str| Problem::Catalog { class: element.class.clone(), what, code: code.to_owned() };
    let count = PortCount::parse(spec.ports).ok_or_else(|| bad("port count", spec.ports))?.fit(used);
    let processing =
        ProcessingCode::parse(spec.processing).ok_or_else(|| bad("processing code", spec.processing))?;
    let flow = FlowCode::parse(spec.flow).ok_or_else(|| bad("flow code", spec.flow))?;
    Ok(Ports { count, processing, flow, holes: spec.holes })
}
