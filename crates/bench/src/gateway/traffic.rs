//! The packets of a measured node, and the checks of what leaves it.
//!
//! Packets have 64 bytes on the wire, 60 in memory, because hardware adds the frame check sequence. Upstream
//! packets come in a tunnel and have 96. Frames of different flows differ only in one *patch*. Writing the
//! head of the frame and a patch turns a forwarded packet into a new one.

use super::flows;
use crate::keys::mix;
use rayon::prelude::*;
use scalebricks_elements::gateway::{FabricMac, OutputPort, Policy};
use scalebricks_io::PacketBuf;
use scalebricks_tables::prefetch_read;
use scalebricks_types::FlowIndex;
use scalebricks_wire::ethernet::{self, ETHERTYPE_IPV4};
use scalebricks_wire::gtpu::{self, message::gpdu_header};
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::protocol::UDP;
use scalebricks_wire::transport::udp_header;
use scalebricks_wire::{MacAddr, ipv4_header_checksum_ok};
use std::net::Ipv4Addr;

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the Internet into the tunnel.
    Downstream,
    /// Out of the tunnel to the Internet.
    Upstream,
}

impl Direction {
    /// The port by which its packets leave.
    pub const fn output(self) -> OutputPort {
        match self {
            Self::Downstream => OutputPort::BaseStation,
            Self::Upstream => OutputPort::Internet,
        }
    }
}

/// Which flows send packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowSet {
    /// Flows pinned to the measured node.
    Own,
    /// Flows pinned to other nodes.
    Foreign,
    /// All flows.
    All,
}

/// Where packets arrive at the measured node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// At the outside port of their direction.
    Outside,
    /// From the fabric, addressed to this node as the handling one.
    Fabric,
}

/// Length of the user's packet: 64 bytes with Ethernet and its check sequence.
const USER_LEN: u16 = 46;
/// Bytes between Ethernet and the user's packet in a tunnel.
const TUNNEL_LEN: u16 = 36;

/// Bytes written to renew a packet, and the offset of the patch: downstream from the IP checksum to the
/// ports, upstream from the TEID to the ports.
const DOWN_HEAD: usize = 40;
const DOWN_PATCH: usize = 24;
const UP_HEAD: usize = 78;
const UP_PATCH: usize = 46;

/// Packets between prefetching a patch and writing it.
const AHEAD: usize = 64;

/// The longest head.
const HEAD: usize = UP_HEAD;

type DownPatch = [u8; DOWN_HEAD - DOWN_PATCH];
type UpPatch = [u8; UP_HEAD - UP_PATCH];

/// A sequence of packets of random flows.
#[derive(Debug)]
pub struct Traffic {
    way: Direction,
    arrival: Arrival,
    frame: Vec<u8>,
    head: [u8; HEAD],
    down: Vec<DownPatch>,
    up: Vec<UpPatch>,
}

impl Traffic {
    /// `packets` packets of flows below `flows`, sent repeatedly.
    pub fn new(flows: u64, packets: usize, way: Direction, whose: FlowSet, arrival: Arrival) -> Self {
        let chosen = |packet: usize| -> u64 {
            let mut draw = mix(packet as u64 ^ 0xD1CE_0000_0000);
            loop {
                let flow = ((u128::from(draw) * u128::from(flows)) >> 64) as u64; // below `flows`
                let here = flows::node_of(flow) == flows::HERE;
                match whose {
                    FlowSet::Own if !here => draw = mix(draw ^ 1),
                    FlowSet::Foreign if here => draw = mix(draw ^ 1),
                    _ => return flow,
                }
            }
        };
        let frame = frame(chosen(0), way, arrival);
        let mut head = [0; HEAD];
        let len = HEAD.min(frame.len());
        head[..len].copy_from_slice(&frame[..len]);
        let (mut down, mut up) = (Vec::new(), Vec::new());
        match way {
            Direction::Downstream => (0..packets)
                .into_par_iter()
                .map(|packet| patch(chosen(packet), way, arrival, DOWN_PATCH))
                .collect_into_vec(&mut down),
            Direction::Upstream => (0..packets)
                .into_par_iter()
                .map(|packet| patch(chosen(packet), way, arrival, UP_PATCH))
                .collect_into_vec(&mut up),
        }
        Self { way, arrival, frame, head, down, up }
    }

    /// The direction.
    pub const fn way(&self) -> Direction {
        self.way
    }

    /// Where they arrive.
    pub const fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// A complete frame for an empty buffer.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Number of packets.
    pub const fn len(&self) -> usize {
        self.down.len() + self.up.len()
    }

