//! The nodes, the log, the network, and what goes wrong.

use crate::cluster::callers::{Calling, Calls};
use crate::cluster::common::{HASHER, Memory, node};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use scalebricks_control::agent::{Agent, Packet};
use scalebricks_control::codec::Encoded;
use scalebricks_control::engine::{Batch, BatchId, Entry, Revision, Snapshot, WriterId};
use scalebricks_control::membership::{Beat, Placement, View};
use scalebricks_control::partition::Partition;
use scalebricks_control::record::{Change, Epoch, Session, encode};
use scalebricks_control::replay::{Amount, Limits, Replay};
use scalebricks_control::shape::Shape;
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{FlowKey, NodeId, PartitionCount, PartitionId, Position, Teid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(10);
const GRACE: Duration = Duration::from_millis(20);
const PARTITIONS: u32 = 4;
pub const FLOWS: u32 = 40;

/// How long a change of a flow may take to reach the log of one of its keys.
const WRITING: std::ops::Range<u64> = 0..300;

/// The two keys of a flow: they lie in partitions of their own.
pub fn keys_of_flow(flow: u32) -> [FlowKey; 2] {
    [FlowKey::teid(Teid::new(flow)), FlowKey::ue(Ipv4Addr::new(10, 0, 0, flow as u8).into())]
}

pub fn partitions() -> PartitionCount {
    PartitionCount::new(PARTITIONS).unwrap()
}

/// Every other seed has the other structure.
pub fn params(seed: u64) -> Params {
    Params::for_keys(Structure::ALL[(seed % 2) as usize], 8_000, 6, partitions()).unwrap()
}

pub fn all_partitions() -> impl Iterator<Item = PartitionId> {
    (0..PARTITIONS).map(|at| PartitionId(at as u16))
}

/// A process.
pub struct Process {
    pub agent: Agent<Memory>,
    /// The logs it reads.
    pub follows: BTreeSet<PartitionId>,
    /// The placement record that it knows.
    pub placement: Placement,
    pub paused_until: Option<Duration>,
    pub cut_until: Option<Duration>,
    /// Whether pulses are handed to it.
    pub listens: bool,
    /// What it has to append, and when it gets to it.
    pub appends: Vec<(Duration, PartitionId, Vec<Change>)>,
    pub calling: Calling,
    /// Snapshots that are being stored, and until when.
    pub keeps: Vec<(Duration, PartitionId, Snapshot)>,
}

/// The contents of a log's prefix.
pub struct Log {
    pub entries: Vec<Entry>,
    pub truth: Partition,
    /// What each key led to behind each entry.
    pub history: Vec<BTreeMap<u64, (FlowKey, Session)>>,
    /// Since which entry each living key has been there without a break.
    pub since: HashMap<u64, usize>,
    pub snapshot: Option<Snapshot>,
}

impl Log {
    /// The newest position.
    pub fn last(&self) -> Position {
        Position(self.entries.len() as u64)
    }

    /// The replay of a loading owner: entries, and bytes of batches.
    pub fn replay(&self) -> Amount {
        let at = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.position.0 as usize);
        let behind = &self.entries[at..];
        let bytes = behind.iter().map(|entry| entry.batch.payload.len() as u64).sum();
        Amount { entries: behind.len() as u64, bytes }
    }

    /// The bytes that are allowed between two snapshots.
    pub fn limit_bytes(&self) -> u64 {
        let snapshot_bytes = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes.len() as u64);
        Replay::new(REPLAY, snapshot_bytes).limit_bytes()
    }

    /// A log of so many entries takes its place, as after a backup was restored.
    fn rewind(&mut self, len: usize, params: Params) {
        self.entries.truncate(len);
        self.history.truncate(len + 1);
        self.snapshot.take_if(|snapshot| snapshot.position.0 > len as u64);
        self.truth = Partition::new(self.truth.id(), params, HASHER);
        for entry in &self.entries {
            let _ = self.truth.apply(entry).unwrap();
        }
        self.since = self.history[len].keys().map(|hash| (*hash, len)).collect();
    }
}

/// Few, so that a run has many snapshots.
pub const REPLAY: Limits = Limits { entries: 60, bytes: 2_000 };

