//! Flattens scopes: instantiates compounds, replaces variables, removes tunnels.

mod assign;
mod tunnels;

use crate::config_strings;
use crate::configuration::{Argument, Configuration, Connection, Declaration, Port};
use crate::lexer::Lexer;
use crate::limits::{Budget, Limits};
use crate::parser::owner;
use crate::problem::{Diagnostic, Problem, Problems};
use crate::program::{Class, ClassId, Compound, Element, Program, ProgramConnection, Role};
use crate::source::Span;
use crate::text::Text;
use crate::variables::Env;
use std::collections::HashMap;
use std::sync::Arc;

/// An element after expansion, or a tunnel end.
#[derive(Debug)]
struct Node {
    name: String,
    span: Span,
    /// `None` for a tunnel end.
    declaration: Option<Declaration>,
    /// Packets at input `p` of this end continue at output `p` of that node.
    through: Option<usize>,
}

struct Expander<'p> {
    program: &'p Program,
    budget: Budget,
    problems: &'p mut Problems,
    nodes: Vec<Node>,
    names: HashMap<String, usize>,
    links: Vec<ProgramConnection>,
}

/// Flattens a program. The result is complete only if `problems` is empty. `parameters` set variables of the file and
/// take precedence over its own.
pub(crate) fn flatten(
    program: &Program,
    parameters: &[(String, String)],
    limits: Limits,
    problems: &mut Problems,
) -> Configuration {
    let mut expander = Expander {
        program,
        budget: Budget::new(limits),
        problems,
        nodes: Vec::new(),
        names: HashMap::new(),
        links: Vec::new(),
    };
    let mut env = Env::new(None, 0);
    for (name, value) in &program.root.defines {
        env.define(name, value.clone());
    }
    for (name, value) in parameters {
        env.define(name, value.clone());
    }
    let result = expander.scope(&program.root, "", None, &env, 0);
    let result = result.and_then(|()| expander.connections());
    let connections = match result {
        Ok(connections) => connections,
        Err((span, problem)) => {
            expander.problems.report(span, problem);
            Vec::new()
        }
    };
    let elements = expander.nodes.into_iter().filter_map(|node| node.declaration).collect();
    Configuration {
        elements,
        connections,
        requirements: program.requirements.clone(),
        source: Arc::default(),
    }
}

/// The error that stops an expansion, and its position.
type Failure = (Span, Problem);

impl<'p> Expander<'p> {
    fn node(&mut self, name: String, span: Span) -> Result<usize, Failure> {
        let charged = self.budget.element().and_then(|()| self.budget.bytes(name.len()));
        charged.map_err(|problem| (span, problem))?;
        let index = self.nodes.len();
        if let Some(&earlier) = self.names.get(&name) {
            let diagnostic = Diagnostic::new(span, Problem::Redeclared(name.clone()));
            self.problems.push(diagnostic.noted(self.nodes[earlier].span, "previously declared here"));
        } else {
            self.names.insert(name.clone(), index);
        }
        self.nodes.push(Node { name, span, declaration: None, through: None });
        Ok(index)
    }

    /// Adds a scope's elements and connections, then expands its compounds. `ends` are the nodes of its `input` and
    /// `output`.
    fn scope(
        &mut self,
        compound: &'p Compound,
        prefix: &str,
        ends: Option<[usize; 2]>,
        env: &Env<'_>,
        depth: usize,
    ) -> Result<(), Failure> {
        let limit = self.budget.limits().depth;
        if depth > limit {
            return Err((compound.span, Problem::TooLarge { what: "compounds inside each other", limit }));
        }
        let mut nodes: Vec<usize> = ends.map_or(Vec::new(), Vec::from);
        for element in compound.elements.iter().skip(nodes.len()) {
            nodes.push(self.node(format!("{prefix}{}", element.name), element.span)?);
        }
        for (index, element) in compound.elements.iter().enumerate() {
            if matches!(element.role, Role::Group) {
                let [outer, input, output] = [index, index + 1, index + 2].map(|index| nodes[index]);
                self.nodes[outer].through = Some(input);
                self.nodes[output].through = Some(outer);
            }
        }
        for link in &compound.links {
            self.budget.steps(1).map_err(|problem| (link.span, problem))?;
            let end = |(element, port): (usize, u32)| (nodes[element], port);
            self.links.push(ProgramConnection { from: end(link.from), to: end(link.to), span: link.span });
        }
        let limit = self.budget.limits().connections;
        if self.links.len() > limit.saturating_mul(4) {
            return Err((compound.span, Problem::TooLarge { what: "connections", limit }));
        }
        for (element, &node) in compound.elements.iter().zip(&nodes) {
            if let Role::Instance(class) = element.role {
                self.instance(element, class, node, env, depth)?;
            }
        }
        Ok(())
    }

