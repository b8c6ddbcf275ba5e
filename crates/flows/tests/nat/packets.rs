//! Packets with right checksums, and a NAT for tests.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use scalebricks_flows::nat::{Config, Nat, Outcome, Plan, Prefix, Refusal, Side};
use scalebricks_flows::tracker::Tables;
use scalebricks_types::HashSeed;
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::{checksum, ipv4_header_checksum_ok, parse_ip};
use std::net::Ipv4Addr;
use std::time::Duration;

pub(super) type End = (Ipv4Addr, u16);

pub(super) const SYN: u8 = 2;
pub(super) const ACK: u8 = 16;
pub(super) const FIN: u8 = 1;
pub(super) const RST: u8 = 4;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP: u8 = 1;

/// The inside host with this number.
pub(super) const fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(100, 64, 0, number)
}

/// A remote host.
pub(super) const fn remote(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}

pub(super) fn ip(protocol: u8, src: Ipv4Addr, dst: Ipv4Addr, l4: &[u8]) -> Vec<u8> {
    let header = Ipv4Header {
        dscp_ecn: 0,
        total_len: 20 + l4.len() as u16,
        identification: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_units: 0,
        ttl: 64,
        protocol,
        src,
        dst,
    };
    [&header.to_bytes()[..], l4].concat()
}

