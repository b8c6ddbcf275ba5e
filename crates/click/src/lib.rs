//! The Click configuration language: text in, a flat and checked configuration out.
//!
//! [`parse`] reads a text by the rules of Click 2.1 (its manual page click(5) and its lexer), expands compounds and
//! variables, and returns only elements and connections. [`check()`] finds unknown classes in the result; ports and
//! arguments are checked by the caller that builds the elements. Errors carry their positions; `Display` of [`Errors`] shows the
//! lines.
//!
//! Any text is read in bounded time and memory ([`Limits`]), and none makes a function of this crate panic.
//!
//! Differences from Click:
//!
//! - Archives, `connectiontunnel`, `require(library …)`, `require(compact_config)` and `import` are refused by name and
//!   line.
//! - A text is parsed without knowing which classes exist. A name that is neither declared nor a class of the text
//!   becomes an anonymous element of that class; [`check()`] decides whether the class exists, or whether an undeclared
//!   element was meant.
//! - A variable whose value refers to more than ten others in sequence, or to itself, is an error. Click leaves it as it is.
//! - The result of a substitution must be valid arguments by itself: no unbalanced quotes or parentheses. So every
//!   configuration can be printed and parsed again.
//! - An unterminated comment is an error.
//! - Connections are sorted by their source, and each is listed once.
//!
//! ```
//! let text = "FromDevice(eth0) -> q :: Queue(64) -> ToDevice(eth1);";
//! let router = scalebricks_click::parse("router.click", text.as_bytes(), &Default::default()).unwrap();
//! assert_eq!(router.elements[1].name, "q");
//! assert_eq!(router.elements[0].name, "FromDevice@1");
//! assert_eq!(router.connections.len(), 2);
//! assert_eq!(scalebricks_click::parse("again", router.to_string().as_bytes(), &Default::default()).unwrap(), router);
//! ```

#![forbid(unsafe_code)]

mod check;
mod config_strings;
mod configuration;
mod flatten;
mod lexer;
mod limits;
mod parser;
mod print;
mod problem;
mod program;
mod source;
mod text;
pub mod values;
mod variables;

pub use check::check;
pub use config_strings::{quote, unquote, words};
pub use configuration::{Argument, Configuration, Connection, Declaration, Port, Requirement};
pub use limits::Limits;
pub use problem::{Diagnostic, Errors, Problem, similar};
pub use source::{Source, SourceLocation, Span};

use problem::Problems;
use std::sync::Arc;

/// Options for parsing.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limits on the text.
    pub limits: Limits,
    /// Values of variables, by name without `$`; they take precedence over those that the file defines.
    pub parameters: Vec<(String, String)>,
}

/// Parses a configuration. `file` names it in errors.
///
/// Takes time linear in the text, in its expansion, and in the ports of compounds that connections pass through.
///
/// # Errors
///
/// All errors in the text, up to [`Limits::errors`]. Classes are checked by [`check()`].
pub fn parse(file: &str, text: &[u8], options: &Options) -> Result<Configuration, Errors> {
    let limits = options.limits;
    let mut problems = Problems::new(limits.errors);
    let fail = |problems: Problems, source: Source| Err(problems.into_errors(Arc::new(source)));
    if text.len() > limits.text_bytes.min(u32::MAX as usize / 2) {
        problems
            .report(Span::default(), Problem::TooLarge { what: "bytes of text", limit: limits.text_bytes });
        return fail(problems, Source::new(file, ""));
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            problems.report(Span::new(at, at + 1), Problem::NotUtf8(text[at]));
            return fail(problems, Source::new(file, &String::from_utf8_lossy(text)));
        }
    };
    let (program, directives, mut problems) = parser::parse(text, limits);
    let mut source = Source::new(file, text);
    source.set_directives(directives);
    if !problems.is_empty() {
        return fail(problems, source);
    }
    let mut configuration = flatten::flatten(&program, &options.parameters, limits, &mut problems);
    if !problems.is_empty() {
        return fail(problems, source);
    }
    configuration.source = Arc::new(source);
    Ok(configuration)
}
