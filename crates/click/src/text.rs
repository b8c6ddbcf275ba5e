//! A configuration string that records where each part was written.

use crate::source::Span;
use std::ops::Range;

/// From byte `at` of a [`Text`] on, its contents come from `span`: byte for byte, or as a whole.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    span: Span,
    exact: bool,
}

impl Piece {
    /// The position of a range of the text that starts in this piece.
    fn place(self, range: Range<usize>) -> Span {
        if self.exact {
            let start = self.span.start as usize + range.start - self.at;
            Span::new(start, start + range.len())
        } else {
            self.span
        }
    }
}

/// A text composed of parts of the source and substitutions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    text: String,
    pieces: Vec<Piece>,
}

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Appends source text that starts at byte `start`.
    pub(crate) fn push_source(&mut self, text: &str, start: usize) {
        self.pieces.push(Piece {
            at: self.text.len(),
            span: Span::new(start, start + text.len()),
            exact: true,
        });
        self.text.push_str(text);
    }

    /// Appends a replacement of the text at `span`.
    pub(crate) fn push_other(&mut self, text: &str, span: Span) {
        self.pieces.push(Piece { at: self.text.len(), span, exact: false });
        self.text.push_str(text);
    }

    /// Appends a part of another text.
    pub(crate) fn push_part(&mut self, other: &Self, range: Range<usize>) {
        let first = other.pieces.partition_point(|piece| piece.at <= range.start).saturating_sub(1);
        for (index, piece) in other.pieces.iter().enumerate().skip(first) {
            let start = piece.at.max(range.start);
            let end = other.pieces.get(index + 1).map_or(other.text.len(), |next| next.at).min(range.end);
            if piece.at >= range.end {
                break;
            }
            if start < end {
                let span = piece.place(start..end);
                self.pieces.push(Piece { at: self.text.len(), span, exact: piece.exact });
                self.text.push_str(&other.text[start..end]);
            }
        }
    }

    /// The position of a range, and whether it is byte for byte.
    pub(crate) fn place(&self, range: Range<usize>) -> (Span, bool) {
        let of = |at: usize| {
            let index = self.pieces.partition_point(|piece| piece.at <= at).saturating_sub(1);
            self.pieces.get(index).copied().map(|piece| (index, piece))
        };
        let (Some((first, from)), Some((last, to))) =
            (of(range.start), of(range.end.saturating_sub(1).max(range.start)))
        else {
            return (Span::default(), false);
        };
        let start = from.place(range.start..range.end);
        let end = to.place(range.end..range.end);
        let joined = Span { start: start.start.min(end.start), end: start.start.max(end.end) };
        if first == last { (start, from.exact) } else { (joined, false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_places() {
        let mut text = Text::default();
        text.push_source("abc", 10);
        text.push_other("LONGER", Span::new(13, 15));
        text.push_source("de", 15);
        assert_eq!(text.as_str(), "abcLONGERde");
        assert_eq!(text.place(1..3), (Span::new(11, 13), true));
        assert_eq!(text.place(4..6), (Span::new(13, 15), false));
        assert_eq!(text.place(10..11), (Span::new(16, 17), true));
        assert_eq!(text.place(2..10), (Span::new(12, 16), false));

        let mut part = Text::default();
        part.push_part(&text, 2..10);
        assert_eq!(part.as_str(), "cLONGERd");
        assert_eq!(part.place(0..1), (Span::new(12, 13), true));
        assert_eq!(part.place(7..8), (Span::new(15, 16), true));
        assert_eq!(part.place(1..2).0, Span::new(13, 15));
        assert_eq!(Text::default().place(0..0), (Span::default(), false));
    }
}
