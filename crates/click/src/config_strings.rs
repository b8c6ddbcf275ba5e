//! How Click splits, quotes and unquotes configuration strings.
//!
//! Separators are ASCII, so every split is at a character boundary. All functions are linear in their text.

use std::ops::Range;

/// The characters of C's `isspace`.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// The end of a comment that starts at `at`, or `None` if none starts there. A line's end belongs to its comment.
pub(crate) fn skip_comment(bytes: &[u8], at: usize) -> Option<usize> {
    match (bytes.get(at)?, bytes.get(at + 1)?) {
        (b'/', b'/') => {
            let end = bytes[at..].iter().position(|&byte| byte == b'\n' || byte == b'\r');
            let Some(end) = end.map(|end| at + end) else { return Some(bytes.len()) };
            Some(if bytes[end] == b'\r' && bytes.get(end + 1) == Some(&b'\n') { end + 2 } else { end + 1 })
        }
        (b'/', b'*') => {
            let body = &bytes[at + 2..];
            Some(body.windows(2).position(|pair| pair == b"*/").map_or(bytes.len(), |end| at + 2 + end + 2))
        }
        _ => None,
    }
}

/// The end of what `\` at `at` escapes: a data string, a line end or one character.
fn skip_backslash(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        None => at + 1,
        Some(b'<') => skip_data(bytes, at),
        Some(b'\r') if bytes.get(at + 2) == Some(&b'\n') => at + 3,
        Some(_) => at + 2,
    }
}

/// The end of the `\<…>` at `at`; without a `>`, the end of the text.
pub(crate) fn skip_data(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 2;
    while at < bytes.len() {
        if bytes[at] == b'>' {
            return at + 1;
        }
        at = skip_comment(bytes, at).unwrap_or(at + 1);
    }
    bytes.len()
}

/// The end of the quoted string that starts at `at`; without its closing quote, the end of the text.
pub(crate) fn skip_quoted(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let mut at = at + 1;
    while at < bytes.len() {
        if bytes[at] == quote {
            return at + 1;
        }
        at = if bytes[at] == b'\\' && quote == b'"' { skip_backslash(bytes, at) } else { at + 1 };
    }
    bytes.len()
}

/// The end of one item of an argument: a character, a quoted string or a data string.
fn skip_item(bytes: &[u8], at: usize) -> usize {
    match bytes[at] {
        b'"' | b'\'' => skip_quoted(bytes, at),
        b'\\' if bytes.get(at + 1) == Some(&b'<') => skip_data(bytes, at),
        _ => at + 1,
    }
    .min(bytes.len())
}

fn skip_space_and_comments(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        if is_space(bytes[at]) {
            at += 1;
        } else if let Some(end) = skip_comment(bytes, at) {
            at = end;
        } else {
            break;
        }
    }
    at
}

/// An argument: its text without comments and outer space, and its range in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentText {
    pub(crate) text: String,
    pub(crate) range: Range<usize>,
}

/// The argument that starts at `at`, up to a comma if one ends it, and its end.
fn cut(text: &str, at: usize, at_comma: bool) -> (ArgumentText, usize) {
    let bytes = text.as_bytes();
    let mut at = skip_space_and_comments(bytes, at);
    let start = at;
    let (mut left, mut right) = (at, at);
    let mut commented = false;
    let mut out = String::new();
    while at < bytes.len() {
        if is_space(bytes[at]) {
            at += 1;
        } else if let Some(end) = skip_comment(bytes, at) {
            at = end;
            commented = true;
        } else if bytes[at] == b',' && at_comma {
            break;
        } else {
            if commented {
                out.push_str(&text[left..right]);
                out.push(' ');
                left = at;
                commented = false;
            }
            at = skip_item(bytes, at);
            right = at;
        }
    }
    out.push_str(&text[left..right]);
    (ArgumentText { text: out, range: start..right }, at)
}

