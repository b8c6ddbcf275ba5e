//! Controllers: they set, change, move and delete flows at any node, and use addresses and TEIDs again at once.

use crate::process::id;
use crate::truth::{Truth, WriteId};
use crate::world::World;
use rand::Rng;
use rand::seq::IndexedRandom;
use scalebricks_apps::gateway::PinnedState;
use scalebricks_cluster::plane::{Accepted, RefusedChanges};
use scalebricks_control::record::{Change, Session};
use scalebricks_elements::gateway::BaseStationId;
use scalebricks_types::{FlowKey, NodeId, PartitionId, Position, Teid};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Addresses and TEIDs that flows use in turn.
pub const ADDRESSES: u32 = 16;

/// What a caller was told, if its process still runs.
type Answer = Result<Accepted, RefusedChanges>;

/// A flow as its controller knows it.
#[derive(Debug, Clone)]
pub struct Flow {
    pub address: u32,
    pub teid: u32,
    /// Something is under way for it.
    is_busy: bool,
    /// Whether it is to be there: a deletion was not begun.
    is_wanted: bool,
    /// It was never answered that it is there.
    is_new: bool,
}

impl Flow {
    pub fn keys(&self) -> [FlowKey; 2] {
        [FlowKey::ue(IpAddr::V4(crate::packets::ue(self.address))), FlowKey::teid(Teid::new(self.teid))]
    }
}

/// One request, as it was sent to one node or several.
struct Request {
    flow: u64,
    write: Option<WriteId>,
    keys: [FlowKey; 2],
    answers: Vec<oneshot::Receiver<Answer>>,
    told: Vec<Answer>,
    /// What was answered to others before this was sent, by partition.
    before: Vec<Position>,
}

#[derive(Default)]
pub struct Controllers {
    pub flows: BTreeMap<u64, Flow>,
    next_flow: u64,
    next_write: WriteId,
    free_addresses: VecDeque<u32>,
    free_teids: VecDeque<u32>,
    requests: Vec<Request>,
    /// The flow of each write.
    pub flow_of: HashMap<WriteId, u64>,
    /// Writes that all nodes asked have refused: they are never made.
    refused: HashSet<WriteId>,
    /// What was answered, by partition: the newest position.
    answered: Vec<Position>,
    /// What callers have heard to be in all tables.
    settled: Arc<Mutex<Vec<(PartitionId, Position)>>>,
    pub made: u64,
    pub unknown: u64,
}

impl Controllers {
    pub fn new() -> Self {
        Self {
            free_addresses: (1..=ADDRESSES).collect(),
            free_teids: (0x1_0001..=0x1_0000 + ADDRESSES).collect(),
            next_write: 0x2000_0000,
            answered: vec![Position(0); crate::process::PARTITIONS as usize],
            ..Self::default()
        }
    }

    /// Whether nothing is under way.
    pub fn are_idle(&self) -> bool {
        self.requests.is_empty()
    }

    fn value(&mut self, flow: u64, teid: u32) -> (WriteId, [u64; 2]) {
        self.next_write += 1;
        self.flow_of.insert(self.next_write, flow);
        let state = PinnedState {
            downlink_teid: Teid::new(self.next_write),
            uplink_teid: Teid::new(teid),
            base_station: BaseStationId(0),
            qfi: None,
        };
        (self.next_write, state.encode())
    }

    /// The changes that pin a flow, with another downlink TEID than ever before.
    fn pin(&mut self, flow: u64, to: NodeId) -> (WriteId, Vec<Change>) {
        let (keys, teid) = (self.flows[&flow].keys(), self.flows[&flow].teid);
        let (write, value) = self.value(flow, teid);
        (write, keys.map(|key| Change::Upsert(key, Session::new(to, value))).to_vec())
    }

    /// Takes in what is settled.
    pub fn settle(&self, truth: &mut Truth, now: Duration) {
        for (partition, position) in self.settled.lock().unwrap().drain(..) {
            truth.settle(partition, position, now);
        }
    }

    /// Those that were all refused were never made.
    pub fn judge_refused(&self, truth: &Truth) {
        for flow in self.flows.values() {
            for key in flow.keys() {
                let made = truth.history(&key).iter().filter_map(|(_, write)| *write);
                made.for_each(|write| {
                    assert!(!self.refused.contains(&write), "{write:#x} was refused, and made");
                });
            }
        }
    }
}

