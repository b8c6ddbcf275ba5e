//! Parses arguments as values of Click's types.

mod address;
mod address_info;

pub use address::{Mac, Prefix};
pub use address_info::{AddressInfo, Names};

use crate::config_strings::{unquote, words};

/// A type of arguments.
pub trait Value: Sized {
    /// Parses a whole argument, or what follows its keyword. `names` are the names from `AddressInfo` elements that are
    /// visible to the element. `None`: it is no such value.
    fn read(text: &str, names: &Names<'_>) -> Option<Self>;
}

/// Digits without a sign: decimal, octal after `0`, hexadecimal after `0x`.
pub(crate) fn unsigned(text: &str) -> Option<u64> {
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, base).ok().filter(|_| !digits.starts_with('+'))
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            /// Decimal, octal after `0`, hexadecimal after `0x`, with an optional `+`.
            fn read(text: &str, _: &Names<'_>) -> Option<Self> {
                unsigned(text.strip_prefix('+').unwrap_or(text))?.try_into().ok()
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize);

/// A text without its quotes: any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Value for Bytes {
    fn read(text: &str, _: &Names<'_>) -> Option<Self> {
        (words(text).count() == 1).then(|| Self(unquote(text)))
    }
}

/// Bytes per second, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth(pub u64);

impl Value for Bandwidth {
    /// A decimal number and `Bps`, `B/s`, `bps`, `b/s` or `baud`, optionally with `k`, `M` or `G`; bytes per second
    /// without a unit.
    fn read(text: &str, _: &Names<'_>) -> Option<Self> {
        let of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
        let (number, unit) = text.split_at(text.find(|c| !of_number(c)).unwrap_or(text.len()));
        let number: f64 = number.parse().ok().filter(|_| !number.starts_with(['+', '-', 'e', 'E']))?;
        let unit = unit.trim_start();
        let (factor, base) = match unit.as_bytes().first() {
            Some(b'k' | b'K') => (1e3, &unit[1..]),
            Some(b'M') => (1e6, &unit[1..]),
            Some(b'G') => (1e9, &unit[1..]),
            _ => (1.0, unit),
        };
        let divisor = match base {
            "Bps" | "B/s" => 1.0,
            "" if unit.is_empty() => 1.0,
            "bps" | "b/s" | "baud" => 8.0,
            _ => return None,
        };
        // A decimal fraction such as 0.29 is a little less than it says.
        let rate = number * factor / divisor * (1.0 + 4.0 * f64::EPSILON);
        #[expect(clippy::cast_sign_loss, reason = "a rate has no sign")]
        (rate < u64::MAX as f64).then_some(Self(rate as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn read<T: Value>(text: &str) -> Option<T> {
        T::read(text, &Names::none())
    }

    #[test]
    fn integers_have_three_bases_and_stay_in_range() {
        for (text, expected) in [
            ("10", Some(10)),
            ("+017", Some(15)),
            ("0x1F", Some(31)),
            ("0", Some(0)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("99999999999999999999999", None),
            ("", None),
            ("0x", None),
            ("09", None),
            ("12a", None),
            ("12 3", None),
            ("++1", None),
            ("-1", None),
            ("é", None),
        ] {
            assert_eq!(read::<u32>(text), expected, "{text}");
        }
        assert_eq!((read::<u8>("255"), read::<u8>("256")), (Some(255), None));
    }

    #[test]
    fn a_string_loses_its_quotes() {
        assert_eq!(read("'a b'\"\\n\""), Some(Bytes(b"a b\n".to_vec())));
        assert_eq!(read("\\<ff00>"), Some(Bytes(vec![0xff, 0])));
        assert_eq!(read("\"\""), Some(Bytes(Vec::new())));
        assert_eq!((read::<Bytes>("a b"), read::<Bytes>("")), (None, None));
    }

    #[test]
    fn bandwidths_are_bytes_per_second() {
        for (text, expected) in [
            ("10Mbps", Some(1_250_000)),
            ("1.5kBps", Some(1500)),
            ("0.29kBps", Some(290)),
            ("100 baud", Some(12)),
            ("384", Some(384)),
            ("2e3", Some(2000)),
            ("40Gb/s", Some(5_000_000_000)),
            ("10Mxps", None),
            ("10k", None),
            ("fast", None),
            ("-5", None),
            ("99999999999999999999999999999999GBps", None),
        ] {
            assert_eq!(read(text), expected.map(Bandwidth), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_argument_is_read_or_refused(text in "[0-9a-fA-F.:/xsMKGkbpsiB+é '\"\\\\<>-]{0,20}") {
            let names = Names::none();
            let _ = (u32::read(&text, &names), Bytes::read(&text, &names), Bandwidth::read(&text, &names));
            let _ = (Mac::read(&text, &names), Prefix::read(&text, &names));
            let _ = (Ipv4Addr::read(&text, &names), Ipv6Addr::read(&text, &names));
        }
    }
}
