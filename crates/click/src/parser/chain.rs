//! Chains of elements: `a, b[1] -> c => [0] d :: E`.

use super::Parser;
use super::element::{ElementText, Ports, Position};
use crate::lexer::{Kind, Token};
use crate::problem::Problem;
use crate::source::Span;

/// An element of a chain and its ports there: inputs, outputs.
#[derive(Debug)]
struct End {
    element: usize,
    ports: [Ports; 2],
}

fn is_arrow(token: Token) -> bool {
    matches!(token.kind, Kind::Arrow | Kind::DoubleArrow)
}

impl Parser<'_> {
    /// Parses a declaration or a chain of connections.
    pub(super) fn chain(&mut self, nested: bool) {
        let mut last: Option<(Vec<End>, Token)> = None;
        loop {
            let written = self.list(last.is_none(), nested);
            if written.is_empty() || self.stopped {
                return;
            }
            let next = self.peek();
            let ends = self.ends(written, last.is_none(), next);
            match &last {
                None => self.check_useless(&ends, 0, next.span),
                Some((outputs, connector)) => self.connect_lists(outputs, &ends, *connector),
            }
            let Some(connector) = self.connector() else {
                self.check_useless(&ends, 1, next.span);
                return;
            };
            last = Some((ends, connector));
        }
    }

    /// Parses a comma-separated list of elements.
    fn list(&mut self, first_set: bool, nested: bool) -> Vec<ElementText> {
        let mut all = Vec::new();
        loop {
            let position = Position { first_set, first_in_set: all.is_empty(), nested };
            match self.element(position) {
                Some(written) if all.len() < self.limits.elements => all.push(written),
                Some(written) => self.too_large(written.span, "elements", self.limits.elements),
                None => return all,
            }
            let token = self.lex();
            if !token.is(b',') {
                self.unlex(token);
                return all;
            }
        }
    }

    /// Turns written elements into chain ends; `next` is the token after the list.
    fn ends(&mut self, mut written: Vec<ElementText>, first_set: bool, next: Token) -> Vec<End> {
        let implicit = written.iter().any(|written| written.implicit);
        if implicit && !first_set && is_arrow(next) {
            let problem = Problem::StrayPorts("implicit ports used in the middle of a chain");
            self.report(next.span, problem);
        }
        let no_ports = written.iter().all(|written| written.ports.iter().all(Ports::is_empty));
        if written.len() > 1 && first_set && !is_arrow(next) && no_ports && !implicit {
            spread_class(&mut written);
        }
        written
            .into_iter()
            .map(|written| End { element: self.resolve(&written), ports: written.ports })
            .collect()
    }

    /// The connector after a list; `None` at the end of the chain.
    fn connector(&mut self) -> Option<Token> {
        loop {
            let token = self.lex();
            match token.kind {
                Kind::Arrow | Kind::DoubleArrow => return Some(token),
                Kind::Char(b',') | Kind::DoubleColon => self.syntax(token),
                Kind::Char(b';') | Kind::End => return None,
                Kind::Ident
                | Kind::DoubleBar
                | Kind::ElementClass
                | Kind::Require
                | Kind::Provide
                | Kind::Define
                | Kind::Char(b'{' | b'}' | b'[' | b')') => {
                    self.unlex(token);
                    return None;
                }
                _ => {
                    self.syntax(token);
                    return None;
                }
            }
        }
    }

    fn check_useless(&mut self, ends: &[End], side: usize, span: Span) {
        if ends.iter().any(|end| !end.ports[side].is_empty()) {
            let what =
                ["input ports ignored at start of chain", "output ports ignored at end of chain"][side];
            self.report(span, Problem::StrayPorts(what));
        }
    }

    /// Connects all outputs of one list to all inputs of the next.
    fn connect_lists(&mut self, outputs: &[End], inputs: &[End], connector: Token) {
        let lists = [inputs, outputs];
        let mut count = [0, 0];
        let mut open = [0, 0];
        for side in [0, 1] {
            for end in lists[side] {
                count[side] += end.ports[side].list.len().max(1);
                open[side] += usize::from(end.ports[side].open);
            }
        }
        if open[0] + open[1] > 1 {
            self.report(
                connector.span,
                Problem::StrayPorts("at most one expandable port allowed per connection"),
            );
            open[usize::from(count[0] < count[1])] = 0;
        }
        let many = connector.kind == Kind::DoubleArrow;
        let mut unnumbered = [false, false];
        for side in [0, 1] {
            if many
                && count[side] == 1
                && count[1 - side] > 1
                && lists[side].first().is_some_and(|end| end.ports[side].is_empty())
            {
                unnumbered[side] = true;
                open[side] = 1;
            }
        }
        let mut step = [0, 1].map(|side| count[side] > 1 || open[side] > 0);
        if step == [true, true] {
            if !many {
                self.report(connector.span, Problem::ManyToMany);
            }
            let short = |side: usize| open[side] == 0 && count[side] < count[1 - side];
            if short(0) || short(1) {
                let problem = Problem::Mismatch { outputs: count[1], inputs: count[0] };
                self.report(connector.span, problem);
            }
        } else if step == [false, false] {
            step[0] = true;
        }
        let wanted = count[0].max(count[1]);
        let all = [0, 1].map(|side| {
            let more = if open[side] > 0 { wanted.saturating_sub(count[side]) } else { 0 };
            self.ports_of(lists[side], side, more, unnumbered[side], connector.span)
        });
        self.connect_ports(&all, step, connector.span);
    }

    /// The ports of a list in order, with its open one extended by `more` ports.
    fn ports_of(
        &mut self,
        ends: &[End],
        side: usize,
        more: usize,
        unnumbered: bool,
        span: Span,
    ) -> Vec<(usize, u32)> {
        let mut all = Vec::new();
        for end in ends {
            let ports = &end.ports[side];
            let last = ports.list.last().copied().unwrap_or(0);
            all.extend(ports.list.iter().map(|&port| (end.element, port)));
            if ports.is_empty() {
                all.push((end.element, 0));
            }
            if ports.open || unnumbered {
                for port in (last..).skip(1).take(more) {
                    if port > self.limits.port {
                        let problem = Problem::PortNumber { text: port.to_string(), max: self.limits.port };
                        self.report(span, problem);
                        break;
                    }
                    all.push((end.element, port));
                }
            }
        }
        all
    }

    fn connect_ports(&mut self, all: &[Vec<(usize, u32)>; 2], step: [bool; 2], span: Span) {
        let mut at = [0, 0];
        while let (Some(&to), Some(&from)) = (all[0].get(at[0]), all[1].get(at[1])) {
            self.connect(from, to, span);
            if self.stopped {
                return;
            }
            for side in [0, 1] {
                at[side] += usize::from(step[side]);
            }
        }
    }
}

/// `a, b, c :: Class(config)`: the last element's class applies to all, if the others are names only.
fn spread_class(written: &mut [ElementText]) {
    let Some((last, others)) = written.split_last_mut() else { return };
    if !others.iter().all(|other| other.bare) || last.declared.is_none() {
        return;
    }
    for other in others {
        other.declared = last.declared;
        other.config = last.config.clone();
    }
}
