//! Tables of routes: from files, or generated.

use super::NEXT_HOPS;
use super::family::Family;
use crate::error::BenchError;
use scalebricks_apps::router::feed::{self, OutputRule};
use scalebricks_tables::lpm::{IpPrefix, Prefix};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Prefixes and the indices of their next hops, in the order of a feed; each prefix once.
pub type Routes<A> = Vec<(Prefix<A>, u32)>;

/// A step of `SplitMix64`.
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// The routes of all files, without default routes, which DPDK's `rte_lpm` cannot hold.
///
/// # Errors
/// [`BenchError::Structure`] if a file cannot be read.
pub fn read(files: &[PathBuf]) -> Result<(Routes<Ipv4Addr>, Routes<Ipv6Addr>), BenchError> {
    let (mut v4, mut v6) = (BTreeMap::new(), BTreeMap::new());
    let outputs = NonZeroU32::new(NEXT_HOPS).unwrap_or(NonZeroU32::MIN);
    for path in files {
        let failed = |error: feed::FeedError| BenchError::of(&path.display().to_string(), error);
        let file = File::open(path).map_err(|error| failed(error.into()))?;
        feed::read(file, |route| {
            let hop = OutputRule::Origin.output(&route, outputs);
            match route.prefix {
                IpPrefix::V4(prefix) => drop(v4.insert(prefix, hop)),
                IpPrefix::V6(prefix) => drop(v6.insert(prefix, hop)),
            }
        })
        .map_err(failed)?;
    }
    let kept = |length: u8| length > 0;
    Ok((
        v4.into_iter().filter(|(prefix, _)| kept(prefix.length())).collect(),
        v6.into_iter().filter(|(prefix, _)| kept(prefix.length())).collect(),
    ))
}

/// A generated table of `count` prefixes with the lengths of real ones.
pub fn generated<A: Family>(count: usize) -> Routes<A> {
    let total: u32 = A::LENGTHS.iter().map(|(_, share)| share).sum();
    let (mut routes, mut state) = (BTreeMap::new(), 7);
    while routes.len() < count {
        let mut left = (random(&mut state) % u64::from(total)) as u32; // below `total`
        let length = A::LENGTHS.iter().find(|(_, share)| {
            let is_it = left < *share;
            left = left.saturating_sub(*share);
            is_it
        });
        let length = length.map_or(24, |(length, _)| *length);
        let hop = random(&mut state) % u64::from(NEXT_HOPS);
        routes.extend(Prefix::of(A::random(&mut state), length).ok().map(|prefix| (prefix, hop as u32)));
    }
    routes.into_iter().collect()
}
