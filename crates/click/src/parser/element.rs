//! One element of a chain: ports, name, `::`, class or compound or group, configuration string, ports.

use super::{ANONYMOUS, Parser};
use crate::lexer::{Kind, Token};
use crate::problem::Problem;
use crate::program::{ClassId, Role};
use crate::source::Span;
use crate::text::Text;
use crate::values::unsigned;
use std::rc::Rc;

/// Ports in brackets. `open` ones continue after the last: `[0,]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    pub(super) list: Vec<u32>,
    pub(super) open: bool,
}

impl Ports {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// A written element of a chain, before it is known whether it is declared here.
#[derive(Debug)]
pub(super) struct ElementText {
    pub(super) name: String,
    /// The class of that name, or an inline class in place of the name.
    pub(super) class: Option<ClassId>,
    /// The class after `::`.
    pub(super) declared: Option<ClassId>,
    /// Whether only a name was written.
    pub(super) bare: bool,
    pub(super) implicit: bool,
    pub(super) config: Rc<Text>,
    pub(super) span: Span,
    /// Inputs, outputs.
    pub(super) ports: [Ports; 2],
}

/// The position of an element in a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// No connector precedes it.
    pub(super) first_set: bool,
    /// It is the first of its list.
    pub(super) first_in_set: bool,
    /// It is in a compound or group.
    pub(super) nested: bool,
}

