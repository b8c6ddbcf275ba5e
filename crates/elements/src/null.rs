//! `Null`.

use scalebricks_graph::{Control, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Passes every packet on unchanged, a batch at a time.
    pub struct Null as "Null" {}
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same.", }
    makes |_| Self {},
}

impl Control for Null {}

impl Null {
    #[expect(clippy::unused_self, reason = "every packet passes as it is")]
    fn process<P: PacketBuf>(&mut self, _: &mut SlotList, _: usize, _: &mut Frame<P>, _: &mut Out<'_>) {}
}

scalebricks_graph::agnostic! { Null }

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn packets_pass_pushed_and_pulled() {
        let mut rig = Rig::new(1, |builder| {
            for (name, class) in [("a", "Null"), ("q", "Queue"), ("b", "Null"), ("u", "Unqueue")] {
                builder.declare(name, class, &[]);
            }
            builder.chain(&["in", "a", "q", "b", "u", "out0"]);
        });
        rig.send([b"x", b"y", b"z"]);
        rig.turn();
        assert_eq!(rig.got(0), [b"x", b"y", b"z"]);
        assert_eq!((rig.number("a", "packets"), rig.number("b", "packets")), (3, 3));
    }
}
