//! What differs between IPv4 and IPv6.

use super::ours::Ours;
use super::routes::Routes;
use super::table::{Contender, Entrant, Task};
use crate::error::BenchError;
use scalebricks_tables::lpm::{Address, Prefix};
use scalebricks_types::mix::SplitMix64;
use std::collections::HashSet;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Number of our tables to which all others are compared: the first contenders.
pub const OURS: usize = 2;

/// A family of addresses.
pub trait Family: Address + Hash + 'static {
    /// Its name in results.
    const NAME: &'static str;
    /// Prefixes of each length in 1,000, for generated tables.
    const LENGTHS: &'static [(u8, u32)];

    /// A network for a generated table.
    fn random(random: &mut SplitMix64) -> Self;

    /// Random destinations that have a route.
    fn destinations(routes: &Routes<Self>, count: usize, random: &mut SplitMix64) -> Vec<Self>;

    /// The tables that take part; ours first. A note says which are left out, and why.
    ///
    /// # Errors
    /// [`BenchError`] of a table that cannot be made.
    fn contenders(
        task: &Arc<Task<Self>>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Box<dyn Contender>>, BenchError>;

    /// Number of arrays of 256 entries that DPDK's tables need: one for each value of the first 24, 32, …
    /// bits that longer prefixes begin with.
    fn groups(routes: &Routes<Self>) -> usize {
        let mut found = HashSet::new();
        for (prefix, _) in routes {
            for base in (24..prefix.length()).step_by(8) {
                found.extend(Prefix::of(prefix.address(), base).ok());
            }
        }
        found.len()
    }
}

/// Our tables: first those with a root of 24 bits. Where the routes do not fit entries of two bytes, there are only tables
/// with entries of four.
fn ours<A: Family>(task: &Arc<Task<A>>) -> Result<Vec<Box<dyn Contender>>, BenchError> {
    let all = [
        Entrant::<_, Ours<_, 24, 2>>::boxed(task)?,
        Entrant::<_, Ours<_, 24, 4>>::boxed(task)?,
        Entrant::<_, Ours<_, 16, 2>>::boxed(task)?,
        Entrant::<_, Ours<_, 16, 4>>::boxed(task)?,
    ];
    let mut distinct: Vec<Box<dyn Contender>> = Vec::new();
    for table in all {
        if distinct.iter().all(|other| other.variant() != table.variant()) {
            distinct.push(table);
        }
    }
    Ok(distinct)
}

impl Family for Ipv4Addr {
    const NAME: &'static str = "ipv4";
    // Those of the full table of 2014-05-13.
    const LENGTHS: &'static [(u8, u32)] = &[
        (24, 527),
        (22, 113),
        (23, 92),
        (21, 73),
        (20, 70),
        (19, 49),
        (16, 25),
        (18, 23),
        (17, 14),
        (15, 3),
        (26, 2),
        (14, 2),
        (25, 2),
        (27, 1),
        (13, 1),
        (30, 1),
        (29, 1),
        (12, 1),
    ];

    /// Unicast: 1.0.0.0 to 223.255.255.255.
    fn random(random: &mut SplitMix64) -> Self {
        Self::from_bits(0x0100_0000 + (random.next_u64() % 0xDF00_0000) as u32)
    }

    /// Uniform over all addresses that have a route.
    fn destinations(routes: &Routes<Self>, count: usize, random: &mut SplitMix64) -> Vec<Self> {
        let mut ranges: Vec<(u64, u64)> = routes
            .iter()
            .map(|(prefix, _)| {
                let from = u64::from(prefix.address().to_bits());
                (from, from + (1 << (32 - prefix.length())))
            })
            .collect();
        ranges.sort_unstable();
        // Parts of the routed space, each with the number of addresses before it.
        let (mut parts, mut end, mut total) = (Vec::new(), 0, 0);
        for (from, to) in ranges {
            let from = from.max(end);
            if to > from {
                parts.push((total, from));
                total += to - from;
                end = to;
            }
        }
        let place = |number: u64| {
            let (before, from) = parts[parts.partition_point(|part| part.0 <= number) - 1];
            Self::from_bits((from + number - before) as u32) // below 2^32
        };
        (0..count).map(|_| place(random.next_u64() % total)).collect()
    }

    #[cfg_attr(not(feature = "dpdk"), expect(unused_variables, reason = "without peers"))]
    fn contenders(
        task: &Arc<Task<Self>>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Box<dyn Contender>>, BenchError> {
        #[cfg_attr(not(feature = "dpdk"), expect(unused_mut, reason = "without peers"))]
        let mut all = ours(task)?;
        #[cfg(feature = "dpdk")]
        all.extend(super::dpdk::v4(task, notes)?);
        Ok(all)
    }
}

impl Family for Ipv6Addr {
    const NAME: &'static str = "ipv6";
    // Those of the full table of 2015-11-01.
    const LENGTHS: &'static [(u8, u32)] = &[
        (48, 439),
        (32, 262),
        (40, 44),
        (44, 41),
        (36, 36),
        (29, 31),
        (64, 28),
        (46, 14),
        (33, 11),
        (126, 10),
        (35, 9),
        (34, 8),
        (38, 7),
        (42, 7),
        (47, 7),
        (41, 7),
        (56, 7),
        (43, 5),
        (45, 4),
        (28, 3),
        (128, 2),
        (24, 1),
    ];

    /// In one of 16 blocks of 12 bits of `2000::/3`, and there in one of 4,096 networks of 29 bits, as
    /// providers are.
    fn random(random: &mut SplitMix64) -> Self {
        let number = random.next_u64();
        let provider = 0x2000_0000 | u128::from(number & 15) << 20 | u128::from(number >> 8 & 0xFFF) << 3;
        Self::from_bits(
            provider << 96 | u128::from(random.next_u64()) << 32 | u128::from(random.next_u64() >> 32),
        )
    }

    /// Uniform over prefixes, and within each: nearly all of the routed space belongs to a few short
    /// prefixes, which would leave the others unused.
    fn destinations(routes: &Routes<Self>, count: usize, random: &mut SplitMix64) -> Vec<Self> {
        let mut one = || {
            let (prefix, _) = routes[random.next_u64() as usize % routes.len()];
            let host = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            let host = host.checked_shr(prefix.length().into()).unwrap_or(0);
            Self::from_bits(prefix.address().to_bits() | host)
        };
        (0..count).map(|_| one()).collect()
    }

    #[cfg_attr(not(feature = "dpdk"), expect(unused_variables, reason = "without peers"))]
    fn contenders(
        task: &Arc<Task<Self>>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Box<dyn Contender>>, BenchError> {
        #[cfg_attr(not(feature = "dpdk"), expect(unused_mut, reason = "without peers"))]
        let mut all = ours(task)?;
        #[cfg(feature = "dpdk")]
        all.extend(super::dpdk::v6(task, notes)?);
        Ok(all)
    }
}
