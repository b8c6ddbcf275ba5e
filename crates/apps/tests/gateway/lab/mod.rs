//! A slow path on two links, with scripted time. An independent library builds and parses the stations' frames.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test helper fails by panicking"
)]

use etherparse::{
    ArpEthIpv4Packet, ArpOperation, EtherType, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
};
use scalebricks_elements::gateway::OutputPort;
use scalebricks_elements::gateway::local::{
    Consumed, FrameKind, HoldOutcome, Interface, LocalConfig, LocalLimits, LocalStack, Neighbour, Outbox,
    Route,
};
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

pub const INTERNET: OutputPort = OutputPort::Internet;
pub const RAN: OutputPort = OutputPort::BaseStation;

pub const INTERNET_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub const RAN_MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];
pub const OWN: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 10);
pub const OWN6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x10);
/// Derived from [`INTERNET_MAC`] by hand.
pub const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 0x101);
pub const OWN_RAN: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 10);
pub const ROUTERS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(198, 51, 100, 2)];
pub const ROUTER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
pub const RAN_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 1);
/// On the link, behind the router, unreachable.
pub const STATIONS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 254, 0, 21), Ipv4Addr::new(10, 20, 0, 5), Ipv4Addr::new(10, 99, 0, 1)];
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
pub const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x5b, 0, 0, 0, 0, 0, 1);

pub fn config() -> LocalConfig {
    let route = |port, to: &str, len, via: &[IpAddr]| Route {
        port,
        to: (to.parse().unwrap(), len),
        via: via.to_vec(),
    };
    LocalConfig {
        internet: Interface {
            mac: MacAddr(INTERNET_MAC),
            addresses: vec![(OWN.into(), 24), (OWN6.into(), 64)],
            mtu: 1_500,
        },
        base_station: Interface { mac: MacAddr(RAN_MAC), addresses: vec![(OWN_RAN.into(), 24)], mtu: 1_600 },
        routes: vec![
            route(INTERNET, "0.0.0.0", 0, &ROUTERS.map(IpAddr::V4)),
            route(INTERNET, "::", 0, &[ROUTER6.into()]),
            route(RAN, "10.20.0.0", 16, &[RAN_ROUTER.into()]),
        ],
        base_stations: STATIONS.to_vec(),
        gateway: GATEWAY,
        gateway_v6: GATEWAY6,
        limits: LocalLimits::default(),
    }
}

/// The MAC address of the station with this address.
pub fn mac_of(address: impl Into<IpAddr>) -> [u8; 6] {
    match address.into() {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            [0x0a, 4, a, b, c, d]
        }
        IpAddr::V6(v6) => {
            let [.., a, b, c, d] = v6.octets();
            [0x0a, 6, a, b, c, d]
        }
    }
}

pub struct Lab {
    pub local: LocalStack,
    pub out: Outbox,
    pub now: Duration,
}

pub type Sent = Vec<(OutputPort, Vec<u8>)>;

impl Lab {
    pub fn new(config: LocalConfig) -> Self {
        let now = Duration::from_secs(1_000);
        Self { local: LocalStack::new(config, now), out: Outbox::new(256), now }
    }

    /// A slow path at rest, after all stations have answered.
    pub fn resolved() -> Self {
        let mut lab = Self::new(config());
        lab.settle();
        lab
    }

    /// Answers every request until the announcements are over.
    pub fn settle(&mut self) {
        for _ in 0..50 {
            let sent = self.pass(Duration::from_millis(100));
            self.answer_all(&sent);
        }
        self.sent();
    }

    pub fn answer_all(&mut self, sent: &Sent) {
        for (port, frame) in sent {
            if let Some(answer) = answer(frame) {
                assert_eq!(self.receive(*port, &answer), Consumed::Yes);
            }
        }
    }

    pub fn receive(&mut self, port: OutputPort, frame: &[u8]) -> Consumed {
        self.local.receive(port, frame, self.now, &mut self.out)
    }

