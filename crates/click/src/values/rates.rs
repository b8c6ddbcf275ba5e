//! Bandwidths, times and ports.

use super::{Names, Value, ValueError};
use crate::number::{NumberError, scaled};
use std::time::Duration;

/// Bytes per second, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(pub u64);

/// A decimal number with a unit, in `10^-scale` of the unit's base: the value, and the unit's name and offset.
fn with_unit(text: &str, scale: i32, what: &str) -> Result<(u128, usize), ValueError> {
    scaled(text, scale).map_err(|error| match error {
        NumberError::Format(at) => ValueError::new(at, format!("expected {what}, not `{text}`")),
        NumberError::Overflow => ValueError::new(0, format!("`{text}` is too large")),
    })
}

impl Value for Bandwidth {
    /// A decimal number and `Bps`, `B/s`, `bps`, `b/s` or `baud`, optionally with `k`, `M` or `G`; bytes per second
    /// without a unit.
    fn read(text: &str, _: &Names<'_>) -> Result<Self, ValueError> {
        let what = "a bandwidth such as 10Mbps";
        let (value, end) = with_unit(text, 6, what)?;
        let unit = text[end..].trim_start();
        let at = text.len() - unit.len();
        let (factor, base) = match unit.as_bytes().first() {
            Some(b'k' | b'K') => (1_000, &unit[1..]),
            Some(b'M') => (1_000_000, &unit[1..]),
            Some(b'G') => (1_000_000_000, &unit[1..]),
            _ => (1, unit),
        };
        let divisor = match base {
            "Bps" | "B/s" => 1,
            "" if factor == 1 => 1,
            "bps" | "b/s" | "baud" => 8,
            _ => return Err(ValueError::new(at, format!("expected {what}: no unit `{unit}`"))),
        };
        let rate = value.checked_mul(factor).map(|value| value / divisor / 1_000_000);
        let rate = rate.and_then(|rate| u64::try_from(rate).ok());
        rate.map(Bandwidth).ok_or_else(|| ValueError::new(0, format!("`{text}` is too large")))
    }
}

impl Value for Duration {
    /// A decimal number and `s`, `sec`, `ms`, `msec`, `us`, `usec`, `ns`, `nsec`, `m`, `min`, `h`, `hr`, `hour`, `d` or `day`;
    /// seconds without a unit.
    fn read(text: &str, _: &Names<'_>) -> Result<Self, ValueError> {
        let what = "a time such as 20ms";
        let (value, end) = with_unit(text, 9, what)?;
        let unit = text[end..].trim_start();
        let (multiplier, divisor) = match unit {
            "" | "s" | "sec" => (1, 1),
            "ms" | "msec" => (1, 1_000),
            "us" | "usec" => (1, 1_000_000),
            "ns" | "nsec" => (1, 1_000_000_000),
            "m" | "min" => (60, 1),
            "h" | "hr" | "hour" => (3600, 1),
            "d" | "day" => (86400, 1),
            _ => {
                return Err(ValueError::new(
                    text.len() - unit.len(),
                    format!("expected {what}: no unit `{unit}`"),
                ));
            }
        };
        let nanos = value.checked_mul(multiplier).map(|value| value / divisor);
        let seconds = nanos.and_then(|nanos| u64::try_from(nanos / 1_000_000_000).ok());
        let (Some(nanos), Some(seconds)) = (nanos, seconds) else {
            return Err(ValueError::new(0, format!("`{text}` is too large")));
        };
        Ok(Self::new(seconds, (nanos % 1_000_000_000) as u32))
    }
}

/// A TCP port, by number or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpPort(pub u16);

/// A UDP port, by number or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPort(pub u16);

/// Services that have the same port in TCP and UDP.
const SERVICES: [(&str, u16); 16] = [
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ssh", 22),
    ("time", 37),
    ("domain", 53),
    ("dns", 53),
    ("kerberos", 88),
    ("sunrpc", 111),
    ("ntp", 123),
    ("imap", 143),
    ("snmp", 161),
    ("ldap", 389),
    ("https", 443),
    ("imaps", 993),
];
const TCP_SERVICES: [(&str, u16); 9] = [
    ("ftp-data", 20),
    ("ftp", 21),
    ("telnet", 23),
    ("smtp", 25),
    ("finger", 79),
    ("http", 80),
    ("www", 80),
    ("pop3", 110),
    ("bgp", 179),
];
const UDP_SERVICES: [(&str, u16); 6] =
    [("bootps", 67), ("bootpc", 68), ("tftp", 69), ("syslog", 514), ("route", 520), ("gtpu", 2152)];

fn port(text: &str, names: &Names<'_>, own: &[(&str, u16)], what: &str) -> Result<u16, ValueError> {
    if let Some((_, port)) = SERVICES.iter().chain(own).find(|(name, _)| *name == text) {
        return Ok(*port);
    }
    u16::read(text, names)
        .map_err(|error| ValueError::new(error.at, format!("expected a {what} port, not `{text}`")))
}

impl Value for TcpPort {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        port(text, names, &TCP_SERVICES, "TCP").map(Self)
    }
}

impl Value for UdpPort {
    fn read(text: &str, names: &Names<'_>) -> Result<Self, ValueError> {
        port(text, names, &UDP_SERVICES, "UDP").map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Value>(text: &str) -> Result<T, usize> {
        T::read(text, &Names::none()).map_err(|error| error.at)
    }

    #[test]
    fn bandwidths_are_bytes_a_second() {
        assert_eq!(read("10Mbps"), Ok(Bandwidth(1_250_000)));
        assert_eq!(read("1.5kBps"), Ok(Bandwidth(1500)));
        assert_eq!(read("100 baud"), Ok(Bandwidth(12)));
        assert_eq!(read("384"), Ok(Bandwidth(384)));
        assert_eq!(read("40Gb/s"), Ok(Bandwidth(5_000_000_000)));
        assert_eq!(read::<Bandwidth>("10Mxps"), Err(2));
        assert_eq!(read::<Bandwidth>("10k"), Err(2));
        assert_eq!(read::<Bandwidth>("fast"), Err(0));
        assert_eq!(read::<Bandwidth>("99999999999999999999999999999999GBps"), Err(0));
    }

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(read("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(read("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(read("0.0000015"), Ok(Duration::from_nanos(1500)));
        assert_eq!(read("1.5 min"), Ok(Duration::from_secs(90)));
        assert_eq!(read("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(read::<Duration>("5 weeks"), Err(2));
        assert_eq!(read::<Duration>("-5s"), Err(0));
        assert_eq!(read::<Duration>("1e30"), Err(0));
    }

    #[test]
    fn ports_have_names() {
        assert_eq!(read("http"), Ok(TcpPort(80)));
        assert_eq!(read("2152"), Ok(UdpPort(2152)));
        assert_eq!(read("dns"), Ok(UdpPort(53)));
        assert_eq!(read::<UdpPort>("http"), Err(0));
        assert_eq!(read::<TcpPort>("65536"), Err(0));
    }
}
