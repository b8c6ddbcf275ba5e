//! What is demanded of a world: where packets lead, and that the view comes to rest.

use crate::simulation::packets::{downstream, ue, upstream};
use crate::simulation::process::id;
use crate::simulation::truth::{Truth, WriteId, write_of};
use crate::simulation::world::World;
use rand::Rng;
use scalebricks_control::membership::View;
use scalebricks_types::{FlowKey, NodeHint, NodeId, Position, Teid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

/// A packet that has not left after this time is lost.
const LOST: Duration = Duration::from_secs(20);

/// A packet under way.
struct Flight {
    key: FlowKey,
    at: usize,
    since: Duration,
    /// Up to where its partition was settled when it came in.
    floor: Position,
    /// Whether it has passed members only.
    is_steady: bool,
}

/// A change of the view.
#[derive(Debug, Clone)]
pub struct ViewChange {
    pub at: Duration,
    pub removed: Vec<NodeId>,
    pub joined: Vec<NodeId>,
}

/// What was seen so far.
#[derive(Default)]
pub struct Judge {
    flights: HashMap<u32, Flight>,
    number: u32,
    pub changes: Vec<ViewChange>,
    pub counts: Counts,
    /// Nodes that were removed together with most members, and are not back: they may have gone on with each other's leases, as
    /// those that removed them had the engine and they had the majority.
    outvoted: BTreeSet<NodeId>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub sent: u64,
    /// Packets that left, and were judged by value.
    pub judged: u64,
    /// Those of them that passed a node which was no member, and left by an older value of the same flow.
    pub older: u64,
    /// Those of keys whose deletion was logged, that left by a value that the key had before.
    pub late_drops: u64,
    /// Those that passed a node which was removed together with most members, and left by another flow's value.
    pub outvoted: u64,
    pub views: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.judged += other.judged;
        self.older += other.older;
        self.late_drops += other.late_drops;
        self.outvoted += other.outvoted;
        self.views += other.views;
    }
}

impl Judge {
    /// The view was changed.
    pub fn viewed(&mut self, at: Duration, before: &View, after: &View) {
        let life =
            |view: &View, node| view.member(node).filter(|member| member.is_alive).map(|member| member.life);
        let nodes: Vec<NodeId> = after.members().chain(before.members()).map(|(node, _)| node).collect();
        let mut nodes = nodes;
        nodes.sort_unstable();
        nodes.dedup();
        let mut change = ViewChange { at, removed: Vec::new(), joined: Vec::new() };
        for node in nodes {
            match (life(before, node), life(after, node)) {
                (Some(_), None) => change.removed.push(node),
                (None, Some(_)) => change.joined.push(node),
                (Some(old), Some(new)) if old != new => {
                    change.removed.push(node);
                    change.joined.push(node);
                }
                _ => {}
            }
        }
        let most = before.alive().count() / 2 + 1;
        if change.removed.len() >= most {
            self.outvoted.extend(&change.removed);
        }
        change.joined.iter().for_each(|node| {
            self.outvoted.remove(node);
        });
        self.counts.views += 1;
        if !change.removed.is_empty() || !change.joined.is_empty() {
            self.changes.push(change);
        }
    }

    /// Since this time each member was removed at most once, and returned at most once.
    pub fn assert_calm(&self, since: Duration) {
        let mut removed: BTreeMap<NodeId, (u32, u32)> = BTreeMap::new();
        for change in self.changes.iter().filter(|change| change.at >= since) {
            change.removed.iter().for_each(|node| removed.entry(*node).or_default().0 += 1);
            change.joined.iter().for_each(|node| removed.entry(*node).or_default().1 += 1);
        }
        for (node, (removed, joined)) in removed {
            assert!(removed <= 1 && joined <= 1, "{node} since {since:?}: {:#?}", self.changes);
        }
    }

    /// Nothing has changed since this time.
    pub fn assert_still(&self, since: Duration) {
        let last = self.changes.iter().find(|change| change.at >= since);
        assert!(last.is_none(), "not still since {since:?}: {:#?}", self.changes);
    }
}

