//! Calls at the owners of partitions.

use super::ownership::Ownership;
use super::{Action, Agent};
use crate::calls::{Answer, Refusal, Reply};
use crate::distribution::Tables;
use crate::partition::Judged;
use crate::record::{Call, CallId};
use scalebricks_types::{NodeId, PartitionId};

impl<T: Tables> Agent<T> {
    /// A node, which may be this one, asks for changes in a partition. Its answers are an [`Action::Answer`] when the calls are
    /// judged or refused. Calls to a partition that is not loaded yet are refused, and the caller repeats them.
    pub fn called(&mut self, from: NodeId, partition: PartitionId, calls: Vec<Call>) {
        let Some(owner) = self.owned.get(&partition).and_then(Ownership::open) else {
            let refused = calls.into_iter().map(|call| refused(call.id, &Refusal::NotOwner));
            return self.answers.entry((from, partition)).or_default().extend(refused);
        };
        let server = self.servers.entry(partition).or_default();
        let mut new = Vec::new();
        for call in calls {
            let id = call.id;
            match server.take(owner, from, call) {
                Ok(call) => new.extend(call),
                Err(reply) => {
                    let waits = reply == Reply::Refused(Refusal::Delayed);
                    self.stats.calls_delayed += u64::from(waits);
                    self.stats.calls_refused += u64::from(!waits && matches!(reply, Reply::Refused(_)));
                    self.answers.entry((from, partition)).or_default().push(Answer { id, reply });
                }
            }
        }
        if !new.is_empty() {
            self.actions.push(Action::Append(partition, new));
        }
    }

    /// Calls of an [`Action::Append`] are not in the log, and never will be.
    pub fn not_logged(&mut self, partition: PartitionId, calls: &[CallId], refusal: &Refusal) {
        let Some(server) = self.servers.get_mut(&partition) else { return };
        for id in calls {
            for node in server.over(*id) {
                self.stats.calls_refused += 1;
                self.answers.entry((node, partition)).or_default().push(refused(*id, refusal));
            }
        }
    }

    /// Calls were applied from the log.
    pub(super) fn judged(&mut self, partition: PartitionId, calls: &[Judged]) {
        let Some(server) = self.servers.get_mut(&partition) else { return };
        for (id, verdict) in calls {
            for node in server.over(*id) {
                let answer = Answer { id: *id, reply: Reply::Judged(verdict.clone()) };
                self.answers.entry((node, partition)).or_default().push(answer);
            }
        }
    }

    /// A partition is loaded, with verdicts of calls that were handed over to be logged when it was this node's before.
    pub(super) fn judged_meanwhile(&mut self, partition: PartitionId) {
        let owner = self.owned.get(&partition).and_then(Ownership::owner);
        let (Some(owner), Some(server)) = (owner, self.servers.get(&partition)) else { return };
        let known = server.calls().filter_map(|id| Some((id, owner.partition().verdict(id)?)));
        let known: Vec<Judged> = known.collect();
        self.judged(partition, &known);
    }

    /// Sends the answers that are known by now.
    pub(super) fn answer(&mut self, actions: &mut Vec<Action>) {
        let answers = std::mem::take(&mut self.answers);
        actions.extend(
            answers.into_iter().map(|((to, partition), answers)| Action::Answer(to, partition, answers)),
        );
    }
}

fn refused(id: CallId, refusal: &Refusal) -> Answer {
    Answer { id, reply: Reply::Refused(refusal.clone()) }
}
