//! Flow keys: what identifies a flow, as fixed-size words that tables compare without knowing what is inside.
//!
//! Every key begins with a *domain* octet, so a TEID never equals a UE address, whatever its bits, and no key is
//! all zeros (tables use the all-zero key for "empty slot").

use crate::Teid;
use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A key of up to 15 octets and its domain: IPv4 five-tuples, UE addresses, TEIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, BorshSerialize)]
pub struct Key16([u64; 2]);

/// A key of up to 39 octets and its domain: IPv6 five-tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, BorshSerialize)]
pub struct Key40([u64; 5]);

macro_rules! words {
    ($key:ident, $n:literal) => {
        impl $key {
            /// The key as words; the first octet in memory order is the domain, never 0.
            #[inline]
            pub const fn words(&self) -> &[u64; $n] {
                &self.0
            }

            /// The key made of these words, as read back from a table or an update.
            #[inline]
            pub const fn from_words(words: [u64; $n]) -> Self {
                Self(words)
            }
        }

        impl BorshDeserialize for $key {
            fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
                let words = <[u64; $n]>::deserialize_reader(reader)?;
                if words[0] as u8 == 0 {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a key without a domain"));
                }
                Ok(Self(words))
            }
        }
    };
}
words!(Key16, 2);
words!(Key40, 5);

/// Domain octets. They are part of the hashed key and of snapshots: never renumber.
mod domain {
    pub(super) const FIVE_TUPLE_V4: u8 = 1;
    pub(super) const FIVE_TUPLE_V6: u8 = 2;
    pub(super) const UE_V4: u8 = 3;
    pub(super) const UE_V6: u8 = 4;
    pub(super) const TEID: u8 = 5;
    pub(super) const PORT_BLOCK: u8 = 6;
}

/// Source, destination, protocol and ports of a packet, as seen on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FiveTuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address; of the same family as the source, else the tuple has no key.
    pub dst: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Source port; 0 for protocols without ports.
    pub src_port: u16,
    /// Destination port; 0 for protocols without ports.
    pub dst_port: u16,
}

impl FiveTuple {
    /// The tuple of the packets that flow the other way.
    pub const fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..self }
    }
}

/// The key of a flow, in one of two sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub enum FlowKey {
    /// Fits 16 octets.
    Short(Key16),
    /// Fits 40 octets.
    Long(Key40),
}

impl FlowKey {
    /// The key of an IPv4 five-tuple.
    #[inline]
    pub fn five_tuple_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, src_port: u16, dst_port: u16) -> Self {
        let head = u64::from_le_bytes([domain::FIVE_TUPLE_V4, protocol, 0, 0, 0, 0, 0, 0])
            | u64::from(src_port) << 32
            | u64::from(dst_port) << 48;
        let addresses = u64::from(src.to_bits()) | u64::from(dst.to_bits()) << 32;
        Self::Short(Key16([head, addresses]))
    }

    /// The key of an IPv6 five-tuple.
    #[inline]
    pub fn five_tuple_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, src_port: u16, dst_port: u16) -> Self {
        let head = u64::from_le_bytes([domain::FIVE_TUPLE_V6, protocol, 0, 0, 0, 0, 0, 0])
            | u64::from(src_port) << 32
            | u64::from(dst_port) << 48;
        let (src, dst) = (src.to_bits(), dst.to_bits());
        Self::Long(Key40([head, (src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64]))
    }

    /// The key of a five-tuple, or `None` if its addresses are of two families.
    #[inline]
    pub fn five_tuple(t: &FiveTuple) -> Option<Self> {
        match (t.src, t.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Some(Self::five_tuple_v4(src, dst, t.protocol, t.src_port, t.dst_port))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Some(Self::five_tuple_v6(src, dst, t.protocol, t.src_port, t.dst_port))
            }
            _ => None,
        }
    }

    /// The key of a UE: its IPv4 address, or the /64 prefix of its IPv6 address (TS 23.401 §5.3.1.2.2: a UE is
    /// given a whole /64).
    #[inline]
    pub fn ue(address: IpAddr) -> Self {
        let words = match address {
            IpAddr::V4(a) => [u64::from(domain::UE_V4), u64::from(a.to_bits())],
            IpAddr::V6(a) => [u64::from(domain::UE_V6), (a.to_bits() >> 64) as u64],
        };
        Self::Short(Key16(words))
    }

    /// The key of upstream traffic in a tunnel that ends at this cluster, in a hash domain of its own.
    #[inline]
    pub const fn teid(teid: Teid) -> Self {
        Self::Short(Key16([domain::TEID as u64, teid.get() as u64]))
    }

    /// The key of packets from an inside host of a firewall or NAT. Its address is the number of its upstream traffic, as
    /// the TEID is that of a tunnel's; a cluster has one of the two.
    #[inline]
    pub const fn inside(address: Ipv4Addr) -> Self {
        Self::teid(Teid::new(address.to_bits()))
    }

    /// The key of packets from outside to a block of ports of a NAT's public address.
    #[inline]
    pub const fn port_block(public: Ipv4Addr, block: u16) -> Self {
        Self::Short(Key16([domain::PORT_BLOCK as u64, public.to_bits() as u64 | (block as u64) << 32]))
    }

    /// Whether it is the key of upstream traffic.
    #[inline]
    pub const fn is_teid(&self) -> bool {
        matches!(self, Self::Short(Key16([head, _])) if *head == domain::TEID as u64)
    }
}

