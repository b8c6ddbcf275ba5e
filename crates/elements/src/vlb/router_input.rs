//! `RouterInput`.

use crate::annotations::{PacketType, note_mtu};
use crate::columns::{DstIp, DstIp6, Ip6Header, IpHeader, NextAddress};
use crate::fabric::cluster_route::{ClusterRoute, Network};
use crate::fabric::mac::RouterMac;
use crate::fabric::mtus::Mtus;
use crate::gateway::DropReason;
use crate::routes::Family;
use crate::shared_names::drops;
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{
    Binder, Class, Control, DropId, Element, Frame, Handle, HandlerId, Out, SLOTS, Slot, SlotList, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::{Lpm, LpmReader, Params};
use scalebricks_wire::ethernet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

element! {
    /// The input of a node of a cluster router (RouteBricks §6.1): looks up the route of each packet once, and writes
    /// output node, port and next hop into the frame's destination address. Frames keep their Ethernet header. Have
    /// `CheckIPHeader` and `DecIPTTL`, or `CheckIP6Header` and `DecIP6HLIM`, before it, with OFFSET 14. Packets to groups,
    /// to addresses of one link and those that arrived as link broadcast are never forwarded.
    pub struct RouterInput as "RouterInput" {
        v4: Input<DstIp>, v6: Input<DstIp6>, mtus: Option<Arc<Mtus>>, limit: u16,
        /// By output, whether it is connected.
        connected: [bool; 5],
    }
    inputs {
        push "in": "Frames with an IPv4 packet whose header was checked.",
        push "ip6" [Optional]: "Frames with an IPv6 packet whose header was checked.",
    }
    outputs {
        push "out": "The same, with encoded addresses.",
        push "unreachable" [Optional]: "IPv4 packets without a route; dropped if unconnected.",
        push "unreachable6" [Optional]: "IPv6 packets without a route; dropped if unconnected.",
        push "big" [Optional]: "IPv4 packets longer than the MTU of their port, with that MTU as their mark; dropped if unconnected.",
        push "big6" [Optional]: "IPv6 packets longer than the MTU of their port, with that MTU as their mark; dropped if unconnected.",
    }
    params RouterInputParams {
        /// Routes of both families: network, output node, its port, and the number of the next hop there.
        routes: Vec<ClusterRoute> = Vec::new(),
        /// The MTU of all external ports. A program may give each its own.
        mtu: u16 = u16::MAX,
    }
    example { "0.0.0.0/0 0 0 1", "10.0.0.0/8 1 0 2", "2001:db8::/32 1 0 3", }
    reads { DstIp on "in", IpHeader on "in", DstIp6 on "ip6", Ip6Header on "ip6", }
    writes {
        DstIp on "unreachable", IpHeader on "unreachable", DstIp on "big", IpHeader on "big",
        DstIp6 on "unreachable6", Ip6Header on "unreachable6", DstIp6 on "big6", Ip6Header on "big6",
    }
    drops {
        NO_ROUTE = DropReason::NoRoute,
        TOO_SHORT = drops::TOO_SHORT,
        NOT_FORWARDED = "not_forwarded": "The destination is a group, or an address of one link or host.",
        LINK_BROADCAST = drops::LINK_BROADCAST,
        TOO_BIG = drops::OVER_LENGTH,
    }
    handlers {
        read TABLE = "table": "All routes, one per line: network, output node, port, next hop.",
        read ROUTES = "routes": "Number of routes.",
        read LOOKUP = "lookup": "With an address as parameter: its route, or nothing.",
        write ADD = "add": "Adds or replaces a route, `ADDR/MASK NODE PORT NEXTHOP`.",
        write REMOVE = "remove": "Removes the route of a network, `ADDR/MASK`.",
    }
}

/// The routes of one family.
#[derive(Debug)]
struct Input<C: NextAddress> {
    reader: LpmReader<C::Address>,
    dst: Handle<C>,
}

impl<C: NextAddress> Input<C> {
    fn new(table: Arc<Lpm<C::Address>>) -> Self {
        Self { reader: LpmReader::new(table), dst: Handle::default() }
    }
}

/// Where packets of one family go that are not forwarded.
#[derive(Debug, Clone, Copy)]
struct Rejects {
    unreachable: usize,
    big: usize,
}

/// What a packet's destination address becomes.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Forward(RouterMac),
    Reject(usize, DropId),
}