pub struct World {
    pub rng: SmallRng,
    pub now: Duration,
    pub logs: Vec<Log>,
    pub record: Option<(Revision, View)>,
    /// The record of the table's shape.
    pub shape: (Revision, Shape),
    /// By number; `None`: not running.
    pub nodes: Vec<Option<Process>>,
    /// The placement record, and the number of its changes.
    pub placement: (Revision, Placement),
    /// By partition, changes that were accepted and are not in the log yet, in their order, and when they are.
    writing: Vec<VecDeque<(Duration, Change)>>,
    /// Flows of which a lost log may have kept one key and not the other, until both are set or deleted.
    pub torn: BTreeSet<u32>,
    /// How likely it is in a step that a node is drained, or may get flows again.
    pub drains: f64,
    net: BinaryHeap<Reverse<(Duration, u64)>>,
    packets: HashMap<u64, (usize, usize, Sent)>,
    sent: u64,
    batches: u64,
    pub is_calm: bool,
    /// Logs were replaced by older ones: until tables follow, they hold entries of no log.
    pub is_lost: bool,
    /// Probability per step of a request for another shape.
    pub reshapes: f64,
    /// Ingress nodes that are judged in a step, at most.
    pub judges: usize,
    pub judged: u64,
    pub sent_on: u64,
    /// Probability per step of a call.
    pub calls_made: f64,
    pub calls: Calls,
}

pub enum Sent {
    Beat(Beat),
    Packet(Vec<u8>),
    Calls(Vec<u8>),
    Answers(Vec<u8>),
}

impl World {
    pub fn new(seed: u64, nodes: usize) -> Self {
        Self::with_params(seed, nodes, params(seed))
    }

    pub fn with_params(seed: u64, nodes: usize, params: Params) -> Self {
        let log = |id| Log {
            entries: Vec::new(),
            truth: Partition::new(id, params, HASHER),
            history: vec![BTreeMap::new()],
            since: HashMap::new(),
            snapshot: None,
        };
        let mut world = Self {
            rng: SmallRng::seed_from_u64(seed),
            now: Duration::from_secs(1),
            logs: all_partitions().map(log).collect(),
            record: None,
            shape: (Revision(1), Shape::new(params)),
            placement: (Revision(1), Placement::default()),
            writing: all_partitions().map(|_| VecDeque::new()).collect(),
            torn: BTreeSet::new(),
            drains: 0.0,
            nodes: Vec::new(),
            net: BinaryHeap::new(),
            packets: HashMap::new(),
            sent: 0,
            batches: 0,
            is_calm: false,
            is_lost: false,
            reshapes: 0.0,
            judges: usize::MAX,
            judged: 0,
            sent_on: 0,
            calls_made: 0.0,
            calls: Calls::default(),
        };
        (0..nodes).for_each(|number| world.start(number));
        world
    }

    /// A process starts, with nothing in memory.
    pub fn start(&mut self, number: usize) {
        self.end_calls(number);
        self.calls.processes += 1;
        let (revision, view) = match &self.record {
            Some((revision, view)) => (Some(*revision), view.clone()),
            None => (None, View::empty(partitions())),
        };
        let tables = Memory::new(self.shape.1.now);
        let agent =
            Agent::new(node(number), tables, partitions(), view, revision, GRACE, self.now).replaying(REPLAY);
        let process = Process {
            agent,
            follows: BTreeSet::new(),
            placement: Placement::default(),
            paused_until: None,
            cut_until: None,
            listens: false,
            appends: Vec::new(),
            calling: Calling { by: self.calls.processes, ..Calling::default() },
            keeps: Vec::new(),
        };
        if self.nodes.len() <= number {
            self.nodes.resize_with(number + 1, || None);
        }
        self.nodes[number] = Some(process);
    }

    pub const fn shape(&self) -> Shape {
        self.shape.1
    }

    /// How often the shape has changed or begun to.
    pub const fn shapes_passed(&self) -> u64 {
        self.shape.0.0
    }

