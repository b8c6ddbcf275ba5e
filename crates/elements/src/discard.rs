//! `Discard`.

use scalebricks_graph::{Control, Element, Frame, Out, SlotList, Upstream, element};
use scalebricks_io::{BURST, PacketBuf};

element! {
    /// Ends packets on purpose. They count as `discarded`, not as drops. With a pull input it takes up to one burst per
    /// turn.
    pub struct Discard as "Discard" { batch: SlotList, }
    inputs { agnostic "in": "Packets to discard.", }
    counters { DISCARDED = "discarded" [Ended]: "Packets ended.", }
    hooks { Pulls, }
    makes |_| Self { batch: SlotList::new() },
}

impl Control for Discard {}

impl<P: PacketBuf + 'static> Element<P> for Discard {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        out.count(Self::DISCARDED, batch.len() as u64);
        batch.drain().for_each(|slot| drop(frame.take(slot)));
    }

    fn begin(&mut self, upstream: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let want = BURST.min(out.intake(frame.used()));
        let came = upstream.pull(0, want, &mut self.batch, frame, out);
        out.count(Self::DISCARDED, came as u64);
        self.batch.drain().for_each(|slot| drop(frame.take(slot)));
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn it_takes_what_is_pushed_and_pulls_a_burst_a_turn() {
        let mut rig = Rig::new(0, |builder| {
            builder.declare("tee", "Tee", &[]).declare("queue", "Queue", &[]);
            builder.declare("pushed", "Discard", &[]).declare("pulls", "Discard", &[]);
            builder.chain(&["in", "tee", "pushed"]).connect("tee", 1, "queue", 0).chain(&["queue", "pulls"]);
        });
        rig.send((0..40).map(|n| [n]));
        rig.turn();
        assert_eq!((rig.number("pushed", "discarded"), rig.number("pulls", "discarded")), (40, 32));
        rig.turn();
        assert_eq!((rig.number("pulls", "discarded"), rig.worker.graph().held()), (40, 0));
    }
}