    /// Whether there are no packets.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Turns a forwarded packet into the one with this number, below [`Self::len`].
    #[inline]
    pub fn renew<P: PacketBuf>(&self, packet: &mut P, number: usize) {
        let (is, wanted) = (packet.data().len(), self.frame.len());
        // Encapsulation has grown packets at the front, decapsulation has shrunk them; the buffer has enough
        // room.
        let _ = if is > wanted { packet.trim_front(is - wanted) } else { packet.prepend(wanted - is) };
        // A network card reads nothing from this core's memory, so prefetch what is read later.
        if let Some(patch) = self.down.get(number + AHEAD) {
            prefetch_read(patch);
        } else if let Some(patch) = self.up.get(number + AHEAD) {
            prefetch_read(patch);
        }
        let data = packet.data_mut();
        match self.way {
            Direction::Downstream => {
                if let (Some(head), Some(patch)) =
                    (data.first_chunk_mut::<DOWN_HEAD>(), self.down.get(number))
                {
                    head.copy_from_slice(&self.head[..DOWN_HEAD]);
                    head[DOWN_PATCH..].copy_from_slice(patch);
                }
            }
            Direction::Upstream => {
                if let (Some(head), Some(patch)) = (data.first_chunk_mut::<UP_HEAD>(), self.up.get(number)) {
                    head.copy_from_slice(&self.head[..UP_HEAD]);
                    head[UP_PATCH..].copy_from_slice(patch);
                }
            }
        }
    }

    /// What is wrong with a packet that left by this port; `None` if it is correct.
    pub fn fault(&self, left_by: Exit, data: &[u8]) -> Option<&'static str> {
        let ip = |at: usize| data.get(at..at + 4).map(|b| Ipv4Addr::new(b[0], b[1], b[2], b[3]));
        // Offset of the user's packet, and of the user's address in it.
        let user_at = match (left_by, self.way) {
            (Exit::Fabric, Direction::Downstream) | (Exit::Internet, _) => 14,
            (Exit::Fabric, Direction::Upstream) | (Exit::BaseStation, _) => 50,
        };
        let place = if self.way == Direction::Downstream { 16 } else { 12 };
        let Some(user) = ip(user_at + place) else { return Some("it was cut short") };
        let flow = flows::flow_of(user);
        let state = flows::state(flow, FlowIndex(0));
        if data.len() != user_at + usize::from(USER_LEN) {
            return Some("its length is wrong");
        }
        let (server, from, to) = flows::server(flow);
        let (others, ports) = match self.way {
            Direction::Downstream => (ip(user_at + 12), [from, to]),
            Direction::Upstream => (ip(user_at + 16), [to, from]),
        };
        let ports_there =
            [0, 2].map(|at| u16::from_be_bytes([data[user_at + 20 + at], data[user_at + 21 + at]]));
        if others != Some(server) || ports_there != ports {
            return Some("the user's packet was changed");
        }
        let to_mac = MacAddr([data[0], data[1], data[2], data[3], data[4], data[5]]);
        match (left_by, self.way) {
            (Exit::Fabric, way) => {
                let wanted = FabricMac::handling(state.node, way.output());
                (FabricMac::decode(to_mac) != Some(wanted)).then_some("it goes to another node")
            }
            (Exit::BaseStation, Direction::Downstream) => {
                let station = flows::base_station(state.base_station);
                let right = state.node == flows::HERE
                    && to_mac == station.mac
                    && ip(30) == Some(station.address)
                    && data[46..50] == state.teid.get().to_be_bytes()
                    && ipv4_header_checksum_ok(&data[14..34]);
                (!right).then_some("its tunnel is wrong")
            }
            (Exit::Internet, Direction::Upstream) => {
                let right = state.node == flows::HERE && to_mac == flows::MACS.router;
                (!right).then_some("it goes elsewhere than to the router")
            }
            _ => Some("it left on the wrong side"),
        }
    }
}

/// Where a packet leaves the measured node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Towards the Internet.
    Internet,
    /// Towards the base stations.
    BaseStation,
    /// Towards another node.
    Fabric,
}

/// Bytes of a flow's frame from `from` on.
fn patch<const N: usize>(flow: u64, way: Direction, arrival: Arrival, from: usize) -> [u8; N] {
    let frame = frame(flow, way, arrival);
    std::array::from_fn(|at| frame[from + at])
}

/// The frame of a downstream packet from outside.
pub fn downstream_frame(flow: u64) -> Vec<u8> {
    frame(flow, Direction::Downstream, Arrival::Outside)
}

