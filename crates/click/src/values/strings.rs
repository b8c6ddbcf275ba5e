//! Strings, words, file names and lists.

use super::{Names, Value, ValueError};
use crate::config_strings::{unquote, words};
use std::path::PathBuf;

/// A text without its quotes: any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Value for Bytes {
    fn read(text: &str, _: &Names<'_>) -> Result<Self, ValueError> {
        match words(text).as_slice() {
            [] => Err(ValueError::new(0, "expected a string")),
            [_] => Ok(Self(unquote(text))),
            [_, second, ..] => {
                Err(ValueError::new(second.start, "expected one string; quote one that has spaces"))
            }
        }
    }
}

impl Value for String {
    /// A UTF-8 string.
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        Self::from_utf8(Bytes::read(text, names)?.0)
            .map_err(|_| ValueError::new(0, "expected a string of UTF-8"))
    }
}

/// A string of printable ASCII without quotes, backslashes and commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub String);

impl Value for Word {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        let word = String::read(text, names)?;
        let is_strange = |c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\'' | '\\' | ',');
        match word.find(is_strange) {
            None if !word.is_empty() => Ok(Self(word)),
            at => Err(ValueError::new(
                text.len().min(at.unwrap_or(0)),
                format!("expected a word, not `{text}`"),
            )),
        }
    }
}

/// The name of a file, which is not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(pub PathBuf);

impl Value for FileName {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        let name = String::read(text, names)?;
        if name.is_empty() || name.contains('\0') {
            return Err(ValueError::new(0, "expected a file name"));
        }
        Ok(Self(PathBuf::from(name)))
    }
}

/// Integers with spaces between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integers(pub Vec<u32>);

impl Value for Integers {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        let read = |word: std::ops::Range<usize>| {
            u32::read(&text[word.clone()], names).map_err(|error| error.shifted(word.start))
        };
        words(text).into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Value>(text: &str) -> Result<T, usize> {
        T::read(text, &Names::none()).map_err(|error| error.at)
    }

    #[test]
    fn strings_lose_their_quotes() {
        assert_eq!(read("'a b'\"\\n\""), Ok("a b\n".to_owned()));
        assert_eq!(read("\\<ff00>"), Ok(Bytes(vec![0xff, 0])));
        assert_eq!(read::<String>("\\<ff>"), Err(0));
        assert_eq!(read::<String>("a b"), Err(2));
        assert_eq!(read::<String>(""), Err(0));
        assert_eq!(read("\"\""), Ok(String::new()));
    }

    #[test]
    fn words_files_and_lists() {
        assert_eq!(read("eth0"), Ok(Word("eth0".into())));
        assert_eq!(read::<Word>("\"a b\""), Err(1));
        assert_eq!(read("'/tmp/a b'"), Ok(FileName("/tmp/a b".into())));
        assert_eq!(read::<FileName>("''"), Err(0));
        assert_eq!(read("1 0x10  3"), Ok(Integers(vec![1, 16, 3])));
        assert_eq!(read(""), Ok(Integers(vec![])));
        assert_eq!(read::<Integers>("1 2x"), Err(3));
    }
}