    /// Requests another shape. Whether it begins to change.
    pub fn ask_for(&mut self, next: Params) -> bool {
        let (revision, shape) = self.shape;
        let Some(shape) = shape.towards(next) else { return false };
        self.shape = (Revision(revision.0 + 1), shape);
        true
    }

    /// Requests any shape that names all nodes and is not too large.
    fn ask(&mut self) {
        let now = self.shape.1.now;
        let bits = self.rng.random_range(4..=8); // for up to 16 nodes
        let most = self.shape.1.first.keys_per_partition() * 4;
        let next = match self.rng.random_range(0..3) {
            0 if now.keys_per_partition() < most => now.doubled().unwrap(),
            1 => now.with_seed(self.rng.random()),
            _ => now.with_value_bits(bits).unwrap(),
        };
        let _ = self.ask_for(next);
    }

    /// Whether it runs, and others hear it.
    fn is_up(&self, number: usize) -> bool {
        let process = self.nodes.get(number).and_then(Option::as_ref);
        process.is_some_and(|process| process.paused_until.is_none() && process.cut_until.is_none())
    }

    /// Whether all hold it for alive, and it has caught up.
    pub fn is_member(&self, number: usize) -> bool {
        let Some((_, view)) = &self.record else { return false };
        self.is_up(number)
            && self.nodes[number].as_ref().is_some_and(|process| {
                let alive = |life| {
                    view.member(node(number)).is_some_and(|member| member.is_alive && member.life == life)
                };
                alive(process.agent.membership().life()) && process.agent.has_caught_up()
            })
    }

