//! The IPv4 header located by a packet's [`Meta`], with every length checked again.

use scalebricks_graph::Meta;
use scalebricks_wire::checksum::update_u16;
use scalebricks_wire::ipv4::{Ipv4, MIN_HEADER_LEN};

/// Offset of the checksum.
const CHECKSUM: usize = 10;

/// The IP packet; `None` if it is not as long as recorded.
#[inline]
pub(crate) fn packet<'a>(data: &'a [u8], meta: &Meta) -> Option<Ipv4<'a>> {
    Ipv4::parse(bytes(data, meta)).ok()
}

/// All bytes from the IP header on.
#[inline]
pub(crate) fn bytes<'a>(data: &'a [u8], meta: &Meta) -> &'a [u8] {
    data.get(usize::from(meta.l3)..).unwrap_or_default()
}

/// The header without options.
#[inline]
pub(crate) fn fixed_mut<'a>(data: &'a mut [u8], meta: &Meta) -> Option<&'a mut [u8; MIN_HEADER_LEN]> {
    data.get_mut(usize::from(meta.l3)..)?.first_chunk_mut()
}

/// The header with its options.
#[inline]
pub(crate) fn whole_mut<'a>(data: &'a mut [u8], meta: &Meta) -> Option<&'a mut [u8]> {
    let header = data.get_mut(usize::from(meta.l3)..)?;
    let len = usize::from(header.first()? & 0xf) * 4;
    if len < MIN_HEADER_LEN { None } else { header.get_mut(..len) }
}

/// Records where a packet's headers are. `l3` is the offset of the IP header.
#[inline]
pub(crate) fn note(meta: &mut Meta, l3: usize, header_len: usize, total_len: usize) {
    let offset = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
    (meta.l3, meta.l4, meta.length) = (offset(l3), offset(l3 + header_len), offset(total_len));
}

/// Changes a 16-bit word and updates the checksum (RFC 1624).
#[inline]
pub(crate) fn set_word(header: &mut [u8; MIN_HEADER_LEN], at: usize, change: impl FnOnce(u16) -> u16) {
    let word = |header: &[u8; MIN_HEADER_LEN], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (old, sum) = (word(header, at), word(header, CHECKSUM));
    let new = change(old);
    [header[at], header[at + 1]] = new.to_be_bytes();
    [header[CHECKSUM], header[CHECKSUM + 1]] = update_u16(sum, old, new).to_be_bytes();
}

/// Where TTL, protocol and checksum are.
pub(crate) const TTL: usize = 8;

/// TTL, protocol and checksum, as a little-endian word, of a packet whose TTL was lowered by one; it was not 0.
///
/// The same as [`set_word`]: the checksum grows by one in the octet of the TTL, with the carry at the other end, and all
/// ones become zero (RFC 1624 equation 3).
#[inline(always)]
pub(crate) const fn lowered(word: u32) -> u32 {
    let sum = (word >> 16) + 1;
    let sum = sum + (sum >= 0xffff) as u32;
    word.wrapping_sub(1) & 0xffff | sum << 16
}

/// Lowers a TTL, which is not 0, and updates the checksum.
#[inline(always)]
pub(crate) fn lower_ttl(header: &mut [u8; MIN_HEADER_LEN]) {
    let [.., a, b, c, d, _, _, _, _, _, _, _, _] = header;
    [*a, *b, *c, *d] = lowered(u32::from_le_bytes([*a, *b, *c, *d])).to_le_bytes();
}

/// Recomputes the checksum.
pub(crate) fn sum(header: &mut [u8]) {
    let Some(field) = header.get_mut(CHECKSUM..CHECKSUM + 2) else { return };
    field.fill(0);
    let sum = scalebricks_wire::checksum::checksum(header).to_be_bytes();
    if let Some(field) = header.get_mut(CHECKSUM..CHECKSUM + 2) {
        field.copy_from_slice(&sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_ttl_has_the_checksum_of_the_incremental_update() {
        for sum in 0..=u16::MAX {
            for (ttl, protocol) in [(1, 0), (2, 255), (64, 17), (128, 6), (255, 1)] {
                let mut header = [7; MIN_HEADER_LEN];
                [header[TTL], header[TTL + 1]] = [ttl, protocol];
                [header[CHECKSUM], header[CHECKSUM + 1]] = sum.to_be_bytes();
                let mut slow = header;
                set_word(&mut slow, TTL, |word| word - 0x100);
                lower_ttl(&mut header);
                assert_eq!(header, slow, "{sum:#x} {ttl}");
            }
        }
    }
}
