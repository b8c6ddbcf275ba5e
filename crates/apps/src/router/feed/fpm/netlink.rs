//! Netlink messages about routes and next hops, as FRR's zebra sends them (rtnetlink(7), `linux/nexthop.h`).
//!
//! Only what a forwarding plane needs is read: other attributes are skipped by their length. Numbers are in the byte
//! order of the machine, as zebra runs on the same one, or on one of the same kind. The crate `netlink-packet-route`
//! (0.33) reads no next-hop objects, which zebra uses by default.

use super::super::FeedPrefix;
use scalebricks_tables::lpm::{Prefix, PrefixError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const NEW_NEXT_HOP: u16 = 104;
const DELETE_NEXT_HOP: u16 = 105;

const RTA_DST: u16 = 1;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_NH_ID: u16 = 30;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GATEWAY: u16 = 6;

/// Bits of an attribute's type that say how its value is encoded.
const TYPE_FLAGS: u16 = 0xc000;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// The main table.
const MAIN: u32 = 254;

/// The kernel's own routes: networks of interfaces.
const PROTOCOL_KERNEL: u8 = 2;

/// A route to one neighbour, or to several.
const UNICAST: u8 = 1;

/// Most next hops of a route or of a group; further ones are ignored.
pub const MAX_GATEWAYS: usize = 64;

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// To these neighbours.
    Gateways(Box<[IpAddr]>),
    /// To the neighbours of a next-hop object.
    Object(u32),
}

/// A next-hop object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A neighbour; `None` for an interface without one.
    Single(Option<IpAddr>),
    /// Other objects.
    Group(Box<[u32]>),
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A route instead of an earlier one.
    Route(FeedPrefix, Target),
    /// No route.
    Withdraw(FeedPrefix),
    /// A route that is of no use here, instead of an earlier one.
    Unusable(FeedPrefix, Ignored),
    /// A next-hop object instead of an earlier one.
    Object(u32, Object),
    /// No next-hop object.
    RemoveObject(u32),
    /// Nothing for a forwarding plane of unicast routes.
    Ignored(Ignored),
}

/// Why a message or its route is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Neither routes nor next hops, or of another family than IPv4 and IPv6.
    OtherKind,
    /// The route is in another table than the main one.
    OtherTable,
    /// The network of an interface: nodes announce those of their ports themselves.
    OfTheKernel,
    /// Not a unicast route, such as a black hole.
    NotUnicast,
    /// The route has no gateway.
    NoGateway,
}

/// Why a message cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A length reaches past the end of what contains it, or is too short.
    #[error("the length of {0} does not fit")]
    Length(&'static str),
    /// An address has the wrong length.
    #[error("{what} is an address of {bytes} bytes, in a message of the other family or of none")]
    Address {
        /// The attribute.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// The prefix is invalid.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// A next-hop object without a number.
    #[error("a next-hop object has no number")]
    NoNumber,
}

/// A part of a message.
type Part<'a> = Result<(u16, &'a [u8]), MessageError>;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Length-prefixed parts: attributes, or next hops of a multipath route. Each begins at a multiple of four bytes.
fn parts<'a>(bytes: &'a [u8], what: &'static str, header: usize) -> impl Iterator<Item = Part<'a>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = u16_at(rest, 0).map(usize::from).filter(|length| (header..=rest.len()).contains(length));
        let Some(length) = length else {
            rest = &[];
            return Some(Err(MessageError::Length(what)));
        };
        let part = &rest[..length];
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok((u16_at(part, 2).unwrap_or_default() & !TYPE_FLAGS, &part[header..])))
    })
}

fn attributes(bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    parts(bytes, "an attribute", 4)
}

fn address(bytes: &[u8], what: &'static str) -> Result<IpAddr, MessageError> {
    let wrong = MessageError::Address { what, bytes: bytes.len() };
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .map_err(|_| wrong)
}

/// The address of `RTA_VIA`: its family, then the address.
fn via(bytes: &[u8]) -> Result<IpAddr, MessageError> {
    let length = MessageError::Length("a next hop of another family");
    let (family, octets) = (u16_at(bytes, 0).ok_or(length)?, bytes.get(2..).unwrap_or_default());
    let is_right = matches!((family, octets.len()), (AF_INET, 4) | (AF_INET6, 16));
    if !is_right {
        return Err(MessageError::Address { what: "a next hop of another family", bytes: octets.len() });
    }
    address(octets, "a next hop of another family")
}

