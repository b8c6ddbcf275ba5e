//! Changes on their way to the owner of one partition: what drives [`Lane`].
//!
//! What comes while two messages have no answer goes together with the next, so under load an owner is sent few messages with many
//! calls.

use super::event::Event;
use super::identity::Identity;
use super::plane::{Link, Shared};
use super::wire::Envelope;
use scalebricks_control::calls::{Answer, Failure, Lane};
use scalebricks_control::partition::Verdict;
use scalebricks_control::record::Change;
use scalebricks_control::version::Version;
use scalebricks_types::{NodeId, PartitionId};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Submissions that wait for a partition's lane, at most; who comes then is turned away.
pub(super) const WAITING: usize = 8_192;

/// Submissions in the lane that were not sent yet; the others wait before it.
const UNSENT: usize = 1_024;

/// Messages with answers that wait for a lane. What is lost is asked for again.
pub(super) const ANSWERS: usize = 256;

/// Time between two looks at the clock and at who owns the partition, while calls have no outcome.
const TICK: Duration = Duration::from_millis(25);

/// Between two tries to draw another number.
const PATIENCE: Duration = Duration::from_millis(200);

/// Changes that go together, and who waits for their verdict.
pub(super) struct Submission {
    pub(super) changes: Vec<Change>,
    pub(super) answer: oneshot::Sender<Result<Verdict, Failure>>,
}

/// The ways into a lane.
pub(super) struct LaneWays {
    pub(super) submissions: mpsc::Sender<Submission>,
    pub(super) answers: mpsc::Sender<(NodeId, Vec<Answer>)>,
}

/// One partition's lane.
pub(super) struct Calling {
    pub(super) me: NodeId,
    pub(super) partition: PartitionId,
    pub(super) submissions: mpsc::Receiver<Submission>,
    pub(super) answers: mpsc::Receiver<(NodeId, Vec<Answer>)>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) link: Arc<dyn Link>,
    pub(super) identity: Arc<Identity>,
    /// Not held: who drops it ends the lane.
    pub(super) shared: Weak<Shared>,
}

impl Calling {
    /// Calls, until nobody can submit any more.
    pub(super) async fn run(mut self) {
        let mut lane = Lane::default();
        let start = Instant::now();
        loop {
            tokio::select! {
                biased; // the same run for the same input
                submission = self.submissions.recv(), if lane.unsent() < UNSENT => {
                    let Some(Submission { changes, answer }) = submission else { return };
                    lane.submit(changes, answer, start.elapsed());
                }
                answers = self.answers.recv() => {
                    let Some((from, answers)) = answers else { return };
                    for answer in answers {
                        lane.answered(from, answer, start.elapsed());
                    }
                }
                () = tokio::time::sleep(TICK), if !lane.is_empty() => {}
            }
            // Behind all that is ready to run: it may submit more.
            tokio::task::yield_now().await;
            while let Ok((from, answers)) = self.answers.try_recv() {
                for answer in answers {
                    lane.answered(from, answer, start.elapsed());
                }
            }
            while lane.unsent() < UNSENT
                && let Ok(Submission { changes, answer }) = self.submissions.try_recv()
            {
                lane.submit(changes, answer, start.elapsed());
            }
            if !self.go_on(&mut lane, start.elapsed()).await {
                return;
            }
        }
    }

    /// Sends what is to be sent, and tells what is over. Whether somebody is there.
    async fn go_on(&self, lane: &mut Lane<oneshot::Sender<Result<Verdict, Failure>>>, now: Duration) -> bool {
        let Some(owner) = self.shared.upgrade().map(|shared| shared.view.load().owner(self.partition)) else {
            return false;
        };
        for (to, calls) in lane.poll(owner, self.identity.get(), now) {
            if to == self.me {
                if self.events.send(Event::Called(self.partition, calls)).await.is_err() {
                    return false;
                }
            } else {
                self.link.send(to, Envelope::Calls(self.partition, calls).encode(Version::NEWEST));
            }
        }
        for (answer, outcome) in lane.take_done() {
            let _gone = answer.send(outcome);
        }
        if let Some(forgotten) = lane.retired().filter(|forgotten| *forgotten == self.identity.get()) {
            self.identity.renew(forgotten).await;
            if self.identity.get() == forgotten {
                tokio::time::sleep(PATIENCE).await;
            }
        }
        true
    }
}
