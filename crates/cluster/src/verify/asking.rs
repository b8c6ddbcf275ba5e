//! Nodes that are asked to compare their tables, by one of them for all.

use super::{Readable, Verdict, Verifying};
use crate::event::Event;
use crate::plane::{ControlPlane, Link, Shared};
use crate::rib::Reading;
use crate::wire::Envelope;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use scalebricks_control::version::Version;
use scalebricks_types::NodeId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Differences that a node tells of, at most.
pub const MAX_TOLD: u32 = 1_000;

/// What a node has to know to compare its tables, and whom of others it waits for.
pub(crate) struct Verifications {
    node: NodeId,
    reading: Reading,
    tables: Arc<dyn Readable>,
    shared: Arc<Shared>,
    events: mpsc::Sender<Event>,
    /// One comparison at a time: each takes memory and reads all of the log.
    place: Arc<Semaphore>,
    asked: u64,
    waiting: HashMap<u64, (NodeId, oneshot::Sender<Verdict>)>,
}

impl Verifications {
    pub(crate) fn new(
        node: NodeId,
        reading: Reading,
        tables: Arc<dyn Readable>,
        shared: Arc<Shared>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let place = Arc::new(Semaphore::new(1));
        Self { node, reading, tables, shared, events, place, asked: 0, waiting: HashMap::new() }
    }

    /// Asks a node, or compares here.
    pub(crate) fn ask(&mut self, node: NodeId, told: u32, answer: oneshot::Sender<Verdict>, link: &dyn Link) {
        if node == self.node {
            return self.begin(told, move |verdict| drop(answer.send(verdict)));
        }
        self.asked += 1;
        self.waiting.insert(self.asked, (node, answer));
        link.send(node, Envelope::Verify(self.asked, told).encode(Version::FIRST));
    }

    /// Another node asks.
    pub(crate) fn asked(&self, from: NodeId, number: u64, told: u32, link: &Arc<dyn Link>) {
        let link = Arc::clone(link);
        self.begin(told, move |verdict| {
            link.send(from, Envelope::Verdict(number, verdict).encode(Version::FIRST));
        });
    }

    /// Another node answers. What was not asked of it is passed over.
    pub(crate) fn answered(&mut self, from: NodeId, number: u64, verdict: Verdict) {
        if self.waiting.get(&number).is_some_and(|(node, _)| *node == from)
            && let Some((_, answer)) = self.waiting.remove(&number)
        {
            let _gone = answer.send(verdict);
        }
    }

    /// Forgets those for whom nobody waits any more.
    pub(crate) fn tidy(&mut self) {
        self.waiting.retain(|_, (_, answer)| !answer.is_closed());
    }

    fn begin(&self, told: u32, tell: impl FnOnce(Verdict) + Send + 'static) {
        let Ok(place) = Arc::clone(&self.place).try_acquire_owned() else {
            return tell(Verdict::problem("it compares its tables already; ask again when that is done"));
        };
        let verifying = Verifying {
            node: self.node,
            partitions: self.shared.partitions,
            reading: self.reading.clone(),
            tables: Arc::clone(&self.tables),
            events: self.events.clone(),
            told: told.min(MAX_TOLD) as usize,
        };
        tokio::spawn(async move {
            let verdict = verifying.run().await;
            drop(place);
            tell(verdict);
        });
    }
}

impl ControlPlane {
    /// Has all living nodes compare their tables with the logs, each naming the first `told` differences. Their verdicts come in
    /// the order in which they are ready; `None` for a node that has not answered within `patience`. All of them wait on the
    /// receiver, so there are as many as there are nodes alive.
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
