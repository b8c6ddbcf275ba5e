//! `HostEtherFilter`.

use crate::annotations::PacketType;
use crate::shared_names::drops;
use crate::side_output::SideOutput;
use crate::values::Mac;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::{MacAddr, ethernet};

element! {
    /// Passes on the frames that an Ethernet interface with this address would accept: unicast to it, broadcast and
    /// multicast. Records to whom each packet was sent.
    pub struct HostEtherFilter as "HostEtherFilter" {
        pub(crate) own: MacAddr, pub(crate) drops_own: bool, drops_other: bool, pub(crate) offset: usize, side: SideOutput,
    }
    inputs { agnostic "in": "Ethernet frames.", }
    outputs { agnostic "out": "Frames for this host.", push "other" [Optional]: "Other frames; dropped if unconnected.", }
    params HostEtherFilterParams {
        /// The interface's address.
        ether: Mac,
        /// Whether frames from this address are dropped.
        drop_own: bool = false,
        /// Whether frames to other hosts are dropped.
        drop_other: bool = true,
        /// Offset of the Ethernet header.
        offset: usize = 0,
    }
    example { "2:0:0:0:0:1", "true", }
    drops {
        SHORT = drops::TOO_SHORT,
        OWN = "own_frame": "The frame came from this address.",
        OTHER = "other_host": "The frame was sent to another host.",
    }
    counters { DROPS = "drops": "Frames not passed on.", }
    binds { side, }
    makes |HostEtherFilterParams { ether, drop_own, drop_other, offset }| Self {
        own: ether.0,
        drops_own: drop_own,
        drops_other: drop_other,
        offset,
        side: SideOutput::default(),
    },
}

impl Control for HostEtherFilter {}

impl<P: PacketBuf> PerPacket<P> for HostEtherFilter {
    #[inline]
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        let frame = packet.data().get(self.offset..);
        let is_own = frame.and_then(ethernet::destination_bits) == Some(self.own.bits());
        if is_own && !self.drops_own && frame.is_some_and(|frame| frame.len() >= ethernet::HEADER_LEN) {
            PacketType::Host.note(meta);
            return Verdict::ON;
        }
        let frame = frame.and_then(ethernet::addresses);
        let reason = match frame {
            None => Self::SHORT,
            Some((dst, src)) => {
                let link = PacketType::of(dst, Some(self.own));
                link.note(meta);
                match link {
                    _ if self.drops_own && src == self.own => Self::OWN,
                    PacketType::OtherHost if self.drops_other => Self::OTHER,
                    _ => return Verdict::ON,
                }
            }
        };
        tally.count(Self::DROPS, 1);
        self.side.verdict(reason)
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    fn frame(dst: u8, src: u8) -> Vec<u8> {
        [&[dst; 6][..], &[src; 6], &[8, 0]].concat()
    }

    #[test]
    fn frames_for_this_host_pass() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("h", "HostEtherFilter", &["4:4:4:4:4:4"]).chain(&["in", "h", "out0"]);
        });
        rig.send([frame(4, 8), frame(6, 8), frame(0xff, 8), frame(1, 4), vec![4; 13]]);
        rig.turn();
        assert_eq!(rig.heads(0), [4, 0xff, 1]);
        assert_eq!(
            ["other_host", "own_frame", "too_short", "drops"].map(|name| rig.number("h", name)),
            [1, 0, 1, 2]
        );
    }

    #[test]
    fn what_is_dropped_can_be_told() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("h", "HostEtherFilter", &["4:4:4:4:4:4", "true", "false", "OFFSET 2"]);
            builder.chain(&["in", "h", "out0"]).connect("h", 1, "out1", 0);
        });
        let shifted = |dst, src| [&[dst, 0][..], &frame(dst, src)].concat();
        rig.send([shifted(4, 8), shifted(6, 8), shifted(1, 4), vec![4; 15]]);
        rig.turn();
        assert_eq!((rig.heads(0), rig.heads(1), rig.number("h", "drops")), (vec![4, 6], vec![1, 4], 2));
    }
}