impl Parser<'_> {
    /// Parses an element, or returns `None` if there is none: the token is put back unless it was reported.
    pub(super) fn element(&mut self, position: Position) -> Option<ElementText> {
        let inputs = self.ports();
        let token = self.lex();
        let mut written = ElementText {
            name: String::new(),
            class: None,
            declared: None,
            bare: false,
            implicit: false,
            config: Rc::default(),
            span: token.span,
            ports: [inputs, Ports::default()],
        };
        match token.kind {
            Kind::Ident => {
                written.name = self.text(token).into();
                written.class = self.visible.get(&written.name).copied();
                written.bare = true;
            }
            Kind::Char(b'{') => written.class = Some(self.compound("", token.span)),
            Kind::Char(b'(') => {
                let (name, ports) = self.group(token);
                written.name = name;
                let [inputs, outputs] = ports;
                let implied = |count: u32| Ports { list: (0..count).collect(), open: false };
                if written.ports[0].is_empty() {
                    written.ports[0] = implied(inputs);
                }
                written.ports[1] = implied(outputs);
            }
            _ => return self.implicit(token, position, written),
        }
        self.class_of(&mut written);
        self.config_of(&mut written);
        Some(written)
    }

    /// An omitted `input` or `output`: `[1] -> …`, `… -> [0]`.
    fn implicit(
        &mut self,
        token: Token,
        position: Position,
        mut written: ElementText,
    ) -> Option<ElementText> {
        let has_ports = !written.ports[0].is_empty();
        let Position { first_set, first_in_set, nested } = position;
        let arrow = matches!(token.kind, Kind::Arrow | Kind::DoubleArrow);
        let implicit = nested
            && if arrow {
                first_set && (has_ports || first_in_set)
            } else if token.is(b',') {
                has_ports
            } else {
                token.kind != Kind::DoubleColon && !first_set && (has_ports || first_in_set)
            };
        if implicit {
            self.unlex(token);
            written.implicit = true;
            written.name = if first_set { "input" } else { "output" }.into();
            if first_set {
                written.ports.swap(0, 1);
            }
            return Some(written);
        }
        if has_ports {
            self.report(token.span, Problem::StrayPorts("stranded port ignored"));
        }
        let quiet = first_in_set && nested && first_set;
        if first_in_set && !quiet {
            self.expected("an element", token);
        }
        let starts_statement = matches!(
            token.kind,
            Kind::End
                | Kind::DoubleBar
                | Kind::ElementClass
                | Kind::Require
                | Kind::Define
                | Kind::Char(b'}' | b')')
        );
        if quiet || !first_in_set || starts_statement {
            self.unlex(token);
        }
        None
    }

    /// `:: Class`.
    fn class_of(&mut self, written: &mut ElementText) {
        let token = self.lex();
        if token.kind != Kind::DoubleColon {
            return self.unlex(token);
        }
        written.bare = false;
        let token = self.lex();
        written.span = written.span.to(token.span);
        written.declared = Some(match token.kind {
            Kind::Ident => {
                let name = self.text(token).to_owned();
                self.class(&name)
            }
            Kind::Char(b'{') => self.compound("", token.span),
            _ => {
                self.expected("a class", token);
                self.unlex(token);
                let name = written.name.clone();
                self.class(&name)
            }
        });
    }

    /// `(config) [ports]`.
    fn config_of(&mut self, written: &mut ElementText) {
        let token = self.lex();
        if token.is(b'(') {
            if written.class.is_none()
                && written.declared.is_none()
                && self.scope().names.contains_key(&written.name)
            {
                let problem =
                    Problem::ConfigOnReference(written.name.trim_start_matches(ANONYMOUS).to_owned());
                self.report(token.span, problem);
            }
            written.config = Rc::new(self.config(token));
            written.bare = false;
        } else {
            self.unlex(token);
        }
        if self.peek().is(b'[') {
            written.ports[1] = self.ports();
        }
    }

    /// `[1, 2]`, or nothing.
    fn ports(&mut self) -> Ports {
        let mut ports = Ports::default();
        let token = self.lex();
        if !token.is(b'[') {
            self.unlex(token);
            return ports;
        }
        loop {
            let token = self.lex();
            match token.kind {
                Kind::Ident => {
                    let port = self.port(token);
                    ports.list.push(port);
                }
                Kind::Char(b']') => {
                    if ports.list.is_empty() {
                        ports.list.push(0);
                    }
                    ports.open = true;
                    return ports;
                }
                _ => {
                    self.expected("a port number", token);
                    self.unlex(token);
                    return ports;
                }
            }
            let token = self.lex();
            if token.is(b']') {
                return ports;
            }
            if !token.is(b',') {
                self.expected("`,` or `]`", token);
                self.unlex(token);
                if token.kind != Kind::Ident {
                    return ports;
                }
            }
        }
    }

    fn port(&mut self, token: Token) -> u32 {
        let max = self.limits.port;
        if let Some(port) = unsigned(self.text(token)).filter(|&port| port <= u64::from(max)) {
            return port as u32;
        }
        let text = self.shown(token);
        self.report(token.span, Problem::PortNumber { text, max });
        0
    }

    /// Adds a written element to the scope, or finds the one it refers to.
    pub(super) fn resolve(&mut self, written: &ElementText) -> usize {
        let known = self.scope().names.get(&written.name).copied();
        if let (None, Some(known)) = (written.class, known) {
            if written.declared.is_some() {
                let earlier = self.scope().compound.elements[known].span;
                self.redeclared(&written.name, written.span, earlier);
            }
            return known;
        }
        if written.class.is_some() && written.declared.is_some() {
            self.report(written.span, Problem::ClassAsName(written.name.clone()));
        }
        let undeclared = written.class.is_none() && written.declared.is_none();
        if undeclared && matches!(written.name.as_str(), "input" | "output") {
            let problem = Problem::Undeclared { name: written.name.clone(), similar: None };
            self.report(written.span, problem);
        }
        let class = match (written.class, written.declared) {
            (Some(class), _) | (None, Some(class)) => class,
            (None, None) => self.class(&written.name),
        };
        if !self.count(1, written.span) {
            return 0;
        }
        let scope = self.scope();
        let name = match (written.class, written.declared) {
            (None, Some(_)) => written.name.clone(),
            _ => scope.anonymous(&written.name),
        };
        let shown = name.trim_start_matches(ANONYMOUS);
        if shown.split('/').any(|part| part.bytes().all(|byte| byte.is_ascii_digit())) {
            self.report(written.span, Problem::DigitName(shown.to_owned()));
        }
        let bare = undeclared && written.bare;
        self.scope().add(name, Role::Instance(class), written.config.clone(), bare, written.span)
    }
}
