//! Sends a traffic matrix through a network and judges what leaves.

use super::matrix::Matrix;
use scalebricks_apps::router::network::{LinkStats, Network};
use scalebricks_apps::router::reorder::{Counts, Reordering};
use scalebricks_elements::fabric::mac::{ExternalPort, RouterMac};
use scalebricks_elements::fabric::next_hops::NextHops;
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::{Lpm, Params, Prefix};
use scalebricks_types::NodeId;
use scalebricks_wire::ipv4::{Ipv4, Ipv4Header, header_checksum_ok};
use scalebricks_wire::{MacAddr, ethernet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// Packets that a port sends or receives in a slot.
pub const SLOT_PACKETS: u64 = 8;

/// Bytes of a frame.
pub const FRAME: usize = 100;

pub const SLOT: Duration = Duration::from_millis(1);

/// The rate of a port, bytes per second.
pub const RATE: u64 = SLOT_PACKETS * FRAME as u64 * 1_000;

/// Flows from each input to each output.
const FLOWS: u64 = 16;

const TTL: u8 = 64;

/// 10.n.0.0/16 leaves at node n, to next hop n + 1.
pub fn table(nodes: usize) -> Arc<Lpm<Ipv4Addr>> {
    let table = Lpm::new(Params::SMALL);
    for node in 0..nodes as u8 {
        let prefix = Prefix::new(Ipv4Addr::new(10, node, 0, 0), 16).unwrap();
        let mac = RouterMac::new(NodeId::new(node), ExternalPort::new(0).unwrap(), u16::from(node) + 1);
        table.insert(prefix, mac.hop()).unwrap();
    }
    Arc::new(table)
}

pub fn next_hop(node: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, node as u8])
}

pub fn hops(nodes: usize) -> Vec<Arc<NextHops>> {
    let of = |node: usize| {
        let hops = NextHops::new(300);
        hops.set(node as u16 + 1, Some(next_hop(node)));
        Arc::new(hops)
    };
    (0..nodes).map(of).collect()
}

/// A frame of a flow from an input to an output.
pub fn frame(input: usize, output: usize, flow: u64) -> Vec<u8> {
    frame_of(input, output, flow, FRAME)
}

/// The same with this many bytes.
pub fn frame_of(input: usize, output: usize, flow: u64, bytes: usize) -> Vec<u8> {
    let header = Ipv4Header {
        dscp_ecn: 0,
        total_len: (bytes - 14) as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_units: 0,
        ttl: TTL,
        protocol: 17,
        src: Ipv4Addr::new(172, input as u8, (flow >> 8) as u8, flow as u8),
        dst: Ipv4Addr::new(10, output as u8, 0, 1),
    };
    let udp_len = (bytes - 34) as u16;
    let ports = [(flow >> 16) as u16, 9, udp_len, 0].map(u16::to_be_bytes);
    let mut frame = [&[2, 9, 9, 9, 9, 9][..], &[2, 8, 8, 8, 8, 8], &[8, 0], &header.to_bytes()].concat();
    frame.extend(ports.concat());
    frame.resize(bytes, 0);
    frame
}

/// What left the network, and how.
#[derive(Debug)]
pub struct Judgement {
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
    /// Slots after the last arrival until the network was empty.
    pub drain_slots: usize,
    /// Most packets that waited on any link in each half of the run.
    pub most_waiting: [usize; 2],
    /// The load of each link, relative to the rate of a port.
    pub loads: Vec<f64>,
    /// Nodes per packet.
    pub nodes: f64,
    /// Packets delivered by input, relative to those sent.
    pub shares: Vec<f64>,
    pub order: Counts,
    /// Late packets among those that took the same way.
    pub late_on_a_path: u64,
}

/// A run: a network, a matrix, and what was sent.
pub struct Run<'a> {
    pub network: &'a mut Network,
    pub matrix: Matrix,
    pub slots: usize,
    /// Most slots until everything has left.
    pub horizon: usize,
}

