//! Addresses as bits, and their prefixes.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

mod sealed {
    /// The bits of an address as one number. Numbers have the same order as addresses.
    pub trait AddressBits: Copy + Ord + std::fmt::Debug + Send + Sync + 'static {
        /// Number of bits.
        const LEN: u8;

        /// The address with all bits after the first `length` cleared.
        fn network(self, length: u8) -> Self;

        /// The address with all bits after the first `length` set.
        fn last(self, length: u8) -> Self;

        /// The first `bits` as a number; from 1 to 24.
        fn root(self, bits: u8) -> usize;

        /// The eight bits from bit `base` on, padded with zeros after the last bit; `base` is below
        /// [`LEN`](Self::LEN).
        fn byte(self, base: u8) -> usize;

        /// Replaces the eight bits from `base` on, and clears all bits after them. `None` if the number has
        /// bits after the last bit of the address.
        fn with_byte(self, base: u8, byte: usize) -> Option<Self>;

        /// How many leading bits two addresses share.
        fn common(self, other: Self) -> u8;

        /// The previous address. This must not be the first address.
        fn before(self) -> Self;

        /// The next address, unless this is the last.
        fn after(self) -> Option<Self>;
    }

    macro_rules! bits {
        ($($number:ty)+) => {
            $(impl AddressBits for $number {
                const LEN: u8 = <$number>::BITS as u8;

                #[inline(always)]
                fn network(self, length: u8) -> Self {
                    self & !<$number>::MAX.checked_shr(length.into()).unwrap_or(0)
                }

                #[inline(always)]
                fn last(self, length: u8) -> Self {
                    self | <$number>::MAX.checked_shr(length.into()).unwrap_or(0)
                }

                #[inline(always)]
                fn root(self, bits: u8) -> usize {
                    (self >> (Self::LEN - bits)) as usize
                }

                #[inline(always)]
                fn byte(self, base: u8) -> usize {
                    ((self << base) >> (Self::LEN - 8)) as usize
                }

                fn with_byte(self, base: u8, byte: usize) -> Option<Self> {
                    let number = (byte as $number) << (Self::LEN - 8);
                    let kept = (number >> base) << base == number;
                    kept.then(|| self.network(base) | number >> base)
                }

                fn common(self, other: Self) -> u8 {
                    (self ^ other).leading_zeros() as u8 // at most 128
                }

                fn before(self) -> Self {
                    self - 1
                }

                fn after(self) -> Option<Self> {
                    self.checked_add(1)
                }
            })+
        };
    }

    bits! { u32 u128 }
}

pub(super) use sealed::AddressBits;

/// An address of one of the two families.
pub trait Address: Copy + Ord + fmt::Debug + fmt::Display + FromStr + Send + Sync + 'static {
    /// The type of its bits as a number.
    #[doc(hidden)]
    type Bits: AddressBits;

    /// Number of bits.
    const BITS: u8;

    /// Its bits as a number; the first bit is the highest.
    fn bits(self) -> Self::Bits;

    /// The address with these bits.
    fn of_bits(bits: Self::Bits) -> Self;

    /// The first `bits` as a number; from 1 to 24.
    #[doc(hidden)]
    #[inline(always)]
    fn root(self, bits: u8) -> usize {
        self.bits().root(bits)
    }

    /// The octet with this index, below [`BITS`](Self::BITS)` / 8`.
    #[doc(hidden)]
    fn octet(self, index: usize) -> usize;

    /// The eight bits from bit `base` on, padded with zeros after the last bit; `base` is below
    /// [`BITS`](Self::BITS).
    #[doc(hidden)]
    #[inline(always)]
    fn byte(self, base: u8) -> usize {
        self.bits().byte(base)
    }
}

impl Address for Ipv4Addr {
    type Bits = u32;
    const BITS: u8 = 32;

    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn of_bits(bits: u32) -> Self {
        Self::from_bits(bits)
    }

    #[inline(always)]
    fn octet(self, index: usize) -> usize {
        self.octets()[index % 4].into()
    }
}

impl Address for Ipv6Addr {
    type Bits = u128;
    const BITS: u8 = 128;

    #[inline(always)]
    fn bits(self) -> u128 {
        self.to_bits()
    }

    fn of_bits(bits: u128) -> Self {
        Self::from_bits(bits)
    }

    #[inline(always)]
    fn octet(self, index: usize) -> usize {
        self.octets()[index % 16].into()
    }

    // Reads one word of the octets instead of byte-swapping and shifting 128 bits.
    #[inline(always)]
    fn root(self, bits: u8) -> usize {
        let [a, b, c, d, ..] = self.octets();
        (u32::from_be_bytes([a, b, c, d]) >> (32 - bits)) as usize
    }

    #[inline(always)]
    fn byte(self, base: u8) -> usize {
        let octets = self.octets();
        let first = usize::from(base / 8).min(octets.len() - 2);
        let two = u32::from(octets[first]) << 8 | u32::from(octets[first + 1]);
        (two << (usize::from(base) - 8 * first) >> 8 & 0xFF) as usize
    }
}

/// Why a prefix is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// It is longer than an address.
    #[error("a prefix of {length} bits, where an address has {most}")]
    Length {
        /// Its length.
        length: u8,
        /// Number of bits of an address.
        most: u8,
    },
    /// Bits after the prefix are set.
    #[error("{address}/{length} has bits behind the prefix")]
    HostBits {
        /// The address.
        address: String,
        /// The length.
        length: u8,
    },
    /// The text is not an address, a slash and a length.
    #[error("{0:?} is no prefix such as 192.0.2.0/24 or 2001:db8::/32")]
    Text(String),
}

