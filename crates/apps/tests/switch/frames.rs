//! Frames built by an independent library, from few addresses so that many have a name in the table.

use etherparse::{IpNumber, PacketBuilder, PacketBuilderStep};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Numbers of stations, addresses and ports.
pub const WORLD: u8 = 12;

pub fn mac(n: u8) -> [u8; 6] {
    if n == 0 { [0xff; 6] } else { [0x02, 0, 0, 0, 1, n] }
}

pub fn v4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, n)
}

pub fn v6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into())
}

/// A name of bytes; its number determines its length.
pub fn label(n: u8) -> Vec<u8> {
    (0..=n % 7).map(|at| b'a' + n + at).collect()
}

/// Fields of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub mac: u8,
    pub vlan: Option<u16>,
    pub is_v6: bool,
    pub src: u8,
    pub dst: u8,
    pub protocol: Protocol,
    pub src_port: u16,
    pub dst_port: u16,
    pub ttl: u8,
    pub label: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Udp,
    Tcp,
    /// One without ports.
    Other,
}

pub fn specs() -> impl Strategy<Value = Spec> {
    let protocols = prop_oneof![Just(Protocol::Udp), Just(Protocol::Tcp), Just(Protocol::Other)];
    let vlans = prop_oneof![3 => Just(None), 1 => (1..4095_u16).prop_map(Some)];
    let ttls = prop_oneof![Just(0_u8), Just(1), Just(2), Just(64), Just(255)];
    (0..WORLD, vlans, any::<bool>(), 0..3_u8, 0..WORLD, protocols, 0..2_u16, 0..3_u16, ttls, 0..WORLD)
        .prop_map(|(mac, vlan, is_v6, src, dst, protocol, src_port, dst_port, ttl, label)| Spec {
            mac,
            vlan,
            is_v6,
            src,
            dst,
            protocol,
            src_port: 1_000 + src_port,
            dst_port: 80 + dst_port,
            ttl,
            label,
        })
}

impl Spec {
    pub fn frame(&self) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([0x02, 0, 0, 0, 9, 9], mac(self.mac));
        match (self.vlan, self.is_v6) {
            (None, false) => {
                self.transport(ethernet.ipv4(v4(self.src).octets(), v4(self.dst).octets(), self.ttl))
            }
            (None, true) => {
                self.transport(ethernet.ipv6(v6(self.src).octets(), v6(self.dst).octets(), self.ttl))
            }
            (Some(vlan), false) => self.transport(ethernet.single_vlan(vlan.try_into().unwrap()).ipv4(
                v4(self.src).octets(),
                v4(self.dst).octets(),
                self.ttl,
            )),
            (Some(vlan), true) => self.transport(ethernet.single_vlan(vlan.try_into().unwrap()).ipv6(
                v6(self.src).octets(),
                v6(self.dst).octets(),
                self.ttl,
            )),
        }
    }

    fn transport(&self, ip: PacketBuilderStep<etherparse::IpHeaders>) -> Vec<u8> {
        // A length of two bytes and a name.
        let name = label(self.label);
        let payload = [&(name.len() as u16).to_be_bytes()[..], &name, b"and more behind it"].concat();
        let mut frame = Vec::new();
        match self.protocol {
            Protocol::Udp => ip.udp(self.src_port, self.dst_port).write(&mut frame, &payload),
            Protocol::Tcp => ip.tcp(self.src_port, self.dst_port, 7, 1_024).write(&mut frame, &payload),
            Protocol::Other => ip.write(&mut frame, IpNumber(253), &payload),
        }
        .unwrap();
        frame
    }

    /// Offset of the transport layer's payload from the IP header.
    pub fn payload_offset(is_v6: bool, protocol: Protocol) -> u16 {
        let ip = if is_v6 { 40 } else { 20 };
        ip + match protocol {
            Protocol::Udp => 8,
            Protocol::Tcp => 20,
            Protocol::Other => 0,
        }
    }
}
