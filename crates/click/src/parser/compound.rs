//! `elementclass`, `{ … }`, parameters, overloads and `define`.

use super::{Ended, ListContext, Parser, Scope};
use crate::config_strings;
use crate::lexer::Kind;
use crate::problem::Problem;
use crate::program::{Class, ClassId, Formal, REST, Role};
use crate::source::Span;
use std::rc::Rc;

/// Most parameters of a compound.
const MAX_PARAMETERS: usize = 256;

impl Parser<'_> {
    /// After `elementclass`.
    pub(super) fn element_class(&mut self) {
        let token = self.lex();
        let mut name = String::new();
        if token.kind == Kind::Ident {
            name = self.text(token).to_owned();
        } else {
            self.expected("a class name", token);
            self.unlex(token);
        }
        let next = self.lex();
        let class = match next.kind {
            Kind::Char(b'{') => self.compound(&name, token.span),
            Kind::Ident => {
                let original = self.text(next).to_owned();
                self.class(&original)
            }
            _ => {
                self.expected("`{` or a class name", next);
                if next.kind != Kind::Char(b';') {
                    self.unlex(next);
                }
                return;
            }
        };
        if !name.is_empty() {
            self.define_class(&name, class);
        }
    }

    /// Parses a compound after its `{` with all overloads; returns the first.
    pub(super) fn compound(&mut self, name: &str, span: Span) -> ClassId {
        let mut overloads: Vec<ClassId> = Vec::new();
        let mut extended = None;
        self.depth += 1;
        if self.depth > self.limits.depth {
            self.too_large(span, "nested compounds", self.limits.depth);
        }
        loop {
            let token = self.lex();
            if token.kind == Kind::Ellipsis {
                let next = self.lex();
                if overloads.is_empty() || !next.is(b'}') {
                    let problem = "`...` must come last, after one or more compounds".to_owned();
                    self.report(token.span, Problem::Parameters(problem));
                }
                if name.is_empty() {
                    let problem = "cannot extend an anonymous compound".to_owned();
                    self.report(token.span, Problem::Parameters(problem));
                } else {
                    extended = Some(self.class(name));
                }
                if next.is(b'}') {
                    break;
                }
                self.unlex(next);
                if next.kind == Kind::End {
                    break;
                }
                continue;
            }
            self.unlex(token);
            let (class, ended) = self.overload(name, span);
            overloads.push(class);
            if ended == Ended::Closed {
                break;
            }
        }
        self.depth -= 1;
        let Some(&first) = overloads.first() else { return self.class(name) };
        let following = overloads.iter().skip(1).copied().map(Some).chain([extended]);
        for (&class, next) in overloads.iter().zip(following) {
            if let Class::Compound(compound) = &mut self.classes[class] {
                compound.next = next;
            }
        }
        first
    }

    /// Parses one overload, up to `||` or `}`.
    fn overload(&mut self, name: &str, span: Span) -> (ClassId, Ended) {
        self.count(2, span);
        let depth = self.scopes.len();
        let mut scope = Scope::new(name.to_owned(), span, depth);
        scope.add("input".to_owned(), Role::Inner, Rc::default(), false, span);
        scope.add("output".to_owned(), Role::Inner, Rc::default(), false, span);
        scope.offset = 2;
        self.scopes.push(scope);
        let mark = self.shadowed.len();
        self.parameters();
        let ended = self.statements(ListContext::Compound);
        self.forget_classes(mark);
        let compound = self.finish_scope();
        self.classes.push(Class::Compound(Box::new(compound)));
        (self.classes.len() - 1, ended)
    }

    /// `$a, KEYWORD $b |`, or nothing.
    fn parameters(&mut self) {
        loop {
            let first = self.lex();
            let mut keyword = None;
            let mut variable = first;
            if first.kind == Kind::Ident {
                variable = self.lex();
                keyword = Some(self.text(first).to_owned());
            }
            if variable.kind != Kind::Variable {
                if first.is(b'|') {
                    return;
                }
                if !self.scope().compound.formals.is_empty() {
                    self.expected("a variable", variable);
                }
                if keyword.is_some() {
                    self.unlex(variable);
                }
                self.unlex(first);
                return;
            }
            let name = self.text(variable)[1..].to_owned();
            self.parameter(name, keyword, variable.span);
            let separator = self.lex();
            if separator.is(b'|') {
                return;
            }
            if !separator.is(b',') {
                self.expected("`,` or `|`", separator);
                self.unlex(separator);
                return;
            }
        }
    }

    fn parameter(&mut self, name: String, keyword: Option<String>, span: Span) {
        let formals = &self.scope().compound.formals;
        let problem = if formals.len() >= MAX_PARAMETERS {
            Some(format!("more than {MAX_PARAMETERS} parameters"))
        } else if formals.iter().any(|formal| formal.name == name) {
            Some(format!("parameter `${name}` multiply defined"))
        } else if keyword.is_some() && formals.iter().any(|formal| formal.keyword == keyword) {
            Some(format!("repeated keyword parameter `{}`", keyword.as_deref().unwrap_or_default()))
        } else {
            let before = formals.last().and_then(|formal| formal.keyword.as_deref());
            let wrong = before == Some(REST) || (before.is_some() && keyword.is_none());
            wrong.then(|| "parameters out of order: positional ones, then keywords, then __REST__".to_owned())
        };
        match problem {
            Some(problem) => self.report(span, Problem::Parameters(problem)),
            None => self.scope().compound.formals.push(Formal { name, keyword }),
        }
    }

    /// After `define`.
    pub(super) fn define(&mut self) {
        let Some(config) = self.parenthesized() else { return };
        for argument in config_strings::arguments(config.as_str()) {
            let (variable, value) = config_strings::shift_word(&argument.text);
            let span = config.place(argument.range.clone()).0;
            let name = variable.strip_prefix('$').unwrap_or_default();
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                if !argument.text.is_empty() {
                    let problem = format!(
                        "`define` needs a variable, not `{}`",
                        variable.chars().take(40).collect::<String>()
                    );
                    self.report(span, Problem::Parameters(problem));
                }
                continue;
            }
            let scope = self.scope();
            let known = scope.compound.formals.iter().any(|formal| formal.name == name);
            if known || !scope.defined.insert(name.to_owned()) {
                self.report(span, Problem::Parameters(format!("parameter `${name}` multiply defined")));
            } else {
                scope.compound.defines.push((name.to_owned(), value.to_owned()));
            }
        }
    }
}
