//! A copy of routes and of their neighbours' MAC addresses, for elements that forward whole bursts.
//!
//! The copy answers only if the elements that it was made from would answer the same: it is stale from the moment a route
//! changes until [`NextHops::refresh`], and it holds an address no longer than its element would use it without a request.

use crate::ip::{direct_ip_lookup, linear_ip_lookup, radix_ip_lookup, static_ip_lookup};
use crate::ip6::lookup_ip6_route::LookupIP6Route;
use crate::resolver::{Discovery, Resolver};
use crate::routes::{Family, Routes};
use crate::{ARPQuerier, IP6NDSolicitor};
use scalebricks_graph::Graph;
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::{LpmReader, NextHop};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Least time between two copies of neighbours. A new neighbour's packets are resolved by its element until then.
const INTERVAL: Duration = Duration::from_millis(10);

/// Both addresses of an Ethernet header.
pub(crate) const ADDRESSES: usize = 12;

/// Where a route leads. Half a cache line, so that a lookup touches one.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
pub(crate) struct Hop {
    /// Until when it may be used, on the worker's clock in nanoseconds; 0 if not at all.
    until: u64,
    /// The route's output.
    pub(crate) output: u16,
    /// Whether the next hop is the packet's destination.
    is_on_link: bool,
    /// Destination and source of the frame.
    pub(crate) addresses: [u8; ADDRESSES],
}

/// Neighbours of one output.
#[derive(Debug)]
struct Neighbours<A> {
    changes: Arc<AtomicU64>,
    seen: u64,
    hops: HashMap<A, Hop>,
}

/// The copy.
#[derive(Debug)]
pub(crate) struct NextHops<A: Family> {
    reader: LpmReader<A>,
    changes: Arc<AtomicU64>,
    seen: u64,
    /// By next hop of the table.
    hops: Vec<Hop>,
    /// By output, from 1 on.
    neighbours: Vec<Neighbours<A>>,
    refreshed: Duration,
    /// Outputs that are used: below the first number, except the second.
    used: (u16, Option<u16>),
}

/// An address family whose routes and neighbours elements hold.
pub(crate) trait Held<P>: Family {
    /// The protocol of neighbours.
    type Discovery: Discovery<Address = Self>;

    /// The routes of an element.
    fn routes<'a>(graph: &'a mut Graph<P>, name: &str) -> Option<&'a Routes<Self>>;

    /// The neighbours of an element.
    fn resolver<'a>(graph: &'a mut Graph<P>, name: &str) -> Option<&'a Resolver<P, Self::Discovery>>;
}

impl<P: PacketBuf + 'static> Held<P> for Ipv4Addr {
    type Discovery = crate::ethernet::arp_querier::ArpLink;

    fn routes<'a>(graph: &'a mut Graph<P>, name: &str) -> Option<&'a Routes<Self>> {
        macro_rules! first_of {
            ($($class:ty),+) => {
                $(if graph.get_mut::<$class>(name).is_some() {
                    return graph.get_mut::<$class>(name).map(|lookup| lookup.routes());
                })+
            };
        }
        first_of!(
            direct_ip_lookup::DirectIPLookup,
            radix_ip_lookup::RadixIPLookup,
            static_ip_lookup::StaticIPLookup,
            linear_ip_lookup::LinearIPLookup
        );
        None
    }

    fn resolver<'a>(graph: &'a mut Graph<P>, name: &str) -> Option<&'a Resolver<P, Self::Discovery>> {
        graph.get_mut::<ARPQuerier<P>>(name).map(|querier| querier.resolver())
    }
}

impl<P: PacketBuf + 'static> Held<P> for Ipv6Addr {
    type Discovery = crate::ip6::ip6_nd_solicitor::NdLink;

    fn routes<'a>(graph: &'a mut Graph<P>, name: &str) -> Option<&'a Routes<Self>> {
        graph.get_mut::<LookupIP6Route>(name).map(|lookup| lookup.routes())
    }

    fn resolver<'a>(graph: &'a mut Graph<P>, name: &str) -> Option<&'a Resolver<P, Self::Discovery>> {
        graph.get_mut::<IP6NDSolicitor<P>>(name).map(|solicitor| solicitor.resolver())
    }
}

/// The names of the elements that hold routes, and neighbours by output.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) routes: String,
    pub(crate) neighbours: Vec<String>,
}