    /// Gives the slow path a packet to hold.
    pub fn hold(&mut self, port: OutputPort, next_hop: impl Into<IpAddr>, frame: &[u8]) -> HoldOutcome {
        self.local.hold(port, next_hop.into(), frame, FrameKind::Packet, self.now, &mut self.out)
    }

    pub fn poll(&mut self) -> Sent {
        self.local.poll(self.now, &mut self.out);
        self.sent()
    }

    /// Advances time, with polls when they are due; returns the frames sent.
    pub fn pass(&mut self, time: Duration) -> Sent {
        let end = self.now + time;
        let mut sent = Vec::new();
        loop {
            sent.extend(self.poll());
            let next = self.local.next_deadline().max(self.now);
            if next > end {
                break;
            }
            self.now = next;
        }
        self.now = end;
        sent.extend(self.poll());
        sent
    }

    pub fn sent(&mut self) -> Sent {
        self.out.drain().map(|(port, frame, _)| (port, frame)).collect()
    }

    pub fn neighbour(&self, address: impl Into<IpAddr>) -> Option<Neighbour> {
        let address = address.into();
        self.local.neighbours().find(|n| n.address == address)
    }

    /// The slow path's result for one frame received at rest.
    pub fn one_answer(&mut self, port: OutputPort, frame: &[u8]) -> Vec<u8> {
        assert_eq!(self.receive(port, frame), Consumed::Yes);
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{:?}", self.local.stats());
        let (to, frame) = sent.remove(0);
        assert_eq!(to, port);
        frame
    }

    pub fn no_answer(&mut self, port: OutputPort, frame: &[u8]) {
        assert_eq!(self.receive(port, frame), Consumed::Yes);
        assert_eq!(self.sent(), []);
    }
}

/// The reply of the station that a frame asks for, if it is a request.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    if let Some(request) = read_arp(frame).filter(|arp| arp.operation == ArpOperation::REQUEST) {
        let (own, asker) = (Ipv4Addr::from(request.target_ipv4), Ipv4Addr::from(request.sender_ipv4));
        // An announcement requests its sender's own address.
        return (own != asker).then(|| {
            arp(ArpOperation::REPLY, mac_of(own), own, request.sender_mac, asker, request.sender_mac)
        });
    }
    let (kind, src, _, body) = read_icmp6(frame)?;
    let target = Ipv6Addr::from(*body.first_chunk::<16>()?);
    let to = frame[6..12].try_into().unwrap();
    (kind == 135).then(|| advertisement(mac_of(target), target, to, src, 0x60, Some(mac_of(target))))
}

/// The address that a frame requests, if it is a request.
pub fn target(frame: &[u8]) -> Option<IpAddr> {
    answer(frame)?;
    if let Some(arp) = read_arp(frame) {
        return Some(Ipv4Addr::from(arp.target_ipv4).into());
    }
    let (_, _, _, body) = read_icmp6(frame)?;
    Some(Ipv6Addr::from(*body.first_chunk::<16>()?).into())
}

pub fn arp(
    operation: ArpOperation,
    sender_mac: [u8; 6],
    sender: Ipv4Addr,
    target_mac: [u8; 6],
    target: Ipv4Addr,
    to: [u8; 6],
) -> Vec<u8> {
    let message = ArpEthIpv4Packet {
        operation,
        sender_mac,
        sender_ipv4: sender.octets(),
        target_mac,
        target_ipv4: target.octets(),
    };
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(sender_mac, to).arp(message.into()).write(&mut frame).unwrap();
    frame
}

pub fn arp_request(sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    arp(ArpOperation::REQUEST, mac_of(sender), sender, [0; 6], target, [0xff; 6])
}

