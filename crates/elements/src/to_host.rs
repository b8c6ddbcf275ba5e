//! `ToHost`.

use scalebricks_graph::{Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Ends packets for the machine itself: a graph has no network stack behind it. Elements before it can answer, such
    /// as `ICMPPingResponder`. Parameters are accepted for compatibility with Click.
    pub struct ToHost as "ToHost" {}
    inputs { push "in": "Packets, as Ethernet.", }
    params ToHostParams {
        /// Not used.
        devname: String = String::new(),
        /// Not used.
        sniffers: bool = false,
    }
    counters { ENDED = "ended" [Ended]: "Packets for the machine itself.", }
    makes |_| Self {},
}

impl Control for ToHost {}

impl<P: PacketBuf> Element<P> for ToHost {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        out.count(Self::ENDED, batch.len() as u64);
        batch.drain().for_each(|slot| drop(frame.take(slot)));
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn packets_end_and_are_counted() {
        let mut rig = Rig::new(0, |builder| {
            builder.declare("h", "ToHost", &["eth0"]).chain(&["in", "h"]);
        });
        rig.send([[1], [2]]);
        rig.turn();
        assert_eq!(rig.number("h", "ended"), 2);
    }
}
