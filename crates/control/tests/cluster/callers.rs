//! Callers at all nodes: they get the log's verdicts, and each call is executed once, whichever node owns its partition.

use crate::cluster::common::{HASHER, node};
use crate::cluster::world::{Sent, World};
use rand::Rng;
use rand::seq::IndexedRandom;
use scalebricks_control::calls::{Answer, CallClient, Failure, Refusal};
use scalebricks_control::engine::WriterId;
use scalebricks_control::partition::{Effects, Outcome, Verdict};
use scalebricks_control::record::{Call, CallId, Change, Session, encode_calls};
use scalebricks_tables::fib::FibOp;
use scalebricks_types::{FlowKey, NodeId, PartitionId, Teid};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// A process's calls, to the owners of all partitions.
#[derive(Default)]
pub struct Calling {
    /// The process's number.
    pub by: u64,
    pub lanes: BTreeMap<PartitionId, CallClient<u64>>,
    /// Batches that an owner has to append, and when it gets to it.
    pub batches: Vec<(Duration, PartitionId, Vec<Call>)>,
}

/// What is known of all calls.
#[derive(Default)]
pub struct Calls {
    /// Processes so far: each has a number of its own.
    pub processes: u64,
    made: u64,
    /// The outcomes that callers got.
    told: HashMap<u64, (PartitionId, Result<Verdict, Failure>)>,
    /// Those that a process took with it.
    lost: usize,
    /// The first verdict of each call in the log.
    first: HashMap<(PartitionId, CallId), Verdict>,
    /// How often each call has set its value.
    executed: HashMap<u64, usize>,
    /// Calls that the log has more than once, in different batches.
    pub repeated: u64,
    /// Batches that were logged by a process that died before it could tell.
    pub orphans: u64,
    /// Calls in them.
    orphaned: Vec<(PartitionId, CallId)>,
    /// Those of them that were asked for again.
    asked_again: u64,
}

impl Calls {
    pub fn outcomes(&self) -> usize {
        self.told.len()
    }

    /// Calls that were in the log, and were asked for again of another owner.
    pub const fn repeated_at_rest(&self) -> u64 {
        self.asked_again
    }

    pub fn executed(&self) -> usize {
        self.told.values().filter(|(_, told)| told.is_ok()).count()
    }
}

impl World {
    /// A caller asks for a change at some node. Its value names the call.
    pub fn call(&mut self) {
        let mut members = self.members();
        members.retain(|&number| self.shape().can_name(node(number)));
        let up: Vec<usize> = (0..self.nodes.len()).filter(|&number| self.nodes[number].is_some()).collect();
        let (Some(&to), Some(&by)) = (members.choose(&mut self.rng), up.choose(&mut self.rng)) else {
            return;
        };
        let key = FlowKey::teid(Teid::new(self.rng.random_range(1_000..1_200)));
        let token = self.calls.made + 1;
        let Some(epoch) = self.record.as_ref().and_then(|(_, view)| view.pins_in(node(to))) else { return };
        // No flow of those that the world changes.
        let change = Change::Upsert(key, Session { node: node(to), epoch, value: [token << 32, 1] });
        let partition = crate::cluster::world::partitions().of(HASHER.hash(&key));
        let now = self.now;
        let Some(process) = &mut self.nodes[by] else { return };
        self.calls.made = token;
        process.calling.lanes.entry(partition).or_default().submit(vec![change], token, now);
    }

    /// What a process does for its own callers.
    pub fn ask_owners(&mut self, number: usize) {
        let now = self.now;
        let Some(process) = &mut self.nodes[number] else { return };
        let mut sends = Vec::new();
        for (&partition, lane) in &mut process.calling.lanes {
            let owner = process.agent.membership().view().owner(partition);
            sends.extend(
                lane.poll(owner, WriterId(process.calling.by), now).into_iter().map(|send| (partition, send)),
            );
            for (token, outcome) in lane.take_done() {
                assert!(self.calls.told.insert(token, (partition, outcome)).is_none(), "told twice: {token}");
            }
        }
        for (partition, (to, calls)) in sends {
            let is_orphan = |call: &&Call| self.calls.orphaned.contains(&(partition, call.id));
            self.calls.asked_again += calls.iter().filter(is_orphan).count() as u64;
            if to == node(number) {
                if let Some(process) = &mut self.nodes[number] {
                    process.agent.called(to, partition, calls);
                }
                continue;
            }
            let bytes = borsh::to_vec(&(partition, &calls)).unwrap();
            self.send(number, usize::from(to.get()), || Sent::Calls(bytes.clone()));
        }
    }

