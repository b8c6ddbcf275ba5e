//! The syntax tree of filters.

/// A parsed filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// Matches every packet, or none.
    Constant(bool),
    /// One test.
    Test(Primitive),
    /// Matches where the other does not.
    Not(Box<Self>),
    /// Matches where all do.
    All(Vec<Self>),
    /// Matches where any does.
    Any(Vec<Self>),
    /// The second where the first matches, else the third.
    If(Box<[Self; 3]>),
}

/// Which of two addresses or ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The sender's.
    Source,
    /// The receiver's.
    Destination,
    /// Both.
    Both,
    /// At least one.
    Either,
}

/// Which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A protocol number.
    Number(u8),
    /// TCP or UDP.
    TcpOrUdp,
    /// Any.
    Any,
}

/// How two numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Relation {
    /// Whether it holds between two numbers.
    #[inline(always)]
    pub const fn holds(self, left: u32, right: u32) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }

    /// Its operator.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }
}

/// A number compared under a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The bits compared.
    pub mask: u32,
    /// The relation.
    pub relation: Relation,
    /// The value compared with.
    pub value: u32,
}

/// One test of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    /// `src host 10.0.0.1`, `net 10.0.0.0/8`: whether bits of addresses have a value.
    Address {
        /// Which address.
        side: Side,
        /// The bits compared.
        mask: u32,
        /// The value compared with.
        bits: u32,
        /// Whether they must differ.
        is_unequal: bool,
    },
    /// `src host 2001:db8::1`, `2001:db8::/32`: the same for IPv6.
    Address6 {
        /// Which address.
        side: Side,
        /// The bits compared.
        mask: u128,
        /// The value compared with.
        bits: u128,
        /// Whether they must differ.
        is_unequal: bool,
    },
    /// `ip proto 17`.
    Protocol(Comparison),
    /// `tcp`, `udp` and so on.
    Transport(Transport),
    /// `src tcp port 80`.
    Port {
        /// Which port.
        side: Side,
        /// Of which protocol.
        of: Transport,
        /// The comparison.
        comparison: Comparison,
    },
    /// `tcp opt syn`: all of these flags are set.
    Flags(u8),
    /// `ip frag`.
    Fragment,
    /// A number at an offset in the IP header or after it.
    Field {
        /// The protocol whose header it is in; `None` for the IP header.
        of: Option<Transport>,
        /// Offset of its first byte.
        offset: u16,
        /// Number of bytes, up to four.
        len: u8,
        /// Bits after it in the last byte.
        shift: u8,
        /// The comparison.
        comparison: Comparison,
    },
}