impl RouterInput {
    /// The element of one thread, with tables that others may share and change. Their next hops must come from
    /// [`RouterMac::hop`]; others count as no route. Packets longer than the MTU of the port where they would leave are
    /// not forwarded.
    pub fn new(table: Arc<Lpm<Ipv4Addr>>, table6: Arc<Lpm<Ipv6Addr>>, mtus: Option<Arc<Mtus>>) -> Self {
        let (v4, v6) = (Input::new(table), Input::new(table6));
        Self { v4, v6, mtus, limit: u16::MAX, connected: [false; 5] }
    }

    fn forward<C: NextAddress, P: PacketBuf>(
        input: &mut Input<C>,
        rejects: Rejects,
        exceeded: impl Fn(u16, RouterMac) -> Option<u16>,
        batch: &mut SlotList,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
        connected: [bool; 5],
    ) {
        let dst = frame.column(input.dst);
        let Some(first) = batch.iter().next().map(|slot| dst[slot].address()) else { return };
        let (mut addresses, mut hops) = ([first; SLOTS], [None; SLOTS]);
        for (address, slot) in addresses.iter_mut().zip(batch.iter()) {
            *address = dst[slot].address();
        }
        let count = batch.len();
        input.reader.lookup_batch(&addresses[..count], &mut hops[..count]);
        let mut found = addresses.iter().zip(hops);
        batch.filter_map(|slot| {
            let (address, hop) = found.next()?;
            let meta = frame.meta(&slot);
            let target = hop.and_then(RouterMac::of_hop);
            let mtu = target.and_then(|mac| exceeded(meta.length, mac));
            let fate = match target {
                _ if !address.is_forwarded() => Fate::Reject(usize::MAX, Self::NOT_FORWARDED),
                _ if PacketType::noted(meta).is_shared() => Fate::Reject(usize::MAX, Self::LINK_BROADCAST),
                None => Fate::Reject(rejects.unreachable, Self::NO_ROUTE),
                Some(_) if mtu.is_some() => {
                    note_mtu(frame.meta_mut(&slot), mtu.unwrap_or_default());
                    Fate::Reject(rejects.big, Self::TOO_BIG)
                }
                Some(mac) => Fate::Forward(mac),
            };
            match fate {
                Fate::Forward(mac) => {
                    if ethernet::set_destination(frame.packet_mut(&slot).data_mut(), mac.encode()) {
                        return Some(slot);
                    }
                    out.drop(slot, Self::TOO_SHORT);
                }
                Fate::Reject(output, reason) => reject(slot, output, reason, connected, out),
            }
            None
        });
        out.all(0, batch);
    }
}

#[cold]
fn reject(slot: Slot, output: usize, reason: DropId, connected: [bool; 5], out: &mut Out<'_>) {
    if connected.get(output) == Some(&true) { out.push(output, slot) } else { out.drop(slot, reason) }
}

impl Class for RouterInput {
    fn make(params: RouterInputParams) -> Result<Self, String> {
        let (table, table6) = (Lpm::new(Params::FAST), Lpm::new(Params::SMALL));
        for route in params.routes {
            route.insert(&table, &table6)?;
        }
        Ok(Self { limit: params.mtu, ..Self::new(Arc::new(table), Arc::new(table6), None) })
    }
}

