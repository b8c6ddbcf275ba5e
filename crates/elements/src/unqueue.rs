//! `Unqueue`.

use crate::gate::{Gate, gated};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, Element, Frame, HandlerId, Out, SlotList, Upstream};
use scalebricks_io::{BURST, PacketBuf};
use std::any::Any;

gated! {
    /// Pulls packets and pushes them on, up to one burst per turn. It pauses while an element downstream raises
    /// back-pressure.
    pub struct Unqueue as "Unqueue" { batch: SlotList, burst: usize, }
    inputs { pull "in": "Packets.", }
    outputs { push "out": "The same.", }
    params UnqueueParams {
        /// Total number of packets; unlimited if negative.
        limit: i64 = -1,
        /// Most packets per turn. Click's default is 1.
        burst: usize = BURST,
        /// Whether it is active from the start.
        active: bool = true,
    }
    handlers { reset "reset", }
    makes |UnqueueParams { limit, burst, active }| Self {
        gate: Gate::new(active, limit), batch: SlotList::new(), burst,
    },
}

impl Control for Unqueue {
    fn read(&self, handler: HandlerId) -> String {
        self.read_gate(handler)
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        self.write_gate(handler, value)
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        self.gate.take_over(before.gate);
    }
}

impl<P: PacketBuf + 'static> Element<P> for Unqueue {
    fn begin(&mut self, upstream: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if out.is_blocked() {
            return;
        }
        let want = self.burst.min(self.gate.left()).min(out.intake(frame.used()));
        self.gate.pass(upstream.pull(0, want, &mut self.batch, frame, out) as u64);
        out.all(0, &mut self.batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn it_passes_on_a_burst_a_turn_up_to_its_limit() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("q", "Queue", &[]).declare(
                "u",
                "Unqueue",
                &["LIMIT 5", "BURST 2", "ACTIVE false"],
            );
            builder.chain(&["in", "q", "u", "out0"]);
        });
        rig.send((0..9).map(|n| [n]));
        let turn = |rig: &mut Rig| {
            rig.turn();
            rig.heads(0)
        };
        assert_eq!(turn(&mut rig), []);
        rig.write("u", "active", "true").unwrap();
        assert_eq!(
            [turn(&mut rig), turn(&mut rig), turn(&mut rig), turn(&mut rig)],
            [vec![0, 1], vec![2, 3], vec![4], vec![]]
        );
        assert_eq!((rig.number("u", "count"), rig.number("q", "length")), (5, 4));
        rig.write("u", "reset", "").unwrap();
        assert_eq!(turn(&mut rig), [5, 6]);
        assert!(rig.write("u", "active", "perhaps").is_err());
        assert_eq!(rig.read("u", "active"), "true");
    }

    #[test]
    fn a_new_graph_goes_on_as_it_was_unless_its_configuration_says_otherwise() {
        let fill = |active: &'static str| {
            move |builder: &mut scalebricks_graph::Builder<_>| {
                builder.declare("q", "Queue", &[]).declare("u", "Unqueue", &["LIMIT 7", "BURST 2", active]);
                builder.chain(&["in", "q", "u", "out0"]);
            }
        };
        let mut rig = Rig::new(1, fill("ACTIVE true"));
        rig.send((0..9).map(|n| [n]));
        let turns = |rig: &mut Rig| {
            (0..2).for_each(|_| {
                rig.turn();
            });
            (rig.heads(0), rig.number("u", "count"))
        };
        assert_eq!(turns(&mut rig), (vec![0, 1, 2, 3], 4));
        rig.write("u", "active", "false").unwrap();
        rig.replace(fill("ACTIVE true"));
        assert_eq!((turns(&mut rig), rig.read("u", "active")), ((vec![], 4), "false".into()));
        rig.replace(fill("ACTIVE false"));
        assert_eq!(turns(&mut rig), (vec![], 4));
        rig.replace(fill("ACTIVE true"));
        assert_eq!(turns(&mut rig), (vec![4, 5, 6], 7));
    }

    #[test]
    fn it_waits_while_what_is_behind_it_is_full() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("first", "Queue", &[]).declare("a", "Unqueue", &[]);
            builder.declare("second", "Queue", &["300", "true"]).declare("b", "Unqueue", &["ACTIVE false"]);
            builder.chain(&["in", "first", "a", "second", "b", "out0"]);
        });
        rig.send((0..200).map(|n| [n]));
        (0..10).for_each(|_| {
            rig.turn();
        });
        assert_eq!((rig.number("first", "length"), rig.number("second", "length")), (136, 64));
    }
}
