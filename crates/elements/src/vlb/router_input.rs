//! `RouterInput`.

use crate::columns::DstIp;
use crate::fabric::mac::{ExternalPort, RouterMac};
use crate::gateway::DropReason;
use crate::shared_names::drops;
use scalebricks_click::values::Prefix as Network;
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Class, Control, Element, Frame, Handle, HandlerId, Out, SLOTS, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::{Lpm, LpmReader, NextHop, Params, Prefix};
use scalebricks_types::NodeId;
use scalebricks_wire::ethernet;
use std::fmt::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A route of a cluster router: a network, and where packets to it leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterRoute {
    /// The network.
    pub prefix: Prefix<Ipv4Addr>,
    /// Output node, port and next hop.
    pub target: RouterMac,
}

impl Param for ClusterRoute {
    const KIND: &'static str = "a route such as 10.0.0.0/8 3 0 17";

    fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[prefix, node, port, hop] = words.as_slice() else { return None };
        let network: Network = crate::values::value(prefix)?;
        let target = RouterMac::new(
            NodeId::new(node.parse().ok()?),
            ExternalPort::new(port.parse().ok()?)?,
            hop.parse().ok()?,
        );
        Some(Self { prefix: Prefix::of(network.network(), network.length).ok()?, target })
    }
}

impl ListItem for ClusterRoute {
    const KINDS: &'static str = "ADDR/MASK NODE PORT NEXTHOP, …";
}

impl fmt::Display for ClusterRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouterMac { output_node, port, next_hop, .. } = self.target;
        write!(f, "{} {} {port} {next_hop}", self.prefix, output_node.get())
    }
}

fn route(prefix: Prefix<Ipv4Addr>, hop: NextHop) -> Option<ClusterRoute> {
    RouterMac::of_hop(hop).map(|target| ClusterRoute { prefix, target })
}

element! {
    /// The input of a node of a cluster router (RouteBricks §6.1): looks up the route of each packet once, and writes
    /// output node, port and next hop into the frame's destination address. Frames keep their Ethernet header; have
    /// `CheckIPHeader` and `DecIPTTL` before it, with OFFSET 14.
    pub struct RouterInput as "RouterInput" { reader: LpmReader<Ipv4Addr>, dst: Handle<DstIp>, }
    inputs { push "in": "Frames with an IPv4 packet whose header was checked.", }
    outputs { push "out": "The same, with encoded addresses.", }
    params RouterInputParams {
        /// Routes: network, output node, its port, and the number of the next hop there.
        routes: Vec<ClusterRoute> = Vec::new(),
    }
    example { "0.0.0.0/0 0 0 1", "10.0.0.0/8 1 0 2", }
    reads { DstIp, }
    drops { NO_ROUTE = DropReason::NoRoute, TOO_SHORT = drops::TOO_SHORT, }
    handlers {
        read TABLE = "table": "All routes, one per line: network, output node, port, next hop.",
        read ROUTES = "routes": "Number of routes.",
        read LOOKUP = "lookup": "With an address as parameter: its route, or nothing.",
        write ADD = "add": "Adds or replaces a route, `ADDR/MASK NODE PORT NEXTHOP`.",
        write REMOVE = "remove": "Removes the route of a network, `ADDR/MASK`.",
    }
    binds { dst, }
}

impl RouterInput {
    /// The element of one thread, with a table that others may share and change. Its next hops must come from
    /// [`RouterMac::hop`]; others count as no route.
    pub fn new(table: Arc<Lpm<Ipv4Addr>>) -> Self {
        Self { reader: LpmReader::new(table), dst: Handle::default() }
    }
}

impl Class for RouterInput {
    fn make(params: RouterInputParams) -> Result<Self, String> {
        let table = Lpm::new(Params::FAST);
        for ClusterRoute { prefix, target } in params.routes {
            table.insert(prefix, target.hop()).map_err(|error| error.to_string())?;
        }
        Ok(Self::new(Arc::new(table)))
    }
}

impl Control for RouterInput {
    fn read(&self, handler: HandlerId) -> String {
        let table = self.reader.table();
        if handler == Self::ROUTES {
            return table.len().to_string();
        }
        let mut lines = String::new();
        table.for_each(|prefix, hop| {
            if let Some(route) = route(prefix, hop) {
                let _never_fails = writeln!(lines, "{route}");
            }
        });
        lines
    }

    fn ask(&self, handler: HandlerId, parameter: &str) -> Result<String, HandlerError> {
        if handler != Self::LOOKUP {
            return Ok(self.read(handler));
        }
        let wrong = || HandlerError::Value(format!("expected an IP address, not `{parameter}`"));
        let address: Ipv4Addr = crate::values::value(parameter).ok_or_else(wrong)?;
        let found = self.reader.table().longest(address).and_then(|(prefix, hop)| route(prefix, hop));
        Ok(found.map_or_else(String::new, |route| route.to_string()))
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        let table = self.reader.table();
        if handler == Self::ADD {
            let wrong = || HandlerError::Value(format!("expected `{}`, not `{value}`", ClusterRoute::KINDS));
            let ClusterRoute { prefix, target } = ClusterRoute::read(value).ok_or_else(wrong)?;
            let added = table.insert(prefix, target.hop());
            return added.map(|_| ()).map_err(|error| HandlerError::Value(error.to_string()));
        }
        let wrong = || HandlerError::Value(format!("expected the network of a route, not `{value}`"));
        let network: Network = crate::values::value(value).ok_or_else(wrong)?;
        let prefix = Prefix::of(network.network(), network.length).map_err(|_| wrong())?;
        table.remove(prefix).map(|_| ()).ok_or_else(wrong)
    }
}

