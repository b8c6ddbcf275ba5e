//! The log in memory: an index of the entries, the recent batches of writers, and the records.

use super::frame::{Frame, Seal};
use super::records::{Records, Slot};
use super::storage::StoredFile;
use crate::writers::{Limits, Writers};
use scalebricks_control::engine::BatchId;
use scalebricks_types::{PartitionId, Position};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Above every position that a log can reach: keeps arithmetic on positions from overflowing.
pub(super) const FAR: u64 = u64::MAX / 2;

/// Where an entry's frame is. The index needs 12 bytes per entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub segment: u32,
    pub offset: u32,
    pub len: u32,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub name: String,
    pub file: Arc<dyn StoredFile>,
    pub seal: Seal,
}

/// One partition's log. `places[i]` holds the entry at `first + i`; once recovered, `first == floor`.
#[derive(Debug)]
pub(super) struct PartitionLog {
    /// The entries below are trimmed.
    floor: u64,
    first: u64,
    places: VecDeque<Place>,
    /// Whether `first` comes from an entry, not from a trim that may be older than the segments still there.
    has_entries: bool,
    pub writers: Writers,
}

impl Default for PartitionLog {
    fn default() -> Self {
        let (places, writers) = (VecDeque::new(), Writers::default());
        Self { floor: 1, first: 1, places, has_entries: false, writers }
    }
}

impl PartitionLog {
    /// The position of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// The oldest position that is not trimmed.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// The places from a position on.
    pub(super) fn from(&self, position: u64) -> impl Iterator<Item = &Place> {
        let skip = position.saturating_sub(self.first);
        self.places.range(usize::try_from(skip).unwrap_or(usize::MAX).min(self.places.len())..)
    }

    fn append(
        &mut self,
        id: BatchId,
        position: Position,
        place: Place,
        limits: Limits,
    ) -> Result<(), String> {
        let next = self.next();
        let follows = position.0 == next || (!self.has_entries && position.0 > next);
        if !follows || position.0 >= FAR {
            return Err(format!("position {} where {next} should follow", position.0));
        }
        if !self.has_entries {
            self.first = position.0;
            self.has_entries = true;
        }
        self.places.push_back(place);
        self.writers.note(id, position, limits);
        Ok(())
    }

    fn trim(&mut self, below: u64) -> Result<(), String> {
        if below > self.next() {
            if self.has_entries || below >= FAR {
                return Err(format!("entries below {below} are trimmed, and {} is next", self.next()));
            }
            self.first = below;
        }
        self.floor = self.floor.max(below);
        while self.first < self.floor && self.places.pop_front().is_some() {
            self.first += 1;
        }
        if self.places.is_empty() {
            self.places.shrink_to_fit();
        }
        Ok(())
    }
}

/// The state that the log determines.
#[derive(Debug)]
pub(super) struct State {
    pub partitions: HashMap<PartitionId, PartitionLog>,
    pub records: Records,
    pub segments: BTreeMap<u32, Arc<Segment>>,
    /// The oldest needed segment.
    pub begin: u32,
    pub limits: Limits,
}

impl State {
    pub(super) fn new(limits: Limits) -> Self {
        let (partitions, segments) = (HashMap::new(), BTreeMap::new());
        Self { partitions, records: Records::default(), segments, begin: 1, limits }
    }

    /// Applies a durable frame.
    ///
    /// # Errors
    /// Why the frame is invalid here.
    pub(super) fn apply(
        &mut self,
        frame: &Frame<'_>,
        segment: u32,
        offset: u64,
        len: u32,
    ) -> Result<(), String> {
        match *frame {
            Frame::Entry { partition, position, id, .. } => {
                let offset = u32::try_from(offset).map_err(|_| "a segment longer than 4 GiB".to_owned())?;
                let place = Place { segment, offset, len };
                self.partitions.entry(partition).or_default().append(id, position, place, self.limits)?;
            }
            Frame::Record { key, revision, value } => {
                if revision.0 >= FAR {
                    return Err(format!("revision {}", revision.0));
                }
                let slot = Slot { revision, value: value.map(Arc::from), segment };
                self.records.put(key, slot)?;
            }
            Frame::Trim { partition, below } => {
                self.partitions.entry(partition).or_default().trim(below.0)?;
            }
            Frame::Revisions { newest } => {
                if newest.0 >= FAR {
                    return Err(format!("revision {}", newest.0));
                }
                self.records.advance(newest);
            }
            Frame::Begin { segment: begin } => {
                if begin > segment {
                    return Err(format!("segments below {begin} are not needed, says segment {segment}"));
                }
                self.begin = self.begin.max(begin);
            }
            Frame::Close => {}
        }
        Ok(())
    }

    /// A partition whose oldest entries are missing: its floor and its first entry.
    pub(super) fn hole(&self) -> Option<(PartitionId, u64, u64)> {
        let hole = self.partitions.iter().find(|(_, log)| log.first != log.floor)?;
        Some((*hole.0, hole.1.floor, hole.1.first))
    }

    /// The oldest untrimmed and the newest position of each partition, in order.
    pub(super) fn positions(&self) -> BTreeMap<PartitionId, (Position, Position)> {
        let ends = |log: &PartitionLog| (Position(log.floor()), Position(log.next() - 1));
        self.partitions.iter().map(|(&partition, log)| (partition, ends(log))).collect()
    }

    /// The oldest segment with an untrimmed entry. O(partitions).
    pub(super) fn oldest_needed(&self) -> Option<u32> {
        self.partitions.values().filter_map(|log| log.places.front()).map(|place| place.segment).min()
    }

    /// Number of untrimmed entries.
    pub(super) fn entries(&self) -> u64 {
        self.partitions.values().map(|log| log.places.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_control::engine::WriterId;

    const LIMITS: Limits = Limits { batches: 4, writers: 4 };

    fn log(steps: &[(&str, u64)]) -> Result<PartitionLog, String> {
        let mut log = PartitionLog::default();
        for &(step, n) in steps {
            let id = BatchId { writer: WriterId(1), number: n };
            let place = Place { segment: 1, offset: n as u32, len: 1 };
            match step {
                "entry" => log.append(id, Position(n), place, LIMITS)?,
                _ => log.trim(n)?,
            }
        }
        Ok(log)
    }

    #[test]
    fn a_log_whose_front_was_dropped_is_whole_from_its_floor() {
        // The entries up to 4 were in a removed segment; the first trim in the log is older than the last.
        let log = log(&[("trim", 3), ("entry", 5), ("entry", 6), ("trim", 5)]).unwrap();
        assert_eq!((log.floor, log.first, log.next()), (5, 5, 7));
        assert_eq!(log.from(6).map(|place| place.offset).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn holes_are_noticed() {
        assert!(log(&[("entry", 1), ("entry", 3)]).is_err());
        assert!(log(&[("entry", 2), ("entry", 1)]).is_err());
        assert!(log(&[("entry", 1), ("trim", 3)]).is_err());
        let late = log(&[("entry", 2)]).unwrap();
        assert_ne!(late.first, late.floor, "entry 1 is missing");
    }

    #[test]
    fn a_trimmed_log_goes_on_where_it_was() {
        let log = log(&[("entry", 1), ("entry", 2), ("trim", 3)]).unwrap();
        assert_eq!((log.next(), log.floor, log.from(1).count()), (3, 3, 0));
    }
}