    /// Adds an element of a class, or a compound's expansion.
    fn instance(
        &mut self,
        element: &'p Element,
        class: ClassId,
        node: usize,
        env: &Env<'_>,
        depth: usize,
    ) -> Result<(), Failure> {
        let placed = |problem| (element.span, problem);
        let config = env.expand(&element.config, &mut self.budget).map_err(placed)?;
        let args = self.arguments(&config, element.span)?;
        let texts: Vec<&str> = args.iter().map(|argument| argument.text.as_str()).collect();
        let chosen = match &self.program.classes[class] {
            Class::Named(_) => Some((class, Vec::new())),
            Class::Compound(_) => self.overload(element, class, &texts)?,
        };
        let Some((class, values)) = chosen else { return Ok(()) };
        match &self.program.classes[class] {
            Class::Named(class) => {
                self.budget.bytes(class.len()).map_err(placed)?;
                let name = self.nodes[node].name.clone();
                let declaration =
                    Declaration { name, class: class.clone(), args, span: element.span, bare: element.bare };
                self.nodes[node].declaration = Some(declaration);
                Ok(())
            }
            Class::Compound(compound) => self.compound(element, compound, values, node, env, depth),
        }
    }

    /// The arguments in a configuration string, each valid by itself.
    fn arguments(&mut self, config: &Text, span: Span) -> Result<Vec<Argument>, Failure> {
        let text = config.as_str();
        let mut args = Vec::new();
        for cut in config_strings::arguments(text) {
            self.budget.bytes(cut.text.len() + 16).map_err(|problem| (span, problem))?;
            let (place, exact) = config.place(cut.range.clone());
            let place = if cut.range.is_empty() && place.is_empty() { span } else { place };
            let exact = exact && cut.range.len() == cut.text.len();
            args.push(Argument { text: cut.text, span: place, exact });
        }
        if let Some(problem) = self.unwritable(&args) {
            self.problems.report(span, problem);
        }
        Ok(args)
    }

    /// A substitution may leave unbalanced quotes or parentheses; the printed configuration would then parse
    /// differently.
    fn unwritable(&mut self, args: &[Argument]) -> Option<Problem> {
        let joined = config_strings::join(args.iter().map(|argument| argument.text.as_str()));
        let closed = format!("{joined})");
        let mut ignored = Problems::new(1);
        let mut lexer = Lexer::new(&closed);
        let again = lexer.config(&mut ignored).filter(|_| lexer.directives.is_empty() && ignored.is_empty());
        let same = again.is_some_and(|again| again.as_str() == joined)
            && config_strings::arguments(&joined)
                .iter()
                .map(|cut| &cut.text)
                .eq(args.iter().map(|argument| &argument.text));
        let stable = same
            && Env::new(None, 0).expand_plain(&joined, &mut self.budget).is_ok_and(|again| again == joined);
        let shown = || joined.chars().take(60).collect();
        (!stable).then(|| Problem::Substituted(shown()))
    }

    /// The matching overload, and its parameters' values.
    fn overload(
        &mut self,
        element: &Element,
        first: ClassId,
        args: &[&str],
    ) -> Result<Option<(ClassId, Vec<String>)>, Failure> {
        let used = [0, 1].map(|side| element.used[side].last().map_or(0, |port| port + 1));
        let mut closest = None;
        let mut candidates = 0_usize;
        let mut class = first;
        loop {
            let Class::Compound(compound) = &self.program.classes[class] else {
                return Ok(Some((class, Vec::new())));
            };
            let steps = (1 + args.len()) * (1 + compound.formals.len());
            self.budget.steps(steps).map_err(|problem| (element.span, problem))?;
            candidates += 1;
            if let Some(values) = assign::assign(&compound.formals, args) {
                let fits = [compound.inputs, compound.outputs] == used;
                closest = Some((class, values));
                if fits {
                    return Ok(closest);
                }
            }
            let Some(next) = compound.next else { break };
            class = next;
        }
        if candidates == 1 && closest.is_some() {
            return Ok(closest);
        }
        let problem = self.no_match(first, args.len(), used);
        self.problems.report(element.span, problem);
        Ok(None)
    }

