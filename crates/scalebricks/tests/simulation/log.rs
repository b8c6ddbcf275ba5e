//! The servers that keep the log: what they hold, and what they do and when.

use crate::simulation::hub::{ms, seconds};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_control::engine::{
    AppendError, Batch, BatchId, EngineError, Entry, ReadError, Record, Revision, Snapshot, SwapError,
};
use scalebricks_types::{PartitionId, Position};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// A server that cannot be reached is given up after this time.
const GIVEN_UP: Duration = seconds(1);

/// Something that happens at the servers at its time.
type Deed = Box<dyn FnOnce(&mut Log) + Send>;

/// One partition's log.
#[derive(Default)]
pub struct PartitionLog {
    pub entries: Vec<Entry>,
    /// When each was appended.
    times: Vec<Duration>,
    known: HashMap<BatchId, Position>,
    snapshot: Option<Snapshot>,
    /// Entries below were trimmed.
    first: u64,
}

impl PartitionLog {
    pub fn last(&self) -> Position {
        Position(self.entries.len() as u64)
    }
}

struct Watcher {
    node: usize,
    partition: PartitionId,
    next: u64,
    to: UnboundedSender<Result<Entry, ReadError>>,
}

struct RecordWatcher {
    node: usize,
    prefix: String,
    seen: u64,
    to: UnboundedSender<Result<Record, EngineError>>,
}

/// What is uncertain when a node uses the servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uncertain {
    /// How likely the outcome of an append or swap is not known.
    pub unknown: f64,
    /// How likely an append is refused.
    pub refused: f64,
}

/// How a write ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    Refused,
    /// It is done, and the answer is lost.
    DoneUnknown,
    Never,
    /// It is done after this time; its caller learns long before that the outcome is unknown.
    Late(Duration),
}

/// A node that listens to a topic, and where to.
type Subscriber = (usize, String, UnboundedSender<Arc<[u8]>>);

/// The servers.
pub struct Log {
    pub now: Duration,
    rng: SmallRng,
    pub partitions: Vec<PartitionLog>,
    records: BTreeMap<String, (Record, Duration)>,
    revision: u64,
    deeds: BTreeMap<(Duration, u64), Deed>,
    number: u64,
    /// Whether each node reaches the servers, and since when.
    reach: Vec<(bool, Duration)>,
    /// Until when each node's watches say nothing.
    pub stale_until: Vec<Duration>,
    pub uncertain: Uncertain,
    watchers: Vec<Watcher>,
    record_watchers: Vec<RecordWatcher>,
    subscribers: Vec<Subscriber>,
    /// Views as they were swapped in, with the time.
    pub views: Vec<(Duration, Arc<[u8]>)>,
}

impl Log {
    pub fn new(seed: u64, nodes: usize, partitions: usize) -> Self {
        Self {
            now: Duration::ZERO,
            rng: SmallRng::seed_from_u64(seed ^ 0x5eed),
            partitions: (0..partitions)
                .map(|_| PartitionLog { first: 1, ..PartitionLog::default() })
                .collect(),
            records: BTreeMap::new(),
            revision: 0,
            deeds: BTreeMap::new(),
            number: 0,
            reach: vec![(true, Duration::ZERO); nodes],
            stale_until: vec![Duration::ZERO; nodes],
            uncertain: Uncertain::default(),
            watchers: Vec::new(),
            record_watchers: Vec::new(),
            subscribers: Vec::new(),
            views: Vec::new(),
        }
    }

    pub fn set_reach(&mut self, node: usize, works: bool) {
        if self.reach[node].0 != works {
            self.reach[node] = (works, self.now);
        }
    }

    pub fn reaches(&self, node: usize) -> bool {
        self.reach[node].0
    }

    fn later(&mut self, delay: Duration, deed: impl FnOnce(&mut Self) + Send + 'static) {
        self.number += 1;
        self.deeds.insert((self.now + delay, self.number), Box::new(deed));
    }

    fn delay(&mut self) -> Duration {
        ms(self.rng.random_range(0..4))
    }

    /// Does what is due, and hands watchers what is new.
    pub fn run_until(&mut self, now: Duration) {
        while let Some((at, _)) = self.deeds.first_key_value().map(|(at, _)| *at)
            && at <= now
        {
            self.now = self.now.max(at);
            if let Some((_, deed)) = self.deeds.pop_first() {
                deed(self);
            }
        }
        self.now = now;
        self.pump();
        self.pump_records();
    }

