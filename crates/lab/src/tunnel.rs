//! Wraps a phone's packet in GTP-U, as its base station does. The headers are built by `etherparse`, so the cluster parses packets
//! that its own crates did not build.

use etherparse::{IpHeaders, Ipv4Header, PacketBuilder};
use scalebricks_types::Teid;
use std::net::Ipv4Addr;

/// Octets of Ethernet, IPv4 and UDP.
const OUTER: usize = 14 + 20 + 8;

/// Most octets before a packet: Ethernet, IPv4, UDP, GTP-U with its optional fields and a container.
pub const MAX_HEADERS: usize = OUTER + 12 + 4;

const GTPU_PORT: u16 = 2152;

/// The optional parts of a GTP-U header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelForm {
    /// None.
    Plain,
    /// A sequence number.
    SequenceNumber,
    /// A PDU session container, as 5G base stations send it.
    PduSession,
    /// Sequence number, N-PDU number and PDU session container.
    Everything,
}

impl TunnelForm {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Plain, Self::SequenceNumber, Self::PduSession, Self::Everything];

    /// The E, S and PN flags (TS 29.281 §5.1).
    const fn flags(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::SequenceNumber => 0b010,
            Self::PduSession => 0b100,
            Self::Everything => 0b111,
        }
    }
}

/// The path of a packet from its base station to the gateway.
#[derive(Debug, Clone, Copy)]
pub struct Uplink {
    /// Ethernet destination: the ingress node.
    pub dst_mac: [u8; 6],
    /// Ethernet source.
    pub src_mac: [u8; 6],
    /// The base station.
    pub src: Ipv4Addr,
    /// The gateway.
    pub dst: Ipv4Addr,
    /// The TEID at the gateway.
    pub teid: Teid,
    /// The optional parts of the GTP-U header.
    pub form: TunnelForm,
    /// The QFI of its container.
    pub qfi: u8,
    /// Identification, sequence number and, with its two highest bits set, UDP source port.
    pub number: u16,
    /// Whether there is a UDP checksum.
    pub has_checksum: bool,
}

/// The packet is too large for an IPv4 packet with these headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// Replaces the content of `frame` by the whole frame.
///
/// # Errors
/// [`TooLarge`].
pub fn wrap(inner: &[u8], uplink: &Uplink, frame: &mut Vec<u8>) -> Result<(), TooLarge> {
    let [high, low] = uplink.number.to_be_bytes();
    let n_pdu = if uplink.form == TunnelForm::Everything { 7 } else { 0 };
    // An uplink PDU session container (TS 38.415 §5.5.2.2).
    let all = [high, low, n_pdu, 0x85, 1, 0x10, uplink.qfi, 0];
    let optional = match uplink.form {
        TunnelForm::Plain => &[][..],
        TunnelForm::SequenceNumber => &[high, low, 0, 0],
        TunnelForm::PduSession | TunnelForm::Everything => &all,
    };
    let len = u16::try_from(optional.len() + inner.len()).map_err(|_| TooLarge)?;
    let (flags, teid) = (0x30 | uplink.form.flags(), uplink.teid.get().to_be_bytes());
    let gtpu = [&[flags, 255], &len.to_be_bytes()[..], &teid, optional, inner].concat();
    let ip = Ipv4Header {
        identification: uplink.number,
        dont_fragment: true,
        time_to_live: 64,
        source: uplink.src.octets(),
        destination: uplink.dst.octets(),
        ..Ipv4Header::default()
    };
    frame.clear();
    PacketBuilder::ethernet2(uplink.src_mac, uplink.dst_mac)
        .ip(IpHeaders::Ipv4(ip, etherparse::Ipv4Extensions::default()))
        .udp(0xc000 | uplink.number, GTPU_PORT)
        .write(frame, &gtpu)
        .map_err(|_| TooLarge)?;
    if !uplink.has_checksum {
        // Zero means that there is no checksum (RFC 768).
        frame[OUTER - 2..OUTER].fill(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_wire::gtpu::{Gtpu, MessageType};
    use scalebricks_wire::transport::Udp;
    use scalebricks_wire::{checksum as wire_checksum, ipv4_header_checksum_ok, parse_ip};

    fn uplink(form: TunnelForm, has_checksum: bool) -> Uplink {
        Uplink {
            dst_mac: [2; 6],
            src_mac: [4; 6],
            src: Ipv4Addr::new(10, 200, 0, 1),
            dst: Ipv4Addr::new(10, 255, 0, 1),
            teid: Teid::new(0xdead_beef),
            form,
            qfi: 9,
            number: 0x5678,
            has_checksum,
        }
    }

    #[test]
    fn every_form_is_parsed_and_has_correct_checksums() {
        let mut frame = Vec::new();
        for form in TunnelForm::ALL {
            for with_checksum in [false, true] {
                for len in [20_u16, 21, 1500] {
                    let inner: Vec<u8> = (0..len).map(|n| n as u8).collect();
                    wrap(&inner, &uplink(form, with_checksum), &mut frame).unwrap();
                    assert!(frame.len() <= MAX_HEADERS + inner.len());
                    let ip = parse_ip(&frame[14..]).unwrap();
                    assert!(ipv4_header_checksum_ok(ip.bytes()));
                    let udp = Udp::parse(ip.l4()).unwrap();
                    assert_eq!((udp.dst_port(), udp.checksum() != 0), (2152, with_checksum));
                    if with_checksum {
                        let (src, dst) = (uplink(form, true).src, uplink(form, true).dst);
                        let sum = wire_checksum::pseudo_header_v4(src, dst, 17, udp.len());
                        assert_eq!(sum.bytes(ip.l4()).finish(), 0);
                    }
                    let message = Gtpu::parse(udp.payload()).unwrap();
                    assert_eq!(message.message_type(), MessageType::GPdu);
                    assert_eq!(message.teid(), Teid::new(0xdead_beef));
                    assert_eq!(message.payload(), inner);
                }
            }
        }
    }

    #[test]
    fn packets_that_exceed_an_ip_packet_are_refused() {
        let mut frame = Vec::new();
        let largest = 65_535 - 36;
        assert_eq!(wrap(&vec![0; largest], &uplink(TunnelForm::Plain, true), &mut frame), Ok(()));
        assert_eq!(wrap(&vec![0; largest + 1], &uplink(TunnelForm::Plain, true), &mut frame), Err(TooLarge));
        assert_eq!(wrap(&vec![0; largest], &uplink(TunnelForm::PduSession, true), &mut frame), Err(TooLarge));
    }
}
