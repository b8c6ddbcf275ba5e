//! `Queue`.

use crate::shared_names::drops;
use crate::stored::Stored;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{
    Bursts, Class, Control, Element, Frame, HandlerId, Meta, Out, SLOTS, SlotList, Upstream, element,
};
use scalebricks_io::{Burst, PacketBuf};

element! {
    /// Stores packets first in, first out, until they are pulled. Metadata is stored too; columns are not.
    pub struct Queue<P> as "Queue" { stored: Stored<P>, capacity: usize, blocks: bool, high: usize, dropped: u64, }
    inputs {
        push "in": "Packets to store.",
        burst "bursts" [Optional]: "The same, passed by value. Those of a turn are stored before the others.",
    }
    outputs { pull "out": "The same, in order.", }
    fresh { "out", }
    params QueueParams {
        /// Most packets stored; packets that arrive at a full queue are dropped.
        capacity: usize = 1_000,
        /// Whether it raises back-pressure while it has room for fewer than 256 packets. A queue of more than 512 is
        /// then never full.
        blocking: bool = false,
    }
    example { "9", }
    drops { FULL = drops::QUEUE_FULL, }
    counters { LENGTH_COUNTER = "length_now": "Packets stored (a level).", }
    handlers {
        read LENGTH = "length": "Packets stored.",
        read HIGH = "highwater_length": "Most packets stored since the last reset.",
        read CAPACITY = "capacity": "Most packets that it stores.",
        read DROPS = "drops": "Packets dropped since the last reset.",
        write RESET_COUNTS = "reset_counts": "Sets `highwater_length` and `drops` to 0.",
        write SET_CAPACITY = "capacity": "Sets the capacity; packets already stored stay.",
    }
    hooks { Pressure, }
    keeps { stored, high, dropped, }
}

impl<P> Queue<P> {
    fn note(&self, out: &mut Out<'_>) {
        out.set(Self::LENGTH_COUNTER, self.stored.len() as u64);
        out.set_kept(self.stored.len());
        if self.blocks {
            out.set_pressure(self.stored.len() + SLOTS > self.capacity);
        }
    }
}

impl<P: PacketBuf> Class for Queue<P> {
    fn make(params: QueueParams) -> Result<Self, String> {
        let QueueParams { capacity, blocking } = params;
        if blocking && capacity <= SLOTS {
            return Err(format!("a queue that blocks needs a capacity over {SLOTS}, and has {capacity}"));
        }
        Ok(Self { stored: Stored::default(), capacity, blocks: blocking, high: 0, dropped: 0 })
    }
}

impl<P: PacketBuf + 'static> Control for Queue<P> {
    fn read(&self, handler: HandlerId) -> String {
        match handler {
            Self::LENGTH => self.stored.len().to_string(),
            Self::HIGH => self.high.to_string(),
            Self::CAPACITY => self.capacity.to_string(),
            _ => self.dropped.to_string(),
        }
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        if handler == Self::RESET_COUNTS {
            (self.high, self.dropped) = (0, 0);
            return Ok(());
        }
        let capacity =
            value.trim().parse().map_err(|_| HandlerError::Value(format!("no number: {value:?}")))?;
        if self.blocks && capacity <= SLOTS {
            return Err(HandlerError::Value(format!("a queue that blocks needs a capacity over {SLOTS}")));
        }
        self.capacity = capacity;
        Ok(())
    }
}

