//! Security associations (RFC 4301 §4.4.2) of tunnel mode.

use scalebricks_tables::lpm::Prefix;
use scalebricks_wire::esp::{HEADER_LEN, Spi, TRAILER_LEN, padding_len};
use scalebricks_wire::transport::UDP_HEADER_LEN;
use scalebricks_wire::{ipv4, ipv6};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The algorithms of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// AES-128-GCM with an ICV of 16 octets (RFC 4106).
    AesGcm,
    /// AES-128-CBC (RFC 3602) with HMAC-SHA1-96 (RFC 2404), as in the time of the RouteBricks paper.
    AesCbcSha1,
}

impl Suite {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AesGcm => "aes-128-gcm",
            Self::AesCbcSha1 => "aes-128-cbc-hmac-sha1-96",
        }
    }

    /// Length of the IV, octets.
    pub const fn iv_len(self) -> usize {
        match self {
            Self::AesGcm => 8,
            Self::AesCbcSha1 => 16,
        }
    }

    /// Length of the ICV, octets.
    pub const fn icv_len(self) -> usize {
        match self {
            Self::AesGcm => 16,
            Self::AesCbcSha1 => 12,
        }
    }

    /// Alignment of the encrypted octets.
    pub const fn alignment(self) -> usize {
        match self {
            Self::AesGcm => 4,
            Self::AesCbcSha1 => 16,
        }
    }
}

/// Key octets. They are overwritten when they are dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<const N: usize>(pub Zeroizing<[u8; N]>);

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The keys of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// Of [`Suite::AesGcm`]: key and salt (RFC 4106 §8.1).
    AesGcm(Secret<20>),
    /// Of [`Suite::AesCbcSha1`].
    AesCbcSha1 {
        /// For encryption.
        key: Secret<16>,
        /// For authentication.
        auth_key: Secret<20>,
    },
}

impl Keys {
    /// Their suite.
    pub const fn suite(&self) -> Suite {
        match self {
            Self::AesGcm(_) => Suite::AesGcm,
            Self::AesCbcSha1 { .. } => Suite::AesCbcSha1,
        }
    }

    /// The octets of the encryption key, without the salt.
    pub(crate) fn encryption(&self) -> &[u8] {
        match self {
            Self::AesGcm(secret) => &secret.0[..16],
            Self::AesCbcSha1 { key, .. } => &*key.0,
        }
    }

    /// The octets of the authentication key; none if the suite has no such key.
    pub(crate) fn authentication(&self) -> &[u8] {
        match self {
            Self::AesGcm(_) => &[],
            Self::AesCbcSha1 { auth_key, .. } => &*auth_key.0,
        }
    }
}

/// A network of either IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// IPv4.
    V4(Prefix<Ipv4Addr>),
    /// IPv6.
    V6(Prefix<Ipv6Addr>),
}

impl Network {
    /// Whether an address is in it.
    #[inline]
    pub fn contains(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4(network), IpAddr::V4(address)) => network.contains(address),
            (Self::V6(network), IpAddr::V6(address)) => network.contains(address),
            _ => false,
        }
    }
}

/// Inner addresses that an association may carry (RFC 4301 §4.4.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    /// Sources.
    pub src: Network,
    /// Destinations.
    pub dst: Network,
}

/// Limits of what an association may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// Packets.
    pub packets: u64,
    /// Octets of inner packets.
    pub bytes: u64,
}

impl Lifetime {
    /// No limits.
    pub const ENDLESS: Self = Self { packets: u64::MAX, bytes: u64::MAX };

    /// Whether it is over.
    #[inline]
    pub const fn is_over(self, packets: u64, bytes: u64) -> bool {
        packets >= self.packets || bytes >= self.bytes
    }
}

/// DF of the outer IPv4 header (RFC 4301 §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OuterDf {
    /// That of the inner packet; set for IPv6.
    #[default]
    Copy,
    /// Always set.
    Set,
    /// Never set.
    Clear,
}

/// UDP ports of encapsulated ESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpPorts {
    /// Source.
    pub src: u16,
    /// Destination.
    pub dst: u16,
}

/// A security association: one direction of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sa {
    /// Its name in the file.
    pub name: Arc<str>,
    /// The SPI.
    pub spi: Spi,
    /// The keys, which determine the suite.
    pub keys: Keys,
    /// Outer source.
    pub src: IpAddr,
    /// Outer destination, of the same version.
    pub dst: IpAddr,
    /// UDP encapsulation (RFC 3948).
    pub udp: Option<UdpPorts>,
    /// Inner addresses: one selector must match.
    pub selectors: Vec<Selector>,
    /// Whether sequence numbers have 64 bits (ESN).
    pub esn: bool,
    /// Packets of the anti-replay window.
    pub window: u32,
    /// When a new association should replace it.
    pub soft: Lifetime,
    /// When it carries nothing more.
    pub hard: Lifetime,
    /// MTU of the path between the tunnel's ends.
    pub mtu: u16,
    /// Time to live of outer headers.
    pub ttl: u8,
    /// DSCP of outer headers, below 64; `None` copies that of the inner packet.
    pub dscp: Option<u8>,
    /// DF of outer headers.
    pub df: OuterDf,
}

impl Sa {
    /// The suite.
    pub const fn suite(&self) -> Suite {
        self.keys.suite()
    }

    /// Whether one of its selectors matches.
    #[inline]
    pub fn selects(&self, src: IpAddr, dst: IpAddr) -> bool {
        self.selectors.iter().any(|selector| selector.src.contains(src) && selector.dst.contains(dst))
    }

    /// Octets from the outer IP header up to the ESP header.
    pub const fn outer_len(&self) -> usize {
        let ip = if self.dst.is_ipv4() { ipv4::MIN_HEADER_LEN } else { ipv6::HEADER_LEN };
        ip + if self.udp.is_some() { UDP_HEADER_LEN } else { 0 }
    }

    /// Octets before the inner packet.
    pub const fn front_len(&self) -> usize {
        self.outer_len() + HEADER_LEN + self.suite().iv_len()
    }

    /// Length of the outer packet around an inner packet.
    pub const fn packet_len(&self, inner_len: usize) -> usize {
        let suite = self.suite();
        self.front_len()
            + inner_len
            + padding_len(inner_len, suite.alignment())
            + TRAILER_LEN
            + suite.icv_len()
    }

    /// The longest inner packet that fits the MTU.
    pub const fn inner_mtu(&self) -> usize {
        let suite = self.suite();
        let fixed = self.front_len() + suite.icv_len();
        let encrypted = (self.mtu as usize).saturating_sub(fixed) & !(suite.alignment() - 1);
        encrypted.saturating_sub(TRAILER_LEN)
    }
}
