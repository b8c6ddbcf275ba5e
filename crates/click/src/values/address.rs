//! IP addresses, prefixes and MAC addresses.

use super::{Names, Value, ValueError};
use crate::config_strings;
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
fn octets(text: &str, what: &str) -> Result<(Ipv4Addr, usize), ValueError> {
    let wrong = |at: usize| ValueError::new(at, format!("expected {what}, not `{text}`"));
    let mut octets = [0; 4];
    let mut count = 0;
    let mut at = 0;
    for part in text.split('.') {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || digits < part.len() {
            return Err(wrong(at + digits));
        }
        let octet = octets.get_mut(count).ok_or_else(|| wrong(at))?;
        *octet = part.parse().map_err(|_| wrong(at))?;
        count += 1;
        at += part.len() + 1;
    }
    Ok((Ipv4Addr::from(octets), count))
}

pub(super) fn ip(text: &str) -> Result<Ipv4Addr, ValueError> {
    let what = "an IP address such as 192.0.2.1";
    match octets(text, what)? {
        (address, 4) => Ok(address),
        _ => Err(ValueError::new(text.len(), format!("expected {what}, not `{text}`"))),
    }
}

pub(super) fn prefix(text: &str) -> Result<Prefix, ValueError> {
    let what = "an IP prefix such as 192.0.2.0/24";
    let Some((left, right)) = text.split_once('/') else {
        return Err(ValueError::new(text.len(), format!("expected {what}, not `{text}`")));
    };
    let (address, count) = octets(left, what)?;
    let at = left.len() + 1;
    let wrong = || ValueError::new(at, format!("expected {what}: no prefix length or mask `{right}`"));
    let length = if right.contains('.') {
        let mask = ip(right).map_err(|error| error.shifted(at))?.to_bits();
        let length = mask.leading_ones();
        if mask.trailing_zeros() + length < 32 {
            return Err(ValueError::new(at, format!("`{right}` is no prefix mask: it has holes")));
        }
        length
    } else {
        let digits = !right.is_empty() && right.bytes().all(|byte| byte.is_ascii_digit());
        right.parse().ok().filter(|length| digits && *length <= 32).ok_or_else(wrong)?
    };
    if (count as u32) * 8 < length {
        return Err(ValueError::new(
            left.len(),
            format!("expected {what}: the length needs more of the address"),
        ));
    }
    Ok(Prefix { address, length: length as u8 })
}

pub(super) fn mac(text: &str) -> Result<Mac, ValueError> {
    let wrong =
        |at: usize| ValueError::new(at, format!("expected a MAC address such as 2:0:0:0:0:1, not `{text}`"));
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut bytes = [0; 6];
    let mut count = 0;
    let mut at = 0;
    for part in text.split(separator) {
        let digits = part.bytes().take_while(|&byte| config_strings::hex(byte).is_some()).count();
        if !(1..=2).contains(&digits) || digits < part.len() {
            return Err(wrong(at + digits.min(2)));
        }
        let byte = bytes.get_mut(count).ok_or_else(|| wrong(at))?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong(at))?;
        count += 1;
        at += part.len() + 1;
    }
    if count == 6 { Ok(Mac(bytes)) } else { Err(wrong(text.len())) }
}

pub(super) fn ip6(text: &str) -> Result<Ipv6Addr, ValueError> {
    text.parse().map_err(|_| {
        ValueError::new(0, format!("expected an IPv6 address such as 2001:db8::1, not `{text}`"))
    })
}

impl Value for Ipv4Addr {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        names.find(text, "ip", |entry| entry.ip).map_or_else(|| ip(text), Ok)
    }
}

impl Value for Ipv6Addr {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        names.find(text, "ip6", |entry| entry.ip6).map_or_else(|| ip6(text), Ok)
    }
}

impl Value for Prefix {
    /// `192.0.2.0/24`, `192.0.2/24` or `192.0.2.0/255.255.255.0`.
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        names.find(text, "ipnet", |entry| entry.prefix).map_or_else(|| prefix(text), Ok)
    }
}

impl Value for Mac {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        names.find(text, "eth", |entry| entry.mac).map_or_else(|| mac(text), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(ip("18.26.4.15"), Ok(Ipv4Addr::new(18, 26, 4, 15)));
        let wrong = |text| ip(text).unwrap_err().at;
        assert_eq!(
            [wrong("18.26.4"), wrong("18.26.400.1"), wrong("18.26.x.1"), wrong("1.2.3.4.5"), wrong("")],
            [7, 6, 6, 8, 0]
        );
        assert!(ip6("2001:db8::1").is_ok() && ip6("x").is_err());
        assert_eq!(mac("0:a0:C9:9c:fd:9c"), Ok(Mac([0, 0xa0, 0xc9, 0x9c, 0xfd, 0x9c])));
        assert_eq!(mac("0-a0-c9-9c-fd-9c").unwrap().to_string(), "00:a0:c9:9c:fd:9c");
        let wrong = |text| mac(text).unwrap_err().at;
        assert_eq!(
            [wrong("0:1:2:3:4"), wrong("0:1:2:g:4:5"), wrong("0:111:2:3:4:5"), wrong("0:1:2:3:4:5:6")],
            [9, 6, 4, 12]
        );
    }

    #[test]
    fn prefixes() {
        let read =
            |text| prefix(text).map(|prefix| (prefix.network().to_string(), prefix.length)).map_err(|e| e.at);
        assert_eq!(read("1.2.3.4/8"), Ok(("1.0.0.0".into(), 8)));
        assert_eq!(read("18.26/16"), Ok(("18.26.0.0".into(), 16)));
        assert_eq!(read("1.2.3.4/255.0.0.0"), Ok(("1.0.0.0".into(), 8)));
        assert_eq!(read("0.0.0.0/0"), Ok(("0.0.0.0".into(), 0)));
        assert_eq!(read("1.2.3.4/32"), Ok(("1.2.3.4".into(), 32)));
        assert_eq!(read("1.2.3.4"), Err(7));
        assert_eq!(read("1.2.3.4/33"), Err(8));
        assert_eq!(read("1.2.3.4/+8"), Err(8));
        assert_eq!(read("1.2.3.4/255.0.255.0"), Err(8));
        assert_eq!(read("18.26/24"), Err(5));
        let prefix = prefix("10.1.2.3/24").unwrap();
        assert!(
            prefix.contains(Ipv4Addr::new(10, 1, 2, 200)) && !prefix.contains(Ipv4Addr::new(10, 1, 3, 1))
        );
    }
}
