//! `require(…)`: records packages, refuses libraries.

use super::Parser;
use crate::config_strings::{self, words};
use crate::configuration::Requirement;
use crate::problem::Problem;
use crate::source::Span;

impl Parser<'_> {
    /// After `require`.
    pub(super) fn require(&mut self) {
        let Some(config) = self.parenthesized() else { return };
        for argument in config_strings::arguments(config.as_str()) {
            let span = config.place(argument.range.clone()).0;
            let all: Vec<Vec<u8>> =
                words(&argument.text).map(|word| config_strings::unquote(&argument.text[word])).collect();
            let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            match all.as_slice() {
                [] => {}
                [b"compact_config"] => self.no_package(span, "`compact_config` is not supported"),
                [b"library", ..] => {
                    let problem =
                        Problem::Unsupported("require(library …)".into(), "write one file, or preprocess it");
                    self.report(span, problem);
                }
                [package] | [b"package", package] => self.package(package, span),
                _ => self.no_package(span, "a requirement is `package NAME`"),
            }
        }
    }

    fn no_package(&mut self, span: Span, why: &str) {
        self.report(span, Problem::Requirement(why.to_owned()));
    }

    fn package(&mut self, name: &[u8], span: Span) {
        let is_word = |&byte: &u8| (33..127).contains(&byte) && !b"\"'\\,()$#/".contains(&byte);
        match std::str::from_utf8(name) {
            Ok(package) if !name.is_empty() && name.iter().all(is_word) => {
                self.requirements.push(Requirement { package: package.to_owned(), span });
            }
            _ => self.no_package(span, "the name of a package is a word"),
        }
    }
}
