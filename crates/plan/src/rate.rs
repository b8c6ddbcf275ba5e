//! Rates and network cards.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Units that a rate may have, the largest first.
const UNITS: [(char, u64); 4] =
    [('T', 1_000_000_000_000), ('G', 1_000_000_000), ('M', 1_000_000), ('K', 1_000)];

/// The highest rate: 1 Pb/s. Products of rates and counts of a plan fit `u128` with room to spare.
const MAX_BITS_PER_SECOND: u64 = 1_000_000_000_000_000;

/// A rate of a port or server, at least 1 b/s and at most 1 Pb/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// Why a text is no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a rate; write a number above 0 and K, M, G or T for bits per second, such as 10G or 2.5G, up to 1000T"
)]
pub struct RateError(String);

impl Rate {
    /// A rate in bits per second.
    ///
    /// # Errors
    /// [`RateError`] outside of 1 b/s to 1 Pb/s.
    pub fn new(bits_per_second: u64) -> Result<Self, RateError> {
        if (1..=MAX_BITS_PER_SECOND).contains(&bits_per_second) {
            Ok(Self(bits_per_second))
        } else {
            Err(RateError(bits_per_second.to_string()))
        }
    }

    /// A constant number of Gb/s, 1 to 1,000,000; others are brought into this range.
    pub const fn gigabits(count: u32) -> Self {
        let count = if count == 0 { 1 } else { count };
        let bits = count as u64 * 1_000_000_000;
        Self(if bits > MAX_BITS_PER_SECOND { MAX_BITS_PER_SECOND } else { bits })
    }

    /// Bits per second.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let wrong = || RateError(text.to_owned());
        let last = text.chars().last().ok_or_else(wrong)?;
        let unit = UNITS.iter().find(|(name, _)| *name == last.to_ascii_uppercase());
        let (number, unit) = match unit {
            Some((_, unit)) => (&text[..text.len() - 1], *unit),
            None => (text, 1),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.len() <= 16 && part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty()
            || !digits(whole)
            || !digits(fraction)
            || (number.contains('.') && fraction.is_empty())
        {
            return Err(wrong());
        }
        let whole: u128 = whole.parse().map_err(|_| wrong())?;
        let mut bits = whole * u128::from(unit);
        if !fraction.is_empty() {
            let scale = 10_u128.pow(fraction.len() as u32);
            bits += fraction.parse::<u128>().map_err(|_| wrong())? * u128::from(unit) / scale;
        }
        u64::try_from(bits).ok().and_then(|bits| Self::new(bits).ok()).ok_or_else(wrong)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", bits_per_second(u128::from(self.0)))
    }
}

impl Serialize for Rate {
    /// Bits per second.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

/// Bits per second with a unit and up to three decimals, rounded up, so that a shown demand is never too low.
pub fn bits_per_second(bits: u128) -> String {
    let (name, unit) = UNITS
        .iter()
        .find(|(_, unit)| bits >= u128::from(*unit))
        .map_or((String::new(), 1), |(name, unit)| (name.to_string(), u128::from(*unit)));
    let thousandths = (bits * 1_000).div_ceil(unit);
    let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
    let decimals = format!("{whole}.{rest:03}");
    format!("{} {name}b/s", decimals.trim_end_matches('0').trim_end_matches('.'))
}

/// A network card: a number of ports of one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// Its ports, 1 to 128.
    pub ports: u32,
    /// The rate of each.
    pub rate: Rate,
}

/// The most ports of a card.
pub const MAX_NIC_PORTS: u32 = 128;

/// Why a text is no network card.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    /// No `x`, or no number of ports from 1 to 128 before it.
    #[error(
        "`{0}` is not a network card; write ports and rate, such as 2x10G, with 1 to {MAX_NIC_PORTS} ports"
    )]
    Ports(String),
    /// The rate is none.
    #[error("network card `{0}`: {1}")]
    Rate(String, RateError),
}

impl FromStr for Nic {
    type Err = NicError;

    fn from_str(text: &str) -> Result<Self, NicError> {
        let wrong = || NicError::Ports(text.to_owned());
        let (ports, rate) = text.split_once('x').ok_or_else(wrong)?;
        let ports: u32 = ports.parse().map_err(|_| wrong())?;
        if !(1..=MAX_NIC_PORTS).contains(&ports) {
            return Err(wrong());
        }
        let rate = rate.parse().map_err(|error| NicError::Rate(text.to_owned(), error))?;
        Ok(Self { ports, rate })
    }
}

impl fmt::Display for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.ports, self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_have_units() {
        for (text, bits) in
            [("10G", 10_000_000_000), ("2.5g", 2_500_000_000), ("1", 1), ("1.2T", 1_200_000_000_000)]
        {
            assert_eq!(text.parse::<Rate>().map(Rate::bits), Ok(bits), "{text}");
        }
        for text in
            ["", "G", "0G", "-1G", "1e3", "1.G", ".5G", "10Gé", "1001T", "99999999999999999G", "é", "1 G"]
        {
            assert_eq!(text.parse::<Rate>(), Err(RateError(text.to_owned())), "{text}");
        }
        assert_eq!(Rate::gigabits(10).to_string(), "10 Gb/s");
        assert_eq!(bits_per_second(312_500_000), "312.5 Mb/s");
        assert_eq!(bits_per_second(1_000_000_001), "1.001 Gb/s");
        assert_eq!(bits_per_second(7), "7 b/s");
    }

    #[test]
    fn cards_have_ports() {
        assert_eq!("8x1G".parse(), Ok(Nic { ports: 8, rate: Rate::gigabits(1) }));
        for text in ["8", "0x1G", "129x1G", "x1G", "8x", "8x0G", "1G x8"] {
            assert!(text.parse::<Nic>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            drop(text.parse::<Rate>());
            drop(text.parse::<Nic>());
        }

        #[test]
        fn whole_numbers_are_exact(count in 1_u32..=1_000_000) {
            prop_assert_eq!(format!("{count}M").parse::<Rate>().map(Rate::bits), Ok(u64::from(count) * 1_000_000));
        }
    }
}