    /// What owners do with calls: they log them, late, or not, or die in between.
    pub fn log_calls(&mut self, number: usize) {
        let now = self.now;
        let Some(process) = &mut self.nodes[number] else { return };
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut process.calling.batches).into_iter().partition(|(at, ..)| *at <= now);
        process.calling.batches = later;
        for (_, partition, calls) in due {
            if !self.is_calm && self.rng.random_bool(0.05) {
                let ids: Vec<CallId> = calls.iter().map(|call| call.id).collect();
                if let Some(process) = &mut self.nodes[number] {
                    process.agent.not_logged(partition, &ids, &Refusal::Log("the disk is full".to_owned()));
                }
                continue;
            }
            self.append_calls(partition, &calls);
        }
    }

    /// A process logs all that it has to, and ends at once.
    pub fn log_all(&mut self, number: usize) {
        let Some(process) = &mut self.nodes[number] else { return };
        let mut calling = std::mem::take(&mut process.calling);
        self.calls.lost +=
            calling.lanes.values_mut().map(|lane| lane.len() + lane.take_done().len()).sum::<usize>();
        for (_, partition, calls) in calling.batches {
            self.calls.orphaned.extend(calls.iter().map(|call| (partition, call.id)));
            self.append_calls(partition, &calls);
        }
    }

    /// Whether a process is to log calls of others.
    pub fn has_calls_of_others(&self, number: usize) -> bool {
        self.nodes[number].as_ref().is_some_and(|process| {
            let mut calls = process.calling.batches.iter().flat_map(|(.., calls)| calls);
            calls.any(|call| call.id.by.0 != process.calling.by)
        })
    }

    fn append_calls(&mut self, partition: PartitionId, calls: &[Call]) {
        for call in calls {
            self.calls.repeated +=
                u64::from(self.calls.first.contains_key(&(partition, call.id)) && !self.is_calm);
        }
        self.append_payload(partition, encode_calls(calls).unwrap());
    }

    pub fn append_later_calls(&mut self, number: usize, partition: PartitionId, calls: Vec<Call>) {
        let at = self.now + Duration::from_millis(self.rng.random_range(0..100));
        if let Some(process) = &mut self.nodes[number] {
            process.calling.batches.push((at, partition, calls));
        }
    }

    /// A process ends. What it was about to log is logged, or not.
    pub fn end_calls(&mut self, number: usize) {
        let Some(process) = self.nodes.get_mut(number).and_then(Option::as_mut) else { return };
        let mut calling = std::mem::take(&mut process.calling);
        self.calls.lost +=
            calling.lanes.values_mut().map(|lane| lane.len() + lane.take_done().len()).sum::<usize>();
        for (_, partition, calls) in calling.batches {
            if self.rng.random_bool(0.5) {
                self.calls.orphans += 1;
                self.append_calls(partition, &calls);
            }
        }
    }

    /// The log has an entry, which does this.
    pub fn applied(&mut self, partition: PartitionId, effects: &Effects) {
        for (id, verdict) in &effects.calls {
            let first = self.calls.first.entry((partition, *id)).or_insert_with(|| verdict.clone());
            assert!(first == verdict || verdict.is_forgotten(), "{id:?} was {first:?}, now {verdict:?}");
        }
        if effects.calls.is_empty() {
            return;
        }
        for op in effects.fib.iter().flat_map(|(_, update)| &update.ops) {
            if let FibOp::Set(_, [token, 1]) = op {
                *self.calls.executed.entry(*token >> 32).or_default() += 1;
            }
        }
    }

    pub fn answers(&mut self, number: usize, to: NodeId, partition: PartitionId, answers: Vec<Answer>) {
        if to == node(number) {
            return self.answered(number, to, partition, answers);
        }
        let bytes = borsh::to_vec(&(partition, &answers)).unwrap();
        self.send(number, usize::from(to.get()), || Sent::Answers(bytes.clone()));
    }

    pub fn came(&mut self, from: usize, to: usize, sent: &Sent) {
        match sent {
            Sent::Calls(bytes) => {
                let (partition, calls) = borsh::from_slice(bytes).unwrap();
                if let Some(process) = &mut self.nodes[to] {
                    process.agent.called(node(from), partition, calls);
                }
            }
            Sent::Answers(bytes) => {
                let (partition, answers) = borsh::from_slice(bytes).unwrap();
                self.answered(to, node(from), partition, answers);
            }
            Sent::Beat(_) | Sent::Packet(_) => {}
        }
    }

    fn answered(&mut self, number: usize, from: NodeId, partition: PartitionId, answers: Vec<Answer>) {
        let now = self.now;
        let Some(process) = &mut self.nodes[number] else { return };
        let Some(lane) = process.calling.lanes.get_mut(&partition) else { return };
        for answer in answers {
            lane.answered(from, answer, now);
        }
    }

    /// All callers got the log's verdicts.
    pub fn judge_calls(&mut self) {
        // No caller waits forever.
        let until = self.now + Duration::from_secs(60);
        let waiting = |world: &Self| {
            let processes = world.nodes.iter().flatten();
            processes.flat_map(|process| process.calling.lanes.values()).map(CallClient::len).sum::<usize>()
        };
        while waiting(self) > 0 {
            assert!(self.now < until, "{} calls have no outcome", waiting(self));
            self.step();
        }
        // What came in the last step is taken in the next.
        self.step();
        let Calls { made, told, lost, executed, first, .. } = &self.calls;
        assert_eq!(told.len() + lost, *made as usize);
        let known: Vec<(PartitionId, &Verdict)> =
            first.iter().map(|((partition, _), verdict)| (*partition, verdict)).collect();
        for (token, (partition, outcome)) in told {
            let times = executed.get(token).copied().unwrap_or(0);
            match outcome {
                Ok(verdict) => {
                    assert!(known.contains(&(*partition, verdict)), "{token}: {verdict:?} is not in the log");
                    // A later change of the same entry may hide it.
                    let is_done = verdict.outcome == Outcome::Done;
                    assert!(times <= usize::from(is_done), "{token} was executed {times} times: {verdict:?}");
                }
                Err(Failure::Refused(why)) => assert_eq!(times, 0, "{token} was refused: {why}"),
                Err(Failure::NoOwner) => assert_eq!(times, 0, "{token} was never sent"),
                Err(Failure::Unknown) => assert!(times <= 1, "{token}"),
            }
        }
    }
}
