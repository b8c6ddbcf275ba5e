//! A worker with a source and a sink.

use crate::elements::{Feed, Sink, Tray, packet, registry, sequence};
use scalebricks_graph::{Builder, CounterSnapshot, Ledger, Trace, Worker};
use scalebricks_io::{Packet, Pool};
use std::time::Duration;

pub struct Rig<T = ()> {
    pub worker: Worker<Packet, T>,
    pub feed: Tray,
    pub sink: Tray,
    pub ledger: Ledger,
    pub now: Duration,
}

impl<T: Trace<Packet>> Rig<T> {
    pub fn traced(trace: T, burst: usize, fill: impl FnOnce(&mut Builder<Packet>)) -> Self {
        let (feed, sink, mut ledger) = (Tray::default(), Tray::default(), Ledger::new());
        let pool = Pool::new(1_000, 200).unwrap();
        let mut builder = Builder::new();
        builder.add("feed", Feed { tray: feed.clone(), pool: pool.clone(), burst });
        builder.add("sink", Sink { tray: sink.clone() });
        fill(&mut builder);
        let graph = builder.build(&registry(), &mut ledger).unwrap();
        Self { worker: Worker::new(graph, Box::new(pool), trace), feed, sink, ledger, now: Duration::ZERO }
    }

    pub fn feed(&self, packets: impl IntoIterator<Item = Vec<u8>>) {
        self.feed.lock().unwrap().extend(packets);
    }

    pub fn turn(&mut self) -> usize {
        self.now += Duration::from_millis(1);
        self.worker.turn(self.now)
    }

    pub fn sunk(&self) -> Vec<u32> {
        self.sink.lock().unwrap().drain(..).map(|packet| sequence(&packet)).collect()
    }

    pub fn count(&self, element: &str, counter: &str) -> u64 {
        let all = self.ledger.snapshot();
        let counted: &CounterSnapshot = all.iter().find(|counted| &*counted.element == element).unwrap();
        counted.get(counter).unwrap()
    }
}

pub fn rig(burst: usize, fill: impl FnOnce(&mut Builder<Packet>)) -> Rig {
    Rig::traced((), burst, fill)
}

/// Packets of one flow.
pub fn packets(range: std::ops::Range<u16>) -> impl Iterator<Item = Vec<u8>> {
    range.map(|at| packet(1, 0, at))
}