/// Splits a configuration string at its commas. An empty last argument does not count: `(1, )` has one.
pub(crate) fn arguments(text: &str) -> Vec<ArgumentText> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (argument, end) = cut(text, at, true);
        if !argument.text.is_empty() || end < text.len() {
            all.push(argument);
        }
        at = end + 1;
    }
    all
}

/// Joins arguments such that [`arguments`] splits them again.
pub(crate) fn join<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    let mut last_is_empty = false;
    for (index, argument) in arguments.into_iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(argument);
        last_is_empty = argument.is_empty();
    }
    if last_is_empty {
        out.push(',');
    }
    out
}

/// The words of an argument, as written. A comment separates words like space.
pub fn words(text: &str) -> impl Iterator<Item = Range<usize>> + use<'_> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = skip_space_and_comments(bytes, at);
        at = start;
        while at < bytes.len() && !is_space(bytes[at]) && skip_comment(bytes, at).is_none() {
            at = skip_item(bytes, at);
        }
        (start < at).then_some(start..at)
    })
}

/// Splits off the first word; returns it and the rest without leading space.
pub(crate) fn shift_word(text: &str) -> (&str, &str) {
    let Some(first) = words(text).next() else { return ("", "") };
    let rest = skip_space_and_comments(text.as_bytes(), first.end);
    (&text[first], &text[rest..])
}

