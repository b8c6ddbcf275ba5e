//! Parses arguments as values of Click's types, with errors that locate the wrong character.

mod address;
mod address_info;
mod numbers;
mod rates;
mod strings;

pub use address::{Mac, Prefix};
pub use address_info::{AddressInfo, Names};
pub use numbers::Size;
pub use rates::{Bandwidth, TcpPort, UdpPort};
pub use strings::{Bytes, FileName, Integers, Word};

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use thiserror::Error;

/// Why a text is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ValueError {
    /// Offset of the wrong byte, or the text's length if its end is wrong.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

impl ValueError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// Adjusts the offset for a text that starts `offset` bytes into another.
    pub(crate) fn shifted(self, offset: usize) -> Self {
        Self { at: self.at + offset, ..self }
    }
}

/// A type of arguments.
pub trait Value: Sized {
    /// Parses a whole argument, or what follows its keyword. `names` are the names from `AddressInfo` elements that are
    /// visible to the element.
    ///
    /// # Errors
    ///
    /// The wrong byte, and what was expected.
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError>;
}

/// The types, for parameter lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Any text, quoted or not.
    Text,
    /// A text of printable characters without quotes and commas.
    Word,
    /// `bool`
    Bool,
    /// `u32`
    Unsigned,
    /// `u64`
    Unsigned64,
    /// `i32`
    Signed,
    /// [`Size`]
    Size,
    /// [`Bandwidth`]
    Bandwidth,
    /// [`Ipv4Addr`]
    Ip,
    /// [`Ipv6Addr`]
    Ip6,
    /// [`Prefix`]
    Prefix,
    /// [`Mac`]
    Mac,
    /// [`TcpPort`]
    TcpPort,
    /// [`UdpPort`]
    UdpPort,
    /// [`Duration`]
    Time,
    /// [`FileName`]
    FileName,
    /// [`Integers`]
    Integers,
}

impl Kind {
    /// Checks that the text is a valid value.
    ///
    /// # Errors
    ///
    /// Those of [`Value::read`].
    pub fn check(self, text: &str, names: &Names<'_>) -> Result<(), ValueError> {
        match self {
            Self::Text => Bytes::read(text, names).map(drop),
            Self::Word => Word::read(text, names).map(drop),
            Self::Bool => bool::read(text, names).map(drop),
            Self::Unsigned => u32::read(text, names).map(drop),
            Self::Unsigned64 => u64::read(text, names).map(drop),
            Self::Signed => i32::read(text, names).map(drop),
            Self::Size => Size::read(text, names).map(drop),
            Self::Bandwidth => Bandwidth::read(text, names).map(drop),
            Self::Ip => Ipv4Addr::read(text, names).map(drop),
            Self::Ip6 => Ipv6Addr::read(text, names).map(drop),
            Self::Prefix => Prefix::read(text, names).map(drop),
            Self::Mac => Mac::read(text, names).map(drop),
            Self::TcpPort => TcpPort::read(text, names).map(drop),
            Self::UdpPort => UdpPort::read(text, names).map(drop),
            Self::Time => Duration::read(text, names).map(drop),
            Self::FileName => FileName::read(text, names).map(drop),
            Self::Integers => Integers::read(text, names).map(drop),
        }
    }
}
