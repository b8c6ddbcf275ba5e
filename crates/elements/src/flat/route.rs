//! Routes a packet one hop: TTL, header checksum, MAC addresses.

use super::flat_lookup::FlatLookup;
use scalebricks_graph::DropId;
use scalebricks_wire::MacAddr;
use scalebricks_wire::checksum::update_u16;
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, parse_frame};
use scalebricks_wire::ipv4::{Ipv4, header_checksum_ok};
use scalebricks_wire::ipv6::Ipv6;

/// Offset of the IPv4 TTL and protocol, followed by the checksum.
const IPV4_TTL: usize = 8;
/// Offset of the IPv6 hop limit.
const IPV6_HOP_LIMIT: usize = 7;

/// Rewrites a frame for the next link. A refused frame is not changed.
///
/// # Errors
/// The drop reason.
pub(super) fn route(
    frame: &mut [u8],
    next_hop: MacAddr,
    source: MacAddr,
    verify_ipv4_checksum: bool,
) -> Result<(), DropId> {
    let Ok(header) = parse_frame(frame) else { return Err(FlatLookup::NOT_ROUTABLE) };
    let packet = frame.get_mut(header.l3_offset..).ok_or(FlatLookup::TRUNCATED)?;
    match header.ethertype {
        ETHERTYPE_IPV4 => {
            let ttl = Ipv4::parse_header(packet).map_err(|_| FlatLookup::NOT_ROUTABLE)?.ttl();
            // RFC 1812 §5.2.2: before anything else, the checksum.
            if verify_ipv4_checksum && !header_checksum_ok(packet) {
                return Err(FlatLookup::BAD_IPV4_CHECKSUM);
            }
            one_hop_v4(packet, ttl)?;
        }
        ETHERTYPE_IPV6 => {
            let hops = Ipv6::parse_header(packet).map_err(|_| FlatLookup::NOT_ROUTABLE)?.hop_limit();
            // RFC 8200 §3: discarded when it was received with 0, or is decremented to it.
            let left = hops.checked_sub(1).filter(|&left| left > 0).ok_or(FlatLookup::EXPIRED)?;
            packet[IPV6_HOP_LIMIT] = left;
        }
        _ => return Err(FlatLookup::NOT_ROUTABLE),
    }
    if let Some(addresses) = frame.first_chunk_mut::<12>() {
        addresses[..6].copy_from_slice(&next_hop.octets());
        addresses[6..].copy_from_slice(&source.octets());
    }
    Ok(())
}

fn one_hop_v4(packet: &mut [u8], ttl: u8) -> Result<(), DropId> {
    // RFC 1812 §5.3.1: not forwarded with what would be 0.
    let left = ttl.checked_sub(1).filter(|&left| left > 0).ok_or(FlatLookup::EXPIRED)?;
    let Some([was, protocol, high, low]) = packet[IPV4_TTL..].first_chunk_mut::<4>() else {
        return Err(FlatLookup::TRUNCATED);
    };
    let checksum = u16::from_be_bytes([*high, *low]);
    let updated =
        update_u16(checksum, u16::from_be_bytes([*was, *protocol]), u16::from_be_bytes([left, *protocol]));
    *was = left;
    [*high, *low] = updated.to_be_bytes();
    Ok(())
}
