//! Parses expressions.

use super::ast::Expression;
use super::lexer::{Word, words};
use super::primitive::Qualifiers;
use super::{FilterError, Problem};

/// Maximum nesting depth of filters: parentheses, `not` and `? :`.
pub const DEPTH: usize = 64;

/// The parser's position in the words.
pub(super) struct Parser<'a> {
    words: Vec<Word<'a>>,
    next: usize,
    end: usize,
    /// The qualifiers for a value that has none.
    pub(super) before: Qualifiers,
}

pub(super) type Parsed<T> = Result<T, FilterError>;

impl Expression {
    /// Parses a filter. The texts `-`, `any` and `all` match every packet.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let words = words(text);
        if let [word] = &words[..]
            && matches!(word.text, "-" | "any" | "all")
        {
            return Ok(Self::Constant(true));
        }
        let mut parser = Parser { words, next: 0, end: text.len(), before: Qualifiers::default() };
        let expression = parser.expression(0)?;
        match parser.peek() {
            None => Ok(expression),
            Some(word) => Err(unexpected(word)),
        }
    }
}

/// An error about a misplaced word.
pub(super) fn unexpected(word: Word<'_>) -> FilterError {
    FilterError { at: word.at, problem: Problem::Unexpected(word.text.to_owned()) }
}

impl<'a> Parser<'a> {
    /// The next word, not consumed.
    pub(super) fn peek(&self) -> Option<Word<'a>> {
        self.peek_at(0)
    }

    /// A later word, not consumed.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<Word<'a>> {
        self.words.get(self.next + ahead).copied()
    }

    /// Whether the next word is one of these.
    pub(super) fn is_at(&self, texts: &[&str]) -> bool {
        self.peek().is_some_and(|word| texts.contains(&word.text))
    }

    /// Skips words.
    pub(super) fn skip(&mut self, words: usize) {
        self.next += words;
    }

    /// Consumes the next word if it is one of these.
    pub(super) fn takes(&mut self, texts: &[&str]) -> bool {
        let is_at = self.is_at(texts);
        self.next += usize::from(is_at);
        is_at
    }

    /// An error at the next word.
    pub(super) fn error(&self, problem: Problem) -> FilterError {
        FilterError { at: self.peek().map_or(self.end, |word| word.at), problem }
    }

    pub(super) fn expect(&mut self, text: &'static str) -> Parsed<()> {
        if self.takes(&[text]) { Ok(()) } else { Err(self.error(Problem::Expected(text))) }
    }

    fn deeper(&self, depth: usize) -> Parsed<usize> {
        if depth < DEPTH { Ok(depth + 1) } else { Err(self.error(Problem::TooDeep)) }
    }

    fn expression(&mut self, depth: usize) -> Parsed<Expression> {
        let condition = self.any(depth)?;
        if !self.takes(&["?"]) {
            return Ok(condition);
        }
        let depth = self.deeper(depth)?;
        let yes = self.expression(depth)?;
        self.expect(":")?;
        let no = self.expression(depth)?;
        Ok(Expression::If(Box::new([condition, yes, no])))
    }

    fn any(&mut self, depth: usize) -> Parsed<Expression> {
        let mut any = vec![self.all(depth)?];
        while self.takes(&["or", "||"]) {
            any.push(self.all(depth)?);
        }
        Ok(one_of(any, Expression::Any))
    }

    fn all(&mut self, depth: usize) -> Parsed<Expression> {
        let mut all = vec![self.factor(depth)?];
        loop {
            let is_joined = self.takes(&["and", "&&"]);
            let ends = self.peek().is_none() || self.is_at(&[")", "or", "||", "?", ":"]);
            if !is_joined && ends {
                return Ok(one_of(all, Expression::All));
            }
            all.push(self.factor(depth)?);
        }
    }

    fn factor(&mut self, depth: usize) -> Parsed<Expression> {
        if self.peek().is_none() || self.is_at(&[")", "or", "||", "?", ":"]) {
            return Err(self.error(Problem::Missing));
        }
        if self.takes(&["true"]) {
            return Ok(Expression::Constant(true));
        }
        if self.takes(&["false"]) {
            return Ok(Expression::Constant(false));
        }
        if self.takes(&["not", "!"]) {
            let depth = self.deeper(depth)?;
            return Ok(Expression::Not(Box::new(self.factor(depth)?)));
        }
        if self.is_at(&["("]) {
            let depth = self.deeper(depth)?;
            self.skip(1);
            let inner = self.expression(depth)?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.primitive()
    }
}

fn one_of(mut some: Vec<Expression>, many: fn(Vec<Expression>) -> Expression) -> Expression {
    match some.pop() {
        Some(one) if some.is_empty() => one,
        last => {
            some.extend(last);
            many(some)
        }
    }
}
