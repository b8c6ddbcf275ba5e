//! Routes, the packets that use them, and checks of those that leave.

use crate::benches::lpm::routes;
use crate::error::BenchError;
use crate::gateway::packet_ring::PacketKind;
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::{Lpm, NextHop, Params, Prefix};
use scalebricks_types::mix::SplitMix64;
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, HEADER_LEN, header};
use scalebricks_wire::ipv4::{Ipv4Header, MIN_HEADER_LEN, header_checksum_ok};
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Ports; packets arrive at the first.
pub(super) const PORTS: usize = 4;
/// Next hops of each port.
pub(super) const GATEWAYS: usize = 16;
/// Destinations in rotation.
const DESTINATIONS: usize = 1 << 16;
/// Bytes of a frame without the FCS.
const FRAME: usize = 60;
/// Bytes that forwarding changes.
const FRONT: usize = HEADER_LEN + MIN_HEADER_LEN;

/// A port's address.
pub(super) const fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, port as u8, 0])
}

/// A next hop.
pub(super) const fn gateway(port: usize, number: usize) -> (Ipv4Addr, MacAddr) {
    let number = number as u8 + 1;
    (Ipv4Addr::new(10, 255, port as u8, number), MacAddr([2, 0, 0, 0, port as u8, number]))
}

/// The packets.
#[derive(Debug, Clone)]
pub(super) struct RouterPackets {
    destinations: Vec<[u8; 4]>,
    /// Header checksums.
    sums: Vec<[u8; 2]>,
    front: [u8; FRONT],
    /// The next hop of each destination: port and number; `None` if packets are forwarded untouched.
    hops: Option<HashMap<[u8; 4], (usize, usize)>>,
}

impl RouterPackets {
    fn new(destinations: Vec<[u8; 4]>, hops: HashMap<[u8; 4], (usize, usize)>) -> Self {
        let ip = |dst: [u8; 4]| Ipv4Header {
            dscp_ecn: 0,
            total_len: (FRAME - HEADER_LEN) as u16,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_units: 0,
            ttl: 64,
            protocol: 17,
            src: Ipv4Addr::new(10, 255, 1, 200),
            dst: dst.into(),
        };
        let mut front = [0; FRONT];
        front[..HEADER_LEN].copy_from_slice(&header(mac(1), MacAddr([2, 9, 9, 9, 9, 9]), ETHERTYPE_IPV4));
        front[HEADER_LEN..].copy_from_slice(&ip([0; 4]).to_bytes());
        let sums = destinations.iter().map(|&dst| {
            let bytes = ip(dst).to_bytes();
            [bytes[10], bytes[11]]
        });
        Self { sums: sums.collect(), destinations, front, hops: Some(hops) }
    }

    /// The same packets, forwarded untouched.
    pub(super) fn untouched(&self) -> Self {
        Self { hops: None, ..self.clone() }
    }

    /// Number of distinct packets.
    pub(super) fn len(&self) -> usize {
        self.destinations.len()
    }
}

impl PacketKind for std::sync::Arc<RouterPackets> {
    /// The port.
    type Exit = usize;

    fn count(&self) -> usize {
        self.len()
    }

    fn room(&self) -> usize {
        FRAME
    }

    #[inline]
    fn renew<P: PacketBuf>(&self, packet: &mut P, number: usize) {
        if let Some(front) = packet.data_mut().first_chunk_mut::<FRONT>() {
            *front = self.front;
            front[24..26].copy_from_slice(&self.sums[number]);
            front[30..].copy_from_slice(&self.destinations[number]);
        }
    }

    fn fault(&self, exit: usize, frame: &[u8]) -> Option<&'static str> {
        let Some(front) = frame.first_chunk::<FRONT>().filter(|_| frame.len() == FRAME) else {
            return Some("a frame of another length");
        };
        let dst = [front[30], front[31], front[32], front[33]];
        if !header_checksum_ok(&front[HEADER_LEN..]) {
            return Some("a wrong checksum");
        }
        let Some(hops) = &self.hops else {
            let is_same = front[..24] == self.front[..24] && exit == 2;
            return (!is_same).then_some("a changed frame, or another port");
        };
        let Some(&(port, number)) = hops.get(&dst) else { return Some("an unknown destination") };
        let (expected, ttl) = (header(gateway(port, number).1, mac(port), ETHERTYPE_IPV4), front[22]);
        match () {
            () if exit != port => Some("another port than that of the longest prefix"),
            () if front[..HEADER_LEN] != expected => Some("another next hop"),
            () if ttl != 63 => Some("a wrong TTL"),
            () => None,
        }
    }
}

/// Distinct prefixes in the addresses from 11.0.0.0 to 223.255.255.255 that are routed between networks.
fn generated(count: usize) -> Vec<Prefix<Ipv4Addr>> {
    let routes = routes::generated(count, |prefix: Prefix<Ipv4Addr>| is_routed(prefix.address()));
    routes.into_iter().map(|(prefix, _)| prefix).collect()
}

/// Whether the router forwards packets there.
fn is_routed(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    (11..224).contains(&first) && first != 127 && (first, second) != (169, 254)
}

/// The IPv4 prefixes of BGP tables to which the router forwards packets.
fn read(files: &[PathBuf]) -> Result<Vec<Prefix<Ipv4Addr>>, BenchError> {
    let (routes, _) = routes::read(files)?;
    let prefixes = routes.into_iter().map(|(prefix, _)| prefix);
    let all: Vec<_> = prefixes.filter(|prefix| is_routed(prefix.address())).collect();
    if all.is_empty() { Err(BenchError::Usage("--routes: no IPv4 prefix".to_owned())) } else { Ok(all) }
}

/// The packets over routes of these files, or over as many generated ones; writes the routes for the router. Returns the
/// number of routes too.
pub(super) fn make(files: &[PathBuf], count: usize, to: &Path) -> Result<(RouterPackets, usize), BenchError> {
    let prefixes = if files.is_empty() { generated(count) } else { read(files)? };
    let failed = |error: std::io::Error| BenchError::check("router", format!("{}: {error}", to.display()));
    let mut text = BufWriter::new(std::fs::File::create(to).map_err(failed)?);
    let (table, mut random) = (Lpm::<Ipv4Addr>::new(Params::FAST), SplitMix64(1));
    for prefix in &prefixes {
        // Not by the port where packets arrive.
        let number = random.next_u64() as usize % ((PORTS - 1) * GATEWAYS);
        let (port, at) = (2 + number / GATEWAYS, number % GATEWAYS);
        writeln!(text, "{prefix} {} {port}", gateway(port, at).0).map_err(failed)?;
        if let Some(hop) = NextHop::new(number as u32) {
            table.insert(*prefix, hop).map_err(|error| BenchError::check("router", error.to_string()))?;
        }
    }
    text.flush().map_err(failed)?;
    let (mut destinations, mut hops) = (Vec::new(), HashMap::new());
    while destinations.len() < DESTINATIONS {
        let prefix = prefixes[random.next_u64() as usize % prefixes.len()];
        let host = (random.next_u64() as u32).checked_shr(prefix.length().into()).unwrap_or(0);
        let address = Ipv4Addr::from_bits(prefix.address().to_bits() | host);
        // The search of all prefixes, not the lookup that is measured.
        let Some((_, hop)) = table.longest(address).filter(|_| is_routed(address)) else { continue };
        let number = hop.index() as usize;
        destinations.push(address.octets());
        hops.insert(address.octets(), (2 + number / GATEWAYS, number % GATEWAYS));
    }
    Ok((RouterPackets::new(destinations, hops), prefixes.len()))
}
