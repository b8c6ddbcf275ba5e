//! Names: the part of a frame that determines where it goes.

use super::action::PortNo;
use scalebricks_types::{FiveTuple, KeyHash, KeyHasher};
use scalebricks_wire::{MacAddr, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name made of bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Bytes of the longest name of another kind: two IPv6 addresses, ports, protocol, family and input port.
const FIXED_BYTES: usize = 42;

/// Which part of a frame is its name. A table holds names of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// The destination MAC address.
    Mac,
    /// The destination address of IPv4 packets.
    Ipv4,
    /// The destination address of IPv6 packets.
    Ipv6,
    /// Addresses, protocol and ports of IP packets of both families.
    Tuple {
        /// Whether the input port is part of the name.
        with_port: bool,
    },
    /// Bytes at a position in the frame.
    Bytes(BytesAt),
}

impl NameKind {
    /// The keyword in configurations.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mac => "mac",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Tuple { .. } => "tuple",
            Self::Bytes(_) => "bytes",
        }
    }
}

/// The position of a name in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BytesAt {
    base: Base,
    offset: u16,
    length: Length,
}

/// Where offsets count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base {
    /// The destination MAC.
    Frame,
    /// The end of the Ethernet header and its VLAN tags.
    Payload,
}

/// How long a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Length {
    /// A fixed number of bytes.
    Fixed(u8),
    /// The byte at the offset is the length; the name follows it.
    Prefix8,
    /// The two bytes at the offset are the length, big-endian; the name follows them.
    Prefix16,
}

/// A length that no name can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {MAX_NAME_BYTES} bytes")]
pub struct EmptyName;

impl BytesAt {
    /// The place at this offset.
    ///
    /// # Errors
    /// [`EmptyName`] for a fixed length of 0.
    pub const fn new(base: Base, offset: u16, length: Length) -> Result<Self, EmptyName> {
        match length {
            Length::Fixed(0) => Err(EmptyName),
            Length::Fixed(_) | Length::Prefix8 | Length::Prefix16 => Ok(Self { base, offset, length }),
        }
    }

    /// Where the offset counts from.
    pub const fn base(self) -> Base {
        self.base
    }

    /// Bytes before the name or its length.
    pub const fn offset(self) -> u16 {
        self.offset
    }

    /// How long the name is.
    pub const fn length(self) -> Length {
        self.length
    }
}

/// A five-tuple, with the input port if it is part of the name. Both addresses are of one family; ports are 0 for
/// protocols without ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlatTuple {
    in_port: Option<PortNo>,
    tuple: FiveTuple,
}

impl FlatTuple {
    /// The name of this tuple, or `None` if no packet can have it: mixed families, or ports of a protocol without
    /// ports.
    pub const fn new(in_port: Option<PortNo>, tuple: FiveTuple) -> Option<Self> {
        let one_family = tuple.src.is_ipv4() == tuple.dst.is_ipv4();
        let is_portless = tuple.src_port == 0 && tuple.dst_port == 0;
        if one_family && (is_portless || protocol::has_ports(tuple.protocol)) {
            Some(Self { in_port, tuple })
        } else {
            None
        }
    }

    /// The input port, if it is part of the name.
    pub const fn in_port(&self) -> Option<PortNo> {
        self.in_port
    }

    /// The tuple.
    pub const fn tuple(&self) -> &FiveTuple {
        &self.tuple
    }
}

/// A name of bytes: 1 to [`MAX_NAME_BYTES`] of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameBytes(Box<[u8]>);

impl NameBytes {
    /// A name of these bytes.
    ///
    /// # Errors
    /// [`EmptyName`] if there are none, or too many.
    pub fn new(bytes: &[u8]) -> Result<Self, EmptyName> {
        if bytes.is_empty() || bytes.len() > MAX_NAME_BYTES { Err(EmptyName) } else { Ok(Self(bytes.into())) }
    }

    /// The bytes.
    pub fn get(&self) -> &[u8] {
        &self.0
    }
}

/// A name as operators write it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlatName {
    /// A station's MAC address.
    Mac(MacAddr),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// A tuple.
    Tuple(FlatTuple),
    /// Bytes.
    Bytes(NameBytes),
}

impl FlatName {
    /// Whether frames of a switch of this kind can have this name.
    pub fn is_of(&self, kind: NameKind) -> bool {
        match (self, kind) {
            (Self::Mac(mac), NameKind::Mac) => !mac.is_multicast(),
            (Self::Ipv4(_), NameKind::Ipv4) | (Self::Ipv6(_), NameKind::Ipv6) => true,
            (Self::Tuple(tuple), NameKind::Tuple { with_port }) => tuple.in_port.is_some() == with_port,
            (Self::Bytes(bytes), NameKind::Bytes(at)) => match at.length {
                Length::Fixed(length) => bytes.get().len() == usize::from(length),
                Length::Prefix8 | Length::Prefix16 => true,
            },
            _ => false,
        }
    }

    /// Its hash under the switch's secret.
    pub fn hash(&self, hasher: &KeyHasher) -> KeyHash {
        match self {
            Self::Mac(mac) => hasher.hash_bytes(&mac.octets()),
            Self::Ipv4(address) => hasher.hash_bytes(&address.octets()),
            Self::Ipv6(address) => hasher.hash_bytes(&address.octets()),
            Self::Tuple(tuple) => with_tuple_bytes(tuple, |bytes| hasher.hash_bytes(bytes)),
            Self::Bytes(bytes) => hasher.hash_bytes(bytes.get()),
        }
    }
}

/// Passes the bytes of a tuple: family, input port (0: none, else its number plus one), protocol, ports, addresses.
/// Different tuples have different bytes.
pub(super) fn with_tuple_bytes<R>(tuple: &FlatTuple, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
    let mut bytes = [0; FIXED_BYTES];
    let five = &tuple.tuple;
    bytes[0] = if five.src.is_ipv4() { 4 } else { 6 };
    let port = tuple.in_port.map_or(0, |port| u32::from(port.get()) + 1);
    bytes[1..5].copy_from_slice(&port.to_be_bytes());
    bytes[5] = five.protocol;
    bytes[6..8].copy_from_slice(&five.src_port.to_be_bytes());
    bytes[8..10].copy_from_slice(&five.dst_port.to_be_bytes());
    let length = match (five.src, five.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            bytes[10..14].copy_from_slice(&src.octets());
            bytes[14..18].copy_from_slice(&dst.octets());
            18
        }
        (src, dst) => {
            bytes[10..26].copy_from_slice(&v6(src));
            bytes[26..42].copy_from_slice(&v6(dst));
            FIXED_BYTES
        }
    };
    use_bytes(&bytes[..length])
}

const fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
