//! Cutting an IPv4 packet to an MTU (RFC 791 §3.2).
//!
//! Planning and writing are apart: the caller moves payload bytes as its buffers like best, this module says which
//! piece goes where and writes the headers.

use crate::WriteError;
use crate::ipv4::{Ipv4, MAX_HEADER_LEN, MIN_HEADER_LEN};
use crate::{ParseError, checksum};

/// Smallest MTU of IPv4, octets (RFC 791 §3.2): the longest header and 8 octets of payload.
pub const MIN_MTU: usize = 68;

/// One fragment to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where its payload starts in the payload of the packet that is cut, octets: a multiple of 8.
    pub offset: usize,
    /// Length of its payload, octets: a multiple of 8 unless it is the last.
    pub len: usize,
    /// Length of its header, octets: the first keeps all options, later ones only those with the copy bit.
    pub header_len: usize,
    /// The MF flag; of the last piece, that of the packet that is cut.
    pub more: bool,
}

/// How a packet is cut. Iterates over its pieces in order.
#[derive(Debug, Clone)]
pub struct FragmentPlan<'a> {
    packet: Ipv4<'a>,
    mtu: usize,
    later_header_len: usize,
    next_offset: usize,
    done: bool,
}

impl<'a> FragmentPlan<'a> {
    /// Plans to cut `packet`, an IPv4 packet and perhaps a fragment itself, to pieces of at most `mtu` octets from
    /// the IP header on. A packet that fits is one piece.
    ///
    /// # Errors
    /// [`WriteError::Malformed`]; [`WriteError::DontFragment`] if it would have to be cut but has DF set;
    /// [`WriteError::MtuTooSmall`] below [`MIN_MTU`].
    pub fn new(packet: &'a [u8], mtu: usize) -> Result<Self, WriteError> {
        let packet = Ipv4::parse(packet)?;
        if mtu < MIN_MTU {
            return Err(WriteError::MtuTooSmall);
        }
        if packet.dont_fragment() && packet.total_len() > mtu {
            return Err(WriteError::DontFragment);
        }
        let (_, options_len) = copied_options(packet.options())?;
        Ok(Self { packet, mtu, later_header_len: MIN_HEADER_LEN + options_len, next_offset: 0, done: false })
    }

    /// Writes the header of `piece`, with its checksum, at the start of `out`. Returns `piece.header_len`; the
    /// payload `piece.offset..piece.offset + piece.len` of the packet goes behind it.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`]; [`WriteError::TooLong`] for a piece that is not of this plan.
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
        // RFC 791 §3.2: all pieces but the last are made of 8-octet units.
        let len = if left <= room { left } else { room & !7 };
        self.next_offset += len;
        self.done = len == left;
        Some(Piece { offset, len, header_len, more: !self.done || self.packet.more_fragments() })
    }
}

/// The options that later fragments keep, and their length padded to 4 octets (RFC 791 §3.1: bit 0 of the type).
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
