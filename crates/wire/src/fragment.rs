//! Fragments IPv4 packets to an MTU (RFC 791 §3.2): computes the fragments and writes their headers. The caller copies
//! the payload.

use crate::WriteError;
use crate::ipv4::{Ipv4, MAX_HEADER_LEN, MIN_HEADER_LEN};
use crate::{ParseError, checksum};

/// Smallest MTU of IPv4, octets (RFC 791 §3.2): the longest header and 8 octets of payload.
pub const MIN_MTU: usize = 68;

/// A planned fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset of its payload in the payload of the fragmented packet, octets: a multiple of 8.
    pub offset: usize,
    /// Length of its payload, octets: a multiple of 8 unless it is the last.
    pub len: usize,
    /// Length of its header, octets: the first fragment has all options, the others only those with the copy bit.
    pub header_len: usize,
    /// The MF flag; of the last fragment, that of the fragmented packet.
    pub more: bool,
}

/// The fragments of a packet, in order.
#[derive(Debug, Clone)]
pub struct FragmentPlan<'a> {
    packet: Ipv4<'a>,
    mtu: usize,
    later_header_len: usize,
    next_offset: usize,
    done: bool,
}

impl<'a> FragmentPlan<'a> {
    /// Fragments `packet`, an IPv4 packet that may be a fragment itself, into packets of at most `mtu` octets including
    /// the IP header. A packet that fits is one fragment.
    ///
    /// # Errors
    /// [`WriteError::Malformed`]; [`WriteError::DontFragment`] if it is too long and has DF set;
    /// [`WriteError::MtuTooSmall`] below [`MIN_MTU`].
    pub fn new(packet: &'a [u8], mtu: usize) -> Result<Self, WriteError> {
        let parsed = Ipv4::parse(packet)?;
        if mtu >= MIN_MTU && parsed.dont_fragment() && parsed.total_len() > mtu {
            return Err(WriteError::DontFragment);
        }
        Self::forced(packet, mtu)
    }

    /// The same whether or not DF is set, for a packet that came in fragments: DF stays as it is.
    ///
    /// # Errors
    /// As [`Self::new`], but for [`WriteError::DontFragment`].
    pub fn forced(packet: &'a [u8], mtu: usize) -> Result<Self, WriteError> {
        let packet = Ipv4::parse(packet)?;
        if mtu < MIN_MTU {
            return Err(WriteError::MtuTooSmall);
        }
        let (_, options_len) = copied_options(packet.options())?;
        Ok(Self { packet, mtu, later_header_len: MIN_HEADER_LEN + options_len, next_offset: 0, done: false })
    }

    /// Writes the header of `piece`, with its checksum, at the start of `out`. Returns `piece.header_len`; the packet's
    /// payload from `piece.offset` to `piece.offset + piece.len` follows it.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`]; [`WriteError::TooLong`] for a piece of another plan.
    pub fn write_header(&self, piece: Piece, out: &mut [u8]) -> Result<usize, WriteError> {
        let header = out.get_mut(..piece.header_len).ok_or(WriteError::NoRoom)?;
        let (fixed, options) = header.split_first_chunk_mut().ok_or(WriteError::TooLong)?;
        let (copied, copied_len) = copied_options(self.packet.options())?;
        let wanted =
            if piece.offset == 0 { self.packet.options() } else { copied.get(..copied_len).unwrap_or(&[]) };
        if options.len() != wanted.len() {
            return Err(WriteError::TooLong);
        }
        options.copy_from_slice(wanted);
        let total_len =
            u16::try_from(piece.header_len.saturating_add(piece.len)).map_err(|_| WriteError::TooLong)?;
        let units = self.packet.fragment_offset().saturating_add(piece.offset) / 8;
        let units = u16::try_from(units).ok().filter(|units| *units < 1 << 13).ok_or(WriteError::TooLong)?;
        let flags = u16::from(self.packet.dont_fragment()) << 14 | u16::from(piece.more) << 13 | units;
        *fixed = *self.packet.fixed();
        fixed[0] = 0x40 | (piece.header_len / 4) as u8; // at most 60 / 4
        fixed[2..4].copy_from_slice(&total_len.to_be_bytes());
        fixed[6..8].copy_from_slice(&flags.to_be_bytes());
        fixed[10..12].copy_from_slice(&[0, 0]);
        let sum = checksum::checksum(header).to_be_bytes();
        header.get_mut(10..12).ok_or(WriteError::NoRoom)?.copy_from_slice(&sum);
        Ok(piece.header_len)
    }
}

impl Iterator for FragmentPlan<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.done {
            return None;
        }
        let offset = self.next_offset;
        let header_len = if offset == 0 { self.packet.header_len() } else { self.later_header_len };
        let left = self.packet.payload().len() - offset;
        let room = self.mtu - header_len; // at least 8: MIN_MTU
        // RFC 791 §3.2: the length of all fragments but the last is a multiple of 8.
        let len = if left <= room { left } else { room & !7 };
        self.next_offset += len;
        self.done = len == left;
        Some(Piece { offset, len, header_len, more: !self.done || self.packet.more_fragments() })
    }
}

/// The options that later fragments have, and their length padded to 4 octets (RFC 791 §3.1: bit 0 of the type).
fn copied_options(mut options: &[u8]) -> Result<([u8; MAX_HEADER_LEN - MIN_HEADER_LEN], usize), ParseError> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const COPY: u8 = 0x80;
    let mut kept = [END; MAX_HEADER_LEN - MIN_HEADER_LEN];
    let mut kept_len = 0;
    loop {
        options = match *options {
            [] | [END, ..] => break,
            [NO_OPERATION, ref rest @ ..] => rest,
            [kind, len, ..] if len >= 2 => {
                let (option, rest) =
                    options.split_at_checked(usize::from(len)).ok_or(ParseError::BadHeaderLength)?;
                if kind & COPY != 0 {
                    let room = kept.get_mut(kept_len..kept_len + option.len());
                    room.ok_or(ParseError::BadHeaderLength)?.copy_from_slice(option);
                    kept_len += option.len();
                }
                rest
            }
            _ => return Err(ParseError::BadHeaderLength),
        };
    }
    Ok((kept, kept_len.next_multiple_of(4)))
}