/// A packet whose transport checksum, which is at `at`, is right.
fn summed(protocol: u8, src: Ipv4Addr, dst: Ipv4Addr, mut l4: Vec<u8>, at: usize) -> Vec<u8> {
    let sum = if protocol == ICMP {
        checksum::checksum(&l4)
    } else {
        checksum::upper_layer(src.into(), dst.into(), protocol, &l4).unwrap()
    };
    let sum = if protocol == UDP { checksum::udp(sum) } else { sum };
    l4[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    ip(protocol, src, dst, &l4)
}

pub(super) fn udp(src: End, dst: End, payload: &[u8]) -> Vec<u8> {
    let mut l4 = [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    l4.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    l4.extend_from_slice(&[0, 0]);
    l4.extend_from_slice(payload);
    summed(UDP, src.0, dst.0, l4, 6)
}

pub(super) fn tcp(src: End, dst: End, (sequence, ack, flags): (u32, u32, u8), payload: &[u8]) -> Vec<u8> {
    let mut l4 = [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    l4.extend_from_slice(&sequence.to_be_bytes());
    l4.extend_from_slice(&ack.to_be_bytes());
    l4.extend_from_slice(&[0x50, flags, 0x70, 0, 0, 0, 0, 0]);
    l4.extend_from_slice(payload);
    summed(TCP, src.0, dst.0, l4, 16)
}

/// An ICMP query or reply.
pub(super) fn query(kind: u8, src: Ipv4Addr, dst: Ipv4Addr, identifier: u16) -> Vec<u8> {
    let [high, low] = identifier.to_be_bytes();
    summed(ICMP, src, dst, vec![kind, 0, 0, 0, high, low, 0, 1, 9, 9], 2)
}

/// An error about the start of a packet: its IP header and this many octets.
pub(super) fn error(kind: u8, src: Ipv4Addr, dst: Ipv4Addr, about: &[u8], octets: usize) -> Vec<u8> {
    let mut l4 = vec![kind, 3, 0, 0, 0, 0, 0, 0];
    l4.extend_from_slice(&about[..(20 + octets).min(about.len())]);
    summed(ICMP, src, dst, l4, 2)
}

/// Fragments with at most `most` octets of payload each.
pub(super) fn fragments(packet: &[u8], most: usize) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let payload = &packet[20..];
    for (number, data) in payload.chunks(most).enumerate() {
        let mut part = [&packet[..20], data].concat();
        let more = (number + 1) * most < payload.len();
        let field = u16::from(more) << 13 | (number * most / 8) as u16;
        let len = (20 + data.len()) as u16;
        part[2..4].copy_from_slice(&len.to_be_bytes());
        part[6..8].copy_from_slice(&field.to_be_bytes());
        part[10..12].fill(0);
        let sum = checksum::checksum(&part[..20]);
        part[10..12].copy_from_slice(&sum.to_be_bytes());
        parts.push(part);
    }
    parts
}

/// The ends of a packet, whose checksums are computed in full.
pub(super) fn ends(bytes: &[u8]) -> (End, End) {
    let packet = parse_ip(bytes).unwrap();
    let (ip, l4) = (packet.summary, packet.l4());
    assert!(ipv4_header_checksum_ok(bytes), "header checksum");
    let sum = if ip.protocol == ICMP {
        checksum::checksum(l4)
    } else {
        checksum::upper_layer(ip.src, ip.dst, ip.protocol, l4).unwrap()
    };
    assert_eq!(sum, 0, "transport checksum");
    let tuple = scalebricks_flows::tracker::tuple(&ip, l4);
    let address = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(address) => address,
        std::net::IpAddr::V6(_) => unreachable!(),
    };
    ((address(tuple.src), tuple.src_port), (address(tuple.dst), tuple.dst_port))
}

/// 100.64.0.0/24 behind 192.0.2.0/30, in blocks of this many ports.
pub(super) fn plan(block_len: u16) -> Plan {
    let inside = Prefix::new(host(0), 24).unwrap();
    let public = Prefix::new(Ipv4Addr::new(192, 0, 2, 0), 30).unwrap();
    Plan::new(&[inside], &[public], 1_024..=65_535, block_len).unwrap()
}

/// A NAT and its clock.
pub(super) struct Rig {
    pub(super) nat: Nat,
    pub(super) now: Duration,
}

impl Rig {
    pub(super) fn new(change: impl FnOnce(&mut Config)) -> Self {
        Self::with_plan(plan(64), change)
    }

    pub(super) fn with_plan(plan: Plan, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { sessions: 4_000, young_sessions: 2_000, ..Config::new(plan) };
        change(&mut config);
        let nat = Nat::new(config, HashSeed::from_u64(7), HashSeed::new(1, 2), Tables::default()).unwrap();
        Self { nat, now: Duration::from_secs(1_000) }
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.nat.sweep(self.now, usize::MAX);
    }

    fn translate(&mut self, from: Side, packet: &[u8]) -> Result<(Side, Vec<u8>), Refusal> {
        let mut bytes = packet.to_vec();
        match self.nat.translate(from, &mut bytes, self.now) {
            Outcome::Translated(done) => {
                let bytes = if done.fragment_len.is_some() { self.nat.whole().to_vec() } else { bytes };
                Ok((done.to, bytes))
            }
            Outcome::Held => unreachable!("no fragment"),
            Outcome::Refused(refusal) => {
                assert_eq!(bytes, packet, "a refused packet has not changed");
                Err(refusal)
            }
        }
    }

    /// A packet from inside to outside.
    pub(super) fn out(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (to, bytes) = self.translate(Side::Inside, packet)?;
        assert_eq!(to, Side::Outside);
        Ok(bytes)
    }

    /// A packet from inside to another inside host.
    pub(super) fn hairpin(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (to, bytes) = self.translate(Side::Inside, packet)?;
        assert_eq!(to, Side::Inside);
        Ok(bytes)
    }

    /// A packet from outside.
    pub(super) fn back(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (to, bytes) = self.translate(Side::Outside, packet)?;
        assert_eq!(to, Side::Inside);
        Ok(bytes)
    }

    /// Sends a datagram out; returns its public source.
    pub(super) fn udp(&mut self, src: End, dst: End) -> Result<End, Refusal> {
        let sent = self.out(&udp(src, dst, b"hello"))?;
        let (from, to) = ends(&sent);
        assert_eq!(to, dst);
        Ok(from)
    }

    /// Opens a connection; returns its public source.
    pub(super) fn connect(&mut self, src: End, dst: End) -> End {
        let (public, _) = ends(&self.out(&tcp(src, dst, (100, 0, SYN), b"")).unwrap());
        let answer = self.back(&tcp(dst, public, (500, 101, SYN | ACK), b"")).unwrap();
        assert_eq!(ends(&answer), (dst, src));
        self.out(&tcp(src, dst, (101, 501, ACK), b"")).unwrap();
        public
    }
}