/// Removes one level of quoting: `"…"` and `'…'` become their contents, escapes in double quotes their values, and
/// `\<48 69>` its bytes. Comments outside quotes become a space.
pub fn unquote(text: &str) -> Vec<u8> {
    let (text, _) = cut(text, 0, false);
    let bytes = text.text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut quote = 0;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'"' | b'\'' if quote == 0 || quote == byte => {
                quote = if quote == 0 { byte } else { 0 };
                at += 1;
            }
            b'\\' if at + 1 < bytes.len() && (quote == b'"' || (quote == 0 && bytes[at + 1] == b'<')) => {
                at = unescape(bytes, at, &mut out);
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Appends the value of the escape at `at`, and returns the escape's end. A character must follow the backslash.
fn unescape(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let simple = match bytes[at + 1] {
        b'\r' => return if bytes.get(at + 2) == Some(&b'\n') { at + 3 } else { at + 2 },
        b'\n' => return at + 2,
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'0'..=b'7' => {
            let digits =
                bytes[at + 1..].iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            let value = bytes[at + 1..at + 1 + digits]
                .iter()
                .fold(0_u32, |value, &digit| value * 8 + u32::from(digit - b'0'));
            out.push(value as u8);
            return at + 1 + digits;
        }
        b'x' => {
            let mut value = 0_u8;
            let mut end = at + 2;
            while let Some(digit) = bytes.get(end).copied().and_then(hex) {
                value = value.wrapping_mul(16).wrapping_add(digit);
                end += 1;
            }
            out.push(value);
            return end;
        }
        b'<' => {
            let end = skip_data(bytes, at);
            let mut place = at + 2;
            let mut high = None;
            while place < end {
                if let Some(after) = skip_comment(&bytes[..end], place) {
                    place = after;
                    continue;
                }
                match (hex(bytes[place]), high.take()) {
                    (Some(low), Some(high)) => out.push(high * 16 + low),
                    (Some(digit), None) => high = Some(digit),
                    (None, kept) => high = kept,
                }
                place += 1;
            }
            return end;
        }
        other => other,
    };
    out.push(simple);
    at + 2
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Quotes `text` such that [`unquote`] restores it.
pub fn quote(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for &byte in text {
        match byte {
            b'\\' | b'"' | b'$' => out.extend(['\\', char::from(byte)]),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            32..=126 => out.push(char::from(byte)),
            _ => out.extend([
                '\\',
                char::from(b'0' + (byte >> 6)),
                char::from(b'0' + (byte >> 3 & 7)),
                char::from(b'0' + (byte & 7)),
            ]),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(text: &str) -> Vec<String> {
        arguments(text).into_iter().map(|cut| cut.text).collect()
    }

    #[test]
    fn arguments_are_split_as_click_documents() {
        assert_eq!(split("a, b, c"), ["a", "b", "c"]);
        assert_eq!(split("  a /*?*/ b,  c, "), ["a b", "c"]);
        assert_eq!(split("\"x, y\" // ?"), ["\"x, y\""]);
        assert_eq!(split("1, /* comment */"), ["1"]);
        assert_eq!(split(", 'a, b' , \"c\\\", d\", e"), ["", "'a, b'", "\"c\\\", d\"", "e"]);
        assert_eq!(split("\\<01, /* , > */ 02>, 3"), ["\\<01, /* , > */ 02>", "3"]);
        assert_eq!(split(""), Vec::<String>::new());
        assert_eq!(split("   "), Vec::<String>::new());
        assert_eq!(split(","), [""]);
        assert_eq!(split("a   b // x\n c"), ["a   b c"]);
        assert_eq!(split("'open"), ["'open"]);
    }

    #[test]
    fn an_argument_knows_its_range() {
        let text = " a b , /* no */ c ";
        let ranges: Vec<&str> = arguments(text).into_iter().map(|cut| &text[cut.range]).collect();
        assert_eq!(ranges, ["a b", "c"]);
    }

    #[test]
    fn words_keep_quotes_together() {
        let text = "a  'b /*?*/ c' \"d e\"f/**/g \\<01 02>h";
        let all: Vec<&str> = words(text).map(|range| &text[range]).collect();
        assert_eq!(all, ["a", "'b /*?*/ c'", "\"d e\"f", "g", "\\<01 02>h"]);
        assert_eq!(shift_word("  NAME /* x */ value more"), ("NAME", "value more"));
        assert_eq!(shift_word("  "), ("", ""));
    }

    #[test]
    fn quotes_come_off_as_click_documents() {
        let text = |quoted| String::from_utf8(unquote(quoted)).unwrap();
        assert_eq!(text("\"\\n\" abc /* 123 */ '/* def */'"), "\n abc /* def */");
        assert_eq!(text("a\"b\"c"), "abc");
        assert_eq!(text("\\<48656c6C 6f 2 /* And 99 */ 1>"), "Hello!");
        assert_eq!(text("'\\<48>'"), "\\<48>");
        assert_eq!(text("\"\\101\\x142\\a\\\\\\q\\\ne\""), "AB\u{7}\\qe");
        assert_eq!(text("'$a' \\n"), "$a \\n");
        assert_eq!(unquote("\\<ff 0>"), [0xff]);
        assert_eq!(text("\"open\\"), "open\\");
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_unquoted(bytes: Vec<u8>) {
            let quoted = quote(&bytes);
            prop_assert_eq!(unquote(&quoted), bytes);
            prop_assert_eq!(split(&quoted), [quoted]);
        }

        /// Splitting joined arguments restores them, if each part is a single argument.
        #[test]
        fn what_is_joined_is_split(parts in proptest::collection::vec("[a-z'\"\\\\<>, /*()$é\n]{0,8}", 0..6)) {
            let parts: Vec<String> = parts.into_iter().filter(|part| part.is_empty() || split(&format!("{part},")) == [part.clone()]).collect();
            prop_assume!(parts.iter().all(|part| split(&format!("{part}, x")).len() == 2));
            prop_assert_eq!(split(&join(parts.iter().map(String::as_str))), parts);
        }

        #[test]
        fn cuts_fall_between_characters(text in "[a\"'\\\\<>,/* é\u{1F600}\r\n$]{0,40}") {
            for argument in arguments(&text) {
                prop_assert!(text.get(argument.range).is_some());
                for word in words(&argument.text) {
                    prop_assert!(argument.text.get(word).is_some());
                }
                prop_assert!(argument.text.len() <= text.len());
                let _ = unquote(&argument.text);
            }
        }
    }
}
