//! A prefix of either family.

use super::address::{Address, Prefix, PrefixError};
use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A prefix of either family. IPv4 comes first in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpPrefix {
    /// IPv4.
    V4(Prefix<Ipv4Addr>),
    /// IPv6.
    V6(Prefix<Ipv6Addr>),
}

impl From<Prefix<Ipv4Addr>> for IpPrefix {
    fn from(prefix: Prefix<Ipv4Addr>) -> Self {
        Self::V4(prefix)
    }
}

impl From<Prefix<Ipv6Addr>> for IpPrefix {
    fn from(prefix: Prefix<Ipv6Addr>) -> Self {
        Self::V6(prefix)
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(prefix) => prefix.fmt(f),
            Self::V6(prefix) => prefix.fmt(f),
        }
    }
}

impl FromStr for IpPrefix {
    type Err = PrefixError;

    /// Parses a prefix such as `192.0.2.0/24` or `2001:db8::/32`.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text.contains(':') { text.parse().map(Self::V6) } else { text.parse().map(Self::V4) }
    }
}

/// Family, length, and the octets that the length covers.
impl BorshSerialize for IpPrefix {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        let (family, length, octets) = match self {
            Self::V4(prefix) => (4u8, prefix.length(), &prefix.address().octets()[..]),
            Self::V6(prefix) => (6u8, prefix.length(), &prefix.address().octets()[..]),
        };
        writer.write_all(&[family, length])?;
        writer.write_all(&octets[..usize::from(length).div_ceil(8)])
    }
}

/// Reads the octets of a prefix and checks that no bit after the prefix is set.
fn read_prefix<A: Address, const N: usize>(
    reader: &mut impl Read,
    length: u8,
    address: impl Fn([u8; N]) -> A,
) -> io::Result<Prefix<A>> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut octets = [0; N];
    let covered = octets
        .get_mut(..usize::from(length).div_ceil(8))
        .ok_or_else(|| wrong(format!("a prefix of {length} bits")))?;
    reader.read_exact(covered)?;
    Prefix::new(address(octets), length).map_err(|error| wrong(error.to_string()))
}

impl BorshDeserialize for IpPrefix {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let [family, length] = <[u8; 2]>::deserialize_reader(reader)?;
        match family {
            4 => read_prefix(reader, length, Ipv4Addr::from).map(Self::V4),
            6 => read_prefix(reader, length, Ipv6Addr::from).map(Self::V6),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("address family {family}"))),
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> IpPrefix {
        text.parse().unwrap()
    }

    #[test]
    fn text_and_order_tell_the_families_apart() {
        for text in ["0.0.0.0/0", "192.0.2.0/24", "::/0", "2001:db8::/32"] {
            assert_eq!(prefix(text).to_string(), text);
        }
        assert!(matches!(prefix("10.0.0.0/8"), IpPrefix::V4(_)) && matches!(prefix("::/0"), IpPrefix::V6(_)));
        assert!(prefix("255.255.255.255/32") < prefix("::/0"));
        assert!(matches!("10.0.0.1/8".parse::<IpPrefix>(), Err(PrefixError::HostBits { .. })));
        assert_eq!(IpPrefix::from("::/0".parse::<Prefix<Ipv6Addr>>().unwrap()), prefix("::/0"));
    }

    #[test]
    fn octets_after_the_prefix_are_not_written() {
        for (text, octets) in [
            ("0.0.0.0/0", &[4, 0][..]),
            ("10.128.0.0/9", &[4, 9, 10, 128]),
            ("2001:db8::/32", &[6, 32, 0x20, 1, 0x0d, 0xb8]),
        ] {
            assert_eq!(borsh::to_vec(&prefix(text)).unwrap(), octets);
            assert_eq!(borsh::from_slice::<IpPrefix>(octets).unwrap(), prefix(text));
        }
        // A bit after the prefix, a length over that of the family, another family, and too few octets.
        for wrong in [&[4, 9, 10, 64][..], &[4, 33, 1, 2, 3, 4, 5], &[6, 255], &[5, 0], &[4, 9, 10], &[4]] {
            assert!(borsh::from_slice::<IpPrefix>(wrong).is_err(), "{wrong:?}");
        }
    }
}
