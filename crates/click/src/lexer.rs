//! Splits characters into tokens. Configuration strings have their own rules, so the parser requests them.

use crate::config_strings;
use crate::problem::{Problem, Problems};
use crate::source::{LineDirective, Span};
use crate::text::Text;

/// The kind of a token. Its text is its span of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    End,
    Ident,
    Variable,
    /// `->`
    Arrow,
    /// `=>`
    DoubleArrow,
    /// `::`
    DoubleColon,
    /// `||`
    DoubleBar,
    /// `...`
    Ellipsis,
    ElementClass,
    Require,
    Provide,
    Define,
    /// Any other character, its first byte.
    Char(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

impl Token {
    pub(crate) fn is(self, byte: u8) -> bool {
        self.kind == Kind::Char(byte)
    }
}

/// Reads tokens in order, each byte once.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    pub(crate) directives: Vec<LineDirective>,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@'
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, directives: Vec::new() }
    }

    pub(crate) fn text(&self, span: Span) -> &'a str {
        &self.text[span.start as usize..span.end as usize]
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Whether the byte at `at` is the first of its line.
    fn starts_line(&self, at: usize) -> bool {
        at == 0 || matches!(self.bytes[at - 1], b'\n' | b'\r')
    }

    pub(crate) fn next(&mut self, problems: &mut Problems) -> Token {
        self.skip_blank(problems);
        let start = self.at;
        let kind = self.token();
        Token { kind, span: Span::new(start, self.at) }
    }

    fn skip_blank(&mut self, problems: &mut Problems) {
        while let Some(byte) = self.peek(0) {
            if config_strings::is_space(byte) {
                self.at += 1;
            } else if let Some(end) = config_strings::skip_comment(self.bytes, self.at) {
                self.comment(end, problems);
            } else if byte == b'#' && self.starts_line(self.at) {
                self.directive(problems);
            } else {
                break;
            }
        }
    }

    /// Skips a comment that ends at `end`.
    fn comment(&mut self, end: usize, problems: &mut Problems) {
        let comment = &self.bytes[self.at..end];
        if comment.starts_with(b"/*") && (comment.len() < 4 || !comment.ends_with(b"*/")) {
            problems.report(Span::new(self.at, self.at + 2), Problem::Unclosed("comment"));
        }
        self.at = end;
    }

    fn token(&mut self) -> Kind {
        let start = self.at;
        let Some(byte) = self.peek(0) else { return Kind::End };
        if is_word(byte) {
            while self.peek(0).is_some_and(is_word)
                || (self.peek(0) == Some(b'/') && self.peek(1).is_some_and(is_word))
            {
                self.at += 1;
            }
            return match &self.bytes[start..self.at] {
                b"elementclass" => Kind::ElementClass,
                b"require" => Kind::Require,
                b"provide" => Kind::Provide,
                b"define" => Kind::Define,
                _ => Kind::Ident,
            };
        }
        if byte == b'$' {
            let name = self.bytes[start + 1..]
                .iter()
                .take_while(|&&b| b.is_ascii_alphanumeric() || b == b'_')
                .count();
            if name > 0 {
                self.at += 1 + name;
                return Kind::Variable;
            }
        }
        let (kind, length) = match &self.bytes[start..] {
            [b'-', b'>', ..] => (Kind::Arrow, 2),
            [b'=', b'>', ..] => (Kind::DoubleArrow, 2),
            [b':', b':', ..] => (Kind::DoubleColon, 2),
            [b'|', b'|', ..] => (Kind::DoubleBar, 2),
            [b'.', b'.', b'.', ..] => (Kind::Ellipsis, 3),
            _ => (Kind::Char(byte), self.text[start..].chars().next().map_or(1, char::len_utf8)),
        };
        self.at += length;
        kind
    }

    /// A configuration string: the text between a `(` and its `)`, which is consumed. Line directives in it are
    /// removed, as in Click. `None` without a `)`.
    pub(crate) fn config(&mut self, problems: &mut Problems) -> Option<Text> {
        let mut config = Text::default();
        let mut depth = 1_usize;
        let mut part = self.at;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        config.push_source(&self.text[part..self.at], part);
                        self.at += 1;
                        return Some(config);
                    }
                }
                b'#' if self.starts_line(self.at) => {
                    config.push_source(&self.text[part..self.at], part);
                    self.directive(problems);
                    part = self.at;
                    continue;
                }
                b'"' | b'\'' => {
                    self.at = config_strings::skip_quoted(self.bytes, self.at);
                    continue;
                }
                b'\\' if self.peek(1) == Some(b'<') => {
                    self.at = config_strings::skip_data(self.bytes, self.at);
                    continue;
                }
                b'/' => {
                    if let Some(end) = config_strings::skip_comment(self.bytes, self.at) {
                        self.comment(end, problems);
                        continue;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        None
    }

    /// A line that starts with `#`: `# 12 "file"` or `#line 12 "file"`.
    fn directive(&mut self, problems: &mut Problems) {
        let start = self.at;
        let end = self.bytes[start..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let end = end.map_or(self.bytes.len(), |end| start + end);
        self.at = end;
        match parse_directive(&self.text[start + 1..end]) {
            Some((next_line, file)) => self.directives.push(LineDirective { at: start, next_line, file }),
            None => problems.report(Span::new(start, end), Problem::Directive),
        }
    }
}

fn parse_directive(line: &str) -> Option<(u32, Option<String>)> {
    let blank = [' ', '\t'];
    let line = line.trim_start_matches(blank);
    let line = line.strip_prefix("line").filter(|rest| rest.starts_with(blank)).unwrap_or(line);
    let line = line.trim_start_matches(blank);
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let number = line[..digits].parse().ok()?;
    let rest = line[digits..].trim_start_matches(blank);
    let file = rest.starts_with('"').then(|| {
        let quoted = &rest[..config_strings::skip_quoted(rest.as_bytes(), 0)];
        String::from_utf8_lossy(&config_strings::unquote(quoted)).into_owned()
    });
    Some((number, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> (Vec<(Kind, &str)>, usize) {
        let mut problems = Problems::new(10);
        let mut lexer = Lexer::new(text);
        let mut all = Vec::new();
        loop {
            let token = lexer.next(&mut problems);
            if token.kind == Kind::End {
                return (all, usize::from(!problems.is_empty()));
            }
            all.push((token.kind, lexer.text(token.span)));
        }
    }

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).0.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn tokens_are_those_of_click() {
        assert_eq!(texts("a->b=>[0]c :: D"), ["a", "->", "b", "=>", "[", "0", "]", "c", "::", "D"]);
        assert_eq!(texts("{$a,$b_1||...}|;"), ["{", "$a", ",", "$b_1", "||", "...", "}", "|", ";"]);
        assert_eq!(texts("a/b/c//too/many\nd /* e */ @f"), ["a/b/c", "d", "@f"]);
        assert_eq!(texts("a/ b /c"), ["a", "/", "b", "/", "c"]);
        assert_eq!(texts("$ -é"), ["$", "-", "é"]);
        let (kinds, _) = tokens("elementclass require provide define elementclasses");
        let kinds: Vec<Kind> = kinds.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [Kind::ElementClass, Kind::Require, Kind::Provide, Kind::Define, Kind::Ident]);
    }

    #[test]
    fn an_open_comment_and_a_strange_directive_are_reported() {
        assert_eq!(tokens("a /* b"), (vec![(Kind::Ident, "a")], 1));
        assert_eq!(tokens("a /*/"), (vec![(Kind::Ident, "a")], 1));
        assert_eq!(tokens("#include <x>\na"), (vec![(Kind::Ident, "a")], 1));
        assert_eq!(tokens("# 5 \"x\"\na /**/"), (vec![(Kind::Ident, "a")], 0));
        assert_eq!(tokens("a #5").0.len(), 3);
    }

    #[test]
    fn configuration_strings_end_at_their_parenthesis() {
        for config in [
            "simple string",
            "string with (balanced parens)",
            "string with \")quoted\" ')' paren",
            "// end-of-line ) comment\n still going!",
            "/* slash-star comment) */ and backslash \\",
            "\\<28 /* > */ ) >",
            "\"\\\")\"",
        ] {
            let text = format!("({config}) rest");
            let mut problems = Problems::new(1);
            let mut lexer = Lexer::new(&text);
            assert!(lexer.next(&mut problems).is(b'('));
            assert_eq!(lexer.config(&mut problems).unwrap().as_str(), config);
            assert_eq!(lexer.next(&mut problems).kind, Kind::Ident);
        }
        assert!(Lexer::new("a(b)").config(&mut Problems::new(1)).is_none());
        assert!(Lexer::new("'a)").config(&mut Problems::new(1)).is_none());
    }

    #[test]
    fn a_directive_in_a_configuration_string_is_taken_out() {
        let mut lexer = Lexer::new("a,\n# 7 \"x\"\nb)");
        let config = lexer.config(&mut Problems::new(1)).unwrap();
        assert_eq!(config.as_str(), "a,\n\nb");
        assert_eq!(config.place(4..5), (Span::new(11, 12), true));
        assert_eq!((lexer.directives[0].next_line, lexer.directives[0].file.as_deref()), (7, Some("x")));
    }
}
