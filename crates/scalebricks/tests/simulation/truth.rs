//! What the logs say, read by the world itself: the history of each key, and what became of each write.

use crate::simulation::log::Log;
use crate::simulation::process::{PARTITIONS, SEED};
use scalebricks_apps::gateway::PinnedState;
use scalebricks_control::codec::Encoded;
use scalebricks_control::partition::{Outcome, Partition};
use scalebricks_control::record::{Change, Payload, Session};
use scalebricks_tables::compact::Params;
use scalebricks_types::{FlowKey, KeyHasher, PartitionCount, PartitionId, Position};
use std::collections::HashMap;
use std::time::Duration;

/// Names a write of a controller. It is the downlink TEID of what was written, and no other write has it.
pub type WriteId = u32;

/// What a key led to from a position on: a write, or nothing.
pub type Step = (Position, Option<WriteId>);

/// The state of all partitions as their logs have it now.
pub struct Truth {
    hasher: KeyHasher,
    pub partitions: Vec<Partition>,
    histories: HashMap<FlowKey, Vec<Step>>,
    /// The positions at which each write was executed for a key.
    executed: HashMap<(WriteId, FlowKey), Vec<Position>>,
    /// Positions of each partition that are in the tables of all members, and since when that is known; both rise.
    pub settled: Vec<Vec<(Position, Duration)>>,
}

/// The write of which a value is.
pub const fn write_of(session: &Session) -> WriteId {
    PinnedState::decode(session.value).downlink_teid.get()
}

impl Truth {
    pub fn new(params: Params) -> Self {
        let hasher = KeyHasher::new(SEED);
        let partition = |at| Partition::new(PartitionId(at as u16), params, hasher);
        Self {
            hasher,
            partitions: (0..PARTITIONS).map(partition).collect(),
            histories: HashMap::new(),
            executed: HashMap::new(),
            settled: vec![Vec::new(); PARTITIONS as usize],
        }
    }

    pub fn partition_of(&self, key: &FlowKey) -> PartitionId {
        PartitionCount::new(PARTITIONS).unwrap().of(self.hasher.hash(key))
    }

    /// Reads what is new.
    pub fn follow(&mut self, log: &Log) {
        for (truth, read) in self.partitions.iter_mut().zip(&log.partitions) {
            for entry in &read.entries[truth.position().0 as usize..] {
                let effects = truth.apply(entry).unwrap();
                let Ok(Payload::Calls(calls)) = Payload::decode(&entry.batch.payload) else { continue };
                for call in calls {
                    let verdict =
                        effects.calls.iter().find(|(id, _)| *id == call.id).map(|(_, verdict)| verdict);
                    let is_executed = verdict.is_some_and(|verdict| {
                        verdict.position == entry.position && verdict.outcome == Outcome::Done
                    });
                    if !is_executed {
                        continue;
                    }
                    for key in call.changes.iter().filter_map(Change::key) {
                        let write = truth.session(key).map(|(session, _)| write_of(&session));
                        let history = self.histories.entry(*key).or_default();
                        if history.last().and_then(|(_, last)| *last) != write {
                            history.push((entry.position, write));
                        }
                    }
                    for change in &call.changes {
                        if let Change::Upsert(key, session) | Change::Move(key, session) = change {
                            self.executed.entry((write_of(session), *key)).or_default().push(entry.position);
                        }
                    }
                }
            }
        }
    }

    /// Up to where a partition is settled.
    pub fn settled(&self, partition: PartitionId) -> Position {
        self.settled[usize::from(partition.0)].last().map_or(Position(0), |(position, _)| *position)
    }

    /// Somebody hears that a partition is settled up to here.
    pub fn settle(&mut self, partition: PartitionId, position: Position, now: Duration) {
        if self.settled(partition) < position {
            self.settled[usize::from(partition.0)].push((position, now));
        }
    }

    /// What a key may lead to for a packet that came in when its partition was settled up to `floor`: what it led to there, and
    /// all that it was told since. A node drops a key that was deleted when it hears that all have applied that: until then what
    /// the key led to before.
    pub fn window(&self, key: &FlowKey, floor: Position) -> Vec<Option<WriteId>> {
        let Some(history) = self.histories.get(key) else { return vec![None] };
        let behind = history.partition_point(|(position, _)| *position <= floor);
        let Some(mut first) = behind.checked_sub(1) else {
            return std::iter::once(None).chain(history.iter().map(|(_, write)| *write)).collect();
        };
        if history[first].1.is_none() {
            first = first.saturating_sub(1);
        }
        history[first..].iter().map(|(_, write)| *write).collect()
    }

    /// Whether a key was deleted in a position up to this one, and that is settled.
    pub fn is_deleted(&self, key: &FlowKey, floor: Position) -> bool {
        let Some(history) = self.histories.get(key) else { return true };
        let behind = history.partition_point(|(position, _)| *position <= floor);
        behind.checked_sub(1).is_none_or(|at| history[at].1.is_none())
    }

    /// Whether a key ever led to a write.
    pub fn ever(&self, key: &FlowKey, write: WriteId) -> bool {
        self.histories.get(key).is_some_and(|history| history.iter().any(|(_, known)| *known == Some(write)))
    }

    pub fn history(&self, key: &FlowKey) -> &[Step] {
        self.histories.get(key).map_or(&[], Vec::as_slice)
    }

    /// Where a write was executed for a key.
    pub fn executed(&self, write: WriteId, key: &FlowKey) -> &[Position] {
        self.executed.get(&(write, *key)).map_or(&[], Vec::as_slice)
    }

    /// What a key leads to now.
    pub fn session(&self, key: &FlowKey) -> Option<Session> {
        self.partitions[usize::from(self.partition_of(key).0)].session(key).map(|(session, _)| session)
    }

    /// All keys, with what they lead to now.
    pub fn sessions(&self) -> Vec<(FlowKey, Session)> {
        self.partitions.iter().flat_map(Partition::sessions).collect()
    }
}