/// What a key is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyParts {
    /// A five-tuple.
    FiveTuple(FiveTuple),
    /// A UE: its IPv4 address, or its /64 with an interface identifier of zeros.
    Ue(IpAddr),
    /// A tunnel that ends at this cluster, or an inside host of a firewall or NAT by its address.
    Teid(Teid),
    /// A block of ports of a NAT: the public address and the number of the block.
    PortBlock(Ipv4Addr, u16),
}

impl FlowKey {
    /// What the key is made of; `None` for words that no constructor makes. Whatever it is made of leads to this key again.
    pub fn parts(&self) -> Option<KeyParts> {
        let octets = |head: u64| {
            let [domain, protocol, ..] = head.to_le_bytes();
            (domain, protocol, (head >> 32) as u16, (head >> 48) as u16)
        };
        let (parts, made) = match *self {
            Self::Short(Key16([head, word])) => {
                let (domain, protocol, src_port, dst_port) = octets(head);
                match domain {
                    domain::FIVE_TUPLE_V4 => {
                        let [src, dst] =
                            [word as u32, (word >> 32) as u32].map(|bits| IpAddr::V4(bits.into()));
                        let tuple = FiveTuple { src, dst, protocol, src_port, dst_port };
                        (KeyParts::FiveTuple(tuple), Self::five_tuple(&tuple)?)
                    }
                    domain::UE_V4 => {
                        let ue = IpAddr::V4((word as u32).into());
                        (KeyParts::Ue(ue), Self::ue(ue))
                    }
                    domain::UE_V6 => {
                        let ue = IpAddr::V6((u128::from(word) << 64).into());
                        (KeyParts::Ue(ue), Self::ue(ue))
                    }
                    domain::TEID => {
                        let teid = Teid::new(word as u32);
                        (KeyParts::Teid(teid), Self::teid(teid))
                    }
                    domain::PORT_BLOCK => {
                        let (public, block) = (Ipv4Addr::from_bits(word as u32), (word >> 32) as u16);
                        (KeyParts::PortBlock(public, block), Self::port_block(public, block))
                    }
                    _ => return None,
                }
            }
            Self::Long(Key40([head, src_high, src_low, dst_high, dst_low])) => {
                let (_, protocol, src_port, dst_port) = octets(head);
                let address = |high, low| IpAddr::V6((u128::from(high) << 64 | u128::from(low)).into());
                let (src, dst) = (address(src_high, src_low), address(dst_high, dst_low));
                let tuple = FiveTuple { src, dst, protocol, src_port, dst_port };
                (KeyParts::FiveTuple(tuple), Self::five_tuple(&tuple)?)
            }
        };
        (made == *self).then_some(parts)
    }
}

