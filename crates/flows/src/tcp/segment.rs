//! The fields of a segment that a tracker reads.

use scalebricks_wire::tcp_options::TcpOptions;
use scalebricks_wire::transport::{Tcp, TcpFlags};

/// A segment without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number, valid with the ACK flag.
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window field, not scaled.
    pub window: u16,
    /// Octets of data.
    pub payload_len: u32,
    /// Options.
    pub options: TcpOptions,
}

impl Segment {
    /// The fields of a parsed segment.
    #[inline]
    pub fn of(tcp: &Tcp<'_>) -> Self {
        Self {
            sequence: tcp.sequence(),
            acknowledgment: tcp.acknowledgment(),
            flags: tcp.flags(),
            window: tcp.window(),
            payload_len: tcp.payload().len() as u32, // an IP packet has at most 65,575 octets
            options: TcpOptions::parse(tcp.options()),
        }
    }

    /// Whether all bits of `flags` are set.
    #[inline]
    pub const fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Whether it is a SYN without ACK.
    #[inline]
    pub const fn is_first_syn(&self) -> bool {
        self.has(TcpFlags::SYN) && !self.has(TcpFlags::ACK)
    }

    /// Whether it is a SYN with ACK.
    #[inline]
    pub const fn is_syn_ack(&self) -> bool {
        self.has(TcpFlags::SYN) && self.has(TcpFlags::ACK)
    }

    /// Sequence numbers that it occupies: data, SYN and FIN (RFC 9293 §3.4).
    #[inline]
    pub const fn sequence_len(&self) -> u32 {
        self.payload_len + self.has(TcpFlags::SYN) as u32 + self.has(TcpFlags::FIN) as u32
    }

    /// The sequence number after it.
    #[inline]
    pub const fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.sequence_len())
    }

    /// The sequence number of its first octet of data.
    #[inline]
    pub const fn data_sequence(&self) -> u32 {
        self.sequence.wrapping_add(self.has(TcpFlags::SYN) as u32)
    }

    /// Whether the flags are a combination that an endpoint sends: one of SYN, SYN+ACK, RST, RST+ACK, and ACK with or
    /// without FIN (RFC 9293 §3.10.7.4 drops segments without ACK). PSH, URG and the ECN bits do not matter.
    #[inline]
    pub const fn has_plausible_flags(&self) -> bool {
        let (syn, ack) = (self.has(TcpFlags::SYN), self.has(TcpFlags::ACK));
        let (rst, fin) = (self.has(TcpFlags::RST), self.has(TcpFlags::FIN));
        match (syn, rst, fin) {
            (false, false, _) => ack,
            (true, false, false) | (false, true, false) => true,
            _ => false,
        }
    }
}
