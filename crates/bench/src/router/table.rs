//! The tables of routes that all routers of the benchmark have, and destinations in them.

use crate::benches::lpm::family::Family;
use crate::benches::lpm::routes::{self, Routes};
use crate::error::BenchError;
use scalebricks_tables::lpm::{Lpm, NextHop, Params, Prefix};
use scalebricks_types::mix::SplitMix64;
use scalebricks_wire::MacAddr;
use std::fmt::Display;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Ports; packets arrive at the first.
pub(super) const PORTS: usize = 4;
/// Next hops of each port.
pub(super) const GATEWAYS: usize = 16;
/// Destinations in rotation.
pub(super) const DESTINATIONS: usize = 1 << 16;

/// A port's address.
pub(super) const fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, port as u8, 0])
}

/// The address of a port's next hop.
pub(super) const fn gateway_mac(port: usize, number: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, port as u8, number as u8 + 1])
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    /// From 2 on, not the port where packets arrive.
    pub(super) port: usize,
    /// Of its next hops.
    pub(super) number: usize,
}

impl Hop {
    /// Number of next hops of all ports.
    pub(super) const ALL: usize = (PORTS - 1) * GATEWAYS;

    /// The next hop of this index.
    pub(super) const fn of(index: u32) -> Self {
        let index = index as usize;
        Self { port: 2 + index / GATEWAYS, number: index % GATEWAYS }
    }

    /// Its index.
    pub(super) const fn index(self) -> usize {
        (self.port - 2) * GATEWAYS + self.number
    }
}

/// A family of addresses that routers forward.
pub(super) trait Routed: Family + Display {
    /// Prefixes of a generated table: of a quick run, and as many as there were in May 2014 or November 2015.
    const PREFIXES: [usize; 2];

    /// Whether routers forward packets there.
    fn is_routed(self) -> bool;

    /// A random address in a prefix.
    fn within(prefix: Prefix<Self>, random: &mut SplitMix64) -> Self;

    /// The address of a port's next hop.
    fn gateway(port: usize, number: usize) -> Self;
}

impl Routed for Ipv4Addr {
    const PREFIXES: [usize; 2] = [10_000, 512_621];

    fn is_routed(self) -> bool {
        let [first, second, ..] = self.octets();
        (11..224).contains(&first) && first != 127 && (first, second) != (169, 254)
    }

    fn within(prefix: Prefix<Self>, random: &mut SplitMix64) -> Self {
        let host = (random.next_u64() as u32).checked_shr(prefix.length().into()).unwrap_or(0);
        Self::from_bits(prefix.address().to_bits() | host)
    }

    fn gateway(port: usize, number: usize) -> Self {
        Self::new(10, 255, port as u8, number as u8 + 1)
    }
}

impl Routed for Ipv6Addr {
    const PREFIXES: [usize; 2] = [2_000, 27_693];

    /// Global unicast.
    fn is_routed(self) -> bool {
        self.segments()[0] >> 13 == 1
    }

    fn within(prefix: Prefix<Self>, random: &mut SplitMix64) -> Self {
        let host = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let host = host.checked_shr(prefix.length().into()).unwrap_or(0);
        Self::from_bits(prefix.address().to_bits() | host)
    }

    fn gateway(port: usize, number: usize) -> Self {
        Self::new(0xfd00, 0, 0, port as u16, 0, 0, 0, number as u16 + 1)
    }
}

/// Routes, and where packets go.
#[derive(Debug)]
pub(super) struct RouteTable<A: Routed> {
    /// Each with the index of its [`Hop`].
    pub(super) routes: Routes<A>,
    /// Each with the hop of its longest prefix.
    pub(super) destinations: Vec<(A, Hop)>,
}

impl<A: Routed> RouteTable<A> {
    /// These routes, or as many generated ones, to random next hops, and so many destinations.
    ///
    /// # Errors
    /// [`BenchError`] if there is no route.
    pub(super) fn new(known: Routes<A>, count: usize, destinations: usize) -> Result<Self, BenchError> {
        let (mut random, table) = (SplitMix64(1), Lpm::<A>::new(Params::FAST));
        let is_routed = |(prefix, _): &(Prefix<A>, u32)| prefix.address().is_routed();
        let mut routes: Routes<A> = known.into_iter().filter(is_routed).collect();
        if routes.is_empty() {
            routes = routes::generated::<A>(count, |prefix| prefix.address().is_routed());
        }
        for (prefix, hop) in &mut routes {
            *hop = (random.next_u64() % Hop::ALL as u64) as u32; // a few dozen
            if let Some(hop) = NextHop::new(*hop) {
                table.insert(*prefix, hop).map_err(|error| BenchError::of("router", error))?;
            }
        }
        let mut all = Self { routes, destinations: Vec::with_capacity(destinations) };
        while all.destinations.len() < destinations {
            let address = A::within(all.routes[random.next_u64() as usize % all.routes.len()].0, &mut random);
            // The search of all prefixes, not the lookup that is measured.
            let Some((_, hop)) = table.longest(address).filter(|_| address.is_routed()) else { continue };
            all.destinations.push((address, Hop::of(hop.index())));
        }
        Ok(all)
    }

    /// Writes the routes for our router.
    ///
    /// # Errors
    /// [`BenchError::Check`] if the file cannot be written.
    pub(super) fn write(&self, to: &Path) -> Result<(), BenchError> {
        let written = || {
            let mut text = BufWriter::new(std::fs::File::create(to)?);
            for (prefix, hop) in &self.routes {
                let Hop { port, number } = Hop::of(*hop);
                writeln!(text, "{prefix} {} {port}", A::gateway(port, number))?;
            }
            text.flush()
        };
        written().map_err(|error: std::io::Error| {
            BenchError::check("router", format!("{}: {error}", to.display()))
        })
    }
}
