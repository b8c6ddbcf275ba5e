//! `Idle`.

use scalebricks_graph::{Control, Element, Frame, Out, SlotList, Upstream, element};
use scalebricks_io::PacketBuf;

element! {
    /// Terminates unused ports: drops what arrives, and sends nothing.
    pub struct Idle as "Idle" {}
    inputs { agnostic "in" [ZeroOrMore]: "Packets to drop.", }
    outputs { agnostic "out" [ZeroOrMore]: "Nothing.", }
    drops { IDLE = "idle": "It arrived at an Idle element.", }
    makes |_| Self {},
}

impl Control for Idle {}

impl<P: PacketBuf> Element<P> for Idle {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<P>, out: &mut Out<'_>) {
        out.drop_all(batch, Self::IDLE);
    }

    fn pull(
        &mut self,
        _: usize,
        _: usize,
        _: &mut SlotList,
        _: &mut Upstream<'_, P>,
        _: &mut Frame<P>,
        _: &mut Out<'_>,
    ) {
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn what_comes_in_is_dropped_and_nothing_comes_out() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("tee", "Tee", &[]).declare("idle", "Idle", &[]);
            builder.chain(&["in", "tee", "idle", "out0"]).connect("tee", 1, "idle", 1);
        });
        rig.send([b"a", b"b"]);
        rig.turn();
        assert_eq!(rig.number("idle", "idle"), 4);
        assert!(rig.got(0).is_empty());
    }

    #[test]
    fn it_may_have_no_inputs_or_no_outputs() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("sink", "Idle", &[]).declare("source", "Idle", &[]).declare(
                "pulled",
                "Idle",
                &[],
            );
            builder.declare("unqueue", "Unqueue", &[]).declare("discard", "Discard", &[]);
            builder
                .chain(&["in", "sink"])
                .chain(&["source", "out0"])
                .chain(&["pulled", "unqueue", "discard"]);
        });
        rig.send([b"a"]);
        rig.turn();
        assert_eq!((rig.number("sink", "idle"), rig.number("discard", "packets")), (1, 0));
    }
}
