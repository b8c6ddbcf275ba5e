//! Packets: frames with a number in them, and the fabric that carries them between nodes.

use crate::simulation::hub::ms;
use crate::simulation::process::{GATEWAY, IN_MAC, RAN_MAC, ROUTER_MAC, STATION, STATION_MAC};
use etherparse::PacketBuilder;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_io::{Packet, PacketBuf};
use std::net::Ipv4Addr;
use std::time::Duration;

const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

/// Marks the payload of packets that are judged.
const MARK: [u8; 4] = *b"judg";

pub fn ue(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a2d_0000 + number)
}

fn payload(number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_be_bytes();
    let [m, a1, r, k] = MARK;
    [m, a1, r, k, a, b, c, d]
}

/// The number in a frame whose payload begins here.
fn number(frame: &[u8], at: usize) -> Option<u32> {
    let payload = frame.get(at..at + 8)?;
    (payload[..4] == MARK).then(|| u32::from_be_bytes(payload[4..].try_into().unwrap()))
}

/// A packet to a UE, at an Internet port.
pub fn downstream(to: Ipv4Addr, number: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(ROUTER_MAC.octets(), IN_MAC.octets())
        .ipv4(SERVER.octets(), to.octets(), 60)
        .udp(53, 4_000)
        .write(&mut frame, &payload(number))
        .unwrap();
    frame
}

/// A packet from a UE in a tunnel, at a base-station port.
pub fn upstream(teid: u32, number: u32) -> Vec<u8> {
    let mut inner = Vec::new();
    PacketBuilder::ipv4(ue(1).octets(), SERVER.octets(), 60)
        .udp(4_000, 53)
        .write(&mut inner, &payload(number))
        .unwrap();
    let mut message = vec![0x30, 255];
    message.extend((inner.len() as u16).to_be_bytes());
    message.extend(teid.to_be_bytes());
    message.extend(inner);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(STATION_MAC.octets(), RAN_MAC.octets())
        .ipv4(STATION.octets(), GATEWAY.octets(), 60)
        .udp(2_152, 2_152)
        .write(&mut frame, &message)
        .unwrap();
    frame
}

/// The TEID of a packet that left to a base station, and its number.
pub fn left_downstream(frame: &[u8]) -> Option<(u32, u32)> {
    let is_user_packet = frame.len() >= 50 && frame[43] == 255;
    let teid = is_user_packet.then(|| u32::from_be_bytes(frame[46..50].try_into().unwrap()))?;
    Some((teid, number(frame, 78)?))
}

/// The number of a packet on the fabric.
pub fn under_way(frame: &[u8]) -> Option<u32> {
    number(frame, 42).or_else(|| number(frame, 78))
}

/// The number of a packet that left to the Internet.
pub fn left_upstream(frame: &[u8]) -> Option<u32> {
    number(frame, 42)
}

/// The links between forwarding nodes.
pub struct Fabric {
    nodes: usize,
    works: Vec<bool>,
    pub loss: f64,
    pub delay_ms: u64,
    rng: SmallRng,
    under_way: Vec<(Duration, usize, Packet)>,
}

impl Fabric {
    pub fn new(seed: u64, nodes: usize) -> Self {
        let rng = SmallRng::seed_from_u64(seed ^ 0xfab);
        Self { nodes, works: vec![true; nodes * nodes], loss: 0.0, delay_ms: 10, rng, under_way: Vec::new() }
    }

    pub fn set(&mut self, from: usize, to: usize, works: bool) {
        self.works[from * self.nodes + to] = works;
    }

    pub fn works(&self, from: usize, to: usize) -> bool {
        self.works[from * self.nodes + to]
    }

    /// Takes a frame from a node.
    pub fn carry(&mut self, from: usize, packet: Packet, now: Duration) {
        let frame = packet.data();
        let to = frame.get(3).map_or(usize::MAX, |to| usize::from(*to));
        let is_lost = self.loss > 0.0 && self.rng.random_bool(self.loss);
        if frame.starts_with(&[0x02, 0x5b]) && to < self.nodes && self.works(from, to) && !is_lost {
            let delay = ms(self.rng.random_range(0..=self.delay_ms));
            self.under_way.push((now + delay, to, packet));
        }
    }

    /// Frames that have arrived, each with its receiver.
    pub fn take(&mut self, now: Duration) -> Vec<(usize, Packet)> {
        let (due, later) = std::mem::take(&mut self.under_way).into_iter().partition(|(at, ..)| *at <= now);
        self.under_way = later;
        let due: Vec<(Duration, usize, Packet)> = due;
        due.into_iter().map(|(_, to, packet)| (to, packet)).collect()
    }
}
