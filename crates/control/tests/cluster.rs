//! Whole clusters: every node with its membership, its share of the partitions and its tables, over a network that loses,
//! doubles and overtakes, with nodes that pause, crash, are cut off, join and leave. One seed, one run.
//!
//! At every moment, for every living ingress node that has caught up and every key that its GPT was told of: the node that its
//! GPT names has the key, or sends the packet on, once, to a node that has it. Not judged are packets to nodes that are down, or
//! that were and have not caught up.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod common;

use common::{HASHER, Memory, node};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use scalebricks_control::agent::{Action, Agent, Packet};
use scalebricks_control::engine::{Batch, BatchId, Entry, Revision, Snapshot, WriterId};
use scalebricks_control::membership::View;
use scalebricks_control::partition::Partition;
use scalebricks_control::record::{Change, Repin, Session, encode};
use scalebricks_tables::FibValue;
use scalebricks_tables::setsep::Params;
use scalebricks_types::{FlowKey, NodeId, PartitionCount, PartitionId, Position, Teid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(10);
const GRACE: Duration = Duration::from_millis(20);
const PARTITIONS: u32 = 4;
const KEYS: u32 = 80;

fn partitions() -> PartitionCount {
    PartitionCount::new(PARTITIONS).unwrap()
}

fn params() -> Params {
    Params::for_keys(8_000, 6, partitions()).unwrap()
}

fn all_partitions() -> impl Iterator<Item = PartitionId> {
    (0..PARTITIONS).map(|at| PartitionId(at as u16))
}

/// A process.
struct Process {
    agent: Agent<Memory>,
    /// The logs it reads.
    follows: BTreeSet<PartitionId>,
    paused_until: Option<Duration>,
    cut_until: Option<Duration>,
    /// What it has to append, and when it gets to it.
    repins: Vec<(Duration, PartitionId, Repin)>,
}

/// What a log's prefix says.
struct Log {
    entries: Vec<Entry>,
    truth: Partition,
    /// What each key led to behind each entry.
    history: Vec<BTreeMap<u64, (FlowKey, Session)>>,
    /// Since which entry each living key has been there without a break.
    since: HashMap<u64, usize>,
    snapshot: Option<Snapshot>,
}

struct World {
    rng: SmallRng,
    now: Duration,
    logs: Vec<Log>,
    record: Option<(Revision, View)>,
    /// By number; `None`: not running.
    nodes: Vec<Option<Process>>,
    net: BinaryHeap<Reverse<(Duration, u64)>>,
    packets: HashMap<u64, (usize, usize, Sent)>,
    sent: u64,
    batches: u64,
    is_calm: bool,
    judged: u64,
    sent_on: u64,
}

enum Sent {
    Beat(u64),
    Packet(Vec<u8>),
}

impl World {
    fn new(seed: u64, nodes: usize) -> Self {
        let log = |id| Log {
            entries: Vec::new(),
            truth: Partition::new(id, params(), HASHER),
            history: vec![BTreeMap::new()],
            since: HashMap::new(),
            snapshot: None,
        };
        let mut world = Self {
            rng: SmallRng::seed_from_u64(seed),
            now: Duration::from_secs(1),
            logs: all_partitions().map(log).collect(),
            record: None,
            nodes: Vec::new(),
            net: BinaryHeap::new(),
            packets: HashMap::new(),
            sent: 0,
            batches: 0,
            is_calm: false,
            judged: 0,
            sent_on: 0,
        };
        (0..nodes).for_each(|number| world.start(number));
        world
    }

    /// A process starts, with nothing in memory.
    fn start(&mut self, number: usize) {
        let (revision, view) = match &self.record {
            Some((revision, view)) => (Some(*revision), view.clone()),
            None => (None, View::empty(partitions())),
        };
        let tables = Memory::new(params());
        let agent = Agent::new(node(number), tables, partitions(), view, revision, GRACE, self.now);
        let process = Process {
            agent,
            follows: BTreeSet::new(),
            paused_until: None,
            cut_until: None,
            repins: Vec::new(),
        };
        if self.nodes.len() <= number {
            self.nodes.resize_with(number + 1, || None);
        }
        self.nodes[number] = Some(process);
    }

    /// Whether it runs, and others hear it.
    fn is_up(&self, number: usize) -> bool {
        let process = self.nodes.get(number).and_then(Option::as_ref);
        process.is_some_and(|process| process.paused_until.is_none() && process.cut_until.is_none())
    }

    /// Whether all hold it for alive, and it has caught up.
    fn is_member(&self, number: usize) -> bool {
        let Some((_, view)) = &self.record else { return false };
        self.is_up(number)
            && self.nodes[number].as_ref().is_some_and(|process| {
                let alive = |life| {
                    view.member(node(number)).is_some_and(|member| member.is_alive && member.life == life)
                };
                alive(process.agent.membership().life()) && process.agent.has_caught_up()
            })
    }

    fn members(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&number| self.is_member(number)).collect()
    }

    fn append(&mut self, partition: PartitionId, changes: &[Change]) {
        self.batches += 1;
        let id = BatchId { writer: WriterId(1), number: self.batches };
        let log = &mut self.logs[usize::from(partition.0)];
        // Now and then a retry makes a batch appear twice.
        for _ in 0..=usize::from(self.rng.random_bool(0.1)) {
            let position = Position(log.entries.len() as u64 + 1);
            let entry = Entry { position, batch: Batch { id, payload: encode(changes).unwrap().into() } };
            let _ = log.truth.apply(&entry).unwrap();
            log.entries.push(entry);
            let sessions =
                log.truth.sessions().map(|(key, session)| (HASHER.hash(&key).get(), (key, session)));
            let sessions: BTreeMap<_, _> = sessions.collect();
            log.since.retain(|hash, _| sessions.contains_key(hash));
            for hash in sessions.keys() {
                log.since.entry(*hash).or_insert(log.history.len());
            }
            log.history.push(sessions);
        }
        if self.rng.random_bool(0.02) {
            let snapshot = log.truth.snapshot().into();
            log.snapshot = Some(Snapshot { position: log.truth.position(), bytes: snapshot });
        }
    }

    /// A controller changes some sessions.
    fn change(&mut self) {
        let members = self.members();
        let Some(&to) = members.choose(&mut self.rng) else { return };
        let key = FlowKey::teid(Teid::new(self.rng.random_range(1..KEYS)));
        let session = Session { node: node(to), value: [self.rng.random(), 0] };
        let change = match self.rng.random_range(0..10) {
            0..5 => Change::Upsert(key, session),
            5..8 => Change::Move(key, session),
            _ => Change::Delete(key),
        };
        let partition = params().partitions().of(HASHER.hash(&key));
        self.append(partition, &[change]);
    }

    fn send(&mut self, from: usize, to: usize, sent: impl Fn() -> Sent) {
        if !self.is_calm && self.rng.random_bool(0.05) {
            return;
        }
        for _ in 0..=usize::from(!self.is_calm && self.rng.random_bool(0.05)) {
            let longest = if self.rng.random_bool(0.05) { 300 } else { 20 };
            let at = self.now + Duration::from_millis(self.rng.random_range(1..longest));
            self.sent += 1;
            self.packets.insert(self.sent, (from, to, sent()));
            self.net.push(Reverse((at, self.sent)));
        }
    }

    fn deliver(&mut self) {
        while let Some(&Reverse((at, number))) = self.net.peek() {
            if at > self.now {
                break;
            }
            self.net.pop();
            let (from, to, sent) = self.packets.remove(&number).unwrap();
            let is_cut = [from, to]
                .iter()
                .any(|&end| self.nodes[end].as_ref().is_none_or(|process| process.cut_until.is_some()));
            let now = self.now;
            let Some(process) = self.nodes[to].as_mut().filter(|_| !is_cut) else { continue };
            if process.paused_until.is_some() {
                // It waits in the node's socket.
                self.packets.insert(number, (from, to, sent));
                self.net.push(Reverse((now + TICK, number)));
                continue;
            }
            match sent {
                Sent::Beat(life) => process.agent.beat(node(from), life, now),
                Sent::Packet(bytes) => process.agent.packet(node(from), Packet::decode(&bytes).unwrap(), now),
            }
        }
    }

    /// One turn of a process and of what drives it.
    fn turn(&mut self, number: usize) {
        let now = self.now;
        let Some(process) = self.nodes[number].as_mut() else { return };
        if process.paused_until.is_some_and(|until| now < until) {
            return;
        }
        process.paused_until = None;
        if process.cut_until.is_some_and(|until| now >= until) {
            process.cut_until = None;
        }
        // The record is read with some delay.
        if let Some((revision, view)) = self.record.clone()
            && self.rng.random_bool(0.5)
        {
            process.agent.viewed(revision, view, now);
        }
        for partition in process.follows.clone() {
            if !self.is_calm && !self.rng.random_bool(0.7) {
                continue;
            }
            let log = &self.logs[usize::from(partition.0)];
            let at =
                process.agent.partition(partition).map_or(0, |partition| partition.position().0 as usize);
            for entry in log.entries[at..].iter().take(5) {
                let _ = process.agent.entry(partition, entry).unwrap();
            }
        }
        let actions = process.agent.poll(now);
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut process.repins).into_iter().partition(|(at, ..)| *at <= now);
        process.repins = later;
        for (_, partition, repin) in due {
            let from = repin.from;
            self.append(partition, &[Change::Repin(repin)]);
            if let Some(process) = &mut self.nodes[number] {
                process.agent.repinned(partition, from);
            }
        }
        for action in actions {
            self.act(number, action);
        }
    }

    fn act(&mut self, number: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Beat(life) => {
                for other in (0..self.nodes.len()).filter(|other| *other != number) {
                    self.send(number, other, || Sent::Beat(life));
                }
            }
            Action::Propose(expected, view) => {
                if self.record.as_ref().map(|(revision, _)| *revision) == expected {
                    let revision = Revision(expected.map_or(1, |revision| revision.0 + 1));
                    self.record = Some((revision, view));
                }
            }
            Action::Send(to, packet) => {
                let bytes = packet.encode();
                self.send(number, usize::from(to.get()), || Sent::Packet(bytes.clone()));
            }
            Action::Load(partition) => {
                let log = &self.logs[usize::from(partition.0)];
                let restored = match &log.snapshot {
                    Some(snapshot) => Partition::restore(&snapshot.bytes, HASHER).unwrap(),
                    None => Partition::new(partition, params(), HASHER),
                };
                let process = self.nodes[number].as_mut().unwrap();
                let last = Position(log.entries.len() as u64);
                if process.agent.restored(restored, last) {
                    process.follows.insert(partition);
                }
            }
            Action::Unload(partition) => {
                self.nodes[number].as_mut().unwrap().follows.remove(&partition);
            }
            Action::Repin(partition, repin) => {
                let at = now + Duration::from_millis(self.rng.random_range(0..200));
                self.nodes[number].as_mut().unwrap().repins.push((at, partition, repin));
            }
            Action::Keep(partition, snapshot) => {
                self.logs[usize::from(partition.0)].snapshot = Some(snapshot);
            }
        }
    }

    /// Nodes pause, crash and start again, are cut off.
    fn disturb(&mut self) {
        let members = self.members();
        if self.is_calm || members.len() < 3 || !self.rng.random_bool(0.005) {
            return;
        }
        let number = *members.choose(&mut self.rng).unwrap();
        let until = self.now + Duration::from_millis(self.rng.random_range(10..4_000));
        match self.rng.random_range(0..3) {
            0 => self.nodes[number].as_mut().unwrap().paused_until = Some(until),
            1 => self.nodes[number].as_mut().unwrap().cut_until = Some(until),
            _ => self.start(number),
        }
    }

    fn step(&mut self) {
        self.now += TICK;
        (0..self.nodes.len()).for_each(|number| self.turn(number));
        self.deliver();
        self.check();
    }

    fn tables(&self, number: usize) -> Option<&Memory> {
        Some(self.nodes.get(number)?.as_ref()?.agent.replica().tables())
    }

    fn has(&self, number: usize, key: &FlowKey) -> bool {
        self.tables(number).is_some_and(|tables| tables.fib.contains_key(key))
    }

    fn check(&mut self) {
        let members = self.members();
        for &ingress in &members {
            for partition in all_partitions() {
                let log = &self.logs[usize::from(partition.0)];
                let replica = self.nodes[ingress].as_ref().unwrap().agent.replica();
                let at = replica.report(partition).unwrap().gpt.0 as usize;
                let is_told = |hash: &u64| log.since.get(hash).is_some_and(|&since| since <= at);
                for (_, (key, _)) in log.history[at].iter().filter(|(hash, _)| is_told(hash)) {
                    let handling = replica.tables().named(key);
                    self.judged += 1;
                    if self.has(handling, key) || !members.contains(&handling) {
                        continue;
                    }
                    let then = self.tables(handling).map_or(handling, |tables| tables.named(key));
                    if then != handling && (!members.contains(&then) || self.has(then, key)) {
                        self.sent_on += 1;
                        continue;
                    }
                    let report = |number: usize| {
                        self.nodes[number].as_ref().map(|process| process.agent.replica().report(partition))
                    };
                    panic!(
                        "at {:?}: {ingress} ({:?}) sends {key:?} to {handling} ({:?}), which has it not and names {then}",
                        self.now,
                        report(ingress),
                        report(handling),
                    );
                }
            }
        }
    }

    /// Runs for a time with updates and trouble.
    fn live(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            if self.rng.random_bool(0.3) {
                self.change();
            }
            self.disturb();
            self.step();
        }
    }

    fn all_agree(&self) -> bool {
        let members = self.members();
        let all_up =
            self.nodes.iter().flatten().count() == members.len() && self.alive().len() == members.len();
        let dead: Vec<NodeId> =
            (0..self.nodes.len()).filter(|number| !members.contains(number)).map(node).collect();
        let orphans = |log: &Log| dead.iter().map(|node| log.truth.keys_of(*node)).sum::<usize>();
        all_up
            && self.logs.iter().all(|log| orphans(log) == 0)
            && self.nodes.iter().flatten().all(|process| {
                let replica = process.agent.replica();
                replica.leaving() == 0
                    && all_partitions().all(|partition| {
                        let truth = &self.logs[usize::from(partition.0)].truth;
                        let report = replica.report(partition).unwrap();
                        report.gpt == truth.gpt_position()
                            && report.fib == truth.fib_position(process.agent.node())
                    })
            })
    }

    /// All is over: everybody has the same bits, and each FIB what is pinned to it, no more and no less.
    fn settle(&mut self) {
        self.is_calm = true;
        for _ in 0..6_000 {
            self.step();
            if self.all_agree() {
                break;
            }
        }
        assert!(self.all_agree(), "no rest at {:?}, members {:?}", self.now, self.members());
        let members = self.members();
        let bits = self.tables(members[0]).unwrap().bits();
        let sessions = || self.logs.iter().flat_map(|log| log.truth.sessions());
        for &number in &members {
            assert_eq!(self.tables(number).unwrap().bits(), bits, "node {number}");
            let own = sessions().filter(|(_, session)| session.node == node(number));
            let wanted: HashMap<FlowKey, FibValue> = own.map(|(key, session)| (key, session.value)).collect();
            assert_eq!(self.tables(number).unwrap().fib, wanted, "node {number}");
        }
        // Nobody's keys are lost with a node that is gone.
        assert!(sessions().all(|(_, session)| members.contains(&usize::from(session.node.get()))));
    }

    fn alive(&self) -> Vec<NodeId> {
        self.record.iter().flat_map(|(_, view)| view.alive()).collect()
    }
}