    pub fn members(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&number| self.is_member(number)).collect()
    }

    pub fn append(&mut self, partition: PartitionId, changes: &[Change]) {
        self.append_payload(partition, encode(changes).unwrap());
    }

    pub fn append_payload(&mut self, partition: PartitionId, payload: Vec<u8>) {
        self.batches += 1;
        let id = BatchId { writer: WriterId(1), number: self.batches };
        let payload: std::sync::Arc<[u8]> = payload.into();
        let is_twice = self.rng.random_bool(0.1);
        // Now and then a retry makes a batch appear twice.
        for _ in 0..=usize::from(is_twice) {
            let log = &mut self.logs[usize::from(partition.0)];
            let position = Position(log.entries.len() as u64 + 1);
            let entry = Entry { position, batch: Batch { id, payload: payload.clone() } };
            let effects = log.truth.apply(&entry).unwrap();
            log.entries.push(entry);
            let sessions =
                log.truth.sessions().map(|(key, session)| (HASHER.hash(&key).get(), (key, session)));
            let sessions: BTreeMap<_, _> = sessions.collect();
            log.since.retain(|hash, _| sessions.contains_key(hash));
            for hash in sessions.keys() {
                log.since.entry(*hash).or_insert(log.history.len());
            }
            log.history.push(sessions);
            self.applied(partition, &effects);
        }
    }

    /// The logs of all partitions are replaced by older ones.
    pub fn rewind(&mut self) {
        let first = self.shape.1.first;
        for log in &mut self.logs {
            let len = self.rng.random_range(0..=log.entries.len() / 2);
            log.rewind(len, first);
        }
        self.torn = (1..=FLOWS).collect();
    }

    /// A controller changes a flow, at any node that runs, by what that node knows, be it old. Both keys change, each when its log is reached.
    fn change(&mut self) {
        let up: Vec<usize> = (0..self.nodes.len()).filter(|&number| self.is_up(number)).collect();
        let Some(&by) = up.choose(&mut self.rng) else { return };
        let Some(process) = self.nodes[by].as_ref().filter(|process| process.agent.membership().is_in())
        else {
            return;
        };
        let view = process.agent.membership().view();
        let pins = view.alive().filter_map(|node| Some((node, view.pins_in(node)?)));
        let mut pins: Vec<(NodeId, Epoch)> = pins.collect();
        pins.retain(|&(node, _)| self.shape.1.can_name(node) && !process.placement.is_drained(node));
        let Some(&(to, epoch)) = pins.choose(&mut self.rng) else { return };
        let flow = self.rng.random_range(1..=FLOWS);
        let value = [u64::from(flow) << 32 | self.rng.random_range(0..1_000), 0];
        let session = Session { node: to, epoch, value };
        let kind = self.rng.random_range(0..10);
        if !(5..8).contains(&kind) {
            self.torn.remove(&flow);
        }
        for key in keys_of_flow(flow) {
            let change = match kind {
                0..5 => Change::Upsert(key, session),
                5..8 => Change::Move(key, session),
                _ => Change::Delete(key),
            };
            let partition = partitions().of(HASHER.hash(&key));
            let due = self.now + Duration::from_millis(self.rng.random_range(WRITING));
            self.writing[usize::from(partition.0)].push_back((due, change));
        }
    }

    /// Logs what was accepted and is due, in the order in which it was.
    fn write(&mut self) {
        for partition in all_partitions() {
            let writing = &mut self.writing[usize::from(partition.0)];
            let due = writing.iter().take_while(|(at, _)| *at <= self.now).count();
            let changes: Vec<Change> = writing.drain(..due).map(|(_, change)| change).collect();
            for change in &changes {
                self.append(partition, std::slice::from_ref(change));
            }
        }
    }

    /// Whether all that was accepted is in the logs.
    pub fn is_written(&self) -> bool {
        self.writing.iter().all(VecDeque::is_empty)
    }

    /// An operator drains a node, or lets it get flows again.
    pub fn drain(&mut self, number: usize, is_drained: bool) {
        self.placement.0.0 += 1;
        self.placement.1.set_drained(node(number), is_drained);
    }

    fn drain_any(&mut self) {
        let number = self.rng.random_range(0..self.nodes.len());
        let is_drained = self.placement.1.is_drained(node(number));
        // One at a time.
        if is_drained || self.placement.1.drained().count() == 0 {
            self.drain(number, !is_drained);
        }
    }

    pub fn send(&mut self, from: usize, to: usize, sent: impl Fn() -> Sent) {
        if !self.is_calm && self.rng.random_bool(0.05) {
            return;
        }
        // Calls and answers come once at the most, as from the mesh.
        let is_doubled = !self.is_calm
            && self.rng.random_bool(0.05)
            && !matches!(sent(), Sent::Calls(_) | Sent::Answers(_));
        for _ in 0..=usize::from(is_doubled) {
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
            if matches!(sent, Sent::Calls(_) | Sent::Answers(_)) {
                self.came(from, to, &sent);
                continue;
            }
            match sent {
                Sent::Calls(_) | Sent::Answers(_) => {}
                Sent::Beat(beat) => process.agent.beat(node(from), &beat, now),
                Sent::Packet(bytes) => {
                    process.agent.packet(node(from), Packet::decode(&bytes).unwrap(), now);
                }
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

    pub fn step(&mut self) {
        self.now += TICK;
        self.write();
        (0..self.nodes.len()).for_each(|number| self.turn(number));
        self.deliver();
        self.check();
    }

    pub fn tables(&self, number: usize) -> Option<&Memory> {
        Some(self.nodes.get(number)?.as_ref()?.agent.replica().tables())
    }

    pub fn has(&self, number: usize, key: &FlowKey) -> bool {
        self.tables(number).is_some_and(|tables| tables.fib.contains_key(key))
    }

    /// Runs for a time with updates and trouble.
    pub fn live(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            if self.rng.random_bool(0.3) {
                self.change();
            }
            self.disturb();
            if self.rng.random_bool(self.calls_made) {
                self.call();
            }
            if self.rng.random_bool(self.drains) {
                self.drain_any();
            }
            if self.rng.random_bool(self.reshapes) {
                self.ask();
            }
            self.step();
        }
    }

    /// A partition loaded from now on has the log's results, and none of its entries.
    pub fn forget_entries(&mut self) {
        for log in &mut self.logs {
            let bytes = log.truth.snapshot().into();
            log.snapshot = Some(Snapshot { position: log.truth.position(), bytes });
        }
    }

    /// Keys pinned to a node.
    pub fn keys_of(&self, node: NodeId) -> usize {
        self.logs.iter().map(|log| log.truth.keys_of(node)).sum()
    }

    pub fn alive(&self) -> Vec<NodeId> {
        self.record.iter().flat_map(|(_, view)| view.alive()).collect()
    }
}
