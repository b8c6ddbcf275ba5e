//! Remembers the recent batches of each writer of a partition, so that a retry is answered and not logged again.

use scalebricks_control::engine::{BatchId, WriterId};
use scalebricks_types::Position;
use std::collections::{HashMap, VecDeque};

/// Limits of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Batches of one writer.
    pub batches: usize,
    /// Writers of one partition.
    pub writers: usize,
}

/// What is known about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// It is in the log, at this position.
    Known(Position),
    /// Its number is above all numbers of its writer.
    New,
    /// It may have been logged long ago, or never.
    Forgotten,
}

#[derive(Debug)]
struct Window {
    highest: u64,
    newest: Position,
    recent: VecDeque<(u64, Position)>,
}

/// The writers of one partition. Bounded: the oldest batches, and the writers idle for longest, are forgotten first.
#[derive(Debug, Default)]
pub(crate) struct Writers(HashMap<WriterId, Window>);

impl Writers {
    /// What is known about a batch. One lookup, unless its number is one the writer already passed.
    pub(crate) fn find(&self, id: BatchId) -> Memory {
        match self.0.get(&id.writer) {
            None => Memory::New,
            Some(window) if id.number > window.highest => Memory::New,
            Some(window) => {
                let known = window.recent.iter().rev().find(|(number, _)| *number == id.number);
                known.map_or(Memory::Forgotten, |&(_, position)| Memory::Known(position))
            }
        }
    }

    /// Records that a batch is in the log.
    pub(crate) fn note(&mut self, id: BatchId, position: Position, limits: Limits) {
        if !self.0.contains_key(&id.writer) && self.0.len() >= limits.writers {
            let idlest = self.0.iter().min_by_key(|(_, window)| window.newest).map(|(&writer, _)| writer);
            if let Some(writer) = idlest {
                self.0.remove(&writer);
            }
        }
        let window = self.0.entry(id.writer).or_insert_with(|| Window {
            highest: 0,
            newest: position,
            recent: VecDeque::new(),
        });
        window.highest = window.highest.max(id.number);
        window.newest = position;
        if window.recent.len() >= limits.batches {
            window.recent.pop_front();
        }
        window.recent.push_back((id.number, position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(writer: u64, number: u64) -> BatchId {
        BatchId { writer: WriterId(writer), number }
    }

    #[test]
    fn the_newest_batches_and_writers_are_remembered() {
        let limits = Limits { batches: 2, writers: 2 };
        let mut writers = Writers::default();
        for n in 1..=3 {
            writers.note(id(1, n), Position(n), limits);
        }
        assert_eq!(writers.find(id(1, 1)), Memory::Forgotten);
        assert_eq!(writers.find(id(1, 2)), Memory::Known(Position(2)));
        assert_eq!(writers.find(id(1, 4)), Memory::New);
        writers.note(id(2, 1), Position(4), limits);
        writers.note(id(3, 1), Position(5), limits);
        assert_eq!(writers.find(id(1, 3)), Memory::New, "the idlest writer went");
        assert_eq!(writers.find(id(2, 1)), Memory::Known(Position(4)));
    }
}