impl World {
    /// A packet comes in at some node, for a flow that is there, was there or will be.
    pub fn packet(&mut self) {
        let at = self.rng.random_range(0..self.size());
        if self.processes[at].is_none() {
            return;
        }
        let which = self.rng.random_range(1..=crate::simulation::controllers::ADDRESSES);
        let is_up = self.rng.random_bool(0.4);
        self.packet_of(at, which, is_up);
    }

    fn packet_of(&mut self, at: usize, which: u32, is_up: bool) {
        self.judge.number += 1;
        let number = self.judge.number;
        let (key, frame) = if is_up {
            let teid = 0x1_0000 + which;
            (FlowKey::teid(Teid::new(teid)), upstream(teid, number))
        } else {
            (FlowKey::ue(IpAddr::V4(ue(which))), downstream(ue(which), number))
        };
        let floor = self.truth.settled(self.truth.partition_of(&key));
        let flight = Flight { key, at, since: self.now, floor, is_steady: self.is_member(at) };
        self.judge.flights.insert(number, flight);
        self.judge.counts.sent += 1;
        self.put_in(at, &frame, is_up);
    }

    /// A frame comes to a node over the fabric.
    pub fn passes(&mut self, node: usize, frame: &[u8]) {
        let is_member = self.is_member(node);
        if let Some(flight) = crate::simulation::packets::under_way(frame)
            .and_then(|number| self.judge.flights.get_mut(&number))
        {
            flight.is_steady &= is_member;
        }
    }

    /// A packet has left: downstream with a TEID.
    pub fn left(&mut self, node: usize, number: u32, teid: Option<WriteId>) {
        let flight = self.judge.flights.remove(&number);
        let flight = flight.unwrap_or_else(|| panic!("packet {number} left twice, or very late"));
        self.judge.counts.judged += 1;
        let is_steady = flight.is_steady && self.is_member(node);
        let window = self.truth.window(&flight.key, flight.floor);
        let is_right = match teid {
            Some(teid) => window.contains(&Some(teid)),
            None => window.iter().any(Option::is_some),
        };
        if is_right {
            return;
        }
        let told = || {
            format!(
                "seed {}, at {:?}: {:?} in at {} at {:?} left at {node} with {teid:x?}; its history backwards: {:x?}, settled {:?}; {:x?}, {:x?}",
                self.seed,
                self.now,
                flight.key,
                flight.at,
                flight.since,
                self.truth.history(&flight.key).iter().rev().take(5).collect::<Vec<_>>(),
                flight.floor,
                self.truth.session(&flight.key),
                self.held(&flight.key),
            )
        };
        // A key that was deleted goes wherever it was at any time, until all nodes have dropped it.
        let is_deleted = window.contains(&None) || self.truth.is_deleted(&flight.key, flight.floor);
        if is_deleted && teid.is_none_or(|teid| self.truth.ever(&flight.key, teid)) {
            self.judge.counts.late_drops += 1;
            return;
        }
        assert!(!is_steady, "{}", told());
        // It passed a node that is not in contact, or was not.
        if let Some(teid) = teid {
            assert!(self.truth.ever(&flight.key, teid), "never set: {}", told());
            let flow = |write: &WriteId| self.controllers.flow_of.get(write).copied();
            let is_of_flow = window.iter().flatten().any(|write| flow(write) == flow(&teid));
            let is_gone = window.iter().all(Option::is_none);
            if is_of_flow || is_gone {
                self.judge.counts.older += 1;
            } else {
                let is_outvoted =
                    [flight.at, node].map(id).iter().any(|node| self.judge.outvoted.contains(node));
                assert!(is_outvoted, "another flow: {}; {}", told(), self.standing());
                self.judge.counts.outvoted += 1;
            }
        }
    }

