//! Drives the [`CallClient`] of one partition: sends changes to the partition's owner.
//!
//! Changes that arrive while two messages have no answer share the next message, so under load an owner gets few messages with
//! many calls.

use super::event::Event;
use super::identity::Identity;
use super::peers::Peers;
use super::plane::PlaneState;
use super::wire::Message;
use scalebricks_control::calls::{Answer, CallClient, Failure};
use scalebricks_control::partition::Verdict;
use scalebricks_control::record::Change;
use scalebricks_types::{NodeId, PartitionId};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Most submissions that wait for a partition's client; more are refused.
pub(super) const WAITING: usize = 8_192;

/// Most unsent submissions in the client; others wait before it.
const UNSENT: usize = 1_024;

/// Most messages with answers that wait for a client. A lost answer is asked for again.
pub(super) const ANSWERS: usize = 256;

/// Time between two checks of the clock and of the partition's owner, while calls have no outcome.
const TICK: Duration = Duration::from_millis(25);

/// Time between two attempts to draw another number.
const PATIENCE: Duration = Duration::from_millis(200);

/// Changes that are executed together, and the channel for their verdict.
pub(super) struct Submission {
    pub(super) changes: Vec<Change>,
    pub(super) answer: oneshot::Sender<Result<Verdict, Failure>>,
}

/// The queues into the client of a partition.
pub(super) struct CallQueues {
    pub(super) submissions: mpsc::Sender<Submission>,
    pub(super) answers: mpsc::Sender<(NodeId, Vec<Answer>)>,
}

/// The client of one partition.
pub(super) struct CallDriver {
    pub(super) me: NodeId,
    pub(super) partition: PartitionId,
    pub(super) submissions: mpsc::Receiver<Submission>,
    pub(super) answers: mpsc::Receiver<(NodeId, Vec<Answer>)>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) peers: Arc<Peers>,
    pub(super) identity: Arc<Identity>,
    /// A weak reference: dropping the control plane ends the task.
    pub(super) shared: Weak<PlaneState>,
}

impl CallDriver {
    /// Runs until no submitter is left.
    pub(super) async fn run(mut self) {
        let mut client = CallClient::default();
        let start = Instant::now();
        loop {
            tokio::select! {
                biased; // the same run for the same input
                submission = self.submissions.recv(), if client.unsent() < UNSENT => {
                    let Some(Submission { changes, answer }) = submission else { return };
                    client.submit(changes, answer, start.elapsed());
                }
                answers = self.answers.recv() => {
                    let Some((from, answers)) = answers else { return };
                    for answer in answers {
                        client.answered(from, answer, start.elapsed());
                    }
                }
                () = tokio::time::sleep(TICK), if !client.is_empty() => {}
            }
            // Yields to all tasks that are ready to run: they may submit more.
            tokio::task::yield_now().await;
            while let Ok((from, answers)) = self.answers.try_recv() {
                for answer in answers {
                    client.answered(from, answer, start.elapsed());
                }
            }
            while client.unsent() < UNSENT
                && let Ok(Submission { changes, answer }) = self.submissions.try_recv()
            {
                client.submit(changes, answer, start.elapsed());
            }
            if !self.go_on(&mut client, start.elapsed()).await {
                return;
            }
        }
    }

    /// Sends what is due, and returns outcomes. Whether the control plane still exists.
    async fn go_on(
        &self,
        client: &mut CallClient<oneshot::Sender<Result<Verdict, Failure>>>,
        now: Duration,
    ) -> bool {
        let Some(owner) = self.shared.upgrade().map(|shared| shared.view.load().owner(self.partition)) else {
            return false;
        };
        for (to, calls) in client.poll(owner, self.identity.get(), now) {
            if to == self.me {
                if self.events.send(Event::Called(self.partition, calls)).await.is_err() {
                    return false;
                }
            } else {
                self.peers.send(to, Message::Calls(self.partition, calls));
            }
        }
        for (answer, outcome) in client.take_done() {
            let _gone = answer.send(outcome);
        }
        if let Some(forgotten) = client.retired().filter(|forgotten| *forgotten == self.identity.get()) {
            self.identity.renew(forgotten).await;
            if self.identity.get() == forgotten {
                tokio::time::sleep(PATIENCE).await;
            }
        }
        true
    }
}
