//! Requests to compare tables, from one node to all.

use super::{Comparison, Readable, Verdict};
use crate::event::Event;
use crate::peers::Peers;
use crate::plane::{ControlPlane, PlaneState};
use crate::rib::LogReader;
use crate::wire::Message;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use scalebricks_types::NodeId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Most differences that a node lists.
pub const MAX_DIFFERENCES: u32 = 1_000;

/// The inputs of comparisons, and the requests to other nodes.
pub(crate) struct Verifications {
    node: NodeId,
    reading: LogReader,
    tables: Arc<dyn Readable>,
    shared: Arc<PlaneState>,
    events: mpsc::Sender<Event>,
    /// One comparison at a time: each takes memory and reads all of the log.
    place: Arc<Semaphore>,
    asked: u64,
    waiting: HashMap<u64, (NodeId, oneshot::Sender<Verdict>)>,
}

impl Verifications {
    pub(crate) fn new(
        node: NodeId,
        reading: LogReader,
        tables: Arc<dyn Readable>,
        shared: Arc<PlaneState>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let place = Arc::new(Semaphore::new(1));
        Self { node, reading, tables, shared, events, place, asked: 0, waiting: HashMap::new() }
    }

    /// Asks another node, or compares this node's tables.
    pub(crate) fn ask(&mut self, node: NodeId, told: u32, answer: oneshot::Sender<Verdict>, peers: &Peers) {
        if node == self.node {
            return self.begin(told, move |verdict| drop(answer.send(verdict)));
        }
        self.asked += 1;
        self.waiting.insert(self.asked, (node, answer));
        peers.send(node, Message::Verify(self.asked, told));
    }

    /// Another node asks for a comparison.
    pub(crate) fn asked(&self, from: NodeId, number: u64, told: u32, peers: &Arc<Peers>) {
        let peers = Arc::clone(peers);
        self.begin(told, move |verdict| peers.send(from, Message::Verdict(number, verdict)));
    }

    /// Another node answered. Unrequested answers are ignored.
    pub(crate) fn answered(&mut self, from: NodeId, number: u64, verdict: Verdict) {
        if self.waiting.get(&number).is_some_and(|(node, _)| *node == from)
            && let Some((_, answer)) = self.waiting.remove(&number)
        {
            let _gone = answer.send(verdict);
        }
    }

    /// Removes requests whose callers gave up.
    pub(crate) fn tidy(&mut self) {
        self.waiting.retain(|_, (_, answer)| !answer.is_closed());
    }

    fn begin(&self, told: u32, tell: impl FnOnce(Verdict) + Send + 'static) {
        let Ok(place) = Arc::clone(&self.place).try_acquire_owned() else {
            return tell(Verdict::problem("it is already comparing its tables; ask again when that is done"));
        };
        let verifying = Comparison {
            node: self.node,
            partitions: self.shared.partitions,
            reading: self.reading.clone(),
            tables: Arc::clone(&self.tables),
            events: self.events.clone(),
            told: told.min(MAX_DIFFERENCES) as usize,
        };
        tokio::spawn(async move {
            let verdict = verifying.run().await;
            drop(place);
            tell(verdict);
        });
    }
}

impl ControlPlane {
    /// Makes all living nodes compare their tables with the logs, each listing the first `told` differences. Yields the verdicts as they
    /// are ready, one per living node; `None` for a node that has not answered within `patience`.
    pub fn verify(&self, told: u32, patience: Duration) -> mpsc::Receiver<(NodeId, Option<Verdict>)> {
        let alive: Vec<NodeId> = self.view().alive().collect();
        let (sender, verdicts) = mpsc::channel(alive.len().max(1));
        let events = self.events.clone();
        self.runtime.spawn(async move {
            let asked = alive.into_iter().map(|node| {
                let events = events.clone();
                async move {
                    let (answer, verdict) = oneshot::channel();
                    let asked = async {
                        events.send(Event::Verify(node, told, answer)).await.ok()?;
                        verdict.await.ok()
                    };
                    (node, tokio::time::timeout(patience, asked).await.ok().flatten())
                }
            });
            let mut asked: FuturesUnordered<_> = asked.collect();
            while let Some(answer) = asked.next().await {
                if sender.send(answer).await.is_err() {
                    return;
                }
            }
        });
        verdicts
    }
}
