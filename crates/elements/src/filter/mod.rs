//! Filters of IPv4 packets in Click's language, which is that of tcpdump(1) but for details: what
//! `IPClassifier` and `IPFilter` understand.
//!
//! ```text
//! expression = or [ "?" expression ":" expression ]
//! or         = and { ( "or" | "||" ) and }
//! and        = factor { [ "and" | "&&" ] factor }
//! factor     = ( "not" | "!" ) factor | "true" | "false" | "(" expression ")" | primitive
//! primitive  = qualifiers [ "[" POS [ ":" LEN ] "]" ] [ "&" MASK ] [ "==" | "!=" | "<" | … ] [ value ]
//! ```
//!
//! Primitives are those of Click's manual page of `IPClassifier`: `src host 10.0.0.1`, `10.0.0.0/8`, `tcp`, `dst port www or
//! ssh`, `tcp opt syn`, `icmp type echo`, `ip ttl < 5`, `ip[8] & 0x80 != 0`, `frag`. As there, a value without
//! qualifiers takes those of the primitive before it, and primitives that look behind the IP header are true of first fragments
//! only.
//!
//! A comparison of bytes that the packet does not have is false, whatever is compared, and `not` of it is true. A value is cut
//! by the mask that it is compared under, and one that is out of a field's range is an error where it is compared for equality.
//!
//! [`Expression::parse`] reads a text in time linear in its length, nested [`DEPTH`] deep at most. [`Program::new`] makes
//! expressions a list of comparisons, each of which leads to a later one or to an answer. [`Expression::matches`] interprets the
//! expression itself: slow, obvious, and what the program is tested against.
//!
//! | module | what it holds |
//! |---|---|
//! | `lexer`, `names` | words with their places; ports, protocols and the like by name |
//! | `parser`, `primitive`, `meaning` | expressions; one primitive, and what it means |
//! | `ast` | what was read, and its interpreter |
//! | `lower`, `program` | primitives as comparisons; the program |
//! | `element` | what the elements share |

mod ast;
mod element;
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
pub use parser::DEPTH;
pub use program::{Packet, Program, TooLong};

/// Why a text is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at byte {at}")]
pub struct FilterError {
    /// Offset of the word that is wrong; the text's length, if its end is.
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
    /// A word that fits nowhere.
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
    /// A name that stands for several things.
    #[error("`{name}` is ambiguous: say what of {of}")]
    Ambiguous {
        /// The name.
        name: String,
        /// What it may be.
        of: &'static str,
    },
    /// There is no value where one is needed, or one of the wrong kind.
    #[error("expected {0}")]
    Value(&'static str),
    /// A number that a field cannot have.
    #[error("{value} is out of range: from 0 to {most}")]
    Range {
        /// The number.
        value: u32,
        /// The largest.
        most: u32,
    },
    /// A comparison that has no meaning for the primitive.
    #[error("{0} can only be tested for equality")]
    Relation(&'static str),
    /// A mask that has no meaning for the primitive, or none at all.
    #[error("{0} takes no such mask")]
    Mask(&'static str),
    /// A protocol that the primitive does not go with.
    #[error("{0} is not of that protocol")]
    Protocol(&'static str),
}
