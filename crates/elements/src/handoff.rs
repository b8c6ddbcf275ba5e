//! Edges between workers: a ring with an element at each end.
//!
//! An edge between the graphs of two workers is a ring with one producer and one consumer, and nothing else. The ring
//! is from the `rtrb` crate, as in `scalebricks_io::memory_port_pair`. A configuration runs on one worker, so these
//! elements are not in the registry: programs that build several graphs make pairs and add them.

use rtrb::RingBuffer;
use rtrb::chunks::ChunkError;
pub use rtrb::{Consumer, Producer, PushError};
use scalebricks_graph::{Control, Element, Frame, Meta, Out, SlotList, Upstream, element};
use scalebricks_io::PacketBuf;

/// A packet in transit with its metadata.
type Parcel<P> = (P, Meta);

element! {
    /// Hands packets to the worker at the other end of a ring, with their metadata but without columns. Packets that do
    /// not fit the ring are dropped: a worker never waits for another. In a new configuration it keeps the ring, whose
    /// other end belongs to the other worker.
    pub struct ToWorker<P> as "ToWorker" { ring: Option<Producer<Parcel<P>>>, batch: Vec<Parcel<P>>, }
    inputs { push "in": "Packets for the other worker.", }
    drops {
        FULL = "handoff_full": "The ring is full because the other worker is too slow.",
        LOOP = "handoff_loop": "The packet has passed between workers too often.",
    }
    counters { HANDED = "handed": "Packets handed over.", }
    keeps { ring, }
}

element! {
    /// Receives packets from the worker at the other end of a ring, in order.
    pub struct FromWorker<P> as "FromWorker" { ring: Option<Consumer<Parcel<P>>>, }
    outputs { push "out": "Packets from the other worker.", }
    fresh { "out", }
    counters { WAITING = "waiting_now": "Packets left in the ring after the turn's share was taken (a level).", }
    hooks { Begin, }
    keeps { ring, }
}

/// Both ends of a ring for threads that run no graph. It has one producer and one consumer.
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    RingBuffer::new(capacity)
}

/// Both ends of an edge from one worker to another, which holds up to `capacity` packets. Two workers that hand packets
/// to each other need two edges.
pub fn handoff<P>(capacity: usize) -> (ToWorker<P>, FromWorker<P>) {
    let (producer, consumer) = ring(capacity);
    (ToWorker { ring: Some(producer), batch: Vec::new() }, FromWorker { ring: Some(consumer) })
}

impl<P: PacketBuf + 'static> Control for ToWorker<P> {}

impl<P: PacketBuf + 'static> Control for FromWorker<P> {}

impl<P: PacketBuf + 'static> Element<P> for ToWorker<P> {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(ring) = &mut self.ring else { return out.drop_all(batch, Self::FULL) };
        let mut room = ring.slots();
        for slot in batch.drain() {
            let mut meta = *frame.meta(&slot);
            if !meta.hop() {
                out.drop(slot, Self::LOOP);
            } else if room == 0 {
                out.drop(slot, Self::FULL);
            } else {
                room -= 1;
                self.batch.push((frame.take(slot), meta));
            }
        }
        out.count(Self::HANDED, self.batch.len() as u64);
        match ring.write_chunk_uninit(self.batch.len()) {
            Ok(chunk) => drop(chunk.fill_from_iter(self.batch.drain(..))),
            Err(ChunkError::TooFewSlots(_)) => unreachable!("room never shrinks under its only producer"),
        }
    }
}

