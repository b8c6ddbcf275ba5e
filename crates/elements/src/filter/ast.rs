//! The syntax tree of filters, and a simple, slow interpreter.

use super::program::Packet;

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

impl Comparison {
    /// Whether the comparison holds for a number.
    pub const fn holds(self, number: u32) -> bool {
        self.relation.holds(number & self.mask, self.value)
    }
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

impl Transport {
    fn is(self, protocol: u8) -> bool {
        match self {
            Self::Number(number) => number == protocol,
            Self::TcpOrUdp => protocol == 6 || protocol == 17,
            Self::Any => true,
        }
    }
}

impl Side {
    /// Combines the results for source and destination.
    fn holds(self, source: bool, destination: bool) -> bool {
        match self {
            Self::Source => source,
            Self::Destination => destination,
            Self::Both => source && destination,
            Self::Either => source || destination,
        }
    }
}

/// The big-endian number in some bytes, if they are present.
fn number(bytes: &[u8], offset: usize, len: usize) -> Option<u32> {
    let end = offset.checked_add(len)?;
    Some(bytes.get(offset..end)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

impl Primitive {
    /// Whether it matches a packet.
    pub fn matches(self, packet: Packet<'_>) -> bool {
        let (ip, behind) = (packet.header, packet.transport);
        let protocol = number(ip, 9, 1).map(|protocol| protocol as u8); // one byte
        let offset = number(ip, 6, 2).map(|word| word & 0x1FFF);
        let in_first =
            |of: Transport| offset == Some(0) && (of == Transport::Any || protocol.is_some_and(|p| of.is(p)));
        let compared = |bytes, at, len, is: &dyn Fn(u32) -> bool| number(bytes, at, len).is_some_and(is);
        match self {
            Self::Address { side, mask, bits, is_unequal } => {
                let is = |at| compared(ip, at, 4, &|address| address & mask == bits);
                side.holds(is(12), is(16)) != is_unequal
            }
            Self::Protocol(comparison) => protocol.is_some_and(|protocol| comparison.holds(protocol.into())),
            Self::Transport(of) => of == Transport::Any || protocol.is_some_and(|protocol| of.is(protocol)),
            Self::Port { side, of, comparison } => {
                // "Not equal" for two ports means that neither is equal, or not both are.
                let Comparison { mask, relation, value } = comparison;
                let is_unequal = relation == Relation::Unequal;
                let relation = if is_unequal { Relation::Equal } else { relation };
                let is = |at| compared(behind, at, 2, &|port| relation.holds(port & mask, value));
                in_first(of) && side.holds(is(0), is(2)) != is_unequal
            }
            Self::Flags(flags) => {
                let flags = u32::from(flags);
                in_first(Transport::Number(6)) && compared(behind, 13, 1, &|set| set & flags == flags)
            }
            Self::Fragment => compared(ip, 6, 2, &|word| word & 0x3FFF != 0),
            Self::Field { of, offset, len, shift, comparison } => {
                let bytes = if of.is_some() { behind } else { ip };
                of.is_none_or(in_first)
                    && compared(bytes, offset.into(), len.into(), &|word| comparison.holds(word >> shift))
            }
        }
    }
}

impl Expression {
    /// Whether it matches a packet.
    ///
    /// Cost: interprets the expression. [`Program`](super::Program) gives the same result and is fast.
    pub fn matches(&self, packet: Packet<'_>) -> bool {
        match self {
            Self::Constant(value) => *value,
            Self::Test(primitive) => primitive.matches(packet),
            Self::Not(one) => !one.matches(packet),
            Self::All(all) => all.iter().all(|one| one.matches(packet)),
            Self::Any(any) => any.iter().any(|one| one.matches(packet)),
            Self::If(three) => {
                let [condition, yes, no] = &**three;
                if condition.matches(packet) { yes.matches(packet) } else { no.matches(packet) }
            }
        }
    }
}