impl<P: PacketBuf> Element<P> for RouterInput {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (mut addresses, mut hops) = ([Ipv4Addr::UNSPECIFIED; SLOTS], [None; SLOTS]);
        let dst = frame.column(self.dst);
        for (address, slot) in addresses.iter_mut().zip(batch.iter()) {
            *address = dst[slot].0;
        }
        let count = batch.len();
        self.reader.lookup_batch(&addresses[..count], &mut hops[..count]);
        let mut hops = hops.iter();
        batch.filter_map(|slot| {
            let hop = hops.next().copied().flatten();
            let Some(mac) = hop.and_then(RouterMac::of_hop) else {
                out.drop(slot, Self::NO_ROUTE);
                return None;
            };
            if !ethernet::set_destination(frame.packet_mut(&slot).data_mut(), mac.encode()) {
                out.drop(slot, Self::TOO_SHORT);
                return None;
            }
            Some(slot)
        });
        out.all(0, batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, ipv4_of};
    use proptest::prelude::*;

    fn frame(dst: [u8; 4]) -> Vec<u8> {
        [&[9; 12][..], &[8, 0], &ipv4_of(|header| header.dst = dst.into(), b"payload")].concat()
    }

    fn rig(routes: &[&str]) -> Rig {
        Rig::new(1, |builder| {
            builder.declare("c", "CheckIPHeader", &["14"]).declare("r", "RouterInput", routes);
            builder.chain(&["in", "c", "r", "out0"]);
        })
    }

    #[test]
    fn the_route_is_encoded_in_the_destination() {
        let mut rig = rig(&["10.0.0.0/8 1 0 2", "10.9.0.0/16 3 5 300"]);
        rig.send([frame([10, 1, 1, 1]), frame([11, 0, 0, 1]), frame([10, 9, 1, 1])]);
        rig.turn();
        let got = rig.got(0);
        let macs: Vec<_> = got.iter().map(|frame| frame[..6].to_vec()).collect();
        assert_eq!(macs, [[2, 0x5b, 0x40, 1, 0, 2], [2, 0x5b, 0x45, 3, 1, 44]]);
        assert_eq!(got[0][6..], frame([10, 1, 1, 1])[6..]);
        assert_eq!((rig.number("r", "no_route"), rig.number("r", "routes")), (1, 2));
        rig.write("r", "add", "11/8 0 63 65535").unwrap();
        rig.write("r", "remove", "10.9.0.0/16").unwrap();
        assert_eq!(rig.read("r", "table"), "10.0.0.0/8 1 0 2\n11.0.0.0/8 0 63 65535\n");
        assert_eq!(rig.read("r", "lookup 10.9.1.1"), "10.0.0.0/8 1 0 2");
        for wrong in
            ["", "10/8 0 0", "10/8 0 64 1", "10/8 256 0 1", "10/8 0 0 65536", "x 0 0 0", "10/8 0 0 1 1"]
        {
            assert!(rig.write("r", "add", wrong).is_err(), "{wrong:?}");
        }
        assert!(rig.write("r", "remove", "10.9.0.0/16").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn the_longest_prefix_decides(
            routes in prop::collection::vec((any::<u16>(), 0..=16u8, any::<u8>(), 0..64u8, any::<u16>()), 0..12),
            addresses in prop::collection::vec(any::<u16>(), 1..30),
        ) {
            let table = Arc::new(Lpm::new(Params::SMALL));
            let mut twin = std::collections::BTreeMap::new();
            let ip = |high: u16| Ipv4Addr::from_bits(u32::from(high) << 16);
            for (high, length, node, port, hop) in routes {
                let prefix = Prefix::of(ip(high), length).unwrap();
                let mac = RouterMac::new(NodeId::new(node), ExternalPort::new(port).unwrap(), hop);
                table.insert(prefix, mac.hop()).unwrap();
                twin.insert((prefix.length(), prefix.address()), (prefix, mac));
            }
            let mut rig = Rig::new(1, |builder| {
                builder.declare("c", "CheckIPHeader", &["14"]).add("r", RouterInput::new(Arc::clone(&table)));
                builder.chain(&["in", "c", "r", "out0"]);
            });
            rig.send(addresses.iter().map(|&high| frame(ip(high).octets())));
            rig.turn();
            let longest = |high: &u16| twin.values().rev().find(|(prefix, _)| prefix.contains(ip(*high)));
            let expected: Vec<_> = addresses.iter().filter_map(longest).map(|(_, mac)| mac.encode().octets().to_vec()).collect();
            let got: Vec<_> = rig.got(0).iter().map(|frame| frame[..6].to_vec()).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
