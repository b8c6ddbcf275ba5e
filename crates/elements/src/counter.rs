//! `Counter`.

use crate::shared_names::handlers;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Counts packets and bytes, and passes every packet on. The handlers can be reset; the counter `bytes` and the
    /// runner's `packets` never decrease.
    #[derive(Default)]
    pub struct Counter as "Counter" { count: u64, byte_count: u64, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same.", }
    counters { BYTES = "bytes": "Bytes of packets.", }
    handlers {
        read COUNT = handlers::COUNT,
        read BYTE_COUNT = "byte_count": "Bytes since the last reset.",
        write RESET = "reset_counts": "Sets both to 0.",
    }
    keeps { count, byte_count, }
    makes |_| Self::default(),
}

impl Control for Counter {
    fn read(&self, handler: HandlerId) -> String {
        let value = if handler == Self::COUNT { self.count } else { self.byte_count };
        value.to_string()
    }

    fn write(&mut self, _: HandlerId, _: &str) -> Result<(), HandlerError> {
        *self = Self::default();
        Ok(())
    }
}

impl<P: PacketBuf> PerPacket<P> for Counter {
    fn each(&mut self, packet: &mut P, _: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        let bytes = packet.data().len() as u64;
        self.count += 1;
        self.byte_count += bytes;
        tally.count(Self::BYTES, bytes);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;

    #[test]
    fn it_counts_and_goes_on_in_a_new_graph_until_it_is_reset() {
        let fill = |builder: &mut Builder<Packet>| {
            builder.declare("c", "Counter", &[]).chain(&["in", "c", "out0"]);
        };
        let mut rig = Rig::new(1, fill);
        let counts =
            |rig: &mut Rig| ["count", "byte_count", "packets", "bytes"].map(|name| rig.number("c", name));
        rig.send(["abc", "de"]);
        rig.turn();
        rig.replace(fill);
        rig.send(["f"]);
        rig.turn();
        assert_eq!(counts(&mut rig), [3, 6, 3, 6]);
        rig.write("c", "reset_counts", "").unwrap();
        rig.send(["gh"]);
        rig.turn();
        assert_eq!(counts(&mut rig), [1, 2, 4, 8]);
        assert_eq!(rig.got(0).len(), 4);
    }
}
