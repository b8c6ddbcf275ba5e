//! `DecIP6HLIM`.

use crate::columns::Ip6Header;
use crate::header6;
use crate::shared_names::drops;
use crate::side_output::SideOutput;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Decrements the hop limit (RFC 8200 §3). An expired packet goes to output 1, unchanged.
    pub struct DecIP6HLIM as "DecIP6HLIM" { side: SideOutput, }
    inputs { agnostic "in": "IPv6 packets.", }
    outputs {
        agnostic "out": "Packets that have not expired.",
        push "expired" [Optional]: "Packets that arrived with a hop limit of 0 or 1; dropped if unconnected.",
    }
    reads { Ip6Header, }
    drops {
        EXPIRED = "hop_limit_expired": "The packet arrived with a hop limit of 0 or 1.",
        NO_HEADER = drops::NO_HEADER6,
    }
    counters { DROPS = "drops": "Expired packets.", }
    binds { side, }
    makes |_| Self { side: SideOutput::default() },
}

impl Control for DecIP6HLIM {}

impl<P: PacketBuf> PerPacket<P> for DecIP6HLIM {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        let Some(header) = header6::fixed_mut(packet.data_mut(), meta) else {
            return Verdict::Drop(Self::NO_HEADER);
        };
        let limit = &mut header[header6::HOP_LIMIT];
        if *limit <= 1 {
            tally.count(Self::DROPS, 1);
            return self.side.verdict(Self::EXPIRED);
        }
        *limit -= 1;
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv6};

    #[test]
    fn expired_packets_are_dropped_or_told() {
        for ends in [1, 2] {
            let mut rig = Rig::new(ends, |builder| {
                builder.declare("m", "MarkIP6Header", &[]).declare("d", "DecIP6HLIM", &[]);
                builder.chain(&["in", "m", "d", "out0"]);
                if ends > 1 {
                    builder.connect("d", 1, "out1", 0);
                }
            });
            rig.send([0, 1, 2, 255].map(|limit| ipv6(limit, b"abc")));
            rig.turn();
            assert_eq!(rig.got(0), [1, 254].map(|limit| ipv6(limit, b"abc")));
            assert_eq!(rig.number("d", "drops"), 2);
            if ends > 1 {
                assert_eq!(rig.got(1), [0, 1].map(|limit| ipv6(limit, b"abc")));
            } else {
                assert_eq!(rig.number("d", "hop_limit_expired"), 2);
            }
        }
    }
}