impl Control for RouterInput {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        (self.v4.dst, self.v6.dst) = (binder.column()?, binder.column()?);
        self.connected = std::array::from_fn(|output| binder.is_connected(output));
        Ok(())
    }

    fn read(&self, handler: HandlerId) -> String {
        let (table, table6) = (self.v4.reader.table(), self.v6.reader.table());
        if handler == Self::ROUTES {
            return (table.len() + table6.len()).to_string();
        }
        ClusterRoute::list(table, table6)
    }

    fn ask(&self, handler: HandlerId, parameter: &str) -> Result<String, HandlerError> {
        if handler != Self::LOOKUP {
            return Ok(self.read(handler));
        }
        let wrong = || HandlerError::Value(format!("expected an IP address, not `{parameter}`"));
        let found = match parameter.trim().parse().map_err(|_| wrong())? {
            IpAddr::V4(address) => {
                let found = self.v4.reader.table().longest(address);
                found.and_then(|(prefix, hop)| ClusterRoute::of(Network::V4(prefix), hop))
            }
            IpAddr::V6(address) => {
                let found = self.v6.reader.table().longest(address);
                found.and_then(|(prefix, hop)| ClusterRoute::of(Network::V6(prefix), hop))
            }
        };
        Ok(found.map_or_else(String::new, |route| route.to_string()))
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        let (table, table6) = (self.v4.reader.table(), self.v6.reader.table());
        if handler == Self::ADD {
            return ClusterRoute::parse(value)?.insert(table, table6).map_err(HandlerError::Value);
        }
        let wrong = || HandlerError::Value(format!("expected the network of a route, not `{value}`"));
        let removed = match Network::read(value).ok_or_else(wrong)? {
            Network::V4(prefix) => table.remove(prefix),
            Network::V6(prefix) => table6.remove(prefix),
        };
        removed.map(|_| ()).ok_or_else(wrong)
    }
}