/// The frame of a flow's packet.
fn frame(flow: u64, way: Direction, arrival: Arrival) -> Vec<u8> {
    let (server, from, to) = flows::server(flow);
    let user = flows::user(flow);
    let own = if way == Direction::Downstream { flows::MACS.internet } else { flows::MACS.base_station };
    let to_mac = match arrival {
        Arrival::Outside => own,
        Arrival::Fabric => FabricMac::handling(flows::HERE, way.output()).encode(),
    };
    let ip = |total_len, src, dst| Ipv4Header {
        dscp_ecn: 0,
        total_len,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_units: 0,
        ttl: 60,
        protocol: UDP,
        src,
        dst,
    };
    let mut frame = Vec::with_capacity(96);
    frame.extend(ethernet::header(to_mac, flows::MACS.router, ETHERTYPE_IPV4));
    let (src, dst, ports) = match way {
        Direction::Downstream => (server, user, [from, to]),
        Direction::Upstream => {
            let gateway = Policy::default().gateway_address;
            let station = flows::base_station(scalebricks_elements::gateway::BaseStationId(0)).address;
            frame.extend(ip(TUNNEL_LEN + USER_LEN, station, gateway).to_bytes());
            frame.extend(udp_header(gtpu::PORT, gtpu::PORT, TUNNEL_LEN - 20 + USER_LEN, 0));
            // 46 bytes fit any length field.
            frame.extend(gpdu_header(flows::uplink(flow), USER_LEN.into()).unwrap_or_default());
            (user, server, [to, from])
        }
    };
    frame.extend(ip(USER_LEN, src, dst).to_bytes());
    frame.extend(udp_header(ports[0], ports[1], USER_LEN - 20, 0));
    frame.resize(frame.len() + usize::from(USER_LEN) - 28, 0xAB);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::packet_slab::Slab;

    #[test]
    fn a_renewed_packet_is_the_frame_of_its_flow_whatever_it_was_before() {
        let mut slab = Slab::new(1);
        let mut packet = slab.packets.pop().unwrap();
        packet.append(&[0x55; 96]).unwrap();
        for way in [Direction::Downstream, Direction::Upstream, Direction::Downstream] {
            for (arrival, grown) in [(Arrival::Outside, 36), (Arrival::Fabric, 0)] {
                let traffic = Traffic::new(1000, 50, way, FlowSet::All, arrival);
                for number in [0, 7, 49] {
                    packet.prepend(grown).unwrap();
                    packet.data_mut()[..50].fill(0x55);
                    traffic.renew(&mut packet, number);
                    let user = if way == Direction::Downstream { 30 } else { 62 };
                    let bytes: [u8; 4] = packet.data()[user..user + 4].try_into().unwrap();
                    let head = if way == Direction::Downstream { DOWN_HEAD } else { UP_HEAD };
                    let wanted = frame(flows::flow_of(bytes.into()), way, arrival);
                    assert_eq!(
                        (packet.data().len(), &packet.data()[..head]),
                        (wanted.len(), &wanted[..head])
                    );
                }
            }
        }
    }

    #[test]
    fn flows_are_of_the_nodes_asked_for() {
        for (whose, here) in [(FlowSet::Own, true), (FlowSet::Foreign, false)] {
            let traffic = Traffic::new(1000, 100, Direction::Downstream, whose, Arrival::Outside);
            for patch in &traffic.down {
                let user: [u8; 4] = patch[6..10].try_into().unwrap();
                assert_eq!(flows::node_of(flows::flow_of(user.into())) == flows::HERE, here);
            }
        }
    }

    #[test]
    fn faults_are_found() {
        let traffic = Traffic::new(1000, 100, Direction::Downstream, FlowSet::Foreign, Arrival::Outside);
        let mut frame = traffic.frame().to_vec();
        let flow = flows::flow_of(Ipv4Addr::new(frame[30], frame[31], frame[32], frame[33]));
        let mac = FabricMac::handling(flows::node_of(flow), OutputPort::BaseStation).encode().octets();
        frame[..6].copy_from_slice(&mac);
        assert_eq!(traffic.fault(Exit::Fabric, &frame), None);
        assert_eq!(traffic.fault(Exit::Fabric, &frame[..50]), Some("its length is wrong"));
        assert_eq!(traffic.fault(Exit::Fabric, &frame[..20]), Some("it was cut short"));
        frame[3] ^= 1;
        assert_eq!(traffic.fault(Exit::Fabric, &frame), Some("it goes to another node"));
        frame[34] ^= 1;
        assert_eq!(traffic.fault(Exit::Fabric, &frame), Some("the user's packet was changed"));
        assert_eq!(traffic.fault(Exit::Internet, traffic.frame()), Some("it left on the wrong side"));
    }
}