/// A network: the first bits of addresses. Ordered by address, then shorter prefixes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    address: A,
    length: u8,
}

impl<A: Address> Prefix<A> {
    /// The prefix of an address whose other bits are 0.
    ///
    /// # Errors
    /// [`PrefixError::Length`], [`PrefixError::HostBits`].
    pub fn new(address: A, length: u8) -> Result<Self, PrefixError> {
        let prefix = Self::of(address, length)?;
        if prefix.address == address {
            Ok(prefix)
        } else {
            Err(PrefixError::HostBits { address: address.to_string(), length })
        }
    }

    /// The prefix of this length that contains an address.
    ///
    /// # Errors
    /// [`PrefixError::Length`].
    pub fn of(address: A, length: u8) -> Result<Self, PrefixError> {
        if length > A::BITS {
            return Err(PrefixError::Length { length, most: A::BITS });
        }
        Ok(Self { address: A::of_bits(address.bits().network(length)), length })
    }

    /// The first address in it.
    pub const fn address(self) -> A {
        self.address
    }

    /// Its length in bits.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether an address is in it.
    pub fn contains(self, address: A) -> bool {
        address.bits().network(self.length) == self.address.bits()
    }

    /// The key under which it is stored.
    pub(super) fn key(self) -> (A::Bits, u8) {
        (self.address.bits(), self.length)
    }

    pub(super) fn of_key((bits, length): (A::Bits, u8)) -> Self {
        Self { address: A::of_bits(bits), length }
    }
}

impl<A: fmt::Display> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl<A: Address> FromStr for Prefix<A> {
    type Err = PrefixError;

    /// Parses a prefix such as `192.0.2.0/24` or `2001:db8::/32`.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let wrong = || PrefixError::Text(text.to_owned());
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
        Self::new(address.parse().map_err(|_| wrong())?, length)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_cut_at_both_ends_of_an_address() {
        let bits = 0xC0A8_01FF_u32;
        assert_eq!([bits.network(0), bits.network(9), bits.network(32)], [0, 0xC080_0000, bits]);
        assert_eq!([bits.last(0), bits.last(24), bits.last(32)], [u32::MAX, bits, bits]);
        assert_eq!([bits.root(1), bits.root(16), bits.root(24)], [1, 0xC0A8, 0xC0_A801]);
        assert_eq!([bits.byte(0), bits.byte(8), bits.byte(25)], [0xC0, 0xA8, 0xFE]);
        let address = Ipv4Addr::from_bits(bits);
        (0..4).for_each(|index| assert_eq!(address.octet(index), bits.byte(8 * index as u8)));
        assert_eq!(bits.with_byte(25, 0x82), Some(0xC0A8_01C1));
        assert_eq!(bits.with_byte(25, 1), None, "a bit behind the last");
        assert_eq!(bits.with_byte(8, 1), Some(0xC001_0000));
        assert_eq!([bits.common(bits), bits.common(0xC0A8_0100)], [32, 24]);
        assert_eq!((0xFFu128 << 120).byte(0), 0xFF);
        for bits in [0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10, u128::MAX, 1, 0x5A << 60, u128::MAX << 100] {
            let address = Ipv6Addr::from_bits(bits);
            (1..=24).for_each(|length| assert_eq!(address.root(length), bits.root(length)));
            (0..128).for_each(|base| assert_eq!(address.byte(base), bits.byte(base), "from bit {base}"));
            (0..16).for_each(|index| assert_eq!(address.octet(index), bits.byte(8 * index as u8)));
        }
        assert_eq!((u128::MAX.network(0), u128::MAX.network(128), 0u128.last(0)), (0, u128::MAX, u128::MAX));
    }

    #[test]
    fn prefixes_are_read_and_checked() {
        let read = |text: &str| text.parse::<Prefix<Ipv4Addr>>();
        let prefix = read("192.0.2.0/24").unwrap();
        assert_eq!((prefix.to_string(), prefix.length()), ("192.0.2.0/24".into(), 24));
        assert!(
            prefix.contains(Ipv4Addr::new(192, 0, 2, 255)) && !prefix.contains(Ipv4Addr::new(192, 0, 3, 0))
        );
        assert!(read("0.0.0.0/0").unwrap().contains(Ipv4Addr::BROADCAST));
        assert!(matches!(read("192.0.2.1/24"), Err(PrefixError::HostBits { length: 24, .. })));
        assert_eq!(read("192.0.2.1/33"), Err(PrefixError::Length { length: 33, most: 32 }));
        for wrong in
            ["", "/", "192.0.2.0", "192.0.2/24", "192.0.2.0/+4", "192.0.2.0/", "192.0.2.0/256", "::/0"]
        {
            assert!(matches!(read(wrong), Err(PrefixError::Text(_))), "{wrong}");
        }
        let six: Prefix<Ipv6Addr> = "2001:db8::/32".parse().unwrap();
        assert!(
            six.contains("2001:db8:ffff::".parse().unwrap()) && !six.contains("2001:db9::".parse().unwrap())
        );
        assert_eq!(Prefix::of(Ipv4Addr::new(10, 1, 2, 3), 8).unwrap(), read("10.0.0.0/8").unwrap());
    }
}
