//! A forwarder that processes one frame at a time, with a plain map and an independent parser.

use super::rig::{Left, port};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use scalebricks_elements::flat::{
    Action, Base, BytesAt, FlatName, FlatTuple, Length, NameBytes, NameKind, UnknownNamePolicy,
};
use scalebricks_types::FiveTuple;
use scalebricks_wire::MacAddr;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub type Names = BTreeMap<FlatName, Action>;

/// Configuration of the forwarder.
pub struct Reference<'a> {
    pub kind: NameKind,
    pub unknown: UnknownNamePolicy,
    pub groups: &'a [Option<u16>],
    pub names: &'a Names,
}

/// Kind of a frame.
pub enum Is {
    Named(FlatName),
    ForAll,
    Nothing,
}

impl Reference<'_> {
    /// The frames that leave each port.
    pub fn forward(&self, from: usize, frame: &[u8]) -> Vec<Left> {
        let mut left = vec![Left::new(); self.groups.len()];
        match what(self.kind, from, frame) {
            Is::Nothing => {}
            Is::ForAll => self.flood(from, frame, &mut left),
            Is::Named(name) => match self.names.get(&name) {
                Some(action) => self.act(*action, from, frame, &mut left),
                None if self.unknown == UnknownNamePolicy::Flood => self.flood(from, frame, &mut left),
                None => {}
            },
        }
        left
    }

    pub fn act(&self, action: Action, from: usize, frame: &[u8], left: &mut [Left]) {
        match action {
            Action::Drop => {}
            Action::Flood => self.flood(from, frame, left),
            Action::Forward(to) => {
                if self.may(from, to.index()) {
                    left[to.index()].push(frame.to_vec());
                }
            }
            Action::Route { port: to, next_hop, source } => {
                if let Some(routed) = routed(frame, next_hop, source)
                    && self.may(from, to.index())
                {
                    left[to.index()].push(routed);
                }
            }
        }
    }

    fn flood(&self, from: usize, frame: &[u8], left: &mut [Left]) {
        (0..self.groups.len()).filter(|&to| self.may(from, to)).for_each(|to| left[to].push(frame.to_vec()));
    }

    fn may(&self, from: usize, to: usize) -> bool {
        from != to && !(self.groups[from].is_some() && self.groups[from] == self.groups[to])
    }
}

/// The kind of a frame, given the map's kind of names.
pub fn what(kind: NameKind, from: usize, frame: &[u8]) -> Is {
    if let NameKind::Bytes(at) = kind {
        return bytes(at, frame).map_or(Is::Nothing, Is::Named);
    }
    if frame[0] & 1 == 1 {
        return Is::ForAll;
    }
    if kind == NameKind::Mac {
        return Is::Named(FlatName::Mac(MacAddr(frame[..6].try_into().unwrap())));
    }
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let name = match (kind, packet.net) {
        (NameKind::Ipv4, Some(NetSlice::Ipv4(ip))) => FlatName::Ipv4(ip.header().destination_addr()),
        (NameKind::Ipv6, Some(NetSlice::Ipv6(ip))) => FlatName::Ipv6(ip.header().destination_addr()),
        (NameKind::Tuple { with_port }, Some(net)) => {
            let (src, dst, protocol): (IpAddr, IpAddr, u8) = match net {
                NetSlice::Ipv4(ip) => {
                    let header = ip.header();
                    (header.source_addr().into(), header.destination_addr().into(), header.protocol().0)
                }
                NetSlice::Ipv6(ip) => {
                    let header = ip.header();
                    (header.source_addr().into(), header.destination_addr().into(), header.next_header().0)
                }
                NetSlice::Arp(_) => return Is::Nothing,
            };
            let (src_port, dst_port) = match packet.transport {
                Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
                Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
                _ => (0, 0),
            };
            let tuple = FiveTuple { src, dst, protocol, src_port, dst_port };
            FlatName::Tuple(FlatTuple::new(with_port.then(|| port(from)), tuple).unwrap())
        }
        _ => return Is::Nothing,
    };
    Is::Named(name)
}

fn bytes(at: BytesAt, frame: &[u8]) -> Option<FlatName> {
    let base = match (at.base(), frame[12..14] == [0x81, 0]) {
        (Base::Frame, _) => 0,
        (Base::Payload, false) => 14,
        (Base::Payload, true) => 18,
    };
    let start = base + usize::from(at.offset());
    let (start, length) = match at.length() {
        Length::Fixed(length) => (start, length.into()),
        Length::Prefix8 => (start + 1, usize::from(*frame.get(start)?)),
        Length::Prefix16 => {
            (start + 2, usize::from(*frame.get(start)?) * 256 + usize::from(*frame.get(start + 1)?))
        }
    };
    NameBytes::new(frame.get(start..start + length)?).ok().map(FlatName::Bytes)
}

/// The frame after one hop, with a new checksum; `None` if its TTL has expired.
pub fn routed(frame: &[u8], next_hop: MacAddr, source: MacAddr) -> Option<Vec<u8>> {
    let mut routed = frame.to_vec();
    routed[..6].copy_from_slice(&next_hop.0);
    routed[6..12].copy_from_slice(&source.0);
    let l3 = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    let is_v4 = routed[l3] >> 4 == 4;
    let at = l3 + if is_v4 { 8 } else { 7 };
    if routed[at] <= 1 {
        return None;
    }
    routed[at] -= 1;
    if is_v4 {
        routed[l3 + 10..l3 + 12].fill(0);
        let words = routed[l3..l3 + 20].chunks(2).map(|word| u32::from(word[0]) * 256 + u32::from(word[1]));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        routed[l3 + 10..l3 + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
    Some(routed)
}