impl<A: Family> NextHops<A> {
    /// An empty copy of the elements of these names; it is stale.
    ///
    /// # Errors
    /// The name of which there is no such element.
    pub(crate) fn of<P: PacketBuf + 'static>(graph: &mut Graph<P>, names: &Names) -> Result<Self, String>
    where
        A: Held<P>,
    {
        let routes = A::routes(graph, &names.routes).ok_or_else(|| names.routes.clone())?;
        let (reader, changes) = (LpmReader::new(Arc::clone(routes.table())), Arc::clone(routes.changes()));
        let mut neighbours = Vec::new();
        for name in &names.neighbours {
            let resolver = A::resolver(graph, name).ok_or_else(|| name.clone())?;
            let changes = Arc::clone(resolver.neighbours.changes());
            neighbours.push(Neighbours { changes, seen: u64::MAX, hops: HashMap::new() });
        }
        Ok(Self {
            reader,
            changes,
            seen: u64::MAX,
            hops: Vec::new(),
            neighbours,
            refreshed: Duration::ZERO,
            used: (u16::MAX, None),
        })
    }

    /// Uses only outputs below `outputs`, and not `except`: no other route has a next hop.
    #[must_use]
    pub(crate) fn only(mut self, outputs: usize, except: u16) -> Self {
        self.used = (u16::try_from(outputs).unwrap_or(u16::MAX), Some(except));
        self
    }

    /// Whether the routes are those that were copied.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.changes.load(Ordering::Relaxed) == self.seen
    }

    /// Copies what changed. Cost if nothing did: a load per element.
    pub(crate) fn refresh<P: PacketBuf + 'static>(
        &mut self,
        graph: &mut Graph<P>,
        names: &Names,
        now: Duration,
    ) where
        A: Held<P>,
    {
        let is_due = self.seen == u64::MAX || now >= self.refreshed.saturating_add(INTERVAL);
        let changed = |known: &Neighbours<A>| known.changes.load(Ordering::Relaxed) != known.seen;
        if self.is_current() && !(is_due && self.neighbours.iter().any(changed)) {
            return;
        }
        self.refreshed = now;
        let (outputs, except) = self.used;
        let is_used = |output: u16| output < outputs && except != Some(output);
        for ((known, name), output) in self.neighbours.iter_mut().zip(&names.neighbours).zip(1..) {
            let Some(resolver) = A::resolver(graph, name) else { continue };
            known.seen = known.changes.load(Ordering::Relaxed);
            known.hops.clear();
            let own = resolver.link.mac();
            known.hops.extend(resolver.neighbours.usable(&resolver.config).map(|(address, mac, until)| {
                let mut addresses = [0; ADDRESSES];
                addresses[..6].copy_from_slice(&mac.0);
                addresses[6..].copy_from_slice(&own.0);
                (address, Hop { until: nanoseconds(until), output, is_on_link: false, addresses })
            }));
        }
        let Some(routes) = A::routes(graph, &names.routes) else { return };
        self.seen = self.changes.load(Ordering::Relaxed);
        self.hops.clear();
        let neighbours = &self.neighbours;
        self.hops.extend(routes.targets().map(|target| {
            let output = target.output;
            if !is_used(output) {
                return Hop { output, ..Hop::default() };
            }
            let Some(gateway) = target.gateway else {
                return Hop { output, is_on_link: true, ..Hop::default() };
            };
            let known = usize::from(output).checked_sub(1).and_then(|at| neighbours.get(at));
            known
                .and_then(|known| known.hops.get(&gateway))
                .copied()
                .unwrap_or(Hop { output, ..Hop::default() })
        }));
    }

    /// The next hops of addresses in the table.
    #[inline]
    pub(crate) fn lookup(&mut self, addresses: &[A], hops: &mut [Option<NextHop>]) {
        self.reader.lookup_batch(addresses, hops);
    }

    /// The output of the route with this next hop, whether its neighbour is known or not.
    #[inline(always)]
    pub(crate) fn output(&self, hop: Option<NextHop>) -> Option<u16> {
        self.hops.get(hop?.index() as usize).map(|hop| hop.output)
    }

    /// Where packets to an address with this next hop go, if that is known at this time.
    #[inline(always)]
    pub(crate) fn hop(&self, hop: Option<NextHop>, address: A, now: u64) -> Option<&Hop> {
        let hop = self.hops.get(hop?.index() as usize)?;
        if hop.until > now { Some(hop) } else { self.on_link(hop, address, now) }
    }

    #[inline(never)]
    fn on_link(&self, hop: &Hop, address: A, now: u64) -> Option<&Hop> {
        if !hop.is_on_link {
            return None;
        }
        let known = self.neighbours.get(usize::from(hop.output).checked_sub(1)?)?;
        known.hops.get(&address).filter(|found| found.until > now)
    }
}

/// A time on the worker's clock as [`NextHops::hop`] takes it.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