impl World {
    /// A controller asks for something, at one node or at two.
    pub fn request(&mut self) {
        let alive: Vec<usize> = (0..self.size()).filter(|node| self.is_member(*node)).collect();
        let Some(&to) = alive.choose(&mut self.rng) else { return };
        let idle: Vec<u64> =
            self.controllers.flows.iter().filter(|(_, flow)| !flow.is_busy).map(|(id, _)| *id).collect();
        let chance = self.rng.random_range(0..10);
        let controllers = &mut self.controllers;
        let (flow, write, changes) = match idle.choose(&mut self.rng) {
            Some(&flow) if chance < 7 => {
                let known = controllers.flows.get_mut(&flow).unwrap();
                let is_deletion = !known.is_wanted || known.is_new || chance < 2;
                if is_deletion {
                    known.is_wanted = false;
                    (flow, None, known.keys().map(Change::Delete).to_vec())
                } else {
                    let (write, changes) = controllers.pin(flow, id(to));
                    (flow, Some(write), changes)
                }
            }
            _ => {
                let (Some(address), Some(teid)) =
                    (controllers.free_addresses.pop_front(), controllers.free_teids.pop_front())
                else {
                    return;
                };
                controllers.next_flow += 1;
                let flow = controllers.next_flow;
                let new = Flow { address, teid, is_busy: false, is_wanted: true, is_new: true };
                controllers.flows.insert(flow, new);
                let (write, changes) = controllers.pin(flow, id(to));
                (flow, Some(write), changes)
            }
        };
        controllers.flows.get_mut(&flow).unwrap().is_busy = true;
        let copies = if self.rng.random_bool(0.15) { 2 } else { 1 };
        self.send_request(flow, write, &changes, copies);
    }

    fn send_request(&mut self, flow: u64, write: Option<WriteId>, changes: &[Change], copies: usize) {
        let started: Vec<usize> = (0..self.size())
            .filter(|node| {
                self.runs(*node) && self.processes[*node].as_ref().is_some_and(|p| p.plane().is_some())
            })
            .collect();
        let mut answers = Vec::new();
        for &at in started.choose_multiple(&mut self.rng, copies) {
            let process = self.processes[at].as_ref().unwrap();
            let (answer, answered) = oneshot::channel();
            let (plane, changes) = (process.plane().unwrap().clone(), changes.to_vec());
            let settled = Arc::clone(&self.controllers.settled);
            process.spawn(async move {
                let told = plane.accept(changes).await;
                let accepted = told.clone();
                let _gone = answer.send(told);
                if let Ok(accepted) = accepted
                    && plane.applied(&accepted).await
                {
                    settled.lock().unwrap().extend(accepted.positions());
                }
            });
            answers.push(answered);
        }
        let controllers = &mut self.controllers;
        controllers.made += 1;
        let (keys, before) = (controllers.flows[&flow].keys(), controllers.answered.clone());
        controllers.requests.push(Request { flow, write, keys, answers, told: Vec::new(), before });
    }

    /// Hears what became of requests.
    pub fn hear_answers(&mut self) {
        let mut over = Vec::new();
        let requests = std::mem::take(&mut self.controllers.requests);
        for mut request in requests {
            request.answers.retain_mut(|answer| match answer.try_recv() {
                Ok(told) => {
                    request.told.push(told);
                    false
                }
                Err(oneshot::error::TryRecvError::Empty) => true,
                Err(oneshot::error::TryRecvError::Closed) => {
                    request.told.push(Err(RefusedChanges::Unknown));
                    false
                }
            });
            if request.answers.is_empty() {
                over.push(request);
            } else {
                self.controllers.requests.push(request);
            }
        }
        for request in over {
            self.answered(&request);
        }
    }

    fn answered(&mut self, request: &Request) {
        let (controllers, truth) = (&mut self.controllers, &self.truth);
        for accepted in request.told.iter().flatten() {
            for (partition, position) in accepted.positions() {
                let at = usize::from(partition.0);
                assert!(
                    *position > request.before[at],
                    "{:?}: answered {position:?} of {partition:?}, and {:?} was answered before it was asked for",
                    self.now,
                    request.before[at],
                );
                controllers.answered[at] = controllers.answered[at].max(*position);
            }
            if let Some(write) = request.write.filter(|_| accepted.refused().is_empty()) {
                for key in &request.keys {
                    let partition = truth.partition_of(key);
                    let told = accepted.positions().iter().find(|(of, _)| *of == partition).unwrap().1;
                    let executed = truth.executed(write, key);
                    assert!(executed.contains(&told), "{write:#x} at {told:?}, executed at {executed:?}");
                }
            }
        }
        for key in request.write.iter().flat_map(|write| request.keys.map(|key| truth.executed(*write, &key)))
        {
            assert!(key.len() <= request.told.len(), "executed too often: {key:?}");
        }
        let is_done =
            request.told.iter().any(|told| told.as_ref().is_ok_and(|told| told.refused_changes() == 0));
        let is_unknown =
            |told: &Answer| matches!(told, Err(RefusedChanges::Unknown | RefusedChanges::Stopping));
        // Void changes of a deletion: the keys are not there.
        let is_deleted = request.write.is_none() && request.told.iter().any(Result::is_ok);
        let is_refused =
            !request.told.is_empty() && request.told.iter().all(|told| told.is_err() && !is_unknown(told));
        let is_unknown = request.told.iter().any(is_unknown);
        controllers.unknown += u64::from(is_unknown);
        let flow = controllers.flows.get_mut(&request.flow).unwrap();
        flow.is_busy = false;
        if is_done && request.write.is_some() {
            flow.is_new = false;
        }
        if let Some(write) = request.write.filter(|_| is_refused) {
            controllers.refused.insert(write);
        }
        if is_deleted && !flow.is_wanted {
            // Both are used again by others, and not together.
            controllers.free_addresses.push_front(flow.address);
            controllers.free_teids.push_back(flow.teid);
            controllers.flows.remove(&request.flow);
        }
    }
}
