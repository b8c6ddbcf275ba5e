//! Readers of the structures.

use super::{FibReader, NameFib, UNKNOWN};
use crate::baselines::buffalo::{Buffalo, SideBySide};
use crate::baselines::cuckoo::Cuckoo;
use crate::baselines::orthogonal::Orthogonal;
use crate::baselines::sorted::Sorted;
use crate::baselines::{Answer, Baseline};
use scalebricks_tables::filter::BloomFilter;
use scalebricks_tables::othello::{Othello, OthelloReader};
use scalebricks_tables::setsep::{SetSep, SetSepReader};
use scalebricks_types::KeyHash;
use std::sync::Arc;

pub(super) struct OthelloFib {
    pub(super) table: Arc<Othello>,
    pub(super) is_checked: bool,
    pub(super) filter: Option<BloomFilter>,
}

impl NameFib for OthelloFib {
    fn table_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, BloomFilter::table_bytes);
        (self.table.stats().table_bytes + filter) as u64
    }

    fn slot_bytes(&self) -> Option<u64> {
        Some(self.table.stats().range_bytes as u64)
    }

    fn reader(&self) -> Box<dyn FibReader + '_> {
        let reader = OthelloReader::new(Arc::clone(&self.table));
        if let Some(filter) = &self.filter {
            Box::new(FilteredFibReader { reader, filter, known: Vec::new() })
        } else if self.is_checked {
            Box::new(CheckedFibReader { reader, found: Vec::new() })
        } else {
            Box::new(OthelloFibReader(reader))
        }
    }

    fn touched(&self, names: &[KeyHash], visit: &mut dyn FnMut(usize, *const u8)) {
        let mut reader = OthelloReader::new(Arc::clone(&self.table));
        let pin = reader.pin();
        for (place, &name) in names.iter().enumerate() {
            if let Some(filter) = &self.filter {
                filter.touched(name, &mut |at| visit(place, at));
            }
            pin.touched(name, &mut |at| visit(place, at));
        }
    }
}

struct OthelloFibReader(OthelloReader);

impl FibReader for OthelloFibReader {
    fn lookup(&mut self, names: &[KeyHash], actions: &mut [u16]) {
        if let ([name], [action]) = (names, &mut *actions) {
            *action = self.0.pin().get(*name);
        } else {
            self.0.lookup_batch(names, actions);
        }
    }
}

struct CheckedFibReader {
    reader: OthelloReader,
    found: Vec<Option<u16>>,
}

impl FibReader for CheckedFibReader {
    fn lookup(&mut self, names: &[KeyHash], actions: &mut [u16]) {
        self.found.resize(names.len(), None);
        self.reader.check_batch(names, &mut self.found);
        for (action, found) in actions.iter_mut().zip(&self.found) {
            *action = found.unwrap_or(UNKNOWN);
        }
    }
}

struct FilteredFibReader<'a> {
    reader: OthelloReader,
    filter: &'a BloomFilter,
    known: Vec<bool>,
}

impl FibReader for FilteredFibReader<'_> {
    fn lookup(&mut self, names: &[KeyHash], actions: &mut [u16]) {
        self.known.resize(names.len(), false);
        self.filter.contains_batch(names, &mut self.known);
        self.reader.lookup_batch(names, actions);
        for (action, &is_known) in actions.iter_mut().zip(&self.known) {
            *action |= u16::from(is_known).wrapping_sub(1); // UNKNOWN is all ones
        }
    }
}

pub(super) struct SetSepFib(pub(super) Arc<SetSep>);

impl NameFib for SetSepFib {
    fn table_bytes(&self) -> u64 {
        self.0.stats().table_bytes as u64
    }

    fn reader(&self) -> Box<dyn FibReader + '_> {
        Box::new(SetSepFibReader { reader: SetSepReader::new(Arc::clone(&self.0)), values: Vec::new() })
    }

    fn touched(&self, names: &[KeyHash], visit: &mut dyn FnMut(usize, *const u8)) {
        let mut reader = SetSepReader::new(Arc::clone(&self.0));
        let pin = reader.pin();
        for (place, &name) in names.iter().enumerate() {
            pin.touched(name, &mut |at| visit(place, at));
        }
    }
}

struct SetSepFibReader {
    reader: SetSepReader,
    values: Vec<u8>,
}

impl FibReader for SetSepFibReader {
    fn lookup(&mut self, names: &[KeyHash], actions: &mut [u16]) {
        if let ([name], [action]) = (names, &mut *actions) {
            *action = self.reader.pin().get(*name).into();
            return;
        }
        self.values.resize(names.len(), 0);
        self.reader.lookup_batch(names, &mut self.values);
        for (action, &value) in actions.iter_mut().zip(&self.values) {
            *action = value.into();
        }
    }
}

impl NameFib for Cuckoo {
    fn table_bytes(&self) -> u64 {
        Baseline::table_bytes(self)
    }

    fn reader(&self) -> Box<dyn FibReader + '_> {
        Box::new(CuckooFibReader { table: self, found: Vec::new() })
    }

    fn touched(&self, names: &[KeyHash], visit: &mut dyn FnMut(usize, *const u8)) {
        for (place, &name) in names.iter().enumerate() {
            Self::touched(self, name, &mut |at| visit(place, at));
        }
    }
}

struct CuckooFibReader<'a> {
    table: &'a Cuckoo,
    found: Vec<Answer>,
}

impl FibReader for CuckooFibReader<'_> {
    fn lookup(&mut self, names: &[KeyHash], actions: &mut [u16]) {
        self.found.clear();
        self.table.look_up_batch(names, &mut self.found);
        for (action, found) in actions.iter_mut().zip(&self.found) {
            *action = found.action().unwrap_or(UNKNOWN);
        }
    }
}

/// Names whose lines are prefetched before the first is read.
const AHEAD: usize = 16;

/// Looks up names one by one, with prefetching.
struct PrefetchLoop<'a, B>(&'a B);

impl<B: Baseline> FibReader for PrefetchLoop<'_, B> {
    fn lookup(&mut self, names: &[KeyHash], actions: &mut [u16]) {
        for (actions, names) in actions.chunks_mut(AHEAD).zip(names.chunks(AHEAD)) {
            if names.len() > 1 {
                for &name in names {
                    self.0.prefetch(name);
                }
            }
            for (action, &name) in actions.iter_mut().zip(names) {
                *action = self.0.look_up(name).action().unwrap_or(UNKNOWN);
            }
        }
    }
}

macro_rules! by_name {
    ($baseline:ty) => {
        impl NameFib for $baseline {
            fn table_bytes(&self) -> u64 {
                Baseline::table_bytes(self)
            }

            fn reader(&self) -> Box<dyn FibReader + '_> {
                Box::new(PrefetchLoop(self))
            }

            fn lines(&self, name: KeyHash) -> Option<usize> {
                Some(Baseline::lines(self, name))
            }

            fn is_ambiguous(&self, name: KeyHash) -> bool {
                matches!(self.look_up(name), Answer::Picked(_))
            }
        }
    };
}

by_name!(Buffalo);
by_name!(SideBySide);
by_name!(Orthogonal);
by_name!(Sorted);
