//! Keys: addresses, ports, protocol and zone of a packet, as words.
#![allow(unsafe_code, reason = "keys are made of words, which may be zero")]

use super::signature::{Address, keyed_pair, keyed_quintet};
use crate::hashing::{PAIRS, hash_pairs};
use crate::huge::Zeroable;
use crate::isa::AvailableIsa;
use scalebricks_types::{FiveTuple, KeyHasher};
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The direction of a packet: whether it goes as the first packet of its session went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// As the first packet. Also all packets of a session whose two ends are equal.
    Forward,
    /// Against the first packet.
    Reverse,
}

impl Direction {
    /// The other direction.
    #[inline(always)]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }

    /// 0 forward, 1 reverse: the index of values that a record has by direction.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A session's key as one of its packets has it. Both directions of a session have the same [hash](super::FlowHash).
///
/// Not to be confused with [`scalebricks_types::FlowKey`], which has one direction and no zone.
pub trait FlowKey: Copy + Eq + Hash + Debug + Send + Sync + Zeroable + 'static {
    /// The type of its addresses.
    type Address: Address;

    /// The key of all zeros: unused memory.
    const ZERO: Self;

    /// Source address.
    fn source(&self) -> Self::Address;

    /// Destination address.
    fn destination(&self) -> Self::Address;

    /// Source port; 0 for protocols without ports.
    fn source_port(&self) -> u16;

    /// Destination port; 0 for protocols without ports.
    fn destination_port(&self) -> u16;

    /// IP protocol number.
    fn protocol(&self) -> u8;

    /// The zone: keeps equal addresses of different networks apart. 0 where there is one network.
    fn zone(&self) -> u16;

    /// The key of the packets that go the other way.
    fn reversed(&self) -> Self;

    /// The direction of a packet with key `packet`, if it belongs to the session whose first packet had this key.
    #[inline(always)]
    fn direction_of(&self, packet: &Self) -> Option<Direction> {
        if self == packet {
            Some(Direction::Forward)
        } else if *self == packet.reversed() {
            Some(Direction::Reverse)
        } else {
            None
        }
    }

    /// The keyed hash of the session: equal for both directions.
    fn keyed_hash(&self, hasher: &KeyHasher) -> u64;

    /// The keyed hashes of up to 16 sessions, by the vector unit where it can; those behind the last key are of no meaning.
    #[doc(hidden)]
    #[inline]
    fn keyed_hashes(keys: &[Self], hasher: &KeyHasher, _: HashIsa) -> [u64; PAIRS] {
        let mut hashes = [0; PAIRS];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.keyed_hash(hasher);
        }
        hashes
    }
}

/// The instructions that hashes are computed with.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct HashIsa(pub(super) AvailableIsa);

/// A key with IPv4 addresses: 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key4 {
    /// Source in the upper half, destination in the lower.
    addresses: u64,
    /// Source port, destination port, zone (16 bits each), protocol (8 bits), from the top.
    rest: u64,
}

/// A key with IPv6 addresses: 40 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key6 {
    /// High and low half of the source.
    source: [u64; 2],
    /// High and low half of the destination.
    destination: [u64; 2],
    /// As in [`Key4`].
    rest: u64,
}

// SAFETY: words, for which zero is a valid value.
unsafe impl Zeroable for Key4 {}
// SAFETY: as above.
unsafe impl Zeroable for Key6 {}

/// Ports, zone and protocol as a word.
const fn rest(protocol: u8, source_port: u16, destination_port: u16, zone: u16) -> u64 {
    (source_port as u64) << 48 | (destination_port as u64) << 32 | (zone as u64) << 16 | protocol as u64
}

/// This word with its ports exchanged.
#[inline(always)]
const fn with_ports_swapped(rest: u64) -> u64 {
    (rest >> 48) << 32 | (rest >> 32 & 0xFFFF) << 48 | rest & 0xFFFF_FFFF
}

impl Key4 {
    /// The key of a packet.
    #[inline]
    pub const fn new(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        source_port: u16,
        destination_port: u16,
        zone: u16,
    ) -> Self {
        let addresses = (source.to_bits() as u64) << 32 | destination.to_bits() as u64;
        Self { addresses, rest: rest(protocol, source_port, destination_port, zone) }
    }