/// In words, for people: `ue 10.45.0.7`, `teid 0x10007`, `udp 192.0.2.1:53 > 10.45.0.7:4000`.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            Some(KeyParts::Ue(ue)) => write!(f, "ue {ue}"),
            Some(KeyParts::Teid(teid)) => write!(f, "teid {:#x}", teid.get()),
            Some(KeyParts::PortBlock(public, block)) => write!(f, "port block {block} of {public}"),
            Some(KeyParts::FiveTuple(FiveTuple { src, dst, protocol, src_port, dst_port })) => {
                match protocol {
                    6 => f.write_str("tcp")?,
                    17 => f.write_str("udp")?,
                    other => write!(f, "protocol {other}")?,
                }
                let [from, to] = [(src, src_port), (dst, dst_port)].map(std::net::SocketAddr::from);
                write!(f, " {from} > {to}")
            }
            None => match self {
                Self::Short(key) => write!(f, "words {:x?}", key.words()),
                Self::Long(key) => write!(f, "words {:x?}", key.words()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn different_v4_tuples_have_different_keys(a: (u32, u32, u8, u16, u16), b: (u32, u32, u8, u16, u16)) {
            let key = |t: (u32, u32, u8, u16, u16)| FlowKey::five_tuple_v4(t.0.into(), t.1.into(), t.2, t.3, t.4);
            prop_assert_eq!(a == b, key(a) == key(b));
        }

        #[test]
        fn different_v6_tuples_have_different_keys(a: (u128, u128, u8, u16, u16), b: (u128, u128, u8, u16, u16)) {
            let key = |t: (u128, u128, u8, u16, u16)| FlowKey::five_tuple_v6(t.0.into(), t.1.into(), t.2, t.3, t.4);
            prop_assert_eq!(a == b, key(a) == key(b));
        }

        #[test]
        fn a_teid_is_never_a_ue_address(bits: u32) {
            let teid = FlowKey::teid(Teid::new(bits));
            let ue = FlowKey::ue(IpAddr::V4(bits.into()));
            prop_assert_ne!(teid, ue);
        }

        #[test]
        fn a_v6_ue_is_its_prefix(prefix: u64, a: u64, b: u64) {
            let address = |low: u64| IpAddr::V6((u128::from(prefix) << 64 | u128::from(low)).into());
            prop_assert_eq!(FlowKey::ue(address(a)), FlowKey::ue(address(b)));
        }
    }

    proptest! {
        #[test]
        fn a_key_is_made_again_of_its_parts(a: u128, b: u128, protocol: u8, ports: (u16, u16)) {
            let v4 = |bits: u128| IpAddr::V4((bits as u32).into());
            let tuple = |src, dst| FiveTuple { src, dst, protocol, src_port: ports.0, dst_port: ports.1 };
            for tuple in [tuple(v4(a), v4(b)), tuple(IpAddr::V6(a.into()), IpAddr::V6(b.into()))] {
                let key = FlowKey::five_tuple(&tuple).unwrap();
                prop_assert_eq!(key.parts(), Some(KeyParts::FiveTuple(tuple)));
            }
            prop_assert_eq!(FlowKey::ue(v4(a)).parts(), Some(KeyParts::Ue(v4(a))));
            let prefix = IpAddr::V6((a & !u128::from(u64::MAX)).into());
            prop_assert_eq!(FlowKey::ue(IpAddr::V6(a.into())).parts(), Some(KeyParts::Ue(prefix)));
            prop_assert_eq!(FlowKey::teid(Teid::new(a as u32)).parts(), Some(KeyParts::Teid(Teid::new(a as u32))));
        }

        #[test]
        fn any_words_have_parts_that_make_them_or_none(a: u64, b: u64, long: [u64; 5], domain in 0..8u64) {
            for key in [
                FlowKey::Short(Key16([a, b])),
                FlowKey::Short(Key16([a & !0xff | domain, b])),
                FlowKey::Long(Key40([long[0] & !0xff_ff00 | domain, long[1], long[2], long[3], long[4]])),
            ] {
                prop_assert!(!key.to_string().is_empty());
                let made = match key.parts() {
                    Some(KeyParts::FiveTuple(tuple)) => FlowKey::five_tuple(&tuple),
                    Some(KeyParts::Ue(ue)) => Some(FlowKey::ue(ue)),
                    Some(KeyParts::Teid(teid)) => Some(FlowKey::teid(teid)),
                    Some(KeyParts::PortBlock(public, block)) => Some(FlowKey::port_block(public, block)),
                    None => None,
                };
                prop_assert!(made.is_none_or(|made| made == key));
            }
        }
    }

    #[test]
    fn keys_are_told_in_words() {
        let v4 = |bits: [u8; 4]| IpAddr::from(bits);
        let tuple = FiveTuple {
            src: v4([192, 0, 2, 1]),
            dst: v4([10, 45, 0, 7]),
            protocol: 17,
            src_port: 53,
            dst_port: 4000,
        };
        for (key, words) in [
            (FlowKey::ue(v4([10, 45, 0, 7])), "ue 10.45.0.7"),
            (FlowKey::ue("2001:db8::7".parse().unwrap()), "ue 2001:db8::"),
            (FlowKey::teid(Teid::new(0x1_0007)), "teid 0x10007"),
            (FlowKey::port_block([192, 0, 2, 1].into(), 7), "port block 7 of 192.0.2.1"),
            (FlowKey::five_tuple(&tuple).unwrap(), "udp 192.0.2.1:53 > 10.45.0.7:4000"),
            (FlowKey::Short(Key16([9, 1])), "words [9, 1]"),
        ] {
            assert_eq!(key.to_string(), words);
        }
    }

    #[test]
    fn no_key_is_all_zeros() {
        let v4 = IpAddr::V4(0.into());
        let v6 = IpAddr::V6(0.into());
        let keys = [
            FlowKey::five_tuple_v4(0.into(), 0.into(), 0, 0, 0),
            FlowKey::five_tuple_v6(0.into(), 0.into(), 0, 0, 0),
            FlowKey::ue(v4),
            FlowKey::ue(v6),
            FlowKey::teid(Teid::new(0)),
        ];
        for key in keys {
            match key {
                FlowKey::Short(k) => assert_ne!(k.words(), &[0; 2]),
                FlowKey::Long(k) => assert_ne!(k.words(), &[0; 5]),
            }
        }
    }
}
