//! Packets of a synthetic backbone mix to the networks of a routing table.

use super::{LOAD_PERCENT, PORT_RATE, RouterDemoError};
use crate::demo::mix::hash;
use etherparse::{Ipv4Header, PacketBuilder};
use scalebricks_apps::router::mix::{Mix, MixPacket};
use scalebricks_apps::router::routes::Announcement;
use scalebricks_elements::fabric::mac::RouterMac;
use scalebricks_tables::lpm::Lpm;
use scalebricks_wire::scope::is_forwarded_v4;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// TTL of packets that arrive.
pub const TTL: u8 = 64;

/// Draws of a network for a flow until one leads where it should.
const DRAWS: u64 = 4_096;

/// Who sends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Each flow to any network of the table.
    Any,
    /// All flows of an input to networks of the next node: the paper's reordering experiment at every input at once.
    Next,
}

impl Spread {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Any, Self::Next];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any to any",
            Self::Next => "each to the next",
        }
    }
}

/// Addresses of the routing table's networks, and where they leave.
#[derive(Debug)]
pub struct Destinations<'a> {
    routes: &'a [Announcement],
    /// The routing table.
    pub table: &'a Arc<Lpm<Ipv4Addr>>,
    seed: u64,
}

/// Where a flow goes: its address, and what the longest prefix says.
#[derive(Debug, Clone, Copy)]
pub struct Destination {
    /// The address.
    pub address: Ipv4Addr,
    /// Node, port and next hop.
    pub exit: RouterMac,
}

impl<'a> Destinations<'a> {
    /// Addresses in these routes.
    pub const fn new(routes: &'a [Announcement], table: &'a Arc<Lpm<Ipv4Addr>>, seed: u64) -> Self {
        Self { routes, table, seed }
    }

    /// The destination of a flow of an input. It is found by the table's control side, which the data plane's lookup does
    /// not use.
    fn of_flow(&self, input: usize, flow: u64, nodes: usize, spread: Spread) -> Option<Destination> {
        let wanted = (input + 1) % nodes;
        (0..DRAWS).find_map(|draw| {
            let random = hash(self.seed, 0x40 + draw, flow);
            let route = self.routes.get(((u128::from(random) * self.routes.len() as u128) >> 64) as usize)?;
            let host = hash(self.seed, 0x41 + draw, flow) as u32;
            let mask = u32::MAX.checked_shr(u32::from(route.prefix.length())).unwrap_or(0);
            let address = Ipv4Addr::from_bits(route.prefix.address().to_bits() | host & mask);
            let exit = RouterMac::of_hop(self.table.longest(address)?.1)?;
            let fits = spread == Spread::Any || exit.output_node.index() == wanted;
            (fits && is_forwarded_v4(address)).then_some(Destination { address, exit })
        })
    }
}

/// A packet that arrives.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// When.
    pub at: Duration,
    /// At which input.
    pub input: usize,
    /// Its flow, unique over all inputs.
    pub flow: u64,
    /// Its place in the flow.
    pub number: u64,
    /// Bytes of its frame.
    pub bytes: usize,
    /// Where it must leave.
    pub destination: Destination,
}

/// The packets of an input, in order of time.
#[derive(Debug)]
enum Line<'a> {
    Mix(Mix),
    Capture(std::slice::Iter<'a, MixPacket>),
}

impl Iterator for Line<'_> {
    type Item = MixPacket;

    fn next(&mut self) -> Option<MixPacket> {
        match self {
            Self::Mix(mix) => mix.next(),
            Self::Capture(packets) => packets.next().copied(),
        }
    }
}

/// The packets of all inputs, in order of time.
#[derive(Debug)]
pub struct Arrivals<'a> {
    destinations: &'a Destinations<'a>,
    spread: Spread,
    inputs: Vec<std::iter::Peekable<Line<'a>>>,
    flows: HashMap<u64, Destination>,
}

impl<'a> Arrivals<'a> {
    /// A line with a mix of flows at each node, or with the packets of a capture at the first.
    pub fn new(
        destinations: &'a Destinations<'a>,
        nodes: usize,
        spread: Spread,
        capture: Option<&'a [MixPacket]>,
    ) -> Self {
        let load = PORT_RATE * LOAD_PERCENT / 100;
        let line = |input: usize| match (capture, input) {
            (Some(packets), 0) => Line::Capture(packets.iter()),
            (Some(_), _) => Line::Capture([].iter()),
            (None, _) => Line::Mix(Mix::new(PORT_RATE, load, hash(destinations.seed, 0x50, input as u64))),
        };
        let inputs = (0..nodes).map(|input| line(input).peekable()).collect();
        Self { destinations, spread, inputs, flows: HashMap::new() }
    }

    /// The next packet that has arrived by `now`.
    ///
    /// # Errors
    /// [`RouterDemoError::NoRoute`].
    pub fn next(&mut self, now: Duration) -> Result<Option<Planned>, RouterDemoError> {
        let nodes = self.inputs.len();
        let due = self.inputs.iter_mut().enumerate().filter_map(|(input, mix)| Some((mix.peek()?.at, input)));
        let Some((at, input)) = due.min().filter(|&(at, _)| at <= now) else { return Ok(None) };
        let Some(packet) = self.inputs[input].next() else { return Ok(None) };
        let flow = (input as u64) << 48 | packet.flow;
        let destination = if let Some(&destination) = self.flows.get(&flow) {
            destination
        } else {
            let found = self.destinations.of_flow(input, flow, nodes, self.spread);
            let destination = found.ok_or(RouterDemoError::NoRoute((input + 1) % nodes))?;
            self.flows.insert(flow, destination);
            destination
        };
        Ok(Some(Planned { at, input, flow, number: packet.number, bytes: packet.bytes, destination }))
    }
}

/// Builds the frame of a packet.
pub fn frame(packet: &Planned, into: &mut Vec<u8>) {
    into.clear();
    let flow = packet.flow;
    let src = [100, 64 + packet.input as u8 % 64, (flow >> 8) as u8, flow as u8];
    let payload = vec![0; packet.bytes.saturating_sub(14 + Ipv4Header::MIN_LEN + 8)];
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(src, packet.destination.address.octets(), TTL)
        .udp((flow >> 16) as u16, 443);
    // A packet of at most 1,500 octets always fits.
    let _written = builder.write(into, &payload);
}