/// An ICMPv6 message whose checksum the other library computes.
pub fn icmp6(
    macs: ([u8; 6], [u8; 6]),
    src: Ipv6Addr,
    dst: Ipv6Addr,
    hop_limit: u8,
    (kind, flags): (u8, [u8; 4]),
    body: &[u8],
) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(macs.0, macs.1)
        .ipv6(src.octets(), dst.octets(), hop_limit)
        .icmpv6_raw(kind, 0, flags)
        .write(&mut frame, body)
        .unwrap();
    frame
}

pub fn solicited_node(address: Ipv6Addr) -> (Ipv6Addr, [u8; 6]) {
    let [.., a, b, c] = address.octets();
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
    (Ipv6Addr::from(group), [0x33, 0x33, 0xff, a, b, c])
}

/// A multicast solicitation.
pub fn solicitation(src: Ipv6Addr, target: Ipv6Addr, source_mac: Option<[u8; 6]>) -> Vec<u8> {
    let (group, to) = solicited_node(target);
    let option = source_mac.map_or(vec![], |mac| [&[1, 1][..], &mac].concat());
    let body = [&target.octets()[..], &option].concat();
    icmp6((mac_of(src), to), src, group, 255, (135, [0; 4]), &body)
}

pub fn advertisement(
    from: [u8; 6],
    target: Ipv6Addr,
    to: [u8; 6],
    dst: Ipv6Addr,
    flags: u8,
    target_mac: Option<[u8; 6]>,
) -> Vec<u8> {
    let option = target_mac.map_or(vec![], |mac| [&[2, 1][..], &mac].concat());
    let body = [&target.octets()[..], &option].concat();
    icmp6((from, to), target, dst, 255, (136, [flags, 0, 0, 0]), &body)
}

/// A UDP datagram to the base-station link.
pub fn udp(src: Ipv4Addr, src_port: u16, dst: Ipv4Addr, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(mac_of(src), RAN_MAC)
        .ipv4(src.octets(), dst.octets(), 64)
        .udp(src_port, dst_port)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

pub fn read_arp(frame: &[u8]) -> Option<ArpEthIpv4Packet> {
    match SlicedPacket::from_ethernet(frame).ok()?.net? {
        NetSlice::Arp(arp) => arp.to_packet().try_eth_ipv4().ok(),
        _ => None,
    }
}

/// Type, source, destination and the part after the first eight octets of an ICMPv6 message with a valid checksum.
pub fn read_icmp6(frame: &[u8]) -> Option<(u8, Ipv6Addr, Ipv6Addr, Vec<u8>)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let NetSlice::Ipv6(ip) = packet.net? else { return None };
    let TransportSlice::Icmpv6(icmp) = packet.transport? else { return None };
    let (src, dst) = (ip.header().source(), ip.header().destination());
    assert!(icmp.is_checksum_valid(src, dst));
    Some((icmp.type_u8(), src.into(), dst.into(), icmp.payload().to_vec()))
}

/// Every checksum of a frame is valid, and the other library finds no error.
pub fn assert_sound(frame: &[u8]) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap_or_else(|error| panic!("{error}: {frame:02x?}"));
    match (packet.net.unwrap(), packet.transport) {
        (NetSlice::Arp(arp), None) => assert_eq!(arp.proto_addr_type(), EtherType::IPV4),
        (NetSlice::Ipv4(ip), Some(transport)) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            match transport {
                TransportSlice::Icmpv4(icmp) => {
                    let sum = icmp.header().icmp_type.calc_checksum(icmp.payload());
                    assert_eq!(icmp.checksum(), sum);
                }
                TransportSlice::Udp(udp) => {
                    let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
                    assert_eq!(udp.checksum(), sum);
                }
                other => panic!("{other:?}"),
            }
        }
        (NetSlice::Ipv6(ip), Some(TransportSlice::Icmpv6(icmp))) => {
            assert!(icmp.is_checksum_valid(ip.header().source(), ip.header().destination()));
        }
        other => panic!("{other:?}"),
    }
}