    /// The key of a tuple, or `None` if one of its addresses is IPv6.
    #[inline]
    pub const fn of(tuple: &FiveTuple, zone: u16) -> Option<Self> {
        match (tuple.src, tuple.dst) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Some(Self::new(source, destination, tuple.protocol, tuple.src_port, tuple.dst_port, zone))
            }
            _ => None,
        }
    }

    /// The two words whose hash is the session's, equal for both directions: an end (address and port) and the zone;
    /// the other end and the protocol. The smaller end comes first, and the flag says whether that is the
    /// destination. Tables that know no directions can store these words as keys.
    #[inline(always)]
    pub const fn canonical(&self) -> ([u64; 2], bool) {
        let source = (self.addresses >> 32) << 16 | self.rest >> 48;
        let destination = (self.addresses & 0xFFFF_FFFF) << 16 | (self.rest >> 32 & 0xFFFF);
        let is_swapped = destination < source;
        let (low, high) = if is_swapped { (destination, source) } else { (source, destination) };
        ([low << 16 | (self.rest >> 16 & 0xFFFF), high << 16 | self.rest & 0xFF], is_swapped)
    }
}

impl Key6 {
    /// The key of a packet.
    #[inline]
    pub const fn new(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: u8,
        source_port: u16,
        destination_port: u16,
        zone: u16,
    ) -> Self {
        Self {
            source: halves(source.to_bits()),
            destination: halves(destination.to_bits()),
            rest: rest(protocol, source_port, destination_port, zone),
        }
    }

    /// The key of a tuple, or `None` if one of its addresses is IPv4.
    #[inline]
    pub const fn of(tuple: &FiveTuple, zone: u16) -> Option<Self> {
        match (tuple.src, tuple.dst) {
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Some(Self::new(source, destination, tuple.protocol, tuple.src_port, tuple.dst_port, zone))
            }
            _ => None,
        }
    }
}

#[inline(always)]
const fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

#[inline(always)]
const fn joined([high, low]: [u64; 2]) -> u128 {
    (high as u128) << 64 | low as u128
}

/// The getters that read the word that both sizes have.
macro_rules! rest_getters {
    () => {
        #[inline(always)]
        fn source_port(&self) -> u16 {
            (self.rest >> 48) as u16
        }

        #[inline(always)]
        fn destination_port(&self) -> u16 {
            (self.rest >> 32) as u16
        }

        #[inline(always)]
        fn protocol(&self) -> u8 {
            self.rest as u8
        }

        #[inline(always)]
        fn zone(&self) -> u16 {
            (self.rest >> 16) as u16
        }
    };
}

impl FlowKey for Key4 {
    type Address = u32;

    const ZERO: Self = Self { addresses: 0, rest: 0 };

    #[inline(always)]
    fn source(&self) -> u32 {
        (self.addresses >> 32) as u32
    }

    #[inline(always)]
    fn destination(&self) -> u32 {
        self.addresses as u32
    }

    rest_getters!();

    #[inline(always)]
    fn reversed(&self) -> Self {
        Self { addresses: self.addresses.rotate_left(32), rest: with_ports_swapped(self.rest) }
    }

    /// `SipHash` of the [canonical](Key4::canonical) words.
    #[inline(always)]
    fn keyed_hash(&self, hasher: &KeyHasher) -> u64 {
        keyed_pair(hasher, self.canonical().0)
    }

    #[inline]
    fn keyed_hashes(keys: &[Self], hasher: &KeyHasher, isa: HashIsa) -> [u64; PAIRS] {
        let mut words = [[0; 2]; PAIRS];
        for (words, key) in words.iter_mut().zip(keys) {
            *words = key.canonical().0;
        }
        hash_pairs(hasher, isa.0, &words, keys.len())
    }
}

impl FlowKey for Key6 {
    type Address = u128;

    const ZERO: Self = Self { source: [0; 2], destination: [0; 2], rest: 0 };

    #[inline(always)]
    fn source(&self) -> u128 {
        joined(self.source)
    }

    #[inline(always)]
    fn destination(&self) -> u128 {
        joined(self.destination)
    }

    rest_getters!();

    #[inline(always)]
    fn reversed(&self) -> Self {
        Self { source: self.destination, destination: self.source, rest: with_ports_swapped(self.rest) }
    }