    /// Asks the servers something, on behalf of a node; `None`: they do not answer.
    pub fn ask<T: Send + 'static>(
        &mut self,
        node: usize,
        ask: impl FnOnce(&mut Self) -> T + Send + 'static,
        answer: impl FnOnce(Option<T>) + Send + 'static,
    ) {
        let there = self.delay();
        self.later(there, move |log| {
            if !log.reaches(node) {
                return log.later(GIVEN_UP, |_| answer(None));
            }
            let found = ask(log);
            let back = log.delay();
            log.later(back, move |log| {
                if log.reaches(node) {
                    answer(Some(found));
                } else {
                    log.later(GIVEN_UP, |_| answer(None));
                }
            });
        });
    }

    fn fate(&mut self) -> Fate {
        let Uncertain { unknown, refused } = self.uncertain;
        if refused > 0.0 && self.rng.random_bool(refused) {
            return Fate::Refused;
        }
        if unknown == 0.0 || !self.rng.random_bool(unknown) {
            return Fate::Done;
        }
        match self.rng.random_range(0..3) {
            0 => Fate::DoneUnknown,
            1 => Fate::Never,
            _ => Fate::Late(ms(self.rng.random_range(50..6_000))),
        }
    }

    pub fn append(
        &mut self,
        node: usize,
        partition: PartitionId,
        batch: Batch,
        answer: impl FnOnce(Result<Position, AppendError>) + Send + 'static,
    ) {
        let unknown = || Err(AppendError::Unknown("no answer".to_owned()));
        match self.fate() {
            Fate::Refused => {
                let back = self.delay() * 2;
                self.later(back, |_| answer(Err(AppendError::Refused("the disk is full".to_owned()))));
            }
            Fate::Done => self.ask(
                node,
                move |log| log.add(partition, &batch),
                move |position| answer(position.map_or_else(unknown, Ok)),
            ),
            fate => {
                let waits = ms(self.rng.random_range(5..1_000));
                self.later(waits, move |_| answer(unknown()));
                let after = match fate {
                    Fate::Late(after) => after,
                    Fate::DoneUnknown => self.delay(),
                    _ => return,
                };
                self.later(after, move |log| {
                    let _position = log.add(partition, &batch);
                });
            }
        }
    }

    /// A batch under a known name is not added again, unless the servers have forgotten the name.
    fn add(&mut self, partition: PartitionId, batch: &Batch) -> Position {
        let forgets = self.rng.random_bool(0.2);
        let (now, log) = (self.now, &mut self.partitions[usize::from(partition.0)]);
        if let Some(position) = log.known.get(&batch.id).filter(|_| !forgets) {
            return *position;
        }
        let position = Position(log.last().0 + 1);
        log.known.insert(batch.id, position);
        log.entries.push(Entry { position, batch: batch.clone() });
        log.times.push(now);
        position
    }

    pub fn swap(
        &mut self,
        node: usize,
        key: String,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
        answer: impl FnOnce(Result<Revision, SwapError>) + Send + 'static,
    ) {
        let unknown = || Err(SwapError::Unknown("no answer".to_owned()));
        match self.fate() {
            Fate::Done | Fate::Refused => self.ask(
                node,
                move |log| log.set(&key, expected, value),
                move |swapped| answer(swapped.unwrap_or_else(unknown)),
            ),
            fate => {
                let waits = ms(self.rng.random_range(5..1_000));
                self.later(waits, move |_| answer(unknown()));
                let after = match fate {
                    Fate::Late(after) => after,
                    Fate::DoneUnknown => self.delay(),
                    _ => return,
                };
                self.later(after, move |log| drop(log.set(&key, expected, value)));
            }
        }
    }

    fn set(
        &mut self,
        key: &str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> Result<Revision, SwapError> {
        let current = self.records.get(key).map(|(record, _)| record.revision);
        if current != expected {
            return Err(SwapError::Conflict(current));
        }
        self.revision += 1;
        let revision = Revision(self.revision);
        if let Some(value) = value.clone().filter(|_| key == "cluster.view") {
            self.views.push((self.now, value));
        }
        let record = Record { key: key.to_owned(), revision, value };
        self.records.insert(key.to_owned(), (record, self.now));
        Ok(revision)
    }

    pub fn record(&self, key: &str) -> Option<Record> {
        self.records.get(key).map(|(record, _)| record.clone())
    }

    pub fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let log = &self.partitions[usize::from(partition.0)];
        let (from, last) = (from.0.max(1), log.last());
        if from < log.first {
            return Err(ReadError::Trimmed { partition, first: Position(log.first) });
        }
        if from > last.0 + 1 {
            return Err(ReadError::Ahead { partition, last });
        }
        let (mut read, mut bytes) = (Vec::new(), 0);
        for entry in &log.entries[from as usize - 1..] {
            if !read.is_empty() && bytes > max_bytes {
                break;
            }
            bytes += entry.batch.payload.len();
            read.push(entry.clone());
        }
        Ok(read)
    }

    pub fn put_snapshot(&mut self, partition: PartitionId, snapshot: Snapshot) {
        let log = &mut self.partitions[usize::from(partition.0)];
        if log.snapshot.as_ref().is_none_or(|known| known.position <= snapshot.position) {
            log.snapshot = Some(snapshot);
        }
    }

    pub fn snapshot(&self, partition: PartitionId) -> Option<Snapshot> {
        self.partitions[usize::from(partition.0)].snapshot.clone()
    }

    pub fn trim(&mut self, partition: PartitionId, below: Position) -> Result<(), EngineError> {
        let log = &mut self.partitions[usize::from(partition.0)];
        if log.snapshot.as_ref().is_none_or(|snapshot| snapshot.position.0 + 1 < below.0) {
            return Err(EngineError::Refused("no snapshot".to_owned()));
        }
        log.first = log.first.max(below.0);
        Ok(())
    }

    pub fn watch(
        &mut self,
        node: usize,
        partition: PartitionId,
        from: Position,
        to: UnboundedSender<Result<Entry, ReadError>>,
    ) {
        self.watchers.push(Watcher { node, partition, next: from.0.max(1), to });
    }

    pub fn watch_records(
        &mut self,
        node: usize,
        prefix: &str,
        to: UnboundedSender<Result<Record, EngineError>>,
    ) {
        self.record_watchers.push(RecordWatcher { node, prefix: prefix.to_owned(), seen: 0, to });
    }

    /// Whether a node's watches are told what is new; `None`: they break.
    fn tells(&self, node: usize) -> Option<bool> {
        let (works, since) = self.reach[node];
        if !works && self.now >= since + GIVEN_UP {
            return None;
        }
        Some(works && self.now >= self.stale_until[node])
    }

    fn pump(&mut self) {
        let mut watchers = std::mem::take(&mut self.watchers);
        watchers.retain_mut(|watcher| {
            let Some(tells) = self.tells(watcher.node) else {
                let _gone = watcher.to.send(Err(ReadError::Unavailable("no answer".to_owned())));
                return false;
            };
            if !tells || watcher.next == self.partitions[usize::from(watcher.partition.0)].last().0 + 1 {
                return !watcher.to.is_closed();
            }
            match self.read(watcher.partition, Position(watcher.next), 1 << 20) {
                Ok(entries) => {
                    watcher.next += entries.len() as u64;
                    entries.into_iter().all(|entry| watcher.to.send(Ok(entry)).is_ok())
                }
                Err(error) => {
                    let _gone = watcher.to.send(Err(error));
                    false
                }
            }
        });
        self.watchers = watchers;
    }

    fn pump_records(&mut self) {
        let mut watchers = std::mem::take(&mut self.record_watchers);
        watchers.retain_mut(|watcher| {
            let Some(tells) = self.tells(watcher.node) else {
                let _gone = watcher.to.send(Err(EngineError::Unavailable("no answer".to_owned())));
                return false;
            };
            if !tells || watcher.seen == self.revision {
                return !watcher.to.is_closed();
            }
            let mut new: Vec<&Record> = self.records.values().map(|(record, _)| record).collect();
            new.retain(|record| record.revision.0 > watcher.seen && record.key.starts_with(&watcher.prefix));
            new.sort_by_key(|record| record.revision);
            watcher.seen = self.revision;
            new.into_iter().all(|record| watcher.to.send(Ok(record.clone())).is_ok())
        });
        self.record_watchers = watchers;
    }

    pub fn publish(&mut self, topic: &str, message: &Arc<[u8]>) {
        let mut subscribers = std::mem::take(&mut self.subscribers);
        subscribers.retain(|(node, of, to)| {
            let is_told = of == topic && self.reaches(*node);
            if is_told { to.send(Arc::clone(message)).is_ok() } else { !to.is_closed() }
        });
        self.subscribers = subscribers;
    }

    pub fn subscribe(&mut self, node: usize, topic: &str, to: UnboundedSender<Arc<[u8]>>) {
        self.subscribers.push((node, topic.to_owned(), to));
    }
}