impl<P: PacketBuf + 'static> Element<P> for FromWorker<P> {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(ring) = &mut self.ring else { return };
        if out.is_blocked() {
            return;
        }
        for _ in 0..out.intake(frame.used()).min(ring.slots()) {
            let Ok((packet, meta)) = ring.pop() else { break };
            let Ok(slot) = frame.put(packet) else { unreachable!("a frame has room for its intake") };
            *frame.meta_mut(&slot) = meta;
            out.push(0, slot);
        }
        out.set(Self::WAITING, ring.slots() as u64);
    }

    fn held(&self) -> usize {
        self.ring.as_ref().map_or(0, Consumer::slots)
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        while let Some((packet, meta)) = self.ring.as_mut().and_then(|ring| ring.pop().ok()) {
            to(packet, meta);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_graph::{Builder, HOP_LIMIT, Ledger, Worker};
    use scalebricks_io::{Packet, Pool};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn worker(ledger: &mut Ledger, fill: impl FnOnce(&mut Builder<Packet>)) -> Worker<Packet> {
        let mut builder = Builder::new();
        fill(&mut builder);
        let graph = builder.build(&crate::registry(), ledger).unwrap();
        Worker::new(graph, Box::new(Pool::new(2_000, 100).unwrap()), ())
    }

    fn number(worker: &mut Worker<Packet>, element: &str, handler: &str) -> u64 {
        worker.graph_mut().read(element, handler).unwrap().parse().unwrap()
    }

    #[test]
    fn what_the_ring_has_no_room_for_is_dropped_and_counted() {
        let (to, from) = handoff(100);
        let mut ledger = Ledger::new();
        let mut first = worker(&mut ledger, |builder| {
            builder.declare("s", "InfiniteSource", &["LIMIT 300", "BURST 64"]).declare("p", "Paint", &["7"]);
            builder.add("to", to).chain(&["s", "p", "to"]);
        });
        let mut second = worker(&mut ledger, |builder| {
            builder.add("from", from).declare("c", "CheckPaint", &["7"]).declare("d", "Discard", &[]);
            builder.chain(&["from", "c", "d"]);
        });
        for turn in 1..=5 {
            first.turn(Duration::from_millis(turn));
        }
        assert_eq!(
            (number(&mut first, "to", "handed"), number(&mut first, "to", "handoff_full")),
            (100, 200)
        );
        assert_eq!(second.graph().held(), 100);
        for turn in 1..=5 {
            second.turn(Duration::from_millis(turn));
        }
        assert_eq!(
            (number(&mut second, "d", "discarded"), second.graph().held()),
            (100, 0),
            "with their paint"
        );
    }

    #[test]
    fn a_packet_that_goes_round_between_workers_is_dropped() {
        let ((to_second, from_first), (to_first, from_second)) = (handoff(10), handoff(10));
        let mut ledger = Ledger::new();
        let mut first = worker(&mut ledger, |builder| {
            builder
                .declare("s", "InfiniteSource", &["LIMIT 1"])
                .add("to", to_second)
                .add("from", from_second);
            builder.declare("n", "Null", &[]).chain(&["s", "n", "to"]).chain(&["from", "n"]);
        });
        let mut second = worker(&mut ledger, |builder| {
            builder.add("to2", to_first).add("from2", from_first).chain(&["from2", "to2"]);
        });
        for turn in 1..=200 {
            first.turn(Duration::from_millis(turn));
            second.turn(Duration::from_millis(turn));
        }
        let dropped = number(&mut first, "to", "handoff_loop") + number(&mut second, "to2", "handoff_loop");
        let handed = number(&mut first, "to", "handed") + number(&mut second, "to2", "handed");
        assert_eq!((dropped, handed), (1, u64::from(HOP_LIMIT) - 1));
    }

    /// Both workers on threads of their own, and the second gets new graphs meanwhile.
    #[test]
    fn no_packet_is_lost_while_graphs_are_replaced() {
        const PACKETS: u64 = 20_000;
        let (to, from) = handoff(64);
        let (mut ledger, mut other) = (Ledger::new(), Ledger::new());
        let limit = format!("LIMIT {PACKETS}");
        let mut first = worker(&mut ledger, |builder| {
            builder
                .declare("s", "InfiniteSource", &["x", &limit, "BURST 16"])
                .add("to", to)
                .chain(&["s", "to"]);
        });
        let rest = |builder: &mut Builder<Packet>| {
            builder.declare("d", "Discard", &[]).chain(&["from", "d"]);
        };
        let second = worker(&mut other, |builder| {
            builder.add("from", from);
            rest(builder);
        });
        let remote = second.remote();
        let stop = Arc::new(AtomicBool::new(false));
        let run = |mut worker: Worker<Packet>| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                worker.run(&stop);
                worker
            })
        };
        let second = run(second);
        let sender = std::thread::spawn(move || {
            for turn in 1.. {
                first.turn(Duration::from_micros(turn));
                let [handed, full] = ["handed", "handoff_full"].map(|name| number(&mut first, "to", name));
                if handed + full == PACKETS {
                    return handed;
                }
                std::thread::yield_now();
            }
            unreachable!()
        });
        for _ in 0..50 {
            let mut builder = Builder::new();
            builder.add("from", handoff(1).1);
            rest(&mut builder);
            let graph = builder.build(&crate::registry(), &mut other).unwrap();
            remote.replace(Box::new(graph)).unwrap().recv().unwrap();
        }
        let handed = sender.join().unwrap();
        while remote.ask(|graph| graph.held()).unwrap().recv().unwrap() > 0 {}
        stop.store(true, Ordering::Relaxed);
        let mut second = second.join().unwrap();
        assert_eq!(number(&mut second, "d", "discarded"), handed);
        assert_eq!(number(&mut second, "from", "graph_replaced"), 0);
    }
}
