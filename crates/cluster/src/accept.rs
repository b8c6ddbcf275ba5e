//! Accepts changes from callers: sends them to the owners of their partitions and returns the verdicts.

use super::calling::Submission;
use super::event::Event;
use super::plane::ControlPlane;
use scalebricks_control::calls::{CALL_CHANGES, Failure, Refusal};
use scalebricks_control::membership::Suspension;
use scalebricks_control::partition::{Outcome, Verdict, Void};
use scalebricks_control::record::Change;
use scalebricks_types::{NodeId, PartitionId, Position};
use std::collections::BTreeMap;
use tokio::sync::{mpsc, oneshot};

/// Why changes were not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedChanges {
    /// Too many changes wait for the log.
    #[error("too many changes wait for the log; try again soon")]
    Busy,
    /// A flow would be pinned to a node that is not alive.
    #[error("{0} is not alive: pin the flow to another")]
    NodeNotAlive(NodeId),
    /// The node was drained or dead a moment ago.
    #[error("{0} does not take flows yet; try again soon")]
    NotOpen(NodeId),
    /// The node is alive but cannot do its work.
    #[error("{0} takes no flows ({1}): pin the flow to another, or try again later")]
    Suspended(NodeId, Suspension),
    /// The table cannot name the node yet.
    #[error("the table has too few value bits for {0}, and is being given more; try again soon")]
    NotNamed(NodeId),
    /// A flow would be pinned to a node that is drained.
    #[error("{0} is drained: pin the flow to another, or end that with `scalebricks cluster undrain {number}`", number = .0.get())]
    Drained(NodeId),
    /// The table of this partition is full.
    #[error("partition {} has no room for {} more keys now; the table grows, try again soon", .0.0, .1)]
    NoRoom(PartitionId, u64),
    /// The FIB of a handling node is full.
    #[error("the FIB of {0} has no room for new flows: pin the flow to another node")]
    NodeFull(NodeId),
    /// The partition has no owner, or none that has loaded it.
    #[error("partition {} has no owner yet; try again soon", .0.0)]
    NoOwner(PartitionId),
    /// The change has no key: use [`ControlPlane::accept_in_all`].
    #[error("a change without a key is for all partitions")]
    NoKey,
    /// Too many changes in one call.
    #[error("{0} changes of one partition in one call, {CALL_CHANGES} are allowed: split them")]
    TooMany(usize),
    /// A node that was removed may still forward a key for another flow. Returned when that lasts for as long as callers wait.
    #[error("partition {}: a node that was removed may still forward one of the keys for another flow; try again soon", .0.0)]
    Delayed(PartitionId),
    /// The engine refused the changes.
    #[error("the log refused the changes: {0}")]
    Engine(String),
    /// No owner answered in time: the changes may have been made.
    #[error(
        "it is not known whether all changes were made: an owner did not answer in time; check, or send them again"
    )]
    Unknown,
    /// The process is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Why a change of a call was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefusal {
    /// It is logged and void.
    #[error(transparent)]
    Void(#[from] Void),
    /// The partition's owner did not log it.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl ChangeRefusal {
    /// Whether there was no room for it.
    pub const fn is_room(&self) -> bool {
        matches!(self, Self::Void(Void::NoRoom) | Self::Refused(Refusal::NoRoom | Refusal::NodeFull(_)))
    }
}

/// The outcome of a call's changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// Positions of logged changes, including void ones.
    positions: Vec<(PartitionId, Position)>,
    /// Changes that were not made, by their place in the call, ascending. Of many in one partition only the first are listed.
    refused: Vec<(usize, ChangeRefusal)>,
    /// Their number.
    refused_changes: usize,
}

impl Accepted {
    /// Positions of the logged changes.
    pub fn positions(&self) -> &[(PartitionId, Position)] {
        &self.positions
    }

    /// Changes that were not made, by their place in the call, ascending; all others were. Of many in one partition only the first
    /// are listed.
    pub fn refused(&self) -> &[(usize, ChangeRefusal)] {
        &self.refused
    }

    /// Number of changes that were not made.
    pub const fn refused_changes(&self) -> usize {
        self.refused_changes
    }

    /// Adds the outcome of one partition; its changes have these places in the call.
    fn over(&mut self, partition: PartitionId, places: &[usize], outcome: Result<Verdict, Refusal>) {
        let why = match outcome {
            Ok(Verdict { position, outcome, voids, void_changes }) => {
                self.positions.push((partition, position));
                match outcome {
                    Outcome::Void(why) => ChangeRefusal::Void(why),
                    Outcome::Done => {
                        let voids = voids.iter();
                        let told = voids.filter_map(|(number, why)| {
                            Some((*places.get(*number as usize)?, ChangeRefusal::Void(*why)))
                        });
                        self.refused.extend(told);
                        self.refused_changes += void_changes as usize;
                        return;
                    }
                }
            }
            Err(refusal) => ChangeRefusal::Refused(refusal),
        };
        self.refused_changes += places.len();
        self.refused.extend(places.iter().map(|place| (*place, why.clone())));
    }
}

/// The changes of one partition, and their places in the call.
#[derive(Default)]
struct Part {
    places: Vec<usize>,
    changes: Vec<Change>,
}

