//! Parses tokens to scopes: statements, declarations, connections, compounds and groups, in one pass.
//!
//! Follows Click 2.1 with one difference: classes that the text does not define are unknown here, so a name that is
//! neither declared nor a class of the text becomes an anonymous element of that class, and [`check`](crate::check())
//! decides whether such a class exists.

mod chain;
mod compound;
mod element;
mod group;
mod require;

use crate::configuration::Requirement;
use crate::lexer::{Kind, Lexer, Token};
use crate::limits::Limits;
use crate::problem::{Diagnostic, Problem, Problems};
use crate::program::{Class, ClassId, Compound, Element, Program, ProgramConnection, Role};
use crate::source::{LineDirective, Span};
use crate::text::Text;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Name of an anonymous element until its scope ends: `;Class@3`. Identifiers contain no semicolon.
const ANONYMOUS: char = ';';

/// A scope being parsed.
struct Scope {
    compound: Compound,
    /// Elements by name.
    names: HashMap<String, usize>,
    /// Elements that do not count in the numbering of anonymous ones.
    offset: usize,
    /// Variables that `define` has given a value.
    defined: HashSet<String>,
}

/// A definition that hides another; undone at the end of its scope.
struct Shadowed {
    name: String,
    before: Option<ClassId>,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Tokens put back, in reverse order.
    back: Vec<Token>,
    limits: Limits,
    problems: Problems,
    classes: Vec<Class>,
    /// Classes that the text does not define.
    named: HashMap<String, ClassId>,
    /// Classes of the text that are visible here.
    visible: HashMap<String, ClassId>,
    /// Definitions hidden since the file began.
    shadowed: Vec<Shadowed>,
    requirements: Vec<Requirement>,
    /// The enclosing scopes, innermost last.
    scopes: Vec<Scope>,
    /// Nesting depth of compounds and groups.
    depth: usize,
    /// Elements and connections of all scopes so far.
    elements: usize,
    links: usize,
    /// A limit was exceeded: parsing has stopped.
    stopped: bool,
}

/// Parses a text. The result is complete only if `problems` is empty.
pub(crate) fn parse(text: &str, limits: Limits) -> (Program, Vec<LineDirective>, Problems) {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        back: Vec::new(),
        limits,
        problems: Problems::new(limits.errors),
        classes: Vec::new(),
        named: HashMap::new(),
        visible: HashMap::new(),
        shadowed: Vec::new(),
        requirements: Vec::new(),
        scopes: Vec::new(),
        depth: 0,
        elements: 0,
        links: 0,
        stopped: false,
    };
    if text.starts_with("!<arch>") {
        let problem = Problem::Unsupported("!<arch>".into(), "extract the archive's `config` first");
        parser.problems.report(Span::new(0, 7), problem);
        parser.stopped = true;
    }
    parser.scopes.push(Scope::new(String::new(), Span::default(), 0));
    parser.statements(ListContext::File);
    let root = parser.finish_scope();
    let program = Program { classes: parser.classes, root, requirements: parser.requirements };
    (program, parser.lexer.directives, parser.problems)
}

/// The context of a list of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListContext {
    File,
    Compound,
    Group,
}

/// How a list of statements ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// By its bracket, or the end of the text.
    Closed,
    /// By `||`: another overload follows.
    Overload,
}

impl Scope {
    fn new(name: String, span: Span, depth: usize) -> Self {
        let compound = Compound {
            name,
            span,
            depth,
            formals: Vec::new(),
            defines: Vec::new(),
            elements: Vec::new(),
            links: Vec::new(),
            inputs: 0,
            outputs: 0,
            next: None,
        };
        Self { compound, names: HashMap::new(), offset: 0, defined: HashSet::new() }
    }

    /// Adds an element under an unused name.
    fn add(&mut self, name: String, role: Role, config: Rc<Text>, bare: bool, span: Span) -> usize {
        let index = self.compound.elements.len();
        self.names.insert(name.clone(), index);
        let used = [BTreeSet::new(), BTreeSet::new()];
        self.compound.elements.push(Element { name, role, config, bare, span, used });
        index
    }

    fn anonymous(&self, class: &str) -> String {
        format!("{ANONYMOUS}{class}@{}", self.compound.elements.len() - self.offset + 1)
    }