impl<P: PacketBuf + 'static> Element<P> for Queue<P> {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if batch.len() <= self.capacity.saturating_sub(self.stored.len()) {
            frame.take_waiting(batch, self.stored.slots());
        }
        for slot in batch.drain() {
            if self.stored.len() < self.capacity {
                let meta = *frame.meta(&slot);
                self.stored.slots().push_back((frame.take(slot), meta));
            } else {
                self.dropped += 1;
                out.drop(slot, Self::FULL);
            }
        }
        self.high = self.high.max(self.stored.len());
        self.note(out);
    }

    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        bursts.each(|chunk| {
            self.stored.add(&mut chunk.packets, self.capacity.saturating_sub(self.stored.len()));
            self.dropped += chunk.packets.len() as u64;
            chunk.packets.drain(..).for_each(|packet| out.drop_packet(packet, Self::FULL, frame));
        });
        self.high = self.high.max(self.stored.len());
        self.note(out);
    }

    fn held(&self) -> usize {
        self.stored.len()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.stored.drain(to);
    }

    fn is_dry(&self) -> bool {
        self.stored.len() == 0
    }

    fn pull_packets(
        &mut self,
        _: usize,
        want: usize,
        into: &mut Burst<P>,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        let came = self.stored.take(want, into);
        if came > 0 {
            self.note(out);
        }
        Some(came)
    }

    fn pull(
        &mut self,
        _: usize,
        want: usize,
        into: &mut SlotList,
        _: &mut Upstream<'_, P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        self.stored.put(want, into, frame);
        self.note(out);
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use crate::test_environment::TestEnvironment;
    use scalebricks_graph::{Builder, Clock};
    use scalebricks_io::{Packet, Pool};

    fn fill(queue: &'static [&str], unqueue: &'static [&str]) -> impl Fn(&mut Builder<Packet>) {
        move |builder| {
            builder
                .declare("q", "Queue", queue)
                .declare("u", "Unqueue", unqueue)
                .chain(&["in", "q", "u", "out0"]);
        }
    }

    #[test]
    fn packets_leave_as_they_came_and_the_newest_are_dropped() {
        let mut rig = Rig::new(1, fill(&["5"], &["BURST 2"]));
        rig.send((0..8).map(|n| [n]));
        rig.turn();
        assert_eq!(rig.heads(0), [0, 1]);
        let read = |rig: &mut Rig| {
            ["length", "highwater_length", "drops", "queue_full"].map(|name| rig.number("q", name))
        };
        assert_eq!(read(&mut rig), [3, 5, 3, 3]);
        assert_eq!(rig.number("q", "length_now"), 3);
        rig.write("q", "reset_counts", "").unwrap();
        rig.write("q", "capacity", "2").unwrap();
        rig.send([[9]]);
        (0..3).for_each(|_| {
            rig.turn();
        });
        assert_eq!(
            (rig.heads(0), read(&mut rig), rig.read("q", "capacity")),
            (vec![2, 3, 4], [0, 3, 1, 4], "2".into())
        );
        assert!(rig.write("q", "capacity", "-1").is_err());
    }

    #[test]
    fn packets_by_value_are_stored_before_the_others_of_a_turn() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("f", "FromDevice", &["eth0", "BURST 63"]).declare("q", "Queue", &["64"]);
            builder.declare("u", "Unqueue", &["BURST 100"]);
            builder.chain(&["in", "q", "u", "out0"]).connect("f", 0, "q", 1);
        });
        let mut outside = TestEnvironment::new(Clock::Wall);
        let (mut far, mut pool) = (outside.receives("eth0", 100), Pool::new(100, 100).unwrap());
        rig.open(&mut outside).unwrap();
        (0..75).for_each(|n| far.send(pool.packet(&[n]).unwrap()).unwrap());
        rig.send([[200], [201]]);
        rig.turn();
        let mut got = rig.heads(0);
        rig.turn();
        got.extend(rig.heads(0));
        rig.turn();
        got.extend(rig.heads(0));
        assert_eq!(got, (0..63).chain([200]).chain(63..75).collect::<Vec<u8>>());
        let read = ["packets", "drops", "queue_full", "highwater_length", "length_now"];
        assert_eq!(read.map(|name| rig.number("q", name)), [77, 1, 1, 64, 0]);
        rig.write("q", "capacity", "3").unwrap();
        (0..5).for_each(|n| far.send(pool.packet(&[n]).unwrap()).unwrap());
        rig.turn();
        rig.turn();
        assert_eq!((rig.heads(0), rig.number("q", "queue_full")), (vec![0, 1, 2], 3));
    }

    #[test]
    fn what_is_known_of_a_packet_stays() {
        let mut rig = Rig::new(1, fill(&[], &[]));
        rig.send_painted([(1, 7), (2, 9)]);
        rig.turn();
        assert_eq!(rig.paints(0), [7, 9]);
    }

    #[test]
    fn a_queue_that_blocks_drops_nothing() {
        let mut rig = Rig::new(1, fill(&["CAPACITY 520", "BLOCKING true"], &["BURST 1"]));
        rig.send((0..2_000u16).map(u16::to_be_bytes));
        (0..2_100).for_each(|_| {
            rig.turn();
        });
        let got: Vec<u16> = rig.got(0).iter().map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]])).collect();
        assert_eq!(got, (0..2_000).collect::<Vec<_>>());
        assert_eq!(rig.number("q", "queue_full"), 0);
        assert!(rig.number("q", "highwater_length") <= 520);
        assert!(rig.write("q", "capacity", "256").is_err());
        assert!(Rig::with_buffers(5, 1, fill(&["256", "true"], &[])).is_err());
    }

    #[test]
    fn packets_stay_in_a_new_graph_also_over_its_capacity() {
        let mut rig = Rig::new(1, fill(&["50"], &["BURST 5"]));
        rig.send((0..40).map(|n| [n]));
        rig.turn();
        rig.replace(fill(&["10"], &["BURST 5"]));
        rig.send([[99]]);
        (0..10).for_each(|_| {
            rig.turn();
        });
        assert_eq!((rig.heads(0), rig.number("q", "queue_full")), ((0..40).collect(), 1));
    }
}
