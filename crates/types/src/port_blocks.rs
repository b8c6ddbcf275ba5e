//! Deterministic blocks of ports for a NAT (RFC 7422).

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The inside addresses of a NAT, its public addresses, and the blocks of ports that they are cut into.
///
/// A public address has `n` whole blocks from the first port on. The inside address number `s` has block `s % n` of the
/// public address number `s / n`. Both directions are computed without state, so every node of a cluster agrees, and a
/// node that takes over an inside address gives its flows the same block.
///
/// As text: `100.64.0.0/24:192.0.2.0/30:1024:512`, the inside prefix, the public prefix, the first port, and the ports
/// per block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortBlocks {
    inside: (u32, u8),
    public: (u32, u8),
    first_port: u16,
    block_ports: u16,
    /// Blocks per public address.
    blocks: u16,
}

/// Why a text does not describe blocks of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortBlocksError {
    /// It does not have the form of a text.
    #[error("not INSIDE/LENGTH:PUBLIC/LENGTH:FIRST_PORT:PORTS, like 100.64.0.0/24:192.0.2.0/30:1024:512")]
    Form,
    /// The ports per block.
    #[error("the ports of a block are a power of two from 2 to 32768")]
    BlockLength,
    /// No block fits behind the first port.
    #[error("no block fits between the first port and 65535")]
    NoBlock,
    /// Fewer blocks than inside addresses.
    #[error("{inside} inside addresses need more than the {blocks} blocks of the public addresses")]
    TooFew {
        /// The number of inside addresses.
        inside: u64,
        /// The number of blocks.
        blocks: u64,
    },
    /// An address is both inside and public.
    #[error("inside and public addresses overlap")]
    Overlap,
    /// More than [`PortBlocks::MAX_PUBLIC`] public addresses.
    #[error("there are more than {} public addresses", PortBlocks::MAX_PUBLIC)]
    TooManyPublic,
    /// More than [`PortBlocks::MAX_BLOCKS`] blocks.
    #[error("there are more than {} blocks: make them longer", PortBlocks::MAX_BLOCKS)]
    TooManyBlocks,
}

/// The first address of a prefix.
const fn first(address: Ipv4Addr, length: u8) -> Option<(u32, u8)> {
    if length > 32 {
        return None;
    }
    let mask = if length == 0 { 0 } else { u32::MAX << (32 - length) };
    Some((address.to_bits() & mask, length))
}

/// The number of addresses of a prefix.
const fn addresses((_, length): (u32, u8)) -> u64 {
    1 << (32 - length)
}

/// The number of an address in a prefix.
const fn number(prefix: (u32, u8), address: Ipv4Addr) -> Option<u32> {
    let at = address.to_bits().wrapping_sub(prefix.0);
    if (at as u64) < addresses(prefix) { Some(at) } else { None }
}

impl PortBlocks {
    /// Most public addresses of a NAT.
    pub const MAX_PUBLIC: u64 = 4_096;
    /// Most blocks of a NAT.
    pub const MAX_BLOCKS: u64 = 1 << 22;

    /// Blocks of `block_ports` ports from `first_port` on; an odd first port is skipped, so that each block has as many
    /// even ports as odd ones (RFC 4787 REQ-4). A prefix is an address and its length.
    ///
    /// # Errors
    /// [`PortBlocksError`].
    pub fn new(
        inside: (Ipv4Addr, u8),
        public: (Ipv4Addr, u8),
        first_port: u16,
        block_ports: u16,
    ) -> Result<Self, PortBlocksError> {
        let [Some(inside), Some(public)] = [inside, public].map(|(address, length)| first(address, length))
        else {
            return Err(PortBlocksError::Form);
        };
        if !block_ports.is_power_of_two() || block_ports < 2 {
            return Err(PortBlocksError::BlockLength);
        }
        let first_port = u32::from(first_port).next_multiple_of(2);
        let blocks = 0x1_0000_u32.saturating_sub(first_port) / u32::from(block_ports); // at most 32,768
        if blocks == 0 {
            return Err(PortBlocksError::NoBlock);
        }
        let at = |prefix: (u32, u8), other: (u32, u8)| number(prefix, Ipv4Addr::from_bits(other.0)).is_some();
        if at(inside, public) || at(public, inside) {
            return Err(PortBlocksError::Overlap);
        }
        if addresses(public) > Self::MAX_PUBLIC {
            return Err(PortBlocksError::TooManyPublic);
        }
        let all = addresses(public) * u64::from(blocks);
        if all > Self::MAX_BLOCKS {
            return Err(PortBlocksError::TooManyBlocks);
        }
        if all < addresses(inside) {
            return Err(PortBlocksError::TooFew { inside: addresses(inside), blocks: all });
        }
        let (first_port, blocks) = (first_port as u16, blocks as u16);
        Ok(Self { inside, public, first_port, block_ports, blocks })
    }

    /// The public address and the number of the block of an inside address; `None` if it is not inside.
    pub const fn of_inside(&self, address: Ipv4Addr) -> Option<(Ipv4Addr, u16)> {
        let Some(at) = number(self.inside, address) else { return None };
        let blocks = self.blocks as u32;
        Some((Ipv4Addr::from_bits(self.public.0 + at / blocks), (at % blocks) as u16))
    }