/// Reads one netlink message, and returns it with the bytes behind it.
///
/// # Errors
/// [`MessageError`]. If the message's own length is wrong, nothing follows it.
pub fn read(bytes: &[u8]) -> (Result<Message, MessageError>, &[u8]) {
    let length = u32_at(bytes, 0).and_then(|length| usize::try_from(length).ok());
    let Some(length) = length.filter(|length| (16..=bytes.len()).contains(length)) else {
        return (Err(MessageError::Length("a netlink message")), &[]);
    };
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    let (kind, body) = (u16_at(bytes, 4).unwrap_or_default(), &bytes[16..length]);
    let message = match kind {
        NEW_ROUTE | DELETE_ROUTE => route(body, kind == NEW_ROUTE),
        NEW_NEXT_HOP | DELETE_NEXT_HOP => object(body, kind == NEW_NEXT_HOP),
        _ => Ok(Message::Ignored(Ignored::OtherKind)),
    };
    (message, rest)
}

fn route(body: &[u8], is_new: bool) -> Result<Message, MessageError> {
    let (header, rest) = body.split_first_chunk::<12>().ok_or(MessageError::Length("a route"))?;
    let [family, length, _, _, table, protocol, _, kind, ..] = *header;
    let mut table = u32::from(table);
    let (mut destination, mut object, mut gateways) = (None, None, Vec::new());
    for attribute in attributes(rest) {
        match attribute? {
            (RTA_DST, value) => destination = Some(address(value, "a destination")?),
            (RTA_GATEWAY, value) => gateways.push(address(value, "a gateway")?),
            (RTA_VIA, value) => gateways.push(via(value)?),
            (RTA_TABLE, value) => table = u32_at(value, 0).ok_or(MessageError::Length("a table"))?,
            (RTA_NH_ID, value) => object = Some(u32_at(value, 0).ok_or(MessageError::Length("an object"))?),
            (RTA_MULTIPATH, value) => {
                // Length, flags, weight and interface precede the attributes of a next hop.
                for hop in parts(value, "a next hop", 8) {
                    for attribute in attributes(hop?.1) {
                        match attribute? {
                            (RTA_GATEWAY, value) => gateways.push(address(value, "a gateway")?),
                            (RTA_VIA, value) => gateways.push(via(value)?),
                            _ => {}
                        }
                    }
                }
            }
            _ => {}
        }
    }
    let other_family = MessageError::Address { what: "a destination", bytes: 0 };
    let prefix = match (u16::from(family), destination) {
        (AF_INET, Some(IpAddr::V4(address))) => FeedPrefix::V4(Prefix::of(address, length)?),
        (AF_INET, None) if length == 0 => FeedPrefix::V4(Prefix::of(Ipv4Addr::UNSPECIFIED, 0)?),
        (AF_INET6, Some(IpAddr::V6(address))) => FeedPrefix::V6(Prefix::of(address, length)?),
        (AF_INET6, None) if length == 0 => FeedPrefix::V6(Prefix::of(Ipv6Addr::UNSPECIFIED, 0)?),
        (AF_INET | AF_INET6, _) => return Err(other_family),
        _ => return Ok(Message::Ignored(Ignored::OtherKind)),
    };
    if table != MAIN {
        return Ok(Message::Ignored(Ignored::OtherTable));
    }
    if !is_new {
        return Ok(Message::Withdraw(prefix));
    }
    if protocol == PROTOCOL_KERNEL {
        return Ok(Message::Unusable(prefix, Ignored::OfTheKernel));
    }
    if kind != UNICAST {
        return Ok(Message::Unusable(prefix, Ignored::NotUnicast));
    }
    if let Some(object) = object {
        return Ok(Message::Route(prefix, Target::Object(object)));
    }
    gateways.truncate(MAX_GATEWAYS);
    if gateways.is_empty() {
        return Ok(Message::Unusable(prefix, Ignored::NoGateway));
    }
    Ok(Message::Route(prefix, Target::Gateways(gateways.into())))
}

fn object(body: &[u8], is_new: bool) -> Result<Message, MessageError> {
    let (_, rest) = body.split_first_chunk::<8>().ok_or(MessageError::Length("a next-hop object"))?;
    let (mut number, mut gateway, mut group) = (None, None, None);
    for attribute in attributes(rest) {
        match attribute? {
            (NHA_ID, value) => number = Some(u32_at(value, 0).ok_or(MessageError::Length("a number"))?),
            (NHA_GATEWAY, value) => gateway = Some(address(value, "a gateway")?),
            // Number, weight and three reserved bytes each.
            (NHA_GROUP, value) => {
                let (members, rest) = value.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(MessageError::Length("a group of next hops"));
                }
                let members = members.iter().take(MAX_GATEWAYS).filter_map(|member| u32_at(member, 0));
                group = Some(members.collect());
            }
            _ => {}
        }
    }
    let number = number.ok_or(MessageError::NoNumber)?;
    Ok(match (is_new, group) {
        (false, _) => Message::RemoveObject(number),
        (true, Some(group)) => Message::Object(number, Object::Group(group)),
        (true, None) => Message::Object(number, Object::Single(gateway)),
    })
}
