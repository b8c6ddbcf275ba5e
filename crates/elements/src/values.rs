//! Parameter types in Click's notation.

use scalebricks_click::values::{self, Names, Value};
use scalebricks_graph::args::Param;
use scalebricks_wire::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parses a value without named addresses.
pub(crate) fn value<V: Value>(text: &str) -> Option<V> {
    V::read(text.trim(), &Names::none())
}

/// Parses all blank-separated values of a text.
pub(crate) fn list<V: Value>(text: &str) -> Option<Vec<V>> {
    text.split_whitespace().map(value).collect()
}

/// An IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip(pub Ipv4Addr);

impl Param for Ip {
    const KIND: &'static str = "an IP address";

    fn read(text: &str) -> Option<Self> {
        value(text).map(Self)
    }
}

/// An IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip6(pub Ipv6Addr);

impl Param for Ip6 {
    const KIND: &'static str = "an IPv6 address";

    fn read(text: &str) -> Option<Self> {
        value(text).map(Self)
    }
}

/// A list of IPv6 addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ip6s(pub Vec<Ipv6Addr>);

impl Param for Ip6s {
    const KIND: &'static str = "IPv6 addresses";

    fn read(text: &str) -> Option<Self> {
        list(text).map(Self)
    }
}

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub MacAddr);

impl Param for Mac {
    const KIND: &'static str = "a MAC address";

    fn read(text: &str) -> Option<Self> {
        value(text).map(|values::Mac(octets)| Self(MacAddr(octets)))
    }
}

/// A list of MAC addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Macs(pub Vec<MacAddr>);

impl Param for Macs {
    const KIND: &'static str = "MAC addresses";

    fn read(text: &str) -> Option<Self> {
        list(text).map(|macs: Vec<values::Mac>| {
            Self(macs.into_iter().map(|values::Mac(octets)| MacAddr(octets)).collect())
        })
    }
}

/// A list of IPv4 addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ips(pub Vec<Ipv4Addr>);

impl Param for Ips {
    const KIND: &'static str = "IP addresses";

    fn read(text: &str) -> Option<Self> {
        list(text).map(Self)
    }
}

/// A list of IPv4 addresses with prefix lengths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefixes(pub Vec<values::Prefix>);

impl Param for Prefixes {
    const KIND: &'static str = "IP addresses with prefix lengths";

    fn read(text: &str) -> Option<Self> {
        list(text).map(Self)
    }
}

/// An interface's IPv4 address, with an optional prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// The address.
    pub address: Ipv4Addr,
    /// The network.
    pub prefix: Option<values::Prefix>,
}

impl Param for Interface {
    const KIND: &'static str = "an IP address, optionally with a prefix length";

    fn read(text: &str) -> Option<Self> {
        let alone = || value(text).map(|address| Self { address, prefix: None });
        let with = |prefix: values::Prefix| Self { address: prefix.address, prefix: Some(prefix) };
        value(text).map(with).or_else(alone)
    }
}

/// Bytes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data(pub Vec<u8>);

impl Param for Data {
    const KIND: &'static str = "text such as \"a\\<0d0a>\"";

    fn read(text: &str) -> Option<Self> {
        value(text).map(|values::Bytes(bytes)| Self(bytes))
    }
}

/// A bandwidth, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth(pub u64);

impl Param for Bandwidth {
    const KIND: &'static str = "a bandwidth such as 10Mbps, in bytes per second without a unit";

    fn read(text: &str) -> Option<Self> {
        value(text).map(|values::Bandwidth(rate)| Self(rate))
    }
}

impl From<Bandwidth> for u64 {
    fn from(Bandwidth(rate): Bandwidth) -> Self {
        rate
    }
}

/// A probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probability(pub f64);

impl Param for Probability {
    const KIND: &'static str = "a number from 0 to 1";

    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|probability| (0.0..=1.0).contains(probability)).map(Self)
    }
}

/// The broadcast address of a network; `None` if its prefix leaves no room for one.
pub(crate) fn broadcast(prefix: values::Prefix) -> Option<Ipv4Addr> {
    (prefix.length < 31).then(|| prefix.network() | !prefix.mask())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_in_click() {
        assert_eq!(Ip::read("18.26.4.24"), Some(Ip(Ipv4Addr::new(18, 26, 4, 24))));
        assert_eq!(Mac::read("0:0:c0:AE:67:ef"), Some(Mac(MacAddr([0, 0, 0xc0, 0xae, 0x67, 0xef]))));
        assert_eq!(Ips::read("1.2.3.4  5.6.7.8").unwrap().0.len(), 2);
        let data = |text| Data::read(text).map(|Data(bytes)| bytes);
        assert_eq!(data(r#""a \<00 fF>\n\"\\""#).unwrap(), b"a \x00\xff\n\"\\");
        assert_eq!(data("\\<  // Ethernet\n 08 00 /* IP */ 45>").unwrap(), b"\x08\x00\x45");
        assert_eq!(data("a b"), None);
        assert_eq!(Bandwidth::read("384 kbps"), Some(Bandwidth(48_000)));
        assert_eq!(Ips::read(""), Some(Ips::default()));
        assert_eq!(Prefixes::read("18.26.4.9/24 18.32.9.44/28").unwrap().0[1].length, 28);
        let interface = Interface::read("18.26.4.9/28").unwrap();
        assert_eq!(broadcast(interface.prefix.unwrap()), Some(Ipv4Addr::new(18, 26, 4, 15)));
        assert_eq!(Interface::read("18.26.4.9").unwrap().prefix, None);
        assert_eq!(broadcast(value("1.2.3.4/31").unwrap()), None);
        for wrong in ["", "1.2.3", "1.2.3.4 x", "x"] {
            assert_eq!(
                (Ip::read(wrong), Mac::read(wrong), Interface::read(wrong)),
                (None, None, None),
                "{wrong}"
            );
        }
    }
}
