//! Longest-prefix match over the networks of one link: a short list for few networks, a trie for many.

use prefix_trie::{Prefix, PrefixMap};
use std::fmt::Debug;
use std::ops::BitAnd;

/// Up to this many networks are compared one by one, longest first; more use a trie. A link with a connected network
/// and a default route costs one comparison.
const FEW: usize = 8;

/// Where packets to a network go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// To one of these next hops: an index into the groups of [`Adjacencies`](super::Adjacencies).
    NextHopGroup(u32),
    /// To the destination itself, which is on the link.
    OnLink,
    /// Nowhere.
    Nowhere,
}

/// The bits of an IPv4 or IPv6 address.
pub(crate) trait Bits: Copy + Eq + Debug + BitAnd<Output = Self> {
    /// How many.
    const WIDTH: u8;
    /// The mask of this length, at most the width.
    fn mask(len: u8) -> Self;
}

impl Bits for u32 {
    const WIDTH: u8 = 32;
    fn mask(len: u8) -> Self {
        Self::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0)
    }
}

impl Bits for u128 {
    const WIDTH: u8 = 128;
    fn mask(len: u8) -> Self {
        Self::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0)
    }
}

/// A network: its address without host bits, and its prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Net<A> {
    bits: A,
    len: u8,
}

impl<A: Bits> Net<A> {
    /// The network of this address; lengths above the width mean the address alone.
    pub(crate) fn new(address: A, len: u8) -> Self {
        let len = len.min(A::WIDTH);
        Self { bits: address & A::mask(len), len }
    }

    pub(crate) fn contains(self, address: A) -> bool {
        address & A::mask(self.len) == self.bits
    }
}

macro_rules! prefix {
    ($bits:ty) => {
        impl Prefix for Net<$bits> {
            type R = $bits;
            fn repr(&self) -> $bits {
                self.bits
            }
            fn prefix_len(&self) -> u8 {
                self.len
            }
            fn from_repr_len(bits: $bits, len: u8) -> Self {
                Self { bits, len }
            }
        }
    };
}
prefix!(u32);
prefix!(u128);

/// The networks of one link and IP version. Of two routes to one network, the first counts.
#[derive(Debug, Clone)]
pub(crate) struct Table<A>
where
    Net<A>: Prefix,
{
    /// Network, mask and target, longest first, without the default route.
    few: Box<[(A, A, Target)]>,
    many: Option<PrefixMap<Net<A>, Target>>,
    default: Target,
}

impl<A: Bits> Table<A>
where
    Net<A>: Prefix,
{
    pub(crate) fn new(routes: &[(Net<A>, Target)]) -> Self {
        let mut nets: Vec<(Net<A>, Target)> = Vec::new();
        let mut trie = PrefixMap::new();
        for &(net, target) in routes {
            if trie.get(&net).is_none() {
                trie.insert(net, target);
                nets.push((net, target));
            }
        }
        nets.sort_by_key(|(net, _)| std::cmp::Reverse(net.len));
        let default = match nets.last() {
            Some(&(Net { len: 0, .. }, target)) => {
                nets.pop();
                target
            }
            _ => Target::Nowhere,
        };
        let many = (nets.len() > FEW).then_some(trie);
        if many.is_some() {
            nets.clear();
        }
        let few = nets.iter().map(|(net, target)| (net.bits, A::mask(net.len), *target)).collect();
        Self { few, many, default }
    }

    /// The target for this address. Cost: up to [`FEW`] comparisons, or a trie lookup.
    #[inline]
    pub(crate) fn lookup(&self, address: A) -> Target {
        for &(net, mask, target) in &self.few {
            if address & mask == net {
                return target;
            }
        }
        match &self.many {
            None => self.default,
            Some(trie) => {
                trie.get_lpm(&Net { bits: address, len: A::WIDTH }).map_or(self.default, |(_, t)| *t)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference: of the networks that contain the address, the longest; of equal ones, the first.
    fn by_definition<A: Bits>(routes: &[(Net<A>, Target)], address: A) -> Target {
        let mut best: Option<(Net<A>, Target)> = None;
        for &(net, target) in routes.iter().filter(|(net, _)| net.contains(address)) {
            if best.is_none_or(|(longest, _)| net.len > longest.len) {
                best = Some((net, target));
            }
        }
        best.map_or(Target::Nowhere, |(_, target)| target)
    }

    proptest! {
        #[test]
        fn finds_the_longest_match(
            nets in prop::collection::vec((0u32..16, 0u8..=32), 0..24),
            addresses in prop::collection::vec(any::<u32>(), 32),
        ) {
            // Few distinct high bits, so that networks overlap.
            let spread = |seed: u32| seed.wrapping_mul(0x1111_1111);
            let routes: Vec<_> = (0..).zip(&nets)
                .map(|(n, &(bits, len))| (Net::new(spread(bits), len), Target::NextHopGroup(n)))
                .collect();
            let wide: Vec<_> = (0..).zip(&nets)
                .map(|(n, &(bits, len))| (Net::new(u128::from(spread(bits)) << 96, len), Target::NextHopGroup(n)))
                .collect();
            let (table, table_wide) = (Table::new(&routes), Table::new(&wide));
            for &address in addresses.iter().chain(nets.iter().map(|(bits, _)| bits)) {
                for address in [address, spread(address & 15), spread(address & 15) ^ (address >> 20)] {
                    prop_assert_eq!(table.lookup(address), by_definition(&routes, address));
                    let address = u128::from(address) << 96;
                    prop_assert_eq!(table_wide.lookup(address), by_definition(&wide, address));
                }
            }
        }
    }

    #[test]
    fn a_default_route_alone_is_no_list() {
        let table = Table::new(&[(Net::new(0u32, 0), Target::NextHopGroup(3))]);
        assert!(table.few.is_empty() && table.many.is_none());
        assert_eq!(table.lookup(0x0808_0808), Target::NextHopGroup(3));
        assert_eq!(Table::<u128>::new(&[]).lookup(1), Target::Nowhere);
    }
}
