//! Flows move between two nodes, and are added and removed, while workers count: each packet is counted exactly once.

use super::*;
use scalebricks_graph::Mark;
use std::collections::HashMap;
use std::thread;

const FLOWS: u32 = 48;
const WORKERS: usize = 2;

/// Fewest moves, and departures with counts: on a busy machine workers end few turns.
const STEPS: usize = 20_000;
const DEPARTURES: usize = 3_000;

/// The flow of a downstream key, and its two keys.
fn keys(flow: u32) -> [FlowKey; 2] {
    [short_key(flow), FlowKey::teid(Teid::new(flow))]
}

/// A worker of both nodes: looks up a batch at one of them, counts for the flows found, and keeps a separate record.
fn count(nodes: &mut [(NodeTables, Mark); 2], random: &mut Random, stop: &AtomicBool) -> Vec<FlowCount> {
    let mut counted = vec![FlowCount::default(); FLOWS as usize];
    while !stop.load(Ordering::Relaxed) {
        let (tables, mark) = &mut nodes[random.below(2)];
        mark.pass();
        let batch: Vec<(u32, bool)> =
            (0..16).map(|_| (random.below(FLOWS as usize) as u32, random.below(2) == 1)).collect();
        let (keys, hashes): (Vec<_>, Vec<_>) = batch
            .iter()
            .map(|&(flow, upstream)| keys(flow)[usize::from(upstream)])
            .map(|key| (key, hasher().hash(&key)))
            .unzip();
        let mut values = vec![None; batch.len()];
        tables.fib.lookup_batch(KeyBatch::new(&keys, &hashes), &mut values);
        if random.below(8) == 0 {
            thread::yield_now(); // long enough for much to happen between lookup and count
        }
        for (&(flow, upstream), value) in batch.iter().zip(values) {
            let Some(value) = value else { continue };
            let bytes = random.below(1_500);
            tables.counters.count(FlowState::decode(value).index, upstream, bytes);
            let (packets, bytes) = (1, bytes as u64);
            counted[flow as usize] += if upstream {
                FlowCount { upstream_packets: packets, upstream_bytes: bytes, ..FlowCount::default() }
            } else {
                FlowCount { downstream_packets: packets, downstream_bytes: bytes, ..FlowCount::default() }
            };
        }
        if random.below(64) == 0 {
            mark.leave();
        }
    }
    counted
}

/// Xorshift: random enough for this test.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// The part of both nodes' daemons.
struct Nodes {
    tables: [FlowTables; 2],
    /// The node of each flow.
    at: HashMap<u32, usize>,
    /// Counts of flows that were at no node when their counts were handed out.
    reported: HashMap<u32, FlowCount>,
    departures: usize,
    now: Duration,
}

impl Nodes {
    fn set(&mut self, node: usize, flow: u32) {
        for key in keys(flow) {
            self.tables[node].set_logged(&key, state(flow, flow).encode()).unwrap();
        }
        self.at.insert(flow, node);
    }

    fn remove(&mut self, node: usize, flow: u32) {
        for key in keys(flow) {
            self.tables[node].remove(&key);
        }
    }

    fn step(&mut self, random: &mut Random) {
        let flow = random.below(FLOWS as usize) as u32;
        match self.at.get(&flow).copied() {
            Some(node) if random.below(8) == 0 => {
                self.remove(node, flow);
                self.at.remove(&flow);
            }
            Some(node) => {
                self.set(1 - node, flow); // make before break
                self.remove(node, flow);
            }
            None => self.set(random.below(2), flow),
        }
    }

    fn exchange(&mut self) {
        self.now += STRAY_PATIENCE / 8;
        for node in 0..2 {
            self.tables[node].expire(self.now);
            for (uplink, count) in self.tables[node].take_departed() {
                self.departures += 1;
                match self.at.get(&uplink.get()) {
                    Some(&at) => self.tables[at].carry_over(uplink, count),
                    None => *self.reported.entry(uplink.get()).or_default() += count,
                }
            }
        }
    }
}

#[test]
fn every_packet_is_counted_once_while_flows_move() {
    let tables = [0, 1].map(|id| tables(id, WORKERS, 10));
    let (at, reported) = Default::default();
    let mut nodes = Nodes { tables, at, reported, departures: 0, now: Duration::ZERO };
    let stop = AtomicBool::new(false);
    let random = &mut Random(0x9E37_79B9_7F4A_7C15);
    let counted: Vec<Vec<FlowCount>> = thread::scope(|scope| {
        let stopping = Stop(&stop);
        let threads: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let mut ends = [0, 1].map(|node| {
                    let tables = &mut nodes.tables[node];
                    (tables.node_tables(worker), tables.mark(worker).unwrap())
                });
                let stop = &stop;
                scope.spawn(move || count(&mut ends, &mut Random(worker as u64 + 1), stop))
            })
            .collect();
        for at in 0.. {
            if at >= STEPS && nodes.departures >= DEPARTURES {
                break;
            }
            nodes.step(random);
            if at % 8 == 0 {
                nodes.exchange();
            }
            if at % 32 == 0 {
                thread::yield_now();
            }
        }
        drop(stopping);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for _ in 0..32 {
        nodes.exchange();
    }
    for flow in 0..FLOWS {
        let want: FlowCount = counted.iter().map(|counted| counted[flow as usize]).sum();
        let here = nodes.tables.iter().filter_map(|tables| tables.count(Teid::new(flow)));
        let got: FlowCount = here.chain(nodes.reported.get(&flow).copied()).sum();
        assert_eq!(got, want, "flow {flow}");
        assert!(want.downstream_packets > 0 && want.upstream_packets > 0);
        let known = nodes.tables.iter().filter(|tables| tables.count(Teid::new(flow)).is_some()).count();
        assert_eq!(known, usize::from(nodes.at.contains_key(&flow)), "all counts are where the flow is");
    }
    for tables in &nodes.tables {
        let (places, _) = tables.flows.places();
        assert!(places <= 2 * FLOWS as usize, "{places} places: they are used again");
    }
}
