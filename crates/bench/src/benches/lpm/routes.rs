//! Tables of routes: from files, or generated.

use super::NEXT_HOPS;
use super::family::Family;
use crate::error::BenchError;
use scalebricks_apps::router::feed::{self, OutputRule};
use scalebricks_tables::lpm::{IpPrefix, Prefix};
use scalebricks_types::mix::SplitMix64;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Prefixes and the indices of their next hops, in the order of a feed; each prefix once.
pub type Routes<A> = Vec<(Prefix<A>, u32)>;

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

/// A generated table of `count` prefixes with the lengths of real ones, of those that are wanted.
pub fn generated<A: Family>(count: usize, is_wanted: impl Fn(Prefix<A>) -> bool) -> Routes<A> {
    let total: u32 = A::LENGTHS.iter().map(|(_, share)| share).sum();
    let (mut routes, mut random) = (BTreeMap::new(), SplitMix64(7));
    while routes.len() < count {
        let mut left = (random.next_u64() % u64::from(total)) as u32; // below `total`
        let length = A::LENGTHS.iter().find(|(_, share)| {
            let is_it = left < *share;
            left = left.saturating_sub(*share);
            is_it
        });
        let length = length.map_or(24, |(length, _)| *length);
        let hop = random.next_u64() % u64::from(NEXT_HOPS);
        let prefix = Prefix::of(A::random(&mut random), length).ok().filter(|prefix| is_wanted(*prefix));
        routes.extend(prefix.map(|prefix| (prefix, hop as u32)));
    }
    routes.into_iter().collect()
}
