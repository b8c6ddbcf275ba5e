//! Keys of a node that was removed from the view, and that forwards by the tables that it has until its lease expires. One seed, one
//! run: callers give a few keys to a few flows all the time, one node is cut off and removed, and owners are replaced.
//!
//! At every moment, for every key that the removed node forwards for a flow: the partition's settled position does not have the key for
//! another flow. While the node holds a key for a flow, the owner takes no call that gives it to another.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::common;

use common::{HASHER, Memory, node};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_control::distribution::{Message, Owner, Replica, Report};
use scalebricks_control::engine::{Batch, BatchId, Entry, WriterId};
use scalebricks_control::lease::LeaseTimes;
use scalebricks_control::partition::Partition;
use scalebricks_control::record::{Change, Closure, Epoch, Heirs, Session, encode};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{FlowKey, PartitionCount, PartitionId, Position, Teid};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

const MINE: PartitionId = PartitionId(0);
const TICK: Duration = Duration::from_millis(10);
const GRACE: Duration = Duration::from_millis(20);
const NODES: usize = 3;
/// The node that is cut off.
const CUT: usize = 2;
const KEYS: u32 = 6;
const FLOWS: u64 = 4;

fn key(number: u32) -> FlowKey {
    FlowKey::teid(Teid::new(number + 1))
}

fn params() -> Params {
    Params::for_keys(Structure::SetSep, 4_000, 3, PartitionCount::ONE).unwrap()
}

enum Packet {
    ToNode(usize, Message),
    ToOwner(usize, Report),
}