    /// Gives the anonymous elements unused names.
    fn name_anonymous(&mut self) {
        let mut tried: HashMap<String, u64> = HashMap::new();
        for index in 0..self.compound.elements.len() {
            let Some(name) = self.compound.elements[index].name.strip_prefix(ANONYMOUS) else { continue };
            let mut name = name.to_owned();
            if self.names.contains_key(&name) {
                let stem = name.rfind('@').map_or(0, |at| at + 1);
                let digits = name[stem..].bytes().take_while(u8::is_ascii_digit).count();
                let (prefix, number) =
                    (name[..stem].to_owned(), name[stem..stem + digits].parse().unwrap_or(0_u64));
                let mut next: u64 = tried.get(&prefix).copied().unwrap_or(0).max(number);
                while self.names.contains_key(&name) {
                    next += 1;
                    name = format!("{prefix}{next}");
                }
                tried.insert(prefix, next);
            }
            self.names.insert(name.clone(), index);
            self.compound.elements[index].name = name;
        }
    }
}

impl Parser<'_> {
    fn lex(&mut self) -> Token {
        if self.stopped {
            return Token { kind: Kind::End, span: Span::default() };
        }
        self.back.pop().unwrap_or_else(|| self.lexer.next(&mut self.problems))
    }

    fn unlex(&mut self, token: Token) {
        if !self.stopped {
            self.back.push(token);
        }
    }

    fn peek(&mut self) -> Token {
        let token = self.lex();
        self.unlex(token);
        token
    }

    fn text(&self, token: Token) -> &str {
        self.lexer.text(token.span)
    }

    fn shown(&self, token: Token) -> String {
        if token.kind == Kind::End {
            "end of file".into()
        } else {
            self.text(token).chars().take(40).collect()
        }
    }

    fn report(&mut self, span: Span, problem: Problem) {
        self.problems.report(span, problem);
    }

    fn syntax(&mut self, token: Token) {
        let problem = Problem::Syntax(self.shown(token));
        self.report(token.span, problem);
    }

    fn expected(&mut self, wanted: &'static str, token: Token) {
        let found =
            if token.kind == Kind::End { self.shown(token) } else { format!("`{}`", self.shown(token)) };
        self.report(token.span, Problem::Expected { wanted, found });
    }

    fn too_large(&mut self, span: Span, what: &'static str, limit: usize) {
        self.report(span, Problem::TooLarge { what, limit });
        self.stopped = true;
        self.back.clear();
    }

    /// The innermost scope.
    fn scope(&mut self) -> &mut Scope {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// A configuration string after its `(`.
    fn config(&mut self, open: Token) -> Text {
        debug_assert!(self.back.is_empty(), "a configuration string starts where the lexer stands");
        if let Some(config) = self.lexer.config(&mut self.problems) {
            return config;
        }
        self.report(open.span, Problem::Unclosed("configuration string"));
        self.stopped = true;
        Text::default()
    }

    /// The configuration string that must come next, in parentheses; reports an error otherwise.
    fn parenthesized(&mut self) -> Option<Text> {
        let open = self.lex();
        if !open.is(b'(') {
            self.expected("`(`", open);
            self.unlex(open);
            return None;
        }
        Some(self.config(open))
    }

    /// Defines a class until its scope ends.
    fn define_class(&mut self, name: &str, class: ClassId) {
        let before = self.visible.insert(name.to_owned(), class);
        self.shadowed.push(Shadowed { name: name.to_owned(), before });
    }

    /// Undoes the class definitions after the first `mark`.
    fn forget_classes(&mut self, mark: usize) {
        while self.shadowed.len() > mark {
            let Some(Shadowed { name, before }) = self.shadowed.pop() else { break };
            match before {
                Some(class) => self.visible.insert(name, class),
                None => self.visible.remove(&name),
            };
        }
    }

    /// The class of this name: one of the text, or otherwise one that it does not define.
    fn class(&mut self, name: &str) -> ClassId {
        if let Some(&class) = self.visible.get(name).or_else(|| self.named.get(name)) {
            return class;
        }
        self.classes.push(Class::Named(name.to_owned()));
        self.named.insert(name.to_owned(), self.classes.len() - 1);
        self.classes.len() - 1
    }

    fn statements(&mut self, within: ListContext) -> Ended {
        loop {
            let token = self.lex();
            match token.kind {
                Kind::Ident if self.is_refused(token) => {}
                Kind::Ident | Kind::Arrow | Kind::DoubleArrow | Kind::Char(b'[' | b'{' | b'(') => {
                    self.unlex(token);
                    self.chain(within != ListContext::File);
                }
                Kind::ElementClass => self.element_class(),
                Kind::Require => self.require(),
                Kind::Define => self.define(),
                Kind::Char(b';') => {}
                Kind::Char(b'}') if within == ListContext::Compound => return Ended::Closed,
                Kind::DoubleBar if within == ListContext::Compound => return Ended::Overload,
                Kind::Char(b')') if within == ListContext::Group => return Ended::Closed,
                Kind::Char(b'}') | Kind::DoubleBar if within == ListContext::Group => {
                    self.expected("`)`", token);
                    self.unlex(token);
                    return Ended::Closed;
                }
                Kind::End => {
                    if !self.stopped && within != ListContext::File {
                        self.expected(if within == ListContext::Group { "`)`" } else { "`}`" }, token);
                    }
                    return Ended::Closed;
                }
                _ => self.syntax(token),
            }
        }
    }

    /// Refuses statements of other languages and of older Click by name, and skips their line.
    fn is_refused(&mut self, token: Token) -> bool {
        let why = match self.text(token) {
            "connectiontunnel" => "connect the elements themselves, or use a compound",
            "import" | "include" => "write one file, or preprocess it",
            _ => return false,
        };
        let tunnel = self.text(token) == "connectiontunnel";
        let next = self.peek();
        if !(tunnel || next.kind == Kind::Ident || next.is(b'"') || next.is(b'<')) {
            return false;
        }
        let problem = Problem::Unsupported(self.text(token).to_owned(), why);
        self.report(token.span, problem);
        loop {
            let token = self.lex();
            if token.kind == Kind::End || token.is(b';') {
                return true;
            }
            if token.is(b'}') || token.is(b')') {
                self.unlex(token);
                return true;
            }
        }
    }

    /// Connects two ports of the innermost scope.
    fn connect(&mut self, from: (usize, u32), to: (usize, u32), span: Span) {
        self.links += 1;
        if self.links > self.limits.connections {
            return self.too_large(span, "connections", self.limits.connections);
        }
        let scope = self.scope();
        let elements = &mut scope.compound.elements;
        elements[from.0].used[1].insert(from.1);
        elements[to.0].used[0].insert(to.1);
        scope.compound.links.push(ProgramConnection { from, to, span });
    }

    /// Counts elements to be added; false if they are too many.
    fn count(&mut self, elements: usize, span: Span) -> bool {
        self.elements += elements;
        let is_within = self.elements <= self.limits.elements;
        if !is_within && !self.stopped {
            self.too_large(span, "elements", self.limits.elements);
        }
        is_within
    }

    /// Reports misuse of an `input` or `output`, and returns its number of ports.
    fn check_pseudo(&mut self, element: usize, side: usize, owner: &str, span: Span) -> u32 {
        let name = ["input", "output"][side];
        let used = self.scope().compound.elements[element].used.clone();
        if !used[side].is_empty() {
            let problem =
                format!("`{owner}` pseudoelement `{name}` may only be used as {}", ["output", "input"][side]);
            self.report(span, Problem::Pseudo(problem));
        }
        let ports = &used[1 - side];
        let count = ports.last().map_or(0, |last| last + 1);
        if let Some(missing) = (0..count).find(|port| !ports.contains(port)) {
            self.report(span, Problem::Pseudo(format!("`{owner}` {name} {missing} missing")));
        }
        count
    }

    /// Removes and completes the innermost scope.
    fn finish_scope(&mut self) -> Compound {
        self.scope().name_anonymous();
        if self.scope().compound.depth > 0 {
            let (owner, span) = (owner(&self.scope().compound.name), self.scope().compound.span);
            let inputs = self.check_pseudo(0, 0, &owner, span);
            let outputs = self.check_pseudo(1, 1, &owner, span);
            let compound = &mut self.scope().compound;
            (compound.inputs, compound.outputs) = (inputs, outputs);
        }
        let Some(scope) = self.scopes.pop() else { unreachable!("a scope that ends has begun") };
        scope.compound
    }

    fn redeclared(&mut self, name: &str, span: Span, earlier: Span) {
        let diagnostic = Diagnostic::new(span, Problem::Redeclared(name.to_owned()));
        self.problems.push(diagnostic.noted(earlier, "previously declared here"));
    }
}

/// A compound's name for display.
pub(crate) fn owner(name: &str) -> String {
    if name.is_empty() { "<anonymous>".to_owned() } else { name.to_owned() }
}
