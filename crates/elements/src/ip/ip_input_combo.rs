//! `IPInputCombo`.

use super::get_ip_address::address;
use crate::columns::{DstIp, IpHeader};
use crate::ethernet::Strip;
use crate::ip_check::{HeaderFault, HeaderRules};
use crate::shared_names::drops;
use crate::values::{Ips, Prefixes};
use scalebricks_graph::{Class, Control, DropId, Handle, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;
use std::net::Ipv4Addr;

/// Bytes of an Ethernet header.
const ETHERNET: u16 = 14;

/// Offset of the destination in an IPv4 header.
const DESTINATION: usize = 16;

element! {
    /// What an IP router does with each received Ethernet frame, in one element: `Paint`, `Strip(14)`, `CheckIPHeader`
    /// and `GetIPAddress(16)`.
    pub struct IPInputCombo as "IPInputCombo" { color: u8, rules: HeaderRules, dst: Handle<DstIp>, }
    inputs { agnostic "in": "Ethernet frames with IPv4 packets.", }
    outputs { agnostic "out": "Valid IPv4 packets.", }
    params IPInputComboParams {
        /// The paint.
        color: u8,
        /// Source addresses of which a packet is invalid; 0.0.0.0 and 255.255.255.255 are added.
        badsrc: Option<Ips> = None,
        /// As that of `CheckIPHeader`.
        interfaces: Option<Prefixes> = None,
        /// As that of `CheckIPHeader`.
        gooddst: Option<Ips> = None,
    }
    example { "1", }
    writes { DstIp, IpHeader, }
    drops {
        SHORT = drops::TOO_SHORT,
        VERSION = drops::BAD_VERSION,
        HEADER_LENGTH = drops::BAD_HEADER_LENGTH,
        LENGTH = drops::BAD_LENGTH,
        CHECKSUM = drops::BAD_CHECKSUM,
        SOURCE = drops::BAD_SOURCE,
    }
    counters { DROPS = "drops": "Invalid frames.", }
    binds { dst, }
}

impl Class for IPInputCombo {
    fn make(params: IPInputComboParams) -> Result<Self, String> {
        let IPInputComboParams { color, badsrc, interfaces, gooddst } = params;
        let is_given = badsrc.is_some();
        let mut rules = HeaderRules::new(true, interfaces, badsrc, gooddst);
        if is_given {
            rules.never_sources();
        }
        Ok(Self { color, rules, dst: Handle::default() })
    }
}

impl Control for IPInputCombo {}

impl IPInputCombo {
    fn apply<P: PacketBuf>(&self, packet: &mut P, meta: &mut Meta) -> Result<Ipv4Addr, DropId> {
        meta.paint = self.color;
        if !Strip::apply(ETHERNET, packet, meta) {
            return Err(Self::SHORT);
        }
        self.rules.apply(packet, meta, 0).map_err(|fault| match fault {
            HeaderFault::Short => Self::SHORT,
            HeaderFault::Version => Self::VERSION,
            HeaderFault::HeaderLength => Self::HEADER_LENGTH,
            HeaderFault::Length => Self::LENGTH,
            HeaderFault::Checksum => Self::CHECKSUM,
            HeaderFault::Source => Self::SOURCE,
        })?;
        address(packet.data(), DESTINATION).ok_or(Self::SHORT)
    }

    fn each<P: PacketBuf>(
        &mut self,
        packet: &mut P,
        meta: &mut Meta,
        dst: &mut DstIp,
        out: &Out<'_>,
    ) -> Verdict {
        match self.apply(packet, meta) {
            Ok(address) => *dst = DstIp(address),
            Err(reason) => {
                out.count(Self::DROPS, 1);
                return Verdict::Drop(reason);
            }
        }
        Verdict::ON
    }
}

crate::agnostic::per_destination!(IPInputCombo);

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4, ipv4_of};
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;

    #[test]
    fn it_does_what_the_single_elements_do() {
        let combo = |builder: &mut Builder<Packet>| {
            builder.declare("i", "IPInputCombo", &["3", "18.26.4.255"]).chain(&["in", "i", "out0"]);
        };
        let single = |builder: &mut Builder<Packet>| {
            builder.declare("p", "Paint", &["3"]).declare("s", "Strip", &["14"]).declare(
                "c",
                "CheckIPHeader",
                &["18.26.4.255"],
            );
            builder.declare("g", "GetIPAddress", &["16"]).chain(&["in", "p", "s", "c", "g", "out0"]);
        };
        let from = |src: [u8; 4]| ipv4_of(|header| header.src = src.into(), b"abc");
        let packets: Vec<Vec<u8>> =
            [ipv4(9, b"abc"), from([18, 26, 4, 255]), from([255; 4]), vec![0x45; 19], b"".to_vec()]
                .into_iter()
                .map(|packet| [&[7; 14][..], &packet, &[0; 9]].concat())
                .chain([vec![0; 13]])
                .collect();
        let run = |mut rig: Rig| {
            rig.send(packets.clone());
            rig.turn();
            rig.noted(0)
        };
        let got = run(Rig::new(1, combo));
        assert_eq!(got, run(Rig::new(1, single)));
        assert_eq!((got.len(), got[0].1.paint, &got[0].0), (1, 3, &ipv4(9, b"abc")));
        let mut rig = Rig::new(1, combo);
        rig.send(packets);
        rig.turn();
        assert_eq!(["drops", "bad_source", "too_short"].map(|name| rig.number("i", name)), [5, 2, 2]);
    }
}