struct World {
    rng: SmallRng,
    now: Duration,
    owner: Owner,
    /// Where the log was when the owner began.
    loaded_to: Position,
    log: Vec<Entry>,
    /// The flow of each key behind each entry.
    history: Vec<BTreeMap<u32, u64>>,
    truth: Partition,
    /// Entries on their way to the log.
    writing: VecDeque<(Duration, Change)>,
    nodes: Vec<Replica<Memory>>,
    lives: [u64; NODES],
    net: Vec<(Duration, Packet)>,
    is_cut: bool,
    /// When the node was removed.
    removed: Option<Duration>,
    is_back: bool,
    taken: u64,
    delayed: u64,
    delayed_late: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let memory = || Memory::new(params());
        let mut world = Self {
            rng: SmallRng::seed_from_u64(seed),
            now: Duration::from_secs(1),
            owner: Owner::new(Partition::new(MINE, params(), HASHER)),
            loaded_to: Position(0),
            log: Vec::new(),
            history: vec![BTreeMap::new()],
            truth: Partition::new(MINE, params(), HASHER),
            writing: VecDeque::new(),
            nodes: (0..NODES).map(|_| Replica::new(memory(), PartitionCount::ONE, GRACE, 1)).collect(),
            lives: [1; NODES],
            net: Vec::new(),
            is_cut: false,
            removed: None,
            is_back: false,
            taken: 0,
            delayed: 0,
            delayed_late: 0,
        };
        (0..NODES).for_each(|number| world.owner.joined(node(number), 1));
        world
    }

    fn append(&mut self, change: Change) {
        let position = Position(self.log.len() as u64 + 1);
        let id = BatchId { writer: WriterId(1), number: position.0 };
        let entry = Entry { position, batch: Batch { id, payload: encode(&[change]).unwrap().into() } };
        let _ = self.truth.apply(&entry).unwrap();
        let flows: HashMap<FlowKey, u64> =
            self.truth.sessions().map(|(key, session)| (key, session.flow().0)).collect();
        self.history.push((0..KEYS).filter_map(|at| Some((at, *flows.get(&key(at))?))).collect());
        self.log.push(entry);
    }

    /// Whether the node that was removed may still forward.
    fn forwards(&self) -> bool {
        // Others may have granted its lease for a second more, and its clock is slow.
        let times = LeaseTimes::default();
        let until = |removed: Duration| removed + (times.forward + Duration::from_secs(1)) * 10 / 9;
        !self.is_back && self.removed.is_some_and(|removed| self.now < until(removed))
    }

    /// The flow for which the removed node holds a key.
    fn held(&self, number: u32) -> Option<u64> {
        let value = self.nodes[CUT].tables().fib.get(&key(number))?;
        self.forwards().then_some(value[0] >> 32)
    }

    /// The flow for which the removed node forwards a key: its GPT sends packets that come to it to its own FIB. Those of others do not any
    /// more when a change is settled.
    fn forwarded(&self, number: u32) -> Option<u64> {
        self.held(number).filter(|_| self.nodes[CUT].tables().named(&key(number)) == CUT)
    }

    /// A controller sets or deletes a key.
    fn call(&mut self) {
        if self.owner.partition().position() < self.loaded_to {
            return; // it takes no calls yet
        }
        let number = self.rng.random_range(0..KEYS);
        let flow = self.rng.random_range(1..=FLOWS);
        let to = self.rng.random_range(0..if self.removed.is_some() { CUT } else { NODES });
        let session = Session::new(node(to), [flow << 32 | self.rng.random_range(0..3), 0]);
        let change = match self.rng.random_range(0..4) {
            0 => Change::Delete(key(number)),
            1 => Change::Move(key(number), session),
            _ => Change::Upsert(key(number), session),
        };
        if self.owner.must_wait(&change) {
            self.delayed += 1;
            let is_late = self.removed.is_none_or(|removed| self.now > removed + Duration::from_secs(14));
            self.delayed_late += u64::from(is_late && self.now > Duration::from_secs(4));
            return;
        }
        if !matches!(change, Change::Delete(_)) {
            let held = self.held(number);
            assert!(held.is_none_or(|held| held == flow), "taken too soon at {:?}", self.now);
        }
        self.taken += 1;
        let at = self.now + Duration::from_millis(self.rng.random_range(0..100));
        self.writing.push_back((at, change));
    }

    fn send(&mut self, packet: Packet) {
        if self.rng.random_bool(0.05) {
            return;
        }
        let at = self.now + Duration::from_millis(self.rng.random_range(1..30));
        self.net.push((at, packet));
    }

    /// Another owner takes the place of this one, with the log alone.
    fn replace_owner(&mut self) {
        self.owner = Owner::new(Partition::new(MINE, params(), HASHER));
        self.loaded_to = Position(self.log.len() as u64);
        self.owner.loaded_to(self.loaded_to);
        for number in 0..NODES {
            match self.removed.filter(|_| number == CUT && !self.is_back) {
                Some(_) => self.owner.left(node(number)),
                None => self.owner.joined(node(number), self.lives[number]),
            }
        }
    }

    fn remove(&mut self) {
        self.removed = Some(self.now);
        self.owner.left(node(CUT));
        let heirs = Heirs::new((0..CUT).map(node)).unwrap();
        self.append(Change::Close(Closure { node: node(CUT), epoch: Epoch::new(1), heirs }));
    }

    /// It comes back in another life, with the tables it has.
    fn come_back(&mut self) {
        (self.is_cut, self.is_back) = (false, true);
        self.lives[CUT] += 1;
        self.nodes[CUT].live(self.lives[CUT]);
        self.owner.joined(node(CUT), self.lives[CUT]);
    }

    fn step(&mut self) {
        self.now += TICK;
        while self.writing.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, change) = self.writing.pop_front().unwrap();
            self.append(change);
        }
        let at = self.owner.partition().position().0 as usize;
        for entry in self.log[at..].iter().take(3).cloned().collect::<Vec<_>>() {
            let _ = self.owner.entry(&entry).unwrap();
        }
        self.owner.pass(self.now, LeaseTimes::default().rebind_after());
        if self.owner.partition().position().0 as usize == self.log.len() {
            for (to, message) in self.owner.messages(self.now) {
                self.send(Packet::ToNode(usize::from(to.get()), message));
            }
        }
        if self.rng.random_bool(0.3) {
            for number in 0..NODES {
                let report = self.nodes[number].report(MINE).unwrap();
                self.send(Packet::ToOwner(number, report));
            }
        }
        let (due, later) = std::mem::take(&mut self.net).into_iter().partition(|(at, _)| *at <= self.now);
        self.net = later;
        let due: Vec<(Duration, Packet)> = due;
        for (_, packet) in due {
            match packet {
                Packet::ToNode(CUT, _) | Packet::ToOwner(CUT, _) if self.is_cut => {}
                Packet::ToNode(number, message) => {
                    let _ = self.nodes[number].receive(&message, self.now);
                }
                Packet::ToOwner(number, report) => self.owner.report(node(number), report),
            }
        }
        for replica in &mut self.nodes {
            replica.poll(self.now);
        }
        self.judge();
    }

    /// The removed node forwards a key as the log has it at its settled position or later.
    fn judge(&self) {
        let from_settled = &self.history[self.owner.settled().0 as usize..];
        for (number, settled) in &from_settled[0] {
            let Some(forwarded) = self.forwarded(*number) else { continue };
            assert!(
                from_settled.iter().any(|flows| flows.get(number) == Some(&forwarded)),
                "key {number} is settled for flow {settled} at {:?}, and forwarded for {forwarded}",
                self.now
            );
        }
    }

    fn live(&mut self, time: Duration, calls: f64, replaced: f64) {
        let until = self.now + time;
        while self.now < until {
            if self.rng.random_bool(calls) {
                self.call();
            }
            if self.rng.random_bool(replaced) {
                self.replace_owner();
            }
            self.step();
        }
    }
}