impl ControlPlane {
    /// Sends changes to the owners of their partitions. Pins get the epoch of this node's view. When this returns, each change was
    /// judged: it is logged and was executed, in one order with all others, or the reason why not is returned. Tables follow some
    /// milliseconds later: see [`applied`](Self::applied). If there is no room for the changes of one partition, they are refused
    /// together; those of other partitions may still be made.
    ///
    /// # Errors
    /// [`RefusedChanges`]; except for [`RefusedChanges::Unknown`] and [`RefusedChanges::Stopping`] none of the changes was made.
    pub async fn accept(&self, changes: Vec<Change>) -> Result<Accepted, RefusedChanges> {
        let mut parts: BTreeMap<PartitionId, Part> = BTreeMap::new();
        let (view, shape) = (self.shared.view.load(), self.shared.shape.load());
        let placed = self.shared.placed.load();
        for (place, mut change) in changes.into_iter().enumerate() {
            if let Change::Upsert(_, session) | Change::Move(_, session) = &mut change {
                let node = session.node;
                if !view.member(node).is_some_and(|member| member.is_alive) {
                    return Err(RefusedChanges::NodeNotAlive(node));
                }
                if placed.placement.is_drained(node) {
                    return Err(RefusedChanges::Drained(node));
                }
                if let Some(suspension) = view.suspension(node) {
                    return Err(RefusedChanges::Suspended(node, suspension));
                }
                session.epoch = view.pins_in(node).ok_or(RefusedChanges::NotOpen(node))?;
                if !shape.can_name(node) {
                    return Err(RefusedChanges::NotNamed(node));
                }
            }
            let partition = change.key().map(|key| self.shared.partition_of(key));
            let part = parts.entry(partition.ok_or(RefusedChanges::NoKey)?).or_default();
            part.places.push(place);
            part.changes.push(change);
        }
        self.submit(parts).await
    }

    /// Makes changes in every partition, for changes without a key.
    ///
    /// # Errors
    /// As [`ControlPlane::accept`].
    pub async fn accept_in_all(&self, changes: &[Change]) -> Result<Accepted, RefusedChanges> {
        let partitions = (0..self.shared.partitions.get()).map(|at| PartitionId(at as u16)); // at most 2^16
        let part = || Part { places: (0..changes.len()).collect(), changes: changes.to_vec() };
        self.submit(partitions.map(|partition| (partition, part())).collect()).await
    }

    async fn submit(&self, parts: BTreeMap<PartitionId, Part>) -> Result<Accepted, RefusedChanges> {
        let view = self.shared.view.load();
        let mut permits = Vec::new();
        for (partition, part) in &parts {
            if part.changes.len() > CALL_CHANGES {
                return Err(RefusedChanges::TooMany(part.changes.len()));
            }
            if view.owner(*partition).is_none() {
                return Err(RefusedChanges::NoOwner(*partition));
            }
            let queues = &self.shared.call_queues[usize::from(partition.0)].submissions;
            permits.push(queues.try_reserve().map_err(|error| match error {
                mpsc::error::TrySendError::Full(()) => RefusedChanges::Busy,
                mpsc::error::TrySendError::Closed(()) => RefusedChanges::Stopping,
            })?);
        }
        drop(view);
        let mut under_way = Vec::with_capacity(parts.len());
        for (permit, (partition, Part { places, changes })) in permits.into_iter().zip(parts) {
            let (answer, outcome) = oneshot::channel();
            permit.send(Submission { changes, answer });
            under_way.push((partition, places, outcome));
        }
        let (mut accepted, mut first, mut is_unknown) = (Accepted::default(), None, false);
        for (partition, places, outcome) in under_way {
            let outcome = match outcome.await.map_err(|_| RefusedChanges::Stopping)? {
                Ok(verdict) => Ok(verdict),
                Err(Failure::Refused(refusal)) => Err(refusal),
                Err(Failure::NoOwner) => Err(Refusal::NotOwner),
                Err(Failure::Unknown) => {
                    is_unknown = true;
                    continue;
                }
            };
            if let Err(refusal) = &outcome {
                let keys = places.len() as u64;
                first.get_or_insert_with(|| refused(partition, keys, refusal.clone()));
            }
            accepted.over(partition, &places, outcome);
        }
        accepted.refused.sort_by_key(|(place, _)| *place);
        match first {
            _ if is_unknown => Err(RefusedChanges::Unknown),
            Some(refused) if accepted.positions.is_empty() => Err(refused),
            _ => Ok(accepted),
        }
    }

    /// Waits until all living nodes have applied the logged changes. False: the node is stopping.
    pub async fn applied(&self, accepted: &Accepted) -> bool {
        let (answer, done) = oneshot::channel();
        self.events.send(Event::Wait(accepted.positions.clone(), answer)).await.is_ok() && done.await.is_ok()
    }
}

/// The error of a call of which nothing was logged.
fn refused(partition: PartitionId, keys: u64, refusal: Refusal) -> RefusedChanges {
    match refusal {
        Refusal::NotOwner => RefusedChanges::NoOwner(partition),
        Refusal::Busy => RefusedChanges::Busy,
        Refusal::NoRoom => RefusedChanges::NoRoom(partition, keys),
        Refusal::NodeFull(node) => RefusedChanges::NodeFull(node),
        Refusal::Log(why) => RefusedChanges::Engine(why),
        Refusal::Delayed => RefusedChanges::Delayed(partition),
    }
}
