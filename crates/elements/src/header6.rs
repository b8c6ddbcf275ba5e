//! The IPv6 header located by a packet's [`Meta`], with every length checked again.

use scalebricks_graph::Meta;
use scalebricks_wire::ipv6::HEADER_LEN;
use std::net::Ipv6Addr;

/// Offset of the hop limit.
pub(crate) const HOP_LIMIT: usize = 7;

/// A fixed header whose version is 6 and whose payload fits the packet, and the length of both.
#[inline]
pub(crate) fn check(bytes: &[u8]) -> Result<(&[u8; HEADER_LEN], usize), HeaderFault6> {
    let header: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(HeaderFault6::Short)?;
    if header[0] >> 4 != 6 {
        return Err(HeaderFault6::Version);
    }
    let total = HEADER_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if total > bytes.len() { Err(HeaderFault6::Length) } else { Ok((header, total)) }
}

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault6 {
    Short,
    Version,
    Length,
}

/// The fixed header.
#[inline]
pub(crate) fn fixed_mut<'a>(data: &'a mut [u8], meta: &Meta) -> Option<&'a mut [u8; HEADER_LEN]> {
    data.get_mut(usize::from(meta.l3)..)?.first_chunk_mut()
}

/// The source.
#[inline]
pub(crate) fn src(header: &[u8; HEADER_LEN]) -> Ipv6Addr {
    let [_, _, _, _, _, _, _, _, src @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *header;
    src.into()
}

/// The destination.
#[inline]
pub(crate) fn dst(header: &[u8; HEADER_LEN]) -> Ipv6Addr {
    let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, dst @ ..] = *header;
    dst.into()
}
