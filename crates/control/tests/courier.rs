//! Couriers of several nodes, over a network that loses, doubles and overtakes, while flows move, end and come again, and nodes are
//! taken for dead or start anew. One seed, one run.
//!
//! At the end all that was counted for a flow is where the flow is, or among what ended flows had: each packet once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_control::codec::Encoded;
use scalebricks_control::courier::{Count, Courier, Packet, Parcel, Place, ProcessId};
use scalebricks_types::{NodeId, Teid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(20);
const FLOWS: u32 = 40;
/// Counts wait so long at a node for a flow that is not there.
const STRAY: Duration = Duration::from_secs(2);
/// Bits are at all nodes by then.
const LAG: Duration = Duration::from_millis(300);

fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

/// A node: what its tables know and have counted.
struct Node {
    courier: Courier,
    /// By flow, what it has counted here and was given; also of flows that are not here.
    counts: BTreeMap<Teid, Count>,
    here: BTreeSet<Teid>,
    /// The node that its GPT names.
    named: BTreeMap<Teid, u8>,
    /// Flows that were not here when counts came, and when these go on.
    strays: Vec<(Duration, Teid)>,
    ended: BTreeMap<Teid, Count>,
}

impl Node {
    fn new(process: u64) -> Self {
        Self {
            courier: Courier::new(ProcessId(process)),
            counts: BTreeMap::new(),
            here: BTreeSet::new(),
            named: BTreeMap::new(),
            strays: Vec::new(),
            ended: BTreeMap::new(),
        }
    }

    fn add(&mut self, flow: Teid, count: Count, now: Duration) {
        if !self.here.contains(&flow) {
            self.strays.push((now + STRAY, flow));
        }
        *self.counts.entry(flow).or_default() += count;
    }

    fn depart(&mut self, flow: Teid) {
        if let Some(count) = self.counts.remove(&flow) {
            self.courier.post(flow, count);
        }
    }
}

/// Something that is under way.
type Way = Reverse<(Duration, u64)>;

/// What is to happen to a node's tables.
enum Change {
    Bits(usize, Teid),
    Leaves(usize, Teid),
    Packet(usize, usize, Vec<u8>),
}

struct World {
    rng: SmallRng,
    now: Duration,
    nodes: Vec<Node>,
    processes: u64,
    /// Where each flow is pinned; none: it was deleted.
    at: BTreeMap<Teid, Option<usize>>,
    /// The node that the bits name for a flow.
    bits: BTreeMap<Teid, u8>,
    alive: BTreeSet<usize>,
    order: BinaryHeap<Way>,
    changes: BTreeMap<u64, Change>,
    next: u64,
    counted: BTreeMap<Teid, u64>,
    /// What was with processes that ended, at most.
    crashed: u64,
    /// Counts that couriers reported as possibly lost.
    lost: u64,
    /// The last parcel from one node to another.
    parcels: BTreeMap<(usize, usize), Parcel>,
    loss: f64,
}

/// Distinguishable packets of a flow.
const PACKETS: u64 = 64;

/// The count of one packet: four bits of its own, so that a sum shows how often each packet is in it.
fn packet(number: u64) -> Count {
    let mut count = Count::default();
    count.0[number as usize / 16] = 1 << (4 * (number % 16));
    count
}

/// How often each packet is in counts.
fn each<'a>(counts: impl IntoIterator<Item = &'a Count>) -> Vec<u64> {
    let mut sum = Count::default();
    counts.into_iter().for_each(|count| sum += *count);
    (0..PACKETS).map(|number| sum.0[number as usize / 16] >> (4 * (number % 16)) & 15).collect()
}

/// How many packets are in counts.
fn sum<'a>(counts: impl IntoIterator<Item = &'a Count>) -> u64 {
    counts.into_iter().flat_map(|count| each([count])).sum()
}

