//! Filters compiled to a list of comparisons.

use super::ast::{Expression, Relation};
use super::lower::{Target, Version, emit};
use std::fmt;

/// A filter's view of a packet: its bytes from the IP header on, and from the transport header on, up to the packet's
/// stated end.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The IP header and everything after it.
    pub header: &'a [u8],
    /// Everything after the IP header.
    pub transport: &'a [u8],
}

/// Most comparisons in a program.
const MOST: usize = 1 << 16;

/// The filters would need more than 65,536 comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the filters need more than {MOST} comparisons")]
pub struct TooLong;

/// A comparison, and where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Step {
    pub(super) test: Test,
    pub(super) yes: Target,
    pub(super) no: Target,
}

/// A comparison of a number at an offset; false if the bytes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Test {
    /// Whether the offset counts from the transport header.
    pub(super) is_behind: bool,
    /// Number of bytes, from 1 to 4.
    pub(super) len: u8,
    pub(super) offset: u16,
    pub(super) shift: u8,
    pub(super) relation: Relation,
    pub(super) mask: u32,
    pub(super) value: u32,
}

impl Test {
    /// The number, if present.
    #[inline(always)]
    fn load(self, packet: Packet<'_>) -> Option<u32> {
        let bytes = if self.is_behind { packet.transport } else { packet.header };
        let bytes = bytes.get(usize::from(self.offset)..)?;
        let (len, shift) = (u32::from(self.len.clamp(1, 4)), u32::from(self.shift % 32));
        let word = match bytes.first_chunk::<4>() {
            Some(word) => u32::from_be_bytes(*word) >> (32 - 8 * len),
            None => bytes.get(..len as usize)?.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)),
        };
        Some(word >> shift)
    }

    #[inline(always)]
    fn holds(self, packet: Packet<'_>) -> bool {
        self.load(packet).is_some_and(|number| self.relation.holds(number & self.mask, self.value))
    }
}

/// Compiled filters, of which the first match decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Each leads to earlier ones.
    steps: Vec<Step>,
    start: Target,
}

impl Program {
    /// Compiles filters.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn new(filters: &[Expression]) -> Result<Self, TooLong> {
        let (steps, start) = emit(filters, MOST, Version::V4)?;
        Ok(Self { steps, start })
    }

    /// Compiles filters for whole IPv6 packets. Byte 6 of the header that the program sees must be the number of the
    /// upper-layer protocol. Addresses of IPv4, `frag`, and fields that IPv6 does not have match no packet; `ttl` is the hop
    /// limit, `tos` the traffic class.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn for_ipv6(filters: &[Expression]) -> Result<Self, TooLong> {
        let (steps, start) = emit(filters, MOST, Version::V6)?;
        Ok(Self { steps, start })
    }

    /// The first filter that matches a packet.
    ///
    /// Cost: every comparison is made at most once and reads up to four bytes of the packet.
    #[inline]
    pub fn first(&self, packet: Packet<'_>) -> Option<usize> {
        let mut next = self.start;
        loop {
            let step = match next {
                Target::Step(at) => &self.steps[at as usize],
                Target::Filter(filter) => return Some(filter as usize),
                Target::None => return None,
            };
            next = if step.test.holds(packet) { step.yes } else { step.no };
        }
    }

    /// Number of comparisons.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has no comparisons, since the result is constant.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A target's displayed number: the first comparison made has number 0.
    fn shown(&self, target: Target) -> String {
        match target {
            Target::Step(at) => format!("step {}", self.steps.len() - 1 - at as usize),
            Target::Filter(filter) => format!("[{filter}]"),
            Target::None => "[none]".to_owned(),
        }
    }
}

impl fmt::Display for Program {
    /// One comparison per line, with its targets for true and false.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "all -> {}", self.shown(self.start));
        }
        for (number, step) in self.steps.iter().rev().enumerate() {
            let Test { is_behind, len, offset, shift, relation, mask, value } = step.test;
            let header = if is_behind { "transp" } else { "ip" };
            write!(f, "{number:3}  {header}[{offset}:{len}]")?;
            if shift > 0 {
                write!(f, " >> {shift}")?;
            }
            let (yes, no) = (self.shown(step.yes), self.shown(step.no));
            writeln!(f, " & {mask:#x} {} {value:#x}  yes -> {yes}  no -> {no}", relation.sign())?;
        }
        Ok(())
    }
}
