//! Which addresses and ports there are, and how they follow from each other. Arithmetic without state.
//!
//! The ports of all public addresses are cut into blocks of equal length. Block `b` of all has public address `b / n` and is
//! the address's block `b % n`, where `n` is the number of blocks per address. With deterministic allocation (RFC 7422) the
//! inside address number `s` has block `s`: so both directions are computed without state, and consecutive subscribers share
//! an address.

use scalebricks_types::{KeyHasher, PortBlocks};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    first: u32,
    length: u8,
}

impl Prefix {
    /// The prefix of `address` with this length, 0 to 32; `None` for longer ones.
    pub fn new(address: Ipv4Addr, length: u8) -> Option<Self> {
        let mask = u32::MAX.checked_shl(32_u32.checked_sub(u32::from(length))?).unwrap_or(0);
        Some(Self { first: address.to_bits() & mask, length })
    }

    /// Its number of addresses.
    pub const fn addresses(self) -> u64 {
        1 << (32 - self.length)
    }

    /// The place of an address in it.
    #[inline]
    const fn place(self, address: u32) -> Option<u32> {
        let place = address.wrapping_sub(self.first);
        if (place as u64) < self.addresses() { Some(place) } else { None }
    }
}

/// A list of prefixes, whose addresses are numbered in order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Addresses {
    prefixes: Vec<Prefix>,
    len: u64,
}

impl Addresses {
    fn new(prefixes: &[Prefix]) -> Option<Self> {
        let overlap = |a: Prefix, b: Prefix| a.place(b.first).is_some() || b.place(a.first).is_some();
        let is_clear = |(at, a): (usize, &Prefix)| prefixes.iter().skip(at + 1).all(|b| !overlap(*a, *b));
        let len = prefixes.iter().map(|prefix| prefix.addresses()).sum();
        prefixes.iter().enumerate().all(is_clear).then(|| Self { prefixes: prefixes.to_vec(), len })
    }

    /// The number of an address. Cost: one step per prefix.
    #[inline]
    fn number(&self, address: Ipv4Addr) -> Option<u32> {
        let mut before = 0;
        for prefix in &self.prefixes {
            if let Some(place) = prefix.place(address.to_bits()) {
                return u32::try_from(before + u64::from(place)).ok();
            }
            before += prefix.addresses();
        }
        None
    }

    fn address(&self, number: u32) -> Option<Ipv4Addr> {
        let mut place = u64::from(number);
        for prefix in &self.prefixes {
            if place < prefix.addresses() {
                return Some(Ipv4Addr::from_bits(prefix.first.wrapping_add(place as u32))); // within the prefix
            }
            place -= prefix.addresses();
        }
        None
    }
}

/// Why addresses, ports and blocks do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanError {
    /// There are no inside or no public addresses.
    NoAddresses,
    /// Prefixes of inside or of public addresses overlap, or an address is both inside and public.
    Overlap,
    /// More than [`MAX_PUBLIC`] public addresses.
    TooManyPublic,
    /// The length of a block is not a power of two from 2 to 32,768.
    BlockLength,
    /// No whole block fits between the first and the last port.
    NoBlock,
    /// More than [`MAX_BLOCKS`] blocks.
    TooManyBlocks,
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoAddresses => f.write_str("there must be inside and public addresses"),
            Self::Overlap => f.write_str("prefixes overlap"),
            Self::TooManyPublic => write!(f, "there are more than {MAX_PUBLIC} public addresses"),
            Self::BlockLength => f.write_str("the length of a block is a power of two from 2 to 32768"),
            Self::NoBlock => f.write_str("no block fits between the first and the last port"),
            Self::TooManyBlocks => write!(f, "there are more than {MAX_BLOCKS} blocks: make them longer"),
        }
    }
}

impl std::error::Error for PlanError {}

/// Most public addresses of a NAT.
pub const MAX_PUBLIC: u64 = PortBlocks::MAX_PUBLIC;

/// Most blocks of a NAT.
pub const MAX_BLOCKS: u64 = PortBlocks::MAX_BLOCKS;

