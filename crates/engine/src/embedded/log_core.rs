//! State that callers, the writer thread and streams share.

use super::frame::Frame;
use super::listeners::Listeners;
use super::options::Options;
use super::queue::{Queue, Stop};
use super::snapshots::Snapshots;
use super::state::{PartitionLog, Place, Segment, State};
use super::storage::{Storage, read_exact_at};
use super::topics::Topics;
use scalebricks_control::engine::{Batch, Entry, ReadError, Revision};
use scalebricks_types::{PartitionId, Position};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

#[derive(Debug)]
pub(super) struct LogCore {
    pub storage: Arc<dyn Storage>,
    pub options: Options,
    pub queue: Queue,
    pub entry_listeners: Listeners<PartitionId>,
    pub record_listeners: Listeners<()>,
    pub snapshots: Snapshots,
    pub topics: Topics,
    state: RwLock<State>,
    /// The revision each watcher of records has reached.
    record_watchers: Mutex<Vec<Weak<AtomicU64>>>,
}

impl LogCore {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        options: Options,
        state: State,
        snapshots: Snapshots,
    ) -> Self {
        Self {
            storage,
            options,
            queue: Queue::new(options.queue_bytes),
            entry_listeners: Listeners::default(),
            record_listeners: Listeners::default(),
            snapshots,
            topics: Topics::default(),
            state: RwLock::new(state),
            record_watchers: Mutex::default(),
        }
    }

    /// The durable state. The lock is held briefly, and never during I/O.
    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only for the writer thread.
    pub(super) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops writing, and answers all waiting requests.
    pub(super) fn stop(&self, stop: Stop) {
        let why = stop.to_string();
        for request in self.queue.stop(stop) {
            super::group_commit::reply_stopped(request, &why);
        }
        self.entry_listeners.wake_all();
        self.record_listeners.wake_all();
    }

    /// Registers a watcher of records, which stores the revision it has reached in the returned number.
    pub(super) fn add_record_watcher(&self) -> Arc<AtomicU64> {
        let at = Arc::new(AtomicU64::new(0));
        let mut watchers = self.record_watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(Arc::downgrade(&at));
        at
    }

    pub(super) fn slowest_record_watcher(&self) -> Option<Revision> {
        let watchers = self.record_watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let at = watchers.iter().filter_map(Weak::upgrade).map(|at| at.load(Ordering::Relaxed));
        at.min().map(Revision)
    }

    /// Entries from `from` on, as many as fit, at least one; none if `from` is the next position. Each is one read of a
    /// file, mostly from the system's cache.
    pub(super) fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let from = from.0.max(1);
        let mut wanted: Vec<(Place, Arc<Segment>)> = Vec::new();
        {
            let state = self.state();
            // No reader knows an entry before `state` does: callers learn only of durable entries, which are in it.
            let next = state.partitions.get(&partition).map_or(1, PartitionLog::next);
            if from > next {
                return Err(ReadError::Ahead { partition, last: Position(next - 1) });
            }
            let Some(log) = state.partitions.get(&partition) else { return Ok(Vec::new()) };
            if from < log.floor() {
                return Err(ReadError::Trimmed { partition, first: Position(log.floor()) });
            }
            let mut bytes = 0;
            for place in log.from(from) {
                bytes += place.len as usize;
                if bytes > max_bytes && !wanted.is_empty() {
                    break;
                }
                let Some(segment) = state.segments.get(&place.segment) else {
                    let what = format!("segment {} is gone", place.segment);
                    return Err(ReadError::Damaged { partition, position: Position(from), what });
                };
                wanted.push((*place, Arc::clone(segment)));
            }
        }
        let mut entries = Vec::with_capacity(wanted.len());
        let mut buffer = Vec::new();
        for (position, (place, segment)) in (from..).map(Position).zip(&wanted) {
            match read_entry(partition, position, *place, segment, &mut buffer) {
                Ok(entry) => entries.push(entry),
                // The entries before it are good, and the next call begins here.
                Err(_) if !entries.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }
}

fn read_entry(
    partition: PartitionId,
    position: Position,
    place: Place,
    segment: &Segment,
    buffer: &mut Vec<u8>,
) -> Result<Entry, ReadError> {
    let damaged = |what: &str| {
        let what = format!("{what}, in {} at offset {}", segment.name, place.offset);
        ReadError::Damaged { partition, position, what }
    };
    buffer.resize(place.len as usize, 0);
    match read_exact_at(segment.file.as_ref(), buffer, u64::from(place.offset)) {
        Ok(true) => {}
        Ok(false) => return Err(damaged("the file is too short")),
        Err(error) => return Err(ReadError::Unavailable(format!("{}: {error}", segment.name))),
    }
    let frame = Frame::decode(buffer, segment.seal, u64::from(place.offset)).map_err(damaged)?.0;
    match frame {
        Frame::Entry { partition: p, position: at, id, payload } if (p, at) == (partition, position) => {
            Ok(Entry { position, batch: Batch { id, payload: Arc::from(payload) } })
        }
        _ => Err(damaged("another entry is stored there")),
    }
}