/// Runs as many seeds as `SIM_SEEDS` says, or as few as a test has time for. A seed that fails is told.
fn seeds(first: u64, few: u64, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let seeds = std::env::var("SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(few);
    for seed in first..first + seeds {
        assert!(std::panic::catch_unwind(|| run(seed)).is_ok(), "seed {seed}");
    }
}

fn disturbed(seed: u64, nodes: usize) {
    let mut world = World::new(seed, nodes);
    world.live(Duration::from_secs(20));
    world.settle();
    assert!(world.judged > 1_000, "{}", world.judged);
}

#[test]
fn four_nodes_lose_no_packet() {
    seeds(0, 20, |seed| disturbed(seed, 4));
}

#[test]
fn eight_nodes_lose_no_packet() {
    seeds(10_000, 8, |seed| disturbed(seed, 8));
}

#[test]
fn a_dead_node_s_keys_are_with_others_soon() {
    seeds(20_000, 20, |seed| {
        let mut world = World::new(seed, 4);
        world.is_calm = true;
        world.live(Duration::from_secs(4));
        world.nodes[2] = None;
        let died = world.now;
        let keys_of_the_dead =
            |world: &World| world.logs.iter().map(|log| log.truth.keys_of(node(2))).sum::<usize>();
        assert!(keys_of_the_dead(&world) > 0);
        while world.alive().contains(&node(2)) {
            world.step();
        }
        assert!(
            world.now.saturating_sub(died) <= Duration::from_millis(1_200),
            "noticed after {:?}",
            world.now.saturating_sub(died)
        );
        let is_done = |world: &World| {
            keys_of_the_dead(world) == 0
                && world.logs.iter().all(|log| {
                    world.members().iter().all(|&number| {
                        let replica = world.nodes[number].as_ref().unwrap().agent.replica();
                        replica.report(log.truth.id()).unwrap().gpt == log.truth.gpt_position()
                    })
                })
        };
        while !is_done(&world) {
            world.step();
            assert!(world.now.saturating_sub(died) <= Duration::from_millis(2_500), "not over after 2.5 s");
        }
        world.settle();
    });
}

#[test]
fn from_two_to_sixteen_nodes_and_back() {
    seeds(30_000, 3, |seed| {
        let mut world = World::new(seed, 2);
        for number in 2..16 {
            world.live(Duration::from_millis(500));
            world.start(number);
        }
        world.live(Duration::from_secs(3));
        for number in (2..16).rev() {
            world.nodes[number] = None;
            world.live(Duration::from_millis(500));
        }
        world.settle();
        assert_eq!(world.alive(), [node(0), node(1)]);
    });
}
