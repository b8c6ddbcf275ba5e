//! `InfiniteSource`.

use crate::gate::{Gate, gated};
use crate::shared_names::counters;
use crate::values::Data;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Control, Element, Frame, HandlerId, Out, Supply, Upstream};
use scalebricks_io::{BURST, PacketBuf};
use std::any::Any;

/// Default contents of packets.
pub(crate) const DATA: &str = "A packet that a source made of its default, 64 bytes as it is...";

/// Makes up to `want` packets of `data` and sends them; returns their number.
pub(crate) fn make<P: PacketBuf>(
    data: &[u8],
    want: usize,
    frame: &mut Frame<P>,
    out: &mut Out<'_>,
) -> Result<u64, u64> {
    for made in 0..want {
        let slot = frame
            .alloc()
            .and_then(|mut packet| packet.append(data).ok().and_then(|()| frame.put(packet).ok()));
        let Some(slot) = slot else { return Err(made as u64) };
        out.push(0, slot);
    }
    Ok(want as u64)
}

gated! {
    /// Makes packets as fast as the graph takes them. It pauses while an element downstream raises back-pressure.
    pub struct InfiniteSource as "InfiniteSource" {
        data: Vec<u8>, burst: usize, stop: bool,
    }
    outputs { push "out": "Packets.", }
    params InfiniteSourceParams {
        /// The contents of each packet.
        data: Data = Data(DATA.into()),
        /// Total number of packets; unlimited if negative.
        limit: i64 = -1,
        /// Most packets per turn. Click's default is 1.
        burst: usize = BURST,
        /// Whether it is active from the start.
        active: bool = true,
        /// Whether the run may end when the limit is reached. Click's default is `false`.
        stop: bool = false,
    }
    example { "LIMIT 9", }
    counters {
        MADE = counters::MADE [Made],
        NO_BUFFER = counters::NO_BUFFER_FOR_DATA,
    }
    handlers { reset "reset", }
    makes |InfiniteSourceParams { data: Data(data), limit, burst, active, stop }| Self {
        gate: Gate::new(active, limit), data, burst, stop,
    },
}

impl Control for InfiniteSource {
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

impl<P: PacketBuf> Element<P> for InfiniteSource {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if out.is_blocked() {
            return;
        }
        let want = self.burst.min(self.gate.left()).min(out.intake(frame.used()));
        let made = make(&self.data, want, frame, out);
        out.count(Self::NO_BUFFER, u64::from(made.is_err()));
        let (Ok(made) | Err(made)) = made;
        out.count(Self::MADE, made);
        self.gate.pass(made);
    }

    fn supply(&self) -> Option<Supply> {
        self.gate.supply(self.stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;
    use std::time::Duration;

    fn fill(args: &'static [&str]) -> impl Fn(&mut Builder<Packet>) {
        move |builder| {
            builder
                .declare("s", "InfiniteSource", args)
                .declare("idle", "Idle", &[])
                .chain(&["s", "out0"])
                .chain(&["in", "idle"]);
        }
    }

    #[test]
    fn it_makes_bursts_up_to_its_limit_and_goes_on_counting_in_a_new_graph() {
        let args = &[r#""a\<00>b""#, "LIMIT 7", "BURST 3"];
        let mut rig = Rig::new(1, fill(args));
        rig.turn();
        assert_eq!(rig.got(0), [b"a\0b"; 3]);
        rig.replace(fill(args));
        rig.turn();
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("s", "count"), rig.number("s", "made")), (4, 7, 7));
        assert_eq!(rig.turn(), 0);
        rig.write("s", "reset", "").unwrap();
        rig.write("s", "active", "false").unwrap();
        rig.turn();
        assert_eq!(rig.got(0).len(), 0);
        rig.write("s", "active", "1").unwrap();
        rig.turn();
        assert_eq!(rig.got(0).len(), 3);
    }

    #[test]
    fn a_run_may_end_with_its_limit_if_it_says_so() {
        let mut rig = Rig::new(1, fill(&["LIMIT 40", "STOP true"]));
        assert_eq!(rig.worker.graph().supply(), Some(Supply::At(Duration::ZERO)));
        (0..2).for_each(|_| {
            rig.turn();
        });
        assert_eq!((rig.got(0).len(), rig.worker.graph().supply()), (40, Some(Supply::Ended)));
        assert_eq!(Rig::new(1, fill(&["LIMIT 40"])).worker.graph().supply(), None);
    }

    #[test]
    fn it_shares_the_frame_and_reports_an_empty_pool() {
        assert_eq!(DATA.len(), 64);
        let mut rig = Rig::with_buffers(20, 1, fill(&["BURST 1000"])).unwrap();
        rig.turn();
        assert_eq!(rig.got(0), vec![DATA.as_bytes().to_vec(); 20]);
        assert_eq!((rig.number("s", "made"), rig.number("s", "no_buffer")), (20, 1));
    }
}
