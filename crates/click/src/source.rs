//! The text of a configuration, and positions in it.

/// A range of bytes of the source, end exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes from `start` to `end`; sources are far shorter than 4 GiB ([`Limits::text_bytes`](crate::Limits)).
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// From the start of this span to the end of `other`.
    pub(crate) fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.start) }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether it holds no byte.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The position of a byte for display. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, as the caller or the last `#line` names it.
    pub file: String,
    /// The line, as the last `#line` counts.
    pub line: u32,
    /// The column in the physical line.
    pub column: u32,
}

/// A `# 12 "file"` directive: it sets the number of the next physical line, and the file name from there on.
#[derive(Clone, Debug)]
pub(crate) struct LineDirective {
    /// Offset of the line's first byte.
    pub(crate) at: usize,
    pub(crate) next_line: u32,
    pub(crate) file: Option<String>,
}

/// A named source text. Positions are found in O(log lines).
#[derive(Clone, Debug, Default)]
pub struct Source {
    file: String,
    text: String,
    /// Offsets of the physical lines.
    lines: Vec<u32>,
    /// In text order, each with the index of its physical line.
    directives: Vec<(usize, LineDirective)>,
}

impl Source {
    pub(crate) fn new(file: &str, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut lines = vec![0];
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' || (byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                lines.push(at as u32 + 1);
            }
        }
        Self { file: file.to_owned(), text: text.to_owned(), lines, directives: Vec::new() }
    }

    pub(crate) fn set_directives(&mut self, directives: Vec<LineDirective>) {
        self.directives =
            directives.into_iter().map(|directive| (self.physical(directive.at), directive)).collect();
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The file name as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Index of the physical line that contains `offset`.
    fn physical(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start as usize <= offset).saturating_sub(1)
    }

    /// The physical line's text without its end.
    fn line_text(&self, line: usize) -> &str {
        let start = self.lines.get(line).map_or(self.text.len(), |&start| start as usize);
        let end = self.lines.get(line + 1).map_or(self.text.len(), |&start| start as usize);
        self.text.get(start..end).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }

    /// The position of a byte; offsets beyond the end give the end.
    pub fn place(&self, offset: u32) -> SourceLocation {
        let offset = offset as usize;
        let line = self.physical(offset);
        let column = self.column(line, offset);
        let known = self.directives.partition_point(|(at, _)| *at < line);
        let ruling = known.checked_sub(1).and_then(|last| self.directives.get(last));
        let number = match ruling {
            Some((at, directive)) => directive.next_line.saturating_add((line - at - 1) as u32),
            None => line as u32 + 1,
        };
        let named =
            self.directives[..known].iter().rev().find_map(|(_, directive)| directive.file.as_deref());
        let file = named.filter(|file| !file.is_empty()).unwrap_or(&self.file);
        SourceLocation { file: file.to_owned(), line: number, column }
    }

    fn column(&self, line: usize, offset: usize) -> u32 {
        let text = self.line_text(line);
        let within = offset.saturating_sub(self.lines.get(line).map_or(0, |&start| start as usize));
        1 + text.char_indices().take_while(|(at, _)| *at < within).count() as u32
    }

    /// The span's first line, and carets under the span; at most [`EXCERPT_WIDTH`] characters wide.
    pub(crate) fn excerpt(&self, span: Span) -> (String, String) {
        let line = self.physical(span.start as usize);
        let text = self.line_text(line);
        let first = self.column(line, span.start as usize) as usize - 1;
        let last = (self.column(line, span.end as usize) as usize - 1).max(first + 1);
        let from = first.saturating_sub(EXCERPT_WIDTH / 2);
        let shown: String = text.chars().skip(from).take(EXCERPT_WIDTH).map(plain).collect();
        let mut carets: String =
            text.chars().skip(from).take(first - from).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let room = shown.chars().count().saturating_sub(first - from).max(1);
        carets.push('^');
        carets.extend(std::iter::repeat_n('~', (last - first).min(room) - 1));
        (shown, carets)
    }
}

/// Replaces characters that a terminal would interpret.
fn plain(c: char) -> char {
    if c.is_control() && c != '\t' { '\u{fffd}' } else { c }
}

/// Characters of a source line shown in an error.
pub(crate) const EXCERPT_WIDTH: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_three_systems_end_them() {
        let source = Source::new("f", "a\nb\r\nc\rd");
        let lines: Vec<u32> = [0, 2, 5, 7].map(|at| source.place(at).line).to_vec();
        assert_eq!(lines, [1, 2, 3, 4]);
        assert_eq!(source.place(7), SourceLocation { file: "f".into(), line: 4, column: 1 });
        assert_eq!(source.place(99).line, 4);
    }

    #[test]
    fn columns_count_characters_and_carets_keep_tabs() {
        let source = Source::new("f", "\té :: Foo\nx");
        assert_eq!(source.place(3).column, 3);
        let (line, carets) = source.excerpt(Span { start: 7, end: 10 });
        assert_eq!((line.as_str(), carets.as_str()), ("\té :: Foo", "\t     ^~~"));
    }

    #[test]
    fn a_directive_renames_what_follows() {
        let mut source = Source::new("f", "a\n#line 7 \"g\"\nb\n# 3\nc\n# 1 \"\"\nd");
        let directive = |at, next_line, file: Option<&str>| LineDirective {
            at,
            next_line,
            file: file.map(str::to_owned),
        };
        source.set_directives(vec![
            directive(2, 7, Some("g")),
            directive(16, 3, None),
            directive(22, 1, Some("")),
        ]);
        let place = |at| {
            let place = source.place(at);
            (place.file, place.line)
        };
        assert_eq!(place(0), ("f".into(), 1));
        assert_eq!(place(14), ("g".into(), 7));
        assert_eq!(place(20), ("g".into(), 3));
        assert_eq!(place(29), ("f".into(), 1));
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let text = format!("{}X{}", "a".repeat(5000), "b".repeat(5000));
        let (line, carets) = Source::new("f", &text).excerpt(Span { start: 5000, end: 9000 });
        assert_eq!(line.chars().count(), EXCERPT_WIDTH);
        assert_eq!(carets.find('^'), line.find('X'));
        assert_eq!(carets.len(), EXCERPT_WIDTH);
    }
}