    /// What each node's tables say of a key: whom they name, and what they hold.
    fn held(&self, key: &FlowKey) -> Vec<(usize, Vec<NodeHint>, Option<[u64; 2]>)> {
        let processes = self.processes.iter().enumerate();
        let held = processes.filter_map(|(node, process)| Some((node, process.as_ref()?.tables.lock())));
        held.map(|(node, tables)| (node, tables.named(&[*key]), tables.value(key))).collect()
    }

    /// How nodes stand: whether the view has them alive, whether they take themselves for members, and whether they have leases.
    fn standing(&self) -> String {
        let of = |node: usize| {
            let lease = self.processes[node].as_ref().map(crate::simulation::process::Process::has_lease);
            (node, self.view.member(id(node)).map(|member| member.is_alive), self.is_member(node), lease)
        };
        format!("alive, member, lease: {:?}", (0..self.size()).map(of).collect::<Vec<_>>())
    }

    /// Forgets packets that were lost.
    pub fn forget_lost(&mut self) {
        let now = self.now;
        self.judge.flights.retain(|_, flight| now < flight.since + LOST);
    }

    /// Whether all nodes are members, nothing is under way, and all tables are as the logs say.
    pub fn is_whole(&self) -> bool {
        self.members().len() == self.size() && self.controllers.are_idle() && self.differences().is_none()
    }

    /// The first difference between a node's tables and the logs.
    pub fn differences(&self) -> Option<String> {
        let sessions = self.truth.sessions();
        let keys: Vec<FlowKey> = sessions.iter().map(|(key, _)| *key).collect();
        for (node, process) in self.processes.iter().enumerate() {
            let Some(process) = process else { continue };
            let tables = process.tables.lock();
            let named = tables.named(&keys);
            for ((key, session), named) in sessions.iter().zip(named) {
                if named != NodeHint::new(session.node.get().into()) {
                    return Some(format!("{node} sends {key:?} to {named:?}, not to {}", session.node));
                }
                let wanted = (session.node == id(node)).then_some(session.value);
                let held = tables.value(key);
                if held != wanted {
                    return Some(format!("{node} holds {held:x?} for {key:?}, not {wanted:x?}"));
                }
            }
            let here = sessions.iter().filter(|(_, session)| session.node == id(node)).count();
            if tables.room().0 != here {
                return Some(format!("{node} holds {} keys, not {here}", tables.room().0));
            }
        }
        None
    }

    /// Both keys of each flow, as one write pinned them, are at one node.
    pub fn assert_together(&self) {
        let mut nodes: BTreeMap<WriteId, NodeId> = BTreeMap::new();
        for (key, session) in self.truth.sessions() {
            let node = *nodes.entry(write_of(&session)).or_insert(session.node);
            assert_eq!(node, session.node, "seed {}: {key:?} of {:x}", self.seed, write_of(&session));
        }
    }

    /// Packets for each key, in at each node, all leave as the logs say.
    pub fn assert_delivers(&mut self) {
        (self.packets, self.requests) = (0, 0.0);
        self.run(Duration::from_millis(200));
        self.judge.flights.clear();
        for at in 0..self.size() {
            for which in 1..=crate::simulation::controllers::ADDRESSES {
                self.packet_of(at, which, false);
                self.packet_of(at, which, true);
            }
            self.run(Duration::from_millis(100));
        }
        let lost: Vec<_> =
            self.judge.flights.values().filter(|flight| self.truth.session(&flight.key).is_some()).collect();
        let told: Vec<_> = lost.iter().map(|flight| (flight.at, flight.key)).collect();
        assert!(told.is_empty(), "seed {}, at {:?}: lost {told:?}", self.seed, self.now);
    }
}

/// Says of a truth how far it is.
pub fn told(truth: &Truth) -> String {
    let ends: Vec<_> = truth.partitions.iter().map(|partition| partition.position().0).collect();
    let settled: Vec<_> = truth.partitions.iter().map(|partition| truth.settled(partition.id()).0).collect();
    format!("logs end at {ends:?}, settled {settled:?}")
}