    fn no_match(&self, first: ClassId, args: usize, used: [u32; 2]) -> Problem {
        let mut candidates = Vec::new();
        let mut wanted = String::new();
        let mut class = Some(first);
        while let Some(Class::Compound(compound)) = class.map(|class| &self.program.classes[class]) {
            wanted = owner(&compound.name);
            if candidates.len() == 8 {
                candidates.push("…".to_owned());
                break;
            }
            candidates.push(assign::signature(compound));
            class = compound.next;
        }
        let wanted = format!("{wanted}[{}]", assign::counts(args, used[0], used[1]));
        Problem::NoMatch { wanted, candidates: candidates.join("; ") }
    }

    fn compound(
        &mut self,
        element: &'p Element,
        compound: &'p Compound,
        values: Vec<String>,
        node: usize,
        env: &Env<'_>,
        depth: usize,
    ) -> Result<(), Failure> {
        let placed = |problem| (element.span, problem);
        let mut inner = Env::new(env.outside(compound.depth), compound.depth);
        for (formal, value) in compound.formals.iter().zip(values) {
            self.budget.bytes(formal.name.len() + value.len()).map_err(placed)?;
            inner.define(&formal.name, value);
        }
        for (name, value) in &compound.defines {
            self.budget.bytes(name.len()).map_err(placed)?;
            let value = inner.expand_plain(value, &mut self.budget).map_err(placed)?;
            self.budget.bytes(value.len()).map_err(placed)?;
            inner.define(name, value);
        }
        self.check_ports(element, [compound.inputs, compound.outputs], node);
        let name = self.nodes[node].name.clone();
        let input = self.node(format!("{name}/input"), element.span)?;
        let output = self.node(format!("{name}/output"), element.span)?;
        self.nodes[node].through = Some(input);
        self.nodes[output].through = Some(node);
        self.scope(compound, &format!("{name}/"), Some([input, output]), &inner, depth + 1)
    }

    /// Checks that an instance of a compound is connected at exactly its ports.
    fn check_ports(&mut self, element: &Element, counts: [u32; 2], node: usize) {
        for (side, name) in ["input", "output"].into_iter().enumerate() {
            let used = &element.used[side];
            let compound = &self.nodes[node].name;
            let strange =
                used.range(counts[side]..).next().map(|port| format!("`{compound}` has no {name} {port}"));
            let unused = (0..counts[side]).find(|port| !used.contains(port));
            let unused = unused.map(|port| format!("`{compound}` {name} {port} unused"));
            for problem in strange.into_iter().chain(unused) {
                self.problems.report(element.span, Problem::CompoundPort(problem));
            }
        }
    }

    /// The connections between elements, each once, with elements numbered without tunnels.
    fn connections(&mut self) -> Result<Vec<Connection>, Failure> {
        let mut numbers = Vec::with_capacity(self.nodes.len());
        let mut next = 0;
        for node in &self.nodes {
            numbers.push(node.declaration.is_some().then_some(next));
            next += usize::from(node.declaration.is_some());
        }
        let through: Vec<Option<usize>> = self.nodes.iter().map(|node| node.through).collect();
        let direct = tunnels::remove(&mut self.links, &through, &mut self.budget)?;
        let mut connections = Vec::with_capacity(direct.len());
        let mut ports: HashMap<(bool, usize), u32> = HashMap::new();
        for link in direct {
            let (Some(from), Some(to)) = (numbers[link.from.0], numbers[link.to.0]) else { continue };
            for (key, port) in [((true, from), link.from.1), ((false, to), link.to.1)] {
                let most = ports.entry(key).or_default();
                *most = (*most).max(port + 1);
            }
            let [from, to] =
                [(from, link.from.1), (to, link.to.1)].map(|(element, port)| Port { element, port });
            connections.push(Connection { from, to, span: link.span });
        }
        let limit = self.budget.limits().ports;
        let all: usize = ports.values().map(|&count| count as usize).sum();
        if all > limit {
            return Err((Span::default(), Problem::TooLarge { what: "ports", limit }));
        }
        connections.sort_by_key(|connection| (connection.from, connection.to));
        Ok(connections)
    }
}
