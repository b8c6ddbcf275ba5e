//! A simple, slow interpreter of filters, against which programs are tested.

use super::Packet;
use super::ast::{Comparison, Expression, Primitive, Relation, Side, Transport};

impl Comparison {
    /// Whether the comparison holds for a number.
    const fn holds(self, number: u32) -> bool {
        self.relation.holds(number & self.mask, self.value)
    }
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
    fn matches(self, packet: Packet<'_>) -> bool {
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
            Self::Address6 { is_unequal, .. } => is_unequal,
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
    /// [`Program`](super::Program) gives the same result and is fast.
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
