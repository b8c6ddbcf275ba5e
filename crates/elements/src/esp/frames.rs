//! Whole frames of a port, as the ESP elements get them in bursts: which they handle, and where those go.

use crate::next_hops::{ADDRESSES, Hop, Names, NextHops};
use crate::plain::{Batch, Plain4};
use crate::values::{Mac, Prefixes};
use scalebricks_graph::Graph;
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_tables::lpm::NextHop;
use scalebricks_wire::ethernet::{self, HEADER_LEN};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// A copy of an element's routes, and of the neighbours that they lead to.
#[derive(Debug)]
pub(crate) struct Routed {
    names: Names,
    hops: Option<NextHops<Ipv4Addr>>,
}

impl Routed {
    const fn new(names: Names) -> Self {
        Self { names, hops: None }
    }

    /// Copies what changed.
    ///
    /// # Errors
    /// The name of which there is no element with routes or neighbours.
    fn refresh<P: PacketBuf + 'static>(&mut self, graph: &mut Graph<P>, now: Duration) -> Result<(), String> {
        if self.hops.is_none() {
            let missing = |name| format!("{name} is no element with routes or neighbours");
            self.hops = Some(NextHops::of(graph, &self.names).map_err(missing)?);
        }
        if let Some(hops) = &mut self.hops {
            hops.refresh(graph, &self.names, now);
        }
        Ok(())
    }

    /// The copy, if it answers as its elements do.
    #[inline]
    pub(crate) fn current(&mut self) -> Option<&mut NextHops<Ipv4Addr>> {
        self.hops.as_mut().filter(|hops| hops.is_current())
    }
}

/// Which frames of a port are handled.
#[derive(Debug)]
pub(crate) struct Gate {
    eth: u64,
    pub(crate) four: Plain4,
}

/// What a port's frames are handled by.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) gate: Gate,
    /// The output of routes that the frames take.
    pub(crate) port: u16,
    /// Routes of inner packets.
    pub(crate) inner: Routed,
    /// Routes of encrypted packets.
    pub(crate) outer: Option<Routed>,
    fault: Option<String>,
}

/// The parameters, as the elements' keywords give them.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) eth: Option<Mac>,
    pub(crate) port: Option<u16>,
    pub(crate) routes: Option<String>,
    pub(crate) outer: Option<String>,
    pub(crate) arp: Option<String>,
    pub(crate) interfaces: Option<Prefixes>,
    pub(crate) mtu: usize,
}

impl Frames {
    /// `None` if no keyword is given.
    ///
    /// # Errors
    /// Some are given and others not.
    pub(crate) fn new(given: Given, needs_outer: bool) -> Result<Option<Self>, String> {
        let Given { eth, port, routes, outer, arp, interfaces, mtu } = given;
        match (eth, port, routes, arp) {
            (None, None, None, None) if outer.is_none() => Ok(None),
            (Some(eth), Some(port), Some(routes), Some(arp)) if outer.is_some() == needs_outer => {
                let neighbours: Vec<String> = arp.split_whitespace().map(str::to_owned).collect();
                let copy = |routes| Routed::new(Names { routes, neighbours: neighbours.clone() });
                Ok(Some(Self {
                    gate: Gate { eth: eth.0.bits(), four: Plain4::new(interfaces.unwrap_or_default(), mtu) },
                    port,
                    inner: copy(routes),
                    outer: outer.map(copy),
                    fault: None,
                }))
            }
            _ if needs_outer => Err("ETH, PORT, ROUTES, OUTER and ARP belong together".to_owned()),
            _ => Err("ETH, PORT, ROUTES and ARP belong together".to_owned()),
        }
    }

    /// Copies what changed in the elements.
    pub(crate) fn refresh<P: PacketBuf + 'static>(&mut self, graph: &mut Graph<P>, now: Duration) {
        for copy in std::iter::once(&mut self.inner).chain(&mut self.outer) {
            if self.fault.is_none()
                && let Err(fault) = copy.refresh(graph, now)
            {
                self.fault = Some(fault);
            }
        }
    }

    /// What is missing.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}

impl Gate {
    /// The IPv4 packet of a frame for this port.
    #[inline(always)]
    pub(crate) fn packet<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        if ethernet::destination_bits(frame) != Some(self.eth) {
            return None;
        }
        let (front, packet) = frame.split_first_chunk::<HEADER_LEN>()?;
        ([front[12], front[13]] == [0x08, 0x00]).then_some(packet)
    }
}

/// Where packets to `dst` go, if a route leads to output `port` and the neighbour is known.
pub(crate) fn hop_to(routes: &mut NextHops<Ipv4Addr>, dst: IpAddr, port: u16, now: u64) -> Option<Hop> {
    let IpAddr::V4(dst) = dst else { return None };
    let mut found = [None];
    routes.lookup(&[dst], &mut found);
    routes.hop(found[0], dst, now).copied().filter(|hop| hop.output == port)
}

/// Destinations of ordinary packets of a burst, and the routes found for them.
pub(crate) struct Found {
    batch: Batch<Ipv4Addr>,
    hops: [Option<NextHop>; BURST],
    /// The place in the batch, by packet.
    places: [Option<u8>; BURST],
}

impl Found {
    /// Looks up the packets of which `destination` knows where they go.
    #[inline(always)]
    pub(crate) fn new<P: PacketBuf>(
        packets: &[P],
        hops: &mut NextHops<Ipv4Addr>,
        mut destination: impl FnMut(usize, &[u8]) -> Option<Ipv4Addr>,
    ) -> Self {
        let mut found =
            Self { batch: Batch::new(Ipv4Addr::UNSPECIFIED), hops: [None; BURST], places: [None; BURST] };
        for (at, (packet, place)) in packets.iter().zip(&mut found.places).enumerate() {
            if let Some(to) = destination(at, packet.data()) {
                *place = Some(found.batch.len as u8);
                found.batch.push(to);
            }
        }
        if found.batch.len > 0 {
            hops.lookup(&found.batch.addresses[..found.batch.len], &mut found.hops);
        }
        found
    }

    /// The next hop and the address of the packet at this place.
    #[inline(always)]
    pub(crate) fn at(&self, at: usize) -> Option<(Option<NextHop>, Ipv4Addr)> {
        let place = usize::from((*self.places.get(at)?)?) % BURST;
        Some((self.hops[place], self.batch.addresses[place]))
    }
}

/// Puts an Ethernet header before an IPv4 packet; `false` if there is no room.
#[inline(always)]
pub(crate) fn put_front<P: PacketBuf>(packet: &mut P, hop: &Hop) -> bool {
    if packet.prepend(HEADER_LEN).is_err() {
        return false;
    }
    if let Some(front) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() {
        if let Some(place) = front.first_chunk_mut::<ADDRESSES>() {
            *place = hop.addresses;
        }
        [front[ADDRESSES], front[ADDRESSES + 1]] = [0x08, 0x00];
    }
    true
}

/// Lowers the TTL of the IPv4 packet at this place, which is above 1.
#[inline(always)]
pub(crate) fn lower_ttl(packet: &mut impl PacketBuf) {
    if let Some(fixed) = packet.data_mut().first_chunk_mut() {
        crate::header::lower_ttl(fixed);
    }
}
