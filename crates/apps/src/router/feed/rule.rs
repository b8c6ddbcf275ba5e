//! Which of a router's outputs a route gets.

use super::FeedRoute;
use scalebricks_types::mix::splitmix64;
use std::net::IpAddr;
use std::num::NonZeroU32;

/// A rule from a route to one of several outputs. The outputs of a published table are unknown, so a rule
/// spreads its routes: all of one origin, or all of one next hop, to the same output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputRule {
    /// By the origin AS, as routes of one network leave by one link. Routes without origin get output 0.
    #[default]
    Origin,
    /// By the BGP next hop; by the origin where the feed names no next hop.
    NextHop,
}

impl OutputRule {
    /// The output of a route, below `outputs`. The same on every machine.
    ///
    /// Cost: a few multiplications.
    pub fn output(self, route: &FeedRoute, outputs: NonZeroU32) -> u32 {
        let key = match (self, route.next_hop, route.origin) {
            (Self::NextHop, Some(IpAddr::V4(address)), _) => address.to_bits().into(),
            (Self::NextHop, Some(IpAddr::V6(address)), _) => {
                let bits = address.to_bits();
                (bits >> 64) as u64 ^ splitmix64(bits as u64) // both halves
            }
            (_, _, Some(origin)) => origin.into(),
            (_, _, None) => return 0,
        };
        // The upper half of the product is below `outputs`.
        (((splitmix64(key) >> 32) * u64::from(outputs.get())) >> 32) as u32
    }
}
