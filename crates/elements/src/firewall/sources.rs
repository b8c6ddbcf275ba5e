//! Flows per source address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many flows each source address has begun that have not ended. An entry has at least one flow, so that the number of
/// flows bounds the memory. IPv6 sources count by their first 64 bits, as one host has many addresses there.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The hash has a random key, as attackers choose the addresses.
    flows: HashMap<IpAddr, u32>,
}

fn host(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

impl Sources {
    /// Flows of a source.
    pub(crate) fn of(&self, address: IpAddr) -> u32 {
        self.flows.get(&host(address)).copied().unwrap_or(0)
    }

    /// A flow begins.
    pub(crate) fn add(&mut self, address: IpAddr) {
        *self.flows.entry(host(address)).or_insert(0) += 1;
    }

    /// A flow ends.
    pub(crate) fn remove(&mut self, address: IpAddr) {
        let address = host(address);
        if let Some(flows) = self.flows.get_mut(&address) {
            *flows -= 1;
            if *flows == 0 {
                self.flows.remove(&address);
            }
        }
    }

    /// Number of sources.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// The source with most flows.
    pub(crate) fn busiest(&self) -> (IpAddr, u32) {
        let most = self.flows.iter().max_by_key(|(address, flows)| (**flows, **address));
        most.map_or((Ipv4Addr::UNSPECIFIED.into(), 0), |(address, flows)| (*address, *flows))
    }
}
