//! `IPOutputCombo`.

use super::dec_ip_ttl::DecIPTTL;
use super::fix_ip_src::FixIPSrc;
use super::ip_gw_options::{OptionsError, RouterAddresses};
use crate::annotations::PacketType;
use crate::columns::IpHeader;
use crate::shared_names::{counters, drops};
use crate::values::Ip;
use scalebricks_graph::{Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use std::net::Ipv4Addr;

element! {
    /// What an IP router does with each packet before it leaves, in one element: `DropBroadcasts`, `PaintTee`,
    /// `IPGWOptions`, `FixIPSrc`, `DecIPTTL` and `CheckLength`. It does not fragment.
    pub struct IPOutputCombo as "IPOutputCombo" { color: u8, address: Ipv4Addr, router: RouterAddresses, mtu: usize, }
    inputs { push "in": "IPv4 packets.", }
    outputs {
        push "out": "Packets that can leave.",
        push "redirect": "Copies of packets with that paint, which leave by the interface they arrived at.",
        push "malformed": "Packets with malformed options.",
        push "expired": "Packets whose TTL has expired.",
        push "long": "Packets longer than the MTU.",
    }
    params IPOutputComboParams {
        /// The paint.
        color: u8,
        /// The address of the outgoing interface.
        ipaddr: Ip,
        /// Most bytes of a packet.
        mtu: usize,
    }
    example { "1", "10.0.0.1", "300", }
    reads { IpHeader, }
    drops {
        BROADCAST = drops::LINK_BROADCAST,
        NO_HEADER = drops::NO_HEADER,
    }
    counters {
        COPIES = counters::COPIES [Made],
        NOT_COPIED = counters::NOT_COPIED,
    }
    makes |IPOutputComboParams { color, ipaddr: Ip(address), mtu }| Self {
        color, address, router: RouterAddresses::new(address, Vec::new()), mtu,
    },
}

impl Control for IPOutputCombo {}

impl<P: PacketBuf> Element<P> for IPOutputCombo {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            if PacketType::noted(frame.meta(&slot)).is_shared() {
                out.drop(slot, Self::BROADCAST);
                continue;
            }
            if frame.meta(&slot).paint == self.color {
                match frame.copy(&slot) {
                    Some(copy) => {
                        out.count(Self::COPIES, 1);
                        out.push(1, copy);
                    }
                    None => out.count(Self::NOT_COPIED, 1),
                }
            }
            let (packet, meta) = frame.both_mut(&slot);
            let output = match self.router.apply(packet, meta, out.now()) {
                Err(OptionsError::Malformed) => Some(2),
                Err(OptionsError::NoHeader) => None,
                Ok(_) => FixIPSrc::apply(self.address, packet, meta)
                    .and_then(|_| DecIPTTL::apply(packet, meta))
                    .map(|is_alive| match is_alive {
                        false => 3,
                        true if packet.data().len() > self.mtu => 4,
                        true => 0,
                    }),
            };
            match output {
                Some(output) => out.push(output, slot),
                None => out.drop(slot, Self::NO_HEADER),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::annotations::{self, PacketType};
    use crate::rig::{Rig, ipv4, ipv4_with_options};
    use scalebricks_graph::{Builder, Meta};
    use scalebricks_io::Packet;

    #[test]
    fn it_does_what_the_single_elements_do() {
        let combo = |builder: &mut Builder<Packet>| {
            builder.declare("m", "MarkIPHeader", &[]).declare(
                "o",
                "IPOutputCombo",
                &["3", "10.0.0.9", "100"],
            );
            builder.chain(&["in", "m", "o", "out0"]);
            (1..5).for_each(|at| {
                builder.connect("o", at, &format!("out{at}"), 0);
            });
        };
        let single = |builder: &mut Builder<Packet>| {
            builder.declare("m", "MarkIPHeader", &[]).declare("b", "DropBroadcasts", &[]).declare(
                "p",
                "PaintTee",
                &["3"],
            );
            builder.declare("g", "IPGWOptions", &["10.0.0.9"]).declare("f", "FixIPSrc", &["10.0.0.9"]);
            builder.declare("d", "DecIPTTL", &[]).declare("l", "CheckLength", &["100"]);
            builder.chain(&["in", "m", "b", "p", "g", "f", "d", "l", "out0"]);
            builder
                .connect("p", 1, "out1", 0)
                .connect("g", 1, "out2", 0)
                .connect("d", 1, "out3", 0)
                .connect("l", 1, "out4", 0);
        };
        let painted = |paint| {
            let mut meta = Meta::default();
            meta.paint = paint;
            meta
        };
        let (mut broadcast, mut fixes) = (painted(3), painted(2));
        PacketType::Broadcast.note(&mut broadcast);
        annotations::fix_source(&mut fixes, true);
        let packets = [
            (ipv4(9, b"a"), painted(3)),
            (ipv4(9, b"b"), painted(2)),
            (ipv4(9, b"c"), broadcast),
            (ipv4(1, b"d"), painted(3)),
            (ipv4(9, b"e"), fixes),
            (ipv4_with_options(&[7, 7, 4, 0, 0, 0, 0, 0], b"f"), fixes),
            (ipv4_with_options(&[7, 1, 4, 0], b"g"), painted(2)),
            (ipv4(9, &[b'h'; 80]), painted(2)),
            (ipv4(9, &[b'i'; 81]), painted(2)),
        ];
        let run = |mut rig: Rig| {
            rig.send_noted(packets.clone());
            rig.turn();
            [0, 1, 2, 3, 4].map(|end| rig.noted(end))
        };
        let got = run(Rig::new(5, combo));
        assert_eq!(got.each_ref().map(Vec::len), [5, 2, 1, 1, 1]);
        assert_eq!(got, run(Rig::new(5, single)));
    }
}