fn run(seed: u64, replaced: f64, comes_back: bool) -> World {
    let mut world = World::new(seed);
    let busy = world.rng.random_range(0.05..0.5);
    let before = Duration::from_millis(world.rng.random_range(3_000..5_000));
    world.live(before, busy, replaced);
    world.is_cut = true;
    let silent = Duration::from_millis(world.rng.random_range(0..2_500));
    world.live(silent, busy, replaced);
    world.remove();
    if comes_back {
        let away = Duration::from_millis(world.rng.random_range(0..9_000));
        world.live(away, busy, replaced);
        world.come_back();
    }
    world.live(Duration::from_secs(16), busy, replaced);
    world
}

fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60)
}

#[test]
fn no_key_is_settled_for_another_flow_while_a_removed_node_may_forward_it() {
    for seed in seeds() {
        let world = run(seed, 0.0, false);
        assert!(
            world.taken > 40 && world.delayed > 0,
            "seed {seed}: {} calls taken, {} delayed",
            world.taken,
            world.delayed
        );
        assert_eq!(world.delayed_late, 0, "seed {seed}: nothing waits when the lease has expired");
        assert_eq!(world.owner.settled(), world.owner.partition().position().min(world.owner.settled()));
    }
}

#[test]
fn no_key_is_settled_too_early_while_owners_are_replaced() {
    for seed in seeds() {
        let _ = run(seed, 0.002, false);
    }
}

#[test]
fn keys_wait_until_a_returned_node_has_removed_them() {
    for seed in seeds() {
        let mut world = run(seed, 0.0, true);
        world.live(Duration::from_secs(2), 0.0, 0.0);
        let nothing_waits = (0..KEYS).all(|number| {
            let session = Session::new(node(0), [99 << 32, 0]);
            !world.owner.must_wait(&Change::Upsert(key(number), session))
        });
        assert!(nothing_waits, "seed {seed}");
    }
}

/// What waits is only what has to: a key that the removed node never had gets another flow, and a flow's key moves to an heir.
#[test]
fn other_calls_pass() {
    let mut world = World::new(1);
    let upsert = |number, to, flow: u64| Change::Upsert(key(number), Session::new(node(to), [flow << 32, 0]));
    world.append(upsert(0, CUT, 1));
    world.append(upsert(1, 0, 1));
    world.live(Duration::from_secs(2), 0.0, 0.0);
    world.is_cut = true;
    world.live(Duration::from_secs(1), 0.0, 0.0);
    world.remove();
    world.live(Duration::from_secs(1), 0.0, 0.0);
    assert!(world.owner.must_wait(&upsert(0, 0, 2)), "the removed node forwards it");
    assert!(!world.owner.must_wait(&upsert(0, 0, 1)), "the same flow");
    assert!(!world.owner.must_wait(&upsert(1, 0, 2)), "a key of another node");
    assert!(!world.owner.must_wait(&upsert(2, 1, 2)), "a new key");
    assert!(!world.owner.must_wait(&Change::Delete(key(0))));
    world.append(Change::Delete(key(0)));
    world.live(Duration::from_secs(1), 0.0, 0.0);
    assert!(world.owner.must_wait(&upsert(0, 0, 2)), "gone from the log, and not from the removed node");
    assert!(world.owner.must_wait(&upsert(0, 0, 1)), "another session with the TEID of the one before");
    world.live(Duration::from_secs(12), 0.0, 0.0);
    assert!(!world.owner.must_wait(&upsert(0, 0, 2)), "its lease has expired");
}
