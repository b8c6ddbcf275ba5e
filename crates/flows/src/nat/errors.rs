//! ICMP errors (RFC 5508 §4): the quoted packet is translated with them. They neither refresh nor end anything (RFC 5382
//! REQ-10).

use super::translator::Nat;
use super::{Endpoint, Event, Kind, Refusal};
use crate::tracker::{Tracked, quoted_tuple};
use scalebricks_types::FiveTuple;
use scalebricks_wire::rewrite::{End, quoted_offset, replace_address, replace_end, sum_icmp};
use scalebricks_wire::{IpPacket, checksum, icmp, ipv4_header_checksum_ok, parse_ip};
use std::net::{IpAddr, Ipv4Addr};

impl Nat {
    /// An error from outside about a packet from inside.
    pub(super) fn inbound_error(&mut self, bytes: &mut [u8]) -> Result<Tracked, Refusal> {
        let (quoted, kind) = read(bytes)?;
        let IpAddr::V4(public) = quoted.src else { return Err(Refusal::ErrorQuote) };
        let (_, mapping) =
            self.state.of_public(public, quoted.src_port, kind).ok_or(Refusal::UnrelatedError)?;
        let Endpoint { address, port, .. } = mapping.inside;
        let dst_port = if kind == Kind::Icmp { port } else { quoted.dst_port };
        let inside = FiveTuple { src: IpAddr::V4(address), src_port: port, dst_port, ..quoted };
        let tracked = self.tracker.related(&inside, 0)?;
        self.write(bytes, (End::Source, address, port), (End::Destination, address));
        Ok(tracked)
    }

    /// An error from inside about a packet from outside. It comes from the public address, whoever inside has sent it.
    pub(super) fn outbound_error(&mut self, bytes: &mut [u8]) -> Result<Tracked, Refusal> {
        let (quoted, kind) = read(bytes)?;
        let IpAddr::V4(address) = quoted.dst else { return Err(Refusal::ErrorQuote) };
        let inside = Endpoint { address, port: quoted.dst_port, kind };
        let (_, mapping) = self.state.of_inside(inside).ok_or(Refusal::UnrelatedError)?;
        let tracked = self.tracker.related(&quoted, 0)?;
        self.write(bytes, (End::Destination, mapping.public, mapping.port), (End::Source, mapping.public));
        Ok(tracked)
    }

    fn write(&mut self, bytes: &mut [u8], quoted: (End, Ipv4Addr, u16), outer: (End, Ipv4Addr)) {
        let len = parse_ip(bytes).map_or(0, |packet| packet.bytes().len());
        let at = quoted_offset(bytes);
        let Some(packet) = bytes.get_mut(..len) else { return };
        if let Some(inner) = packet.get_mut(at..) {
            replace_end(inner, quoted.0, quoted.1, quoted.2);
        }
        if let Some(message) = packet.get_mut(at - icmp::HEADER_LEN..) {
            sum_icmp(message);
        }
        replace_address(packet, outer.0, outer.1);
        self.state.events.count(Event::ErrorTranslated);
    }
}

/// The tuple of the packet that an error quotes. RFC 5508 REQ-3: both checksums must be right; that behind the quoted IP header
/// does not matter, as the packet may be cut.
fn read(bytes: &[u8]) -> Result<(FiveTuple, Kind), Refusal> {
    let packet: IpPacket<'_> = parse_ip(bytes).map_err(|_| Refusal::MalformedIp)?;
    let is_translated = matches!(
        packet.summary.icmp,
        Some((icmp::v4::UNREACHABLE | icmp::v4::TIME_EXCEEDED | icmp::v4::PARAMETER_PROBLEM, _))
    );
    if !is_translated {
        return Err(Refusal::IcmpType);
    }
    if checksum::checksum(packet.l4()) != 0 {
        return Err(Refusal::ErrorChecksum);
    }
    let tuple = quoted_tuple(&packet).and_then(Result::ok).ok_or(Refusal::ErrorQuote)?;
    if !packet.l4().get(icmp::HEADER_LEN..).is_some_and(ipv4_header_checksum_ok) {
        return Err(Refusal::ErrorChecksum);
    }
    // An error goes to the source of the packet that it is about (RFC 792), and none is about an error (RFC 1122 §3.2.2).
    let kind = Kind::of(tuple.protocol).map_err(|_| Refusal::UnrelatedError)?;
    let has_ports = (tuple.src_port, tuple.dst_port) != (0, 0);
    if tuple.src != packet.summary.dst || !has_ports {
        return Err(Refusal::ErrorQuote);
    }
    Ok((tuple, kind))
}