    /// `SipHash` of the five words of this key or of its reverse: that with the smaller end first.
    #[inline(always)]
    fn keyed_hash(&self, hasher: &KeyHasher) -> u64 {
        let reverse = self.reversed();
        let source = (self.source, self.source_port());
        let first = if source <= (self.destination, self.destination_port()) { self } else { &reverse };
        let ([a, b], [c, d]) = (first.source, first.destination);
        keyed_quintet(hasher, [a, b, c, d, first.rest])
    }
}

/// Writes a key as a packet's: ends with ports, protocol, zone.
fn write<K: FlowKey>(
    key: &K,
    source: IpAddr,
    destination: IpAddr,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let (from, to) = (key.source_port(), key.destination_port());
    write!(f, "{source} port {from} to {destination} port {to}, protocol {}", key.protocol())?;
    if key.zone() > 0 {
        write!(f, ", zone {}", key.zone())?;
    }
    Ok(())
}

impl Debug for Key4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [source, destination] =
            [self.source(), self.destination()].map(|bits| Ipv4Addr::from_bits(bits).into());
        write(self, source, destination, f)
    }
}

impl Debug for Key6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [source, destination] =
            [self.source(), self.destination()].map(|bits| Ipv6Addr::from_bits(bits).into());
        write(self, source, destination, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn fields_are_those_given_and_the_reverse_swaps_the_ends(a: u128, b: u128, protocol: u8, p: u16, q: u16, zone: u16) {
            let key = Key6::new(a.into(), b.into(), protocol, p, q, zone);
            let fields = |key: &Key6| (key.source(), key.destination(), key.source_port(), key.destination_port());
            prop_assert_eq!(fields(&key), (a, b, p, q));
            prop_assert_eq!(fields(&key.reversed()), (b, a, q, p));
            let (a, b) = (a as u32, b as u32);
            let short = Key4::new(a.into(), b.into(), protocol, p, q, zone);
            let fields = |key: &Key4| (key.source(), key.destination(), key.source_port(), key.destination_port());
            prop_assert_eq!(fields(&short), (a, b, p, q));
            prop_assert_eq!(fields(&short.reversed()), (b, a, q, p));
            for (key, other) in [(key.protocol(), short.protocol()), (key.reversed().protocol(), short.reversed().protocol())] {
                prop_assert_eq!((key, other), (protocol, protocol));
            }
            prop_assert_eq!((key.zone(), short.zone(), short.reversed().zone()), (zone, zone, zone));
            prop_assert_eq!(short.direction_of(&short), Some(Direction::Forward));
            let expected = if (a, p) == (b, q) { Direction::Forward } else { Direction::Reverse };
            prop_assert_eq!(short.direction_of(&short.reversed()), Some(expected));
            let (words, is_swapped) = short.canonical();
            prop_assert_eq!(short.reversed().canonical().0, words);
            prop_assert_eq!(is_swapped, (b, q) < (a, p));
            let end = |word: u64| ((word >> 32) as u32, (word >> 16) as u16);
            let ends = if is_swapped { [(b, q), (a, p)] } else { [(a, p), (b, q)] };
            prop_assert_eq!(words.map(end), ends);
            prop_assert_eq!(words.map(|word| word as u16), [zone, u16::from(protocol)]);
            let other = Key4::new(a.into(), b.into(), protocol, p, q, zone ^ 1);
            prop_assert_eq!(short.direction_of(&other), None);
        }
    }

    #[test]
    fn sizes_are_those_of_the_docs_and_text_is_readable() {
        assert_eq!((size_of::<Key4>(), size_of::<Key6>()), (16, 40));
        let key = Key4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 7), 6, 1234, 80, 3);
        assert_eq!(format!("{key:?}"), "10.0.0.1 port 1234 to 192.0.2.7 port 80, protocol 6, zone 3");
        let tuple = FiveTuple {
            src: Ipv6Addr::LOCALHOST.into(),
            dst: Ipv6Addr::UNSPECIFIED.into(),
            protocol: 17,
            src_port: 1,
            dst_port: 2,
        };
        assert_eq!(format!("{:?}", Key6::of(&tuple, 0).unwrap()), "::1 port 1 to :: port 2, protocol 17");
        assert_eq!(Key4::of(&tuple, 0), None);
    }
}