impl Run<'_> {
    /// Sends the matrix, checks every packet that leaves, and judges.
    pub fn judge(self) -> Judgement {
        let Self { network, matrix, slots, horizon } = self;
        let size = matrix.size();
        let mut credit = vec![vec![0.5; size]; size];
        let mut numbers = vec![0u64; size * size * FLOWS as usize];
        let mut sent: Vec<(u32, u64)> = Vec::new();
        let (mut order, mut on_paths) = (Reordering::new(), Reordering::new());
        let (mut by_input, mut arrived) = (vec![(0u64, 0u64); size], Vec::new());
        let (mut late_on_a_path, mut links_passed) = (0, 0);
        let mut judgement = Judgement {
            sent: 0,
            delivered: 0,
            dropped: 0,
            drain_slots: 0,
            most_waiting: [0; 2],
            loads: Vec::new(),
            nodes: 0.0,
            shares: Vec::new(),
            order: Counts::default(),
            late_on_a_path: 0,
        };
        let before: Vec<u64> = network.take_link_stats().iter().map(|link| link.bytes_in).collect();
        let dropped_before = network.dropped();
        let most = |stats: Vec<LinkStats>| stats.iter().map(|link| link.most_waiting).max().unwrap_or(0);
        for slot in 0..slots + horizon {
            if slot < slots {
                for input in 0..size {
                    // Inputs take outputs in turn, from another one in each slot.
                    for turn in 0..size {
                        let output = (turn + slot + input) % size;
                        credit[input][output] += matrix.rate(input, output) * SLOT_PACKETS as f64;
                        while credit[input][output] >= 1.0 {
                            credit[input][output] -= 1.0;
                            let id = sent.len() as u64;
                            let flow = id % FLOWS;
                            let place = (input * size + output) * FLOWS as usize + flow as usize;
                            sent.push((place as u32, numbers[place]));
                            numbers[place] += 1;
                            by_input[input].0 += 1;
                            network.inject(input, id, &frame(input, output, flow)).unwrap();
                        }
                    }
                }
            }
            network.step(SLOT).unwrap();
            arrived.extend(network.take_departed());
            for departure in arrived.drain(..) {
                let tag = departure.packet.tag();
                let (place, number) = sent[departure.id() as usize];
                let (input, output) =
                    (place as usize / FLOWS as usize / size, place as usize / FLOWS as usize % size);
                check(departure.packet.data(), departure.port, output);
                by_input[input].1 += 1;
                judgement.delivered += 1;
                links_passed += u64::from(tag.hops);
                order.arrive(u64::from(place), number);
                let path = u64::from(place) << 24 | departure.path();
                late_on_a_path += u64::from(on_paths.arrive(path, number));
            }
            if slot + 1 == slots / 2 {
                judgement.most_waiting[0] = most(network.take_link_stats());
            }
            if slot + 1 == slots {
                let stats = network.take_link_stats();
                let load = |(link, before): (&LinkStats, u64)| {
                    (link.bytes_in - before) as f64 / (slots as f64 * SLOT.as_secs_f64()) / RATE as f64
                };
                judgement.loads = stats.iter().zip(before.iter().copied()).map(load).collect();
                judgement.most_waiting[1] = most(stats);
            }
            if slot >= slots && judgement.delivered + network.dropped() - dropped_before == sent.len() as u64
            {
                break;
            }
            judgement.drain_slots = (slot + 1).saturating_sub(slots);
        }
        judgement.sent = sent.len() as u64;
        judgement.dropped = network.dropped() - dropped_before;
        judgement.nodes = 1.0 + links_passed as f64 / judgement.delivered.max(1) as f64;
        judgement.shares = by_input
            .iter()
            .filter(|(sent, _)| *sent > 0)
            .map(|&(sent, got)| got as f64 / sent as f64)
            .collect();
        (judgement.order, judgement.late_on_a_path) = (order.counts(), late_on_a_path);
        judgement
    }
}

/// The right port, the next hop's address and the port's, TTL, checksum.
pub fn check(frame: &[u8], port: usize, output: usize) {
    assert_eq!(port, output, "the wrong port");
    let (to, from) = ethernet::addresses(frame).unwrap();
    assert_eq!(to, next_hop(output));
    assert_eq!(from, scalebricks_apps::router::cluster::port_mac(NodeId::new(output as u8), 0));
    let ip = Ipv4::parse(&frame[14..]).unwrap();
    assert!(ip.ttl() == TTL - 1 && header_checksum_ok(&frame[14..]));
    assert_eq!(usize::from(ip.dst().octets()[1]), output);
}

impl Judgement {
    /// Nothing was lost, and every queue is bounded: the second half of the run needed no longer ones than the first.
    #[track_caller]
    pub fn assert_throughput(&self, what: &str) {
        assert_eq!((self.delivered, self.dropped), (self.sent, 0), "{what}: {self:?}");
        let [before, after] = self.most_waiting;
        assert!(after <= 2 * before + 2 * SLOT_PACKETS as usize, "{what}: queues grow: {self:?}");
        assert_eq!(self.late_on_a_path, 0, "{what}: a path reorders");
        assert!(self.shares.iter().all(|&share| share == 1.0), "{what}: {:?}", self.shares);
    }
}
