//! Extracts a frame's name, or decides what else to do with the frame.

use super::action::PortNo;
use super::flat_lookup::FlatLookup;
use super::name::{Base, BytesAt, FlatTuple, Length, NameKind, with_tuple_bytes};
use scalebricks_graph::DropId;
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, HEADER_LEN, parse_frame};
use scalebricks_wire::ipv4::Ipv4;
use scalebricks_wire::ipv6::Ipv6;
use scalebricks_wire::packet::{IpSummary, parse_quoted};
use scalebricks_wire::{MacAddr, ParseError, protocol};

const TRUNCATED: FrameClass = FrameClass::Dropped(FlatLookup::TRUNCATED);
const MALFORMED: FrameClass = FrameClass::Dropped(FlatLookup::MALFORMED);

/// How a switch treats a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameClass {
    /// It has a name.
    Name,
    /// It is for a group of stations: flooded to all ports.
    Group,
    /// It is dropped.
    Dropped(DropId),
}

/// Finds the name of a frame and passes its bytes to `use_bytes`. Cost: parsing the headers up to the name.
///
/// Group addresses are flooded for all kinds of names except bytes of the frame, where nothing else is examined.
#[inline]
pub(super) fn parse(
    kind: NameKind,
    in_port: PortNo,
    frame: &[u8],
    use_name: impl FnOnce(&[u8]),
) -> FrameClass {
    let found = match kind {
        NameKind::Bytes(at) => bytes_at(at, frame).map(use_name),
        NameKind::Mac => destination(frame).map(|mac| use_name(&mac.octets())),
        NameKind::Ipv4 | NameKind::Ipv6 | NameKind::Tuple { .. } => of_ip(kind, in_port, frame, use_name),
    };
    match found {
        Ok(()) => FrameClass::Name,
        Err(instead) => instead,
    }
}

/// The destination MAC address, or the treatment of a frame to a special address.
#[inline(always)]
fn destination(frame: &[u8]) -> Result<MacAddr, FrameClass> {
    let header = frame.first_chunk::<HEADER_LEN>().ok_or(TRUNCATED)?;
    let &[a, b, c, d, e, f, ..] = header;
    let mac = MacAddr([a, b, c, d, e, f]);
    // IEEE 802.1Q §8.6.3: a bridge does not relay frames to 01-80-C2-00-00-00 to -0F.
    match mac.octets() {
        [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f] => Err(FrameClass::Dropped(FlatLookup::LINK_LOCAL)),
        _ if mac.is_multicast() => Err(FrameClass::Group),
        _ => Ok(mac),
    }
}

fn of_ip(
    kind: NameKind,
    in_port: PortNo,
    frame: &[u8],
    use_name: impl FnOnce(&[u8]),
) -> Result<(), FrameClass> {
    destination(frame)?;
    let header = parse_frame(frame).map_err(refused)?;
    let packet = frame.get(header.l3_offset..).ok_or(TRUNCATED)?;
    match (kind, header.ethertype) {
        // Forwarding needs the header only: a truncated capture or padding does no harm.
        (NameKind::Ipv4, ETHERTYPE_IPV4) => {
            let dst = Ipv4::parse_header(packet).map_err(refused)?.dst();
            use_name(&dst.octets());
        }
        (NameKind::Ipv6, ETHERTYPE_IPV6) => {
            let dst = Ipv6::parse_header(packet).map_err(refused)?.dst();
            use_name(&dst.octets());
        }
        (NameKind::Tuple { with_port }, ETHERTYPE_IPV4 | ETHERTYPE_IPV6) => {
            let summary = parse_quoted(packet).map_err(refused)?;
            if summary.is_ipv4() != (header.ethertype == ETHERTYPE_IPV4) {
                return Err(MALFORMED);
            }
            let tuple = tuple(&summary, with_port.then_some(in_port))?;
            with_tuple_bytes(&tuple, use_name);
        }
        _ => return Err(FrameClass::Dropped(FlatLookup::NO_NAME)),
    }
    Ok(())
}

fn tuple(summary: &IpSummary, in_port: Option<PortNo>) -> Result<FlatTuple, FrameClass> {
    if summary.is_later_fragment() {
        return Err(FrameClass::Dropped(FlatLookup::LATER_FRAGMENT));
    }
    if protocol::has_ports(summary.protocol) && summary.ports.is_none() {
        return Err(TRUNCATED);
    }
    FlatTuple::new(in_port, summary.five_tuple()).ok_or(MALFORMED)
}

fn bytes_at(at: BytesAt, frame: &[u8]) -> Result<&[u8], FrameClass> {
    let base = match at.base() {
        Base::Frame => 0,
        Base::Payload => parse_frame(frame).map_err(refused)?.l3_offset,
    };
    let rest = frame.get(base + usize::from(at.offset())..).ok_or(TRUNCATED)?;
    let (length, rest) = match (at.length(), rest) {
        (Length::Fixed(length), rest) => (usize::from(length), rest),
        (Length::Prefix8, [length, rest @ ..]) => (usize::from(*length), rest),
        (Length::Prefix16, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        (Length::Prefix8 | Length::Prefix16, _) => return Err(TRUNCATED),
    };
    if length == 0 || length > super::name::MAX_NAME_BYTES {
        return Err(FrameClass::Dropped(FlatLookup::BAD_NAME));
    }
    rest.get(..length).ok_or(TRUNCATED)
}

const fn refused(error: ParseError) -> FrameClass {
    match error {
        ParseError::Truncated => TRUNCATED,
        _ => MALFORMED,
    }
}