/// The blocks of ports of all public addresses, and which inside address has which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    inside: Addresses,
    public: Addresses,
    first_port: u16,
    block_len: u16,
    address_blocks: u16,
}

/// A block of ports of a public address: the same numbers for TCP, UDP and ICMP identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockOfPorts {
    /// The address.
    pub public: Ipv4Addr,
    /// The ports.
    pub ports: RangeInclusive<u16>,
}

impl Plan {
    /// Blocks of `block_len` ports from the first of `ports` on. An odd first port is skipped, so that every block has as many
    /// even ports as odd ones.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(
        inside: &[Prefix],
        public: &[Prefix],
        ports: RangeInclusive<u16>,
        block_len: u16,
    ) -> Result<Self, PlanError> {
        if !block_len.is_power_of_two() || block_len < 2 {
            return Err(PlanError::BlockLength);
        }
        let both = [inside, public].concat();
        Addresses::new(&both).ok_or(PlanError::Overlap)?;
        let (inside, public) = (Addresses::new(inside), Addresses::new(public));
        let (Some(inside), Some(public)) = (inside, public) else { return Err(PlanError::Overlap) };
        if inside.len == 0 || public.len == 0 {
            return Err(PlanError::NoAddresses);
        }
        if public.len > MAX_PUBLIC {
            return Err(PlanError::TooManyPublic);
        }
        let first_port = u32::from(*ports.start()).next_multiple_of(2);
        let len = (u32::from(*ports.end()) + 1).saturating_sub(first_port);
        let address_blocks = (len / u32::from(block_len)) as u16; // at most 65,536 / 2
        if address_blocks == 0 {
            return Err(PlanError::NoBlock);
        }
        if public.len * u64::from(address_blocks) > MAX_BLOCKS {
            return Err(PlanError::TooManyBlocks);
        }
        Ok(Self { inside, public, first_port: first_port as u16, block_len, address_blocks })
    }

    /// Number of inside addresses.
    pub const fn inside_addresses(&self) -> u64 {
        self.inside.len
    }

    /// Number of public addresses.
    pub const fn public_addresses(&self) -> u32 {
        self.public.len as u32 // at most `MAX_PUBLIC`
    }

    /// Ports per block.
    pub const fn block_len(&self) -> u16 {
        self.block_len
    }

    /// Blocks per public address.
    pub const fn address_blocks(&self) -> u16 {
        self.address_blocks
    }

    /// Blocks of all public addresses.
    pub const fn blocks(&self) -> u32 {
        self.public_addresses() * self.address_blocks as u32
    }

    /// Whether an address is inside.
    #[inline]
    pub fn is_inside(&self, address: Ipv4Addr) -> bool {
        self.inside.number(address).is_some()
    }

    /// Whether an address is public.
    #[inline]
    pub fn is_public(&self, address: Ipv4Addr) -> bool {
        self.public.number(address).is_some()
    }

    /// The block of a public port, and the port's place in it.
    #[inline]
    pub fn place(&self, public: Ipv4Addr, port: u16) -> Option<(u32, u16)> {
        let number = self.public.number(public)?;
        let at = port.checked_sub(self.first_port)?;
        let block = at / self.block_len;
        let number = number * u32::from(self.address_blocks) + u32::from(block);
        (block < self.address_blocks).then_some((number, at % self.block_len))
    }

    /// The address and first port of a block.
    #[inline]
    pub(super) fn start(&self, block: u32) -> Option<(Ipv4Addr, u16)> {
        let (address, place) =
            (block / u32::from(self.address_blocks), (block % u32::from(self.address_blocks)) as u16);
        Some((self.public.address(address)?, self.first_port + place * self.block_len))
    }

    /// A block by its number.
    pub fn block(&self, number: u32) -> Option<BlockOfPorts> {
        let (public, first) = self.start(number)?;
        Some(BlockOfPorts { public, ports: first..=first + (self.block_len - 1) })
    }

    /// The number of an inside address, which is the number of its block with deterministic allocation.
    #[inline]
    pub fn deterministic_number(&self, inside: Ipv4Addr) -> Option<u32> {
        self.inside.number(inside).filter(|number| *number < self.blocks())
    }

    /// The block of an inside address with deterministic allocation.
    pub fn deterministic_block(&self, inside: Ipv4Addr) -> Option<BlockOfPorts> {
        self.block(self.deterministic_number(inside)?)
    }

    /// The inside address that has a public port with deterministic allocation: what abuse reports ask for.
    pub fn deterministic_inside(&self, public: Ipv4Addr, port: u16) -> Option<Ipv4Addr> {
        self.inside.address(self.place(public, port)?.0)
    }

    /// The places in a block in the order in which an inside endpoint tries them: with `parity`, first all those of the inside
    /// port's parity. The order depends on the endpoint and the key only, so another NAT with the same plan and key tries the
    /// same port first.
    ///
    /// Places are an arithmetic sequence with an odd step modulo a power of two, so each comes once; start and step are
    /// `SipHash`-1-3 of address, protocol and port.
    pub(super) fn order(
        &self,
        hasher: &KeyHasher,
        (inside, port, protocol): (Ipv4Addr, u16, u8),
        parity: bool,
    ) -> impl Iterator<Item = u16> + use<> {
        let [a, b, c, d] = inside.octets();
        let [high, low] = port.to_be_bytes();
        let hash = hasher.hash_bytes(&[a, b, c, d, high, low, protocol]).get();
        let (start, step) = (hash as u16, (hash >> 16) as u16 | 1);
        let (len, odd) = (self.block_len, port & 1);
        let half = if parity { len / 2 } else { len };
        let at = move |number: u16| start.wrapping_add(number.wrapping_mul(step)) & (half - 1);
        let first = (0..half).map(move |number| if parity { at(number) * 2 + odd } else { at(number) });
        let others = if parity { 0..half } else { 0..0 };
        first.chain(others.map(move |number| at(number) * 2 + (1 - odd)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::{HashSeed, PortBlocksError};
    use std::collections::BTreeSet;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), length).unwrap()
    }

    fn plan(block_len: u16) -> Plan {
        Plan::new(&[prefix("100.64.0.0", 20)], &[prefix("192.0.2.0", 25)], 1_024..=65_535, block_len).unwrap()
    }

    /// The example of docs/nat.md.
    #[test]
    fn the_worked_example_is_right() {
        let plan = plan(1_024);
        assert_eq!((plan.inside_addresses(), plan.address_blocks(), plan.blocks()), (4_096, 63, 8_064));
        let inside = Ipv4Addr::new(100, 64, 3, 232);
        assert_eq!(plan.deterministic_number(inside), Some(1_000));
        let block = plan.deterministic_block(inside).unwrap();
        assert_eq!(block.public, Ipv4Addr::new(192, 0, 2, 15));
        assert_eq!(block.ports, 57_344..=58_367);
        assert_eq!(plan.deterministic_inside(Ipv4Addr::new(192, 0, 2, 15), 58_000), Some(inside));
        let hasher = KeyHasher::new(HashSeed::from_u64(7));
        let first = plan.order(&hasher, (inside, 40_000, 6), true).next().unwrap();
        // Computed by a second implementation of the formula.
        assert_eq!(57_344 + first, 58_270);
    }

    #[test]
    fn blocks_cover_ports_once_and_lead_back() {
        for block_len in [2, 64, 512, 32_768] {
            let plan = plan(block_len);
            let mut ports = BTreeSet::new();
            for number in 0..u32::from(plan.address_blocks()) {
                let block = plan.block(number).unwrap();
                assert_eq!(block.public, Ipv4Addr::new(192, 0, 2, 0));
                for port in block.ports {
                    assert!(port >= 1_024 && ports.insert(port));
                    assert_eq!(plan.place(block.public, port).unwrap().0, number);
                }
            }
            assert_eq!(plan.place(Ipv4Addr::new(192, 0, 2, 0), 1_023), None);
            assert_eq!(plan.block(plan.blocks()), None);
        }
    }

    #[test]
    fn every_endpoint_tries_every_port_once_and_keeps_its_parity_first() {
        let (plan, hasher) = (plan(64), KeyHasher::new(HashSeed::from_u64(7)));
        for port in 0..200 {
            let endpoint = (Ipv4Addr::new(100, 64, 0, 9), port, 17);
            for parity in [true, false] {
                let order: Vec<u16> = plan.order(&hasher, endpoint, parity).collect();
                assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 64);
                assert!(!parity || order[..32].iter().all(|place| place & 1 == port & 1));
            }
        }
    }

    #[test]
    fn plans_that_do_not_fit_are_refused() {
        let (inside, public) = ([prefix("10.0.0.0", 8)], [prefix("192.0.2.0", 32)]);
        let of =
            |inside: &[Prefix], public: &[Prefix], ports, len| Plan::new(inside, public, ports, len).err();
        assert_eq!(of(&inside, &public, 1_024..=65_535, 100), Some(PlanError::BlockLength));
        assert_eq!(of(&inside, &public, 1_024..=1_050, 64), Some(PlanError::NoBlock));
        #[expect(clippy::reversed_empty_ranges, reason = "a configuration may have it")]
        let none = 65_535..=0;
        assert_eq!(of(&inside, &public, none, 64), Some(PlanError::NoBlock));
        assert_eq!(of(&inside, &[], 0..=65_535, 64), Some(PlanError::NoAddresses));
        assert_eq!(of(&inside, &[prefix("10.9.0.0", 24)], 0..=65_535, 64), Some(PlanError::Overlap));
        assert_eq!(of(&inside, &[prefix("11.0.0.0", 8)], 0..=65_535, 64), Some(PlanError::TooManyPublic));
        assert_eq!(of(&inside, &public, 0..=65_535, 64), None);
        assert_eq!(Prefix::new(Ipv4Addr::LOCALHOST, 33), None);
    }

    proptest! {
        /// Nodes of a cluster steer by `PortBlocks`: one prefix of each kind, and no list to walk. Both must name the same blocks.
        #[test]
        fn steering_and_nat_agree_about_blocks(
            inside_length in 20_u8..=32,
            public_length in 24_u8..=32,
            first_port in 0_u16..,
            block_bits in 1_u32..=15,
            asked: Vec<(u16, u8, u16)>,
        ) {
            let (inside, public) = (Ipv4Addr::new(100, 64, 16, 7), Ipv4Addr::new(192, 0, 2, 9));
            let block_len = 1 << block_bits;
            let prefixes = [(inside, inside_length), (public, public_length)]
                .map(|(address, length)| Prefix::new(address, length).unwrap());
            let plan = Plan::new(&prefixes[..1], &prefixes[1..], first_port..=65_535, block_len);
            let steering = PortBlocks::new((inside, inside_length), (public, public_length), first_port, block_len);
            let (Ok(plan), Ok(steering)) = (&plan, &steering) else {
                // Steering needs a block for each inside address.
                let is_too_few = matches!(steering, Err(PortBlocksError::TooFew { .. }));
                prop_assert!(steering.is_err() && (plan.is_err() || is_too_few), "{plan:?} {steering:?}");
                return Ok(());
            };
            for (host, public_host, port) in asked {
                let inside = Ipv4Addr::from_bits(inside.to_bits() & !0xfff | u32::from(host));
                let ours = steering.of_inside(inside).map(|(public, block)| {
                    let (first, len) = steering.ports(block).unwrap();
                    BlockOfPorts { public, ports: first..=first + (len - 1) }
                });
                prop_assert_eq!(ours, plan.deterministic_block(inside));
                let public = Ipv4Addr::new(192, 0, 2, public_host);
                let place = plan.place(public, port);
                let in_address = place.map(|(block, _)| (block % u32::from(plan.address_blocks())) as u16);
                prop_assert_eq!(steering.of_public(public, port), in_address);
                prop_assert_eq!(steering.is_public(public), plan.is_public(public));
            }
        }
    }
}
