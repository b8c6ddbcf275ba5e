//! `DropBroadcasts`.

use crate::annotations::PacketType;
use crate::shared_names::drops;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Drops packets that arrived as link broadcasts or multicasts: a router forwards none of them (RFC 1812 §5.3.4).
    /// Sources and `HostEtherFilter` record how a packet arrived.
    pub struct DropBroadcasts as "DropBroadcasts" {}
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "Packets sent to one host.", }
    drops { BROADCAST = drops::LINK_BROADCAST, }
    counters { DROPS = "drops": "Packets dropped.", }
    makes |_| Self {},
}

impl Control for DropBroadcasts {}

impl<P: PacketBuf> PerPacket<P> for DropBroadcasts {
    fn each(&mut self, _: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        if PacketType::noted(meta).is_shared() {
            tally.count(Self::DROPS, 1);
            return Verdict::Drop(Self::BROADCAST);
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn what_was_sent_to_one_host_passes() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("h", "HostEtherFilter", &["2:0:0:0:0:1", "DROP_OTHER false"]);
            builder.declare("d", "DropBroadcasts", &[]).chain(&["in", "h", "d", "out0"]);
        });
        rig.send([[0xff; 14], [1; 14], [4; 14]]);
        rig.turn();
        assert_eq!(
            (rig.heads(0), rig.number("d", "drops"), rig.number("d", "link_broadcast")),
            (vec![4], 2, 2)
        );
    }
}