    /// The number of the block of a public port; `None` if the address is not public or the port is in no block.
    #[inline]
    pub const fn of_public(&self, address: Ipv4Addr, port: u16) -> Option<u16> {
        if number(self.public, address).is_none() || port < self.first_port {
            return None;
        }
        let block = (port - self.first_port) >> self.block_ports.trailing_zeros();
        if block < self.blocks { Some(block) } else { None }
    }

    /// The first port of a block, and the number of its ports.
    pub const fn ports(&self, block: u16) -> Option<(u16, u16)> {
        if block >= self.blocks {
            return None;
        }
        Some((self.first_port + block * self.block_ports, self.block_ports))
    }

    /// Whether an address is public.
    pub const fn is_public(&self, address: Ipv4Addr) -> bool {
        number(self.public, address).is_some()
    }

    /// The inside prefix.
    pub const fn inside(&self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::from_bits(self.inside.0), self.inside.1)
    }

    /// The public prefix.
    pub const fn public(&self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::from_bits(self.public.0), self.public.1)
    }

    /// The first port of all blocks, and the ports per block.
    pub const fn layout(&self) -> (u16, u16) {
        (self.first_port, self.block_ports)
    }
}

impl fmt::Display for PortBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(inside, inside_len), (public, public_len)] = [self.inside(), self.public()];
        let (first, ports) = self.layout();
        write!(f, "{inside}/{inside_len}:{public}/{public_len}:{first}:{ports}")
    }
}

impl FromStr for PortBlocks {
    type Err = PortBlocksError;

    fn from_str(text: &str) -> Result<Self, PortBlocksError> {
        let form = PortBlocksError::Form;
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or(form);
        let (inside, public, first, ports) = (prefix(next()?)?, prefix(next()?)?, next()?, next()?);
        let (Ok(first), Ok(ports), None) = (first.parse(), ports.parse(), parts.next()) else {
            return Err(form);
        };
        Self::new(inside, public, first, ports)
    }
}

fn prefix(text: &str) -> Result<(Ipv4Addr, u8), PortBlocksError> {
    let (address, length) = text.split_once('/').ok_or(PortBlocksError::Form)?;
    match (address.parse(), length.parse()) {
        (Ok(address), Ok(length)) => Ok((address, length)),
        _ => Err(PortBlocksError::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_inside_address_and_the_ports_of_its_block_lead_to_each_other(
            inside in (any::<u32>(), 20u8..=32),
            public in (any::<u32>(), 16u8..=32),
            first: u16,
            block in 1u32..16,
            at: u32,
            port: u16,
        ) {
            let prefix = |(bits, length): (u32, u8)| (Ipv4Addr::from_bits(bits), length);
            let Ok(blocks) = PortBlocks::new(prefix(inside), prefix(public), first, 1 << block) else { return Ok(()) };
            prop_assert_eq!(blocks.to_string().parse(), Ok(blocks));
            let (start, length) = blocks.inside();
            let address = Ipv4Addr::from_bits(start.to_bits() + at % (1 << (32 - length)));
            let (public, number) = blocks.of_inside(address).unwrap();
            prop_assert!(blocks.is_public(public));
            let (first, len) = blocks.ports(number).unwrap();
            prop_assert_eq!(blocks.of_public(public, first + port % len), Some(number));
            prop_assert_ne!(first.checked_sub(1).and_then(|port| blocks.of_public(public, port)), Some(number));
            prop_assert_ne!(first.checked_add(len).and_then(|port| blocks.of_public(public, port)), Some(number));
        }
    }

    #[test]
    fn no_two_inside_addresses_share_a_block() {
        let blocks: PortBlocks = "10.0.0.0/24:192.0.2.0/30:1024:512".parse().unwrap();
        let of = |last: u32| blocks.of_inside(Ipv4Addr::from_bits(0x0a00_0000 + last)).unwrap();
        let all: std::collections::HashSet<_> = (0..256).map(of).collect();
        assert_eq!(all.len(), 256);
        assert_eq!(of(0), (Ipv4Addr::new(192, 0, 2, 0), 0));
        assert_eq!(of(126), (Ipv4Addr::new(192, 0, 2, 1), 0), "64,512 ports are 126 blocks of 512");
        assert_eq!(blocks.of_inside(Ipv4Addr::new(10, 0, 1, 0)), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, error) in [
            ("10.0.0.0/24:192.0.2.0/30:1024", PortBlocksError::Form),
            ("10.0.0.0/24:192.0.2.0/33:1024:512", PortBlocksError::Form),
            ("10.0.0.0/24:192.0.2.0/30:1024:512:1", PortBlocksError::Form),
            ("10.0.0.0/24:192.0.2.0/30:1024:500", PortBlocksError::BlockLength),
            ("10.0.0.0/24:192.0.2.0/30:65535:512", PortBlocksError::NoBlock),
            ("10.0.0.0/24:10.0.0.128/30:1024:512", PortBlocksError::Overlap),
            ("10.0.0.0/24:192.0.2.0/32:1024:512", PortBlocksError::TooFew { inside: 256, blocks: 126 }),
        ] {
            assert_eq!(text.parse::<PortBlocks>(), Err(error), "{text}");
        }
    }
}
