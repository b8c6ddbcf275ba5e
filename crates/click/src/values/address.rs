//! IP addresses, prefixes and MAC addresses.

use super::{Names, Value};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An IPv4 address and its network's prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address as written, including host bits.
    pub address: Ipv4Addr,
    /// From 0 to 32.
    pub length: u8,
}

impl Prefix {
    /// The network mask.
    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0))
    }

    /// The address without its host bits.
    pub fn network(self) -> Ipv4Addr {
        self.address & self.mask()
    }

    /// Whether the network contains an address.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address & self.mask() == self.network()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// One to four dot-separated numbers, missing ones 0, and how many there are.
fn octets(text: &str) -> Option<(Ipv4Addr, u8)> {
    let mut octets = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        *octets.get_mut(usize::from(count))? = decimal(part)?;
        count += 1;
    }
    Some((Ipv4Addr::from(octets), count))
}

/// Digits without a sign.
fn decimal(text: &str) -> Option<u8> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

pub(super) fn ip(text: &str) -> Option<Ipv4Addr> {
    octets(text).filter(|(_, count)| *count == 4).map(|(address, _)| address)
}

pub(super) fn prefix(text: &str) -> Option<Prefix> {
    let (left, right) = text.split_once('/')?;
    let (address, count) = octets(left)?;
    let length = match ip(right).map(Ipv4Addr::to_bits) {
        Some(mask) => Some(mask.leading_ones() as u8).filter(|&length| mask.count_ones() as u8 == length)?,
        None => decimal(right)?,
    };
    (length <= 32 && length <= count * 8).then_some(Prefix { address, length })
}

pub(super) fn mac(text: &str) -> Option<Mac> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let byte = |part: &str| {
        let is_byte = part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        u8::from_str_radix(part, 16).ok().filter(|_| is_byte)
    };
    let bytes: Vec<u8> = text.split(separator).map(byte).collect::<Option<_>>()?;
    bytes.try_into().ok().map(Mac)
}

impl Value for Ipv4Addr {
    fn read(text: &str, names: &Names<'_>) -> Option<Self> {
        names.find(text, "ip", |entry| entry.ip).or_else(|| ip(text))
    }
}

impl Value for Ipv6Addr {
    fn read(text: &str, names: &Names<'_>) -> Option<Self> {
        names.find(text, "ip6", |entry| entry.ip6).or_else(|| text.parse().ok())
    }
}

impl Value for Prefix {
    /// `192.0.2.0/24`, `192.0.2/24` or `192.0.2.0/255.255.255.0`.
    fn read(text: &str, names: &Names<'_>) -> Option<Self> {
        names.find(text, "ipnet", |entry| entry.prefix).or_else(|| prefix(text))
    }
}

impl Value for Mac {
    fn read(text: &str, names: &Names<'_>) -> Option<Self> {
        names.find(text, "eth", |entry| entry.mac).or_else(|| mac(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(ip("18.26.4.15"), Some(Ipv4Addr::new(18, 26, 4, 15)));
        for wrong in ["18.26.4", "18.26.400.1", "18.26.x.1", "1.2.3.4.5", "1.2.3.+4", ""] {
            assert_eq!(ip(wrong), None, "{wrong}");
        }
        assert_eq!(mac("0:a0:C9:9c:fd:9c"), Some(Mac([0, 0xa0, 0xc9, 0x9c, 0xfd, 0x9c])));
        assert_eq!(mac("0-a0-c9-9c-fd-9c").unwrap().to_string(), "00:a0:c9:9c:fd:9c");
        for wrong in
            ["0:1:2:3:4", "0:1:2:g:4:5", "0:111:2:3:4:5", "0:1:2:3:4:5:6", "0:1:2:3:4:+5", "0:1:2:3:4:"]
        {
            assert_eq!(mac(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn prefixes() {
        for (text, network, length) in [
            ("1.2.3.4/8", "1.0.0.0", 8),
            ("18.26/16", "18.26.0.0", 16),
            ("1.2.3.4/255.0.0.0", "1.0.0.0", 8),
            ("0.0.0.0/0", "0.0.0.0", 0),
            ("1.2.3.4/32", "1.2.3.4", 32),
        ] {
            let prefix = prefix(text).unwrap();
            assert_eq!((prefix.network().to_string().as_str(), prefix.length), (network, length));
        }
        for wrong in ["1.2.3.4", "1.2.3.4/33", "1.2.3.4/+8", "1.2.3.4/255.0.255.0", "18.26/24", "1.2.3.4/"] {
            assert_eq!(prefix(wrong), None, "{wrong}");
        }
        let prefix = prefix("10.1.2.3/24").unwrap();
        assert!(prefix.contains(Ipv4Addr::new(10, 1, 2, 200)));
        assert!(!prefix.contains(Ipv4Addr::new(10, 1, 3, 1)));
    }
}