impl World {
    fn new(seed: u64, nodes: usize) -> Self {
        let mut world = Self {
            rng: SmallRng::seed_from_u64(seed),
            now: Duration::ZERO,
            nodes: (0..nodes).map(|number| Node::new(number as u64 + 1)).collect(),
            processes: nodes as u64,
            at: (1..=FLOWS).map(|flow| (Teid::new(flow), None)).collect(),
            bits: BTreeMap::new(),
            alive: (0..nodes).collect(),
            order: BinaryHeap::new(),
            changes: BTreeMap::new(),
            next: 0,
            counted: BTreeMap::new(),
            crashed: 0,
            lost: 0,
            parcels: BTreeMap::new(),
            loss: 0.2,
        };
        world.tell_alive();
        world
    }

    fn later(&mut self, after: Duration, change: Change) {
        self.next += 1;
        self.changes.insert(self.next, change);
        self.order.push(Reverse((self.now + after, self.next)));
    }

    fn some_time(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.random())
    }

    fn tell_alive(&mut self) {
        for number in 0..self.nodes.len() {
            let others = self.alive.iter().filter(|other| **other != number);
            let others = others.map(|other| node(*other)).collect();
            self.nodes[number].courier.set_alive(others);
        }
    }

    /// Pins a flow elsewhere, or deletes it: first it is there, then the bits come to all, then it leaves.
    fn pin(&mut self, flow: Teid, to: Option<usize>) {
        let from = self.at.insert(flow, to).flatten();
        // Bits of a key that was deleted are arbitrary, and may name no node.
        let named = to.unwrap_or_else(|| self.rng.random_range(0..self.nodes.len() + 1)) as u8;
        self.bits.insert(flow, named);
        if let Some(to) = to {
            self.nodes[to].here.insert(flow);
        }
        for number in 0..self.nodes.len() {
            let after = self.some_time(LAG);
            self.later(after, Change::Bits(number, flow));
        }
        if let Some(from) = from.filter(|from| Some(*from) != to) {
            let after = LAG + self.some_time(LAG);
            self.later(after, Change::Leaves(from, flow));
        }
    }

    fn happen(&mut self) {
        while let Some(&Reverse((at, number))) = self.order.peek()
            && at <= self.now
        {
            self.order.pop();
            match self.changes.remove(&number).unwrap() {
                // The newest: what comes late is passed over.
                Change::Bits(node, flow) => {
                    self.nodes[node].named.insert(flow, self.bits[&flow]);
                }
                Change::Leaves(node, flow) => {
                    // It may have come back.
                    if self.at[&flow] != Some(node) {
                        self.nodes[node].here.remove(&flow);
                        self.nodes[node].depart(flow);
                    }
                }
                Change::Packet(from, to, bytes) => {
                    let courier = &mut self.nodes[to].courier;
                    let before = courier.stats().lost_flows;
                    let received = courier.receive(node(from), Packet::decode(&bytes).unwrap());
                    let lost = courier.stats().lost_flows - before;
                    if lost > 0 {
                        let counts = &self.parcels[&(to, from)].counts;
                        assert_eq!(lost, counts.len() as u64);
                        self.lost += sum(counts.iter().map(|(_, count)| count));
                    }
                    for (flow, count) in received.counts {
                        self.nodes[to].add(flow, count, self.now);
                    }
                    if let Some(reply) = received.reply {
                        self.send(to, from, &reply);
                    }
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, packet: &Packet) {
        let copies = if self.rng.random_bool(0.1) { 2 } else { 1 };
        for _ in 0..copies {
            if !self.rng.random_bool(self.loss) {
                let after = self.some_time(Duration::from_millis(if self.loss > 0.0 { 700 } else { 5 }));
                self.later(after, Change::Packet(from, to, packet.encode()));
            }
        }
    }

    fn turn(&mut self, number: usize) {
        let (now, me) = (self.now, &mut self.nodes[number]);
        let (go, stay) = std::mem::take(&mut me.strays).into_iter().partition(|(until, _)| *until <= now);
        me.strays = stay;
        for (_, flow) in go {
            if !me.here.contains(&flow) {
                me.depart(flow);
            }
        }
        let (here, named) = (&me.here, &me.named);
        let work = me.courier.poll(now, |flow| match named.get(&flow) {
            _ if here.contains(&flow) => Place::Here,
            None => Place::Unknown,
            Some(named) if usize::from(*named) == number => Place::Nowhere,
            Some(named) => Place::At(NodeId::new(*named)),
        });
        for (flow, count) in work.back {
            me.add(flow, count, now);
        }
        for (flow, count) in work.ended {
            *me.ended.entry(flow).or_default() += count;
        }
        for (to, packet) in work.packets {
            if let Packet::Parcel(parcel) = &packet {
                self.parcels.insert((number, to.index()), parcel.clone());
            }
            self.send(number, to.index(), &packet);
        }
    }

    /// Packets of flows that are there, at nodes that have them.
    fn traffic(&mut self) {
        for flow in self.at.keys().copied().collect::<Vec<_>>() {
            let at: Vec<usize> =
                (0..self.nodes.len()).filter(|number| self.nodes[*number].here.contains(&flow)).collect();
            for number in at {
                let counted = self.counted.entry(flow).or_default();
                if *counted < PACKETS && self.rng.random_bool(0.05) {
                    *counted += 1;
                    self.nodes[number].add(flow, packet(*counted - 1), self.now);
                }
            }
        }
    }

    fn step(&mut self) {
        self.now += TICK;
        self.happen();
        for number in 0..self.nodes.len() {
            self.turn(number);
        }
    }

    /// Some time in which flows move, are deleted, and come again.
    fn live(&mut self, time: Duration, moves_only: bool) {
        let until = self.now + time;
        while self.now < until {
            self.traffic();
            for _ in 0..2 {
                let flow = Teid::new(self.rng.random_range(1..=FLOWS));
                let to = self.rng.random_range(0..self.nodes.len());
                let ends = !moves_only && self.rng.random_bool(0.2);
                self.pin(flow, (!ends).then_some(to));
            }
            if self.rng.random_bool(0.02) {
                let number = self.rng.random_range(0..self.nodes.len());
                if !self.alive.remove(&number) {
                    self.alive.insert(number);
                }
                self.tell_alive();
            }
            self.step();
        }
    }

    /// Nothing happens any more, and in the end nothing is lost on the way: all comes to rest.
    fn settle(&mut self) {
        self.alive = (0..self.nodes.len()).collect();
        self.tell_alive();
        for calm in [false, true] {
            if calm {
                self.loss = 0.0;
            }
            let until = self.now + Duration::from_secs(50);
            while self.now < until {
                self.step();
            }
        }
        self.check_once();
        for (number, node) in self.nodes.iter().enumerate() {
            assert_eq!(node.courier.flows(), (0, 0), "node {number}");
            assert!(node.strays.is_empty(), "node {number}");
        }
    }

    fn ended(&self, flow: Teid) -> u64 {
        sum(self.nodes.iter().filter_map(|node| node.ended.get(&flow)))
    }

    fn live_counts(&self, flow: Teid) -> u64 {
        sum(self.nodes.iter().filter_map(|node| node.counts.get(&flow)))
    }

    /// No packet is counted twice.
    fn check_once(&self) {
        for flow in self.at.keys() {
            let all = self.nodes.iter().flat_map(|node| [node.counts.get(flow), node.ended.get(flow)]);
            let each = each(all.flatten());
            assert!(each.iter().all(|times| *times <= 1), "{flow:?}: {each:?}");
        }
    }

    /// A node's process ends, and another starts in its place.
    fn crash(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let courier = &mut node.courier;
        let mut had = sum(node.counts.values()) + sum(node.ended.values());
        // What is under way is sent again, and what waits would come back.
        courier.set_alive((0..=u8::MAX).map(NodeId::new).collect());
        let mut work = courier.poll(self.now + Duration::from_secs(1), |_| Place::Here);
        courier.set_alive(BTreeSet::new());
        work.back.extend(courier.poll(self.now + Duration::from_secs(2), |_| Place::Here).back);
        had += sum(work.back.iter().map(|(_, count)| count));
        for (_, packet) in work.packets {
            if let Packet::Parcel(parcel) = packet {
                had += sum(parcel.counts.iter().map(|(_, count)| count));
            }
        }
        self.crashed += had;
        self.processes += 1;
        let named = std::mem::take(&mut node.named);
        *node = Node { named, ..Node::new(self.processes) };
        for (flow, at) in self.at.clone() {
            if at == Some(number) {
                // With others from now on: with the next one.
                let to = (number + 1) % self.nodes.len();
                self.pin(flow, Some(to));
            }
        }
        self.tell_alive();
    }
}

/// Runs `SIM_SEEDS` seeds, or as few as a test has time for. The seed of a failure is printed.
fn seeds(first: u64, few: u64, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let seeds = std::env::var("SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(few);
    for seed in first..first + seeds {
        assert!(std::panic::catch_unwind(|| run(seed)).is_ok(), "seed {seed}");
    }
}

#[test]
fn flows_that_move_take_all_their_counts_along() {
    seeds(0, 50, |seed| {
        let mut world = World::new(seed, 2 + seed as usize % 5);
        for flow in world.at.keys().copied().collect::<Vec<_>>() {
            world.pin(flow, Some(0));
        }
        world.live(Duration::from_secs(30), true);
        world.settle();
        assert!(world.counted.values().sum::<u64>() > u64::from(FLOWS) * PACKETS / 2);
        for (flow, at) in &world.at {
            let at = at.unwrap();
            assert_eq!(sum(world.nodes[at].counts.get(flow)), world.counted[flow], "{flow:?}");
            assert_eq!((world.live_counts(*flow), world.ended(*flow)), (world.counted[flow], 0), "{flow:?}");
        }
        let resent: u64 = world.nodes.iter().map(|node| node.courier.stats().resent).sum();
        let doubled: u64 = world.nodes.iter().map(|node| node.courier.stats().duplicates).sum();
        assert!(resent > 10 && doubled > 10, "a network that is too good: {resent}, {doubled}");
    });
}

#[test]
fn flows_that_end_leave_all_their_counts_behind() {
    seeds(10_000, 50, |seed| {
        let mut world = World::new(seed, 2 + seed as usize % 5);
        world.live(Duration::from_secs(30), false);
        for flow in world.at.keys().copied().filter(|flow| flow.get() % 2 == 0).collect::<Vec<_>>() {
            world.pin(flow, None);
        }
        world.settle();
        for (flow, at) in &world.at {
            let counted = world.counted.get(flow).copied().unwrap_or(0);
            assert_eq!(world.live_counts(*flow) + world.ended(*flow), counted, "{flow:?}");
            if at.is_none() {
                assert_eq!((world.live_counts(*flow), world.ended(*flow)), (0, counted), "{flow:?}");
            }
        }
        assert!(world.nodes.iter().any(|node| !node.ended.is_empty()));
    });
}

#[test]
fn when_processes_end_nothing_is_counted_twice_and_losses_are_reported() {
    seeds(20_000, 50, |seed| {
        let mut world = World::new(seed, 3 + seed as usize % 4);
        for flow in world.at.keys().copied().collect::<Vec<_>>() {
            world.pin(flow, Some(1));
        }
        // Many receipts are lost: what was delivered and passed on is still under way for its sender.
        world.loss = 0.6;
        for _ in 0..20 {
            world.live(Duration::from_secs(1), true);
            let number = world.rng.random_range(0..world.nodes.len());
            world.crash(number);
        }
        world.live(Duration::from_secs(3), true);
        world.settle();
        let (mut there, mut counted) = (0, 0);
        for flow in world.at.keys() {
            there += world.live_counts(*flow) + world.ended(*flow);
            counted += world.counted[flow];
        }
        let (crashed, lost) = (world.crashed, world.lost);
        assert!(counted <= there + crashed + lost, "{counted}, {there}, {crashed}, {lost}");
        assert!(there < counted, "no process crashed");
    });
}