impl<P: PacketBuf> Element<P> for RouterInput {
    fn push(&mut self, input: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Self { v4, v6, mtus, limit, connected } = self;
        let (mtus, limit) = (mtus.as_deref(), *limit);
        let exceeded = |length, mac| {
            if length > limit { Some(limit) } else { mtus.and_then(|mtus| mtus.exceeded(length, mac)) }
        };
        if input == 0 {
            let rejects = Rejects { unreachable: 1, big: 3 };
            Self::forward(v4, rejects, exceeded, batch, frame, out, *connected);
        } else {
            let rejects = Rejects { unreachable: 2, big: 4 };
            Self::forward(v6, rejects, exceeded, batch, frame, out, *connected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::mac::ExternalPort;
    use crate::rig::{Rig, ipv4_of, ipv6_of};
    use proptest::prelude::*;
    use scalebricks_tables::lpm::Prefix;
    use scalebricks_types::{ClusterSize, NodeId};

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

    fn frame6(dst: &str) -> Vec<u8> {
        let packet = ipv6_of(|header| header.dst = dst.parse().unwrap(), b"payload");
        [&[9; 12][..], &[0x86, 0xdd], &packet].concat()
    }

    /// Both families, with all outputs.
    fn both(routes: &[&str]) -> Rig {
        Rig::new(5, |builder| {
            builder.declare("split", "Classifier", &["12/0800", "12/86dd"]).declare(
                "c",
                "CheckIPHeader",
                &["14"],
            );
            builder.declare("c6", "CheckIP6Header", &["14"]).declare("r", "RouterInput", routes);
            builder
                .chain(&["in", "split", "c", "r", "out0"])
                .connect("split", 1, "c6", 0)
                .connect("c6", 0, "r", 1);
            (1..5).for_each(|at| {
                builder.connect("r", at, &format!("out{at}"), 0);
            });
        })
    }

    #[test]
    fn both_families_share_the_outputs_and_rejects_are_sorted() {
        let mut rig = both(&["10.0.0.0/8 1 0 2", "2001:db8::/32 2 7 9", "0/0 0 0 0", "MTU 60"]);
        let long = |mut frame: Vec<u8>, four: bool| {
            frame.resize(14 + 61, 0);
            if four {
                frame[17] = 61;
                crate::header::sum(&mut frame[14..34]);
            } else {
                frame[19] = 21;
            }
            frame
        };
        rig.send([frame6("2001:db8::1"), frame([10, 1, 1, 1]), frame6("2001:db9::1")]);
        rig.send([
            long(frame([10, 1, 1, 1]), true),
            long(frame6("2001:db8::1"), false),
            frame([224, 0, 0, 5]),
        ]);
        rig.send([frame6("ff02::1"), frame6("fe80::1"), frame([127, 0, 0, 1])]);
        rig.turn();
        let macs: Vec<_> = rig.got(0).iter().map(|frame| frame[..6].to_vec()).collect();
        assert_eq!(macs, [[2, 0x5b, 0x40, 1, 0, 2], [2, 0x5b, 0x47, 2, 0, 9]]);
        assert_eq!([1, 2, 3, 4].map(|end| rig.got(end).len()), [0, 1, 1, 1]);
        assert_eq!((rig.number("r", "not_forwarded"), rig.number("r", "routes")), (4, 3));
        rig.write("r", "remove", "0/0").unwrap();
        rig.write("r", "add", "::/0 3 3 3").unwrap();
        rig.send([frame([11, 1, 1, 1])]);
        rig.turn();
        assert_eq!((rig.got(1).len(), rig.got(0).len()), (1, 0));
        assert_eq!(rig.read("r", "lookup 2001:db9::1"), "::/0 3 3 3");
        assert_eq!(rig.read("r", "table"), "10.0.0.0/8 1 0 2\n::/0 3 3 3\n2001:db8::/32 2 7 9\n");
    }

    #[test]
    fn broadcast_frames_are_not_forwarded_and_each_port_has_its_mtu() {
        let mtus = Arc::new(Mtus::new(ClusterSize::new(4).unwrap()));
        let table = Lpm::new(Params::SMALL);
        "10.0.0.0/8 1 0 2".parse_into(&table);
        let mut rig = Rig::new(1, |builder| {
            let input =
                RouterInput::new(Arc::new(table), Arc::new(Lpm::new(Params::SMALL)), Some(Arc::clone(&mtus)));
            builder.declare("h", "HostEtherFilter", &["8:8:8:8:8:8"]).declare("c", "CheckIPHeader", &["14"]);
            builder.add("r", input).chain(&["in", "h", "c", "r", "out0"]);
        });
        let to = |octet| {
            let mut frame = frame([10, 0, 0, 1]);
            frame[..6].fill(octet);
            frame
        };
        rig.send([to(0xff), to(8)]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("r", "link_broadcast")), (1, 1));
        mtus.set(NodeId::new(1), ExternalPort::new(0).unwrap(), 26);
        rig.send([to(8)]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("r", "over_length")), (0, 1));
    }

    /// A route into the table of IPv4.
    trait ParseInto {
        fn parse_into(self, table: &Lpm<Ipv4Addr>);
    }

    impl ParseInto for &str {
        fn parse_into(self, table: &Lpm<Ipv4Addr>) {
            ClusterRoute::parse(self).unwrap().insert(table, &Lpm::new(Params::SMALL)).unwrap();
        }
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
            // Within 64.0.0.0/3, whose addresses are all forwarded.
            let ip = |high: u16| Ipv4Addr::from_bits(u32::from(high & 0x1fff | 0x4000) << 16);
            for (high, length, node, port, hop) in routes {
                let prefix = Prefix::of(ip(high), length).unwrap();
                let mac = RouterMac::new(NodeId::new(node), ExternalPort::new(port).unwrap(), hop);
                table.insert(prefix, mac.hop()).unwrap();
                twin.insert((prefix.length(), prefix.address()), (prefix, mac));
            }
            let mut rig = Rig::new(1, |builder| {
                builder.declare("c", "CheckIPHeader", &["14"]).add("r", RouterInput::new(Arc::clone(&table), Arc::new(Lpm::new(Params::SMALL)), None));
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
