//! `Tee`.

use crate::shared_names::counters;
use scalebricks_graph::element::BindError;
use scalebricks_graph::{Binder, Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sends every packet to all outputs: a copy to each but the last, which receives the packet itself.
    pub struct Tee as "Tee" { outputs: Option<usize>, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "The packet, or a copy.", }
    params TeeParams {
        /// The number of outputs that must be connected.
        n: Option<usize> = None,
    }
    counters {
        COPIES = counters::COPIES [Made],
        NOT_COPIED = counters::NOT_COPIED,
    }
    makes |params| Self { outputs: params.n },
}

impl Control for Tee {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        match self.outputs {
            Some(wanted) if wanted != binder.outputs() => Err(BindError::Refused(format!(
                "{wanted} outputs are required, but {} are connected",
                binder.outputs()
            ))),
            _ => Ok(()),
        }
    }
}

impl<P: PacketBuf> Element<P> for Tee {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let last = out.outputs().saturating_sub(1);
        for slot in batch.iter() {
            for output in 0..last {
                match frame.copy(slot) {
                    Some(copy) => {
                        out.count(Self::COPIES, 1);
                        out.push(output, copy);
                    }
                    None => out.count(Self::NOT_COPIED, 1),
                }
            }
        }
        out.all(last, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;

    fn fill(args: &'static [&str]) -> impl Fn(&mut Builder<Packet>) {
        move |builder| {
            builder.declare("tee", "Tee", args).chain(&["in", "tee", "out0"]);
            builder.connect("tee", 1, "out1", 0).connect("tee", 2, "out2", 0);
        }
    }

    #[test]
    fn every_output_gets_every_packet() {
        let mut rig = Rig::new(3, fill(&["3"]));
        rig.send(["a", "bc"]);
        rig.turn();
        for end in 0..3 {
            assert_eq!(rig.got(end), [&b"a"[..], b"bc"]);
        }
        assert_eq!((rig.number("tee", "copies"), rig.number("tee", "not_copied")), (4, 0));
    }

    #[test]
    fn without_buffers_the_last_output_gets_the_packets() {
        let mut rig = Rig::with_buffers(5, 3, fill(&[])).unwrap();
        rig.send(["a", "b", "c"]);
        rig.turn();
        assert_eq!([rig.got(0).len(), rig.got(1).len(), rig.got(2).len()], [1, 1, 3]);
        assert_eq!((rig.number("tee", "copies"), rig.number("tee", "not_copied")), (2, 4));
    }

    #[test]
    fn a_wrong_number_of_outputs_is_refused() {
        let errors = Rig::with_buffers(5, 3, fill(&["2"])).err().unwrap();
        assert_eq!(errors.to_string(), "element tee: 2 outputs are required, but 3 are connected");
    }
}
