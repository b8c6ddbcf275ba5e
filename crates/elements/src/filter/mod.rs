//! Filters of IPv4 packets in Click's language, which is mostly that of tcpdump(1). `IPClassifier` and `IPFilter` use
//! them.
//!
//! ```text
//! expression = or [ "?" expression ":" expression ]
//! or         = and { ( "or" | "||" ) and }
//! and        = factor { [ "and" | "&&" ] factor }
//! factor     = ( "not" | "!" ) factor | "true" | "false" | "(" expression ")" | primitive
//! primitive  = qualifiers [ "[" POS [ ":" LEN ] "]" ] [ "&" MASK ] [ "==" | "!=" | "<" | … ] [ value ]
//! ```
//!
//! Primitives are those of Click's manual page of `IPClassifier`: `src host 10.0.0.1`, `10.0.0.0/8`, `tcp`, `dst port
//! www or ssh`, `tcp opt syn`, `icmp type echo`, `ip ttl < 5`, `ip[8] & 0x80 != 0`, `frag`. As in Click, a value
//! without qualifiers takes those of the previous primitive, and primitives that read beyond the IP header match first
//! fragments only.
//!
//! A comparison of bytes that the packet does not have is always false, so its negation is true. A value is masked with
//! the mask it is compared under. A value outside a field's range is an error in tests for equality.
//!
//! The firewall applies them to IPv6 too: `src net 2001:db8::/32`, `icmp6[0] == 128`. An address of one IP version matches no
//! packet of the other; ports and protocols match both.
//!
//! [`Expression::parse`] takes time linear in the text's length and accepts nesting up to [`DEPTH`]. [`Program::new`]
//! compiles expressions to a list of comparisons, each leading to another comparison or a result, without cycles.
//!
//! | module | contents |
//! |---|---|
//! | `lexer`, `names` | words with positions; named ports, protocols and the like |
//! | `parser`, `primitive`, `meaning` | expressions; single primitives and their meaning |
//! | `ast` | the syntax tree |
//! | `lower`, `program` | primitives as comparisons; the program |
//! | `element` | code that the elements share |

mod ast;
mod element;
#[cfg(any(test, fuzzing))]
#[path = "tests/interpreter.rs"]
mod interpreter;
mod lexer;
mod lower;
mod meaning;
mod names;
mod parser;
mod primitive;
mod program;
#[cfg(test)]
mod tests;

pub use ast::Expression;
pub use element::FilterText;
pub(crate) use element::classify;
pub(crate) use names::icmp_type;
pub use parser::DEPTH;
pub use program::{Packet, Program, TooLong};

/// Why a text is not a valid filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at byte {at}")]
pub struct FilterError {
    /// Offset of the wrong word, or the text's length if its end is wrong.
    pub at: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An expression is missing.
    #[error("expected an expression")]
    Missing,
    /// A misplaced word.
    #[error("unexpected `{0}`")]
    Unexpected(String),
    /// A parenthesis, bracket or colon is missing.
    #[error("expected `{0}`")]
    Expected(&'static str),
    /// It is nested too deep.
    #[error("nested deeper than {DEPTH}")]
    TooDeep,
    /// Qualifiers contradict each other.
    #[error("{0} is specified twice")]
    Twice(&'static str),
    /// A name with several meanings.
    #[error("`{name}` is ambiguous: say what of {of}")]
    Ambiguous {
        /// The name.
        name: String,
        /// What it may mean.
        of: &'static str,
    },
    /// A value is missing or of the wrong kind.
    #[error("expected {0}")]
    Value(&'static str),
    /// A number outside the range of a field.
    #[error("{value} is out of range: from 0 to {most}")]
    Range {
        /// The number.
        value: u32,
        /// The largest.
        most: u32,
    },
    /// A relation that the primitive does not support.
    #[error("{0} can only be tested for equality")]
    Relation(&'static str),
    /// A mask that the primitive does not support.
    #[error("{0} takes no such mask")]
    Mask(&'static str),
    /// A protocol that does not fit the primitive.
    #[error("{0} is not of that protocol")]
    Protocol(&'static str),
}
